"""The tokens that models read: their checks, and those that are made from a count."""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _checks
from .._checks import ArgumentError, ArgumentTypeError
from ..numerics.batches import DEFAULT_MEMORY

if TYPE_CHECKING:
    from ._family import Settings

_BYTES_A_PAIR = 256  # 64 token matrices of float32: about what the Gram reading holds of one draw
_SHOWN_IDS = 12


@dataclass(frozen=True)
class ExampleTokens:
    """Tokens that were made from a count.

    Args:
        tokens: What `from_config` reads.
        description: The tokens in words.
        config: The keys that must change for these tokens, with their values.
    """

    tokens: Any
    description: str
    config: Mapping[str, Any] = field(default_factory=dict)


class TokenReader(abc.ABC):
    """What a family of models reads.

    A subclass says in `expected` what to give, as the object of "Give ...".
    """

    expected: str

    @abc.abstractmethod
    def counted(self, settings: "Settings", count: int) -> ExampleTokens:
        """`count` distinct tokens."""

    @abc.abstractmethod
    def example(self, settings: "Settings", tokens: int | Sequence[int], seed: int) -> ExampleTokens:
        """Tokens for an inspection.

        Args:
            settings: The configuration.
            tokens: Their number or their ids.
            seed: For whatever is random in them.

        Returns:
            The tokens, with their description.
        """

    @abc.abstractmethod
    def model_arguments(self, tokens: Any) -> dict[str, Any]:
        """The arguments of a model of transformers: arrays without the axis of the batch, and plain values."""


class TokenIds(TokenReader):
    """Token ids.

    Args:
        longest: The key that bounds the length of a sequence.
    """

    expected = (
        "a list of token ids, such as tokens=[3, 17, 5, 3], a list of such lists, or a number of distinct tokens, "
        "such as tokens=8"
    )

    def __init__(self, longest: str) -> None:
        self.longest = longest

    def counted(self, settings: "Settings", count: int) -> ExampleTokens:
        vocabulary, padding = self._vocabulary(settings)
        self._check_count(settings, count)
        available = vocabulary - (padding is not None)
        if count > available:
            raise ArgumentError(
                "tokens",
                f"tokens={count} exceeds the {available} distinct ids that vocab_size={vocabulary} allows. "
                f"Use at most {available}, or give a list of ids.",
            )
        ids = [i for i in range(count + 1) if i != padding][:count]
        return ExampleTokens(ids, _ids_in_words(ids))

    def example(self, settings: "Settings", tokens: int | Sequence[int], seed: int) -> ExampleTokens:
        """Distinct ids, none of them padding, except that the one in the middle repeats the first."""
        del seed
        if isinstance(tokens, Sequence):
            ids = list(tokens)
            return ExampleTokens(ids, _ids_in_words(ids))
        count = int(tokens)
        self._check_count(settings, count)
        vocabulary, padding = self._vocabulary(settings)
        usable = [i for i in range(1, min(vocabulary, count + 2)) if i != padding] or [0]
        ids = [usable[i % len(usable)] for i in range(count)]
        if count > 2:
            ids[(count + 1) // 2] = ids[0]
        return ExampleTokens(ids, _ids_in_words(ids))

    def model_arguments(self, tokens: Any) -> dict[str, Any]:
        return {"input_ids": np.asarray(tokens), "use_cache": False}

    def read(self, settings: "Settings", tokens: Any) -> list[list[int]]:
        """The ids as lists, one for each sequence.

        Args:
            settings: The configuration, which bounds the ids and the lengths.
            tokens: A list of ids, or a list of lists of them.

        Returns:
            A list for each sequence.

        Raises:
            ArgumentError: If the tokens are something else, are too many, or are not in the vocabulary.
        """
        vocabulary, longest = settings.whole("vocab_size"), settings.whole(self.longest)
        rows = _plain(tokens)
        if not isinstance(rows, list) or not rows:
            raise ArgumentTypeError("tokens", f"tokens={tokens!r} is not supported. Give {self.expected}.")
        if not any(isinstance(row, list) for row in rows):
            rows = [rows]
        for row in rows:
            if not isinstance(row, list) or not all(
                isinstance(item, int) and not isinstance(item, bool) for item in row
            ):
                raise ArgumentTypeError(
                    "tokens", f"tokens={tokens!r} must hold integers, all in one list or all in lists of such a list."
                )
            if not row:
                raise ArgumentError("tokens", f"tokens={tokens!r} has an empty sequence. Give it at least one token.")
            for item in row:
                if not 0 <= item < vocabulary:
                    raise ArgumentError(
                        "tokens",
                        f"tokens has the id {item}, which is out of range. With vocab_size={vocabulary} ids lie in [0, "
                        f"{vocabulary - 1}].",
                    )
            if len(row) > longest:
                raise ArgumentError(
                    "tokens",
                    f"tokens has a sequence of {len(row)}, more than {self.longest}={longest} allows. Shorten it.",
                )
        return rows

    def _vocabulary(self, settings: "Settings") -> tuple[int, int | None]:
        vocabulary = settings.whole("vocab_size")
        return vocabulary, settings.padding(vocabulary) if "pad_token_id" in settings.values else None

    def _check_count(self, settings: "Settings", count: int) -> None:
        """Refuse a count before a list of that length is made."""
        _checks.positive_integer("tokens", count)
        longest = settings.whole(self.longest)
        if count > longest:
            raise ArgumentError(
                "tokens", f"tokens={count} is more than {self.longest}={longest} allows. Use at most {longest}."
            )
        check_count(count)


def check_count(count: int) -> None:
    """Refuse more tokens than one draw has memory for."""
    _checks.fitting_tokens("tokens", count, _BYTES_A_PAIR, DEFAULT_MEMORY)


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun: `1 block`, `2 blocks`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def floats(name: str, value: Any, expected: str) -> np.ndarray:
    """A finite float64 array, from anything like one, tensors of torch included.

    Args:
        name: The name of the argument.
        value: Its value.
        expected: What to give, as the object of "must be ...".

    Returns:
        The array.

    Raises:
        ArgumentError: If it is no array of finite numbers.
    """
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    try:
        array = np.array(value, np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    if array.ndim == 0:
        raise ArgumentTypeError(name, f"{shown(name, value)} must be {expected}.")
    return _checks.finite_array(name, array, array.ndim)


def shown(name: str, value: Any) -> str:
    """An argument in an error: `name=value`, or its type alone where the value would fill the screen."""
    text = repr(value)
    if len(text) > 200 or "\n" in text:  # characters: a line or two of a terminal
        return f"{name} (of type {type(value).__name__})"
    return f"{name}={text}"


def _ids_in_words(ids: Sequence[int]) -> str:
    listed = " ".join(map(str, ids[:_SHOWN_IDS])) + (" ..." if len(ids) > _SHOWN_IDS else "")
    return f"{counted(len(ids), 'token')} (ids {listed})"


def _plain(value: Any) -> Any:
    """Arrays and tuples as lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value

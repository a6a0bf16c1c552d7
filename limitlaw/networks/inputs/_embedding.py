"""Token ids through random tables."""

from collections.abc import Sequence
from math import isinf
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import _checks
from ..._checks import ArgumentError, ArgumentTypeError
from .._layer import Context, Cost, InputLayer, Layout, Purpose, RowMap
from .._rules import as_numbers, fixed
from ..described import Traced
from ..state import Fresh, Stream, Tokens, add_rows, reveal

_SINUSOID_BASE = 10_000.0  # base of the frequencies, as in Vaswani et al. 2017
_SINUSOID_NODES = 4096  # nodes of the midpoint rule over frequencies that replaces coordinates at infinite width


class Embedding(InputLayer):
    """Token ids through random tables, `x_t = E[id_t] + P[t] (+ T[type_t])`.

    The entries of the tables are `N(0, std^2)`, `N(0, position_std^2)` and `N(0, type_std^2)`. Equal ids have equal
    rows before positions are added.

    Args:
        ids: A list of token ids, or a list of lists for several sequences through one network.
        std: The standard deviation of an entry of the table of ids.
        positions: None, "learned" (a random table) or "sinusoidal" (Vaswani et al. 2017: `position_std` times sines and
            cosines of the position at frequencies `10000^(-2i/n)`).
        position_std: The standard deviation of an entry of the table of positions, or the factor of the sinusoids.
        types: A row of a third table for each token, in the same lists.
        type_std: The standard deviation of an entry of the table of types.
        vocabulary: The number of ids. Larger ids are refused.
        max_positions: The number of positions. Longer sequences are refused.
        padding: The id whose row is zero.
        norm: A norm applied to the sum, as in BERT.

    Raises:
        ArgumentError: If ids, types or positions are out of range.

    Example:
        >>> import limitlaw as ll
        >>> print(ll.Embedding([3, 17, 3], positions="learned", position_std=0.5).limit_gram())
        [[1.25 0.   1.  ]
         [0.   1.25 0.  ]
         [1.   0.   1.25]]
    """

    ids: tuple[tuple[int, ...], ...]
    std: float = 1.0
    positions: str | None = None
    position_std: float = 1.0
    types: tuple[tuple[int, ...], ...] | None = None
    type_std: float = 1.0
    vocabulary: int | None = None
    max_positions: int | None = None
    padding: int | None = None
    norm: RowMap | None = None

    def __init__(
        self,
        ids: Any,
        *,
        std: float = 1.0,
        positions: str | None = None,
        position_std: float = 1.0,
        types: Any = None,
        type_std: float = 1.0,
        vocabulary: int | None = None,
        max_positions: int | None = None,
        padding: int | None = None,
        norm: RowMap | None = None,
    ):
        self.vocabulary = None if vocabulary is None else int(_checks.positive_integer("vocabulary", vocabulary))
        self.ids = _ids("ids", ids, self.vocabulary)
        self.std = _checks.standard_deviation("std", std)
        self.positions = (
            None if positions is None else _checks.one_of("positions", positions, ["learned", "sinusoidal"])
        )
        self.position_std = _checks.standard_deviation("position_std", position_std)
        self.types = None if types is None else _ids("types", types, None)
        if self.types is not None and Layout(tuple(map(len, self.types))) != self.layout:
            raise ArgumentError("types", f"types={types!r} must have one entry for every id, in the same sequences.")
        self.type_std = _checks.standard_deviation("type_std", type_std)
        self.max_positions = (
            None if max_positions is None else int(_checks.positive_integer("max_positions", max_positions))
        )
        longest = max(self.layout.lengths)
        if self.max_positions is not None and longest > self.max_positions:
            raise ArgumentError(
                "ids",
                f"ids has a sequence of {longest} tokens, but max_positions={self.max_positions}. Shorten it, or raise "
                f"max_positions.",
            )
        self.padding = None if padding is None else _checks.natural("padding", padding)
        if self.padding is not None and self.vocabulary is not None and self.padding >= self.vocabulary:
            raise ArgumentError(
                "padding", f"padding={padding} is out of range. It must lie in [0, {self.vocabulary - 1}]."
            )
        if norm is not None and not isinstance(norm, RowMap):
            raise ArgumentTypeError("norm", f"norm={norm!r} must be None, LayerNorm(...) or RMSNorm(...).")
        self.norm = norm
        if norm is not None:
            zero = self.zero_tokens()
            norm.zero_tokens(zero, np.ones_like(zero), self.layout)

    @property
    def size(self) -> int:
        return self.layout.size

    @property
    def layout(self) -> Layout:
        return Layout(tuple(map(len, self.ids)))

    @property
    def needs_mean(self) -> bool:
        return self.norm is not None and self.norm.needs_mean

    @property
    def table_gram(self) -> Any:
        """The covariance of a coordinate of the sum of the random tables, `(tokens, tokens)`."""
        ids = np.concatenate(self.ids)
        covariance = self.std**2 * ((ids[:, None] == ids) & (ids != self.padding)).astype(float)
        if self.positions == "learned":
            position = self.layout.position
            covariance = covariance + self.position_std**2 * (position[:, None] == position).astype(float)
        if self.types is not None:
            types = np.concatenate(self.types)
            covariance = covariance + self.type_std**2 * (types[:, None] == types).astype(float)
        return covariance

    def sinusoids(self, width: int | float) -> np.ndarray:
        """The fixed part of the tokens, the sines and cosines of the positions.

        Args:
            width: The width; `inf` for a fine grid of frequencies.

        Returns:
            The sinusoids, `(tokens, width)`; zero without sinusoidal positions.
        """
        columns = 2 * _SINUSOID_NODES if isinf(width) else int(width)
        if self.positions != "sinusoidal":
            return np.zeros((self.size, columns))
        pairs = np.arange(0, columns, 2)
        shift = 1.0 if isinf(width) else 0.0  # a midpoint rule; at a finite width the table itself
        angles = np.outer(self.layout.position, _SINUSOID_BASE ** -((pairs + shift) / columns))
        table = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(self.size, -1)[:, :columns]
        return self.position_std * table

    def summed_gram(self) -> Any:
        """The Gram matrix at infinite width before the norm."""
        sinusoids = self.sinusoids(np.inf)
        return self.table_gram + sinusoids @ sinusoids.T / sinusoids.shape[1]

    def limit_gram(self) -> np.ndarray:
        if self.norm is None:
            return self.summed_gram()
        rows = self._normed_rows()
        return rows @ rows.T

    def limit_mean(self) -> np.ndarray:
        return self.sinusoids(np.inf).mean(axis=1) if self.norm is None else self._normed_rows()[:, 0]

    def _normed_rows(self) -> np.ndarray:
        """Coordinates of the tokens at infinite width, in a frame with the all-ones vector first, after the norm."""
        assert self.norm is not None
        mean = self.sinusoids(np.inf).mean(axis=1)
        values, vectors = np.linalg.eigh(self.summed_gram() - np.outer(mean, mean))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        with jax.enable_x64(True):
            return np.asarray(self.norm.rows(jnp.asarray(np.concatenate([mean[:, None], root], axis=1))))

    def zero_tokens(self, centred: bool = False) -> np.ndarray:
        del centred
        gram = self.summed_gram()
        return np.zeros(self.size, bool) if _checks.is_traced(gram) else np.diagonal(gram) <= 0

    def tokens_at(self, width: int, context: Context) -> Float[Array, "s n"]:
        """Draw the rows of the tables that occur, one for each distinct id, position and type."""

        def rows(table: str, index: np.ndarray, std: Any) -> Float[Array, "s n"]:
            distinct, place = np.unique(index, return_inverse=True)
            return (std * jax.random.normal(context.key(table), (len(distinct), width)))[place]

        ids = np.concatenate(self.ids)
        x = jnp.where((ids != self.padding)[:, None], rows("ids", ids, self.std), 0.0)
        if self.positions == "learned":
            x = x + rows("positions", self.layout.position, self.position_std)
        elif self.positions == "sinusoidal":
            x = x + jnp.asarray(self.sinusoids(width), jnp.float32)
        if self.types is not None:
            x = x + rows("types", np.concatenate(self.types), self.type_std)
        return x if self.norm is None else self.norm.on_tokens(x)

    def cost(self, width: int | float) -> Cost:
        del width
        return Cost(matrices=1.0)

    def bind(self, width: int | float, purpose: Purpose) -> "EmbeddingStart":
        norm = None if self.norm is None else Traced.of(self.norm)
        if self.positions != "sinusoidal":
            return EmbeddingStart(as_numbers(self.table_gram), None, None, norm)
        x = self.sinusoids(width)
        gram, mean = as_numbers((x @ x.T / x.shape[1], x.mean(axis=1)))
        return EmbeddingStart(as_numbers(self.table_gram), gram, mean, norm)


class EmbeddingStart(eqx.Module):
    """Embeddings in the Gram reading: the covariance of the random tables, the fixed part, and the norm."""

    table: Any
    fixed_gram: Any
    fixed_mean: Any
    norm: Traced | None

    def start(self, width: Float[Array, ""], context: Context, draws: int, tracks_mean: bool) -> Stream:
        """The first stream of a batch."""
        covariance = self.table[..., None]
        if self.fixed_gram is None and self.norm is None:
            return Fresh(covariance, width, context.key("settle"))
        # The fixed part is a stream, and the random tables are a residual branch that is added to it.
        zero = jnp.zeros_like(self.table)
        gram = zero if self.fixed_gram is None else self.fixed_gram
        mean = zero[0] if self.fixed_mean is None else self.fixed_mean
        tokens = fixed(gram, mean, width, tracks_mean)
        rows = reveal(tokens, covariance, context.key("tables"), draws)
        tokens = add_rows(tokens, rows, 1.0, tracks_mean)
        if self.norm is None:
            return tokens
        norm: RowMap = self.norm.value
        return Tokens(norm.rows(tokens.root), width, centred=norm.centres)


def _ids(name: str, value: Any, vocabulary: int | None) -> tuple[tuple[int, ...], ...]:
    """Token ids as sequences of integers."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, Sequence) or isinstance(value, str) or not len(value):
        raise ArgumentTypeError(name, f"{name}={value!r} must be a list of integers, or a list of such lists.")
    nested = [isinstance(item, Sequence | np.ndarray) for item in value]
    rows = [list(row) for row in value] if all(nested) else [list(value)]
    for row in rows:
        for item in row:
            if isinstance(item, bool) or not isinstance(item, int | np.integer):
                raise ArgumentTypeError(
                    name, f"{name}={value!r} must be a list of integers, or a list of such lists; {item!r} is not one."
                )
            if item < 0 or (vocabulary is not None and item >= vocabulary):
                bound = f"[0, {vocabulary - 1}]" if vocabulary is not None else "[0, ...]"
                raise ArgumentError(name, f"{name}: {item} is out of range. It must lie in {bound}.")
        if not row:
            raise ArgumentError(name, f"{name}={value!r} has an empty sequence. Give it at least one token.")
    return tuple(tuple(int(item) for item in row) for row in rows)

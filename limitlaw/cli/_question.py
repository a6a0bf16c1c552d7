"""A one-off question about a network: from flags or a file to two laws side by side."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isinf
from pathlib import Path
from typing import Any

from .._checks import ArgumentError, ArgumentTypeError, fitting_tokens, known_keys, matrix_of_text, read_toml
from ..distances import Comparison, compare
from ..laws import Gaussian, Law
from ..networks import Network, as_plain, from_plain
from ..numerics import DEFAULT_MEMORY

_LAYER = ("heads", "head_dim", "scale", "mask", "tie_qk", "query_std", "key_std", "value_std", "out_std")
_OPTIONS = ("width", "token", "samples", "seed")
_PICTURES = (".pdf", ".png", ".svg")
_BYTES_A_PAIR = 32  # four token matrices of float64: what the inputs hold when they make their Gram matrix


@dataclass(frozen=True)
class Question:
    """The law of one token of a network at a width (`inf`: the limit)."""

    network: Network
    width: int | float
    token: int
    samples: int | None
    seed: int

    @classmethod
    def of(
        cls, file: Path | None, flags: Mapping[str, Any], width: Any, token: Any, samples: Any, seed: Any
    ) -> "Question":
        """From a TOML file, or flags for one attention layer.

        Args:
            file: A TOML file, or None.
            flags: The flags that describe the layer and its inputs; none beside a file.
            width: The width. This and the rest may be given beside a file too, and then replace what it says.
            token: The token, from 0.
            samples: The number of draws.
            seed: Their seed.

        Returns:
            The question, its network checked.

        Raises:
            ArgumentError: If a flag or the file is refused.
        """
        table = {} if file is None else _read(file)
        if file is not None and flags:
            name = next(iter(flags))
            raise ArgumentError(
                name,
                f"--{name.replace('_', '-')} cannot be combined with {file}: the file describes the network. Write it "
                f"there, or leave the file out.",
            )
        given = {"width": width, "token": token, "samples": samples, "seed": seed}
        in_file = {name: table.pop(name, None) for name in given}
        chosen = {name: in_file[name] if value is None else value for name, value in given.items()}
        network = _network(table if file is not None else _described(flags), file)
        return cls(
            network,
            _number("width", chosen["width"], inf),
            _number("token", chosen["token"], 0),
            None if chosen["samples"] is None else _number("samples", chosen["samples"], None),
            _number("seed", chosen["seed"], 0),
        )

    def answer(self) -> "Answer":
        """The law at the width and the limit; where either is missing, the Gaussian of the same variance beside the other.

        A layer of the user's without a contracted rule may have no limit.
        """
        options: dict[str, Any] = {"token": self.token, "seed": self.seed, "samples": self.samples}
        first: Law = self.network.law(width=self.width, **options)
        second: Law = Gaussian(variance=first.variance(), name="Gaussian")
        if not isinf(self.width):
            try:
                second = self.network.law(width=inf, **options)
            except ArgumentError as error:
                if error.argument != "matrices":
                    raise
        return Answer(self, first, second, compare(first, second))


@dataclass(frozen=True)
class Answer:
    """Two laws, compared."""

    question: Question
    first: Law
    second: Law
    comparison: Comparison

    def as_plain(self) -> dict[str, Any]:
        """All numbers, each with its standard error."""
        both = {what: [_plain(value) for value in pair] for what, pair in self.comparison.rows.items()}
        return {
            "network": as_plain(self.question.network),
            "width": "inf" if isinf(self.question.width) else self.question.width,
            "token": self.question.token,
            "seed": self.question.seed,
            "laws": list(self.comparison.names),
            "values": both,
            "distances": {name: _plain(value) for name, value in self.comparison.distances.items()},
            "unresolved": sorted(self.comparison.unresolved),
        }

    def plot(self, path: Path) -> None:
        """Plot densities on the left and tails on the right, and write the picture to a file."""
        from ..figures._style import COLOURS, LIMIT, save, style, two_panels

        with style():
            figure, body, tails = two_panels()
            for axes, kind in ((body, "pdf"), (tails, "ccdf")):
                self.first.plot(axes, kind=kind, color=COLOURS[0])
                self.second.plot(axes, kind=kind, color=LIMIT, linestyle="--")
                axes.legend()
            tails.set_xlim(left=0)
            tails.set_ylim(1e-8, 1)
        save(figure, path)


def check_picture(path: Path) -> None:
    """Refuse a file to which no picture can be written, before any work."""
    if path.suffix not in _PICTURES:
        raise ArgumentError("plot", f"--plot {path} must end in {', '.join(_PICTURES)}.")
    if not path.parent.is_dir():
        raise ArgumentError("plot", f"--plot {path} is in a folder that does not exist. Make {path.parent} first.")


def _read(file: Path) -> dict[str, Any]:
    table = read_toml(file)
    known_keys(str(file), table, ("inputs", "layers", *_OPTIONS))
    return table


def _network(table: Mapping[str, Any], file: Path | None) -> Network:
    """The network of a table; tokens that do not fit the memory are refused before their matrix is made."""
    inputs = table.get("inputs")
    count = inputs.get("tokens") if isinstance(inputs, Mapping) else None
    if isinstance(count, int) and count > 0:
        fitting_tokens("tokens", count, _BYTES_A_PAIR, DEFAULT_MEMORY)
    try:
        return from_plain(table)
    except RecursionError:
        raise ArgumentError("path", f"{file} nests its layers too deeply to be read.") from None


def _described(flags: Mapping[str, Any]) -> dict[str, Any]:
    if flags.get("mask", "none") not in ("causal", "none"):
        raise ArgumentError("mask", f"--mask {flags['mask']!r} must be causal or none. A TOML file can hold a matrix.")
    layer = {name: _parsed(name, value) for name, value in flags.items() if name in _LAYER}
    if layer.get("mask") == "none":
        del layer["mask"]
    if "gram" in flags:
        for name in ("tokens", "activation"):
            if name in flags:
                raise ArgumentError(
                    name, f"--{name} cannot be combined with --gram, which describes the tokens. Leave one of them out."
                )
        inputs = {"kind": "GramInputs", "K": matrix_of_text(flags["gram"])}
    else:
        inputs = {"kind": "Inputs", "tokens": 4} | {k: v for k, v in flags.items() if k in ("tokens", "activation")}
    return {"inputs": inputs, "layers": [{"kind": "Attention", **layer}]}


def _parsed(name: str, value: Any) -> Any:
    """Numbers of heads and head dimensions are texts, since they may be words."""
    if name not in ("heads", "head_dim") or value == "inf" or (name == "head_dim" and value == "split"):
        return value
    return _number(f"--{name.replace('_', '-')}", value, None)


def _number(name: str, value: Any, default: Any) -> Any:
    """A number from a flag or a file: an int where it is whole, `inf` where it says so."""
    if value is None:
        return default
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    argument = name.removeprefix("--").replace("-", "_")
    if isinstance(value, str) and not value.strip():
        raise ArgumentError(argument, f"{name}={value!r} is empty. Give a number.")
    try:
        if isinstance(value, bool):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError):
        raise ArgumentTypeError(argument, f"{name}={value!r} must be a number.") from None
    if isinstance(value, str):
        if value.strip().lstrip("+-").isdigit():
            return int(value)
        if isinf(number) and "inf" not in value.lower():
            raise ArgumentError(argument, f"{name}={value!r} is too large for a number. Use inf for infinity.")
    return int(number) if number.is_integer() else number


def _plain(value: Any) -> dict[str, float]:
    return {"value": float(value), "stderr": float(getattr(value, "stderr", 0.0))}

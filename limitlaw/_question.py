"""A one-off question about a network: from flags or a file to two laws side by side."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isinf
from pathlib import Path
from typing import Any

from .divergence import Comparison, compare
from .laws import Gaussian, Law
from .networks import Network, as_plain, from_plain, unknown_key

_LAYER = ("heads", "head_dim", "scale", "mask", "tie_qk", "query_std", "key_std", "value_std", "out_std")
_OPTIONS = ("width", "token", "samples", "seed")
_PICTURES = (".pdf", ".png", ".svg")


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
        """From a TOML file, or flags for one attention layer; width, token, samples and seed may be given beside a file too."""
        table = {} if file is None else _read(file)
        if file is not None and flags:
            name = next(iter(flags))
            raise ValueError(
                f"--{name.replace('_', '-')} beside {file}: the file describes the network; write it there, or leave the file out."
            )
        given = {"width": width, "token": token, "samples": samples, "seed": seed}
        in_file = {name: table.pop(name, None) for name in given}
        chosen = {name: in_file[name] if value is None else value for name, value in given.items()}
        network = from_plain(table if file is not None else _described(flags))
        return cls(
            network,
            _number("width", chosen["width"], inf),
            _number("token", chosen["token"], 0),
            None if chosen["samples"] is None else _number("samples", chosen["samples"], None),
            _number("seed", chosen["seed"], 0),
        )

    def answer(self) -> "Answer":
        """The law at the width and the limit; without a width, the limit and the Gaussian of the same variance."""
        options: dict[str, Any] = {"token": self.token, "seed": self.seed, "samples": self.samples}
        first: Law = self.network.law(width=self.width, **options)
        if isinf(self.width):
            second: Law = Gaussian(var=first.var(), name="Gaussian")
        else:
            second = self.network.law(width=inf, **options)
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

    def draw(self, path: Path) -> None:
        """Densities on the left, tails on the right."""
        from .figures._style import COLOURS, LIMIT, powers_of_ten, save, style, two_panels

        with style():
            figure, body, tails = two_panels()
            for axes, kind in ((body, "pdf"), (tails, "ccdf")):
                self.first.plot(axes, kind=kind, color=COLOURS[0])
                self.second.plot(axes, kind=kind, color=LIMIT, linestyle="--")
                axes.legend()
            tails.set_xlim(left=0)
            tails.set_ylim(1e-8, 1)
            tails.yaxis.set_major_formatter(powers_of_ten)
        save(figure, path)


def check_picture(path: Path) -> None:
    """Refuse a file that no picture can be written to, before any work."""
    if path.suffix not in _PICTURES:
        raise ValueError(f"--plot {path}: the name must end in {', '.join(_PICTURES)}.")
    if not path.parent.is_dir():
        raise ValueError(f"--plot {path}: there is no folder {path.parent}; make it, or choose another.")


def _read(file: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(file.read_text())
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror}; give a TOML file that can be read.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: not TOML: {error}.") from None
    unknown_key(str(file), table, ("inputs", "layers", *_OPTIONS))
    return table


def _described(flags: Mapping[str, Any]) -> dict[str, Any]:
    if flags.get("mask", "none") not in ("causal", "none"):
        raise ValueError(f"--mask {flags['mask']!r}: use causal or none; a TOML file can have a matrix.")
    layer = {name: _parsed(name, value) for name, value in flags.items() if name in _LAYER and value != "none"}
    if "gram" in flags:
        for name in ("tokens", "activation"):
            if name in flags:
                raise ValueError(
                    f"--{name} beside --gram: the Gram matrix says what the tokens are; leave one of them out."
                )
        inputs = {"kind": "GramInputs", "K": matrix(flags["gram"])}
    else:
        inputs = {"kind": "Inputs", "tokens": 4} | {k: v for k, v in flags.items() if k in ("tokens", "activation")}
    return {"inputs": inputs, "layers": [{"kind": "Attention", **layer}]}


def _parsed(name: str, value: Any) -> Any:
    """Numbers of heads and head dimensions come as text, since they may be words."""
    if name not in ("heads", "head_dim") or value in ("inf", "split"):
        return value
    return _number(f"--{name.replace('_', '-')}", value, None)


def _number(name: str, value: Any, default: Any) -> Any:
    if value is None:
        return default
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        if isinstance(value, bool):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name}={value!r}: must be a number.") from None
    if isinstance(value, str) and value.strip().lstrip("+-").isdigit():
        return int(value)
    return int(number) if number.is_integer() else number


def matrix(text: str) -> list[list[float]]:
    """A matrix from rows of numbers with ; between them."""
    try:
        return [[float(entry) for entry in row.replace(",", " ").split()] for row in text.split(";")]
    except ValueError:
        raise ValueError(
            f"--gram {text!r}: write rows of numbers with ; between them, such as '1 0.5; 0.5 1'."
        ) from None


def _plain(value: Any) -> dict[str, float]:
    return {"value": float(value), "stderr": float(getattr(value, "stderr", 0.0))}

"""Deep networks: four kinds of stacks seen after every block, and what theory says of them.

All start from four tokens with the Gram matrix `correlation^|i-j|` and have two heads. The gains of attention and perceptron are 1: a branch adds 1 to the
variance of tokens that have become equal. Predictions are expansions around equal tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any

import numpy as np
import xarray as xr

from ..experiments import Measure, ReadoutKurtosis, Study
from ..networks import MLP, Attention, GramInputs, LayerNorm, Network, Repeat, Residual
from ..numerics import Estimate
from ._settings import Settings

TITLES = {"attention": "attention alone", "skip": "attention with skip", "pre": "pre-LN", "post": "post-LN"}
"""The kinds of stacks."""
BETAS = (1.0, 2.0, 4.0)
TOKENS, HEADS, CORRELATION = 4, 2, 0.3
ETA = 1 / 2  # share of attention in what a pre-LN block adds: 1 - cos falls like L^-ETA
CONTRACTION = 1 / 2  # of 1 - cos by a block with a skip whose stream does not grow, 1 / (1 + gain of attention)
SMALLEST_GAP = 1e-6
"""Below it `1 - cos` is rounding, in single precision."""
DRAWS = 2**13  # one block of the sampler: fewer would take as long
_POINTS = 2**17  # behind an integral over scores that quadrature does not finish


def network(kind: str, depth: int, *, beta: float, correlation: float, head_dim: Any = "split") -> Network:
    """A stack of `depth` blocks with the score scale `beta`.

    Example:
        >>> from limitlaw.figures import _depth
        >>> _depth.network("skip", 16, beta=2.0, correlation=0.0).layers
        (Repeat(16, Residual(Attention(heads=2, head_dim='split', query_std=2.0))),)
    """
    attention = Attention(heads=HEADS, head_dim=head_dim, query_std=beta)
    perceptron = MLP("relu", width=inf, in_std=sqrt(2.0))
    block = {
        "attention": (Residual(attention, skip=0.0),),  # what is compiled for it serves the next one too
        "skip": (Residual(attention),),
        "pre": (Residual(LayerNorm(), attention), Residual(LayerNorm(), perceptron)),
        "post": (Residual(attention), LayerNorm(), Residual(perceptron), LayerNorm()),
    }[kind]
    return Network(GramInputs(_gram(correlation)), Repeat(depth, *block))


def _gram(correlation: float) -> np.ndarray:
    place = np.arange(TOKENS)
    return correlation ** np.abs(np.subtract.outer(place, place))


MEASURES: tuple[Measure | str, ...] = (
    ReadoutKurtosis((0.0,) * (TOKENS - 1) + (1.0,), name="kurtosis"),
    ReadoutKurtosis((1.0, -1.0), name="difference"),
    "block_variance",
    "block_gap",
    "block_gap_cubed",
    "block_uniformity",
)
"""Taken along the depth of every stack, so that figures share their draws."""


def stack(
    settings: Settings,
    kind: str,
    axes: Mapping[str, Sequence[Any]],
    *,
    beta: float = BETAS[0],
    correlation: float = CORRELATION,
) -> Study:
    """A kind of stack along its depth, with what `axes` vary."""
    return Study(
        network(kind, settings.depth, beta=beta, correlation=correlation),
        axes=dict(axes),
        measure=list(MEASURES),
        name=f"{TITLES[kind]}, {', '.join(axes)} varied" + ("" if correlation else ", orthogonal tokens"),
        seed=settings.seed_for("deep"),
        samples=min(settings.draws, DRAWS),
    )


def layer(correlation: float, beta: float, axes: Mapping[str, Sequence[Any]]) -> Study:
    """One attention layer at infinite width, whose last token is integrated over its scores."""
    attention = Attention(heads=HEADS, query_std=beta)
    net = Network(GramInputs(_gram(correlation)), attention)
    # a limit is computed from four times the samples of a study
    samples = _POINTS // 4
    return Study(net, axes=dict(axes), measure=["moments"], name="one layer", token=TOKENS - 1, samples=samples)


def along_depth(data: xr.Dataset, name: str) -> np.ndarray:
    """An observable of a study with its standard error, after each block.

    "kurtosis" and "variance" are those of a read-out of the last token, "difference" is the kurtosis of one of
    `x_1 - x_2`, "gap" is `1 - cos`, "cubic" what attention alone would make of it next for a score scale of 1, and
    "deficit" what the entropy of attention, over that of uniform attention, lacks of 1.
    """
    variable = {
        "variance": "block_variance",
        "gap": "block_gap",
        "cubic": "block_gap_cubed",
        "deficit": "block_uniformity",
    }
    at = data.isel(trial=0)
    value, error = (at[variable.get(name, name) + part].values for part in ("", "_stderr"))
    return np.stack([1 - value if name == "deficit" else value, error], axis=-1)


def predicted_kurtosis(kind: str, limit: Any, block: Any, width: int | float) -> Any:
    """The excess kurtosis after a block at a width, given that of the limit: of a token, or under post-LN of a difference of two.

    Let tokens be equal, of variance `k`. Attention alone multiplies `k` by two averages of `n` squared normals (values and output matrix), so that `1 + kappa/3` grows by
    `(1 + 2/n)^2`. A branch behind a norm makes `k + 2 sqrt(k/n) z + 1 + O(n^-1/2)` of it: pre-LN, with `k = 1 + 2 L`, keeps a relative variance of
    `2/n`. Post-LN divides `k` out twice in a block (`2/n` and `3/2n`), and the perceptron doubles a difference once (`3/2n`).
    """
    if kind == "pre":
        return limit + 6 / width
    rate = {"attention": (1 + 2 / width) ** 2, "post": 1 + 5 / width}[kind]
    return 3 * (rate**block * (1 + limit / 3) - 1)


def predicted_deficit(scores: Any) -> Any:
    """What the relative entropy lacks of 1 at small `scores`, `beta^2 (1 - cos)`: half their variance over the keys, over `log s`."""
    return scores * (TOKENS - 1) / (2 * TOKENS * np.log(TOKENS))


@dataclass(frozen=True)
class Stacks:
    """Some `kinds` of stacks along their depth.

    `observables` are taken at infinite width for all score scales, and at finite `widths` for the first of them.
    """

    kinds: tuple[str, ...]
    widths: tuple[int, ...]
    observables: tuple[str, ...]

    def studies(self, settings: Settings) -> dict[str, Study]:
        """For each kind one study over score scales and one over widths."""
        scales = {kind: stack(settings, kind, {"query_std": BETAS}) for kind in reversed(self.kinds)}
        widths = {f"{kind}, widths": stack(settings, kind, {"width": self.widths}) for kind in reversed(self.kinds)}
        return {**scales, **widths}

    def gather(self, found: Mapping[str, xr.Dataset], settings: Settings) -> xr.Dataset:
        """One dataset by kind of stack."""
        variables = {}
        for prefix, axis, suffix in (("", "beta", ""), ("finite_", "width", ", widths")):
            for name in self.observables:
                values = np.stack([along_depth(found[kind + suffix], name) for kind in self.kinds])
                if name == "cubic":
                    values *= np.square(BETAS)[:, None, None] if axis == "beta" else BETAS[0] ** 2
                variables[f"{prefix}{name}"] = ("stack", axis, "block", "statistic"), values
        return xr.Dataset(
            variables,
            coords={
                "stack": list(self.kinds),
                "beta": list(BETAS),
                "width": list(self.widths),
                "block": np.arange(settings.depth + 1),
                "statistic": ["value", "stderr"],
            },
            attrs={"samples": min(settings.draws, DRAWS), "depth": settings.depth},
        )


def rows(data: xr.Dataset, kind: str, name: str) -> list[tuple[float, float, list[Estimate | None]]]:
    """An observable of a stack for each row of a table: score scale, width, and its values after blocks 0, 1, ...

    A value that is not defined, such as the entropy at the input, is None.
    """
    at = data.sel(stack=kind)
    found = [(beta, inf, at[name].sel(beta=beta)) for beta in BETAS]
    found += [(BETAS[0], int(width), at[f"finite_{name}"].sel(width=width)) for width in data["width"].values]
    return [(beta, width, [_estimate(*pair) for pair in values.values]) for beta, width, values in found]


def _estimate(value: float, stderr: float) -> Estimate | None:
    """A number with its error, which is rounding alone where all draws agree, as at the input."""
    return None if np.isnan(value) else Estimate(value, stderr if stderr > 1e-9 * abs(value) else 0.0)


def depth_axis(axes: Any, depth: int) -> None:
    """Depth on a logarithmic axis."""
    ticks = powers_of_two(depth)
    axes.set_xscale("log", base=2)
    axes.set_xlim(0.9, 1.12 * depth)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])


def powers_of_two(largest: int) -> list[int]:
    """1, 2, 4, ... up to `largest`."""
    return [2**k for k in range(largest.bit_length())]


def last_slopes(values: xr.DataArray) -> np.ndarray:
    """Of a logarithmic plot against depth, over the last factor of two, for each score scale."""
    depth = int(values["block"][-1])
    half, whole = (values.sel(block=block).values for block in (depth // 2, depth))
    return np.log(whole / half) / np.log(depth / (depth // 2))


def common(data: xr.Dataset) -> dict[str, Any]:
    """What the template of every figure says."""
    return {
        "samples": data.attrs["samples"],
        "tokens": TOKENS,
        "heads": HEADS,
        "correlation": CORRELATION,
        "depth": data.attrs.get("depth"),
        "betas": [f"{beta:g}" for beta in BETAS],
    }

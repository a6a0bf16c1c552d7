"""Deep networks: four kinds of stacks seen after every block, and what theory says of them.

All start from four tokens with the Gram matrix `correlation^|i-j|` and have two heads. The gains of attention and perceptron are 1: a branch adds 1 to the
variance of tokens that have become equal. Predictions are expansions around equal tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isinf, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from ..experiments import Result, Task
from ..networks import MLP, Attention, GramInputs, LayerNorm, Network, Repeat, Residual, excess_kurtosis
from ..numerics import Estimate
from ._experiments import seed_for
from ._figure import Load
from ._settings import Settings

if TYPE_CHECKING:
    import xarray as xr

TITLES = {"attention": "attention alone", "skip": "attention with skip", "pre": "pre-LN", "post": "post-LN"}
"""The kinds of stacks."""
BETAS = (1.0, 2.0, 4.0)
TOKENS, HEADS, CORRELATION = 4, 2, 0.3
ETA = 1 / 2  # share of attention in what a pre-LN block adds: 1 - cos falls like L^-ETA
CONTRACTION = 1 / 2  # of 1 - cos by a block with a skip whose stream does not grow, 1 / (1 + gain of attention)
SMALLEST_GAP = 1e-6
"""Below it `1 - cos` is rounding, in single precision."""
_DRAWS = 2**13  # one block of the sampler: fewer would take as long
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


def stack(
    settings: Settings,
    kind: str,
    beta: float,
    width: int | float = inf,
    *,
    correlation: float = CORRELATION,
    head_dim: int | None = None,
) -> Task:
    """A stack at a width, along its depth; each head has its share of the width, or `head_dim`."""
    what = {
        "kind": kind,
        "depth": settings.depth,
        "beta": beta,
        "width": None if isinf(width) else width,
        "correlation": correlation,
        "head_dim": head_dim,
    }
    name = f"deep network, {', '.join(f'{key} = {value}' for key, value in what.items() if value is not None)}"
    return Task(
        name,
        along_the_depth,
        {**what, "samples": min(settings.draws, _DRAWS), "seed": seed_for(settings, name)},
        cost=0.5,
        program=f"deep {'attention' if kind == 'skip' else kind}, {settings.depth} blocks",
    )


def along_the_depth(
    *,
    kind: str,
    depth: int,
    beta: float,
    width: int | None,
    correlation: float,
    head_dim: int | None,
    samples: int,
    seed: int,
) -> Result:
    """Value and standard error, after the input and after each block, of what is seen in the Gram matrices.

    - `variance` and `kurtosis`: of a read-out of the last token; `difference`: the kurtosis of one of `x_1 - x_2`;
    - `gap`: `1 - cos` between tokens, averaged over pairs; `cubic`: what attention alone would make of it next;
    - `deficit`: what the entropy of attention, over that of uniform attention, lacks of 1, in each block (none at the input).
    """
    net = network(kind, depth, beta=beta, correlation=correlation, head_dim=head_dim or "split")
    t = net.trajectory(samples, width=width, seed=seed, progress=False)
    K = t.gram.astype(np.float64)
    gap, last = pair_gap(K), K[:, :, -1, -1]
    centring = np.eye(TOKENS) - 1 / TOKENS
    spread = ((centring @ K @ centring) ** 2).sum(axis=(2, 3))
    entropy = np.stack([e.mean(axis=(1, 2), dtype=np.float64) for e in t.entropies], axis=1)
    return {
        "variance": _mean(last),
        "kurtosis": np.stack(excess_kurtosis(last), axis=-1),
        "difference": np.stack(excess_kurtosis(K[:, :, 0, 0] + K[:, :, 1, 1] - 2 * K[:, :, 0, 1]), axis=-1),
        "gap": _mean(gap),
        "cubic": _mean((beta / TOKENS) ** 2 * gap * spread),
        "deficit": np.concatenate([np.full((1, 2), np.nan), _mean(1 - entropy / np.log(TOKENS))]),
    }


def pair_gap(K: np.ndarray) -> np.ndarray:
    """`1 - cos`, averaged over pairs of tokens, of Gram matrices `(..., s, s)`.

    Example:
        >>> import numpy as np
        >>> from limitlaw.figures import _depth
        >>> float(_depth.pair_gap(np.array([[4.0, 1.0], [1.0, 1.0]])))
        0.5
    """
    length = np.sqrt(np.diagonal(K, axis1=-2, axis2=-1))
    i, j = np.tril_indices(K.shape[-1], -1)
    return (1 - K[..., i, j] / (length[..., i] * length[..., j])).mean(axis=-1)


def _mean(draws: np.ndarray) -> np.ndarray:
    return np.stack([draws.mean(axis=0), draws.std(axis=0, ddof=1) / np.sqrt(len(draws))], axis=-1)


def layer(beta: float, correlation: float, head_dim: int | None) -> Task:
    """One attention layer at infinite width; `head_dim` None is infinite."""
    what = {"beta": beta, "correlation": correlation, "head_dim": head_dim}
    return Task(f"one attention layer, {what}", one_layer, what, cost=0.2)


def one_layer(*, beta: float, correlation: float, head_dim: int | None) -> Result:
    """Variance and excess kurtosis of the last token, with their errors, by integrating over its scores."""
    attention = Attention(heads=HEADS, head_dim=head_dim, query_std=beta)
    law = Network(GramInputs(_gram(correlation)), attention).law(token=TOKENS - 1, samples=_POINTS, progress=False)
    moments = {"variance": law.variance(), "kurtosis": law.kurtosis()}
    return {name: np.array([value, value.stderr]) for name, value in moments.items()}


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

    def _limits(self, settings: Settings, kind: str) -> list[Task]:
        return [stack(settings, kind, beta) for beta in BETAS]

    def _finite(self, settings: Settings, kind: str) -> list[Task]:
        return [stack(settings, kind, BETAS[0], width) for width in self.widths]

    def tasks(self, settings: Settings) -> list[Task]:
        rows = [[*self._limits(settings, kind), *self._finite(settings, kind)] for kind in reversed(self.kinds)]
        # by turns: every worker begins with another kind, and none waits for what the other compiles
        return [task for column in zip(*rows, strict=True) for task in column]

    def dataset(self, settings: Settings, load: Load) -> xr.Dataset:
        import xarray as xr

        variables = {}
        for prefix, axis, tasks in (("", "beta", self._limits), ("finite_", "width", self._finite)):
            found = [[load(task) for task in tasks(settings, kind)] for kind in self.kinds]
            for name in self.observables:
                values = np.array([[result[name] for result in row] for row in found])
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
            attrs={"samples": min(settings.draws, _DRAWS), "depth": settings.depth},
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

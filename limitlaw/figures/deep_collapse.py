"""Rank collapse: how fast the tokens of a deep network become one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..numerics import Estimate
from . import _depth as deep
from ._figure import Table, times
from ._style import COLOURS, FLOOR, LIMIT, MARKERS, panels, power_of_ten, powers_of_ten, style

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, kw_only=True)
class CollapseFigure(deep.DepthFigure):
    """`1 - cos`, averaged over pairs of tokens, against depth: a panel for each kind of stack."""

    def draw(self, data: xr.Dataset) -> Any:
        depth = data.attrs["depth"]
        with style():
            figure, grid = panels(2, 2, 4.6, gap=0.2)
            figure.subplots_adjust(hspace=0.42)
            for kind, axes in zip(self.kinds, grid.ravel(), strict=True):
                at = data.sel(stack=kind)
                for i, beta in enumerate(deep.BETAS):
                    limit = at.sel(beta=beta, statistic="value")
                    axes.plot(at["block"], _predicted(kind, limit), color=COLOURS[i], linewidth=0.8)
                    self._draw_points(axes, at["gap"].sel(beta=beta), i, f"n = ∞, β = {beta:g}")
                for width in self.widths:
                    label = f"n = {width}, β = {deep.BETAS[0]:g}"
                    self._draw_points(axes, at["finite_gap"].sel(width=width), 0, label, markerfacecolor="none")
                axes.plot([], [], color=LIMIT, linewidth=0.8, label="predicted")
                axes.set_yscale("log")
                axes.set_title(f"{deep.TITLES[kind]}: {_RATES[kind]}", loc="left")
                axes.set_xlabel("depth L")
                axes.set_ylabel("1 − cos, mean over pairs")
                if kind == "pre":
                    deep.depth_axis(axes, depth)
                    axes.set_ylim(None, 1)
                    axes.set_yticks([0.1, 0.2, 0.5, 1.0], ["0.1", "0.2", "0.5", "1"])
                    axes.minorticks_off()
                    continue
                reach = depth if kind != "attention" else min(depth, _FEW)
                axes.set_xlim(-0.02 * reach, 1.02 * reach)
                axes.set_xticks(range(0, reach + 1, max(reach // 8, 1)))
                axes.set_ylim(deep.SMALLEST_GAP / 4, 1.5)
                axes.yaxis.set_major_formatter(powers_of_ten)
                axes.minorticks_off()
            first = grid[0, 0]
            first.axhspan(deep.SMALLEST_GAP / 4, deep.SMALLEST_GAP, color=FLOOR, alpha=0.3, linewidth=0)
            first.text(
                0, 1.2 * deep.SMALLEST_GAP, "single precision ends here", va="bottom", fontsize=6, color="#555555"
            )
            labels = [f"n = ∞, β = {beta:g}" for beta in deep.BETAS]
            labels += [f"n = {width}, β = {deep.BETAS[0]:g}" for width in self.widths]
            deep.legend(grid[1, 1], *labels, "predicted", loc="lower left")
        return figure

    def _draw_points(self, axes: Any, gap: xr.DataArray, i: int, label: str, **face: Any) -> None:
        value, error = np.where(gap.sel(statistic="value") > deep.SMALLEST_GAP, gap.values.T, np.nan)
        look = {"color": COLOURS[i], "markersize": 3, "elinewidth": 0.6, "markeredgewidth": 0.6}
        axes.errorbar(gap["block"], value, error, fmt=MARKERS[i], label=label, **look, **face)

    def table(self, data: xr.Dataset) -> Table:
        depths = [0, *deep.powers_of_two(data.attrs["depth"])]
        rows = tuple(
            (deep.TITLES[kind], *labels, *(_shown(gap.sel(block=depth).values) for depth in depths))
            for kind in self.kinds
            for *labels, gap in self.rows(data, kind, "gap")
        )
        return Table(("stack", "β", "n", *(f"1 − cos, L = {depth}" for depth in depths)), rows)

    def finding(self, data: xr.Dataset) -> str:
        depth, narrow = data.attrs["depth"], self.widths[0]
        gap = {kind: data["gap"].sel(stack=kind, statistic="value") for kind in self.kinds}
        lost = ", ".join(str(_lost(gap["attention"].sel(beta=beta))) for beta in deep.BETAS)
        cubes = data["cubic"].sel(stack="attention", statistic="value", beta=deep.BETAS[1])
        steps = [
            f"{times(float(cubes[layer]))} predicted and {times(float(found))} found after {layer + 1}"
            for layer, found in ((layer, gap["attention"].sel(beta=deep.BETAS[1], block=layer + 1)) for layer in (1, 2))
        ]
        factors = {kind: _three((gap[kind][:, -1] / gap[kind][:, -2]).values) for kind in ("skip", "post")}
        finite = data["finite_gap"].sel(stack="post", width=narrow, statistic="value")
        slopes = ", ".join(f"−{-slope:.2f}" for slope in deep.last_slopes(gap["pre"]))
        return (
            f"As laws, not bounds: attention alone leaves less than {power_of_ten(-6)} of 1 − cos, where single precision ends, after {lost} layers (β = 1, 2, 4). Near the end a layer makes of it its cube: averaged over networks, "
            f"β² (1 − cos) tr(K_c²)/s², K_c the centred Gram matrix; with β = {deep.BETAS[1]:g}, {', '.join(steps)} layers. With a skip and no norm a layer leaves 1/(1 + g) = 1/2 of it (in the last one {factors['skip']}), "
            f"and so does a block under post-LN ({factors['post']}). Pre-LN lets the stream grow, so that a block matters less and less, and tokens collapse by a power only: the slopes between L = {depth // 2} and {depth} are "
            f"{slopes}, in theory −η = −1/2, and after {depth} blocks {_three(gap['pre'][:, -1].values)} is left. A large score scale delays the collapse and in the end does not change its rate. At n = {narrow} the average falls more slowly "
            f"({float(finite[-1] / finite[-2]):.3f} in the last block of post-LN), since noise in a norm raises the average of its inverse."
        )


_RATES = {"attention": "cubic", "skip": "halved by each layer", "pre": "like 1/√L", "post": "halved by each block"}
_FEW = 6  # layers that attention alone survives


def _predicted(kind: str, at: xr.Dataset) -> np.ndarray:
    """For attention alone, from the draws of the layer before; otherwise the rate, through the last block."""
    gap, block = at["gap"].values, at["block"].values
    if kind == "attention":
        line = np.concatenate([[np.nan], at["cubic"].values[:-1]])
    elif kind == "pre":
        line = gap[-1] * np.append(np.nan, block[1:] / block[-1]) ** -deep.ETA
    else:
        line = gap[-1] * deep.CONTRACTION ** (block - block[-1])
    return np.where((line > deep.SMALLEST_GAP) & (line < 1), line, np.nan)


def _lost(gap: xr.DataArray) -> int:
    """The first layer after which tokens are one, as far as can be told."""
    return int(gap["block"][gap < deep.SMALLEST_GAP].min())


def _shown(values: np.ndarray) -> str:
    value, error = values
    if value < deep.SMALLEST_GAP:
        return f"below {power_of_ten(-6)}"
    return str(Estimate(value, error)) if error > 1e-9 * value else f"{value:.4g}"


def _three(values: Any) -> str:
    return ", ".join(f"{value:.3f}" for value in values)


FIGURE = CollapseFigure(
    name="deep_collapse",
    title="Depth: tokens become one",
    claim="Attention without skips loses rank doubly exponentially; skips and perceptrons slow it down (Dong, Cordonnier and Loukas 2021, as bounds).",
    kinds=("attention", "skip", "pre", "post"),
    widths=(64,),
    observables=("gap", "cubic"),
)

"""Is a deep network further from a Gaussian? The kurtosis of a read-out against depth, for three kinds of stacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..experiments import Task
from ..numerics import Estimate
from . import _depth as deep
from ._figure import Load, Table, times
from ._settings import Settings
from ._style import COLOURS, LIMIT, MARKERS, panels, powers_of_ten, style

if TYPE_CHECKING:
    import xarray as xr

_SHOWN = {"attention": "kurtosis", "pre": "kurtosis", "post": "difference"}
_OF = {"attention": "x₄", "pre": "x₄", "post": "x₁ − x₂"}
_ORTHOGONAL = (*deep.BETAS, 8.0)


@dataclass(frozen=True, kw_only=True)
class KurtosisFigure(deep.DepthFigure):
    """A column for each kind of stack: above, all score scales at infinite width; below, all widths at the first of them, with predictions."""

    def _orthogonal(self, settings: Settings) -> list[Task]:
        return [deep.stack(settings, "attention", beta, correlation=0.0) for beta in _ORTHOGONAL]

    def tasks(self, settings: Settings) -> list[Task]:
        return [*super().tasks(settings), *self._orthogonal(settings)]

    def dataset(self, settings: Settings, load: Load) -> xr.Dataset:
        found = np.array([load(task)["kurtosis"] for task in self._orthogonal(settings)])
        data = super().dataset(settings, load).assign_coords(orthogonal_beta=list(_ORTHOGONAL))
        return data.assign(orthogonal=(("orthogonal_beta", "block", "statistic"), found))

    def draw(self, data: xr.Dataset) -> Any:
        with style():
            figure, grid = panels(2, len(self.kinds), 4.4, gap=0.28)
            figure.subplots_adjust(hspace=0.12)
            for kind, (above, below) in zip(self.kinds, grid.T, strict=True):
                at = data.sel(stack=kind).isel(block=slice(1, None))
                self._draw_limits(above, at, kind)
                self._draw_widths(below, at, kind)
                above.set_title(f"{deep.TITLES[kind]}, read-out of {_OF[kind]}", loc="left")
                for axes in (above, below):
                    deep.depth_axis(axes, data.attrs["depth"])
                    axes.set_yscale("log")
                    axes.yaxis.set_major_formatter(powers_of_ten)
                    axes.minorticks_off()
                above.tick_params(labelbottom=False)
                below.set_xlabel("depth L")
            (first, second, _), (below, *_) = grid
            first.set_ylabel("excess kurtosis, n = ∞")
            below.set_ylabel(f"excess kurtosis, β = {deep.BETAS[0]:g}")
            first.set_ylim(1e-3, None)
            below.set_ylim(None, 100)
            scales = [f"β = {beta:g}" for beta in deep.BETAS]
            widths = [f"n = {width}" for width in self.widths]
            deep.legend(first, *scales, "orthogonal tokens", loc="lower left")
            deep.legend(second, "slope −1", loc="lower left")
            deep.legend(below, *widths, "n = ∞", "predicted", loc="upper left", ncols=2, columnspacing=1)
        return figure

    def _draw_limits(self, axes: Any, at: xr.Dataset, kind: str) -> None:
        block = at["block"].values
        for i, beta in enumerate(deep.BETAS):
            value, error = at[_SHOWN[kind]].sel(beta=beta).values.T
            axes.errorbar(
                block, value, error, fmt=f"{MARKERS[i]}-", color=COLOURS[i], markersize=3, linewidth=0.8, label=f"β = {beta:g}"
            )  # fmt: skip
            if kind == "attention":
                orthogonal = at["orthogonal"].sel(orthogonal_beta=beta, statistic="value")
                axes.plot(block, orthogonal, "--", color=COLOURS[i], linewidth=0.8)
            if kind == "pre":
                power = value[-1] * (block / block[-1]) ** (-2 * deep.ETA)
                axes.plot(block, power, ":", color=LIMIT, linewidth=0.8, label="slope −1")

        if kind == "attention":
            axes.plot([], [], "--", color=LIMIT, linewidth=0.8, label="orthogonal tokens")

    def _draw_widths(self, axes: Any, at: xr.Dataset, kind: str) -> None:
        block = at["block"].values
        limit = at[_SHOWN[kind]].sel(beta=deep.BETAS[0], statistic="value").values
        for i, width in enumerate(self.widths):
            value, error = at[f"finite_{_SHOWN[kind]}"].sel(width=width).values.T
            axes.errorbar(
                block, value, error, fmt=MARKERS[i], color=COLOURS[i + 3], markersize=3, elinewidth=0.8, label=f"n = {width}"
            )  # fmt: skip
            axes.plot(block, deep.predicted_kurtosis(kind, limit, block, width), color=COLOURS[i + 3], linewidth=0.8)
        axes.plot(block, limit, "o-", color=COLOURS[0], markersize=3, linewidth=0.8, label="n = ∞")
        axes.plot([], [], color=LIMIT, linewidth=0.8, label="predicted")

    def table(self, data: xr.Dataset) -> Table:
        depths = deep.powers_of_two(data.attrs["depth"])
        rows = [
            (deep.TITLES[kind], _OF[kind], *labels, values)
            for kind in self.kinds
            for *labels, values in self.rows(data, kind, _SHOWN[kind])
        ]
        for beta in _ORTHOGONAL:
            values = data["orthogonal"].sel(orthogonal_beta=beta)
            rows.append((f"{deep.TITLES['attention']}, orthogonal tokens", _OF["attention"], f"{beta:g}", "∞", values))
        return Table(
            ("stack", "of", "β", "n", *(f"L = {depth}" for depth in depths)),
            tuple(
                (*labels, *(str(Estimate(*values.sel(block=depth).values)) for depth in depths))
                for *labels, values in rows
            ),
        )

    def finding(self, data: xr.Dataset) -> str:
        depth, narrow, first = data.attrs["depth"], self.widths[0], deep.BETAS[0]
        limit = {kind: data[name].sel(stack=kind, statistic="value") for kind, name in _SHOWN.items()}
        largest = max(
            float(data[name].sel(stack="post", statistic="value").max()) for name in ("kurtosis", "finite_kurtosis")
        )
        slopes = ", ".join(f"−{-slope:.2f}" for slope in deep.last_slopes(limit["pre"]))
        wide = {}
        for kind, name in _SHOWN.items():
            found = data[f"finite_{name}"].sel(stack=kind, width=narrow, block=depth)
            alone = float(limit[kind].sel(beta=first, block=depth))
            predicted = float(deep.predicted_kurtosis(kind, alone, depth, narrow))
            wide[kind] = f"{Estimate(*found.values)} (predicted {predicted:.3g}, in the limit {times(alone)})"
        return (
            f"It does not. At every depth and width a fresh read-out is Gaussian given the Gram matrix of the stream, so that its law stays a mixture of Gaussians, over a Markov chain of Gram matrices; depth decides how "
            f"much there is to mix. At infinite width attention alone takes the excess kurtosis from {_ends(limit['attention'])} (β = 1, 2, 4; one layer → {depth}) and freezes it, to a percent from layer {_frozen(limit['attention'])} on: "
            f"tokens that agree no longer feel the scores. {_risen(data['orthogonal'].sel(statistic='value'))}Under pre-LN it falls, {_ends(limit['pre'])}, with slopes of {slopes} between L = {depth // 2} and {depth} on their way to "
            f"−2η = −1: depth makes a token more Gaussian. Under post-LN a token is Gaussian at every depth (the largest kurtosis of this run is {times(largest)}), and what there is sits in joint laws: that of x₁ − x₂ rises and then stands still, {_ends(limit['post'])}. "
            f"What grows with depth is the noise of a finite width. At n = {narrow}, β = {first:g}, L = {depth} the kurtosis of attention alone is {wide['attention']}, 12 L/n to first order; that of x₁ − x₂ under post-LN {wide['post']}, "
            f"15 L/n; under pre-LN it is {wide['pre']}, 6/n at any depth."
        )

    def setup(self, data: xr.Dataset) -> str:
        return (
            f"{deep.setup_sentence(data)} Excess kurtosis: 3 Var v / (E v)² over networks, v = K₄₄, or K₁₁ + K₂₂ − 2 K₁₂ for x₁ − x₂. Predicted at width n: the limit with the noise of equal tokens, "
            f"(1 + 2/n)^2L for attention alone and (1 + 5/n)^L for post-LN as factors of 1 + κ/3, and κ + 6/n for pre-LN. Broken lines: the same from orthogonal tokens."
        )


def _ends(limit: xr.DataArray) -> str:
    """From one layer to the last, for each score scale."""
    ends = limit.isel(block=[1, -1]).transpose("beta", "block").values
    return ", ".join(f"{times(one)} → {times(last)}" for one, last in ends)


def _frozen(limit: xr.DataArray) -> int:
    """The layer from which on no kurtosis differs from the last by more than a percent."""
    moved = (abs(limit / limit.isel(block=-1) - 1) > 0.01).any("beta")
    return int(limit["block"][moved].max()) + 1


def _risen(orthogonal: xr.DataArray) -> str:
    """Whether it may rise, in a sentence."""
    one, last = orthogonal.isel(block=1), orthogonal.isel(block=-1)
    scales = [beta for beta in _ORTHOGONAL if last.sel(orthogonal_beta=beta) > 1.05 * one.sel(orthogonal_beta=beta)]
    if not scales:
        return ""
    at = {"orthogonal_beta": scales[0]}
    return f"With a large score scale it can rise: from orthogonal tokens at β = {scales[0]:g}, {times(float(one.sel(at)))} → {times(float(last.sel(at)))}. "


FIGURE = KurtosisFigure(
    name="deep_kurtosis",
    title="Depth: the kurtosis of a read-out",
    claim="Stacking attention layers drives the law further and further from Gaussianity, and from any law that is Gaussian given a few random scalars (the outlook of the attention paper).",
    kinds=("attention", "pre", "post"),
    widths=(64, 256, 1024),
    observables=("kurtosis", "difference"),
)

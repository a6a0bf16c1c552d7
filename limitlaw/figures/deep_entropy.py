"""How evenly attention looks at its keys, against depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..numerics import Estimate
from . import _depth as deep
from ._figure import Table
from ._style import COLOURS, LIMIT, MARKERS, panels, powers_of_ten, style

if TYPE_CHECKING:
    import xarray as xr

_SMALL = 0.01  # a deficit at which the expansion is compared


@dataclass(frozen=True, kw_only=True)
class EntropyFigure(deep.DepthFigure):
    """What entropy lacks of uniform attention: against depth, and against what the scores can still tell apart."""

    def draw(self, data: xr.Dataset) -> Any:
        with style():
            figure, (row,) = panels(1, 3, 2.7, gap=0.3)
            *by_depth, together = row
            for kind, axes in zip(self.kinds, by_depth, strict=True):
                at = data.sel(stack=kind, statistic="value")
                for i, beta in enumerate(deep.BETAS):
                    limit = at.sel(beta=beta)
                    line = deep.predicted_deficit(_scores(limit["gap"], beta))
                    look = {"color": COLOURS[i], "marker": MARKERS[i], "markersize": 3, "linewidth": 0}
                    axes.plot(at["block"], np.where(line < 0.5, line, np.nan), color=COLOURS[i], linewidth=0.8)
                    axes.plot(at["block"], limit["deficit"], label=f"n = ∞, β = {beta:g}", **look)
                    together.plot(_scores(limit["gap"], beta), limit["deficit"], **look)
                for width in self.widths:
                    look = {"color": COLOURS[0], "markersize": 3, "markerfacecolor": "none", "markeredgewidth": 0.6}
                    finite = at.sel(width=width)
                    label = f"n = {width}, β = {deep.BETAS[0]:g}"
                    axes.plot(at["block"], finite["finite_deficit"], "o", label=label, **look)
                    together.plot(_scores(finite["finite_gap"], deep.BETAS[0]), finite["finite_deficit"], "o", **look)
                axes.plot([], [], color=LIMIT, linewidth=0.8, label="predicted")
                axes.set_title(deep.TITLES[kind], loc="left")
                axes.set_xlabel("block")
                axes.set_yscale("log")
                axes.yaxis.set_major_formatter(powers_of_ten)
            first, second = by_depth
            first.set_ylabel("1 − entropy / log 4")
            deep.depth_axis(first, data.attrs["depth"])
            first.set_ylim(0.03, 1)
            first.set_yticks([0.03, 0.1, 0.3, 1.0], ["0.03", "0.1", "0.3", "1"])
            second.set_xticks(range(0, data.attrs["depth"] + 1, 4))
            second.legend(loc="lower left", fontsize=6)
            together.set_xscale("log")
            together.set_yscale("log")
            low, high = together.get_xlim()
            line = np.array([low, 2.0])
            together.plot(line, deep.predicted_deficit(line), color=LIMIT, linewidth=0.8, zorder=0)
            together.set_xlim(low, high)
            together.set_title("both", loc="left")
            together.set_xlabel("β² (1 − cos) before the block")
            for axis in (together.xaxis, together.yaxis):
                axis.set_major_formatter(powers_of_ten)
            for axes in row:
                axes.minorticks_off()
        return figure

    def table(self, data: xr.Dataset) -> Table:
        blocks = deep.powers_of_two(data.attrs["depth"])
        rows = tuple(
            (deep.TITLES[kind], *labels, *(str(Estimate(*deficit.sel(block=block).values)) for block in blocks))
            for kind in self.kinds
            for *labels, deficit in self.rows(data, kind, "deficit")
        )
        return Table(("stack", "β", "n", *(f"1 − S / log 4, block {block}" for block in blocks)), rows)

    def finding(self, data: xr.Dataset) -> str:
        depth, narrow = data.attrs["depth"], self.widths[0]
        left = data["deficit"].sel(statistic="value")
        post = data.sel(stack="post", statistic="value")
        predicted = deep.predicted_deficit(post["beta"] ** 2 * post["gap"].shift(block=1))
        worst = float(abs(predicted / post["deficit"] - 1).where(post["deficit"] < _SMALL).max())
        finite = float(data["finite_deficit"].sel(stack="pre", width=narrow, block=depth, statistic="value"))
        return (
            f"At initialisation attention becomes more even with depth: as tokens become alike, scores have nothing left to tell them apart by. The first block lacks {_percent(left.sel(stack='pre', block=1))} of the entropy of "
            f"uniform attention (β = 1, 2, 4); block {depth} lacks {_percent(left.sel(stack='pre', block=depth))} under pre-LN and {_percent(left.sel(stack='post', block=depth))} under post-LN. For nearly equal tokens the lack is "
            f"β² (1 − cos)(s − 1)/(2 s log s), half the variance of the scores over the keys, so that it has the rates of the collapse, 1/√L and 2^−L; where post-LN lacks less than {100 * _SMALL:g}% this is right to {100 * worst:.1f}%. "
            f"The width hardly matters (pre-LN, n = {narrow}, β = {deep.BETAS[0]:g}, block {depth}: {100 * finite:.3g}%). Low entropy at depth takes a stack that collapses slowly and a large score scale, or training."
        )


def _scores(gap: xr.DataArray, beta: float) -> np.ndarray:
    """`beta^2 (1 - cos)` of what each block sees: the stream after the block before."""
    return beta**2 * gap.shift(block=1).values


def _percent(values: xr.DataArray) -> str:
    return ", ".join(f"{100 * float(value):.3g}%" for value in values)


FIGURE = EntropyFigure(
    name="deep_entropy",
    title="Depth: the entropy of attention",
    claim="Attention entropy is watched in training, where its collapse goes with instability (Zhai et al. 2023); what it is at initialisation, layer by layer, follows from the Gram matrices.",
    kinds=("pre", "post"),
    widths=(64,),
    observables=("deficit", "gap"),
)

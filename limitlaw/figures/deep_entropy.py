"""How evenly attention looks at its keys, against depth."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from .._format import Column, Table
from . import _depth as deep
from ._style import COLOURS, LIMIT, MARKERS, outside_legend

TITLE = "Depth: the entropy of attention"
CLAIM = "Attention entropy is watched in training, where its collapse goes with instability (Zhai et al. 2023). At initialisation it follows, layer by layer, from the Gram matrices."
GROUP = "deep"
_DATA = deep.Stacks(kinds=("pre", "post"), widths=(64,), observables=("deficit", "gap"))
STUDY, gather = _DATA.studies, _DATA.gather
LAYOUT = [["pre", "post", "both"]]
HEIGHT = 3.0
_SMALL = 0.01  # a deficit at which the expansion is compared


def plot(data: xr.Dataset, axes: dict[str, Any]) -> None:
    """What entropy lacks of that of uniform attention: against depth, and against the variance of the scores."""
    together = axes["both"]
    for kind in map(str, data["stack"].values):
        panel, at = axes[kind], data.sel(stack=kind, statistic="value")
        for i, beta in enumerate(deep.BETAS):
            limit = at.sel(beta=beta)
            line = deep.predicted_deficit(_scores(limit["gap"], beta))
            look: dict[str, Any] = {"color": COLOURS[i], "marker": MARKERS[i], "markersize": 3, "linewidth": 0}
            panel.plot(at["block"], limit["deficit"], label=rf"$n = \infty$, $\beta = {beta:g}$", **look)
            panel.plot(at["block"], np.where(line < 1, line, np.nan), color=COLOURS[i], linewidth=0.8)
            together.plot(_scores(limit["gap"], beta), limit["deficit"], **look)
        for width in data["width"].values:
            look = {"color": COLOURS[0], "markersize": 3, "markerfacecolor": "none", "markeredgewidth": 0.6}
            finite = at.sel(width=width)
            label = rf"$n = {width}$, $\beta = {deep.BETAS[0]:g}$"
            panel.plot(at["block"], finite["finite_deficit"], "o", label=label, **look)
            together.plot(_scores(finite["finite_gap"], deep.BETAS[0]), finite["finite_deficit"], "o", **look)
        panel.plot([], [], color=LIMIT, linewidth=0.8, label="first order in the variance of the scores")
        panel.set_title(deep.TITLES[kind])
        panel.set_xlabel("block")
        panel.set_yscale("log")
    axes["pre"].set_ylabel(r"$1 - S / \log 4$")
    deep.depth_axis(axes["pre"], data.attrs["depth"])
    low = 0.8 * float(data["deficit"].sel(stack="pre", statistic="value").min())
    ticks = [tick for tick in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if tick >= low]
    axes["pre"].set_ylim(low, 1.05)
    axes["pre"].set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes["pre"].yaxis.minorticks_off()
    axes["post"].set_xticks(range(0, data.attrs["depth"] + 1, max(data.attrs["depth"] // 4, 1)))
    together.set_xscale("log")
    together.set_yscale("log")
    limits = together.get_xlim(), together.get_ylim()
    line = np.geomspace(limits[0][0], limits[0][1], 50)
    together.plot(line, deep.predicted_deficit(line), color=LIMIT, linewidth=0.8, zorder=0)
    together.set_xlim(limits[0])
    together.set_ylim(limits[1][0], 1.05)
    together.set_title("pre-LN and post-LN")
    together.set_xlabel(r"$\beta^2 (1 - \cos)$ before the block")
    outside_legend(together.figure, axes["pre"])


def numbers(data: xr.Dataset) -> dict[str, Any]:
    """Deficits at both ends, and how good the expansion is where they are small and where they are not."""
    depth, narrow = data.attrs["depth"], int(data["width"][0])
    blocks = deep.powers_of_two(depth)
    table = [
        (deep.TITLES[str(kind)], beta, width, *(deficit[block] for block in blocks))
        for kind in data["stack"].values
        for beta, width, deficit in deep.rows(data, str(kind), "deficit")
    ]
    header = (
        "stack",
        Column("β", 1),
        Column("n", 3),
        *(Column(f"1 − S / log 4, block {b}", 4, one_quantity=False) for b in blocks),
    )
    at = data.sel(statistic="value")
    left, post = at["deficit"], at.sel(stack="post")
    ratio = deep.predicted_deficit(at["beta"] ** 2 * at["gap"].shift(block=1)) / left
    finite = float(data["finite_deficit"].sel(stack="pre", width=narrow, block=depth, statistic="value"))
    return {
        **deep.common(data),
        "first": left.sel(stack="pre", block=1).values.tolist(),
        "last": {kind: left.sel(stack=kind, block=depth).values.tolist() for kind in ("pre", "post")},
        "small": _SMALL,
        "worst": float(abs(ratio.sel(stack="post") - 1).where(post["deficit"] < _SMALL).max()),
        "ratios": ratio.sel(stack="pre", block=depth).values.tolist(),
        "narrow": narrow,
        "finite": finite,
        "table": Table(header, table),
    }


def _scores(gap: xr.DataArray, beta: float) -> np.ndarray:
    """`beta^2 (1 - cos)` of what each block sees: the stream after the block before."""
    return beta**2 * gap.shift(block=1).values

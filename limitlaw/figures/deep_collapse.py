"""Rank collapse: how fast the tokens of a deep network become equal."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import xarray as xr

from .._format import Column, Table
from . import _depth as deep
from ._style import COLOURS, FLOOR, LIMIT, MARKERS, outside_legend

TITLE = "Depth: tokens become equal"
CLAIM = "Attention without skips loses rank doubly exponentially; skips and perceptrons slow this down (Dong, Cordonnier and Loukas 2021, as bounds)."
GROUP = "deep"
_DATA = deep.Stacks(kinds=("attention", "skip", "pre", "post"), widths=(64,), observables=("gap", "cubic"))
STUDY, gather = _DATA.studies, _DATA.gather
LAYOUT = [["attention", "skip"], ["pre", "post"]]
HEIGHT = 4.8
_RATES = {
    "attention": "cubic",
    "skip": "halved by each layer",
    "pre": r"like $1/\sqrt{L}$",
    "post": "halved by each block",
}


def plot(data: xr.Dataset, axes: dict[str, Any]) -> None:
    """`1 - cos`, averaged over pairs of tokens, against depth: a panel for each kind of stack."""
    for kind, panel in axes.items():
        at = data.sel(stack=kind)
        for i, beta in enumerate(deep.BETAS):
            limit = at.sel(beta=beta, statistic="value")
            _plot_points(panel, at["gap"].sel(beta=beta), i, rf"$n = \infty$, $\beta = {beta:g}$")
            panel.plot(at["block"], _predicted(kind, limit), color=COLOURS[i], linewidth=0.8)
        for width in data["width"].values:
            label = rf"$n = {width}$, $\beta = {deep.BETAS[0]:g}$"
            _plot_points(panel, at["finite_gap"].sel(width=width), 0, label, markerfacecolor="none")
        panel.plot([], [], color=LIMIT, linewidth=0.8, label="predicted")
        panel.set_yscale("log")
        panel.set_title(f"{deep.TITLES[kind]}: {_RATES[kind]}")
        if kind in ("pre", "post"):
            panel.set_xlabel("depth $L$")
        if kind in ("attention", "pre"):
            panel.set_ylabel(r"$1 - \cos$, mean over pairs")
        if kind == "pre":
            deep.depth_axis(panel, data.attrs["depth"])
            low = float(at["gap"].sel(statistic="value").min())
            panel.set_ylim(0.8 * low, 1)
            ticks = [tick for tick in (0.05, 0.1, 0.2, 0.5, 1.0) if tick >= 0.8 * low]
            panel.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
            panel.yaxis.minorticks_off()
            continue
        shown = at["gap"].sel(statistic="value").max("beta") > deep.SMALLEST_GAP
        last = int(at["block"][shown].max())
        panel.set_xlim(-0.3, last + 0.3)
        panel.set_xticks(range(0, last + 1, max(last // 8, 1)))
        low = float(at["gap"].sel(statistic="value").min())
        if low < deep.SMALLEST_GAP:
            panel.axhspan(deep.SMALLEST_GAP / 4, deep.SMALLEST_GAP, color=FLOOR, alpha=0.3, linewidth=0)
            panel.text(
                0, 1.2 * deep.SMALLEST_GAP, "single precision ends here", va="bottom", fontsize=7, color="#555555"
            )
        panel.set_ylim(max(low / 2, deep.SMALLEST_GAP / 4), 1.2)
    outside_legend(axes["attention"].figure, axes["attention"])


def _plot_points(axes: Any, gap: xr.DataArray, i: int, label: str, **face: Any) -> None:
    value, error = np.where(gap.sel(statistic="value") > deep.SMALLEST_GAP, gap.values.T, np.nan)
    look = {"color": COLOURS[i], "markersize": 3, "elinewidth": 0.6, "markeredgewidth": 0.6}
    axes.errorbar(gap["block"], value, error, fmt=MARKERS[i], label=label, **look, **face)


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


def numbers(data: xr.Dataset) -> dict[str, Any]:
    """Rates of the collapse, and what is left of `1 - cos`."""
    depth = data.attrs["depth"]
    depths = [0, *deep.powers_of_two(depth)]
    table = [
        (deep.TITLES[kind], beta, width, *(gap[i] for i in depths))
        for kind in data["stack"].values
        for beta, width, gap in deep.rows(data, str(kind), "gap")
    ]
    shown = (Column(f"1 − cos, L = {i}", 4, one_quantity=False, least=deep.SMALLEST_GAP) for i in depths)
    header = ("stack", Column("β", 1), Column("n", 3), *shown)
    gap = {str(kind): data["gap"].sel(stack=kind, statistic="value") for kind in data["stack"].values}
    cubes = data["cubic"].sel(stack="attention", statistic="value", beta=deep.BETAS[1]).values
    alone = gap["attention"].sel(beta=deep.BETAS[1]).values
    finite = data["finite_gap"].sel(stack="post", width=data["width"][0], statistic="value").values
    return {
        **deep.common(data),
        "narrow": int(data["width"][0]),
        "smallest": -6,
        "lost": [_lost(gap["attention"].sel(beta=beta)) for beta in deep.BETAS],
        "cubic_beta": deep.BETAS[1],
        "cubic": [(float(cubes[layer]), float(alone[layer + 1]), layer + 1) for layer in (1, 2)],
        "factors": {kind: (gap[kind][:, -1] / gap[kind][:, -2]).values.tolist() for kind in ("skip", "post")},
        "slopes": deep.last_slopes(gap["pre"]).tolist(),
        "left": gap["pre"][:, -1].values.tolist(),
        "finite_factor": float(finite[-1] / finite[-2]),
        "table": Table(header, [(*row[:2], inf if row[2] == inf else int(row[2]), *row[3:]) for row in table]),
    }


def _lost(gap: xr.DataArray) -> int:
    """The first layer after which tokens are equal up to rounding."""
    return int(gap["block"][gap < deep.SMALLEST_GAP].min())

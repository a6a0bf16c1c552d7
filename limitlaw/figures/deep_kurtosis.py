"""Is a deep network further from a Gaussian? The kurtosis of a read-out against depth, for three kinds of stacks."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import xarray as xr

from .._format import Column, Table
from ..experiments import Study
from ..numerics import Estimate
from . import _depth as deep
from ._settings import Settings
from ._style import COLOURS, LIMIT, MARKERS, outside_legend

TITLE = "Depth: the kurtosis of a read-out"
CLAIM = "Stacking attention layers drives the law further and further from Gaussianity, and from any law that is Gaussian given a few random scalars (the outlook of the attention paper)."
GROUP = "deep"
LAYOUT = [["attention", "pre", "post"], ["attention, widths", "pre, widths", "post, widths"]]
HEIGHT = 4.6
_SHOWN = {"attention": "kurtosis", "pre": "kurtosis", "post": "difference"}
_OF = {"attention": "x₄", "pre": "x₄", "post": "x₁ − x₂"}
_MATH = {"attention": "$x_4$", "pre": "$x_4$", "post": "$x_1 - x_2$"}
_ORTHOGONAL = (*deep.BETAS, 8.0)


_STACKS = deep.Stacks(kinds=tuple(_SHOWN), widths=(64, 256, 1024), observables=("kurtosis", "difference"))


def STUDY(settings: Settings) -> dict[str, Study]:
    """Stacks from correlated tokens, and attention alone from orthogonal ones."""
    orthogonal = deep.stack(settings, "attention", {"query_std": _ORTHOGONAL}, correlation=0.0)
    return {**_STACKS.studies(settings), "orthogonal": orthogonal}


def gather(found: Mapping[str, xr.Dataset], settings: Settings) -> xr.Dataset:
    """One dataset by kind of stack, with orthogonal tokens beside."""
    data = _STACKS.gather(found, settings).assign_coords(orthogonal_beta=list(_ORTHOGONAL))
    orthogonal = deep.along_depth(found["orthogonal"], "kurtosis")
    return data.assign(orthogonal=(("orthogonal_beta", "block", "statistic"), orthogonal))


def plot(data: xr.Dataset, axes: dict[str, Any]) -> None:
    """Above, all score scales at infinite width; below, all widths at the first of them, with predictions."""
    for kind in _SHOWN:
        at = data.sel(stack=kind).isel(block=slice(1, None))
        above, below = axes[kind], axes[f"{kind}, widths"]
        _plot_limits(above, at, kind)
        _plot_widths(below, at, kind)
        above.set_title(f"{deep.TITLES[kind]}, {_MATH[kind]}")
        below.set_title(rf"{deep.TITLES[kind]}, $\beta = {deep.BETAS[0]:g}$")
        for panel in (above, below):
            deep.depth_axis(panel, data.attrs["depth"])
            panel.set_yscale("log")
        below.set_xlabel("depth $L$")
    axes["attention"].set_ylabel(r"excess kurtosis, $n = \infty$")
    axes["attention, widths"].set_ylabel("excess kurtosis")
    outside_legend(axes["pre"].figure, *(axes[name] for name in ("attention", "pre", "attention, widths")))


def _plot_limits(axes: Any, at: xr.Dataset, kind: str) -> None:
    block = at["block"].values
    for i, beta in enumerate(deep.BETAS):
        value, error = at[_SHOWN[kind]].sel(beta=beta).values.T
        look: dict[str, Any] = {"color": COLOURS[i], "markersize": 3, "linewidth": 0.8}
        axes.errorbar(block, value, error, fmt=f"{MARKERS[i]}-", label=rf"$\beta = {beta:g}$", **look)
        if kind == "attention":
            orthogonal = at["orthogonal"].sel(orthogonal_beta=beta, statistic="value")
            axes.plot(block, orthogonal, "--", color=COLOURS[i], linewidth=0.8)
        if kind == "pre":
            power = value[-1] * (block / block[-1]) ** (-2 * deep.ETA)
            axes.plot(block, power, ":", color=LIMIT, linewidth=0.8, label="slope −1")
    if kind == "attention":
        axes.plot([], [], "--", color=LIMIT, linewidth=0.8, label="orthogonal tokens")


def _plot_widths(axes: Any, at: xr.Dataset, kind: str) -> None:
    block = at["block"].values
    limit = at[_SHOWN[kind]].sel(beta=deep.BETAS[0], statistic="value").values
    for i, width in enumerate(at["width"].values):
        value, error = at[f"finite_{_SHOWN[kind]}"].sel(width=width).values.T
        look: dict[str, Any] = {"color": COLOURS[i + 3], "markersize": 3, "elinewidth": 0.8}
        axes.errorbar(block, value, error, fmt=MARKERS[i], label=f"$n = {width}$", **look)
        axes.plot(block, deep.predicted_kurtosis(kind, limit, block, width), color=COLOURS[i + 3], linewidth=0.8)
    axes.plot(block, limit, "o-", color=COLOURS[0], markersize=3, linewidth=0.8, label=r"$n = \infty$")
    axes.plot([], [], color=LIMIT, linewidth=0.8, label="predicted")


def numbers(data: xr.Dataset) -> dict[str, Any]:
    """Where the kurtosis starts and ends, its slopes, and what a finite width adds."""
    depth, narrow, first = data.attrs["depth"], int(data["width"][0]), deep.BETAS[0]
    limit = {kind: data[name].sel(stack=kind, statistic="value") for kind, name in _SHOWN.items()}
    largest = max(
        float(data[name].sel(stack="post", statistic="value").max()) for name in ("kurtosis", "finite_kurtosis")
    )
    finite = {}
    for kind, name in _SHOWN.items():
        found = Estimate(*data[f"finite_{name}"].sel(stack=kind, width=narrow, block=depth).values)
        alone = float(limit[kind].sel(beta=first, block=depth))
        finite[kind] = (found, float(deep.predicted_kurtosis(kind, alone, depth, narrow)), alone)
    return {
        **deep.common(data),
        "narrow": narrow,
        "first_beta": first,
        "ends": {kind: _ends(values) for kind, values in limit.items()},
        "frozen": _frozen(limit["attention"]),
        "risen": _risen(data["orthogonal"].sel(statistic="value")),
        "slopes": deep.last_slopes(limit["pre"]).tolist(),
        "largest": largest,
        "finite": finite,
        "table": _table(data),
    }


def _table(data: xr.Dataset) -> Table:
    depths = deep.powers_of_two(data.attrs["depth"])
    rows = [
        (deep.TITLES[kind], _OF[kind], beta, width, *(values[depth] for depth in depths))
        for kind in _SHOWN
        for beta, width, values in deep.rows(data, kind, _SHOWN[kind])
    ]
    for beta in _ORTHOGONAL:
        values = data["orthogonal"].sel(orthogonal_beta=beta).values
        name = f"{deep.TITLES['attention']}, orthogonal tokens"
        rows.append((name, _OF["attention"], beta, inf, *(Estimate(*values[depth]) for depth in depths)))
    columns = (Column(f"L = {depth}", 4, one_quantity=False) for depth in depths)
    return Table(("stack", "of", Column("β", 1), Column("n", 3), *columns), rows)


def _ends(limit: xr.DataArray) -> list[tuple[float, float]]:
    """After one layer and after the last, for each score scale."""
    return [(float(one), float(last)) for one, last in limit.isel(block=[1, -1]).transpose("beta", "block").values]


def _frozen(limit: xr.DataArray) -> int:
    """The layer from which on no kurtosis differs from the last by more than a percent."""
    moved = (abs(limit / limit.isel(block=-1) - 1) > 0.01).any("beta")
    return int(limit["block"][moved].max()) + 1


def _risen(orthogonal: xr.DataArray) -> tuple[float, float, float] | None:
    """The smallest score scale at which the kurtosis rises with depth, and where it starts and ends there."""
    for beta in _ORTHOGONAL:
        at = orthogonal.sel(orthogonal_beta=beta)
        one, last = float(at.isel(block=1)), float(at.isel(block=-1))
        if last > 1.05 * one:
            return beta, one, last
    return None

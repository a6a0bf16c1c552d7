"""Descent from uniform starts, on the population risk and on growing data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from .._format import Column, Table
from ..experiments import Descent, Simulation, Study
from . import _regression as regression
from ._settings import Settings
from ._style import COLOURS, LIMIT, outside_legend

TITLE = "Regression: uniform starts, and more data"
CLAIM = "Gradient descent needs no special start, and the mean field describes it at n = 1,000."
GROUP = "slr"
LAYOUT = [["risk", "gap"]]
HEIGHT = 3.1
_STARTS = 6
_SIZES = (1000, 3000, 9000)


def STUDY(settings: Settings) -> dict[str, Study]:
    """Descents from the same uniform starts, on the population risk and on training sets of growing size."""
    sizes = _SIZES if settings.steps >= Settings().steps else (_SIZES[0] // 2, _SIZES[0])
    start = regression.uniform_starts(_STARTS, settings.seed_for("slr uniform"))
    how: dict[str, Any] = {"steps": settings.steps, "step_size": regression.STEP_SIZE, "start": start}
    seed = settings.seed_for("slr samples")
    problem = regression.FIGURE_2
    return {
        # the longest first: there is other work meanwhile
        "simulation": Study(
            problem, axes={"samples": list(reversed(sizes))}, measure=[Simulation(**how)], name="simulation", seed=seed
        ),
        "exact": Study(problem, axes={}, measure=[Descent(**how, name="exact")], name="exact descent"),
    }


def gather(found: Mapping[str, xr.Dataset], settings: Settings) -> xr.Dataset:
    """Risks and overlaps, exact and by the number of samples."""
    exact, simulated = found["exact"], found["simulation"].isel(trial=0).sortby("samples")
    return xr.Dataset(
        {
            "exact_risk": (("start", "step"), exact["exact_risk"].values),
            "exact_overlap": (("start", "step", "name"), exact["exact_overlap"].values),
            "risk": (("samples", "start", "step"), simulated["simulation_risk"].values),
            "overlap": (("samples", "start", "step", "name"), simulated["simulation_overlap"].values),
        },
        coords={
            "samples": simulated["samples"].values,
            "start": exact["start"].values,
            "step": exact["step"].values,
            "name": exact["overlap"].values,
        },
        attrs={**regression.FIGURE_2, "link": "linear", "step_size": regression.STEP_SIZE, "steps": settings.steps},
    )


def plot(data: xr.Dataset, axes: dict[str, Any]) -> None:
    """The risk on the left; on the right the gap between simulation and exact dynamics against the number of samples."""
    left, right = axes["risk"], axes["gap"]
    few = int(data["samples"][0])
    gap = _gaps(data)
    for i, colour in enumerate(COLOURS[: data.sizes["start"]]):
        left.plot(data["step"], data["exact_risk"][i], "--", color=colour, linewidth=1)
        left.plot(data["step"], data["risk"].sel(samples=few)[i], color=colour, linewidth=1)
        start = float(data["exact_overlap"][i, 0].sel(name="mu"))
        label = rf"$\mu_0 = {start:.2f}$"
        right.plot(data["samples"], gap[:, i], "o-", color=colour, markersize=3, label=label)
    left.plot([], [], "--", color=LIMIT, linewidth=1, label="exact")
    left.plot([], [], color=LIMIT, linewidth=1, label="simulation")
    left.set_ylim(0, None)
    left.set_xlim(0, float(data["step"][-1]))
    left.set_xlabel("step")
    left.set_ylabel("excess risk")
    left.set_title(f"risk, {few:,} training sequences")
    right.set_xscale("log")
    right.set_xticks(data["samples"].values, [f"{int(n):,}" for n in data["samples"]])
    right.xaxis.minorticks_off()
    right.set_ylim(0, None)
    right.set_xlabel("training sequences $n$")
    right.set_ylabel(r"largest gap in $\nu$")
    right.set_title("simulated less exact")
    outside_legend(left.figure, left, right)


def numbers(data: xr.Dataset) -> dict[str, Any]:
    """How many starts learn, and the gaps to the exact dynamics."""
    gap, sizes = _gaps(data), [int(n) for n in data["samples"].values]
    rows = []
    for i in range(data.sizes["start"]):
        mu, nu = (float(data["exact_overlap"][i, 0].sel(name=name)) for name in ("mu", "nu"))
        finals = map(float, data["risk"][:, i, -1])
        rows.append((i + 1, mu, nu, float(data["exact_risk"][i, -1]), *finals, *map(float, gap[:, i])))
    columns = [Column("μ₀", 2, one_quantity=False), Column("ν₀", 2, one_quantity=False)]
    columns += [
        Column(f"final risk, {size}", 3, one_quantity=False) for size in ("exact", *(f"n = {n:,}" for n in sizes))
    ]
    columns += [Column(f"gap in ν, n = {n:,}", 2, one_quantity=False) for n in sizes]
    learned = (data["risk"][..., -1] < regression.LEARNED).sum("start").values
    return {
        "starts": data.sizes["start"],
        "exact": int((data["exact_risk"][:, -1] < regression.LEARNED).sum()),
        "learned": [(int(count), n) for count, n in zip(learned, sizes, strict=True)],
        "gaps": gap.mean(axis=1).tolist(),
        "table": Table(("start", *columns), rows),
    }


def _gaps(data: xr.Dataset) -> np.ndarray:
    """The largest difference in `nu` to the exact dynamics, (samples, start)."""
    nu = data["overlap"].sel(name="nu") - data["exact_overlap"].sel(name="nu")
    return np.abs(nu.transpose("samples", "start", "step").values).max(axis=-1)

"""Figure 2 of the regression paper: descent for three links, simulation beside both theories."""

from __future__ import annotations

from typing import Any

import xarray as xr

from .. import slr
from .._format import Column, Table
from ..experiments import Descent, Simulation, Study
from ..slr import Problem
from . import _regression as regression
from ._settings import Settings
from ._style import COLOURS, outside_legend

TITLE = "Regression, figure 2: descent for three links"
CLAIM = "Simulated Riemannian gradient descent agrees with the mean-field dynamics, for a linear, a quadratic and a ReLU link."
GROUP = "slr"
_LINKS = ("linear", "quadratic", "relu")
LAYOUT = [list(_LINKS), [f"{link} overlaps" for link in _LINKS]]
HEIGHT = 4.4
_TITLES = {"linear": "linear", "quadratic": "quadratic", "relu": "ReLU"}
_SAMPLES = 1000
_INFORMED = [0.5, 0.3, 0.0, 0.0, 0.0]
_METHODS: dict[str, tuple[str, str, float]] = {
    "simulation": (rf"simulation, $n = {_SAMPLES}$", "-", 1.6),
    "exact": ("exact", "--", 1.2),
    "sub-exponential": (r"mean field, $\alpha = 0$", ":", 1.2),
    "mean-field": (r"mean field, $\alpha = \log L / d$", "-.", 0.8),
}
_COMPARED = ("exact", "mean field, α = 0", "mean field, α = log L / d")


def STUDY(settings: Settings) -> Study:
    """Descents for each link from an informed and from a uniform start."""
    start = [_INFORMED, *regression.uniform_starts(1, settings.seed_for("slr start"))]
    how: dict[str, Any] = {"steps": settings.steps, "step_size": regression.STEP_SIZE, "start": start}
    return Study(
        regression.FIGURE_2,
        axes={"link": list(_LINKS)},
        measure=[
            Simulation(**how),
            Descent(**how, name="exact"),
            Descent(**how, name="sub-exponential", method="mean-field", alpha=0.0),
            Descent(**how, name="mean-field", method="mean-field"),
        ],
        name="descent for three links",
        seed=settings.seed_for("slr data"),
        samples=_SAMPLES,
    )


def gather(found: xr.Dataset, settings: Settings) -> xr.Dataset:
    """Risks and overlaps by link, theory and start."""
    names, found = {name: name for name in _METHODS}, found.isel(trial=0)
    axes = ("theory", "link", "start", "step")
    return xr.Dataset(
        {
            "risk": (axes, regression.theories(found, names, "risk")),
            "overlap": ((*axes, "name"), regression.theories(found, names, "overlap")),
        },
        coords={
            "link": list(_LINKS),
            "theory": list(_METHODS),
            "start": ["informed", "uniform"],
            "step": found["step"].values,
            "name": found["overlap"].values,
        },
        attrs={**regression.FIGURE_2, "samples": _SAMPLES, "step_size": regression.STEP_SIZE, "steps": settings.steps},
    )


def plot(data: xr.Dataset, axes: dict[str, Any]) -> None:
    """Risk above, overlaps below, one column for each link, from an informed start."""
    at = data.sel(start="informed")
    for link in _LINKS:
        above, below = axes[link], axes[f"{link} overlaps"]
        for name, (label, dashes, width) in _METHODS.items():
            line = at.sel(link=link, theory=name)
            above.plot(data["step"], line["risk"], dashes, color=COLOURS[0], linewidth=width, label=label)
            for overlap, colour in (("mu", COLOURS[1]), ("nu", COLOURS[2])):
                below.plot(data["step"], line["overlap"].sel(name=overlap), dashes, color=colour, linewidth=width)
        # the mean field may start far above: what is compared sets the range
        above.set_ylim(0, 1.05 * float(at.sel(link=link, theory=["simulation", "exact"])["risk"].max()))
        above.set_title(f"{_TITLES[link]} link")
        below.set_title("overlaps")
        below.set_xlabel("step")
        for panel in (above, below):
            panel.set_xlim(0, float(data["step"][-1]))
    last = axes["linear overlaps"]
    for symbol, colour in ((r"$\mu$", COLOURS[1]), (r"$\nu$", COLOURS[2])):
        last.plot([], [], color=colour, label=symbol)
    axes["linear"].set_ylabel("excess risk")
    last.set_ylabel("overlap")
    outside_legend(last.figure, axes["linear"], last)


def numbers(data: xr.Dataset) -> dict[str, Any]:
    """Final risks, gaps between simulation and theories, and what limits the step for the quadratic link."""
    nu = data["overlap"].sel(name="nu")
    gap = abs(nu.sel(theory="simulation") - nu).max("step")
    theories = ("exact", "sub-exponential", "mean-field")
    rows = []
    for link in _LINKS:
        for start in map(str, data["start"].values):
            at = data["risk"].sel(link=link, start=start).isel(step=-1)
            gaps = [float(gap.sel(link=link, start=start, theory=name)) for name in theories]
            rows.append((_TITLES[link], start, *(float(at.sel(theory=name)) for name in _METHODS), *gaps))
    simulated = data["risk"].sel(start="uniform", theory="simulation").isel(step=-1)
    problem = Problem(**regression.FIGURE_2, link="quadratic")
    sinks = [point for point in slr.stationary_points(problem) if point.kind == "sink" and point.transverse]
    names = ["final risk, simulated", *(f"final risk, {name}" for name in _COMPARED)]
    columns = [Column(name, 3, one_quantity=False) for name in names]
    columns += [Column(f"largest gap in ν, {name}", 2, one_quantity=False) for name in _COMPARED]
    return {
        "samples": _SAMPLES,
        "informed": _INFORMED,
        "gaps": {
            name: {_TITLES[link]: float(gap.sel(link=link, start="informed", theory=name)) for link in _LINKS}
            for name in theories
        },
        "unlearned": [_TITLES[link] for link in _LINKS if float(simulated.sel(link=link)) > regression.LEARNED],
        "threshold": float(slr.thresholds(problem)["mu"]),
        "curvature": -min(point.transverse[1] for point in sinks if point.transverse),
        "table": Table(("link", "start", *columns), rows),
    }

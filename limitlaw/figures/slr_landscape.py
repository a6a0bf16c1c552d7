"""The risk and its flow in the plane of the two overlaps that matter: exact, and in mean field."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from .._format import Column, Table
from ..experiments import Landscape, StationaryPoints, Study
from ..slr import Problem
from . import _regression as regression
from ._settings import Settings

TITLE = "Regression: the risk in the plane of (μ, ν)"
CLAIM = "On this plane the mean-field flow rests at the four corners alone, and only the oracle (1, 1) is stable (Propositions 4 and 10)."
GROUP = "slr"
LAYOUT = [["exact", "mean-field"]]
HEIGHT = 3.4
_POINTS = 41
_ROUNDING = 1e-13  # of exact gradients
_EDGE = 0.995  # the flow stands still on the boundary
_LEVELS = np.linspace(0.0, 1.62, 19)  # none at 0.5, the plateau of the mean field
_METHODS = {"exact": ("exact", None), "mean-field": ("mean-field", 0.0)}
_TITLES = {"exact": "exact, $d = 100$, $L = 20$", "mean-field": r"mean field, $\alpha = 0$"}
_MARKS = {"sink": "o", "source": "^", "saddle": "X", "degenerate": "d"}
_MARKED = "#D55E00"
_LOST = -0.5, 0.0  # a place where attention misses the signal


def STUDY(settings: Settings) -> Study:
    """Risk and velocity on `eta = zeta = rho = 0`, and the stationary points of the mean field."""
    grid = np.linspace(-_EDGE, _EDGE, _POINTS).tolist()
    maps = [
        Landscape(mu=grid, nu=grid, method=method, alpha=alpha, name=name) for name, (method, alpha) in _METHODS.items()
    ]
    return Study(regression.FIGURE_2, axes={}, measure=[*maps, StationaryPoints()], name="landscape")


def gather(found: xr.Dataset, settings: Settings) -> xr.Dataset:
    """Risk and velocity by theory, and the points that there are."""
    names, axes = {name: name for name in _METHODS}, ("theory", "nu", "mu")
    there = found["stationary_kind"].values != ""
    return xr.Dataset(
        {
            "risk": (axes, regression.theories(found, names, "risk")),
            "velocity": ((*axes, "component"), regression.theories(found, names, "velocity")),
            "place": (("point", "component"), found["stationary_place"].values[there]),
            "kind": ("point", found["stationary_kind"].values[there].astype(str)),
        },
        coords={
            "theory": list(_METHODS),
            "mu": found["plane_mu"].values,
            "nu": found["plane_nu"].values,
            "component": ["mu", "nu"],
        },
        attrs={**regression.FIGURE_2, "link": "linear"},
    )


def plot(data: xr.Dataset, axes: dict[str, Any]) -> None:
    """Level sets of the risk, with the lines of the flow and its stationary points."""
    mu, nu = data["mu"].values, data["nu"].values
    filled = None
    for name, panel in axes.items():
        at = data.sel(theory=name)
        filled = panel.contourf(mu, nu, at["risk"].values, _LEVELS, cmap="cividis", extend="max")
        velocity, still = at["velocity"].values, np.zeros((nu.size, mu.size), bool)
        if name == "exact":
            still = np.linalg.norm(velocity, axis=-1) <= _ROUNDING
            velocity = np.where(still[..., None], np.nan, velocity)
        panel.streamplot(
            mu, nu, *np.moveaxis(velocity, -1, 0), color="white", linewidth=0.5, arrowsize=0.6, density=0.8
        )
        if still.any():
            edge = float(mu[still.all(axis=0)].max())
            panel.axvline(edge, color="white", linestyle=":", linewidth=1)
            panel.text(
                edge - 0.04,
                0.0,
                "gradient below rounding",
                color="white",
                rotation=90,
                ha="right",
                va="center",
                fontsize=7,
            )
        for kind in dict.fromkeys(map(str, data["kind"].values)):
            x, y = data["place"].values[data["kind"].values == kind].T
            panel.plot(x, y, _MARKS[kind], color=_MARKED, markersize=5, clip_on=False, label=kind, linestyle="")
        panel.set_xlim(-1, 1)
        panel.set_ylim(-1, 1)
        panel.set_aspect("equal")
        panel.set_title(_TITLES[name])
        panel.set_xlabel(r"$\mu = u \cdot u_*$")
    axes["exact"].set_ylabel(r"$\nu = v \cdot v_*$")
    figure = axes["exact"].figure
    figure.colorbar(filled, ax=list(axes.values()), label="excess risk", ticks=[0, 0.4, 0.8, 1.2, 1.6])
    handles, labels = axes["mean-field"].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, title="stationary points, kinds in mean field")


def numbers(data: xr.Dataset) -> dict[str, Any]:
    """Risks at the stationary points, and where the signal is lost."""
    problem = Problem(**regression.FIGURE_2)
    found = [
        (float(mu), float(nu), str(kind))
        for (mu, nu), kind in zip(data["place"].values, data["kind"].values, strict=True)
    ]
    rows = [
        (mu, nu, kind, float(problem.risk(mu, nu, method="mean-field", alpha=0.0)), float(problem.risk(mu, nu)))
        for mu, nu, kind in found
    ]
    lost = {name: float(data["risk"].sel(theory=name).interp(mu=_LOST[0], nu=_LOST[1])) for name in _METHODS}
    header = (
        Column("μ", 1),
        Column("ν", 1),
        "kind",
        Column("mean-field risk", 4, one_quantity=False),
        Column("exact risk", 4, one_quantity=False),
    )
    return {
        "only_sink": [(mu, nu) for mu, nu, kind in found if kind == "sink"] == [(1.0, 1.0)],
        "lost": lost,
        "rounding": -13,
        "table": Table(header, rows),
    }

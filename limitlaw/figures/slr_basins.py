"""From where descent learns: the claim that no special start is needed, tested against the exact dynamics."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from .._format import Column, Table
from ..experiments import Basins, Descent, Measure, Study
from ..slr import BasinMap
from . import _regression as regression
from ._settings import Settings
from ._style import FLOOR

TITLE = "Regression: from where descent learns"
CLAIM = "The only stable stationary point is the oracle, so gradient descent needs no special start."
GROUP = "slr"
LAYOUT = [["exact", "mean-field"]]
HEIGHT = 3.1
_REACH = 0.9
_UNIFORM = 200
_METHODS = {"exact": ("exact", None), "mean-field": ("mean-field", 0.0)}
_TITLES = {"exact": "exact, $d = 100$, $L = 20$", "mean-field": r"mean field, $\alpha = 0$"}
_NAMES = {"exact": "exact, d = 100, L = 20", "mean-field": "mean field, α = 0"}


def STUDY(settings: Settings) -> Study:
    """The step at which descent from each start of the plane has learned, and descents from uniform starts."""
    grid, steps = np.linspace(-_REACH, _REACH, 2 * settings.points - 1).tolist(), 2 * settings.steps
    uniform = regression.uniform_starts(_UNIFORM, settings.seed_for("slr basins"))
    measure: list[Measure] = []
    for name, (method, alpha) in _METHODS.items():
        how: dict[str, Any] = {"method": method, "alpha": alpha, "steps": steps, "step_size": regression.STEP_SIZE}
        measure.append(Basins(mu=grid, nu=grid, level=regression.LEARNED, name=name, **how))
        measure.append(Descent(start=uniform, name=f"{name} from uniform starts", **how))
    return Study(regression.FIGURE_2, axes={}, measure=measure, name="basins")


def gather(found: xr.Dataset, settings: Settings) -> xr.Dataset:
    """Maps and final risks by theory."""
    names = {name: name for name in _METHODS}
    uniform = {name: f"{name} from uniform starts" for name in _METHODS}
    data = xr.Dataset(
        {
            name: (("theory", "nu", "mu"), regression.theories(found, names, name))
            for name in ("learned_at", "final_risk")
        },
        coords={"theory": list(_METHODS), "mu": found["plane_mu"].values, "nu": found["plane_nu"].values},
    )
    data["uniform_risk"] = ("theory", "start"), regression.theories(found, uniform, "risk")[..., -1]
    data["uniform_mu"] = "start", found[f"{uniform['exact']}_overlap"].values[:, 0, 0]
    how = {
        "link": "linear",
        "steps": 2 * settings.steps,
        "step_size": regression.STEP_SIZE,
        "level": regression.LEARNED,
    }
    return data.assign_attrs(regression.FIGURE_2 | how)


def plot(data: xr.Dataset, axes: dict[str, Any]) -> None:
    """A map for each theory, hatched where descent has not learned."""
    from matplotlib.patches import Patch

    mesh = None
    for name, panel in axes.items():
        basins(data, name).plot(panel, colorbar=False)
        mesh = panel.collections[0]
        panel.set_title(_TITLES[name])
        panel.set_xlabel(r"start $\mu_0$")
        panel.set_ylabel(r"start $\nu_0$" if name == "exact" else "")
        panel.set_aspect("equal")
    figure = axes["exact"].figure
    figure.colorbar(mesh, ax=list(axes.values()), label=f"step at which the risk is below {data.attrs['level']:g}")
    not_learned = Patch(
        facecolor="white", edgecolor=FLOOR, hatch="////", label=f"not learned in {data.attrs['steps']:,} steps"
    )
    figure.legend(handles=[not_learned], loc="outside lower center")


def basins(data: xr.Dataset, name: str) -> BasinMap:
    """The map of a theory."""
    at = data.sel(theory=name)
    found = (at[of].values for of in ("mu", "nu", "learned_at", "final_risk"))
    return BasinMap(*found, level=data.attrs["level"], steps=data.attrs["steps"], method=name)


def numbers(data: xr.Dataset) -> dict[str, Any]:
    """How much of the plane, and how many uniform starts, learn."""
    risks = {name: data["uniform_risk"].sel(theory=name).values for name in _METHODS}
    learned = {name: float((risk < data.attrs["level"]).mean()) for name, risk in risks.items()}
    plane = {name: float(basins(data, name).learned_fraction) for name in _METHODS}
    stuck = data["uniform_mu"].values[risks["exact"] >= data.attrs["level"]]
    shares = (Column(name, digits=2, percent=True) for name in ("of the plane learns", "of uniform starts learn"))
    rows = [(_NAMES[name], plane[name], learned[name], float(risks[name].max())) for name in _METHODS]
    return {
        "starts": data.sizes["start"],
        "learned": learned,
        "plane": plane,
        "stuck_below": float(stuck.max()) + 0.005 if stuck.size else None,
        "table": Table(("dynamics", *shares, Column("largest final risk of those", 3, one_quantity=False)), rows),
    }

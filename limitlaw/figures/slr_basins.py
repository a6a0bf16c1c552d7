"""From where descent learns: the claim that no special start is needed, tested against the exact dynamics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._format import Column, Table
from ..experiments import Task
from ..slr import BasinMap
from . import _regression as regression
from ._experiments import seed_for
from ._figure import Load
from ._settings import Settings
from ._style import FLOOR

if TYPE_CHECKING:
    import xarray as xr

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


class Basins:
    """The step at which descent from each start of the plane has learned, and descents from uniform starts."""

    def _grid(self, settings: Settings) -> list[float]:
        return np.linspace(-_REACH, _REACH, settings.points).tolist()

    def _tasks(self, settings: Settings) -> list[Task]:
        grid = self._grid(settings)
        uniform = regression.starts(regression.FIGURE_2, "uniform", _UNIFORM, seed_for(settings, "slr basins"))
        steps, cost = 2 * settings.steps, 7e-6 * settings.steps * settings.points**2
        common = {"problem": regression.FIGURE_2, "steps": steps}
        return [
            *(
                regression.task(
                    f"basins, {name}", regression.basins, cost, **common, mu=grid, nu=grid, method=method, alpha=alpha
                )
                for name, (method, alpha) in _METHODS.items()
            ),
            *(
                regression.task(
                    f"uniform starts, {name}", regression.descent, 7e-6 * settings.steps * _UNIFORM, **common, start=uniform, method=method, alpha=alpha,
                )
                for name, (method, alpha) in _METHODS.items()
            ),
        ]  # fmt: skip

    def tasks(self, settings: Settings) -> list[Task]:
        return self._tasks(settings)

    def dataset(self, settings: Settings, load: Load) -> xr.Dataset:
        import xarray as xr

        results = [load(task) for task in self._tasks(settings)]
        grid = self._grid(settings)
        return xr.Dataset(
            {
                name: (("theory", "nu", "mu"), np.stack([result[name] for result in results[:2]]))
                for name in ("learned_at", "final_risk")
            }
            | {
                "uniform_risk": (("theory", "start"), np.stack([result["risk"][:, -1] for result in results[2:]])),
                "uniform_mu": ("start", results[2]["overlaps"][:, 0, 0]),
            },
            coords={"theory": list(_METHODS), "mu": grid, "nu": grid},
            attrs={**regression.FIGURE_2, "link": "linear", "steps": 2 * settings.steps, "step_size": regression.STEP_SIZE, "level": regression.LEARNED},
        )  # fmt: skip


DATA = Basins()


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
    shares = (Column(name, percent=True) for name in ("of the plane learns", "of uniform starts learn"))
    rows = [(_NAMES[name], plane[name], learned[name], float(risks[name].max())) for name in _METHODS]
    return {
        "starts": data.sizes["start"],
        "learned": learned,
        "plane": plane,
        "stuck_below": float(stuck.max()) + 0.005 if stuck.size else None,
        "table": Table(("dynamics", *shares, Column("largest final risk of those", 3, one_quantity=False)), rows),
    }

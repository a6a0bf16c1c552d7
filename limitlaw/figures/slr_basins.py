"""From where descent learns: the claim that no special start is needed, tested against the exact dynamics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..experiments import Task
from ..slr import BasinMap
from . import _regression as regression
from ._experiments import seed_for
from ._figure import Figure, Load, Table
from ._settings import Settings
from ._style import panels, style

if TYPE_CHECKING:
    import xarray as xr

_REACH = 0.9
_UNIFORM = 200
_METHODS = {"exact": ("exact", None), "mean-field": ("mean-field", 0.0)}
_TITLES = {"exact": "exact, d = 100, L = 20", "mean-field": "mean field, α = 0"}


@dataclass(frozen=True, kw_only=True)
class BasinsFigure(Figure):
    """The step at which descent from each start of the plane has learned; grey where it has not."""

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

    def draw(self, data: xr.Dataset) -> Any:
        with style():
            figure, (row,) = panels(1, 2, 3.0, gap=0.2, right=0.92)
            for axes, name in zip(row, _METHODS, strict=True):
                self._map(data, name).plot(axes, colorbar=False)
                axes.set_title(_TITLES[name])
            row[1].set_ylabel("")
            label = f"step at which the risk is below {data.attrs['level']:g}"
            figure.colorbar(row[0].collections[0], ax=list(row), label=label, pad=0.02, fraction=0.04)
            row[0].text(-0.85, 0.8, "grey: not learned", fontsize=7, color="#222222")
        return figure

    def _map(self, data: xr.Dataset, name: str) -> BasinMap:
        at = data.sel(theory=name)
        found = (at[of].values for of in ("mu", "nu", "learned_at", "final_risk"))
        return BasinMap(*found, level=data.attrs["level"], steps=data.attrs["steps"], method=name)

    def table(self, data: xr.Dataset) -> Table:
        rows = tuple(
            (
                _TITLES[name],
                f"{100 * self._map(data, name).learned_fraction:.0f}%",
                f"{100 * self._learned(data, name):.0f}%",
                f"{float(data['uniform_risk'].sel(theory=name).max()):.3f}",
            )
            for name in _METHODS
        )
        return Table(
            ("dynamics", "of the plane learns", "of uniform starts learn", "largest final risk of those"), rows
        )

    def _learned(self, data: xr.Dataset, name: str) -> float:
        return float((data["uniform_risk"].sel(theory=name) < data.attrs["level"]).mean())

    def finding(self, data: xr.Dataset) -> str:
        exact, mean = (self._learned(data, name) for name in _METHODS)
        stuck = data["uniform_mu"].values[data["uniform_risk"].sel(theory="exact").values >= data.attrs["level"]]
        where = (
            f" Those of them that fail under the exact dynamics all start at μ₀ < {stuck.max() + 0.005:.2f}; the corners of the map are far from uniform."
            if stuck.size
            else ""
        )
        return (
            f"Within {data.attrs['steps']} steps {100 * exact:.0f}% of {data.sizes['start']} uniform starts learn under the exact dynamics, {100 * mean:.0f}% under the mean field.{where} What has not "
            f"learned sits on a plateau where gradients are exponentially small: to be the only attractor is not to be reached. A start does matter."
        )

    def setup(self, data: xr.Dataset) -> str:
        return (
            f"Linear link, d = 100, L = 20, β = 1, γ = 1/√2, step {data.attrs['step_size']}, {data.attrs['steps']} steps on the population risk; a start has learned when its excess risk "
            f"is below {data.attrs['level']}. On the plane η = ζ = ρ = 0; uniform starts have all five overlaps."
        )


FIGURE = BasinsFigure(
    name="slr_basins",
    title="Regression: from where descent learns",
    claim="The only stable stationary point is the oracle, so gradient descent needs no special start.",
    paper="slr",
)

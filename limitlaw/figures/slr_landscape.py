"""The risk and its flow in the plane of the two overlaps that matter: exact, and in mean field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..experiments import Task
from ..slr import Problem
from . import _regression as regression
from ._figure import Figure, Load, Table
from ._settings import Settings
from ._style import panels, style

if TYPE_CHECKING:
    import xarray as xr

_POINTS = 41
_ROUNDING = 1e-13  # of exact gradients
_EDGE = 0.995  # the flow stands still on the boundary
_LEVELS = np.linspace(0.0, 1.62, 19)  # none at 0.5, the plateau of the mean field
_METHODS = {"exact": ("exact", None), "mean-field": ("mean-field", 0.0)}
_MARKS = {"sink": "o", "source": "^", "saddle": "X", "degenerate": "d"}


@dataclass(frozen=True, kw_only=True)
class LandscapeFigure(Figure):
    """Level sets of the risk on `eta = zeta = rho = 0`, with the lines of the flow and its stationary points."""

    def _tasks(self) -> dict[str, Task]:
        grid = np.linspace(-_EDGE, _EDGE, _POINTS).tolist()
        return {
            name: regression.task(
                f"landscape, {name}", regression.landscape, 0.1, problem=regression.FIGURE_2, mu=grid, nu=grid, method=method, alpha=alpha
            )
            for name, (method, alpha) in _METHODS.items()
        } | {
            "points": regression.task(
                "stationary points", regression.stationary, 0.1, problem=regression.FIGURE_2, alpha=0.0
            )
        }  # fmt: skip

    def tasks(self, settings: Settings) -> list[Task]:
        return list(self._tasks().values())

    def dataset(self, settings: Settings, load: Load) -> xr.Dataset:
        import xarray as xr

        results = {name: load(task) for name, task in self._tasks().items()}
        grid = np.linspace(-_EDGE, _EDGE, _POINTS)
        return xr.Dataset(
            {
                name: (("theory", "nu", "mu", *more), np.stack([results[method][name] for method in _METHODS]))
                for name, more in (("risk", ()), ("velocity", ("component",)))
            }
            | {
                "place": (("point", "component"), results["points"]["place"]),
                "kind": ("point", results["points"]["kind"]),
            },
            coords={"theory": list(_METHODS), "mu": grid, "nu": grid, "component": ["mu", "nu"]},
            attrs={**regression.FIGURE_2, "link": "linear"},
        )

    def draw(self, data: xr.Dataset) -> Any:
        with style():
            figure, (row,) = panels(1, 2, 3.0, gap=0.2, right=0.92)
            filled = None
            for axes, name, title in zip(row, _METHODS, ("exact, d = 100, L = 20", "mean field, α = 0"), strict=True):
                at = data.sel(theory=name)
                filled = axes.contourf(
                    data["mu"].values, data["nu"].values, at["risk"].values, _LEVELS, cmap="cividis", extend="max"
                )
                velocity = at["velocity"].values
                if name == "exact":
                    velocity = np.where(np.linalg.norm(velocity, axis=-1, keepdims=True) > _ROUNDING, velocity, np.nan)
                axes.streamplot(
                    data["mu"].values, data["nu"].values, velocity[..., 0], velocity[..., 1], color="white", linewidth=0.5, arrowsize=0.6, density=0.8,
                )  # fmt: skip
                axes.set_xlim(-1.05, 1.05)
                axes.set_ylim(-1.05, 1.05)
                axes.set_title(title)
                axes.set_xlabel("μ = u · u*")
            for (mu, nu), kind in zip(data["place"].values, data["kind"].values, strict=True):
                row[1].plot(mu, nu, _MARKS[str(kind)], color="#D55E00", markersize=5, clip_on=False)
            for kind in dict.fromkeys(map(str, data["kind"].values)):
                row[1].plot([], [], _MARKS[kind], color="#D55E00", markersize=5, label=kind)
            row[1].legend(loc="center left", facecolor="white", frameon=True, framealpha=0.8)
            row[0].set_ylabel("ν = v · v*")
            figure.colorbar(
                filled, ax=list(row), label="excess risk", pad=0.02, fraction=0.04, ticks=[0, 0.4, 0.8, 1.2, 1.6]
            )
        return figure

    def table(self, data: xr.Dataset) -> Table:
        points = zip(data["place"].values, data["kind"].values, strict=True)
        problem = Problem(**regression.FIGURE_2)
        rows = tuple(
            (
                f"({mu:g}, {nu:g})",
                str(kind),
                f"{problem.risk(mu, nu, method='mean-field', alpha=0.0):.4g}",
                f"{problem.risk(mu, nu):.4g}",
            )
            for (mu, nu), kind in points
        )
        return Table(("stationary point (μ, ν)", "kind", "mean-field risk", "exact risk"), rows)

    def finding(self, data: xr.Dataset) -> str:
        lost = float(data["risk"].sel(theory="exact").interp(mu=-0.5, nu=0.0))
        paper = float(data["risk"].sel(theory="mean-field").interp(mu=-0.5, nu=0.0))
        return (
            f"{_only_sink(data)}Where the signal is lost the exact risk is {lost:.3f} and not {paper:.3f}: attention follows one wrong token, whose value has a "
            f"variance. The step between the two levels is as wide as the fluctuations of the signal's own score, γ/(c √d) = 0.1 in μ, and not 1/(β c d) = 0.014; beyond it the "
            f"plateau is flat, and lines of the flow that enter it do not come out in any reasonable time."
        )

    def setup(self, data: xr.Dataset) -> str:
        return "Linear link, d = 100, L = 20, β = 1, γ = 1/√2, η = ζ = ρ = 0, which the flow keeps for odd and even links. No lines are drawn where the exact gradient is below 10⁻¹³, its rounding. Nothing is random here."


def _only_sink(data: xr.Dataset) -> str:
    sinks = [
        tuple(place) for place, kind in zip(data["place"].values, data["kind"].values, strict=True) if kind == "sink"
    ]
    return "In mean field the oracle is the only sink. " if sinks == [(1.0, 1.0)] else ""


FIGURE = LandscapeFigure(
    name="slr_landscape",
    title="Regression: the risk in the plane of (μ, ν)",
    claim="On this plane the mean-field flow rests at the four corners alone, and only the oracle (1, 1) is stable (Propositions 4 and 10).",
    paper="slr",
)

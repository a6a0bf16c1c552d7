"""Figure 2 of the regression paper: descent for three links, simulation against both theories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import slr
from ..experiments import Task
from ..slr import Problem
from . import _regression as regression
from ._experiments import seed_for
from ._figure import Figure, Load, Table
from ._settings import Settings
from ._style import COLOURS, panels, style

if TYPE_CHECKING:
    import xarray as xr

_LINKS = ("linear", "quadratic", "relu")
_SAMPLES = 1000
_INFORMED = [0.5, 0.3, 0.0, 0.0, 0.0]
_METHODS = {
    "simulation": (f"simulation, n = {_SAMPLES:,}", "-", 1.6),
    "exact": ("exact", "--", 1.2),
    "sub-exponential": ("mean field, α = 0", ":", 1.2),
    "mean-field": ("mean field, α = log L / d", "-.", 0.8),
}

_COMPARED = ("exact", "mean field, α = 0", "mean field, α = log L / d")


@dataclass(frozen=True, kw_only=True)
class LinksFigure(Figure):
    """Risk above, overlaps below, one column for each link, from an informed start; the table has a uniform one too."""

    def _starts(self, settings: Settings, link: str) -> list[list[float]]:
        uniform = regression.starts(
            {**regression.FIGURE_2, "link": link}, "uniform", 1, seed_for(settings, "slr start", link)
        )
        return [_INFORMED, *uniform]

    def _tasks(self, settings: Settings, link: str) -> dict[str, Task]:
        problem = {**regression.FIGURE_2, "link": link}
        common = {"problem": problem, "start": self._starts(settings, link), "steps": settings.steps}
        each = {"linear": 0.0002, "quadratic": 0.005, "relu": 0.006}[link]
        return {
            "simulation": regression.task(
                f"{link} link: simulation", regression.simulation, 1 + 0.001 * settings.steps, **common, samples=_SAMPLES,
                seed=seed_for(settings, "slr data", link),
            ),
            "exact": regression.task(
                f"{link} link: exact descent", regression.descent, 0.1 + each * settings.steps, **common, method="exact", alpha=None
            ),
            **{
                name: regression.task(
                    f"{link} link: {label}", regression.descent, 0.1, **common, method="mean-field", alpha=alpha
                )
                for name, label, alpha in (
                    ("sub-exponential", "mean-field descent, sub-exponential", 0.0),
                    ("mean-field", "mean-field descent", None),
                )
            },
        }  # fmt: skip

    def tasks(self, settings: Settings) -> list[Task]:
        return [task for link in _LINKS for task in self._tasks(settings, link).values()]

    def dataset(self, settings: Settings, load: Load) -> xr.Dataset:
        import xarray as xr

        found = [[load(task) for task in self._tasks(settings, link).values()] for link in _LINKS]
        axes = ("link", "theory", "start", "step")
        return xr.Dataset(
            {
                "risk": (axes, np.array([[result["risk"] for result in row] for row in found])),
                "overlap": ((*axes, "name"), np.array([[result["overlaps"] for result in row] for row in found])),
            },
            coords={
                "link": list(_LINKS),
                "theory": list(_METHODS),
                "start": ["informed", "uniform"],
                "step": found[0][0]["step"],
                "name": ["mu", "nu", "eta", "zeta", "rho"],
            },
            attrs={
                **regression.FIGURE_2,
                "samples": _SAMPLES,
                "step_size": regression.STEP_SIZE,
                "steps": settings.steps,
            },
        )

    def draw(self, data: xr.Dataset) -> Any:
        with style():
            figure, axes = panels(2, len(_LINKS), 4.2, gap=0.3)
            at = data.sel(start="informed")
            for column, link in enumerate(_LINKS):
                above, below = axes[:, column]
                for name, (label, dashes, width) in _METHODS.items():
                    line = at.sel(link=link, theory=name)
                    above.plot(data["step"], line["risk"], dashes, color=COLOURS[0], linewidth=width, label=label)
                    for overlap, colour in (("mu", COLOURS[1]), ("nu", COLOURS[2])):
                        below.plot(
                            data["step"], line["overlap"].sel(name=overlap), dashes, color=colour, linewidth=width
                        )
                above.set_title(link if link != "relu" else "ReLU")
                above.set_ylim(0, 1.2 * float(at.sel(link=link, theory=["simulation", "exact"])["risk"].max()))
                below.set_ylim(-0.15, 1.05)
                below.set_xlabel("step")
            axes[0, 0].set_ylabel("excess risk")
            axes[1, 0].set_ylabel("overlaps")
            axes[0, -1].legend(loc="upper right", fontsize=6)
            for overlap, colour in (("μ", COLOURS[1]), ("ν", COLOURS[2])):
                axes[1, -1].plot([], [], color=colour, label=overlap)
            axes[1, -1].legend(loc="lower right")
        return figure

    def table(self, data: xr.Dataset) -> Table:
        rows = []
        for link in _LINKS:
            for start in data["start"].values:
                at = data.sel(link=link, start=start)
                last = [f"{float(at['risk'].sel(theory=name)[-1]):.3g}" for name in _METHODS]
                nu = at["overlap"].sel(name="nu")
                gaps = [
                    f"{float(np.abs(nu.sel(theory='simulation') - nu.sel(theory=name)).max()):.2f}"
                    for name in ("exact", "sub-exponential", "mean-field")
                ]
                rows.append((link, str(start), *last, *gaps))
        return Table(
            (
                "link", "start", "final risk, simulated", *(f"final risk, {name}" for name in _COMPARED), *(f"largest gap in ν, {name}" for name in _COMPARED),
            ),
            tuple(rows),
        )  # fmt: skip

    def finding(self, data: xr.Dataset) -> str:
        nu = data["overlap"].sel(name="nu")
        gap = abs(nu.sel(theory="simulation") - nu).max("step")
        exact, mean = (gap.sel(start="informed", theory=name) for name in ("exact", "sub-exponential"))
        unlearned = [
            str(link)
            for link in _LINKS
            if float(data["risk"].sel(link=link, start="uniform", theory="simulation")[-1]) > regression.LEARNED
        ]
        uniform = (
            f"From a uniform start the simulation has not learned the {' and the '.join(unlearned)} link by the last step."
            if unlearned
            else "From the uniform start drawn here every link is learned too; that depends on the start (see the next figure)."
        )
        problem = Problem(**regression.FIGURE_2, link="quadratic")
        steepest = min(
            point.transverse[1] for point in slr.stationary_points(problem) if point.kind == "sink" and point.transverse
        )
        return (
            f"From an informed start (μ₀ = {_INFORMED[0]}, ν₀ = {_INFORMED[1]}, the rest 0) the largest gap in ν between simulation and exact dynamics is "
            f"{', '.join(f'{float(exact.sel(link=link)):.2f} ({link})' for link in _LINKS)}; between simulation and mean field at α = 0, "
            f"{', '.join(f'{float(mean.sel(link=link)):.2f} ({link})' for link in _LINKS)}. The mean field with the actual number of tokens puts the "
            f"transition at μ = {slr.thresholds(problem)['mu']:.3f} and does not move from below it. {uniform} For the quadratic link a step of {regression.STEP_SIZE} is too long: at "
            f"the oracle the curvature in ζ is {-steepest:.0f}, so that {regression.STEP_SIZE} times it is above 2, and descent that has arrived is thrown out again unless ζ is exactly 0."
        )

    def setup(self, data: xr.Dataset) -> str:
        return (
            f"d = 100, L = 20, β = 1, γ = 1/√2, label noise 0.1, step {data.attrs['step_size']}, {data.attrs['steps']} steps; {_SAMPLES:,} training and 10,000 test "
            f"sequences. The paper states neither its start nor its number of steps; the start drawn has μ₀ = {_INFORMED[0]}, ν₀ = {_INFORMED[1]}, η₀ = ζ₀ = ρ₀ = 0. "
            f"Risks are excess risks (less 0.01 of label noise)."
        )


FIGURE = LinksFigure(
    name="slr_fig2",
    title="Regression, figure 2: descent for three links",
    claim="Simulated Riemannian gradient descent agrees with the mean-field dynamics, for a linear, a quadratic and a ReLU link.",
    paper="slr",
)

"""The phase diagram, over three pairs of parameters, with the exact risk at a finite dimension underneath."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..experiments import Task
from ..slr import PhaseDiagram, Problem
from . import _regression as regression
from ._figure import Figure, Load, Table
from ._settings import Settings
from ._style import panels, style

if TYPE_CHECKING:
    import xarray as xr

_PROBLEM = {"dim": 40, "log_tokens": 2.0, "gamma": 0.6, "beta": 1.0}
_RANGES = {"alpha": (0.02, 0.7), "gamma": (0.1, 0.95), "beta": (0.05, 2.0), "mu": (-0.2, 1.0)}
_PAIRS = (("alpha", "gamma"), ("alpha", "beta"), ("mu", "beta"))
_FIXED = ("β = 1, μ = 1", "γ = 0.6, μ = 1", "γ = 0.6, α = 0.05")


@dataclass(frozen=True, kw_only=True)
class PhaseFigure(Figure):
    """Retrieval, paramagnetic and frozen phases."""

    def _axis(self, name: str, settings: Settings) -> np.ndarray:
        return np.linspace(*_RANGES[name], settings.points)

    def _tasks(self, settings: Settings) -> list[Task]:
        return [
            regression.task(
                f"phases over {x} and {y}", regression.phases, 0.005 * settings.points ** (1 if x == "mu" else 2), problem=_PROBLEM, x=x, y=y,
                x_values=self._axis(x, settings).tolist(), y_values=self._axis(y, settings).tolist(),
            )
            for x, y in _PAIRS
        ]  # fmt: skip

    def tasks(self, settings: Settings) -> list[Task]:
        return self._tasks(settings)

    def dataset(self, settings: Settings, load: Load) -> xr.Dataset:
        import xarray as xr

        results = [load(task) for task in self._tasks(settings)]
        axes = [(self._axis(x, settings), self._axis(y, settings)) for x, y in _PAIRS]
        return xr.Dataset(
            {
                name: (("diagram", "row", "column"), np.stack([result[name] for result in results]))
                for name in ("level", "critical", "risk")
            }
            | {"x": (("diagram", "column"), [x for x, _ in axes]), "y": (("diagram", "row"), [y for _, y in axes])},
            coords={"diagram": [f"{x} and {y}" for x, y in _PAIRS]},
            attrs=_PROBLEM,
        )

    def _diagrams(self, data: xr.Dataset) -> list[PhaseDiagram]:
        return [
            PhaseDiagram(Problem(**_PROBLEM), x, y, *(data[name].values[i] for name in ("x", "y", "risk")))
            for i, (x, y) in enumerate(_PAIRS)
        ]

    def draw(self, data: xr.Dataset) -> Any:
        with style():
            figure, (row,) = panels(1, 3, 2.5, gap=0.45, right=0.92)
            diagrams = self._diagrams(data)
            worst = max(float(diagram.risk.max()) for diagram in diagrams)
            for axes, diagram, fixed in zip(row, diagrams, _FIXED, strict=True):
                diagram.plot(axes, colorbar=False, vmin=0.0, vmax=worst)
                axes.set_title(fixed)
            label = f"oracle's exact risk, d = {data.attrs['dim']}"
            figure.colorbar(row[0].collections[0], ax=list(row), label=label, pad=0.02, fraction=0.04)
        return figure

    def table(self, data: xr.Dataset) -> Table:
        rows = []
        for diagram in self._diagrams(data):
            for name in dict.fromkeys(diagram.phase.ravel().tolist()):
                risk = diagram.risk[diagram.phase == name]
                rows.append(
                    (", ".join(label.split(" = ")[0] for label in (diagram.x_label, diagram.y_label)), name, str(risk.size), f"{np.median(risk):.3g}", f"{risk.min():.3g}", f"{risk.max():.3g}")
                )  # fmt: skip
        return Table(("diagram over", "phase", "points", "median exact risk", "smallest", "largest"), tuple(rows))

    def finding(self, data: xr.Dataset) -> str:
        first = self._diagrams(data)[1]
        inside, outside = (first.risk[(first.level > 0) == found] for found in (True, False))
        return (
            f"Over (α, β) at d = {data.attrs['dim']} the oracle's exact risk has the median {np.median(inside):.2g} inside the retrieval phase and {np.median(outside):.2g} outside it. The "
            f"boundary is smeared over a width of 1/√d. In the frozen phase the risk is above γ² = 0.36 by the participation of the frozen tokens, which the paper's formula leaves out."
        )

    def setup(self, data: xr.Dataset) -> str:
        return (
            f"Exact risk of the oracle (ν = 1, η = ζ = ρ = 0) at d = {data.attrs['dim']} with L = e^(α d) tokens, linear link; lines are the boundaries of the limit: c μ = ψ "
            f"(full) and β = √(2α) (broken; paramagnetic where β is smaller, frozen where it is larger). Nothing is random here."
        )


FIGURE = PhaseFigure(
    name="slr_phase",
    title="Regression: phases",
    claim="With L = e^(αd) tokens softmax attention retrieves the signal if and only if c μ > ψ(α, β); best β: α < (1 − γ²)/2 (Proposition 2).",
    paper="slr",
)

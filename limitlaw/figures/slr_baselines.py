"""Softmax attention beside other predictors as the number of tokens grows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..experiments import Task
from ..slr import BASELINES
from . import _regression as regression
from ._figure import Figure, Load, Table
from ._settings import Settings
from ._style import COLOURS, LIMIT, MARKERS, powers_of_ten, style, two_panels

if TYPE_CHECKING:
    import xarray as xr

_PROBLEM = {"dim": 20, "gamma": 0.8, "beta": 1.0}
_LARGEST = 160_000
_NAMES = {name: label.replace("beta", "β") for name, label in BASELINES.items() if name != "zero"}
_NAMES["softmax"] = f"softmax, β = {_PROBLEM['beta']:g}"


@dataclass(frozen=True, kw_only=True)
class BaselinesFigure(Figure):
    """Left, excess risks with the true directions against the number of tokens; right, divided by that of Bayes on the projections."""

    def _sizes(self, settings: Settings) -> np.ndarray:
        return np.geomspace(2, _LARGEST, max(settings.points // 2 + 1, 3)).round()

    def _tasks(self, settings: Settings) -> list[Task]:
        return [
            regression.task(f"baselines, L = {size:.0f}", regression.baselines, 0.2, problem=_PROBLEM, tokens=int(size))
            for size in self._sizes(settings)
        ]

    def tasks(self, settings: Settings) -> list[Task]:
        return self._tasks(settings)

    def dataset(self, settings: Settings, load: Load) -> xr.Dataset:
        import xarray as xr

        results = [load(task) for task in self._tasks(settings)]
        return xr.Dataset(
            {"risk": (("tokens", "predictor"), [[float(result[name]) for name in _NAMES] for result in results])},
            coords={"tokens": self._sizes(settings), "predictor": list(_NAMES)},
            attrs=_PROBLEM,
        )

    def draw(self, data: xr.Dataset) -> Any:
        from matplotlib.ticker import FuncFormatter

        with style():
            figure, left, right = two_panels(2.8)
            bayes = data["risk"].sel(predictor="bayes_projections")
            for i, (name, label) in enumerate(_NAMES.items()):
                colour = LIMIT if name.startswith("bayes") else COLOURS[i]
                look = {
                    "color": colour,
                    "marker": MARKERS[i % 6],
                    "markersize": 3,
                    "linewidth": 1,
                    "linestyle": "--" if name == "bayes_full" else "-",
                }
                left.plot(data["tokens"], data["risk"].sel(predictor=name), label=label, **look)
                right.plot(data["tokens"], data["risk"].sel(predictor=name) / bayes, **look)
            left.axhline(data.attrs["gamma"] ** 2, color="#999999", linewidth=0.8)
            left.set_ylabel("excess risk")
            left.legend(fontsize=6, loc="lower right")
            right.set_ylabel("relative to Bayes on the projections")
            right.set_yscale("log")
            for axes in (left, right):
                axes.set_xscale("log")
                axes.xaxis.set_major_formatter(FuncFormatter(powers_of_ten))
                axes.set_xlabel("tokens L")
        return figure

    def table(self, data: xr.Dataset) -> Table:
        rows = tuple(
            (_count(row["tokens"]), *(f"{float(value):.4g}" for value in row["risk"]))
            for row in (data.isel(tokens=i) for i in range(data.sizes["tokens"]))
        )
        return Table(("tokens L", *_NAMES.values()), rows)

    def finding(self, data: xr.Dataset) -> str:
        risk = data["risk"].isel(tokens=1)
        values = {name: float(risk.sel(predictor=name)) for name in _NAMES}
        return (
            f"At L = {_count(risk['tokens'])} the erf gate of Marion et al. has an excess risk of {values['erf_best']:.3f}, the best pointwise gate {values['best_pointwise']:.3f}, softmax at β = 1 "
            f"{values['softmax']:.3f} and at its best β {values['softmax_best']:.3f}, against {values['bayes_projections']:.3f} for Bayes on the projections. What softmax gains is the competition "
            f"between tokens. Bayes with whole tokens also sees their norms, {values['bayes_full']:.3f}: it succeeds up to α = log(1/γ), softmax up to (1 − γ²)/2."
        )

    def setup(self, data: xr.Dataset) -> str:
        return f"Linear link, d = {data.attrs['dim']}, γ = {data.attrs['gamma']}, true directions; grey line: predicting 0. Quadrature throughout, nothing is random."


def _count(tokens: Any) -> str:
    return f"{float(tokens):,.0f}"


FIGURE = BaselinesFigure(
    name="slr_baselines",
    title="Regression: softmax against other predictors",
    claim="Softmax attention realises the regression where pointwise gates such as erf do not.",
    paper="slr",
)

"""The figure of a score under the two scalings."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from ..experiments import Task, program_of
from ..networks import Attention, Inputs, Network, as_plain
from ..numerics import clip
from . import _measure
from ._experiments import seed_for
from ._figure import Figure, Load, Table, as_stored, estimate, show
from ._settings import Settings
from ._style import COLOURS, LIMIT, style, two_panels

if TYPE_CHECKING:
    import xarray as xr

_SCALES = ("sqrt", "linear")
_NAMES = {"sqrt": "1/√n", "linear": "1/n"}
_BINS = 60
_HEADROOM = 1.45  # for the legend


@dataclass(frozen=True, kw_only=True)
class ScoreFigure(Figure):
    """Histograms of a score at one width under both scalings, with the exact laws and the limits, N(0, 1) and 0."""

    width: int

    def _network(self, scale: str) -> Network:
        return Network(Inputs(4, clip(100.0)), Attention(heads=1, scale=scale))

    def tasks(self, settings: Settings) -> list[Task]:
        return [
            Task(
                f"score, {_NAMES[scale]}, n = {self.width}",
                _measure.scores,
                {
                    "network": as_plain(self._network(scale)),
                    "width": self.width,
                    "samples": settings.samples or 50_000,
                    "draws": settings.draws,
                    "seed": seed_for(settings, "score", scale),
                },
                cost=0.5,
                program=program_of(as_plain(self._network(scale))),
            )
            for scale in _SCALES
        ]

    def dataset(self, settings: Settings, load: Load) -> xr.Dataset:
        import xarray as xr

        results = [load(task) for task in self.tasks(settings)]
        limit = self._network("sqrt").score_law(0, 0, width=inf, progress=False)
        data = xr.Dataset(
            {
                name: (("scale", along), np.stack([result[name] for result in results]))
                for name, along in (("score", "sample"), ("grid", "place"), ("density", "place"))
            },
            coords={"scale": [_NAMES[scale] for scale in _SCALES], "statistic": ["value", "stderr", "dof"]},
            attrs={"width": self.width, "samples": results[0]["score"].size},
        )
        for moment in ("variance", "kurtosis"):
            data[moment] = ("scale", "statistic"), np.stack([as_stored(result, moment) for result in results])
        data["limit_density"] = "place", limit.pdf(results[0]["grid"])
        return data

    def draw(self, data: xr.Dataset) -> Any:
        with style():
            figure, *both = two_panels(2.5)
            for axes, scale, colour in zip(both, data["scale"].values, COLOURS, strict=False):
                at = data.sel(scale=scale)
                grid = at["grid"].values
                counts, edges = np.histogram(at["score"], _BINS, (grid[0], grid[-1]))
                axes.stairs(
                    counts / (at["score"].size * np.diff(edges)), edges, color=colour, fill=True, alpha=0.35,
                    label=f"n = {data.attrs['width']}, sampled",
                )  # fmt: skip
                axes.plot(grid, at["density"], color=colour, label=f"n = {data.attrs['width']}, exact")
                if scale == _NAMES["sqrt"]:
                    axes.plot(grid, data["limit_density"], "--", color=LIMIT, linewidth=1, label="limit, N(0, 1)")
                else:
                    axes.axvline(
                        0, ymax=1 / _HEADROOM, linestyle="--", color=LIMIT, linewidth=1, label="limit, the constant 0"
                    )
                axes.set_xlabel(f"score p₁₁, scaled by {scale}")
                axes.set_ylabel("density")
                axes.set_ylim(0, _HEADROOM * float(at["density"].max()))
                axes.legend(loc="upper right")
        return figure

    def table(self, data: xr.Dataset) -> Table:
        rows = []
        for scale in data["scale"].values:
            at = data.sel(scale=scale)
            scores = at["score"].values.astype(np.float64)
            limit = "1" if scale == _NAMES["sqrt"] else "0"
            exact = show(estimate(at["variance"])), show(estimate(at["kurtosis"]))
            rows.append((str(scale), f"{scores.var(ddof=1):.5g}", *exact, limit))
        return Table(
            ("scaling", "variance, sampled", "variance, exact", "excess kurtosis, exact", "variance, limit"),
            tuple(rows),
        )

    def finding(self, data: xr.Dataset) -> str:
        sqrt, linear = (estimate(row) for row in data["variance"])
        return (
            f"At n = {data.attrs['width']} the score has variance {sqrt} under 1/√n and excess kurtosis {estimate(data['kurtosis'][0])}: close "
            f"to the standard normal limit. Under 1/n the variance is {linear}, still far from the limit 0 on the scale of one softmax unit "
            f"(standard deviation {np.sqrt(linear):.3f}): the uniform attention of that limit is reached slowly."
        )

    def setup(self, data: xr.Dataset) -> str:
        return (
            f"{data.attrs['samples']:,} networks at n = {data.attrs['width']}, one head as wide as the model, four tokens x_i = clip(W_i h); the score of "
            f"token 1 with itself. Exact density: Gaussian given the lengths of the tokens, averaged over draws of those."
        )

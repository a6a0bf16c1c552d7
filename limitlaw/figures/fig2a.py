"""Figure 2a: a score under the two scalings."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from .._format import Column, Table
from ..experiments import Task, program_of
from ..networks import Attention, Inputs, Network, as_plain
from ..numerics import clip
from . import _measure
from ._experiments import seed_for
from ._figure import Load, as_stored, estimate
from ._settings import Settings
from ._style import COLOURS, LIMIT, outside_legend

if TYPE_CHECKING:
    import xarray as xr

TITLE = "Figure 2a: a score under 1/√n and 1/n, n = 256"
CLAIM = "Under the usual 1/√n scaling scores stay random and become Gaussian; under 1/n they vanish and attention becomes uniform."
GROUP = "attention"
LAYOUT = [["sqrt", "linear"]]
_SCALES = ("sqrt", "linear")
_NAMES = {"sqrt": "1/√n", "linear": "1/n"}
_BINS = 60
_WIDTH = 256
_REACH = 4.0  # standard deviations


class Scores:
    """A score at one width under both scalings, with its exact law and that of the limit."""

    def _network(self, scale: str) -> Network:
        return Network(Inputs(4, clip(100.0)), Attention(heads=1, scale=scale))

    def tasks(self, settings: Settings) -> list[Task]:
        return [
            Task(
                f"score, {_NAMES[scale]}, n = {_WIDTH}",
                _measure.scores,
                {
                    "network": as_plain(self._network(scale)),
                    "width": _WIDTH,
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
            attrs={"width": _WIDTH, "samples": results[0]["score"].size},
        )
        for moment in ("variance", "kurtosis"):
            data[moment] = ("scale", "statistic"), np.stack([as_stored(result, moment) for result in results])
        data["limit_density"] = "place", limit.pdf(results[0]["grid"])
        return data


DATA = Scores()


def plot(data: xr.Dataset, axes: dict[str, Any]) -> None:
    """Histograms of samples with the exact density and the limit, a panel for each scaling."""
    for (scale, panel), colour in zip(axes.items(), COLOURS, strict=False):
        at = data.sel(scale=_NAMES[scale])
        grid = at["grid"].values
        reach = _REACH * float(np.sqrt(at["variance"][0]))
        counts, edges = np.histogram(at["score"], _BINS, (-reach, reach))
        density = counts / (at["score"].size * np.diff(edges))
        panel.stairs(density, edges, color=colour, fill=True, alpha=0.35, label=f"$n = {data.attrs['width']}$, sampled")
        panel.plot(grid, at["density"], color=colour, label=f"$n = {data.attrs['width']}$, exact")
        if scale == "sqrt":
            panel.plot(grid, data["limit_density"], "--", color=LIMIT, linewidth=1, label="limit")
            panel.set_title(r"scaled by $1/\sqrt{n}$; limit $\mathcal{N}(0, 1)$")
        else:
            panel.axvline(0, linestyle="--", color=LIMIT, linewidth=1)
            panel.set_title(r"scaled by $1/n$; limit $0$")
        panel.set_xlabel("score $p_{11}$")
        panel.set_ylabel("density")
        panel.set_xlim(-reach, reach)
        panel.set_ylim(0, 1.04 * max(density.max(), float(at["density"].max())))
    outside_legend(axes["sqrt"].figure, axes["sqrt"])


def numbers(data: xr.Dataset) -> dict[str, Any]:
    """Moments of the score under both scalings."""
    rows = []
    for scale, limit in zip(data["scale"].values, (1, 0), strict=True):
        at = data.sel(scale=scale)
        sampled = float(at["score"].values.astype(np.float64).var(ddof=1))
        rows.append((str(scale), sampled, estimate(at["variance"]), estimate(at["kurtosis"]), limit))
    names = ("variance, sampled", "variance, exact", "excess kurtosis, exact", "variance, limit")
    header = ("scaling", *(Column(name, digits=4, one_quantity=False) for name in names))
    usual, linear = rows
    return {
        "variance": usual[2],
        "kurtosis": usual[3],
        "linear_variance": linear[2],
        "linear_deviation": float(np.sqrt(linear[2])),
        "table": Table(header, rows),
    }

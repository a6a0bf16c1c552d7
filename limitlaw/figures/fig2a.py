"""Figure 2a: a score under the two scalings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from .._format import Column, Table
from ..experiments import ScoreLaw, Study
from ..networks import Attention, Inputs, Network
from ..numerics import clip
from ._attention import estimate
from ._settings import Settings
from ._style import COLOURS, LIMIT, outside_legend

if TYPE_CHECKING:
    import xarray as xr

TITLE = "Figure 2a: a score under 1/√n and 1/n, n = 256"
CLAIM = "Under the usual 1/√n scaling scores stay random and become Gaussian; under 1/n they vanish and attention becomes uniform."
GROUP = "attention"
LAYOUT = [["sqrt", "linear"]]
_NAMES = {"sqrt": "1/√n", "linear": "1/n"}
_BINS = 60
_WIDTH = 256
_REACH = 4.0  # standard deviations


def STUDY(settings: Settings) -> Study:
    """A score at one width under both scalings, with its exact law."""
    return Study(
        Network(Inputs(4, clip(100.0)), Attention(heads=1), width=_WIDTH),
        axes={"scale": list(_NAMES)},
        measure=["scores", ScoreLaw(draws=settings.draws)],
        name="score",
        seed=settings.seed_for("score"),
        samples=settings.samples or 50_000,
    )


def gather(found: xr.Dataset, settings: Settings) -> xr.Dataset:
    """Scores and densities under the two scalings."""
    found = found.isel(trial=0)
    data = found[["scores", "score_x", "score_density"]].rename(scores="score", score_x="grid", score_density="density")
    data = data.rename(draw="sample").assign_coords(scale=list(_NAMES.values()), statistic=["value", "stderr", "dof"])
    for moment in ("variance", "kurtosis"):
        parts = [found[f"score_{moment}{part}"].values for part in ("", "_stderr", "_dof")]
        data[moment] = ("scale", "statistic"), np.stack(parts, axis=-1)
    data["limit_density"] = "place", norm.pdf(data["grid"][0])
    return data.assign_attrs(width=_WIDTH, samples=data.sizes["sample"])


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

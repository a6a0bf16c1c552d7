"""Figures of densities: samples against the limit, and the exact densities, whose tails samples cannot show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._format import Column, Table
from ..experiments import Study
from ..numerics import Estimate
from ._attention import MakeDesign, estimate, estimates_of, values_of
from ._settings import Settings
from ._style import COLOURS, LIMIT, outside_legend

if TYPE_CHECKING:
    import xarray as xr

LAYOUT = [["body", "tails"]]
HEIGHT = 2.9
_BINS = 100
_SMALLEST_DENSITY = 3e-5


@dataclass(frozen=True)
class Densities:
    """The outputs of all trials, with the exact densities at each point and in the limits.

    `chosen` are the points that are shown, all unless given.
    """

    design: MakeDesign
    chosen: tuple[int, ...] | None = None

    def studies(self, settings: Settings) -> dict[str, Study]:
        """Outputs, laws at finite width, and laws at infinite width."""
        design = self.design(settings)
        return {
            "outputs": design.outputs(settings, "outputs"),
            "network": design.laws(settings),
            **design.limits(settings),
        }

    def gather(self, found: Mapping[str, xr.Dataset], settings: Settings) -> xr.Dataset:
        """One dataset along the points."""
        data, outputs = self.design(settings).dataset(), found["outputs"]
        points = data.sizes["point"]
        data = data.assign_coords(trial=outputs["trial"].values, y=found["network"]["x"].values)
        data["y"].attrs["long_name"] = "output of token 1, coordinate 1"
        data["output"] = ("point", "trial", "sample"), outputs["outputs"].values
        data["network_density_stderr"] = ("point", "y"), values_of(found["network"], "density_stderr", points)
        for name in found:
            if name == "outputs":
                continue
            data[f"{name}_density"] = ("point", "y"), values_of(found[name], "density", points)
            for moment in ("variance", "kurtosis"):
                data[f"{name}_{moment}"] = ("point", "statistic"), estimates_of(found[name], moment, points)
        gaussian = _gaussian_density(data["y"].values, data["limit_variance"].values[:, 0])
        data["gaussian_density"] = ("point", "y"), gaussian
        data.attrs["samples"] = data.sizes["sample"]
        return data if self.chosen is None else data.isel(point=list(self.chosen))


def plot(data: xr.Dataset, axes: dict[str, Any]) -> None:
    """Histograms with the limit density on the left; on the right exact densities on a logarithmic scale."""
    body, tails = axes["body"], axes["tails"]
    shared = bool(np.allclose(data["limit_density"], data["limit_density"][0]))
    y = data["y"].values
    highest = 0.0
    for i, label in enumerate(labels(data)):
        colour, at = COLOURS[i], data.isel(point=i)
        samples = at["output"].values.ravel()
        counts, edges = np.histogram(samples, _BINS, (y[0], y[-1]))
        density = counts / (samples.size * np.diff(edges))
        highest = max(highest, density.max(), float(at["limit_density"].max()))
        body.stairs(density, edges, color=colour, linewidth=1, label=label)
        tails.semilogy(y, at["network_density"], color=colour)
        if "fixed_density" in data:
            tails.semilogy(y, at["fixed_density"], color=colour, linestyle=":", linewidth=1.6)
        if not shared:
            for panel in (body, tails):
                panel.plot(y, at["limit_density"], color=colour, linestyle="--", linewidth=1)
    name = r"limit, $n = d = \infty$" if "fixed_density" in data else r"limit, $n = \infty$"
    looks: list[tuple[str, Any, dict[str, Any]]] = [
        (name, data["limit_density"][0] if shared else None, {"linestyle": "--", "linewidth": 1})
    ]
    if "fixed_density" in data:
        looks.append((r"limit, $n = \infty$ at this $d$ (right)", None, {"linestyle": ":", "linewidth": 1.6}))
    if data.attrs["gaussian"]:
        looks.append((r"Gaussian, $H = \infty$", data["gaussian_density"][0], {"linestyle": "-.", "linewidth": 1}))
    for name, density, look in looks:
        for panel in (body, tails):
            panel.plot(
                [] if density is None else y, [] if density is None else density, color=LIMIT, label=name, **look
            )
    reach = 3.2 * float(np.sqrt(data["limit_variance"].values[:, 0].max()))
    body.set_xlim(-reach, reach)
    body.set_ylim(0, 1.03 * highest)
    tails.set_xlim(0, y[-1])
    tails.set_ylim(_SMALLEST_DENSITY, 2 * highest)
    body.set_title(f"histograms of {data['output'][0].size:,} samples each")
    tails.set_title("exact densities")
    for panel in (body, tails):
        panel.set_xlabel("output $y$ (token 1, coordinate 1)")
        panel.set_ylabel("density")
    outside_legend(body.figure, body)


def labels(data: xr.Dataset) -> list[str]:
    """Of the points, by what they are laid out by."""
    axis = data.attrs["axis"]
    return [f"${_SYMBOLS[axis]} = {int(x)}$" for x in data[axis].values]


def numbers(data: xr.Dataset) -> dict[str, Any]:
    """Moments of the network and of its limits."""
    names = [name for name in _LAWS if f"{name}_variance" in data]
    variance, kurtosis = (
        {name: [estimate(row) for row in data[f"{name}_{moment}"].values] for name in names}
        for moment in ("variance", "kurtosis")
    )
    sampled = [_sampled(outputs) for outputs in data["output"].values]
    header = [
        "",
        "variance, sampled",
        *(Column(f"variance, {_LAWS[name]}", digits=5) for name in names),
        *(Column(f"excess kurtosis, {_LAWS[name]}", digits=5, one_quantity=False) for name in names),
    ]
    rows = zip(map(str, data["point"].values), sampled, *variance.values(), *kurtosis.values(), strict=True)
    return {
        "points": [str(label) for label in data["point"].values],
        "widths": sorted({int(width) for width in data["width"].values}),
        "heads": sorted({int(heads) for heads in data["heads"].values}),
        "tokens": int(data["tokens"][0]),
        "kurtosis": kurtosis,
        "limits": list(dict.fromkeys(round(float(k), 12) for k in kurtosis["limit"])),
        "table": Table(header, list(rows)),
    }


_LAWS = {"network": "exact", "limit": "limit", "fixed": "limit at this d"}
_SYMBOLS = {"width": "n", "heads": "H"}


def _gaussian_density(y: np.ndarray, variances: np.ndarray) -> np.ndarray:
    v = variances[:, None]
    return np.exp(-(y**2) / (2 * v)) / np.sqrt(2 * np.pi * v)


def _sampled(outputs: np.ndarray) -> Estimate:
    """The variance, with its standard error from that between trials."""
    by_trial = outputs.astype(np.float64).var(axis=1, ddof=1)
    return Estimate(by_trial.mean(), by_trial.std(ddof=1) / np.sqrt(by_trial.size), by_trial.size - 1)

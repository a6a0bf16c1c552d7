"""Figures of divergences: the paper's kernel estimate, and beside it the true divergence with the floor of that estimate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _format
from .._format import Column, Table
from ..distances import Convergence, Fit
from ..experiments import Study, to_target
from ..numerics import Estimate
from ._attention import MakeDesign, estimate, estimates_of
from ._settings import Settings
from ._style import COLOURS, FLOOR, LIMIT, outside_legend

if TYPE_CHECKING:
    import xarray as xr

LAYOUT = [["published", "true"]]
HEIGHT = 3.1
_TARGETS = {
    "limit": "to the limit",
    "fixed": "to the limit at this d",
    "gaussian": "to the Gaussian of infinitely many heads",
}
_AXES = {"width": ("n", "width $n$"), "heads": ("H", "number of heads $H$")}


@dataclass(frozen=True)
class Divergences:
    """Kernel estimates in trials, their floor, and the true divergences.

    `target` is the law that points are compared with, "limit" or "gaussian" (infinitely many heads); `power_law` says
    whether true divergences from it follow `c x^-k (1 + a/x)`.
    """

    design: MakeDesign
    target: str = "limit"
    power_law: bool = True

    def studies(self, settings: Settings) -> dict[str, Study]:
        """Kernel estimates, laws at finite width, and the limit if its own divergence from the Gaussian is shown."""
        design = self.design(settings)
        kernels = [to_target(name, design.targets[self.target]) for name in ("kde_kl", "kde_floor")]
        limits = {"limit": design.limits(settings)["limit"]} if self.target == "gaussian" else {}
        return {"kernels": design.outputs(settings, *kernels), "network": design.laws(settings), **limits}

    def gather(self, found: Mapping[str, xr.Dataset], settings: Settings) -> xr.Dataset:
        """One dataset along the points."""
        design = self.design(settings)
        data, kernels = design.dataset(), found["kernels"]
        points = data.sizes["point"]
        data = data.assign_coords(trial=kernels["trial"].values)
        for name, measure, along in (("kde_kl", "kde_kl", "trial"), ("floor_kde_kl", "kde_floor", "pair")):
            data[name] = ("point", along), kernels[to_target(measure, design.targets[self.target])].values
        for name, target in design.targets.items():
            data[f"kl_{name}"] = ("point", "statistic"), estimates_of(found["network"], to_target("kl", target), points)
        if "limit" in found:
            to_gaussian = estimates_of(found["limit"], "kl_to_infinite_heads", points)
            data["limit_kl_gaussian"] = ("point", "statistic"), to_gaussian
        laws = design.laws(settings)
        return data.assign_attrs(
            samples=settings.samples or design.samples,
            target=self.target,
            power_law=self.power_law,
            draws=[int(n) for n in laws.axes["samples"]],
        )


def plot(data: xr.Dataset, axes: dict[str, Any]) -> None:
    """The published figure on the left; on the right the true divergences, with the floor of the kernel estimate."""
    x = data[data.attrs["axis"]].values.astype(float)
    _plot_published(axes["published"], data, x)
    _plot_true(axes["true"], data, x)
    outside_legend(axes["true"].figure, axes["true"])


def _plot_published(axes: Any, data: xr.Dataset, x: np.ndarray) -> None:
    symbol, _ = _AXES[data.attrs["axis"]]
    logs = np.log(data["kde_kl"].values)
    look: dict[str, Any] = {"fmt": "o-", "markersize": 4, "capsize": 2.5, "color": COLOURS[1]}
    axes.errorbar(np.log(x) / np.log(4), logs.mean(axis=1), logs.std(axis=1, ddof=1), **look)
    axes.set_xticks(np.log(x) / np.log(4), [f"{v:g}" for v in np.round(np.log(x) / np.log(4), 2)])
    axes.set_xlabel(rf"$\log_4\,{symbol}$")
    axes.set_ylabel("log KL, kernel estimate")
    axes.set_title(f"as published ({data.sizes['trial']} trials, mean ± s.d.)")
    axes.margins(y=0.08)


def _plot_true(axes: Any, data: xr.Dataset, x: np.ndarray) -> None:
    mean, spread = (float(part) for part in _floor(data))
    axes.plot(
        x, data["kde_kl"].mean("trial"), "o", markersize=4, markerfacecolor="none", color=COLOURS[1], label="kernel estimate, mean"
    )  # fmt: skip
    axes.axhspan(
        max(mean - 2 * spread, mean / 4), mean + 2 * spread, color=FLOOR, alpha=0.3, linewidth=0, label="floor of the kernel estimate (± 2 s.d.)"
    )  # fmt: skip
    truths = true_divergences(data)
    _points(axes, x, truths, COLOURS[0], "o", "true KL (± 2 s.e.)")
    power = fit(data)
    if power is not None:
        line = np.geomspace(x[0], x[-1], 100)
        axes.plot(
            line,
            power(line),
            color=COLOURS[0],
            linewidth=1,
            label=f"fit, slope {_format.estimate(_negative(power.exponent))}",
        )
    if "kl_fixed" in data:
        fixed = [estimate(row) for row in data["kl_fixed"].values]
        _points(axes, x, fixed, COLOURS[2], "^", "true KL to the limit at this $d$")
    if "limit_kl_gaussian" in data:
        axes.plot(x, data["limit_kl_gaussian"][:, 0], "--", color=LIMIT, linewidth=1, label=r"true KL at $n = \infty$")
    axes.set_xscale("log", base=4)
    axes.set_yscale("log")
    axes.set_xticks(x, [f"{v:g}" for v in x])
    axes.xaxis.minorticks_off()
    axes.set_xlabel(_AXES[data.attrs["axis"]][1])
    axes.set_ylabel("KL " + ("to the Gaussian" if data.attrs["target"] == "gaussian" else "to the limit"))
    axes.set_title(
        "true divergence" + (" to the Gaussian, $H = \\infty$" if data.attrs["target"] == "gaussian" else "")
    )


def numbers(data: xr.Dataset) -> dict[str, Any]:
    """Divergences by kernels and true ones, the floor, and the fitted slope."""
    names = [name for name in _TARGETS if f"kl_{name}" in data and (name != "gaussian" or data.attrs["target"] == name)]
    columns = {f"true KL {_TARGETS[name]}": [estimate(row) for row in data[f"kl_{name}"].values] for name in names}
    if "limit_kl_gaussian" in data:
        at_infinity = [estimate(row) for row in data["limit_kl_gaussian"].values]
        columns["true KL to it at n = ∞"] = at_infinity
    kernel = data["kde_kl"].values
    logs = np.log(kernel.mean(axis=1))
    floor, spread = _floor(data)
    points = [str(label) for label in data["point"].values]
    rows = list(zip(points, kernel.mean(axis=1), kernel.std(axis=1, ddof=1), logs, *columns.values(), strict=True))
    rows.append(("two samples of the limit", floor, spread, np.log(floor), *(None for _ in columns)))
    header = ["", Column("kernel estimate, mean", 4), Column("s.d. over trials", 2), Column("log of the mean", 4)]
    truths, power = true_divergences(data), fit(data)
    last = max(truths[-1], truths[-1].stderr)
    found = Convergence(tuple(int(x) for x in data[data.attrs["axis"]].values), tuple(truths), "KL")
    return {
        "points": points,
        "widths": sorted({int(width) for width in data["width"].values}),
        "heads": sorted({int(heads) for heads in data["heads"].values}),
        "tokens": int(data["tokens"][0]),
        "symbol": _AXES[data.attrs["axis"]][0],
        "kernel": kernel.mean(axis=1).tolist(),
        "floor": floor,
        "truths": truths,
        "ratio": kernel[-1].mean() / last,
        "exponent": None if power is None else _negative(power.exponent),
        "interval": None if power is None else _interval(power),
        "slopes": found.slopes,
        "fixed": [estimate(row) for row in data["kl_fixed"].values] if "kl_fixed" in data else [],
        "limits": [float(row[0]) for row in data["limit_kl_gaussian"].values] if "limit_kl_gaussian" in data else [],
        "draws": [int(n) for n in np.atleast_1d(data.attrs["draws"])],
        "table": Table((*header, *(Column(name, 4) for name in columns)), rows),
    }


def true_divergences(data: xr.Dataset) -> list[Estimate]:
    """From the law that the figure compares with."""
    return [estimate(row) for row in data[f"kl_{data.attrs['target']}"].values]


def fit(data: xr.Dataset) -> Fit | None:
    """The power law through the true divergences, if they follow one."""
    truths = true_divergences(data)
    if not data.attrs["power_law"] or len(truths) < 3 or min(truths) <= 0:
        return None
    return Convergence(tuple(int(x) for x in data[data.attrs["axis"]].values), tuple(truths), "KL").fit()


def _negative(exponent: Estimate) -> Estimate:
    return Estimate(-float(exponent), exponent.stderr if isfinite(exponent.stderr) else 0.0)


def _interval(power: Fit) -> tuple[float, float] | None:
    """The 95% interval of the slope, if there are enough points for one."""
    low, high = power.exponent.interval()
    return (-high, -low) if high - low < inf else None


def _floor(data: xr.Dataset) -> tuple[float, float]:
    """Mean and standard deviation of the kernel estimate between two samples of the limit."""
    floor = data["floor_kde_kl"].values
    return float(floor.mean()), float(floor.std(ddof=1))


def _points(axes: Any, x: np.ndarray, values: list[Estimate], colour: str, marker: str, label: str) -> None:
    down = [min(2 * v.stderr, 0.9 * v) if v > 0 else 0.0 for v in values]
    heights = [float(v) if v > 0 else np.nan for v in values]
    look: dict[str, Any] = {"fmt": marker, "markersize": 4, "capsize": 2.5, "color": colour, "label": label}
    axes.errorbar(x, heights, [down, [2 * v.stderr for v in values]], **look)

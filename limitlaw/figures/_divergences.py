"""Figures of divergences: the paper's estimate, and beside it the truth with the floor of that estimate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..distances import Convergence, Fit
from ..experiments import Study, Task, to_target
from ..numerics import Estimate
from ._densities import setup_sentence
from ._experiments import Design, Experiment, Point, estimated, measured, tasks_of
from ._figure import Figure, Load, Table, estimate, show, times
from ._settings import Settings
from ._style import COLOURS, FLOOR, LIMIT, powers_of_ten, style, two_panels

if TYPE_CHECKING:
    import xarray as xr

_TARGETS = {
    "limit": "to the limit",
    "fixed": "to the limit with d kept",
    "gaussian": "to the Gaussian of H = ∞",
}


@dataclass(frozen=True, kw_only=True)
class DivergenceFigure(Figure):
    """Left, the paper's figure: log KL by kernel estimates, mean and standard deviation over trials. Right, its exact twin.

    `axis` is what the points are laid out by, "width" or "heads"; `target` the law that they are compared with, "limit" or "gaussian"
    (infinitely many heads). `power_law` fits `c x^-k (1 + a/x)` to the true divergences.
    """

    design: Design
    axis: str
    axis_label: str
    symbol: str
    target: str = "limit"
    power_law: bool = True

    def tasks(self, settings: Settings) -> list[Task]:
        experiment = self.design(settings)
        kernel = [
            m.task
            for point, study in zip(experiment.points, experiment.samplings, strict=True)
            for m in study.measurements
            if {self._name("kde_kl", point), self._name("kde_floor", point)} & set(m.measure)
        ]
        return [*kernel, *tasks_of(*experiment.laws, *self._limits(experiment))]

    def _name(self, measure: str, point: Point) -> str:
        return to_target(measure, point.targets[self.target])

    def _limits(self, experiment: Experiment) -> list[Study]:
        """The limits whose own divergence from the Gaussian is shown."""
        return experiment.limits["limit"] if self.target == "gaussian" else []

    def dataset(self, settings: Settings, load: Load) -> xr.Dataset:
        import xarray as xr

        experiment = self.design(settings)
        points = experiment.points
        data = xr.Dataset(
            coords=experiment.coordinates(points),
            attrs={
                "samples": experiment.samples,
                "activation": str(points[0].activation),
                "target": self.target,
                "draws": [study.samples for study in experiment.laws],
            },
        )
        for name, measure, along in (("kde_kl", "kde_kl", "trial"), ("floor_kde_kl", "kde_floor", "pair")):
            pairs = zip(experiment.samplings, points, strict=True)
            rows = [measured(study, load, self._name(measure, point)) for study, point in pairs]
            data[name] = ("point", along), np.stack(rows)
        for name in experiment.compared:
            pairs = zip(experiment.laws, points, strict=True)
            rows = [estimated(study, load, to_target("kl", point.targets[name])) for study, point in pairs]
            data[f"kl_{name}"] = ("point", "statistic"), np.stack(rows)
        if self._limits(experiment):
            rows = [estimated(study, load, "kl_to_infinite_heads") for study in self._limits(experiment)]
            data["limit_kl_gaussian"] = ("point", "statistic"), np.stack(rows)
        return data

    def truths(self, data: xr.Dataset) -> list[Estimate]:
        """The true divergences."""
        return [estimate(row) for row in data[f"kl_{self.target}"]]

    def fit(self, data: xr.Dataset) -> Fit | None:
        """The power law through them, if they follow one."""
        truths = self.truths(data)
        if not self.power_law or len(truths) < 3 or min(truths) <= 0:
            return None
        return Convergence(tuple(int(x) for x in data[self.axis].values), tuple(truths), "KL").fit()

    def draw(self, data: xr.Dataset) -> Any:
        x = data[self.axis].values.astype(float)
        with style():
            figure, published, twin = two_panels(2.8)
            self._draw_published(published, data, x)
            self._draw_twin(twin, data, x)
        return figure

    def _draw_published(self, axes: Any, data: xr.Dataset, x: np.ndarray) -> None:
        logs = np.log(data["kde_kl"].values)
        axes.errorbar(
            np.log(x) / np.log(4),
            logs.mean(axis=1),
            logs.std(axis=1, ddof=1),
            fmt="o-",
            markersize=4,
            capsize=2.5,
            color=COLOURS[1],
            label=f"kernel estimate ({data.sizes['trial']} trials, ± s.d.)",
        )
        axes.set_xticks(np.log(x) / np.log(4), [f"{v:g}" for v in np.round(np.log(x) / np.log(4), 2)])
        axes.set_xlabel(f"log₄ {self.symbol}")
        axes.set_ylabel(f"log KL {_TARGETS[self.target]}")
        axes.set_title("as in the paper", loc="left")
        axes.margins(y=0.12)
        axes.legend(loc="upper right")

    def _draw_twin(self, axes: Any, data: xr.Dataset, x: np.ndarray) -> None:
        floor = data["floor_kde_kl"].values
        mean, spread = floor.mean(), floor.std(ddof=1)
        axes.axhspan(
            max(mean - 2 * spread, mean / 4), mean + 2 * spread, color=FLOOR, alpha=0.3, linewidth=0,
            label="floor of the kernel estimate (± 2 s.d.)",
        )  # fmt: skip
        kernel = data["kde_kl"].mean("trial").values
        axes.plot(x, kernel, "o", markersize=4, markerfacecolor="none", color=COLOURS[1], label="kernel estimate, mean")
        truths = self.truths(data)
        _points(axes, x, truths, COLOURS[0], "o", f"true KL {_TARGETS[self.target]} (± 2 s.e.)")
        fit = self.fit(data)
        if fit is not None:
            line = np.geomspace(x[0], x[-1], 100)
            low, high = fit.exponent.interval()
            slope = f"−{float(fit.exponent):.2f}" + (f" ± {(high - low) / 2:.2f}" if np.isfinite(high - low) else "")
            axes.plot(line, fit(line), color=COLOURS[0], linewidth=1, label=f"fit, slope {slope}")
        if "kl_fixed" in data:
            _points(
                axes, x, [estimate(row) for row in data["kl_fixed"]], COLOURS[2], "^", f"true KL {_TARGETS['fixed']}"
            )
        if "limit_kl_gaussian" in data:
            axes.plot(x, data["limit_kl_gaussian"][:, 0], "--", color=LIMIT, linewidth=1, label="the same at n = ∞")
        axes.set_xscale("log", base=4)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(powers_of_ten)
        axes.set_xticks(x, [f"{v:g}" for v in x])
        axes.minorticks_off()
        low, high = 10 ** np.floor(np.log10(axes.get_ylim()[0])), axes.get_ylim()[1]
        axes.set_ylim(low, high * (high / low) ** 0.6)  # room for the legend
        axes.set_xlabel(self.axis_label)
        axes.set_ylabel(f"KL {_TARGETS[self.target]}")
        axes.set_title("its exact twin", loc="left")
        axes.legend(loc="upper right", labelspacing=0.3, handlelength=1.6)

    def table(self, data: xr.Dataset) -> Table:
        names = [
            name
            for name in ("limit", "fixed", "gaussian")
            if f"kl_{name}" in data and (name != "gaussian" or self.target == name)
        ]
        header = [
            "",
            "kernel estimate, mean",
            "s.d. over trials",
            "log of the mean",
            *(f"true KL {_TARGETS[name]}" for name in names),
        ]
        if "limit_kl_gaussian" in data:
            header.append("the same at n = ∞")
        rows = []
        for i, label in enumerate(data["point"].values):
            kernel = data["kde_kl"][i].values
            row = [str(label), f"{kernel.mean():.3e}", f"{kernel.std(ddof=1):.1e}", f"{np.log(kernel.mean()):.3f}"]
            row += [show(estimate(data[f"kl_{name}"][i])) for name in names]
            if "limit_kl_gaussian" in data:
                row.append(show(estimate(data["limit_kl_gaussian"][i])))
            rows.append(tuple(row))
        floor = data["floor_kde_kl"].values
        empty = [""] * (len(header) - 4)
        rows.append(
            (
                "two samples of the limit",
                f"{floor.mean():.3e}",
                f"{floor.std(ddof=1):.1e}",
                f"{np.log(floor.mean()):.3f}",
                *empty,
            )
        )
        return Table(tuple(header), tuple(rows))

    def finding(self, data: xr.Dataset) -> str:
        truths, kernel = self.truths(data), data["kde_kl"].mean("trial").values
        floor, labels = data["floor_kde_kl"].values.mean(), data["point"].values
        text = (
            f"The kernel estimate ends at {times(kernel[-1])} ({labels[-1]}), and two samples of the limit itself score {times(floor)}, "
            f"below which it cannot fall. The true divergence there is {truths[-1]}, {kernel[-1] / max(truths[-1], truths[-1].stderr):.0f} times smaller."
        )
        fit = self.fit(data)
        if fit is not None:
            low, high = fit.exponent.interval()
            interval = f" (95% interval {-high:.2f} to {-low:.2f})" if np.isfinite(high - low) else ""
            text += f" True divergences fall with slope {-float(fit.exponent):.2f}{interval} in {self.symbol}, corrected for the next order alone; the interval has statistical errors only."
        slopes = Convergence(tuple(int(x) for x in data[self.axis].values), tuple(truths), "KL").slopes
        if self.power_law:
            text += f" Local slopes: {', '.join(map(str, slopes))}."
        if "kl_fixed" in data:
            kept = [estimate(row) for row in data["kl_fixed"]]
            text += (
                " Against the limit in which only the width grows and the head dimension is kept, the divergences are "
                + ", ".join(map(str, kept))
                + ": that much is due to the width, the rest to the head dimension."
            )
        if "limit_kl_gaussian" in data:
            at_infinity = [times(float(row[0])) for row in data["limit_kl_gaussian"].values]
            text += (
                f" At n = ∞ the mixture of H heads is {', '.join(at_infinity)} from the Gaussian, falling like 1/H²; at n = 256 what "
                f"remains for many heads is the width, not the mixture."
            )
        return text

    def setup(self, data: xr.Dataset) -> str:
        draws = ", ".join(f"{n:,}" for n in np.atleast_1d(data.attrs["draws"]))
        return (
            setup_sentence(data)
            + f" Kernel estimate: Gaussian kernels, Scott's bandwidth, 500 points over the pooled range, 10⁻¹² added, normalised; a fresh "
            f"sample of the limit for each width and trial. True divergences: Gaussian densities averaged over {draws} independent draws of the "
            f"conditional variance, against the exact density of the limit."
        )


def _points(axes: Any, x: np.ndarray, values: list[Estimate], colour: str, marker: str, label: str) -> None:
    down = [min(2 * v.stderr, 0.9 * v) if v > 0 else 0.0 for v in values]
    heights = [float(v) if v > 0 else np.nan for v in values]
    axes.errorbar(
        x,
        heights,
        [down, [2 * v.stderr for v in values]],
        fmt=marker,
        markersize=4,
        capsize=2.5,
        color=colour,
        label=label,
    )

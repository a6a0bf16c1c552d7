"""Figures of densities: what was sampled, against the limit; and the tails, which samples cannot show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..experiments import Study, Task
from ._experiments import Design, Experiment, estimated, measured, tasks_of
from ._figure import Figure, Load, Table, estimate, show
from ._settings import Settings
from ._style import COLOURS, LIMIT, powers_of_ten, style, two_panels

if TYPE_CHECKING:
    import xarray as xr

_BINS = 100
_SMALLEST_DENSITY = 3e-5


@dataclass(frozen=True, kw_only=True)
class DensityFigure(Figure):
    """Histograms of all trials with the limit density, and on a logarithmic scale the exact density of every point.

    `chosen` are the points that are shown (all unless given). With `gaussian`, the law of infinitely many heads is drawn too.
    """

    design: Design
    chosen: tuple[int, ...] | None = None
    gaussian: bool = False

    def _indices(self, experiment: Experiment) -> tuple[int, ...]:
        return tuple(range(len(experiment.points))) if self.chosen is None else self.chosen

    def _laws(self, experiment: Experiment) -> dict[str, list[Study]]:
        """The laws that are drawn, point by point."""
        return {"network": experiment.laws, **experiment.limits}

    def tasks(self, settings: Settings) -> list[Task]:
        experiment = self.design(settings)
        laws = self._laws(experiment).values()
        out = []
        for i in self._indices(experiment):
            outputs = [m.task for m in experiment.samplings[i].measurements if "outputs" in m.measure]
            out += [*outputs, *tasks_of(*(studies[i] for studies in laws))]
        return out

    def dataset(self, settings: Settings, load: Load) -> xr.Dataset:
        import xarray as xr

        experiment = self.design(settings)
        indices = self._indices(experiment)
        points = [experiment.points[i] for i in indices]
        data = xr.Dataset(
            coords={
                **experiment.coordinates(points),
                "y": ("y", experiment.grid, {"long_name": "output of token 1, coordinate 1"}),
            },
            attrs={"samples": experiment.samples, "activation": str(points[0].activation)},
        )
        outputs = [measured(experiment.samplings[i], load, "outputs") for i in indices]
        data["output"] = ("point", "trial", "sample"), np.stack(outputs)
        for name, studies in self._laws(experiment).items():
            shown = [studies[i] for i in indices]
            densities = np.stack([measured(study, load, "density")[0] for study in shown])
            data[f"{name}_density"] = ("point", "y"), densities
            for moment in ("variance", "kurtosis"):
                moments = np.stack([estimated(study, load, moment) for study in shown])
                data[f"{name}_{moment}"] = ("point", "statistic"), moments
        errors = [measured(experiment.laws[i], load, "density_stderr")[0] for i in indices]
        data["network_density_stderr"] = ("point", "y"), np.stack(errors)
        data["gaussian_density"] = (
            ("point", "y"),
            _gaussian_density(data["y"].values, data["limit_variance"].values[:, 0]),
        )
        return data

    def draw(self, data: xr.Dataset) -> Any:
        shared = bool(np.allclose(data["limit_density"], data["limit_density"][0]))
        y = data["y"].values
        with style():
            figure, body, tails = two_panels(2.7)
            for i, label in enumerate(data["point"].values):
                colour = COLOURS[i % len(COLOURS)]
                at = data.isel(point=i)
                samples = at["output"].values.ravel()
                counts, edges = np.histogram(samples, _BINS, (y[0], y[-1]))
                density = counts / (samples.size * np.diff(edges))
                body.stairs(density, edges, color=colour, linewidth=1, label=f"{label}, sampled")
                tails.semilogy(y, at["network_density"], color=colour, label=f"{label}, exact")
                if "fixed_density" in data:
                    tails.semilogy(y, at["fixed_density"], color=colour, linestyle=":", linewidth=1.6)
                if not shared:
                    for axes in (body, tails):
                        axes.plot(y, at["limit_density"], color=colour, linestyle="--", linewidth=1)
            if shared:
                for axes in (body, tails):
                    axes.plot(
                        y, data["limit_density"][0], color=LIMIT, linestyle="--", linewidth=1, label="limit, n = ∞"
                    )
            else:
                for axes in (body, tails):
                    axes.plot([], [], color=LIMIT, linestyle="--", linewidth=1, label="limits, n = d = ∞")
            if "fixed_density" in data:
                tails.plot([], [], color=LIMIT, linestyle=":", linewidth=1.6, label="limits, n = ∞, d kept")
            if self.gaussian:
                for axes in (body, tails):
                    axes.plot(y, data["gaussian_density"][0], color=LIMIT, linestyle=":", label="Gaussian, H = ∞")
            reach = 3.2 * float(np.sqrt(data["limit_variance"].values[:, 0].max()))
            body.set_xlim(-reach, reach)
            body.set_ylim(0, 1.5 * float(data["network_density"].max()))
            tails.set_xlim(0, y[-1])
            tails.set_ylim(_SMALLEST_DENSITY, 60)
            tails.yaxis.set_major_formatter(powers_of_ten)
            for axes in (body, tails):
                axes.set_xlabel("output y (token 1, coordinate 1)")
                axes.set_ylabel("density")
                axes.legend(loc="upper right", handlelength=1.6, labelspacing=0.25, ncols=1)
        return figure

    def table(self, data: xr.Dataset) -> Table:
        laws = {"network": "at this width", "limit": "limit"}
        if "fixed_density" in data:
            laws["fixed"] = "limit, d kept"
        header = ("", *(f"{moment}, {text}" for moment in ("variance", "excess kurtosis") for text in laws.values()))
        rows = []
        for i, label in enumerate(data["point"].values):
            cells = [
                show(estimate(data[f"{name}_{moment}"][i])) for moment in ("variance", "kurtosis") for name in laws
            ]
            rows.append((str(label), *cells))
        return Table((*header, "variance, sampled"), tuple((*row, _sampled(data, i)) for i, row in enumerate(rows)))

    def finding(self, data: xr.Dataset) -> str:
        first, last = estimate(data["network_kurtosis"][0]), estimate(data["network_kurtosis"][-1])
        limits = [float(estimate(row)) for row in data["limit_kurtosis"]]
        labels = data["point"].values
        text = (
            f"The excess kurtosis is {first} at {labels[0]} and {last} at {labels[-1]}; in the limit it is "
            + (f"{limits[0]:.4f}" if np.ptp(limits) < 1e-9 else " and ".join(f"{k:.4f}" for k in limits))
            + ", not 0: the limit is a mixture, not a Gaussian. In the body the histograms are close to the limit; what is left of the width "
            "shows in the tails, where the exact densities are drawn on a logarithmic scale."
        )
        if "fixed_density" in data:
            kept = [float(estimate(row)) for row in data["fixed_kurtosis"]]
            text += (
                " With the head dimension kept as the width grows (dotted) the limit has excess kurtosis "
                + ", ".join(f"{k:.4f}" for k in kept)
                + ": closer to the network than the limit of the theorem, which also lets the head dimension grow."
            )
        return text

    def setup(self, data: xr.Dataset) -> str:
        return setup_sentence(data)


def setup_sentence(data: xr.Dataset) -> str:
    """The experiment, with all its settings."""
    return (
        f"{data.sizes['trial']} trials of {data.attrs['samples']:,} networks each at {'; '.join(map(str, data['point'].values))}; "
        f"{int(data['tokens'][0])} tokens x_i = φ(W_i h), φ = {data.attrs['activation']}, h ~ N(0, I), all weights N(0, 1/fan-in), "
        f"scores divided by the root of the head dimension, heads summed with 1/√H; first token, first coordinate."
    )


def _gaussian_density(y: np.ndarray, variances: np.ndarray) -> np.ndarray:
    v = variances[:, None]
    return np.exp(-(y**2) / (2 * v)) / np.sqrt(2 * np.pi * v)


def _sampled(data: xr.Dataset, i: int) -> str:
    by_trial = data["output"][i].values.astype(np.float64).var(axis=1, ddof=1)
    return f"{by_trial.mean():.4f} ± {by_trial.std(ddof=1) / np.sqrt(by_trial.size):.4f}"

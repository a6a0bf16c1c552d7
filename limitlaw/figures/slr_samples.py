"""What figure 2 of the regression paper becomes from uniform starts, and as the data grow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..experiments import Task
from . import _regression as regression
from ._experiments import seed_for
from ._figure import Figure, Load, Table
from ._settings import Settings
from ._style import COLOURS, LIMIT, style, two_panels

if TYPE_CHECKING:
    import xarray as xr

_STARTS = 6
_SIZES = (1000, 3000, 9000)


@dataclass(frozen=True, kw_only=True)
class SamplesFigure(Figure):
    """Left, the risk from uniform starts; right, the gap between simulation and exact dynamics against the number of samples."""

    def _sizes(self, settings: Settings) -> tuple[int, ...]:
        return _SIZES if settings.steps >= Settings().steps else (_SIZES[0] // 2, _SIZES[0])

    def _tasks(self, settings: Settings) -> list[Task]:
        common = {
            "problem": regression.FIGURE_2,
            "start": regression.starts(regression.FIGURE_2, "uniform", _STARTS, seed_for(settings, "slr uniform")),
            "steps": settings.steps,
        }
        seed = seed_for(settings, "slr samples")
        return [
            regression.task("uniform starts: exact descent", regression.descent, 0.1, **common, method="exact", alpha=None),
            *(
                regression.task(
                    f"uniform starts: simulation, n = {size}", regression.simulation, 1.4 + 1.4e-6 * settings.steps * size,
                    **common, samples=size, seed=seed,
                )
                for size in reversed(self._sizes(settings))  # the longest first: there is other work meanwhile
            ),
        ]  # fmt: skip

    def tasks(self, settings: Settings) -> list[Task]:
        return self._tasks(settings)

    def dataset(self, settings: Settings, load: Load) -> xr.Dataset:
        import xarray as xr

        exact, *simulated = (load(task) for task in self._tasks(settings))
        return xr.Dataset(
            {
                "exact_risk": (("start", "step"), exact["risk"]),
                "exact_overlap": (("start", "step", "name"), exact["overlaps"]),
                "risk": (("samples", "start", "step"), np.stack([run["risk"] for run in reversed(simulated)])),
                "overlap": (
                    ("samples", "start", "step", "name"),
                    np.stack([run["overlaps"] for run in reversed(simulated)]),
                ),
            },
            coords={
                "samples": list(self._sizes(settings)),
                "start": np.arange(1, _STARTS + 1),
                "step": exact["step"],
                "name": ["mu", "nu", "eta", "zeta", "rho"],
            },
            attrs={**regression.FIGURE_2, "link": "linear", "step_size": regression.STEP_SIZE, "steps": settings.steps},
        )

    def draw(self, data: xr.Dataset) -> Any:
        few = int(data["samples"][0])
        with style():
            figure, left, right = two_panels(2.6)
            for i, colour in enumerate(COLOURS):
                left.plot(data["step"], data["exact_risk"][i], "--", color=colour, linewidth=1)
                left.plot(data["step"], data["risk"].sel(samples=few)[i], color=colour, linewidth=1)
            left.plot([], [], "--", color=LIMIT, linewidth=1, label="exact")
            left.plot([], [], color=LIMIT, linewidth=1, label=f"simulation, n = {few:,}")
            left.set_ylim(0, 1.3 * float(data["exact_risk"].max()))
            left.set_xlabel("step")
            left.set_ylabel("excess risk")
            left.legend(loc="upper right", ncols=2)
            gap = _gaps(data)
            for i, colour in enumerate(COLOURS):
                right.plot(data["samples"], gap[:, i], "o-", color=colour, markersize=3, label=f"start {i + 1}")
            right.set_xscale("log")
            right.set_xticks(data["samples"].values, [f"{int(n):,}" for n in data["samples"]])
            right.minorticks_off()
            right.set_ylim(0, 1.4 * float(gap.max()))
            right.set_xlabel("training sequences n")
            right.set_ylabel("largest gap in ν, simulated − exact")
            right.legend(ncols=3, fontsize=6, loc="upper right")
        return figure

    def table(self, data: xr.Dataset) -> Table:
        gap = _gaps(data)
        rows = []
        for i in range(data.sizes["start"]):
            mu, nu = (float(data["exact_overlap"][i, 0].sel(name=name)) for name in ("mu", "nu"))
            finals = [f"{float(risk):.3g}" for risk in data["risk"][:, i, -1]]
            gaps = [f"{value:.2f}" for value in gap[:, i]]
            rows.append(
                (str(i + 1), f"{mu:.3f}", f"{nu:.3f}", f"{float(data['exact_risk'][i, -1]):.3g}", *finals, *gaps)
            )
        sizes = [f"n = {int(n):,}" for n in data["samples"]]
        header = (
            "start",
            "μ₀",
            "ν₀",
            "final risk, exact",
            *(f"final risk, {size}" for size in sizes),
            *(f"gap in ν, {size}" for size in sizes),
        )
        return Table(header, tuple(rows))

    def finding(self, data: xr.Dataset) -> str:
        learned = (data["risk"][..., -1] < regression.LEARNED).sum("start").values
        exact = int((data["exact_risk"][:, -1] < regression.LEARNED).sum())
        counts = ", ".join(f"{int(k)} at n = {int(n):,}" for k, n in zip(learned, data["samples"].values, strict=True))
        gap = _gaps(data).mean(axis=1)
        return (
            f"Of {data.sizes['start']} uniform starts {exact} learn on the population risk within {data.attrs['steps']} steps; on data, {counts}. The average largest gap in ν goes from "
            f"{gap[0]:.2f} to {gap[-1]:.2f}. So the agreement claimed at n = 1,000 depends on the start{', and grows with the data' if gap[-1] < 0.9 * gap[0] else ''}."
        )

    def setup(self, data: xr.Dataset) -> str:
        return (
            f"Linear link, d = 100, L = 20, β = 1, γ = 1/√2, label noise 0.1, step {data.attrs['step_size']}; u and v uniform on the sphere; the same starts on the "
            f"population risk and on an independent training set of each size."
        )


def _gaps(data: xr.Dataset) -> np.ndarray:
    """The largest difference in `nu` to the exact dynamics, (samples, start)."""
    nu = data["overlap"].sel(name="nu") - data["exact_overlap"].sel(name="nu")
    return np.abs(nu.transpose("samples", "start", "step").values).max(axis=-1)


FIGURE = SamplesFigure(
    name="slr_samples",
    title="Regression: uniform starts, and more data",
    claim="Gradient descent needs no special start, and the mean field describes it at n = 1,000.",
    paper="slr",
)

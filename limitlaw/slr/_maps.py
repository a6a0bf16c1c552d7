"""Maps: phases over two parameters with the exact risk underneath, and the starts from which descent learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ._mean_field import phase_of

if TYPE_CHECKING:
    import xarray as xr

PHASES = ("retrieval", "paramagnetic", "frozen")
SYMBOLS = {"alpha": "α = log L / d", "beta": "β", "gamma": "γ", "mu": "overlap μ", "nu": "overlap ν"}


@dataclass(frozen=True)
class PhaseDiagram:
    """The phases of the mean-field limit over two parameters, and the oracle's exact risk at a finite dimension.

    Arrays have shape (y, x). `level` is `c mu - psi`, positive where the signal is found; `critical` is `beta - sqrt(2 alpha)`, positive where
    the noise is frozen.
    """

    x_name: str
    y_name: str
    x: np.ndarray
    y: np.ndarray
    level: np.ndarray
    critical: np.ndarray
    risk: np.ndarray
    dim: int

    @property
    def phase(self) -> np.ndarray:
        """The name of the phase at every point."""
        return phase_of(self.level, self.critical)

    def to_xarray(self) -> xr.Dataset:
        """Labelled."""
        import xarray as xr

        axes = (self.y_name, self.x_name)
        names = ("level", "critical", "risk", "phase")
        return xr.Dataset(
            {name: (axes, getattr(self, name)) for name in names},
            coords={self.x_name: self.x, self.y_name: self.y},
            attrs={"dim": self.dim},
        )

    def plot(self, ax: Any = None, *, colorbar: bool = True, **style: Any) -> Any:
        """Draw the risk, the boundaries of the phases and their names on matplotlib axes (the current ones unless given)."""
        import matplotlib.pyplot as plt

        axes = plt.gca() if ax is None else ax
        mesh = axes.pcolormesh(self.x, self.y, self.risk, **{"cmap": "cividis", "shading": "gouraud", **style})
        axes.contour(self.x, self.y, self.level, [0.0], colors="white", linewidths=1.5)
        beyond = np.where(self.level < 0, self.critical, np.nan)
        if np.nanmin(beyond, initial=np.inf) < 0 < np.nanmax(beyond, initial=-np.inf):
            axes.contour(self.x, self.y, beyond, [0.0], colors="white", linewidths=1, linestyles="--")
        self._write_names(axes)
        axes.set_xlabel(SYMBOLS[self.x_name])
        axes.set_ylabel(SYMBOLS[self.y_name])
        if colorbar:
            axes.figure.colorbar(mesh, ax=axes, label=f"oracle's exact risk at d = {self.dim}")
        return axes

    def _write_names(self, axes: Any) -> None:
        """Each in the middle of its phase, or at the right edge where that is near; phases with little room go without."""
        from matplotlib.patheffects import withStroke

        for name in PHASES:
            rows, columns = np.nonzero(self.phase == name)
            if rows.size > 0.1 * self.phase.size and np.ptp(rows) > 0.2 * self.y.size:
                middle = int(np.median(columns))
                at_edge = middle > 0.6 * self.x.size and columns.max() == self.x.size - 1
                axes.annotate(
                    name,
                    (self.x[-1] if at_edge else self.x[middle], self.y[int(np.median(rows))]),
                    (-3 if at_edge else 0, 0),
                    textcoords="offset points",
                    color="white",
                    ha="right" if at_edge else "center",
                    va="center",
                    fontsize=7,
                    path_effects=[withStroke(linewidth=1.5, foreground="#2b3b5c")],  # over lines, too
                )


def phase_diagram(problem: Any, x_name: str, y_name: str, x: np.ndarray, y: np.ndarray) -> PhaseDiagram:
    """Every problem of the grid, as `problem` with two parameters changed; `v` is the true one, and `u` has overlap `mu`, 1 unless that is an axis."""
    level, critical, risk = (np.empty((y.size, x.size)) for _ in range(3))
    for i, along_y in enumerate(y):
        for j, along_x in enumerate(x):
            values = {y_name: float(along_y), x_name: float(along_x)}
            mu = values.pop("mu", 1.0)
            changed = problem.changed(**values)
            level[i, j], critical[i, j] = changed.distances(mu)
            risk[i, j] = changed.risk(mu, 1.0)
    return PhaseDiagram(x_name, y_name, x, y, level, critical, risk, problem.dim)


@dataclass(frozen=True)
class BasinMap:
    """Starts `(mu, nu)` with `eta = zeta = rho = 0`, and the step at which descent from each first has a risk below `level`, NaN if never.

    Arrays have shape (nu, mu).
    """

    mu: np.ndarray
    nu: np.ndarray
    learned_at: np.ndarray
    final_risk: np.ndarray
    level: float
    steps: int
    method: str

    @property
    def learned_fraction(self) -> float:
        """The fraction of the starts that learn."""
        return float(np.isfinite(self.learned_at).mean())

    def to_xarray(self) -> xr.Dataset:
        """Labelled."""
        import xarray as xr

        return xr.Dataset(
            {name: (("nu", "mu"), getattr(self, name)) for name in ("learned_at", "final_risk")},
            coords={"mu": self.mu, "nu": self.nu},
            attrs={"level": self.level, "steps": self.steps, "method": self.method},
        )

    def plot(self, ax: Any = None, *, colorbar: bool = True, **style: Any) -> Any:
        """Draw the step at which each start learns; what never does stays grey."""
        import matplotlib.pyplot as plt

        axes = plt.gca() if ax is None else ax
        axes.set_facecolor("#bbbbbb")
        mesh = axes.pcolormesh(
            self.mu,
            self.nu,
            self.learned_at,
            **{"cmap": "cividis_r", "shading": "nearest", "vmin": 0, "vmax": self.steps, **style},
        )
        axes.set_xlabel("start μ₀")
        axes.set_ylabel("start ν₀")
        if colorbar:
            axes.figure.colorbar(mesh, ax=axes, label=f"step at which the risk is below {self.level:g}")
        return axes


def basin_map(problem: Any, mu: np.ndarray, nu: np.ndarray, level: float, **descent: Any) -> BasinMap:
    """Descent from every point of a grid."""
    grid = np.stack(np.broadcast_arrays(mu[None, :], nu[:, None], 0.0, 0.0, 0.0), axis=-1).reshape(-1, 5)
    run = problem.descent(start=grid, **descent)
    below = run.risk < level
    learned = np.where(below.any(axis=1), run.at[np.argmax(below, axis=1)], np.nan)
    shape = nu.size, mu.size
    return BasinMap(mu, nu, learned.reshape(shape), run.risk[:, -1].reshape(shape), level, int(run.at[-1]), run.method)

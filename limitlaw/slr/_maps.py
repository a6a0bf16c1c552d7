"""Maps: phases over two parameters with the exact risk underneath, and the starts from which descent learns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ._mean_field import phase_of
from ._shown import Shown, numbers

if TYPE_CHECKING:
    import xarray as xr

    from ._problem import Problem

PHASES = ("retrieval", "paramagnetic", "frozen")
SYMBOLS = {"alpha": "α = log L / d", "beta": "β", "gamma": "γ", "mu": "overlap μ", "nu": "overlap ν"}
_FINE = 121  # points along an axis for boundaries
_ROOM = 1.25  # for the name of a phase, in widths and heights of it
_MUCH = 0.8  # of the most room


@dataclass(frozen=True, repr=False)
class PhaseDiagram(Shown):
    """The phases of the mean-field limit over two parameters, and the oracle's exact risk at a finite dimension.

    `problem` has the parameters that stay; arrays have shape (y, x). `level` is `c mu - psi`, positive where the signal is found; `critical` is
    `beta - sqrt(2 alpha)`, positive where the noise is frozen.
    """

    problem: Problem
    x_name: str
    y_name: str
    x: np.ndarray
    y: np.ndarray
    risk: np.ndarray

    @property
    def level(self) -> np.ndarray:
        """`c mu - psi` at every point, positive where the signal is found."""
        return _distances(self.problem, self.x_name, self.y_name, self.x, self.y)[0]

    @property
    def critical(self) -> np.ndarray:
        """`beta - sqrt(2 alpha)` at every point, positive where the noise is frozen."""
        return _distances(self.problem, self.x_name, self.y_name, self.x, self.y)[1]

    @property
    def phase(self) -> np.ndarray:
        """The name of the phase at every point."""
        return phase_of(self.level, self.critical)

    def _table(self) -> tuple[str, list[Sequence[str]]]:
        """How many points each phase has, and the oracle's risk there."""
        axes = {self.x_name: self.x, self.y_name: self.y}
        parts = [f"{_symbol(name)} from {axis.min():.4g} to {axis.max():.4g}" for name, axis in axes.items()]
        parts += [
            f"{_symbol(name)} = {getattr(self.problem, name):.4g}"
            for name in ("alpha", "beta", "gamma")
            if name not in axes
        ]
        phase, rows = self.phase, []
        for name in PHASES:
            risk = self.risk[phase == name]
            rows.append((name, str(risk.size), *(numbers([risk.min(), risk.max()]) if risk.size else ("", ""))))
        header = ("phase", "points", "oracle's lowest risk", "highest")
        return f"phases over {', '.join(parts)}; risks at d = {self.problem.dim}", [header, *rows]

    def finer(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """`x`, `y`, `level` and `critical` with many points along each axis: boundaries take no quadrature, as the risk does.

        !!! Example

            >>> from limitlaw import slr
            >>> diagram = slr.Problem(dim=20, tokens=5).phase_diagram("mu", "beta", x_values=[0.2, 0.8], y_values=[0.5, 2.0])
            >>> x, y, level, critical = diagram.finer()
            >>> level.shape == (y.size, x.size), bool(level[0, 0] == diagram.level[0, 0])
            (True, True)
        """
        x, y = (np.linspace(axis[0], axis[-1], _FINE) for axis in (self.x, self.y))
        return x, y, *_distances(self.problem, self.x_name, self.y_name, x, y)

    def to_xarray(self) -> xr.Dataset:
        """Labelled."""
        import xarray as xr

        axes = (self.y_name, self.x_name)
        names = ("level", "critical", "risk", "phase")
        return xr.Dataset(
            {name: (axes, getattr(self, name)) for name in names},
            coords={self.x_name: self.x, self.y_name: self.y},
            attrs={"dim": self.problem.dim},
        )

    def plot(self, ax: Any = None, *, colorbar: bool = True, **style: Any) -> Any:
        """Draw the risk, the boundaries of the phases and their names on matplotlib axes (the current ones unless given)."""
        import matplotlib.pyplot as plt

        axes = plt.gca() if ax is None else ax
        mesh = axes.pcolormesh(self.x, self.y, self.risk, **{"cmap": "cividis", "shading": "gouraud", **style})
        x, y, level, critical = self.finer()
        axes.contour(x, y, level, [0.0], colors="white", linewidths=1.5)
        beyond = np.where(level < 0, critical, np.nan)
        if np.nanmin(beyond, initial=np.inf) < 0 < np.nanmax(beyond, initial=-np.inf):
            axes.contour(x, y, beyond, [0.0], colors="white", linewidths=1, linestyles="--")
        axes.set_xlabel(SYMBOLS[self.x_name])
        axes.set_ylabel(SYMBOLS[self.y_name])
        if colorbar:
            axes.figure.colorbar(mesh, ax=axes, label=f"oracle's exact risk at d = {self.problem.dim}")
        _write_names(axes, x, y, phase_of(level, critical))
        return axes


def _symbol(name: str) -> str:
    """Without what it stands for."""
    return next(word for word in SYMBOLS[name].split() if len(word) == 1)


def _write_names(axes: Any, x: np.ndarray, y: np.ndarray, phase: np.ndarray) -> None:
    """Each where its phase has much room for it, near the middle; upright if it fits in no other way; a phase without room goes without."""
    from matplotlib.patheffects import withStroke
    from scipy.ndimage import distance_transform_edt, minimum_filter

    panel = axes.get_window_extent()
    across, up = panel.width / (x.size - 1), panel.height / (y.size - 1)  # pixels between two points
    for name in PHASES:
        text = axes.text(
            x[0], y[0], name, color="white", ha="center", va="center", fontsize=7,
            path_effects=[withStroke(linewidth=1.5, foreground="#2b3b5c")],
        )  # fmt: skip
        box = text.get_window_extent()
        inside = np.pad(phase == name, 1)  # the frame is a boundary, too
        for angle, width, height in ((0, box.width, box.height), (90, box.height, box.width)):
            cells = int(_ROOM * height / up) + 1, int(_ROOM * width / across) + 1
            fits = np.asarray(minimum_filter(inside, cells))[1:-1, 1:-1]
            if fits.any():
                distances: Any = distance_transform_edt(inside, sampling=(up / height, across / width))
                room = distances[1:-1, 1:-1]
                places = np.argwhere(fits & (room >= _MUCH * room[fits].max()))
                middle = np.argwhere(phase == name).mean(axis=0)
                i, j = places[np.abs((places - middle) / phase.shape).sum(axis=1).argmin()]
                text.set(position=(x[j], y[i]), rotation=angle)
                break
        else:
            text.remove()


def _distances(
    problem: Problem, x_name: str, y_name: str, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """`level` and `critical` on a grid."""
    found = [changed.distances(mu) for changed, mu in _problems(problem, x_name, y_name, x, y)]
    level, critical = np.array(found).T.reshape(2, y.size, x.size)
    return level, critical


def _problems(
    problem: Problem, x_name: str, y_name: str, x: np.ndarray, y: np.ndarray
) -> Iterator[tuple[Problem, float]]:
    """Row by row, `problem` with two parameters changed, and the overlap `mu` of `u`, 1 unless that is an axis; `v` is the true one."""
    for along_y in y:
        for along_x in x:
            values = {y_name: float(along_y), x_name: float(along_x)}
            mu = values.pop("mu", 1.0)
            yield problem.changed(**values), mu


def phase_diagram(problem: Problem, x_name: str, y_name: str, x: np.ndarray, y: np.ndarray) -> PhaseDiagram:
    """The oracle's exact risk for every problem of the grid."""
    risk = [changed.risk(mu, 1.0) for changed, mu in _problems(problem, x_name, y_name, x, y)]
    return PhaseDiagram(problem, x_name, y_name, x, y, np.array(risk).reshape(y.size, x.size))


@dataclass(frozen=True, repr=False)
class BasinMap(Shown):
    """Starts `(mu, nu)` with `eta = zeta = rho = 0`, and the step at which descent from each first has a risk below `level`, NaN if never.

    Arrays have shape (nu, mu).

    !!! Example

        >>> from limitlaw import slr
        >>> basins = slr.Problem(dim=100, tokens=20).basins([-0.5, 0.5], [0.5], steps=500)
        >>> basins.learned_fraction, (basins.final_risk < basins.level).tolist()
        (0.5, [[False, True]])
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

    def _table(self) -> tuple[str, list[Sequence[str]]]:
        """How many starts learn, when, and what risk they and the others end with."""
        learn = np.isfinite(self.learned_at)
        title = (
            f"{learn.size} starts, μ₀ from {self.mu.min():.4g} to {self.mu.max():.4g}, ν₀ from {self.nu.min():.4g} to {self.nu.max():.4g}: "
            f"{learn.sum()} ({self.learned_fraction:.1%}) have a risk below {self.level:g} within {self.steps} steps, {self.method}"
        )
        spreads = {
            "step at which they learn": self.learned_at[learn],
            "their final risk": self.final_risk[learn],
            "final risk of the others": self.final_risk[~learn],
        }
        rows = [(name, *numbers(np.quantile(x, [0.0, 0.5, 1.0]))) for name, x in spreads.items() if x.size]
        return title, [("", "lowest", "median", "highest"), *rows]

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

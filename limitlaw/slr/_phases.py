"""Phases of the mean-field limit, and diagrams of them with the oracle's exact risk underneath."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isinf, log, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .. import _progress
from .._checks import ArgumentError, boolean, finite_array
from .._format import Column, Table
from ._arguments import overlap
from ._landscapes import limiting_noise, phase_of, setting_of
from ._tables import noise_alone
from ._tabular import Tabular

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes

    from ._problem import Problem

PHASES = ("retrieval", "paramagnetic", "frozen")
SYMBOLS = {"alpha": "α = log L / d", "beta": "β", "gamma": "γ", "mu": "overlap μ", "nu": "overlap ν"}
_DIAGRAMS = (("alpha", "gamma"), ("alpha", "beta"), ("mu", "beta"))
_POINTS = 19  # along an axis unless given: a diagram takes a second
_FINE = 121  # points along an axis for boundaries, which take no quadrature
_MARGIN = 1.25  # of a label around its text, as a multiple of its width and height
_SPACIOUS = 0.8  # a place with this fraction of the most space will do if it is nearer to the middle of the phase


def phase(problem: Problem, mu: float = 1.0, *, alpha: float | None = None) -> str:
    """The phase of the mean-field limit.

    In "retrieval" the signal's token carries the attention, so that the oracle's risk vanishes in the limit
    (Proposition 2); in "paramagnetic" many tokens carry it, in "frozen" a few wrong ones.

    Args:
        problem: The problem.
        mu: The overlap `u . u_*`.
        alpha: Replaces `log L / d`.

    Returns:
        "retrieval", "paramagnetic" or "frozen".

    Raises:
        ArgumentError: If `beta` is 0, or `mu` is no overlap.

    Example:
        >>> from limitlaw import slr
        >>> slr.phase(slr.Problem(dim=100, tokens=20)), slr.phase(slr.Problem(dim=100, log_tokens=60.0))
        ('retrieval', 'paramagnetic')
    """
    if isinf(problem.log_others):
        return "retrieval"  # there are no other tokens
    return str(phase_of(*phase_margins(problem, mu, alpha=alpha)))


def phase_margins(problem: Problem, mu: float = 1.0, *, alpha: float | None = None) -> tuple[float, float]:
    """How far the limit is inside the retrieval phase, `c mu - psi`, and inside the frozen one, `beta - sqrt(2 alpha)`.

    Args:
        problem: The problem.
        mu: The overlap `u . u_*`.
        alpha: Replaces `log L / d`.

    Returns:
        Both margins, negative outside.

    Raises:
        ArgumentError: If `beta` is 0, or `mu` is no overlap.

    Example:
        >>> from limitlaw import slr
        >>> [round(x, 4) for x in slr.phase_margins(slr.Problem(dim=100, tokens=20), mu=0.5)]
        [0.1088, 0.7552]
    """
    psi = limiting_noise(problem, alpha).psi
    own = problem.alpha if alpha is None else alpha
    return problem.strength * overlap("mu", mu) - psi, problem.beta - sqrt(2 * own)


THRESHOLDS = {
    "mu": "mu, above which the signal is found",
    "beta": "beta, above which the oracle finds it",
    "alpha": "alpha, below which the oracle finds it",
    "alpha_best_beta": "alpha, at the best beta",
    "alpha_bayes": "alpha, Bayes with whole tokens",
}
"""The thresholds by the names that `thresholds` returns, in words for tables."""


def thresholds(problem: Problem) -> dict[str, float]:
    """Where the phase of the mean-field limit changes, one parameter at a time.

    Args:
        problem: The problem.

    Returns:
        `mu` and `beta`, above which the signal is found at this `alpha`; `alpha` and `alpha_best_beta`, below which the
        oracle finds it at this `beta` and at the best one; `alpha_bayes`, below which Bayes with whole tokens finds it.
        `inf` or 0 where nothing finds it.

    Raises:
        ArgumentError: If `beta` is 0.

    Example:
        >>> from limitlaw import slr
        >>> {name: round(value, 4) for name, value in slr.thresholds(slr.Problem(dim=100, tokens=20)).items()}
        {'mu': 0.3462, 'beta': 0.0437, 'alpha': 0.25, 'alpha_best_beta': 0.25, 'alpha_bayes': 0.3466}
    """
    c, alpha, beta, gamma = problem.strength, problem.alpha, problem.beta, problem.gamma
    psi = limiting_noise(problem, None).psi
    discriminant = c**2 - 2 * alpha  # of psi(beta) = c below the critical beta
    return {
        "mu": psi / c if c else inf,
        "beta": c - sqrt(discriminant) if discriminant > 0 else inf,
        "alpha": c**2 / 2 if beta >= c else beta * c - beta**2 / 2,
        "alpha_best_beta": c**2 / 2,
        "alpha_bayes": -log(gamma) + (c**2 + gamma**2 - 1) / 2,
    }


def participation(problem: Problem) -> float:
    """`E sum q^2` over the other tokens when the signal is out of reach, with softmax weights `q`.

    Args:
        problem: The problem.

    Returns:
        1 if one token has all the attention, `1 / (L - 1)` if all share it.

    Example:
        >>> from limitlaw import slr
        >>> round(slr.participation(slr.Problem(dim=100, tokens=20)), 4)
        0.8173
    """
    if isinf(problem.log_others):
        return 0.0
    if problem.beta == 0:
        return float(np.exp(-problem.log_others))
    return noise_alone(setting_of(problem))[2]


@dataclass(frozen=True, repr=False)
class PhaseDiagram(Tabular):
    """The phases of the mean-field limit over two parameters, and the oracle's exact risk at a finite dimension.

    Attributes:
        problem: The problem, with the parameters that stay.
        x_name: The parameter along x: "alpha" or "mu".
        y_name: The parameter along y: "gamma" or "beta".
        x: Its values.
        y: Its values.
        risk: The oracle's exact risk, of shape (y, x).

    Example:
        >>> from limitlaw import slr
        >>> problem = slr.Problem(dim=20, tokens=5)
        >>> diagram = slr.phase_diagram(problem, "mu", "beta", x_values=[0.2, 0.8], y_values=[0.5, 2.0])
        >>> diagram.x_label, bool(diagram.level[0, 0] > 0)
        ('overlap μ', False)
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
        return _margins(self.problem, self.x_name, self.y_name, self.x, self.y)[0]

    @property
    def critical(self) -> np.ndarray:
        """`beta - sqrt(2 alpha)` at every point, positive where the noise is frozen."""
        return _margins(self.problem, self.x_name, self.y_name, self.x, self.y)[1]

    @property
    def phase(self) -> np.ndarray:
        """The name of the phase at every point."""
        return phase_of(self.level, self.critical)

    @property
    def x_label(self) -> str:
        """The parameter along x as figures write it."""
        return SYMBOLS[self.x_name]

    @property
    def y_label(self) -> str:
        """The parameter along y as figures write it."""
        return SYMBOLS[self.y_name]

    def table(self) -> Table:
        """For each phase the number of its points, and the range of the oracle's risk there."""
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
            rows.append((name, risk.size, *((risk.min(), risk.max()) if risk.size else (None, None))))
        risks = (Column(name, digits=4, one_quantity=False) for name in ("oracle's lowest risk", "highest"))
        return Table(
            ("phase", "points", *risks), rows, title=f"Phases over {', '.join(parts)}; risks at d = {self.problem.dim}"
        )

    def finer(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """`x`, `y`, `level` and `critical` on a finer grid, which takes no quadrature as the risk does.

        Example:
            >>> from limitlaw import slr
            >>> problem = slr.Problem(dim=20, tokens=5)
            >>> diagram = slr.phase_diagram(problem, "mu", "beta", x_values=[0.2, 0.8], y_values=[0.5, 2.0])
            >>> x, y, level, critical = diagram.finer()
            >>> level.shape == (y.size, x.size), bool(level[0, 0] == diagram.level[0, 0])
            (True, True)
        """
        x, y = (np.linspace(axis[0], axis[-1], _FINE) for axis in (self.x, self.y))
        return x, y, *_margins(self.problem, self.x_name, self.y_name, x, y)

    def to_xarray(self) -> xr.Dataset:
        """`level`, `critical`, `risk` and `phase` with named axes."""
        import xarray as xr

        axes = (self.y_name, self.x_name)
        names = ("level", "critical", "risk", "phase")
        return xr.Dataset(
            {name: (axes, getattr(self, name)) for name in names},
            coords={self.x_name: self.x, self.y_name: self.y},
            attrs={"dim": self.problem.dim},
        )

    def to_pandas(self) -> pd.DataFrame:
        """A row for each point."""
        return self.to_xarray().to_dataframe().reset_index()

    def plot(self, ax: Axes | None = None, *, colorbar: bool = True, **style: object) -> Axes:
        """Plot the risk, the boundaries of the phases, and their names.

        Args:
            ax: The matplotlib axes, by default the current ones.
            colorbar: Whether to add a colour bar.
            **style: Passed to `Axes.pcolormesh`.

        Returns:
            The axes.
        """
        import matplotlib.pyplot as plt

        axes = plt.gca() if ax is None else ax
        look: dict = {"cmap": "cividis", "shading": "gouraud", **style}
        mesh = axes.pcolormesh(self.x, self.y, self.risk, **look)
        x, y, level, critical = self.finer()
        axes.contour(x, y, level, [0.0], colors="white", linewidths=1.5)
        beyond = np.where(level < 0, critical, np.nan)
        if np.nanmin(beyond, initial=np.inf) < 0 < np.nanmax(beyond, initial=-np.inf):
            axes.contour(x, y, beyond, [0.0], colors="white", linewidths=1, linestyles="--")
        axes.set_xlabel(self.x_label)
        axes.set_ylabel(self.y_label)
        if colorbar:
            axes.figure.colorbar(mesh, ax=axes, label=f"oracle's exact risk at d = {self.problem.dim}")
        _label_phases(axes, x, y, phase_of(level, critical))
        return axes


def phase_diagram(
    problem: Problem,
    x: str = "alpha",
    y: str = "gamma",
    *,
    x_values: ArrayLike | None = None,
    y_values: ArrayLike | None = None,
    progress: bool = True,
) -> PhaseDiagram:
    """The phases over two parameters, and the oracle's exact risk at the dimension of the problem.

    Args:
        problem: The problem, which has the other parameters.
        x: The parameter along x, "alpha" or "mu".
        y: The parameter along y, "gamma" or "beta". The pairs are (alpha, gamma), (alpha, beta) and (mu, beta).
        x_values: Values along x, at least 2; by default 19 over a wide range.
        y_values: Values along y, likewise.
        progress: Whether to show a progress bar, on a terminal or in a notebook, after two seconds.

    Returns:
        The diagram, which prints as a table and plots.

    Raises:
        ArgumentError: If there is no diagram over these parameters, or a value is out of its range.

    Example:
        >>> from limitlaw import slr
        >>> problem = slr.Problem(dim=20, tokens=5)
        >>> diagram = slr.phase_diagram(problem, "mu", "beta", x_values=[0.2, 0.8], y_values=[0.5, 2.0])
        >>> diagram.phase.tolist()
        [['frozen', 'retrieval'], ['frozen', 'retrieval']]
    """
    if (x, y) not in _DIAGRAMS:
        pairs = ", ".join(f"({first!r}, {second!r})" for first, second in _DIAGRAMS)
        raise ArgumentError("x", f"x={x!r} with y={y!r} is not a diagram. Use one of {pairs}.")
    along_x, along_y = _axis(problem, "x_values", x, x_values), _axis(problem, "y_values", y, y_values)
    grid = list(_problems(problem, x, y, along_x, along_y))  # refuses bad values before any risk is computed
    risk = []
    with _progress.task("Computing risks", len(grid), show=boolean("progress", progress)) as bar:
        for changed, mu in grid:
            risk.append(changed.risk(mu, 1.0))
            bar.advance()
    return PhaseDiagram(problem, x, y, along_x, along_y, np.array(risk).reshape(along_y.size, along_x.size))


def _axis(problem: Problem, argument: str, name: str, values: ArrayLike | None) -> np.ndarray:
    """The values along an axis of a diagram."""
    if values is None:
        low, high = {
            "alpha": (log(2) / problem.dim, 0.6),
            "gamma": (0.1, 0.95),
            "beta": (0.05, max(2.0, problem.beta)),
            "mu": (-0.2, 1.0),
        }[name]
        return np.linspace(low, high, _POINTS)
    array = finite_array(argument, values, 1)
    if array.size < 2:
        raise ArgumentError(
            argument, f"{argument} has length {array.size}. A diagram needs at least 2 values of {name}."
        )
    if name == "beta" and array.min() <= 0:
        raise ArgumentError(
            argument, f"{argument} holds beta={array.min():g}, which has no phases. Give values of beta above 0."
        )
    return array


def _symbol(name: str) -> str:
    """The Greek letter alone."""
    return next(word for word in SYMBOLS[name].split() if len(word) == 1)


def _label_phases(axes: Axes, x: np.ndarray, y: np.ndarray, phase: np.ndarray) -> None:
    """Label each phase where there is most space, rotate the label if necessary, and skip phases that are too small."""
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
        inside = np.pad(phase == name, 1)  # the frame is a boundary as well
        for angle, width, height in ((0, box.width, box.height), (90, box.height, box.width)):
            cells = int(_MARGIN * height / up) + 1, int(_MARGIN * width / across) + 1
            fits = np.asarray(minimum_filter(inside, cells))[1:-1, 1:-1]
            if fits.any():
                # distance to the boundary of the phase, in widths and heights of the label
                distances: Any = distance_transform_edt(inside, sampling=(up / height, across / width))
                space = distances[1:-1, 1:-1]
                places = np.argwhere(fits & (space >= _SPACIOUS * space[fits].max()))
                middle = np.argwhere(phase == name).mean(axis=0)
                i, j = places[np.abs((places - middle) / phase.shape).sum(axis=1).argmin()]
                text.set(position=(x[j], y[i]), rotation=angle)
                break
        else:
            text.remove()


def _margins(problem: Problem, x_name: str, y_name: str, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`level` and `critical` on a grid."""
    found = [phase_margins(changed, mu) for changed, mu in _problems(problem, x_name, y_name, x, y)]
    level, critical = np.array(found).T.reshape(2, y.size, x.size)
    return level, critical


def _problems(
    problem: Problem, x_name: str, y_name: str, x: np.ndarray, y: np.ndarray
) -> Iterator[tuple[Problem, float]]:
    """Row by row, `problem` with two parameters changed, and the overlap `mu`, 1 unless that is an axis."""
    for along_y in y:
        for along_x in x:
            values = {y_name: float(along_y), x_name: float(along_x)}
            mu = overlap("mu", values.pop("mu", 1.0))
            yield problem.changed(**values), mu

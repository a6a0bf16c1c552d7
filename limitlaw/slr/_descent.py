"""Riemannian gradient descent on the two spheres, which closes on the five overlaps, and its limit, the flow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from .. import _progress
from .._checks import ArgumentError, boolean, one_of, positive_integer
from .._format import Column, Table
from ._arguments import check_recorded, number_of_steps, positive
from ._landscapes import Landscape, landscape
from ._overlaps import NAMES, from_gram, gram
from ._start import as_start
from ._tabular import Tabular

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes

    from ._problem import Problem

_TOLERANCE = 1e-9  # of the overlaps along the flow: it leaves seven digits where it is stiffest
_MOST_ROWS = 11  # of a printed table: every hundredth of a thousand steps


@dataclass(frozen=True, repr=False)
class Descent(Tabular):
    """Overlaps and excess risk along gradient descent, its flow, or its simulation.

    Prints as a table of a few steps. Several starts are a first axis of `overlaps` and `risk`.

    Attributes:
        at: The step or the time of each record.
        overlaps: `mu, nu, eta, zeta, rho` along the last axis.
        risk: The excess risk.
        method: "exact", "mean-field" or "simulation".
        unit: "step" or "time".

    Example:
        >>> import numpy as np
        >>> from limitlaw import slr
        >>> problem = slr.Problem(dim=100, tokens=20)
        >>> run = slr.descent(problem, steps=200, start=[0.3, 0.1, 0, 0, 0], every=50)
        >>> run.at.tolist(), float(run.mu[0]), float(run.nu[0])
        ([0, 50, 100, 150, 200], 0.3, 0.1)
        >>> bool(np.all(np.diff(run.risk) < 0)), bool(run.nu[-1] > 0.9)
        (True, True)
    """

    at: np.ndarray
    overlaps: np.ndarray
    risk: np.ndarray
    method: str
    unit: str

    @property
    def mu(self) -> np.ndarray:
        """`u . u_*`."""
        return self.overlaps[..., 0]

    @property
    def nu(self) -> np.ndarray:
        """`v . v_*`."""
        return self.overlaps[..., 1]

    @property
    def eta(self) -> np.ndarray:
        """`u . v_*`."""
        return self.overlaps[..., 2]

    @property
    def zeta(self) -> np.ndarray:
        """`v . u_*`."""
        return self.overlaps[..., 3]

    @property
    def rho(self) -> np.ndarray:
        """`u . v`."""
        return self.overlaps[..., 4]

    def table(self) -> Table:
        """Some steps, with the overlaps of one start or the spread of the risks of several."""
        rows = np.unique(np.linspace(0, self.at.size - 1, _MOST_ROWS).round().astype(int))
        if self.risk.ndim == 1:
            columns = {"excess risk": self.risk, **dict(zip(NAMES, self.overlaps.T, strict=True))}
            header = [Column("excess risk", digits=4), *(Column(name, decimals=4) for name in NAMES)]
            title = f"Excess risk and overlaps along {self.unit}s, {self.method}"
        else:
            lowest, median, highest = np.quantile(self.risk, [0.0, 0.5, 1.0], axis=0)
            columns = {"lowest": lowest, "median": median, "highest": highest}
            header = [Column(name, digits=4) for name in columns]
            title = f"Excess risk from {len(self.risk)} starts along {self.unit}s, {self.method}"
        return Table(
            [Column(self.unit, digits=4), *header],
            [(self.at[i], *(column[i] for column in columns.values())) for i in rows],
            title=title,
        )

    def to_xarray(self) -> xr.Dataset:
        """`overlap` and `risk` with named axes: `start`, the step or time, and the `name` of the overlap."""
        import xarray as xr

        risk = self.risk.reshape(-1, self.at.size)
        return xr.Dataset(
            {
                "overlap": (("start", self.unit, "name"), self.overlaps.reshape(*risk.shape, 5)),
                "risk": (("start", self.unit), risk),
            },
            coords={self.unit: self.at, "name": list(NAMES)},
            attrs={"method": self.method},
        )

    def to_pandas(self) -> pd.DataFrame:
        """A row for each start and record, with the risk and the five overlaps."""
        import pandas as pd

        starts = self.risk.size // self.at.size
        columns = {"start": np.repeat(np.arange(starts), self.at.size), self.unit: np.tile(self.at, starts)}
        overlaps = dict(zip(NAMES, self.overlaps.reshape(-1, 5).T, strict=True))
        return pd.DataFrame({**columns, "risk": self.risk.ravel(), **overlaps})

    def plot(self, ax: Axes | None = None, *, of: str = "risk", **style: object) -> Axes:
        """Plot the risk or an overlap.

        Args:
            ax: The matplotlib axes, by default the current ones.
            of: "risk", or the name of an overlap.
            **style: Passed to `Axes.plot`.

        Returns:
            The axes.
        """
        import matplotlib.pyplot as plt

        one_of("of", of, ("risk", *NAMES))
        axes = plt.gca() if ax is None else ax
        look: dict = {"label": self.method, **style}
        for line in getattr(self, of).reshape(-1, self.at.size):
            axes.plot(self.at, line, **look)
        axes.set_xlabel(self.unit)
        axes.set_ylabel("excess risk" if of == "risk" else of)
        return axes


def descent(
    problem: Problem,
    steps: int = 2000,
    step_size: float = 0.01,
    start: ArrayLike | None = None,
    *,
    method: str = "exact",
    alpha: float | None = None,
    every: int = 1,
    progress: bool = True,
) -> Descent:
    """Riemannian gradient descent on the population risk, the exact map of the five overlaps.

    Args:
        problem: The problem.
        steps: The number of steps.
        step_size: The length that multiplies the gradient.
        start: Overlaps `(5,)`, or `(starts, 5)` to run several at once; by default a uniform start with seed 0.
        method: "exact" or "mean-field".
        alpha: Replaces `log L / d` in the mean field.
        every: Which steps are recorded; the last one is too.
        progress: Whether to show a progress bar, on a terminal or in a notebook, after two seconds.

    Returns:
        The overlaps and risks.

    Raises:
        ArgumentError: If an argument is out of its range, or the records do not fit into 2 GiB.

    Example:
        >>> from limitlaw import slr
        >>> problem = slr.Problem(dim=100, tokens=20)
        >>> run = slr.descent(problem, steps=1000, start=slr.start(problem, "informed", mu=0.3, nu=0.1))
        >>> bool(run.risk[-1] < 1e-3), bool(run.nu[-1] > 0.99)
        (True, True)
    """
    steps, every = number_of_steps(steps), int(positive_integer("every", every))
    size, show = positive("step_size", step_size), boolean("progress", progress)
    first = as_start(problem, start)
    check_recorded("every", every, -(-steps // every) + 1, first.size // 5, "Record fewer steps.")
    risk_at = landscape(problem, method, alpha)
    with _progress.task("Descending", steps + 1, show=show) as bar:
        at, overlaps, risk = _descend(risk_at, first.reshape(-1, 5), steps, size, every, bar)
    one = first.ndim == 1
    return Descent(at, overlaps[0] if one else overlaps, risk[0] if one else risk, method, "step")


def flow(
    problem: Problem,
    time: float = 20.0,
    start: ArrayLike | None = None,
    *,
    method: str = "exact",
    alpha: float | None = None,
    points: int = 201,
    planar: bool = False,
    progress: bool = True,
) -> Descent:
    """The gradient flow, which descent follows with small steps, by a stiff solver.

    With `method="mean-field"` and `alpha=0.0` this is the paper's four-dimensional flow (there `rho` has no effect),
    and with `planar=True` its two-dimensional one, on `eta = zeta = rho = 0`; for links that are neither odd nor even
    that is a restriction, not a solution.

    Args:
        problem: The problem.
        time: The end of the flow.
        start: As for `descent`.
        method: "exact" or "mean-field".
        alpha: Replaces `log L / d` in the mean field.
        points: Number of equally spaced times, at least 2.
        planar: Whether to keep `eta = zeta = rho = 0`.
        progress: Whether to show a progress bar, on a terminal or in a notebook, after two seconds.

    Returns:
        The overlaps and risks.

    Raises:
        ArgumentError: If an argument is out of its range, or a planar flow does not start in the plane.
        RuntimeError: If the solver cannot follow the flow.

    Example:
        >>> from limitlaw import slr
        >>> problem = slr.Problem(dim=100, tokens=20)
        >>> run = slr.flow(problem, 10.0, [0.1, 0.3, 0, 0, 0], method="mean-field", alpha=0.0, planar=True)
        >>> bool(run.nu[-1] > 0.999)
        True
    """
    end, count = positive("time", time), int(positive_integer("points", points))
    if count < 2:
        raise ArgumentError("points", f"points={points!r} leaves out the start or the end. Use at least 2.")
    first = as_start(problem, start)
    check_recorded("points", count, count, first.size // 5, "Use fewer points.")
    if planar and np.abs(first[..., 2:]).max() > 0:
        raise ArgumentError(
            "planar",
            "planar=True needs a start with eta = zeta = rho = 0. Use slr.start(problem, 'manifold').",
        )
    risk_at, times = landscape(problem, method, alpha), np.linspace(0.0, end, count)
    runs = []
    with _progress.task("Following the flow", first.size // 5, show=boolean("progress", progress)) as bar:
        for one in first.reshape(-1, 5):
            runs.append(_flow(risk_at, one, times, planar=planar))
            bar.advance()
    overlaps, risk = (np.stack(parts).reshape(*first.shape[:-1], *parts[0].shape) for parts in zip(*runs, strict=True))
    return Descent(times, overlaps, risk, method, "time")


def vector_field(
    problem: Problem, mu: ArrayLike, nu: ArrayLike, *, method: str = "exact", alpha: float | None = None
) -> np.ndarray:
    """Velocities of `mu` and `nu` under the gradient flow on the plane `eta = zeta = rho = 0`.

    Args:
        problem: The problem.
        mu: `u . u_*`, a number or an array; both broadcast.
        nu: `v . v_*`.
        method: "exact" or "mean-field".
        alpha: Replaces `log L / d` in the mean field.

    Returns:
        An array with a new last axis of length 2.

    Raises:
        ArgumentError: If the overlaps are impossible or the method is unknown.

    Example:
        >>> from limitlaw import slr
        >>> slr.vector_field(slr.Problem(dim=100, tokens=20), 0.3, 0.8).shape
        (2,)
    """
    overlaps = problem.overlaps(mu, nu)
    flat = overlaps.reshape(-1, 5)
    rates = _velocity(flat, landscape(problem, method, alpha).risk_and_gradient(flat)[1])
    return rates[:, :2].reshape(*overlaps.shape[:-1], 2)


def _descend(
    risk_at: Landscape, start: np.ndarray, steps: int, step_size: float, every: int, bar: _progress.Task
) -> tuple[np.ndarray, ...]:
    """Steps along the projected gradient, each followed by renormalisation.

    Returns the steps that are kept, overlaps `(starts, K, 5)` and risks `(starts, K)`.

    With `G` the Gram matrix of `(u, v, u_*, v_*)` a step is `G <- Delta A G A^T Delta`, where `A` subtracts the
    tangential gradients and `Delta` renormalises.
    """
    state = start
    kept = np.arange(0, steps + 1, every)
    if kept[-1] != steps:
        kept = np.append(kept, steps)
    overlaps, risks = [], []
    remaining = iter(kept)
    following = next(remaining)
    for step in range(steps + 1):
        risk, gradient = risk_at.risk_and_gradient(state)
        if step == following:
            overlaps.append(state)
            risks.append(risk)
            following = next(remaining, -1)
        state = _stepped(state, gradient, step_size)
        bar.advance()
    return kept, np.stack(overlaps, axis=1), np.stack(risks, axis=1)


def _stepped(overlaps: np.ndarray, gradient: np.ndarray, step_size: float) -> np.ndarray:
    mu, nu, eta, zeta, rho = overlaps.T
    by_mu, by_nu, by_eta, by_zeta, by_rho = step_size * gradient.T
    a = np.zeros((len(overlaps), 4, 4))
    # rows: the new u and v before renormalisation, as combinations of u, v, u_*, v_*
    a[:, 0] = np.stack([1 + by_mu * mu + by_eta * eta + by_rho * rho, -by_rho, -by_mu, -by_eta], axis=1)
    a[:, 1] = np.stack([-by_rho, 1 + by_nu * nu + by_zeta * zeta + by_rho * rho, -by_zeta, -by_nu], axis=1)
    a[:, 2, 2] = a[:, 3, 3] = 1.0
    moved = a @ gram(overlaps) @ a.transpose(0, 2, 1)
    length = np.sqrt(np.einsum("nii->ni", moved))
    length[:, 2:] = 1.0
    # rounding may leave a cosine beyond 1, where the links' square roots are not defined
    return np.clip(from_gram(moved / (length[:, :, None] * length[:, None, :])), -1.0, 1.0)


def _velocity(overlaps: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """The gradient flow on the overlaps, `(count, 5)`."""
    mu, nu, eta, zeta, rho = overlaps.T
    by_mu, by_nu, by_eta, by_zeta, by_rho = gradient.T
    return -np.stack(
        [
            by_mu * (1 - mu**2) - by_eta * mu * eta + by_rho * (zeta - rho * mu),
            by_nu * (1 - nu**2) - by_zeta * nu * zeta + by_rho * (eta - rho * nu),
            by_eta * (1 - eta**2) - by_mu * mu * eta + by_rho * (nu - rho * eta),
            by_zeta * (1 - zeta**2) - by_nu * nu * zeta + by_rho * (mu - rho * zeta),
            by_mu * (zeta - mu * rho)
            + by_eta * (nu - eta * rho)
            + by_nu * (eta - nu * rho)
            + by_zeta * (mu - zeta * rho)
            + 2 * by_rho * (1 - rho**2),
        ],
        axis=1,
    )


def _flow(risk_at: Landscape, start: np.ndarray, times: np.ndarray, *, planar: bool) -> tuple[np.ndarray, np.ndarray]:
    """Overlaps `(len(times), 5)` and risks along the gradient flow from one start, by an implicit method, since rates
    reach -300.

    `planar` keeps `eta = zeta = rho = 0`, as the flow itself does for odd and even links.
    """

    def rate(_: float, state: np.ndarray) -> np.ndarray:
        point = np.clip(state, -1.0, 1.0)[None]
        out = _velocity(point, risk_at.risk_and_gradient(point)[1])[0]
        if planar:
            out[2:] = 0.0
        return out

    from scipy.integrate import solve_ivp  # with scipy.optimize: slow to import

    solution = solve_ivp(rate, (0.0, float(times[-1])), start, "LSODA", times, rtol=_TOLERANCE, atol=_TOLERANCE / 10)
    if not solution.success:
        raise RuntimeError(f"The solver stopped at time {solution.t[-1]:.4g}. {solution.message}")
    overlaps = np.clip(solution.y.T, -1.0, 1.0)
    return overlaps, risk_at.risk(overlaps)

"""Riemannian gradient descent on the two spheres, which closes on the five overlaps: the map, the flow, and where they rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _arguments
from ..numerics import root_between
from ._landscape import Landscape
from ._links import Link
from ._mean_field import MeanFieldRisk
from ._overlaps import NAMES, from_gram, gram
from ._shown import Shown, numbers

if TYPE_CHECKING:
    import xarray as xr

_TOLERANCE = 1e-9
_SEARCHED = 4001  # correlations at which the slope of a dual kernel is looked at for a change of sign
_AT_REST = 1e-12
_STEEPEST = 1e4
_MOST_ROWS = 9  # of a table


@dataclass(frozen=True, repr=False)
class Trajectory(Shown):
    """Overlaps and excess risk along a descent; `at` is the step or the time of each. Several starts make a first axis.

    Prints as a table of a few steps, the same in a notebook; draws itself.

    !!! Example

        >>> import numpy as np
        >>> from limitlaw import slr
        >>> run = slr.Problem(dim=100, tokens=20).descent(steps=200, start=[0.3, 0.1, 0, 0, 0], every=50)
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

    def _table(self) -> tuple[str, list[Sequence[str]]]:
        """Some steps, the first and the last among them: overlaps of one start, or how risks of several spread."""
        rows = np.unique(np.linspace(0, self.at.size - 1, _MOST_ROWS).round().astype(int))
        if self.risk.ndim == 1:
            columns = {"risk": self.risk, **dict(zip(NAMES, self.overlaps.T, strict=True))}
            title = f"excess risk and overlaps along {self.unit}s, {self.method}"
        else:
            lowest, median, highest = np.quantile(self.risk, [0.0, 0.5, 1.0], axis=0)
            columns = {"lowest": lowest, "median": median, "highest": highest}
            title = f"excess risk from {len(self.risk)} starts along {self.unit}s, {self.method}"
        shown = [numbers([self.at[i], *(column[i] for column in columns.values())]) for i in rows]
        return title, [(self.unit, *columns), *shown]

    def to_xarray(self) -> xr.Dataset:
        """Labelled: `overlap` and `risk`, along `start` and the step or time."""
        import xarray as xr

        several = self.risk.reshape(-1, self.at.size)
        return xr.Dataset(
            {
                "overlap": (("start", self.unit, "name"), self.overlaps.reshape(*several.shape, 5)),
                "risk": (("start", self.unit), several),
            },
            coords={self.unit: self.at, "name": list(NAMES)},
            attrs={"method": self.method},
        )

    def plot(self, ax: Any = None, *, of: str = "risk", **style: Any) -> Any:
        """Draw the risk, or an overlap by name, on matplotlib axes (the current ones unless given) and return them."""
        import matplotlib.pyplot as plt

        _arguments.one_of("of", of, ("risk", *NAMES))
        axes = plt.gca() if ax is None else ax
        for line in getattr(self, of).reshape(-1, self.at.size):
            axes.plot(self.at, line, **{"label": self.method, **style})
        axes.set_xlabel(self.unit)
        axes.set_ylabel("excess risk" if of == "risk" else of)
        return axes


def descend(
    landscape: Landscape, start: np.ndarray, steps: int, step_size: float, every: int
) -> tuple[np.ndarray, ...]:
    """Steps along the projected gradient, each followed by renormalisation: steps kept, overlaps `(starts, K, 5)`, risks `(starts, K)`.

    With `G` the Gram matrix of `(u, v, u_*, v_*)` a step is `G <- Delta A G A^T Delta`: `A` subtracts the tangential gradients, `Delta`
    renormalises.
    """
    state = start
    kept = np.arange(0, steps + 1, every)
    if kept[-1] != steps:
        kept = np.append(kept, steps)
    overlaps, risks = [], []
    wanted = iter(kept)
    following = next(wanted)
    for step in range(steps + 1):
        risk, gradient = landscape.risk_and_gradient(state)
        if step == following:
            overlaps.append(state)
            risks.append(risk)
            following = next(wanted, -1)
        state = _stepped(state, gradient, step_size)
    return kept, np.stack(overlaps, axis=1), np.stack(risks, axis=1)


def _stepped(overlaps: np.ndarray, gradient: np.ndarray, step_size: float) -> np.ndarray:
    mu, nu, eta, zeta, rho = overlaps.T
    by_mu, by_nu, by_eta, by_zeta, by_rho = step_size * gradient.T
    a = np.zeros((len(overlaps), 4, 4))
    a[:, 0] = np.stack([1 + by_mu * mu + by_eta * eta + by_rho * rho, -by_rho, -by_mu, -by_eta], axis=1)
    a[:, 1] = np.stack([-by_rho, 1 + by_nu * nu + by_zeta * zeta + by_rho * rho, -by_zeta, -by_nu], axis=1)
    a[:, 2, 2] = a[:, 3, 3] = 1.0
    moved = a @ gram(overlaps) @ a.transpose(0, 2, 1)
    length = np.sqrt(np.einsum("nii->ni", moved))
    length[:, 2:] = 1.0
    return np.clip(from_gram(moved / (length[:, :, None] * length[:, None, :])), -1.0, 1.0)


def velocity(overlaps: np.ndarray, gradient: np.ndarray) -> np.ndarray:
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


def flow(landscape: Landscape, start: np.ndarray, times: np.ndarray, *, planar: bool) -> tuple[np.ndarray, np.ndarray]:
    """Overlaps `(len(times), 5)` and risks along the gradient flow from one start, by an implicit method: rates reach -300.

    `planar` keeps `eta = zeta = rho = 0`, which the flow does by itself for odd and even links.
    """

    def rate(_: float, state: np.ndarray) -> np.ndarray:
        point = np.clip(state, -1.0, 1.0)[None]
        out = velocity(point, landscape.risk_and_gradient(point)[1])[0]
        if planar:
            out[2:] = 0.0
        return out

    from scipy.integrate import solve_ivp  # with scipy.optimize: slow to import

    solution = solve_ivp(rate, (0.0, float(times[-1])), start, "LSODA", times, rtol=_TOLERANCE, atol=_TOLERANCE / 10)
    if not solution.success:
        raise RuntimeError(f"the flow could not be followed beyond time {solution.t[-1]:.4g}: {solution.message}")
    overlaps = np.clip(solution.y.T, -1.0, 1.0)
    return overlaps, landscape.risk(overlaps)


@dataclass(frozen=True)
class StationaryPoint:
    """A point of the plane `eta = zeta = rho = 0` where the mean-field flow rests.

    `eigenvalues` are those of the flow in the plane, along `mu` and `nu`, and decide its `kind`; `transverse` those along `eta` and `zeta`, None
    where the flow leaves the plane.

    !!! Example

        >>> from limitlaw import slr
        >>> oracle = slr.Problem(dim=100, tokens=20, gamma=0.5).stationary_points()[-1]
        >>> oracle.mu, oracle.nu, oracle.kind, round(oracle.eigenvalues[1], 9)  # along nu it is -4 gamma^2
        (1.0, 1.0, 'sink', -1.0)
    """

    mu: float
    nu: float
    kind: str
    eigenvalues: tuple[float, float]
    transverse: tuple[float, float] | None

    def __str__(self) -> str:
        return f"(mu, nu) = ({self.mu:.6g}, {self.nu:.6g}): {self.kind}, eigenvalues {self.eigenvalues[0]:.3g} and {self.eigenvalues[1]:.3g}"


def stationary_points(landscape: MeanFieldRisk, link: Link, gamma: float) -> list[StationaryPoint]:
    """Where `mu' = -A B (1 - mu^2)`, `nu' = 2 p k'(nu) (1 - nu^2)` vanish, `k` the link's dual kernel, `B = 2 (p k(1) - k(nu))`, `A = dp/dmu`."""
    found = []
    for nu in (-1.0, *_zeros_of_slope(link, gamma), 1.0):
        here, full = (float(link.kernel(gamma, np.array([x]))[0][0]) for x in (nu, 1.0))
        places = [-1.0, 1.0]
        level = here / full
        if 0 < level < 1:
            crossing = landscape.inverse_logit(float(np.log(level / (1 - level))))
            if -1 < crossing < 1:
                places.insert(1, crossing)
        found += [_classified(landscape, link, gamma, mu, nu, here, full) for mu in places]
    return found


def _zeros_of_slope(link: Link, gamma: float) -> list[float]:
    """Correlations inside (-1, 1) where the dual kernel is flat."""

    def slope(nu: float) -> float:
        return float(link.kernel(gamma, np.array([nu]))[1][0])

    nu = np.linspace(-1 + 1e-6, 1 - 1e-6, _SEARCHED)
    values = link.kernel(gamma, nu)[1]
    changes = np.flatnonzero(values[:-1] * values[1:] < 0)
    crossings = [root_between(slope, float(nu[i]), float(nu[i + 1])) for i in changes]
    touching = nu[np.abs(values) <= _AT_REST * np.abs(values).max()] if values.any() else []
    return sorted({round(float(x), 12) + 0.0 for x in (*crossings, *touching)})  # + 0.0: no minus zero


def _classified(
    landscape: MeanFieldRisk, link: Link, gamma: float, mu: float, nu: float, here: float, full: float
) -> StationaryPoint:
    p, missed, rate = landscape.probabilities(mu)
    # p k(1) - k(nu) without the difference where p is nearly 1
    imbalance = 2 * (p * (full - here) - missed * here)
    along_mu = 2 * mu * rate * imbalance if abs(mu) == 1 else -2 * rate**2 * full * (1 - mu**2)
    slope, curvature = _slopes(link, gamma, nu)
    along_nu = -4 * nu * p * slope if abs(nu) == 1 else 2 * p * curvature * (1 - nu**2)
    transverse = None
    if link.parity:
        point = np.array([mu, nu, 0.0, 0.0, 0.0])
        step = 1e-4
        ends = [landscape.risk_and_gradient((point + d * np.eye(5)[3] * step)[None])[1][0, 3] for d in (-1.0, 1.0)]
        transverse = mu * rate * imbalance, float(-2 * p * slope * nu - (ends[1] - ends[0]) / (2 * step))
    return StationaryPoint(mu, nu, _kind(along_mu, along_nu, 2 * p * full), (along_mu, along_nu), transverse)


def _slopes(link: Link, gamma: float, nu: float) -> tuple[float, float]:
    """First and second derivative of the dual kernel."""
    step = 1e-5
    inside = min(max(nu, -1 + 2 * step), 1 - 2 * step)
    near = link.kernel(gamma, np.array([inside - step, inside + step, nu]))[1]
    # a jump makes the kernel steeper than any number where two Gaussians are equal
    slope = float(near[2]) if abs(near[2]) <= _STEEPEST * abs(near[1]) else float(np.copysign(np.inf, near[2]))
    return slope, float(near[1] - near[0]) / (2 * step)


def _kind(along_mu: float, along_nu: float, scale: float) -> str:
    if along_mu == 0 or abs(along_nu) <= 1e-7 * scale:
        return "degenerate"
    if (along_mu > 0) != (along_nu > 0):
        return "saddle"
    return "source" if along_mu > 0 else "sink"

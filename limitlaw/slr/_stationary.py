"""Stationary points of the mean-field flow in the plane `eta = zeta = rho = 0`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._checks import ArgumentError
from ._landscapes import MeanFieldRisk, mean_field_risk
from ._links import Link

if TYPE_CHECKING:
    from ._problem import Problem

_SEARCHED = 4001  # correlations, 5e-4 apart: zeros of a dual kernel's slope that are closer together are missed
_AT_REST = 1e-12  # of the largest slope: the kernel is flat to rounding
_STEEPEST = 1e4  # times the slope nearby: a kernel that is this much steeper at an end has an infinite slope there
_FLAT = 1e-7  # of the scale of the flow: differences of slopes are not more accurate


@dataclass(frozen=True)
class StationaryPoint:
    """A stationary point of the mean-field flow in the plane `eta = zeta = rho = 0`.

    Attributes:
        mu: `u . u_*`.
        nu: `v . v_*`.
        kind: "sink", "source", "saddle" or "degenerate", by the eigenvalues in the plane.
        eigenvalues: Those of the flow in the plane, along `mu` and `nu`.
        transverse: Those along `eta` and `zeta`, None where the flow leaves the plane.

    Example:
        >>> from limitlaw import slr
        >>> oracle = slr.stationary_points(slr.Problem(dim=100, tokens=20, gamma=0.5))[-1]
        >>> oracle.mu, oracle.nu, oracle.kind, round(oracle.eigenvalues[1], 9)  # along nu it is -4 gamma^2
        (1.0, 1.0, 'sink', -1.0)
    """

    mu: float
    nu: float
    kind: str
    eigenvalues: tuple[float, float]
    transverse: tuple[float, float] | None

    def __str__(self) -> str:
        along_mu, along_nu = self.eigenvalues
        return f"(mu, nu) = ({self.mu:.6g}, {self.nu:.6g}): {self.kind}, eigenvalues {along_mu:.3g} and {along_nu:.3g}"


def stationary_points(problem: Problem, *, alpha: float | None = 0.0) -> list[StationaryPoint]:
    """Find the stationary points of the mean-field flow on `eta = zeta = rho = 0` (the paper's Propositions 4 and 10).

    With the link's dual kernel `k`, `B = 2 (p k(1) - k(nu))` and `A = dp/dmu` the flow is

        mu' = -A B (1 - mu^2),   nu' = 2 p k'(nu) (1 - nu^2).

    Args:
        problem: The problem.
        alpha: `log L / d`, by default 0, the paper's sub-exponential limit; None for that of the problem.

    Returns:
        The points with their kinds, by increasing `nu` and then `mu`.

    Raises:
        ArgumentError: If every value of `mu` is stationary, or the link vanishes.

    Example:
        >>> from limitlaw import slr
        >>> for point in slr.stationary_points(slr.Problem(dim=100, tokens=20)):
        ...     print((point.mu, point.nu), point.kind)
        (-1.0, -1.0) saddle
        (1.0, -1.0) source
        (-1.0, 1.0) saddle
        (1.0, 1.0) sink
    """
    link, gamma = problem.link, problem.gamma
    if not link.kernel(gamma, np.ones(1))[0][0]:
        raise ArgumentError("link", f"link={link} is 0 on average, so there is nothing to learn. Use another link.")
    if not problem.signal:
        raise ArgumentError(
            "signal", "signal=0 makes every value of mu stationary. Use gamma below 1, or give a signal."
        )
    risk_at = mean_field_risk(problem, alpha)
    found = []
    for nu in (-1.0, *_zeros_of_slope(link, gamma), 1.0):
        here, full = (float(link.kernel(gamma, np.array([x]))[0][0]) for x in (nu, 1.0))
        places = [-1.0, 1.0]
        # mu also rests where p = k(nu) / k(1)
        level = here / full
        if 0 < level < 1:
            crossing = risk_at.inverse_logit(float(np.log(level / (1 - level))))
            if -1 < crossing < 1:
                places.insert(1, crossing)
        found += [_classified(risk_at, link, gamma, mu, nu, here, full) for mu in places]
    return found


def _zeros_of_slope(link: Link, gamma: float) -> list[float]:
    """Correlations inside (-1, 1) where the dual kernel is flat."""
    from scipy.optimize.elementwise import find_root  # slow to import

    nu = np.linspace(-1 + 1e-6, 1 - 1e-6, _SEARCHED)
    values = link.kernel(gamma, nu)[1]
    changes = np.flatnonzero(values[:-1] * values[1:] < 0)
    crossings = find_root(lambda x: link.kernel(gamma, x)[1], (nu[changes], nu[changes + 1])).x if changes.size else []
    touching = nu[np.abs(values) <= _AT_REST * np.abs(values).max()] if values.any() else []
    return sorted({round(float(x), 12) + 0.0 for x in (*crossings, *touching)})  # + 0.0: no minus zero


def _classified(
    risk_at: MeanFieldRisk, link: Link, gamma: float, mu: float, nu: float, here: float, full: float
) -> StationaryPoint:
    p, missed, rate = risk_at.probabilities(mu)
    # p k(1) - k(nu) without the difference where p is nearly 1
    imbalance = 2 * (p * (full - here) - missed * here)
    along_mu = 2 * mu * rate * imbalance if abs(mu) == 1 else -2 * rate**2 * full * (1 - mu**2)
    slope, curvature = _slopes(link, gamma, nu)
    along_nu = -4 * nu * p * slope if abs(nu) == 1 else 2 * p * curvature * (1 - nu**2)
    transverse = None
    if link.parity:
        point = np.array([mu, nu, 0.0, 0.0, 0.0])
        step = 1e-4
        ends = [risk_at.risk_and_gradient((point + d * np.eye(5)[3] * step)[None])[1][0, 3] for d in (-1.0, 1.0)]
        transverse = mu * rate * imbalance, float(-2 * p * slope * nu - (ends[1] - ends[0]) / (2 * step))
    return StationaryPoint(mu, nu, _kind(along_mu, along_nu, 2 * p * full), (along_mu, along_nu), transverse)


def _slopes(link: Link, gamma: float, nu: float) -> tuple[float, float]:
    """First and second derivative of the dual kernel."""
    step = 1e-5  # balances rounding (1e-16 / step) with curvature (step^2)
    inside = min(max(nu, -1 + 2 * step), 1 - 2 * step)
    near = link.kernel(gamma, np.array([inside - step, inside + step, nu]))[1]
    # a jump makes the kernel steeper than any number where two Gaussians are equal
    slope = float(near[2]) if abs(near[2]) <= _STEEPEST * abs(near[1]) else float(np.copysign(np.inf, near[2]))
    return slope, float(near[1] - near[0]) / (2 * step)


def _kind(along_mu: float, along_nu: float, scale: float) -> str:
    if along_mu == 0 or abs(along_nu) <= _FLAT * scale:
        return "degenerate"
    if (along_mu > 0) != (along_nu > 0):
        return "saddle"
    return "source" if along_mu > 0 else "sink"

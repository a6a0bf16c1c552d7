"""The difference `P(x) - Q(x)` of two cdfs, from which several distances are computed."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import elementwise

from ..laws import Law
from ..laws.quadrature import panels
from ..numerics import Estimate
from ._jackknife import jackknife_of_two


def cdf_gap(p: Law, q: Law, x: np.ndarray) -> np.ndarray:
    """`P(x) - Q(x)`, computed from the smaller tails for relative accuracy far out."""
    below = x <= p.median()
    gap = np.empty(x.size)
    gap[below] = p.cdf(x[below]) - q.cdf(x[below])
    gap[~below] = q.ccdf(x[~below]) - p.ccdf(x[~below])
    return gap


def cdf_shifts(law: Law, x: np.ndarray) -> np.ndarray:
    """The change of the cdf at `x` when each batch is left out, `(B, len(x))`; no rows for an exact law."""
    rows = law.leave_one_batch_out("cdf", x)
    return rows - law.cdf(x) if len(rows) else rows


def estimate_from_gap(
    value: Callable[[np.ndarray], float], gap: np.ndarray, p_shifts: np.ndarray, q_shifts: np.ndarray
) -> Estimate:
    """A function of the difference of two cdfs, with its error from the `cdf_shifts` of both."""
    nothing = np.zeros(gap.size)
    return jackknife_of_two(lambda of_p, of_q: value(gap + of_p - of_q), (nothing, p_shifts), (nothing, q_shifts))


def crossings(p: Law, q: Law) -> np.ndarray:
    """The points at which the densities cross, which are the extrema of the difference of the cdfs."""
    x, _ = panels(p, q)
    return roots_between(lambda x: p.pdf(x) - q.pdf(x), x)


def roots_between(f: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """The zeros of `f` between neighbouring points with different signs; the middle point if there are none."""
    values = f(x)
    changes = np.flatnonzero(np.sign(values[:-1]) * np.sign(values[1:]) < 0)
    if not changes.size:
        return x[[x.size // 2]]
    # Distances are stationary in these points, or only split their panels there, so this tolerance has no effect on the
    # result.
    tolerances = {"xatol": 1e-12 * (x[-1] - x[0]), "xrtol": 0.0, "fatol": 0.0, "frtol": 0.0}
    return elementwise.find_root(f, (x[changes], x[changes + 1]), tolerances=tolerances).x

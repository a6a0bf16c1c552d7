"""Energy distance."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.interpolate import CubicHermiteSpline

from ..laws import Empirical, Law
from ..laws.normal_scores import quantiles_of_normal
from ..laws.quadrature import gauss_panels, panels
from ..numerics import Estimate, jackknife
from ._cdf_gap import cdf_gap, cdf_shifts, estimate_from_gap
from ._distance import Distance, Measured
from ._jackknife import jackknife_of_samples, without_each_batch
from ._root_of_squares import length_of, root_of_square

# Knots in the normal score, between which `E|x - Y|` is interpolated by cubics. The mass beyond 9 is 1e-19.
_KNOTS = np.linspace(-9.0, 9.0, 181)


class EnergyDistance(Distance):
    """`sqrt(2 int (P(x) - Q(x))^2 dx)` of the cdfs."""

    name = "energy"
    label = "energy"
    long_label = "energy distance"

    def of_laws(self, p: Law, q: Law) -> Measured:
        """By quadrature over the difference of the cdfs."""
        x, weights = panels(p, q)
        gap, scale = cdf_gap(p, q, x), np.sqrt(2 * weights)
        shifts = [cdf_shifts(law, x) for law in (p, q)]
        squared = estimate_from_gap(lambda gap: 2 * float(weights @ gap**2), gap, *shifts)
        return Measured.by_error(length_of(scale * gap, squared, *(scale * rows for rows in shifts)))

    def of_samples(self, p: Law, q: Law, method: str | None) -> Measured:
        """The root of an unbiased (U-) statistic of its square, `2 E|X - Y| - E|X - X'| - E|Y - Y'|`."""
        del method
        if isinstance(p, Empirical) and isinstance(q, Empirical):
            squared = jackknife_of_samples(
                lambda x, y: 2 * mean_distance(x, y) - mean_gap(x) - mean_gap(y), p, q, corrected=True
            )
        else:
            samples, law = (p, q) if isinstance(p, Empirical) else (q, p)
            assert isinstance(samples, Empirical)
            squared = _squared_to_law(samples, law)
        return Measured.by_error(root_of_square(squared))


ENERGY = EnergyDistance()


def energy(p: Any, q: Any, /) -> Estimate:
    """Energy distance, `sqrt(2 int (P(x) - Q(x))^2 dx)` of the cdfs, as in `scipy.stats.energy_distance`.

    Samples enter by unbiased (U-) statistics of its square, `2 E|X - Y| - E|X - X'| - E|Y - Y'|`. A value that the
    draws do not resolve comes with a `ResolutionWarning`.

    Args:
        p: A law, an array of samples, or a frozen distribution of `scipy.stats`.
        q: Another one.

    Returns:
        The distance, in the unit of the root of the variable.

    Raises:
        ArgumentError: If an argument is not a law of one variable.

    Example:
        >>> import limitlaw as ll
        >>> print(f"{ll.energy(ll.laws.Gaussian(variance=1.0), ll.laws.Gaussian(variance=4.0)):.9f}")
        0.427914397
    """
    return ENERGY(p, q)


def mean_gap(ordered: np.ndarray) -> float:
    """The average of `|x_i - x_j|` over pairs, from the sorted sample."""
    # The i-th smallest of n samples is the larger one in i pairs and the smaller one in n - 1 - i.
    n = ordered.size
    return 2 * float((2 * np.arange(n) - n + 1) @ ordered) / (n * (n - 1))


def mean_distance(x: np.ndarray, y: np.ndarray) -> float:
    """The average of `|x_i - y_j|`, from the sorted samples."""
    # Sums of the samples y below and above x follow from cumulative sums, so no matrix of pairs is needed.
    total = np.concatenate([[0.0], np.cumsum(y)])
    below = np.searchsorted(y, x)
    return float(np.mean(x * (2 * below - y.size) + total[-1] - 2 * total[below])) / y.size


def distance_to(law: Law) -> tuple[Callable[[np.ndarray], np.ndarray], float]:
    """`E|x - Y|` as a function of `x`, and `E|Y - Y'|`, for independent `Y` and `Y'` with the law."""
    knots = quantiles_of_normal(law, _KNOTS)
    x, weights = gauss_panels(knots)
    tail = law.ccdf(x)
    areas = (weights * tail).reshape(knots.size - 1, -1).sum(axis=1)
    beyond = np.append(np.cumsum(areas[::-1])[::-1], 0.0)  # int ccdf from each knot on
    # E|x - Y| = x - E Y + 2 int_x^inf ccdf, whose derivative 1 - 2 ccdf is known too. Hermite cubics match both at
    # knots.
    spline = CubicHermiteSpline(knots, knots - float(law.mean()) + 2 * beyond, 1 - 2 * law.ccdf(knots))

    # Beyond the outermost knots, where the law has no mass, E|x - Y| has slope 1.
    def distance(points: np.ndarray) -> np.ndarray:
        inside = np.clip(points, knots[0], knots[-1])
        return spline(inside) + np.abs(points - inside)

    return distance, 2 * float(weights @ (tail * (1 - tail)))


def _squared_to_law(samples: Empirical, law: Law) -> Estimate:
    to_law, own = distance_to(law)
    distances = to_law(samples.ordered)

    def value(kept: np.ndarray) -> float:
        return 2 * float(distances[kept].mean()) - mean_gap(samples.ordered[kept]) - own

    whole = value(np.ones(samples.ordered.size, bool))
    x, weights = panels(law)
    gap, moved = samples.cdf(x) - law.cdf(x), law.leave_one_batch_out("cdf", x) - law.cdf(x)
    # The square depends on the law through 2 int (P - Q)^2, which changes by the same amount as its unbiased estimate
    # when a batch of the law is left out.
    by_law = whole + 2 * ((gap - moved) ** 2 - gap**2) @ weights
    return jackknife(whole, without_each_batch(samples, value), by_law)

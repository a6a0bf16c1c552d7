"""Kolmogorov-Smirnov distance."""

from typing import Any

import numpy as np

from ..laws import Empirical, Law
from ..laws.normal_scores import cdf_by_spline
from ..numerics import Estimate
from ._cdf_gap import cdf_gap, cdf_shifts, crossings, estimate_from_gap
from ._distance import Distance, Measured

# The 95 % point of the Kolmogorov law, the limit of sqrt(N) times the statistic for equal laws.
_CRITICAL = 1.358


class KolmogorovSmirnov(Distance):
    """`sup_x |P(x) - Q(x)|` of the cdfs."""

    name = "ks"
    label = "KS"
    long_label = "Kolmogorov distance"

    def of_laws(self, p: Law, q: Law) -> Measured:
        """At the crossing of the densities with the largest difference of the cdfs."""
        # The supremum is stationary in its point, so the error is that of the difference at a fixed point.
        x = crossings(p, q)
        gap = cdf_gap(p, q, x)
        at = int(np.argmax(np.abs(gap)))
        sign = float(np.sign(gap[at]))
        shifts = (cdf_shifts(law, x[[at]]) for law in (p, q))
        return Measured.by_error(estimate_from_gap(lambda gap: sign * float(gap[0]), gap[[at]], *shifts))

    def of_samples(self, p: Law, q: Law, method: str | None) -> Measured:
        """The Kolmogorov-Smirnov statistic, which resolves distances above its critical value."""
        del method
        samples = [law for law in (p, q) if isinstance(law, Empirical)]
        points = np.concatenate([law.ordered for law in samples])
        # The supremum is reached at a step of an empirical cdf, or just before it.
        points = np.unique(np.concatenate([points, np.nextafter(points, -np.inf)]))
        gap = _cdf(p, points) - _cdf(q, points)
        at = int(np.argmax(np.abs(gap)))
        here, value = points[[at]], abs(float(gap[at]))
        variance = 0.0
        for law in (p, q):
            if isinstance(law, Empirical):
                # The binomial variance. Laplace's correction keeps it above 0 if all samples lie on one side.
                share = (law.samples.size * float(law.cdf(here)[0]) + 1) / (law.samples.size + 2)
                variance += share * (1 - share) / law.samples.size
            else:
                variance += float(law.error("cdf", here)[0]) ** 2
        critical = _CRITICAL * float(np.sqrt(sum(1 / law.samples.size for law in samples)))
        return Measured(Estimate(value, float(np.sqrt(variance))), critical)


KS = KolmogorovSmirnov()


def ks(p: Any, q: Any, /) -> Estimate:
    """Kolmogorov-Smirnov distance, `sup_x |P(x) - Q(x)|` of the cdfs.

    For samples it is the Kolmogorov-Smirnov statistic, which is about `0.9 / sqrt(N)` even where the laws are equal. A
    value below the 95 % point `1.36 / sqrt(N)` comes with a `ResolutionWarning`.

    Args:
        p: A law, an array of samples, or a frozen distribution of `scipy.stats`.
        q: Another one.

    Returns:
        The distance, between 0 and 1.

    Raises:
        ArgumentError: If an argument is not a law of one variable.

    Example:
        >>> import limitlaw as ll
        >>> print(f"{ll.ks(ll.laws.Gaussian(mean=0.0), ll.laws.Gaussian(mean=1.0)):.12f}")  # at 1/2: 2 Phi(1/2) - 1
        0.382924922548
    """
    return KS(p, q)


def _cdf(law: Law, x: np.ndarray) -> np.ndarray:
    """The cdf at many points, by a spline for laws because each value of the cdf of a mixture costs a sum."""
    return law.cdf(x) if isinstance(law, Empirical) else cdf_by_spline(law, x)

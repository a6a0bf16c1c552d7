"""Total variation."""

from typing import Any

import numpy as np

from ..laws import Law
from ..numerics import Estimate
from ._cdf_gap import cdf_gap, cdf_shifts, crossings, estimate_from_gap
from ._distance import Distance, Measured
from ._kernel_grid import on_kernel_grid


class TotalVariation(Distance):
    """`sup_A |P(A) - Q(A)| = (1/2) int |f - g|`."""

    name = "tv"
    label = "TV"
    long_label = "total variation"
    methods = ("kde",)

    def of_laws(self, p: Law, q: Law) -> Measured:
        """Half the variation of the difference of the cdfs, whose extrema are the crossings of the densities."""
        x = crossings(p, q)
        gap = cdf_gap(p, q, x)
        directions = np.sign(np.diff(gap, prepend=0.0, append=0.0))

        def value(gap: np.ndarray) -> float:
            return 0.5 * float(directions @ np.diff(gap, prepend=0.0, append=0.0))

        return Measured.by_error(estimate_from_gap(value, gap, cdf_shifts(p, x), cdf_shifts(q, x)))

    def of_samples(self, p: Law, q: Law, method: str | None) -> Measured:
        """The total variation of kernel estimates of the densities."""
        del method
        return Measured.by_error(on_kernel_grid(p, q, lambda f, g: 0.5 * np.abs(f - g)))


TV = TotalVariation()


def tv(p: Any, q: Any, /, *, method: str | None = None) -> Estimate:
    """Total variation, `sup_A |P(A) - Q(A)| = (1/2) int |f - g|`, from the cdfs at the crossings of the densities.

    A value that the draws do not resolve comes with a `ResolutionWarning`.

    Args:
        p: A law, an array of samples, or a frozen distribution of `scipy.stats`.
        q: Another one.
        method: "kde" if `p` or `q` are samples, for the total variation of kernel estimates. Leave it out for two
            laws.

    Returns:
        The distance, between 0 and 1.

    Raises:
        ArgumentError: If an argument is not a law of one variable, or samples come without a method.

    Example:
        >>> import limitlaw as ll
        >>> print(f"{ll.tv(ll.laws.Gaussian(mean=0.0), ll.laws.Gaussian(mean=1.0)):.12f}")  # 2 Phi(1/2) - 1
        0.382924922548
    """
    return TV(p, q, method=method)

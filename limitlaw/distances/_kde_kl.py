"""The estimator of the attention paper, exactly as published, so that its resolution can be measured."""

from typing import Any

import numpy as np
from scipy.special import rel_entr

from .. import _checks
from .._checks import ArgumentError, ArgumentTypeError
from ..laws import Law
from ..laws.samples import checked_samples
from ..numerics import Estimate
from ..numerics.density import kernel_density_on_grid, kernel_sums, scott_bandwidth

# Knots per grid point, between which kernel sums are interpolated linearly.
_KNOTS = 4


def kde_kl(p: Any, q: Any, /, *, points: int = 500, floor: float = 1e-12) -> Estimate:
    """The attention paper's estimate of `KL(p || q)` from two samples (Sakai, Karakida, Imaizumi 2025, section 5).

    Two Gaussian kernel estimates with Scott's bandwidth are evaluated on a grid over the range of both samples. Then
    `floor` is added, both are normalised to sum 1, and the relative entropy is computed. Two samples of size 50,000
    from the *same* law give about 5e-4, and if the tails differ the value depends on `floor`. For an accurate value use
    `kl` of laws.

    Args:
        p: Samples.
        q: Other samples.
        points: The number of grid points.
        floor: The number that is added to both densities.

    Returns:
        The estimate. Its standard error is that of the estimator over samples of this size (to first order, bandwidths
        held), not its distance from the truth.

    Raises:
        ArgumentError: If `p` or `q` are not samples that vary, or `points` is less than 2.

    Example:
        >>> import numpy as np, limitlaw as ll
        >>> rng = np.random.default_rng(0)
        >>> same = ll.kde_kl(rng.normal(size=50_000), rng.normal(size=50_000))
        >>> bool(2e-4 < same < 1.2e-3)  # the true divergence is 0
        True
    """
    points = int(_checks.positive_integer("points", points))
    if points < 2:
        raise ArgumentError("points", f"points={points} must be at least 2. The paper uses 500.")
    for name, value in (("p", p), ("q", q)):
        if isinstance(value, Law):
            raise ArgumentTypeError(
                name, f"{name} is a law, but kde_kl compares samples. Pass {name}.sample(50_000), or use kl for laws."
            )
    floor = _checks.non_negative("floor", floor)
    samples = [checked_samples(name, value) for name, value in (("p", p), ("q", q))]
    for name, sample in zip("pq", samples, strict=True):
        if not np.ptp(sample):
            raise ArgumentError(
                name, f"{name} has only equal samples, which have no kernel estimate. Pass samples that vary."
            )
    low, high = float(min(s.min() for s in samples)), float(max(s.max() for s in samples))
    widths = [scott_bandwidth(sample) for sample in samples]
    first, second = (
        kernel_density_on_grid(sample, low, high, points, width) + floor
        for sample, width in zip(samples, widths, strict=True)
    )
    P, Q = first / first.sum(), second / second.sum()
    value = float(rel_entr(P, Q).sum())  # scipy.stats.entropy(P, Q)
    if not np.isfinite(value):
        return Estimate(value)
    # The influence function: the first-order change of the estimate by one more sample, through its kernel on the grid.
    slopes = (np.log(P / Q) - value) / first.sum(), (1 - P / Q) / second.sum()
    variance = sum(
        _influence(sample, low, high, width, slope).var(ddof=1) / sample.size
        for sample, width, slope in zip(samples, widths, slopes, strict=True)
    )
    return Estimate(value, float(np.sqrt(variance)))


def _influence(samples: np.ndarray, low: float, high: float, bandwidth: float, slope: np.ndarray) -> np.ndarray:
    """`sum_j slope_j k((grid_j - x) / h) / h` at the samples, interpolated between knots."""
    knots = np.linspace(low, high, _KNOTS * (slope.size - 1) + 1)
    spread = np.zeros(knots.size)
    spread[::_KNOTS] = slope
    at_knots = kernel_sums(spread, knots[1] - knots[0], bandwidth)
    return np.interp(samples, knots, at_knots / (bandwidth * np.sqrt(2 * np.pi)))

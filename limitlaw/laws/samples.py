"""Checks and nearest-neighbour estimates for samples of one variable."""

from typing import Any

import numpy as np
from scipy.special import digamma

from .._checks import ArgumentError, ArgumentTypeError

NEIGHBOURS = 5  # neighbours in nearest-neighbour estimates: fewer give more noise, more give more bias


def checked_samples(name: str, samples: Any) -> np.ndarray:
    """Samples of a real variable as a one-dimensional float64 array of at least two finite numbers.

    Args:
        name: The name of the argument, for the error.
        samples: The argument.

    Returns:
        A copy.

    Raises:
        ArgumentError: If there are fewer than two samples, or one is NaN or infinite.
    """
    try:
        array = np.array(samples, np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(name, f"{name}={samples!r} must be a law or an array of real numbers.") from None
    if array.ndim != 1:
        raise ArgumentError(
            name,
            f"{name} has shape {array.shape}, but samples of a real variable are one-dimensional. "
            f"Pass one column at a time.",
        )
    if array.size < 2:
        raise ArgumentError(name, f"{name} has {array.size} entries. Give at least two samples.")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise ArgumentError(
            name,
            f"{name}[{bad[0]}]={array[bad[0]]} must be finite ({bad.size:,} of {array.size:,} samples are not). "
            f"Remove these samples, or find their cause.",
        )
    return array


def neighbour_entropy(ordered: np.ndarray) -> float:
    """The estimate of differential entropy by Kozachenko and Leonenko, from sorted samples."""
    # Every point is its own nearest neighbour.
    radius = checked_distances(neighbour_distances(ordered, ordered, NEIGHBOURS + 1))
    return float(np.mean(np.log(2 * ordered.size * radius)) - digamma(NEIGHBOURS))


def checked_distances(radius: np.ndarray) -> np.ndarray:
    """Distances to neighbours, refused if one is 0."""
    if not radius.min() > 0:
        raise ArgumentError(
            "samples",
            f"samples has {NEIGHBOURS} or more equal entries, so nearest neighbours have the distance 0 and give no "
            f"density. Use method='kde', or ks, wasserstein or energy.",
        )
    return radius


def neighbour_distances(points: np.ndarray, ordered: np.ndarray, k: int) -> np.ndarray:
    """The distance from each point to its `k`-th nearest neighbour in the sorted array."""
    start = np.searchsorted(ordered, points)
    best = np.full(points.size, np.inf)
    # The k nearest are adjacent in the sorted array, i to the left of the point and k - i to the right. The i with the
    # least reach is right.
    for i in range(k + 1):
        left, right = start - i, start + (k - i) - 1
        inside = (left >= 0) & (right < ordered.size)
        low = ordered[np.clip(left, 0, ordered.size - 1)]
        high = ordered[np.clip(right, 0, ordered.size - 1)]
        reach = np.maximum(np.where(i > 0, points - low, 0.0), np.where(i < k, high - points, 0.0))
        best = np.where(inside, np.minimum(best, reach), best)
    return best

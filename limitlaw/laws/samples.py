"""Functions of samples of one variable: checks, and nearest neighbours."""

from typing import Any

import numpy as np
from scipy.special import digamma

from .._checks import ArgumentError, ArgumentTypeError

NEIGHBOURS = 5  # of the nearest-neighbour estimates: fewer are noisier, more are more biased


def checked_samples(name: str, samples: Any) -> np.ndarray:
    """Samples of a real variable as a float64 array of one dimension: at least two, all of them finite.

    Args:
        name: The name of the argument, for the error.
        samples: What was given.

    Returns:
        A copy.

    Raises:
        ArgumentError: If there are fewer than two, or if one is NaN or infinite.
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
            f"{name}[{bad[0]}]={array[bad[0]]} is not finite, like {bad.size:,} of {array.size:,} samples in all. "
            f"Drop these, or find out where they come from.",
        )
    return array


def neighbour_entropy(ordered: np.ndarray) -> float:
    """Kozachenko and Leonenko's estimate of differential entropy, from sorted samples."""
    # Every point is its own nearest neighbour.
    radius = checked_distances(neighbour_distances(ordered, ordered, NEIGHBOURS + 1))
    return float(np.mean(np.log(2 * ordered.size * radius)) - digamma(NEIGHBOURS))


def checked_distances(radius: np.ndarray) -> np.ndarray:
    """Distances to neighbours, none of them 0."""
    if not radius.min() > 0:
        raise ArgumentError(
            "samples",
            f"samples has {NEIGHBOURS} or more equal entries, and nearest neighbours at distance 0 give no density. "
            f"Use method='kde', or ks, wasserstein or energy.",
        )
    return radius


def neighbour_distances(points: np.ndarray, ordered: np.ndarray, k: int) -> np.ndarray:
    """The distance from each point to its `k`-th nearest in the sorted array."""
    start = np.searchsorted(ordered, points)
    best = np.full(points.size, np.inf)
    # The k nearest are k neighbours in order: i to the left and k - i to the right, for the i with the least reach.
    for i in range(k + 1):
        left, right = start - i, start + (k - i) - 1
        inside = (left >= 0) & (right < ordered.size)
        low = ordered[np.clip(left, 0, ordered.size - 1)]
        high = ordered[np.clip(right, 0, ordered.size - 1)]
        reach = np.maximum(np.where(i > 0, points - low, 0.0), np.where(i < k, high - points, 0.0))
        best = np.where(inside, np.minimum(best, reach), best)
    return best

"""Gaussian kernel density estimates with Scott's bandwidth, on many points."""

import numpy as np

_BINS = 2**15
_FEW = 2000  # samples that are summed as they are
_REACH = 38.0  # bandwidths beyond which a kernel underflows
_NEAR = 9.0  # bandwidths beyond which a kernel is below 3e-18
_FAINT = 1e-8  # sums of kernels to which that matters


def scott_bandwidth(samples: np.ndarray) -> float:
    """Scott's rule, `std N^(-1/5)`, as `scipy.stats.gaussian_kde` applies it.

    !!! Example

        >>> import numpy as np
        >>> from limitlaw.numerics import scott_bandwidth
        >>> round(scott_bandwidth(np.array([-1.0, 0.0, 1.0] * 10)), 6)
        0.420622
    """
    return float(samples.std(ddof=1)) * samples.size**-0.2


def kernel_density(samples: np.ndarray, x: np.ndarray, bandwidth: float) -> np.ndarray:
    """The Gaussian kernel density estimate at `x`: `(1 / N h) sum_i phi((x - y_i) / h)`.

    The samples are shared out linearly between the points of a grid of 32,768 first, which changes the density by a factor of
    about `1 + (step / h)^2 / 8`, some 1e-6 for 50,000 samples of a nearly normal law; few samples are summed as they are.

    !!! Example

        >>> import numpy as np
        >>> from limitlaw.numerics import kernel_density
        >>> kernel_density(np.array([0.0]), np.array([0.0, 1.0]), 1.0).round(6).tolist()
        [0.398942, 0.241971]
    """
    places, weights = samples, np.full(samples.size, 1 / samples.size)
    if samples.size > _FEW:
        low, high = float(samples.min()), float(samples.max())
        places, weights = np.linspace(low, high, _BINS), _shared_out(samples, low, high, _BINS)
    order = np.argsort(places)
    places, weights = places[order], weights[order]
    low, high = (np.searchsorted(places, x + sign * _REACH * bandwidth) for sign in (-1, 1))
    out = np.zeros(x.size)
    for i in range(x.size):
        near = slice(low[i], high[i])
        out[i] = weights[near] @ np.exp(-0.5 * ((x[i] - places[near]) / bandwidth) ** 2)
    return out / (bandwidth * np.sqrt(2 * np.pi))


def kernel_density_on_grid(samples: np.ndarray, low: float, high: float, points: int, bandwidth: float) -> np.ndarray:
    """`kernel_density` at evenly spaced points from `low` to `high`, a range that holds all samples; ten times faster.

    The samples are shared out between the points and as many places between any two of them as make 32,768 in all: one table
    then holds the kernel for all points.

    !!! Example

        >>> import numpy as np
        >>> from limitlaw.numerics import kernel_density, kernel_density_on_grid
        >>> samples = np.random.default_rng(0).normal(size=10_000)
        >>> direct = kernel_density(samples, np.linspace(-5, 5, 11), 0.2)
        >>> bool(np.allclose(kernel_density_on_grid(samples, -5.0, 5.0, 11, 0.2), direct, rtol=1e-5))
        True
    """
    if samples.size <= _FEW:
        return kernel_density(samples, np.linspace(low, high, points), bandwidth)
    between = -(-_BINS // (points - 1))
    bins = between * (points - 1) + 1
    weights = _shared_out(samples, low, high, bins)
    step = (high - low) / (bins - 1)
    table, farthest = kernel_table(step, bandwidth, bins)

    def sum_at(point: int, reach: int) -> float:
        place = point * between
        first, last = max(place - reach, 0), min(place + reach + 1, bins)
        return float(weights[first:last] @ table[first - place + farthest : last - place + farthest])

    near = int(min(_NEAR * bandwidth / step + 1, farthest))
    out = np.array([sum_at(point, near) for point in range(points)])
    for point in np.flatnonzero(out < _FAINT).tolist():
        out[point] = sum_at(point, farthest)
    return out / (bandwidth * np.sqrt(2 * np.pi))


def kernel_table(step: float, bandwidth: float, most: int) -> tuple[np.ndarray, int]:
    """`exp(-x^2 / 2 h^2)` at `x = -reach step ... reach step`, as far as it does not underflow or `most` steps; and `reach`.

    !!! Example

        >>> import numpy as np
        >>> from limitlaw.numerics import kernel_table
        >>> table, reach = kernel_table(0.5, 1.0, 2)
        >>> reach, (-2 * np.log(table)).round(9).tolist()  # x^2
        (2, [1.0, 0.25, -0.0, 0.25, 1.0])
    """
    reach = int(min(_REACH * bandwidth / step + 1, most))
    return np.exp(-0.5 * (np.arange(-reach, reach + 1) * (step / bandwidth)) ** 2), reach


def _shared_out(samples: np.ndarray, low: float, high: float, bins: int) -> np.ndarray:
    """Weights of evenly spaced places, each sample shared linearly between the two it lies between."""
    position = (samples - low) * ((bins - 1) / (high - low))
    left = np.clip(position.astype(np.int64), 0, bins - 2)
    part = position - left
    counts = np.bincount(left, 1 - part, bins) + np.bincount(left + 1, part, bins)
    return counts / samples.size

"""What is known of a law from independent draws alone."""

import functools
from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np
from scipy.special import digamma

from .. import _arguments
from ..numerics import Estimate, jackknife, kernel_density, left_out, scott_bandwidth
from ._law import Law, checked_moment, shape_of

NEIGHBOURS = 5
_BATCHES = 128
_AT_ONCE = 2**22


class Empirical(Law):
    """The law of independent draws: steps for the cdf, a kernel estimate for the density.

    Errors come from batches of the draws in the order given. The density is a Gaussian kernel estimate with Scott's
    bandwidth (`method="kde"`): it is smoothed by `bandwidth`, which its error does not include. Entropy is
    Kozachenko and Leonenko's, from nearest neighbours.

    !!! Example

        >>> import numpy as np
        >>> from limitlaw.laws import Empirical
        >>> law = Empirical(np.random.default_rng(0).normal(size=10_000))
        >>> law.var(), law.cdf(0.0)
        (0.996 ± 0.014, np.float64(0.5026))
    """

    method = "kde"

    def __init__(self, samples: Any, *, name: str = "samples") -> None:
        self.samples = checked_samples("samples", samples)
        self.name = name
        self.ordered = np.sort(self.samples)

    def __repr__(self) -> str:
        return f"Empirical({self.samples.size} samples, mean={self.mean()}, var={self.var()})"

    @functools.cached_property
    def bandwidth(self) -> float:
        """Of the kernel estimate, by Scott's rule."""
        width = scott_bandwidth(self.samples)
        if not width > 0:
            raise ValueError("samples: all are equal, so they have no density; use cdf, or give samples that vary.")
        return width

    @functools.cached_property
    def _edges(self) -> np.ndarray:
        """Panels two bandwidths wide, over all that the kernels reach."""
        low, high = self.ordered[0] - 12 * self.bandwidth, self.ordered[-1] + 12 * self.bandwidth
        return np.linspace(low, high, int(min(np.ceil((high - low) / (2 * self.bandwidth)), 4096)) + 1)

    @functools.cached_property
    def parts(self) -> list[np.ndarray]:
        """Batches of the samples, in the order given, each sorted."""
        count = min(_BATCHES, self.samples.size)
        return [np.sort(part) for part in np.array_split(self.samples, count)]

    def moment(self, order: int, kind: str = "raw") -> Estimate:
        """The moment of the samples, with a standard error over batches; central ones are freed of their `O(1/N)` bias."""
        order = checked_moment(order, kind)
        if kind == "standardized" and (self.samples.size < 2 * order or not np.ptp(self.samples)):
            raise ValueError(
                f"order={order}, kind='standardized': takes at least {2 * order} samples that are not all equal, "
                f"there are {self.samples.size}; give more."
            )
        centre = self.samples.mean()  # moments about it, for accuracy
        powers = np.array([[np.mean((part - centre) ** k) for k in range(order + 1)] for part in self.parts])
        whole = np.array([np.mean((self.samples - centre) ** k) for k in range(order + 1)])

        def value(about_centre: np.ndarray) -> float:
            mean = about_centre[1] if order else 0.0
            shift = centre if kind == "raw" else -mean
            total = sum(comb(order, k) * about_centre[k] * shift ** (order - k) for k in range(order + 1))
            if kind == "standardized":
                total /= (about_centre[2] - mean**2) ** (order / 2) if order > 1 else np.sqrt(np.var(self.samples))
            return float(total)

        others = np.array([value(row) for row in self._averages_left_out(powers)])
        return jackknife(value(whole), others, corrected=kind != "raw")

    def entropy(self) -> Estimate:
        """`mean log(2 N r_i) - digamma(k)`, `r_i` the distance to the `k`-th nearest neighbour, `k = 5`."""
        if self.samples.size <= 2 * NEIGHBOURS:
            raise ValueError(f"samples: there are {self.samples.size}, and entropy needs more than {2 * NEIGHBOURS}.")
        return jackknife(
            neighbour_entropy(self.ordered),
            np.array([neighbour_entropy(self.ordered[kept]) for kept in self.kept]),
            corrected=False,  # its bias is not of order 1/N
        )

    @functools.cached_property
    def kept(self) -> np.ndarray:
        """Which of the ordered samples stay when each batch in turn is left out, `(B, N)`."""
        batch = np.repeat(np.arange(len(self.parts)), [part.size for part in self.parts])
        return batch[np.argsort(self.samples, kind="stable")] != np.arange(len(self.parts))[:, None]

    def sample(self, shape: int | Sequence[int] = (), *, seed: int = 0) -> np.ndarray:
        """Draws from the samples, with replacement."""
        return np.random.default_rng(_arguments.seed(seed)).choice(self.samples, shape_of(shape))

    def left_out(self, what: str, x: np.ndarray) -> np.ndarray:
        """By batches of the samples; the bandwidth stays."""
        if what == "pdf":
            return self._averages_left_out(np.stack([kernel_density(part, x, self.bandwidth) for part in self.parts]))
        below = np.stack([np.searchsorted(part, x, side="right") / part.size for part in self.parts])
        rows = self._averages_left_out(below)
        return rows if what == "cdf" else 1 - rows

    def _averages_left_out(self, batches: np.ndarray) -> np.ndarray:
        """Averages over the samples without each batch in turn, from the averages over batches `(B, ...)`."""
        sizes = np.array([part.size for part in self.parts])[:, None]
        return left_out(sizes * batches) / left_out(sizes)

    def _pdf(self, x: np.ndarray) -> np.ndarray:
        return kernel_density(self.samples, x, self.bandwidth)

    def _logpdf(self, x: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(self._pdf(x))

    def _logcdf(self, x: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(np.searchsorted(self.ordered, x, side="right") / self.samples.size)

    def _logccdf(self, x: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log1p(-np.searchsorted(self.ordered, x, side="right") / self.samples.size)

    def _cf(self, t: np.ndarray) -> np.ndarray:
        step = max(_AT_ONCE // self.samples.size, 1)
        parts = [
            np.exp(1j * np.multiply.outer(t[i : i + step], self.samples)).mean(axis=1) for i in range(0, t.size, step)
        ]
        return np.concatenate(parts)

    def _quantiles(self, q: np.ndarray, *, upper: bool) -> np.ndarray:
        """The smallest sample with at least the fraction `q` of them at or below it."""
        level = 1 - q if upper else q
        return np.quantile(self.ordered, level, method="inverted_cdf")


def checked_samples(name: str, samples: Any) -> np.ndarray:
    """Real numbers in one dimension: at least two, none of them NaN or infinite."""
    try:
        array = np.array(samples, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name}={samples!r}: must be a law, or an array of real numbers.") from None
    if array.ndim != 1:
        raise ValueError(
            f"{name} has shape {array.shape}: samples of a real variable are one-dimensional; "
            f"for several tokens compare them one at a time."
        )
    if array.size < 2:
        raise ValueError(f"{name} has {array.size} entries: give at least two samples.")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise ValueError(
            f"{name}[{bad[0]}] is {array[bad[0]]}: {bad.size} of {array.size} samples are not finite; drop or fix them."
        )
    return array


def neighbour_entropy(ordered: np.ndarray) -> float:
    """Kozachenko and Leonenko's estimate, from sorted samples."""
    radius = checked_distances(neighbour_distances(ordered, ordered, NEIGHBOURS + 1))  # the nearest is the point itself
    return float(np.mean(np.log(2 * ordered.size * radius)) - digamma(NEIGHBOURS))


def checked_distances(radius: np.ndarray) -> np.ndarray:
    """Distances to neighbours, none of them 0."""
    if not radius.min() > 0:
        raise ValueError(
            f"samples: {NEIGHBOURS} or more of them are equal, so that nearest neighbours say nothing of a density; "
            f"use method='kde', or ks, wasserstein or energy."
        )
    return radius


def neighbour_distances(points: np.ndarray, ordered: np.ndarray, k: int) -> np.ndarray:
    """The distance from each point to its `k`-th nearest in the sorted array."""
    start = np.searchsorted(ordered, points)
    best = np.full(points.size, np.inf)
    for i in range(k + 1):  # the k nearest are k neighbours in order: i to the left, k - i to the right
        left, right = start - i, start + (k - i) - 1
        inside = (left >= 0) & (right < ordered.size)
        low = ordered[np.clip(left, 0, ordered.size - 1)]
        high = ordered[np.clip(right, 0, ordered.size - 1)]
        reach = np.maximum(np.where(i > 0, points - low, 0.0), np.where(i < k, high - points, 0.0))
        best = np.where(inside, np.minimum(best, reach), best)
    return best

"""The law of samples, which is known only from independent draws."""

import functools
from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np
from scipy.special import ndtr

from .._checks import ArgumentError
from ..numerics import Estimate, jackknife
from ..numerics.density import kernel_density, scott_bandwidth
from ..numerics.estimate import leave_one_batch_out
from ._arguments import Rng, generator_of, moment_order, shape_of
from ._law import Law
from .samples import NEIGHBOURS, checked_samples, neighbour_entropy

_BATCHES = 128  # batches of a jackknife: its standard error is itself known to 6%
_AT_ONCE = 2**22  # complex numbers in memory at once, 64 MB
_KERNEL_REACH = 12  # bandwidths from a sample at which its kernel falls below 1e-31
_MOST_PANELS = 4096  # panels of a quadrature: a few outliers would need arbitrarily many
_MOST_CANDIDATES = 4096  # points among which the mode is sought, for the same reason


class Empirical(Law):
    """The law of independent draws: steps for the cdf, a kernel estimate for the density.

    Errors come from batches of the draws, in the order in which they are given. The density is a Gaussian kernel
    estimate with Scott's bandwidth (`method="kde"`); its error does not include the bias of that smoothing. Entropy is
    the nearest-neighbour estimate of Kozachenko and Leonenko.

    Args:
        samples: Independent draws, one-dimensional: at least two, all of them finite.
        name: A label, for plots and tables.

    Raises:
        ArgumentError: If there are fewer than two samples, or if one is NaN or infinite.

    Example:
        >>> import numpy as np
        >>> from limitlaw.laws import Empirical
        >>> law = Empirical(np.random.default_rng(0).normal(size=10_000))
        >>> law.variance(), law.cdf(0.0)
        (0.996 ± 0.014, np.float64(0.5026))
    """

    method = "kde"

    def __init__(self, samples: Any, *, name: str = "samples") -> None:
        self.samples = checked_samples("samples", samples)
        self.name = name

    @property
    def _values(self) -> Sequence[Any]:
        return (self.samples,)

    @functools.cached_property
    def ordered(self) -> np.ndarray:
        """The samples in increasing order."""
        return np.sort(self.samples)

    def __repr__(self) -> str:
        return f"Empirical({self.samples.size} samples, mean={self.mean()}, variance={self.variance()})"

    @functools.cached_property
    def bandwidth(self) -> float:
        """The standard deviation of the kernel, by Scott's rule."""
        width = scott_bandwidth(self.samples)
        if not width > 0:
            raise ArgumentError("samples", "samples are all equal, so they have no density. Use cdf instead.")
        return width

    @functools.cached_property
    def _panel_edges(self) -> np.ndarray:
        """The edges of panels two bandwidths wide, up to the reach of the outermost kernels."""
        reach = _KERNEL_REACH * self.bandwidth
        low, high = self.ordered[0] - reach, self.ordered[-1] + reach
        return np.linspace(low, high, int(min(np.ceil((high - low) / (2 * self.bandwidth)), _MOST_PANELS)) + 1)

    def _mode_candidates(self) -> np.ndarray:
        """Points one bandwidth apart, too close for a peak of the kernel estimate to lie between them."""
        low, high = self.support()
        return np.linspace(low, high, int(min(np.ceil((high - low) / self.bandwidth), _MOST_CANDIDATES)) + 1)

    def support(self) -> tuple[float, float]:
        """The smallest and the largest sample. The kernel estimate of the density reaches beyond them."""
        return float(self.ordered[0]), float(self.ordered[-1])

    @functools.cached_property
    def _batches(self) -> list[np.ndarray]:
        """Batches of the samples, in the order given, each sorted."""
        count = min(_BATCHES, self.samples.size)
        return [np.sort(part) for part in np.array_split(self.samples, count)]

    def moment(self, order: int, kind: str = "raw") -> Estimate:
        """A moment of the samples, with a standard error over batches and without the `O(1/N)` bias.

        Args:
            order: A non-negative integer.
            kind: "raw", "central" or "standardized".

        Raises:
            ArgumentError: If there are too few samples for a standardized moment of this order.
        """
        order = moment_order(order, kind)
        if kind == "standardized" and (self.samples.size < 2 * order or not np.ptp(self.samples)):
            raise ArgumentError(
                "order",
                f"order={order} with kind='standardized' takes at least {2 * order} samples that are not all equal, "
                f"but there are {self.samples.size}. Give more.",
            )
        # Power sums about the mean, because those about 0 cancel if the mean is far from 0.
        centre = self.samples.mean()
        powers = np.array([[np.mean((part - centre) ** k) for k in range(order + 1)] for part in self._batches])
        whole = np.array([np.mean((self.samples - centre) ** k) for k in range(order + 1)])

        def value(about_centre: np.ndarray) -> float:
            # Averages without a batch have another mean, so the moment about `mean` follows from the binomial formula.
            mean = about_centre[1] if order else 0.0
            shift = centre if kind == "raw" else -mean
            total = sum(comb(order, k) * about_centre[k] * shift ** (order - k) for k in range(order + 1))
            # The moment of order 0 is 1 and that of order 1 is 0, in any unit.
            if kind == "standardized" and order > 1:
                total /= (about_centre[2] - mean**2) ** (order / 2)
            return float(total)

        others = np.array([value(row) for row in self._leave_one_out(powers)])
        return jackknife(value(whole), others, corrected=kind != "raw")

    def entropy(self) -> Estimate:
        """`mean log(2 N r_i) - digamma(k)`, `r_i` the distance to the `k`-th nearest neighbour, `k = 5`."""
        if self.samples.size <= 2 * NEIGHBOURS:
            raise ArgumentError(
                "samples",
                f"samples has {self.samples.size} entries, and entropy needs more than {2 * NEIGHBOURS}. Give more.",
            )
        return jackknife(
            neighbour_entropy(self.ordered),
            np.array([neighbour_entropy(self.ordered[kept]) for kept in self.batch_masks]),
            corrected=False,  # its bias is not of order 1/N
        )

    @functools.cached_property
    def batch_masks(self) -> np.ndarray:
        """For each batch, a mask of the ordered samples that are not in it, `(batches, samples)`."""
        # Masks of the sorted array spare a sort for each batch that is left out.
        batch = np.repeat(np.arange(len(self._batches)), [part.size for part in self._batches])
        return batch[np.argsort(self.samples, kind="stable")] != np.arange(len(self._batches))[:, None]

    def sample(self, shape: int | Sequence[int] = (), *, rng: Rng = None) -> np.ndarray:
        """Draws from the samples, with replacement."""
        return generator_of(rng).choice(self.samples, shape_of(shape))

    def leave_one_batch_out(self, what: str, x: np.ndarray) -> np.ndarray:
        """See `Law.leave_one_batch_out`; the bandwidth is that of all samples."""
        if what == "pdf":
            return self._leave_one_out(np.stack([kernel_density(part, x, self.bandwidth) for part in self._batches]))
        below = np.stack([np.searchsorted(part, x, side="right") / part.size for part in self._batches])
        rows = self._leave_one_out(below)
        return rows if what == "cdf" else 1 - rows

    def _leave_one_out(self, batches: np.ndarray) -> np.ndarray:
        """Averages over the samples without each batch, from averages over batches `(B, ...)`."""
        # Sizes of batches differ by one if they do not divide the number of samples, so averages are weighted by them.
        sizes = np.array([part.size for part in self._batches])[:, None]
        return leave_one_batch_out(sizes * batches) / leave_one_batch_out(sizes)

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

    def _log_quantiles(self, lq: np.ndarray, *, upper: bool) -> np.ndarray:
        return np.quantile(self.ordered, -np.expm1(lq) if upper else np.exp(lq), method="inverted_cdf")

    def _from_normal(self, z: np.ndarray) -> np.ndarray:
        return self._quantiles(ndtr(z), upper=False)

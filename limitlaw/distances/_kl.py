"""Kullback-Leibler divergence."""

from typing import Any

import numpy as np

from .._checks import ArgumentError
from ..laws import Empirical, Law
from ..laws.quadrature import panels
from ..laws.samples import NEIGHBOURS, checked_distances, neighbour_distances, neighbour_entropy
from ..numerics import Estimate, jackknife
from ._distance import Distance, Measured
from ._jackknife import jackknife_of_samples, jackknife_of_two, without_each_batch
from ._kernel_grid import on_kernel_grid

# Draws that replace a law that is compared with samples: more of them no longer lower the error of 10^5 samples.
_MOST_DRAWN = 2**17
# The seed of these draws, which is unlikely to be the seed of the samples.
_SEED_OF_DRAWS = 0x5EED_0F_4B4E4E
# Samples over which the error of a law is averaged. It is smooth, so a few thousand are enough.
_THINNED = 4096
# Densities below this are treated as underflow: subnormal numbers begin at 2e-308.
_UNDERFLOW = 1e-290
# The floor of densities in logarithms.
_LEAST = 1e-300


class KullbackLeibler(Distance):
    """`KL(p || q) = E_p log(p / q)`."""

    name = "kl"
    label = "KL"
    long_label = "KL"
    symmetric = False
    methods = ("knn", "kde")

    def of_laws(self, p: Law, q: Law) -> Measured:
        """By quadrature of `f log(f / g) - f + g`, which is nowhere negative, so no digits cancel."""
        x, weights = panels(p, q)
        log_f, log_g = p.logpdf(x), q.logpdf(x)

        def value(log_f: np.ndarray, log_g: np.ndarray) -> float:
            f, g = np.exp(log_f), np.exp(log_g)
            # Where f underflows only g is left. The terms -f + g add up to 0, because both densities integrate to 1.
            with np.errstate(invalid="ignore"):
                return float(weights @ np.where(f > 0, f * (log_f - log_g) - f + g, g))

        of_p, of_q = ((log, _log_rows(law.leave_one_batch_out("pdf", x), log)) for law, log in ((p, log_f), (q, log_g)))
        return Measured.by_error(jackknife_of_two(value, of_p, of_q))

    def of_samples(self, p: Law, q: Law, method: str | None) -> Measured:
        """By nearest neighbours (Wang, Kulkarni, Verdu 2009) or by kernel estimates of the densities."""
        if method == "kde":
            return Measured.by_error(on_kernel_grid(p, q, _integrand))
        return Measured.by_error(_by_neighbours(p, q))


KL = KullbackLeibler()


def kl(p: Any, q: Any, /, *, method: str | None = None) -> Estimate:
    """Kullback-Leibler divergence, `KL(p || q) = E_p log(p / q)`. Swap the arguments for the reverse.

    Two laws are compared by quadrature. If a law was made from draws, a jackknife over batches removes the `O(1/N)`
    bias and gives the standard error. A value that the draws do not resolve comes with a `ResolutionWarning`.

    Args:
        p: A law, an array of samples, or a frozen distribution of `scipy.stats`.
        q: Another one.
        method: How to estimate densities if `p` or `q` are samples: "knn" (nearest neighbours; Wang, Kulkarni, Verdu
            2009) or "kde" (kernel estimates, which smooth both laws). Leave it out for two laws.

    Returns:
        The divergence in nats.

    Raises:
        ArgumentError: If an argument is not a law of one variable, or samples come without a method.

    Example:
        >>> import limitlaw as ll
        >>> print(f"{ll.kl(ll.laws.Gaussian(variance=2.0), ll.laws.Gaussian(variance=1.0)):.12f}")  # (1 - log 2) / 2
        0.153426409720
    """
    return KL(p, q, method=method)


def _log_rows(rows: np.ndarray, log_value: np.ndarray) -> np.ndarray:
    """Logarithms of densities without a batch. Where these underflow, the logarithm of the law itself is taken."""
    return np.where(rows > _UNDERFLOW, np.log(np.maximum(rows, _UNDERFLOW)), log_value)


def _integrand(f: np.ndarray, g: np.ndarray) -> np.ndarray:
    """`f log(f / g) - f + g` of kernel estimates, which vanish far from their samples."""
    log_ratio = np.log(np.maximum(f, _LEAST)) - np.log(np.maximum(g, _LEAST))
    return np.where(f > _LEAST, f * log_ratio - f + g, g)


def _by_neighbours(p: Law, q: Law) -> Estimate:
    if not isinstance(p, Empirical):
        # E_p log p and E_p log q are averages over samples of p, so a law p is replaced by draws.
        assert isinstance(q, Empirical)
        p = Empirical(p.sample(min(q.samples.size, _MOST_DRAWN), rng=_SEED_OF_DRAWS))
    for name, law in (("p", p), ("q", q)):
        if isinstance(law, Empirical) and law.samples.size <= 2 * NEIGHBOURS:
            raise ArgumentError(
                name,
                f"{name} has {law.samples.size} samples, but method='knn' needs more than {2 * NEIGHBOURS}. Pass more "
                f"samples.",
            )
    if isinstance(q, Empirical):
        return jackknife_of_samples(_between_samples, p, q)
    log_q = q.logpdf(p.ordered)

    def value(kept: np.ndarray) -> float:
        return -neighbour_entropy(p.ordered[kept]) - float(log_q[kept].mean())

    whole = value(np.ones(p.ordered.size, bool))
    # KL depends on q through -E_p log q, so a batch of q that is left out changes it by -E_p log of the ratio of
    # densities.
    thin = p.ordered[:: max(p.ordered.size // _THINNED, 1)]
    moved = q.leave_one_batch_out("pdf", thin) / q.pdf(thin)
    by_law = whole - np.log(np.maximum(moved, _LEAST)).mean(axis=1)
    return jackknife(whole, without_each_batch(p, value), by_law, corrected=False)


def _between_samples(x: np.ndarray, y: np.ndarray) -> float:
    # Wang, Kulkarni and Verdu 2009: mean log(s_i / r_i) + log(m / (n - 1)), with the distances r_i and s_i of x_i to
    # its k-th neighbour among the n samples x and the m samples y.
    own = checked_distances(neighbour_distances(x, x, NEIGHBOURS + 1))  # the nearest neighbour is the point itself
    other = checked_distances(neighbour_distances(x, y, NEIGHBOURS))
    return float(np.log(other / own).mean() + np.log(y.size / (x.size - 1)))

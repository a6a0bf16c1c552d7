"""Distances between laws: densities and cdfs on one grid, errors and biases by the jackknife."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtr

from ..laws import Law
from ..laws._law import gauss_panels, merged_edges
from ..numerics import Estimate
from . import _samples
from ._pair import distance, left_out_of_two, root_of_squared

_BISECTIONS = 60
_SCORES = np.linspace(-9.0, 9.0, 19)  # panels in the normal score, for quantile functions


def kl(p: Any, q: Any, /, *, method: str | None = None) -> Estimate:
    """Kullback-Leibler divergence, `KL(p || q) = E_p log(p / q)`; swap the arguments for the reverse.

    Two laws are compared by quadrature of `f log(f/g) - f + g`. Where one was made from draws, the `O(1/N)` bias is removed and the
    standard error stated, both from leaving out batches. If either is an array of samples, densities have to be
    estimated and the method must be named: "knn" (nearest neighbours; Wang, Kulkarni, Verdu 2009) or "kde" (kernel estimates, which
    smooth both laws). A value below what the draws resolve raises a `ResolutionWarning`.

    !!! Example

        >>> import limitlaw as ll
        >>> print(f"{ll.kl(ll.laws.Gaussian(var=2.0), ll.laws.Gaussian(var=1.0)):.12f}")  # (1 - log 2) / 2
        0.153426409720
    """
    return distance("kl", p, q, _checked(_divergence, method), lambda p, q: (_samples.kl(p, q, method), None))


def tv(p: Any, q: Any, /, *, method: str | None = None) -> Estimate:
    """Total variation, `sup_A |P(A) - Q(A)| = (1/2) int |f - g|`, exactly from the cdfs at the points where the densities cross.

    Samples need `method="kde"`: from raw samples the total variation is that of their kernel estimates.

    !!! Example

        >>> import limitlaw as ll
        >>> print(f"{ll.tv(ll.laws.Gaussian(0.0), ll.laws.Gaussian(1.0)):.12f}")  # 2 Phi(1/2) - 1
        0.382924922548
    """
    return distance("tv", p, q, _checked(_variation, method), lambda p, q: (_samples.tv(p, q, method), None))


def ks(p: Any, q: Any, /) -> Estimate:
    """Kolmogorov-Smirnov distance, `sup_x |P(x) - Q(x)|` of the cdfs.

    For samples it is the Kolmogorov-Smirnov statistic, which is about `0.9 / sqrt(N)` even where the laws are equal: a value below
    the 95% point `1.36 / sqrt(N)` raises a `ResolutionWarning`.

    !!! Example

        >>> import limitlaw as ll
        >>> print(f"{ll.ks(ll.laws.Gaussian(0.0), ll.laws.Gaussian(1.0)):.12f}")  # at 1/2: 2 Phi(1/2) - 1
        0.382924922548
    """
    return distance("ks", p, q, _largest_gap, _samples.ks)


def wasserstein(first: Any, second: Any, /, *, p: int = 1) -> Estimate:
    """Wasserstein distance of order `p` = 1 or 2, `(int |F^{-1} - G^{-1}|^p dq)^(1/p)`.

    For samples it is that of the empirical law, which is of order `1 / sqrt(N)` even where the laws are equal: a value below what
    two halves of the samples differ by raises a `ResolutionWarning`.

    !!! Example

        >>> import limitlaw as ll
        >>> print(f"{ll.wasserstein(ll.laws.Gaussian(var=4.0), ll.laws.Gaussian(var=1.0), p=2):.10f}")  # 2 - 1
        1.0000000000
    """
    if p not in (1, 2) or isinstance(p, bool):
        raise ValueError(f"p={p!r}: the order of a Wasserstein distance must be 1 or 2.")
    of_laws = _area if p == 1 else _quantile_distance
    return distance("wasserstein", first, second, of_laws, lambda one, two: _samples.wasserstein(one, two, p))


def energy(p: Any, q: Any, /) -> Estimate:
    """Energy distance, `sqrt(2 int (P(x) - Q(x))^2 dx)` of the cdfs, as `scipy.stats.energy_distance` has it.

    Samples enter by unbiased (U-) statistics of its square, `2 E|X - Y| - E|X - X'| - E|Y - Y'|`.

    !!! Example

        >>> import limitlaw as ll
        >>> print(f"{ll.energy(ll.laws.Gaussian(var=1.0), ll.laws.Gaussian(var=4.0)):.9f}")
        0.427914397
    """
    return distance("energy", p, q, _energy, lambda p, q: (_samples.energy(p, q), None))


def _checked(of_laws: Callable[[Law, Law], Estimate], method: str | None) -> Callable[[Law, Law], Estimate]:
    """A distance between laws, which takes no method."""

    def compare(p: Law, q: Law) -> Estimate:
        if method is not None:
            raise ValueError(
                f"method={method!r}: two laws are compared by quadrature; a method is for raw samples, so leave it out."
            )
        return of_laws(p, q)

    return compare


def _divergence(p: Law, q: Law) -> Estimate:
    x, weights = p.panels(q)
    log_f, log_g = p.logpdf(x), q.logpdf(x)

    def value(log_f: np.ndarray, log_g: np.ndarray) -> float:
        f, g = np.exp(log_f), np.exp(log_g)
        with np.errstate(invalid="ignore"):
            return float(weights @ np.where(f > 0, f * (log_f - log_g) - f + g, g))

    return left_out_of_two(
        value, (log_f, _log_rows(p.left_out("pdf", x), log_f)), (log_g, _log_rows(q.left_out("pdf", x), log_g))
    )


def _log_rows(rows: np.ndarray, log_value: np.ndarray) -> np.ndarray:
    """Logarithms; where a density underflows, those of the law itself."""
    return np.where(rows > 1e-290, np.log(np.maximum(rows, 1e-290)), log_value)


def _gap(p: Law, q: Law, x: np.ndarray) -> np.ndarray:
    """`P(x) - Q(x)` of the cdfs, from the smaller tails."""
    below = x <= p.median()
    gap = np.empty(x.size)
    gap[below] = p.cdf(x[below]) - q.cdf(x[below])
    gap[~below] = q.ccdf(x[~below]) - p.ccdf(x[~below])
    return gap


def _of_gap(value: Callable[[np.ndarray], float], p: Law, q: Law, x: np.ndarray, gap: np.ndarray) -> Estimate:
    """A function of the difference of the cdfs at `x`."""

    def moves(law: Law) -> tuple[np.ndarray, np.ndarray]:
        rows = law.left_out("cdf", x)
        return np.zeros(x.size), rows - law.cdf(x) if len(rows) else rows

    return left_out_of_two(lambda by_p, by_q: value(gap + by_p - by_q), moves(p), moves(q))


def _variation(p: Law, q: Law) -> Estimate:
    """Half the total variation of the difference of the cdfs, which turns where the densities cross."""
    x = _crossings(p, q)
    gap = _gap(p, q, x)
    turns = np.sign(np.diff(gap, prepend=0.0, append=0.0))
    return _of_gap(lambda gap: 0.5 * float(turns @ np.diff(gap, prepend=0.0, append=0.0)), p, q, x, gap)


def _largest_gap(p: Law, q: Law) -> Estimate:
    x = _crossings(p, q)
    gap = _gap(p, q, x)
    at = int(np.argmax(np.abs(gap)))
    sign = float(np.sign(gap[at]))
    return _of_gap(lambda gap: sign * float(gap[0]), p, q, x[[at]], gap[[at]])


def _energy(p: Law, q: Law) -> Estimate:
    x, weights = p.panels(q)
    return root_of_squared(_of_gap(lambda gap: 2 * float(weights @ gap**2), p, q, x, _gap(p, q, x)))


def _crossings(p: Law, q: Law) -> np.ndarray:
    """Where the densities cross, that is, where the difference of the cdfs turns."""
    x, _ = p.panels(q)
    return _roots(lambda x: p.pdf(x) - q.pdf(x), x)


def _roots(f: Any, x: np.ndarray) -> np.ndarray:
    """The zeros of `f` between sorted points where it changes sign, by bisection; the middle point if there are none."""
    values = f(x)
    turns = np.flatnonzero(np.sign(values[:-1]) * np.sign(values[1:]) < 0)
    if not turns.size:
        return x[[x.size // 2]]
    low, high, sign = x[turns], x[turns + 1], np.sign(values[turns])
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        left = np.sign(f(middle)) == sign
        low, high = np.where(left, middle, low), np.where(left, high, middle)
        if np.all(high - low <= 1e-12 * (x[-1] - x[0])):
            break
    return (low + high) / 2


def _area(p: Law, q: Law) -> Estimate:
    """`int |P(x) - Q(x)| dx`, with panels that end where the difference changes sign."""
    x, _ = p.panels(q)
    roots = _roots(lambda x: _gap(p, q, x), x)
    x, weights = gauss_panels(np.append(merged_edges([p._edges, q._edges]), roots))
    gap = _gap(p, q, x)
    sign = np.sign(gap)
    return _of_gap(lambda gap: float(weights @ (sign * gap)), p, q, x, gap)


def _quantile_distance(p: Law, q: Law) -> Estimate:
    """`sqrt(E (S(z) - T(z))^2)`, `S` and `T` the increasing maps from a standard normal `z` to the laws."""
    z, weights = gauss_panels(_SCORES)
    weights = weights * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)

    def quantiles(law: Law) -> tuple[np.ndarray, np.ndarray]:
        x = law.quantiles_of_normal(z)
        rows = law.left_out("cdf", x)
        return x, x - (rows - ndtr(z)) / law.pdf(x) if len(rows) else rows

    return root_of_squared(left_out_of_two(lambda a, b: float(weights @ (a - b) ** 2), quantiles(p), quantiles(q)))

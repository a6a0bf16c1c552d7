"""Distances in which one side, or both, is known from samples alone."""

from collections.abc import Callable, Iterator

import numpy as np
from scipy.special import ndtr, ndtri

from .. import _arguments
from ..laws import Empirical, Law
from ..laws._empirical import NEIGHBOURS, checked_distances, neighbour_distances, neighbour_entropy
from ..laws._law import gauss_panels
from ..numerics import CubicSpline, Estimate, jackknife
from ._pair import left_out_of_two, root_of_squared

_MOST_DRAWN = 2**17
_THINNED = 4096
_OWN_SEED = 0x5EED_0F_4B4E4E  # for draws of a law, apart from those a user may have made
_SCORES = np.linspace(-9.0, 9.0, 361)
_CRITICAL = 1.358  # of the Kolmogorov law, at 95%


def kl(p: Law, q: Law, method: str | None) -> Estimate:
    """By nearest neighbours or by kernel estimates."""
    _check_method("kl", method, ("knn", "kde"))
    if method == "kde":
        return _on_kernel_grid(p, q, _kl_integrand)
    if not isinstance(p, Empirical):
        assert isinstance(q, Empirical)
        p = Empirical(p.sample(min(q.samples.size, _MOST_DRAWN), seed=_OWN_SEED))
    for name, law in (("p", p), ("q", q)):
        if isinstance(law, Empirical) and law.samples.size <= 2 * NEIGHBOURS:
            raise ValueError(
                f"{name} has {law.samples.size} samples: nearest neighbours need more than {2 * NEIGHBOURS}."
            )
    if isinstance(q, Empirical):
        return _of_two(p, q, _neighbour_kl)
    log_q = q.logpdf(p.ordered)

    def value(kept: np.ndarray) -> float:
        return -neighbour_entropy(p.ordered[kept]) - float(log_q[kept].mean())

    whole = value(np.ones(p.ordered.size, bool))
    thin = p.ordered[:: max(p.ordered.size // _THINNED, 1)]
    moved = q.left_out("pdf", thin) / q.pdf(thin)
    by_law = whole - np.log(np.maximum(moved, 1e-300)).mean(axis=1)
    return jackknife(whole, _left_out(p, value), by_law, corrected=False)


def tv(p: Law, q: Law, method: str | None) -> Estimate:
    """Of kernel estimates."""
    _check_method("tv", method, ("kde",))
    return _on_kernel_grid(p, q, lambda f, g: 0.5 * np.abs(f - g))


def ks(p: Law, q: Law) -> tuple[Estimate, float]:
    """The Kolmogorov-Smirnov statistic, and what it must exceed to mean anything."""
    sizes = [law.samples.size for law in (p, q) if isinstance(law, Empirical)]
    points = np.concatenate([law.ordered for law in (p, q) if isinstance(law, Empirical)])
    points = np.unique(np.concatenate([points, np.nextafter(points, -np.inf)]))  # at every step, and just before it
    gap = _cdf(p, points) - _cdf(q, points)
    at = int(np.argmax(np.abs(gap)))
    here, value = points[[at]], abs(float(gap[at]))
    variance = 0.0
    for law in (p, q):
        if isinstance(law, Empirical):  # binomial, and not 0 where all samples lie on one side
            share = (law.samples.size * float(law.cdf(here)[0]) + 1) / (law.samples.size + 2)
            variance += share * (1 - share) / law.samples.size
        else:
            variance += float(law.error("cdf", here)[0]) ** 2
    critical = _CRITICAL * float(np.sqrt(sum(1 / size for size in sizes)))
    return Estimate(value, float(np.sqrt(variance))), critical


def wasserstein(one: Law, two: Law, order: int) -> tuple[Estimate, float]:
    """Of the empirical laws, by their quantile functions, and what it is between samples of one law, about."""
    noise = sum(_noise(law, order) ** 2 for law in (one, two) if isinstance(law, Empirical)) ** 0.5
    if isinstance(one, Empirical) and isinstance(two, Empirical):
        return _of_two(one, two, lambda x, y: _coupling_distance(x, y, order)), noise
    samples, law = (one, two) if isinstance(one, Empirical) else (two, one)
    assert isinstance(samples, Empirical)
    quantiles = law.quantiles_of_normal(_SCORES)
    rows = law.left_out("cdf", quantiles)
    shifts = -(rows - ndtr(_SCORES)) / law.pdf(quantiles) if len(rows) else rows
    # Gauss points in the cell of each sample, so that few samples are integrated over too
    nodes, weights = np.polynomial.legendre.leggauss(int(np.clip(_THINNED // samples.samples.size, 2, 64)))

    def value(ordered: np.ndarray, quantiles: np.ndarray) -> float:
        levels = (np.arange(ordered.size)[:, None] + (1 + nodes) / 2) / ordered.size
        gaps = np.abs(ordered[:, None] - CubicSpline(_SCORES, quantiles)(ndtri(levels)))
        return float((np.mean(gaps**order, axis=0) @ weights / 2) ** (1 / order))

    estimate = jackknife(
        value(samples.ordered, quantiles),
        np.array([value(samples.ordered[kept], quantiles) for kept in samples.kept]),
        np.array([value(samples.ordered, quantiles + shift) for shift in shifts]),
        corrected=False,
    )
    return estimate, noise


def _noise(law: Empirical, order: int) -> float:
    """The distance to expect between samples of this size and their own law: half of what their two halves differ by."""
    halves = np.sort(law.samples[::2]), np.sort(law.samples[1::2])
    return _coupling_distance(*halves, order) / 2


def energy(p: Law, q: Law) -> Estimate:
    """The square root of an unbiased estimate of the squared energy distance."""
    if isinstance(p, Empirical) and isinstance(q, Empirical):
        squared = _of_two(p, q, lambda x, y: 2 * _mean_distance(x, y) - _mean_gap(x) - _mean_gap(y), corrected=True)
    else:
        samples, law = (p, q) if isinstance(p, Empirical) else (q, p)
        assert isinstance(samples, Empirical)
        to_law, own = _distance_to(law)
        distances = to_law(samples.ordered)

        def value(kept: np.ndarray) -> float:
            return 2 * float(distances[kept].mean()) - _mean_gap(samples.ordered[kept]) - own

        whole = value(np.ones(samples.ordered.size, bool))
        x, weights = law.panels()
        gap, moved = samples.cdf(x) - law.cdf(x), law.left_out("cdf", x) - law.cdf(x)
        # int (P - Q)^2 with Q moved; an unbiased estimate of the rest cancels
        by_law = whole + 2 * ((gap - moved) ** 2 - gap**2) @ weights
        squared = jackknife(whole, _left_out(samples, value), by_law)
    return root_of_squared(squared)


def _check_method(what: str, method: str | None, choices: tuple[str, ...]) -> None:
    if method is None:
        raise ValueError(
            f"{what} of raw samples: samples have no density, so say how to estimate it, method={' or '.join(map(repr, choices))}; "
            f"or compare laws, as net.law(...) gives them."
        )
    _arguments.one_of("method", method, choices)


def _left_out(law: Empirical, value: Callable[[np.ndarray], float]) -> np.ndarray:
    return np.array([value(kept) for kept in law.kept])


def _of_two(
    p: Empirical, q: Empirical, value: Callable[[np.ndarray, np.ndarray], float], *, corrected: bool = False
) -> Estimate:
    """A function of two sorted samples; `corrected` if its bias is of order 1/N."""

    def parts(law: Empirical) -> tuple[np.ndarray, Iterator[np.ndarray]]:
        return law.ordered, (law.ordered[kept] for kept in law.kept)

    return left_out_of_two(value, parts(p), parts(q), corrected=corrected)


def _cdf(law: Law, x: np.ndarray) -> np.ndarray:
    return law.cdf(x) if isinstance(law, Empirical) else law.cdf_by_spline(x)


def _neighbour_kl(x: np.ndarray, y: np.ndarray) -> float:
    own = checked_distances(neighbour_distances(x, x, NEIGHBOURS + 1))  # the nearest is the point itself
    other = checked_distances(neighbour_distances(x, y, NEIGHBOURS))
    return float(np.log(other / own).mean() + np.log(y.size / (x.size - 1)))


def _on_kernel_grid(p: Law, q: Law, integrand: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Estimate:
    x, weights = p.panels(q)
    one, two = ((law.pdf(x), law.left_out("pdf", x)) for law in (p, q))
    # The bias of a kernel estimate is not of order 1/N.
    return left_out_of_two(lambda f, g: float(weights @ integrand(f, g)), one, two, corrected=False)


def _kl_integrand(f: np.ndarray, g: np.ndarray) -> np.ndarray:
    floor = 1e-300  # a kernel estimate vanishes far from its samples
    return np.where(f > floor, f * (np.log(np.maximum(f, floor)) - np.log(np.maximum(g, floor))) - f + g, g)


def _coupling_distance(x: np.ndarray, y: np.ndarray, order: int) -> float:
    """The cost of the monotone coupling of two sorted samples."""
    levels = np.concatenate([np.arange(1, x.size + 1) / x.size, np.arange(1, y.size + 1) / y.size])
    levels.sort()
    mass = np.diff(levels, prepend=0.0)
    middle = levels - mass / 2
    first = x[np.minimum((middle * x.size).astype(np.int64), x.size - 1)]
    second = y[np.minimum((middle * y.size).astype(np.int64), y.size - 1)]
    return float((mass @ np.abs(first - second) ** order) ** (1 / order))


def _mean_gap(ordered: np.ndarray) -> float:
    """The average of `|x_i - x_j|` over pairs, from the sorted sample."""
    n = ordered.size
    return 2 * float((2 * np.arange(n) - n + 1) @ ordered) / (n * (n - 1))


def _mean_distance(x: np.ndarray, y: np.ndarray) -> float:
    """The average of `|x_i - y_j|`, from the sorted samples."""
    total = np.concatenate([[0.0], np.cumsum(y)])
    below = np.searchsorted(y, x)
    return float(np.mean(x * (2 * below - y.size) + total[-1] - 2 * total[below])) / y.size


def _distance_to(law: Law) -> tuple[Callable[[np.ndarray], np.ndarray], float]:
    """`E|x - Y|` as a function of `x`, and `E|Y - Y'|`, for `Y` of the law."""
    knots = law.quantiles_of_normal(_SCORES[::2])
    x, weights = gauss_panels(knots)
    tail = law.ccdf(x)
    from scipy.interpolate import CubicHermiteSpline  # slow to import

    areas = (weights * tail).reshape(knots.size - 1, -1).sum(axis=1)
    beyond = np.append(np.cumsum(areas[::-1])[::-1], 0.0)  # int ccdf from each knot on
    # E|x - Y| = x - E Y + 2 int_x^inf ccdf
    spline = CubicHermiteSpline(knots, knots - float(law.mean()) + 2 * beyond, 1 - 2 * law.ccdf(knots))

    def distance(points: np.ndarray) -> np.ndarray:
        inside = np.clip(points, knots[0], knots[-1])
        return spline(inside) + np.abs(points - inside)

    return distance, 2 * float(weights @ (tail * (1 - tail)))

"""Wasserstein distances of order 1 and 2."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import ndtr, ndtri

from .._checks import ArgumentError
from ..laws import Empirical, Law
from ..laws.normal_scores import quantiles_of_normal
from ..laws.quadrature import gauss_panels, panel_edges, panels
from ..numerics import Estimate, jackknife
from ._cdf_gap import cdf_gap, cdf_shifts, estimate_from_gap, roots_between
from ._distance import Distance, Measured
from ._jackknife import jackknife_of_samples, jackknife_of_two
from ._root_of_squares import length_of

# Edges of panels in the normal score, in which quantile functions are smooth. The mass beyond 9 is 1e-19.
_PANELS = np.linspace(-9.0, 9.0, 19)
# Knots of the spline through a quantile function that is compared with many sorted samples.
_KNOTS = np.linspace(-9.0, 9.0, 361)
# The integral diverges if the contribution of a tail shrinks by less than this factor over three decades of
# probability.
_DIVERGES = 0.98
# Gauss points in all cells of an empirical quantile function together; each cell has at least 2 and at most 64.
_POINTS = 4096


@dataclass(frozen=True)
class Wasserstein(Distance):
    """`(int |F^{-1}(u) - G^{-1}(u)|^p du)^(1/p)`.

    Args:
        order: `p`, 1 or 2.
    """

    order: int

    @property
    def name(self) -> str:  # type: ignore[override]
        """`wasserstein`, and `wasserstein_2` for order 2."""
        return "wasserstein" if self.order == 1 else f"wasserstein_{self.order}"

    @property
    def label(self) -> str:  # type: ignore[override]
        """`W1` or `W2`."""
        return f"W{self.order}"

    @property
    def long_label(self) -> str:  # type: ignore[override]
        """In words."""
        return "Wasserstein distance" if self.order == 1 else f"Wasserstein distance of order {self.order}"

    def of_laws(self, p: Law, q: Law) -> Measured:
        """By quadrature over cdfs (order 1) or quantile functions (order 2)."""
        if _is_infinite(p, q, self.order):
            return Measured.by_error(Estimate(np.inf, 0.0))
        return Measured.by_error(_area(p, q) if self.order == 1 else _quantile_distance(p, q))

    def of_samples(self, p: Law, q: Law, method: str | None) -> Measured:
        """The distance of empirical quantile functions, resolved above that of two samples of one law."""
        del method
        noise = sum(self._noise(law) ** 2 for law in (p, q) if isinstance(law, Empirical)) ** 0.5
        if isinstance(p, Empirical) and isinstance(q, Empirical):
            return Measured(jackknife_of_samples(self.between_sorted, p, q), noise)
        samples, law = (p, q) if isinstance(p, Empirical) else (q, p)
        assert isinstance(samples, Empirical)
        return Measured(self._to_law(samples, law), noise)

    def between_sorted(self, x: np.ndarray, y: np.ndarray) -> float:
        """The distance of two sorted samples, the cost of the monotone coupling, which is optimal on the line."""
        # Both quantile functions are constant between neighbouring levels i / n and j / m.
        levels = np.concatenate([np.arange(1, x.size + 1) / x.size, np.arange(1, y.size + 1) / y.size])
        levels.sort()
        mass = np.diff(levels, prepend=0.0)
        middle = levels - mass / 2
        first = x[np.minimum((middle * x.size).astype(np.int64), x.size - 1)]
        second = y[np.minimum((middle * y.size).astype(np.int64), y.size - 1)]
        return float((mass @ np.abs(first - second) ** self.order) ** (1 / self.order))

    def _noise(self, law: Empirical) -> float:
        """The expected distance between samples of this size and their law, half of that between their halves."""
        return self.between_sorted(np.sort(law.samples[::2]), np.sort(law.samples[1::2])) / 2

    def _to_law(self, samples: Empirical, law: Law) -> Estimate:
        quantiles = quantiles_of_normal(law, _KNOTS)
        rows = law.leave_one_batch_out("cdf", quantiles)
        # The quantile at a fixed level moves by minus the change of the cdf there, divided by the density.
        shifts = -(rows - ndtr(_KNOTS)) / law.pdf(quantiles) if len(rows) else rows
        # The empirical quantile function is constant on the cell of each sample, where that of the law is smooth.
        nodes, weights = np.polynomial.legendre.leggauss(int(np.clip(_POINTS // samples.samples.size, 2, 64)))

        def value(ordered: np.ndarray, quantiles: np.ndarray) -> float:
            levels = (np.arange(ordered.size)[:, None] + (1 + nodes) / 2) / ordered.size
            gaps = np.abs(ordered[:, None] - CubicSpline(_KNOTS, quantiles)(ndtri(levels)))
            return float((np.mean(gaps**self.order, axis=0) @ weights / 2) ** (1 / self.order))

        return jackknife(
            value(samples.ordered, quantiles),
            np.array([value(samples.ordered[kept], quantiles) for kept in samples.batch_masks]),
            np.array([value(samples.ordered, quantiles + shift) for shift in shifts]),
            corrected=False,
        )


W1, W2 = Wasserstein(1), Wasserstein(2)


def wasserstein(first: Any, second: Any, /, *, p: int = 1) -> Estimate:
    """Wasserstein distance of order `p`, `(int |F^{-1}(u) - G^{-1}(u)|^p du)^(1/p)`.

    For samples it is the distance of the empirical law, which is of order `1 / sqrt(N)` even for equal laws. A value
    below the distance between two halves of the samples comes with a `ResolutionWarning`.

    Args:
        first: A law, an array of samples, or a frozen distribution of `scipy.stats`.
        second: Another one.
        p: The order, 1 or 2.

    Returns:
        The distance, in the unit of the variable.

    Raises:
        ArgumentError: If an argument is not a law of one variable, or `p` is neither 1 nor 2.

    Example:
        >>> import limitlaw as ll
        >>> wide, standard = ll.laws.Gaussian(variance=4.0), ll.laws.Gaussian(variance=1.0)
        >>> print(f"{ll.wasserstein(wide, standard, p=2):.10f}")  # 2 - 1
        1.0000000000
    """
    if p not in (1, 2) or isinstance(p, bool):
        raise ArgumentError("p", f"p={p!r} is not supported as the order of a Wasserstein distance. Use p=1 or p=2.")
    return (W1 if p == 1 else W2)(first, second)


def _is_infinite(p: Law, q: Law, order: int) -> bool:
    """Whether the tails of two laws are so heavy, and so different, that the integral diverges.

    Near `u = 1` the integral converges only if `|F^{-1}(u) - G^{-1}(u)|^p` grows more slowly than `1 / (1 - u)`.
    """
    tails = np.array([1e-9, 1e-12])
    for of_p, of_q in ((p.icdf(tails), q.icdf(tails)), (p.iccdf(tails), q.iccdf(tails))):
        near, far = tails * np.abs(of_p - of_q) ** order
        if far > _DIVERGES * near:
            return True
    return False


def _area(p: Law, q: Law) -> Estimate:
    """`int |P(x) - Q(x)| dx`, with panels that end where the difference changes sign."""
    x, _ = panels(p, q)
    roots = roots_between(lambda x: cdf_gap(p, q, x), x)
    x, weights = gauss_panels(np.append(panel_edges(p, q), roots))
    gap = cdf_gap(p, q, x)
    sign = np.sign(gap)
    return estimate_from_gap(lambda gap: float(weights @ (sign * gap)), gap, cdf_shifts(p, x), cdf_shifts(q, x))


def _quantile_distance(p: Law, q: Law) -> Estimate:
    """`sqrt(E (S(z) - T(z))^2)`, `S` and `T` the increasing maps from a standard normal `z` to the laws."""
    z, weights = gauss_panels(_PANELS)
    weights = weights * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)

    def quantiles(law: Law) -> tuple[np.ndarray, np.ndarray]:
        x = quantiles_of_normal(law, z)
        rows = law.leave_one_batch_out("cdf", x)
        return x, x - (rows - ndtr(z)) / law.pdf(x) if len(rows) else rows

    (of_p, p_rows), (of_q, q_rows) = quantiles(p), quantiles(q)
    squared = jackknife_of_two(lambda a, b: float(weights @ (a - b) ** 2), (of_p, p_rows), (of_q, q_rows))
    scale = np.sqrt(weights)
    return length_of(scale * (of_p - of_q), squared, scale * p_rows, scale * q_rows)

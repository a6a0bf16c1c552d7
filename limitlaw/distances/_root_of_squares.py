"""The root of a sum of squares of measured numbers, such as the length of a vector with errors in its coordinates."""

from typing import Any, Self

import numpy as np
from scipy.sparse.linalg import eigsh
from scipy.special import ndtri, stdtrit

from ..numerics import Estimate

# Directions of largest variance that are treated separately. For mixtures over a variance the two largest have 99 % of
# it, and the others decay geometrically, because a cdf without a batch is smooth.
_DIRECTIONS = 16
# Directions with a smaller share of the largest variance are rounding errors.
_ROUNDING = 1e-12


class RootOfSquares(Estimate):
    """`sqrt(sum_j theta_j^2)`, an `Estimate` whose interval keeps its level for few draws as well.

    The square of a noisy coordinate is skewed, and where it is small its stated error is small too. An interval of the
    sum by its standard error therefore covers too rarely: 88 % instead of 95 % for the energy distance of an attention
    layer of width 64 from 2^11 draws, and so does the interval of the root by its own. In one direction the interval is
    exact, `(|x_j| - t s_j)^2` to `(|x_j| + t s_j)^2`. The distances of its ends from the estimates are combined over
    the directions as standard errors are (Zou and Donner 2008, "Construction of confidence limits about effect
    measures"), which covers 96 % there.

    Args:
        squared: An unbiased estimate of the sum, which gives the value and its standard error.
        coordinates: The measured `x_j` of independent errors.
        errors: Their standard errors `s_j`.
    """

    squared: Estimate
    coordinates: np.ndarray
    errors: np.ndarray

    def __new__(cls, squared: Estimate, coordinates: np.ndarray, errors: np.ndarray) -> Self:
        plain = root_of_square(squared)
        self: Any = super().__new__(cls, float(plain), plain.stderr, plain.dof)
        self.squared, self.coordinates, self.errors = squared, coordinates, errors
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:  # type: ignore[override]
        return self.squared, self.coordinates, self.errors

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The central confidence interval, as `Estimate.interval`."""
        super().interval(level)  # checks the level
        tail = 0.5 + level / 2
        reach = self.errors * float(ndtri(tail) if np.isinf(self.dof) else stdtrit(self.dof, tail))
        size, unbiased = np.abs(self.coordinates), self.coordinates**2 - self.errors**2
        below = np.linalg.norm(unbiased - np.maximum(size - reach, 0.0) ** 2)
        above = np.linalg.norm((size + reach) ** 2 - unbiased)
        low, high = np.sqrt(np.maximum([self.squared - below, self.squared + above], 0.0))
        return float(low), float(high)


def root_of_square(squared: Estimate) -> Estimate:
    """The root of an estimate that may be negative. Near 0 its error is the root of the error, not the linear one."""
    root = float(np.sqrt(max(squared, 0.0)))
    spread = float(np.sqrt(squared.stderr))
    return Estimate(root, min(squared.stderr / (2 * root), spread) if root > 0 else spread, squared.dof)


def length_of(vector: np.ndarray, squared: Estimate, *shifts: np.ndarray) -> RootOfSquares:
    """The length of a vector, with its interval from the directions in which errors are independent.

    Args:
        vector: The measured vector.
        squared: An unbiased estimate of its squared length.
        *shifts: For each independent sample behind it, the change of the vector when each of `B` batches is left out,
            `(B, len(vector))`; no rows for a sample without randomness.
    """
    scaled = [np.sqrt((len(rows) - 1) / len(rows)) * (rows - rows.mean(axis=0)) for rows in shifts if len(rows) > 1]
    if not scaled:
        return RootOfSquares(squared, np.empty(0), np.empty(0))
    # The covariance of the jackknife is R^T R. There are fewer batches than coordinates, so diagonalise R R^T.
    rows = np.concatenate(scaled)
    square = rows @ rows.T
    if not square.any():
        return RootOfSquares(squared, np.empty(0), np.empty(0))
    # Lanczos' method finds these few in a millisecond. Dense solvers take a second where other processes share the
    # cores with the threads of LAPACK.
    start = np.cos(np.arange(len(rows)))  # not the vector of ones, which centred rows annihilate
    variances, vectors = eigsh(square, k=min(_DIRECTIONS, len(rows) - 1), v0=start)
    kept = variances > _ROUNDING * variances.max()
    errors = np.sqrt(variances[kept])
    return RootOfSquares(squared, (vectors[:, kept].T @ (rows @ vector)) / errors, errors)

"""Expectations of functions of standard normals, each with its error."""

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from ._sobol import sobol_normals

_REACH = 9.0  # standard deviations covered by a grid: the mass beyond is 2e-19
_GRID = {1: (32_768, 30_011), 2: (512, 479), 3: (96, 89)}  # nodes per axis of a grid, and of the one that checks it
_CHUNK = 2**17
_SCRAMBLINGS = 8
_POINTS = 2**14

Integrand = Callable[[jax.Array], jax.Array]


def gaussian_expectation(f: Integrand, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """`E f(xi)`, `xi ~ N(0, I)` in `dimension` dimensions, and its standard error.

    `f` maps points `(dimension, N)` to values `(..., N)`, in float64. Up to three dimensions: the trapezoid rule on two
    grids of different steps, whose difference is the error (geometric convergence for smooth `f`, second order at kinks);
    where that leaves more than the spread of randomised quasi-Monte Carlo, and above three dimensions: scrambled
    Sobol points, the error from independent scramblings.

    !!! Example

        >>> import jax.numpy as jnp
        >>> from limitlaw.numerics import gaussian_expectation
        >>> value, error = gaussian_expectation(lambda xi: jnp.cos(xi[0] + 2 * xi[1]), 2)
        >>> print(value.round(12), error < 1e-12)  # exp(-5/2)
        0.082084998624 True
    """
    with jax.enable_x64(True):
        if dimension == 0:
            value = np.asarray(np.asarray(f(jnp.zeros((0, 1))))[..., 0])
            return value, np.zeros_like(value)
        if dimension > max(_GRID):
            return _quasi_monte_carlo(f, dimension)
        value, error = _trapezoid(f, dimension)
        if dimension > 1 and np.max(error) > 1e-7:
            other, spread = _quasi_monte_carlo(f, dimension)
            if np.max(spread) < np.max(error):
                return other, spread
        return value, error


def _trapezoid(f: Integrand, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    # Different steps, not a shift: a kink that lies along the grid looks the same to a shifted one.
    value, check = (_weighted_sum(f, _tensor_nodes(*gaussian_axis(count), dimension)) for count in _GRID[dimension])
    return value, np.asarray(np.abs(value - check))


def gaussian_axis(count: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` nodes and weights of the trapezoid rule for one standard normal.

    !!! Example

        >>> from limitlaw.numerics import gaussian_axis
        >>> nodes, weights = gaussian_axis(64)
        >>> print(round(float(weights @ nodes**4), 12))
        3.0
    """
    nodes = np.linspace(-_REACH, _REACH, count)
    weights = np.exp(-(nodes**2) / 2)
    return nodes, weights / weights.sum()


def _tensor_nodes(axis: np.ndarray, weight: np.ndarray, dimension: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    count = len(axis)
    for start in range(0, count**dimension, _CHUNK):
        flat = np.arange(start, min(start + _CHUNK, count**dimension))
        indices = np.stack(np.unravel_index(flat, (count,) * dimension))
        yield axis[indices], weight[indices].prod(axis=0)


def _weighted_sum(f: Integrand, nodes: Iterator[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    return np.asarray(np.sum([np.asarray(f(jnp.asarray(points))) @ weights for points, weights in nodes], axis=0))


def _quasi_monte_carlo(f: Integrand, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    means = np.stack(
        [
            np.asarray(f(jnp.asarray(sobol_normals(dimension, _POINTS, seed)))).mean(axis=-1)
            for seed in range(_SCRAMBLINGS)
        ]
    )
    return np.asarray(means.mean(axis=0)), np.asarray(means.std(axis=0, ddof=1) / np.sqrt(_SCRAMBLINGS))

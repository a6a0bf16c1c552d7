"""Expectations of functions of standard normals by the trapezoid rule, Mehler's series and scrambled Sobol points.

With the Gaussian weight the trapezoid rule converges geometrically for smooth functions. `scipy.integrate.cubature` has
neither this weight nor support for JAX functions of many points at once.
"""

import functools
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, Float

REACH = 9.0  # radius of a grid in standard deviations; the mass beyond is 2e-19
_HERMITE_REACH = 8.5  # radius of the rule for Hermite coefficients, which are float32; the mass beyond is 2e-17
_HERMITE_NODES = 160  # nodes in steps of 0.1, which integrate Hermite polynomials of low degree to rounding
_HERMITE_TERMS = 40  # terms of Mehler's series, for the accuracy that Activation.kernel states
_GRID = {1: (32_768, 30_011), 2: (512, 479), 3: (96, 89)}  # nodes per axis of a grid and of its check, by dimension
_CHUNK = 2**17  # points in memory at once, about 10 MB for a handful of integrands
_SCRAMBLINGS = 8  # independent scramblings, whose spread gives the error
_POINTS = 2**14  # Sobol points of each scrambling, a power of two for balance

Integrand = Callable[[jax.Array], jax.Array]


def gaussian_expectation(f: Integrand, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """`E f(xi)` for `xi ~ N(0, I)` in `dimension` dimensions, and its standard error.

    In up to three dimensions the trapezoid rule is used on two grids with different steps, whose difference is the
    error. It converges geometrically for smooth `f`, and with second order at kinks. Above three dimensions, or if it
    is more accurate, scrambled Sobol points are used, with an error from independent scramblings.

    Args:
        f: A function from points `(dimension, N)` to values `(..., N)`, in float64.
        dimension: The number of independent normals.

    Returns:
        The values and their errors, `(...)` each.

    Example:
        >>> import jax.numpy as jnp
        >>> from limitlaw.numerics.integrate import gaussian_expectation
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
        # In several dimensions a kink or a jump along a surface may favour scrambled points.
        value, error = _trapezoid(f, dimension)
        if dimension > 1 and np.max(error) > 1e-7:
            other, spread = _quasi_monte_carlo(f, dimension)
            if np.max(spread) < np.max(error):
                return other, spread
        return value, error


def _trapezoid(f: Integrand, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    # The check has another step. A shifted grid would not notice a kink that lies along the grid.
    value, check = (_weighted_sum(f, _tensor_nodes(*gaussian_axis(count), dimension)) for count in _GRID[dimension])
    return value, np.asarray(np.abs(value - check))


def gaussian_axis(count: int, reach: float = REACH, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the trapezoid rule for one standard normal.

    Args:
        count: The number of nodes.
        reach: The first and last node, in standard deviations.
        shift: The share of a step by which all nodes are moved.

    Returns:
        The nodes, and weights that sum to 1, `(count,)` each.

    Example:
        >>> from limitlaw.numerics.integrate import gaussian_axis
        >>> nodes, weights = gaussian_axis(64)
        >>> print(round(float(weights @ nodes**4), 12))
        3.0
    """
    nodes = np.linspace(-reach, reach, count) + shift * 2 * reach / (count - 1)
    weights = np.exp(-(nodes**2) / 2)
    return nodes, weights / weights.sum()


def _tensor_nodes(axis: np.ndarray, weight: np.ndarray, dimension: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    # Chunks of the product grid bound the memory of the integrand.
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


@functools.cache
def _hermite_rule() -> tuple[np.ndarray, np.ndarray]:
    """Nodes `z`, and `w(z) h_k(z)` for the orthonormal Hermite polynomials `h_k`, `(terms, nodes)`."""
    nodes, weights = gaussian_axis(_HERMITE_NODES, _HERMITE_REACH)
    # The three-term recursion of orthonormal polynomials is stable, unlike sums of powers.
    polynomials = [np.ones_like(nodes), nodes]
    for k in range(1, _HERMITE_TERMS - 1):
        polynomials.append((nodes * polynomials[k] - np.sqrt(k) * polynomials[k - 1]) / np.sqrt(k + 1))
    return nodes, np.array(polynomials) * weights


def mehler_kernel(
    phi: Callable[[jax.Array], jax.Array], variance: Float[Array, "s *draws"], covariance: Float[Array, "s s *draws"]
) -> Float[Array, "s s *draws"]:
    """`E phi(u_i) phi(u_j)` of centred Gaussians by 40 terms of Mehler's series in their correlation.

    Args:
        phi: A coordinatewise function.
        variance: The variances of `u`.
        covariance: The covariances of `u`.

    Returns:
        The matrices of second moments. The part of the diagonal that the series misses is assigned to its next power.

    Example:
        >>> import jax.numpy as jnp
        >>> from limitlaw.numerics.integrate import mehler_kernel  # of squares: 1 + 2 rho^2
        >>> print(mehler_kernel(lambda x: x**2, jnp.ones(2), jnp.array([[1.0, 0.5], [0.5, 1.0]])).round(4))
        [[3.  1.5]
         [1.5 3. ]]
    """
    nodes, weighted = _hermite_rule()
    nodes, weighted = jnp.asarray(nodes, variance.dtype), jnp.asarray(weighted, variance.dtype)
    std = _safe_sqrt(variance)
    values = phi(nodes.reshape(-1, *[1] * std.ndim) * std)
    # phi(sqrt(a) z) = sum_k c_k(a) h_k(z), so E phi(u_i) phi(u_j) = sum_k c_k(a_i) c_k(a_j) rho^k (Mehler).
    coefficients = jnp.tensordot(weighted, values, axes=1, precision="highest")
    second = jnp.tensordot(weighted[0], values**2, axes=1, precision="highest")
    rest = _safe_sqrt(second - jnp.sum(coefficients**2, axis=0))
    size = std[:, None] * std[None]
    alive = size > 0
    rho = jnp.clip(jnp.where(alive, covariance, 0.0) / jnp.where(alive, size, 1.0), -1.0, 1.0)
    # Horner's rule in rho. The remainder of E phi^2 takes the power after the last term, so the diagonal is right and
    # the matrix is a sum of positive semi-definite ones.
    total = rest[:, None] * rest[None]
    for c in coefficients[::-1]:
        total = c[:, None] * c[None] + rho * total
    return total


def _safe_sqrt(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The square root, with value and derivative 0 where the argument is not positive."""
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1.0)), 0.0)


def hermite_mean(phi: Callable[[jax.Array], jax.Array], variance: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """`E phi(u)` of centred Gaussians, by the quadrature rule of `mehler_kernel`.

    Args:
        phi: A coordinatewise function.
        variance: The variances of `u`.

    Returns:
        The means.

    Example:
        >>> import jax.numpy as jnp
        >>> from limitlaw.numerics.integrate import hermite_mean
        >>> hermite_mean(lambda x: x**2, jnp.array([1.0, 4.0])).round(4).tolist()
        [1.0, 4.0]
    """
    nodes, weighted = _hermite_rule()
    nodes, weights = jnp.asarray(nodes, variance.dtype), jnp.asarray(weighted[0], variance.dtype)
    values = phi(nodes.reshape(-1, *[1] * variance.ndim) * _safe_sqrt(variance))
    return jnp.tensordot(weights, values, axes=1, precision="highest")


def mehler_error(phi: Callable[[jax.Array], jax.Array]) -> float:
    """The error of the quadrature behind `mehler_kernel`, as a share of `E phi^2`.

    Args:
        phi: A coordinatewise function.

    Returns:
        The largest change of the averages of `phi` and `phi^2` at three variances when the nodes are shifted.

    Example:
        >>> import jax.numpy as jnp
        >>> from limitlaw.numerics.integrate import mehler_error
        >>> mehler_error(jnp.tanh) < 1e-6, mehler_error(jnp.sign) > 0.05
        (True, True)
    """
    rules = [gaussian_axis(_HERMITE_NODES, _HERMITE_REACH, shift) for shift in (0.0, 0.3, 0.7)]
    nodes, weights = (np.array(part) for part in zip(*rules, strict=True))
    # Shifted rules agree for smooth functions. They differ by the local error at a kink or a jump.
    worst = 0.0
    for std in (0.5, 1.0, 2.0):
        values = np.asarray(phi(jnp.asarray(std * nodes, jnp.float32)), np.float64)
        size = np.mean(np.sum(weights * values**2, axis=1))
        for power, scale in ((1, np.sqrt(size)), (2, size)):
            worst = max(worst, float(np.ptp(np.sum(weights * values**power, axis=1)) / scale) if scale > 0 else 0.0)
    return worst


def sobol_uniforms(dimension: int, points: int, rng: int | np.random.Generator) -> np.ndarray:
    """Scrambled Sobol points in the open unit cube.

    Args:
        dimension: The dimension of the cube.
        points: The number of points, a power of two for an even spread.
        rng: A seed, or a generator. With a generator, repeated calls give independent scramblings.

    Returns:
        An array `(dimension, points)` in float64.

    Example:
        >>> from limitlaw.numerics.integrate import sobol_uniforms
        >>> sobol_uniforms(3, 4096, 0).mean().round(4)
        np.float64(0.5)
    """
    from scipy.stats import qmc  # imported here because it takes 0.3 s

    sequence = qmc.Sobol(dimension, rng=np.random.default_rng(rng))
    # A point may be exactly 0. A quarter of a cell of the lattice 2^-30 moves it inside the cube.
    return sequence.random(points).T + 2.0**-32


def sobol_normals(dimension: int, points: int, rng: int | np.random.Generator) -> np.ndarray:
    """Standard normals `(dimension, points)`, the quantiles of `sobol_uniforms`.

    Args:
        dimension: The number of independent normals in a point.
        points: The number of points, a power of two for an even spread.
        rng: A seed, or a generator.

    Returns:
        An array `(dimension, points)` in float64.

    Example:
        >>> from limitlaw.numerics.integrate import sobol_normals
        >>> print(abs((sobol_normals(3, 4096, 0) ** 2).mean(axis=1) - 1).max() < 5e-3)
        True
    """
    return scipy.special.ndtri(sobol_uniforms(dimension, points, rng))

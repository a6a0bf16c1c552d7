"""Dual activations without a closed form: Mehler's series in the correlation."""

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

_TERMS = 40
_NODES = 160  # of the quadrature behind the coefficients
_REACH = 8.5


@functools.cache
def _hermite_rule() -> tuple[np.ndarray, np.ndarray]:
    """Nodes `z`, and `w(z) h_k(z)` for the orthonormal Hermite polynomials `h_k`, `(terms, nodes)`; the trapezoid rule, which converges geometrically."""
    nodes = np.linspace(-_REACH, _REACH, _NODES)
    weights = np.exp(-(nodes**2) / 2)
    weights /= weights.sum()
    polynomials = [np.ones_like(nodes), nodes]
    for k in range(1, _TERMS - 1):
        polynomials.append((nodes * polynomials[k] - np.sqrt(k) * polynomials[k - 1]) / np.sqrt(k + 1))
    return nodes, np.array(polynomials) * weights


def mehler_kernel(
    phi: Callable[[Any], Array], variance: Float[Array, "s *draws"], covariance: Float[Array, "s s *draws"]
) -> Float[Array, "s s *draws"]:
    """`E phi(u_i) phi(u_j)` for Gaussians with these variances and covariances, from `_TERMS` powers of the correlation.

    !!! Example

        >>> import jax.numpy as jnp
        >>> from limitlaw.numerics import mehler_kernel
        >>> print(mehler_kernel(lambda x: x**2, jnp.ones(2), jnp.array([[1.0, 0.5], [0.5, 1.0]])).round(4))  # 1 + 2 rho^2
        [[3.  1.5]
         [1.5 3. ]]
    """
    nodes, weighted = _hermite_rule()
    nodes, weighted = jnp.asarray(nodes, variance.dtype), jnp.asarray(weighted, variance.dtype)
    std = jnp.sqrt(variance)
    values = phi(nodes.reshape(-1, *[1] * std.ndim) * std)
    coefficients = jnp.tensordot(weighted, values, axes=1, precision="highest")
    second = jnp.tensordot(weighted[0], values**2, axes=1, precision="highest")
    rest = jnp.sqrt(jnp.maximum(second - jnp.sum(coefficients**2, axis=0), 0.0))
    size = std[:, None] * std[None]
    alive = size > 0
    rho = jnp.clip(jnp.where(alive, covariance, 0.0) / jnp.where(alive, size, 1.0), -1.0, 1.0)
    total = rest[:, None] * rest[None]
    for c in coefficients[::-1]:
        total = c[:, None] * c[None] + rho * total
    return total


def rule_error(phi: Callable[[Any], Array]) -> float:
    """The error of the quadrature behind the series: by how much averages of `phi` and `phi^2` change, as shares of `E phi^2`, if its nodes move by part of a step."""
    step = 2 * _REACH / (_NODES - 1)
    nodes = np.linspace(-_REACH, _REACH, _NODES) + step * np.array([[0.0], [0.3], [0.7]])
    weights = np.exp(-(nodes**2) / 2)
    weights /= weights.sum(axis=1, keepdims=True)
    worst = 0.0
    for std in (0.5, 1.0, 2.0):
        values = np.asarray(phi(jnp.asarray(std * nodes, jnp.float32)), np.float64)
        size = np.mean(np.sum(weights * values**2, axis=1))
        for power, scale in ((1, np.sqrt(size)), (2, size)):
            worst = max(worst, float(np.ptp(np.sum(weights * values**power, axis=1)) / scale) if scale > 0 else 0.0)
    return worst

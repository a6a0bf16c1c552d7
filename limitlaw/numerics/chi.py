"""Chi-square variables with any number of degrees of freedom, including infinity, from one normal each.

JAX has no inverse of the incomplete gamma function. That of scipy takes 780 ns per number on the host. The table here
takes 7 ns in a compiled program, where degrees of freedom may be traced. The transform is increasing, so equal normals
couple all widths.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, Float

_RANGE = 6.0  # normals are clipped at six standard deviations, which none in float32 exceeds
_DEGREE_NORMAL = 40  # number of Chebyshev polynomials in the normal ...
_DEGREE_DOF = 24  # ... and in 1 / sqrt(dof), for an error of 4e-8


@functools.cache
def _table() -> np.ndarray:
    """Chebyshev coefficients of `w(z, u) = (F_k^{-1}(Phi(z)) / k)^(1/3)`, `u = 1 / sqrt(k)`, on [-6, 6] x [0, 1].

    `F_k` is the chi-square cdf. In these variables `w` is smooth up to `u = 0` (Wilson and Hilferty's cube root
    is nearly linear in `z`), so one table serves every `k >= 1`: the largest error is 4e-8, at `k = 1`.
    """
    angles_z = np.pi * (np.arange(_DEGREE_NORMAL) + 0.5) / _DEGREE_NORMAL
    angles_u = np.pi * (np.arange(_DEGREE_DOF) + 0.5) / _DEGREE_DOF
    z, u = np.meshgrid(_RANGE * np.cos(angles_z), (np.cos(angles_u) + 1) / 2, indexing="ij")
    # Each half uses the tail that is small there, because the other one rounds to 1.
    half = 0.5 / u**2
    lower = scipy.special.gammaincinv(half, scipy.special.ndtr(z))
    upper = scipy.special.gammainccinv(half, scipy.special.ndtr(-z))
    w = np.cbrt(np.where(z < 0, lower, upper) / half)
    basis_z = np.cos(np.outer(np.arange(_DEGREE_NORMAL), angles_z))
    basis_u = np.cos(np.outer(np.arange(_DEGREE_DOF), angles_u))
    coefficients = (2 / _DEGREE_NORMAL) * (2 / _DEGREE_DOF) * basis_z @ w @ basis_u.T
    coefficients[0] /= 2
    coefficients[:, 0] /= 2
    return coefficients


def chi_square_mean(
    normal: Float[Array, "*draws"], dof: Float[Array, "*leading"] | int | float
) -> Float[Array, "*draws"]:
    """`chi2(dof) / dof` as an increasing function of a standard normal: the mean of `dof` squared normals.

    The quantile transform `F_dof^{-1}(Phi(z)) / dof` from a Chebyshev table in `(z, 1/sqrt(dof))`, exact to float32
    (its cube root to 1e-6, the rounding of the sum; the table itself to 4e-8).

    Args:
        normal: Standard normals.
        dof: Degrees of freedom along the leading axes of `normal`; they may be traced. At `inf` the mean is 1, at
            `dof <= 0` it is 0.

    Returns:
        The transformed numbers, of the shape of `normal`.

    Example:
        >>> import jax.numpy as jnp, scipy.stats
        >>> from limitlaw.numerics.chi import chi_square_mean
        >>> print(chi_square_mean(jnp.array([-1.0, 0.0, 2.0]), 5.0).round(4))
        [0.4112 0.8703 2.6136]
        >>> print((scipy.stats.chi2.ppf(scipy.stats.norm.cdf([-1, 0, 2]), 5) / 5).round(4))
        [0.4112 0.8703 2.6136]
    """
    dof = jnp.asarray(dof, normal.dtype)
    # A branch and not a select. At infinity nothing is computed, and elsewhere XLA cannot fuse the polynomial into
    # every consumer of the result, where it would be evaluated again.
    return jax.lax.cond(jnp.isinf(dof).all(), lambda z, k: jnp.ones_like(z), _transformed, normal, dof)


def _transformed(normal: Float[Array, "*draws"], dof: Float[Array, "*leading"]) -> Float[Array, "*draws"]:
    angle = jnp.arccos(2.0 / jnp.sqrt(jnp.maximum(dof, 1.0)) - 1.0)
    basis = jnp.cos(jnp.multiply.outer(jnp.arange(_DEGREE_DOF, dtype=normal.dtype), angle))
    coefficients = jnp.tensordot(jnp.asarray(_table(), normal.dtype), basis, axes=1, precision="highest")

    def along_leading(a: Array) -> Array:
        return a.reshape(*a.shape, *[1] * (normal.ndim - dof.ndim))

    x = jnp.clip(normal / _RANGE, -1.0, 1.0)
    cube_root = jnp.maximum(_clenshaw([along_leading(c) for c in coefficients], x), 0.0)
    return jnp.where(along_leading(dof > 0), cube_root**3, 0.0)


def _clenshaw(coefficients: list[Array], x: Float[Array, "*draws"]) -> Float[Array, "*draws"]:
    """Sum of `coefficients[k] T_k(x)`, stable at any degree."""
    b1, b2 = jnp.zeros_like(x), jnp.zeros_like(x)
    for c in coefficients[:0:-1]:
        b1, b2 = c + 2.0 * x * b1 - b2, b1
    return coefficients[0] + x * b1 - b2

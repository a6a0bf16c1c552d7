"""Gaussian vectors known only through their inner products.

JAX has no sampler of Wishart matrices. Those of other libraries draw normals internally, so different widths would not
be coupled, and they need at least as many dimensions as vectors. Here the dimension may be traced, small or infinite.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .chi import chi_square_mean


def bartlett_normals(vectors: int, axes: int) -> int:
    """The number of normals that `bartlett` uses, those in the lower trapezoid of a `vectors x axes` matrix.

    Args:
        vectors: The number of vectors.
        axes: The number of axes.

    Returns:
        The number of normals.

    Example:
        >>> from limitlaw.numerics.bartlett import bartlett_normals
        >>> bartlett_normals(3, 3), bartlett_normals(3, 1)
        (6, 3)
    """
    return sum(min(i + 1, axes) for i in range(vectors))


def bartlett(
    normals: Float[Array, "m *draws"], vectors: int, axes: int, dim: Float[Array, ""] | int | float
) -> Float[Array, "vectors axes *draws"]:
    """Coordinates of `vectors` independent `N(0, I_dim / dim)` vectors along the span of the first `axes` of them.

    This is the Bartlett decomposition. In the frame of Gram-Schmidt on the vectors, vector `i` has normal coordinates
    on the axes `j < i` and the coordinate `chi(dim - i)` on axis `i`. Axes beyond `dim` do not exist, so their columns
    are zero. With `axes == vectors` the result `T` is a root of the scaled Wishart matrix, `T T^T ~ W(dim, I) / dim`.
    `dim = inf` gives the identity.

    Args:
        normals: Standard normals, `bartlett_normals(vectors, axes)` along the first axis.
        vectors: The number of vectors.
        axes: The number of axes of the result.
        dim: The dimension of the vectors, which may be traced.

    Returns:
        The coordinates, lower triangular.

    Example:
        >>> import jax.numpy as jnp
        >>> from limitlaw.numerics.bartlett import bartlett
        >>> bartlett(jnp.array([0.3, -1.0, 0.2]), 2, 2, jnp.inf).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        >>> bartlett(jnp.array([0.3, -1.0, 0.2]), 2, 2, 1)[:, 1].tolist()  # one dimension has no second axis
        [0.0, 0.0]
    """
    dim = jnp.asarray(dim, normals.dtype)
    draws = normals.shape[1:]
    own = min(vectors, axes)
    axis = jnp.arange(own, dtype=normals.dtype)
    # (dim - i) / dim is the mean square of coordinate i of vector i, which is 1 at infinite dimension.
    share = jnp.where(jnp.isinf(dim), 1.0, jnp.maximum(dim - axis, 0.0) / jnp.where(jnp.isinf(dim), 1.0, dim))
    length = jnp.sqrt(_along_leading(share, draws) * chi_square_mean(normals[:own], dim - axis))
    scale = _along_leading(jnp.where(axis < dim, 1.0 / jnp.sqrt(dim), 0.0), draws)
    # One selection serves all entries. A separate operation for each entry takes twice as long to compile.
    below, diagonal = np.tril(np.ones((vectors, axes), bool), -1), np.eye(vectors, axes, dtype=bool)
    place = np.where(below, own - 1 + np.cumsum(below).reshape(below.shape), 0)
    scale = jnp.concatenate([scale, jnp.zeros((axes - own, *scale.shape[1:]), scale.dtype)])
    length = length[:, None] if own == vectors else length[None]
    coordinates = jnp.where(_over_draws(below, draws), normals[place] * scale, 0.0)
    return jnp.where(_over_draws(diagonal, draws), length, coordinates)


def _over_draws(mask: np.ndarray, draws: tuple[int, ...]) -> np.ndarray:
    return mask.reshape(*mask.shape, *[1] * len(draws))


def _along_leading(a: Float[Array, "k"], draws: tuple[int, ...]) -> Array:
    return a.reshape(-1, *[1] * len(draws))

"""Gaussian vectors known only through their inner products.

JAX draws no Wishart matrices. The samplers of other libraries draw normals of their own, so that widths would not be
coupled, and need at least as many dimensions as vectors; here the dimension is traced, small or infinite.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .chi import chi_square_mean


def bartlett_normals(vectors: int, axes: int) -> int:
    """How many normals `bartlett` uses: the lower trapezoid of a `vectors x axes` matrix.

    Args:
        vectors: The number of vectors.
        axes: The number of axes along which they are wanted.

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

    The Bartlett decomposition: in the frame that Gram-Schmidt makes of the vectors themselves, vector `i` has normal
    coordinates on the axes `j < i` and `chi(dim - i)` on its own. Axes beyond `dim` do not exist: their columns are
    zero. With `axes == vectors` the result `T` is a root of the scaled Wishart matrix, `T T^T ~ W(dim, I) / dim`;
    `dim = inf` gives the identity.

    Args:
        normals: Standard normals, `bartlett_normals(vectors, axes)` along the first axis.
        vectors: The number of vectors.
        axes: The number of axes along which they are wanted.
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
    # (dim - i) / dim, the share of the squared length that is left for a vector's own axis; 1 at infinity.
    share = jnp.where(jnp.isinf(dim), 1.0, jnp.maximum(dim - axis, 0.0) / jnp.where(jnp.isinf(dim), 1.0, dim))
    length = jnp.sqrt(_along_leading(share, draws) * chi_square_mean(normals[:own], dim - axis))
    scale = _along_leading(jnp.where(axis < dim, 1.0 / jnp.sqrt(dim), 0.0), draws)
    # one selection for all entries: a line of the program for each takes twice as long to compile
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

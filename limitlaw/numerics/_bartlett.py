"""Gaussian vectors known only through their inner products."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._chi import chi_square_mean

_UNROLL = 16  # vectors whose rows are written out one by one


def bartlett_normals(vectors: int, axes: int) -> int:
    """How many normals `bartlett` uses: the lower trapezoid of a `vectors x axes` matrix."""
    return sum(min(i + 1, axes) for i in range(vectors))


def bartlett(
    normals: Float[Array, "m *draws"], vectors: int, axes: int, dim: Float[Array, ""] | int | float
) -> Float[Array, "vectors axes *draws"]:
    """Coordinates of `vectors` independent `N(0, I_dim / dim)` vectors along the span of the first `axes` of them.

    The Bartlett decomposition: in the frame that Gram-Schmidt makes of the vectors themselves, vector `i` has normal
    coordinates on the axes `j < i` and `chi(dim - i)` on its own. Axes beyond `dim` do not exist: their columns are
    zero. With `axes == vectors` the result `T` is a root of the scaled Wishart matrix, `T T^T ~ W(dim, I) / dim`;
    `dim = inf` gives the identity.

    !!! Example

        >>> import jax.numpy as jnp
        >>> from limitlaw.numerics import bartlett
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
    if vectors > _UNROLL:
        return _gathered(normals, length, scale, vectors, axes)
    rows, used = [], own
    for i in range(vectors):
        below = min(i, axes)
        parts = [normals[used : used + below] * scale[:below]]
        used += below
        if i < own:
            parts += [length[i : i + 1], jnp.zeros((axes - i - 1, *draws), normals.dtype)]
        rows.append(jnp.concatenate(parts))
    return jnp.stack(rows)


def _gathered(
    normals: Array, length: Array, scale: Array, vectors: int, axes: int
) -> Float[Array, "vectors axes *draws"]:
    """The same for many vectors: one gather in place of a line of the program for each."""
    own = min(vectors, axes)
    below = np.tril(np.ones((vectors, axes), bool), -1)
    place = np.where(below, own - 1 + np.cumsum(below).reshape(below.shape), 0)
    mask = below.reshape(*below.shape, *[1] * (normals.ndim - 1))
    coordinates = jnp.where(
        mask, normals[place] * jnp.concatenate([scale, jnp.zeros((axes - own, *scale.shape[1:]), scale.dtype)]), 0.0
    )
    return coordinates.at[np.arange(own), np.arange(own)].set(length)


def _along_leading(a: Float[Array, "k"], draws: tuple[int, ...]) -> Array:
    return a.reshape(-1, *[1] * len(draws))

"""Small dense linear algebra on the leading axes; the trailing axes are draws.

The matrices of a batch of draws have shape `(s, s, *draws)`. Draws are adjacent in memory, so every scalar operation of
the algorithm is one vector operation over the batch, and the same code serves a single draw (`draws = ()`). The root of
a 4 x 4 matrix takes 11 ns, and 78 ns by `jnp.linalg.cholesky`, which returns NaN for singular matrices. Gram matrices
of equal tokens, of dead ReLUs, and of more tokens than dimensions are singular.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

_UNROLL = 8  # size up to which loops are unrolled into one fused kernel; larger ones are matrix products
_PANELS = 8  # largest number of unrolled panels of 8 columns: longer programs take seconds to compile


def multiply(a: Float[Array, "i k *draws"], b: Float[Array, "k j *other"]) -> Float[Array, "i j *out"]:
    """`a @ b` on the two leading axes; trailing axes broadcast.

    Args:
        a: Matrices.
        b: Matrices.

    Returns:
        Their products.

    Example:
        >>> import jax.numpy as jnp
        >>> from limitlaw.numerics.linalg import multiply
        >>> multiply(jnp.eye(2), jnp.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """
    if a.shape[1] <= _UNROLL:
        return sum((a[:, k, None] * b[None, k] for k in range(1, a.shape[1])), a[:, 0, None] * b[None, 0])
    # Full precision: an accelerator's default (tf32) would change the law in the fourth digit.
    return jnp.einsum("ik...,kj...->ij...", a, b, precision="highest")


def transpose(a: Float[Array, "i j *draws"]) -> Float[Array, "j i *draws"]:
    """The matrix transpose, on the two leading axes.

    Args:
        a: Matrices.

    Returns:
        Their transposes.

    Example:
        >>> import jax.numpy as jnp
        >>> from limitlaw.numerics.linalg import transpose
        >>> transpose(jnp.array([[1.0, 2.0]])).tolist()
        [[1.0], [2.0]]
    """
    return jnp.swapaxes(a, 0, 1)


def gram(a: Float[Array, "i k *draws"]) -> Float[Array, "i i *draws"]:
    """`a a^T` on the two leading axes.

    Args:
        a: Matrices.

    Returns:
        Their Gram matrices.

    Example:
        >>> import jax.numpy as jnp
        >>> from limitlaw.numerics.linalg import gram
        >>> gram(jnp.array([[3.0, 4.0], [0.0, 1.0]])).tolist()
        [[25.0, 4.0], [4.0, 1.0]]
    """
    return multiply(a, transpose(a))


def psd_root(matrix: Float[Array, "s s *draws"]) -> Float[Array, "s s *draws"]:
    """Lower-triangular `L` with `L L^T = matrix`, for any positive semi-definite matrix, singular ones included.

    Cholesky's recursion with clamped pivots: where the Schur complement of a row vanishes (equal tokens, dead
    ReLUs, fewer dimensions than tokens) its column is zero. A pivot counts as zero below `8 s eps` of its diagonal
    entry. The diagonal of `L L^T` is right to rounding; its other entries are too, except in rows whose pivot was
    clamped after near-singular ones, where rounding of order `eps` can grow to `sqrt(eps)`.

    Args:
        matrix: Positive semi-definite matrices.

    Returns:
        The roots.

    Example:
        >>> import jax.numpy as jnp
        >>> from limitlaw.numerics.linalg import psd_root
        >>> psd_root(jnp.ones((2, 2))).tolist()
        [[1.0, 0.0], [1.0, 0.0]]
    """
    size = matrix.shape[0]
    floor = 8 * size * float(jnp.finfo(matrix.dtype).eps)
    diagonal = jnp.stack([matrix[j, j] for j in range(size)]) if size <= _UNROLL else jnp.einsum("ii...->i...", matrix)
    if not calls_lapack(size):
        return _with_diagonal(_clamped_root(matrix, diagonal, floor), diagonal)
    leading = jnp.moveaxis(matrix.reshape(size, size, -1), 2, 0)
    plain = jnp.moveaxis(jnp.linalg.cholesky(leading, symmetrize_input=False), 0, 2).reshape(matrix.shape)
    # LAPACK's root is used if all pivots are above rounding. The comparison is false for NaN.
    sound = jnp.all(jnp.einsum("ii...->i...", plain) ** 2 > 2 * jnp.finfo(matrix.dtype).eps * diagonal)
    clamped = functools.partial(_one_by_one, diagonal=diagonal, floor=floor)
    return jax.lax.cond(sound, lambda _: plain, lambda matrix: _with_diagonal(clamped(matrix), diagonal), matrix)


def calls_lapack(size: int) -> bool:
    """Whether `psd_root` of matrices of this size calls LAPACK, which deadlocks XLA if two CPU threads do it at once.

    Args:
        size: The number of rows.

    Returns:
        True or False.

    Example:
        >>> from limitlaw.numerics.linalg import calls_lapack
        >>> calls_lapack(32), calls_lapack(1024)
        (False, True)
    """
    return size > _PANELS * _UNROLL


def _scaled(column: Array, pivot: Array, original: Array, floor: float) -> Array:
    # `<=` and not the negation of `>`, so that NaN stays NaN. An infinite diagonal becomes NaN as well and is noticed.
    dead = (pivot <= floor * original) & jnp.isfinite(original)
    return jnp.where(dead, 0.0, column * jax.lax.rsqrt(jnp.where(dead, 1.0, pivot)))


def _clamped_root(matrix: Float[Array, "s s *draws"], diagonal: Float[Array, "s *draws"], floor: float) -> Array:
    """The recursion in unrolled panels of columns, where earlier panels enter as one matrix product."""
    size, draws = matrix.shape[0], matrix.shape[2:]
    panels: list[Array] = []
    for start in range(0, size, _UNROLL):
        stop = min(start + _UNROLL, size)
        rest = matrix[start:, start:stop]
        if panels:
            before = jnp.concatenate([panel[-(size - start) :] for panel in panels], axis=1)
            rest = rest - multiply(before, transpose(before[: stop - start]))
        columns: list[Array] = []
        for j in range(stop - start):
            below = rest[j:, j] - sum((c[j:] * c[j] for c in columns), jnp.zeros_like(rest[j:, j]))
            column = _scaled(below, below[0], diagonal[start + j], floor)
            columns.append(jnp.concatenate([jnp.zeros((j, *draws), column.dtype), column]))
        panels.append(jnp.stack(columns, axis=1))
    above = [jnp.zeros((size - len(panel), *panel.shape[1:]), panel.dtype) for panel in panels]
    return jnp.concatenate([jnp.concatenate(pair) for pair in zip(above, panels, strict=True)], axis=1)


def _one_by_one(matrix: Float[Array, "s s *draws"], diagonal: Float[Array, "s *draws"], floor: float) -> Array:
    """The same recursion as a loop, for matrices too large to unroll."""
    size = matrix.shape[0]
    rows = jnp.arange(size).reshape(-1, *([1] * (matrix.ndim - 2)))

    def step(j: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        rest, root = carry
        col = jnp.where(rows >= j, _scaled(rest[:, j], rest[j, j], diagonal[j], floor), 0.0)
        return rest - col[:, None] * col[None], root.at[:, j].set(col)

    return jax.lax.fori_loop(0, size, step, (matrix, jnp.zeros_like(matrix)))[1]


def _with_diagonal(root: Float[Array, "s s *draws"], diagonal: Float[Array, "s *draws"]) -> Float[Array, "s s *draws"]:
    """Rows scaled to the lengths that the diagonal requires, which clamping a negative pivot changes."""
    squared = jnp.sum(root**2, axis=1)
    dead = squared <= 0
    # The derivative of the root at 0 is infinite, so the root of 1 is taken for zero rows.
    ratio = jnp.where(dead, 1.0, diagonal) / jnp.where(dead, 1.0, squared)
    return root * jnp.where(dead, 0.0, jnp.sqrt(ratio))[:, None]


def narrow_root(matrix: np.ndarray, floor: float = 1e-6) -> np.ndarray:
    """`R` with `R R^T = matrix` and as many columns as its rank, in float64 on the host.

    The rank counts eigenvalues of the correlation matrix above `floor`, so that it does not depend on units.

    Args:
        matrix: A positive semi-definite matrix.
        floor: The eigenvalue below which an axis is dropped.

    Returns:
        The root, `(s, rank)`.

    Example:
        >>> import numpy as np
        >>> from limitlaw.numerics.linalg import narrow_root
        >>> narrow_root(np.ones((3, 3))).shape
        (3, 1)
    """
    # A zero row has no correlations; with the unit 1 it stays zero.
    scale = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    unit = np.where(scale > 0, scale, 1.0)
    eigenvalues, eigenvectors = np.linalg.eigh(matrix / np.outer(unit, unit))
    alive = eigenvalues > floor
    return scale[:, None] * eigenvectors[:, alive] * np.sqrt(eigenvalues[alive])

"""Programs at finite dimensions: the dense reading draws every matrix, the lazy one reveals matrices on demand."""

import abc
import functools
from collections.abc import Callable
from math import sqrt
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..numerics.batches import Batch, largest_power_of_two
from ..numerics.linalg import narrow_root
from ._program import Initials, MatMul, Matrix, Nonlin, Scalar, Score, Value, Vector, coordinatewise, needed_lines

_BATCH_FLOATS = 2**23  # float32 numbers that a batch holds at once, 32 MiB
_SPAN = 1e-5  # relative distance from the span of earlier vectors, below which a vector counts as inside in float32


class Products(abc.ABC):
    """The products of one run of a program with its random matrices, which may have been used before."""

    @abc.abstractmethod
    def __call__(
        self, matrix: Matrix, x: Float[Array, "a"], key: PRNGKeyArray, dims: dict[str, int]
    ) -> Float[Array, "b"]: ...


class DenseProducts(Products):
    """Draws a matrix in full at its first product, and keeps it."""

    def __init__(self) -> None:
        self.drawn: dict[str, Float[Array, "b a"]] = {}

    def __call__(
        self, matrix: Matrix, x: Float[Array, "a"], key: PRNGKeyArray, dims: dict[str, int]
    ) -> Float[Array, "b"]:
        if matrix.name not in self.drawn:
            shape = (dims[matrix.to], dims[matrix.source])
            self.drawn[matrix.name] = sqrt(matrix.var / dims[matrix.source]) * jax.random.normal(key, shape)
        return self.drawn[matrix.name] @ x


class LazyProducts(Products):
    """Keeps, for each matrix, an orthonormal basis of the vectors it has multiplied, and the images of that basis.

    The image of a new unit direction that is orthogonal to all earlier ones is `N(0, var / fan_in)` in every coordinate
    and independent of everything else. The rest of a product follows by linearity. This is exact, and costs
    `O(dim k)` for the k-th product.
    """

    def __init__(self) -> None:
        self.met: dict[str, list[tuple[Float[Array, "a"], Float[Array, "b"]]]] = {}

    def __call__(
        self, matrix: Matrix, x: Float[Array, "a"], key: PRNGKeyArray, dims: dict[str, int]
    ) -> Float[Array, "b"]:
        met = self.met.setdefault(matrix.name, [])
        rest, image = x, jnp.zeros(dims[matrix.to], x.dtype)
        # One pass of Gram-Schmidt loses orthogonality to rounding; a second pass restores it.
        for _ in range(2):
            for direction, its_image in met:
                along = direction @ rest
                rest, image = rest - along * direction, image + along * its_image
        length = jnp.linalg.norm(rest)
        # Shapes are static under jit, so a vector inside the span also adds a direction, of length zero.
        is_new = length > _SPAN * jnp.linalg.norm(x)
        direction = jnp.where(is_new, rest / jnp.where(is_new, length, 1.0), 0.0)
        its_image = sqrt(matrix.var / dims[matrix.source]) * jax.random.normal(key, (dims[matrix.to],))
        met.append((direction, its_image))
        return image + jnp.where(is_new, length, 0.0) * its_image


_PRODUCTS: dict[str, Callable[[], Products]] = {"dense": DenseProducts, "lazy": LazyProducts}


def execute(targets: tuple[Value, ...], dims: dict[str, int], products: Products, key: PRNGKeyArray) -> list[Array]:
    """The values of the targets in one run of the lines that they need."""
    # The key of a line depends on its number alone, so a value is the same whichever targets are asked for.
    program = targets[0].program
    values: dict[Value, Array] = {}
    for number in needed_lines(targets):
        line, key_line = program.lines[number], jax.random.fold_in(key, number)
        match line:
            case Initials(outputs, mean, cov):
                root = jnp.asarray(narrow_root(cov), jnp.float32)
                normals = jax.random.normal(key_line, (root.shape[1], dims[outputs[0].space]))
                values.update(zip(outputs, root @ normals + jnp.asarray(mean, jnp.float32)[:, None], strict=True))
            case MatMul(output, matrix, vector):
                values[output] = products(matrix, values[vector], key_line, dims)
            case Nonlin(output, _, vectors, scalars):
                values[output] = line.apply([values[v] for v in vectors], [values[p] for p in scalars])
            case Score(output, left, right, scale):
                dim = dims[left.space]
                values[output] = values[left] @ values[right] / (sqrt(dim) if scale == "sqrt" else dim)
    return [values[t] for t in targets]


def sampler(
    targets: tuple[Value, ...], dims: dict[str, int], reading: str, average: Callable[..., Any] | None
) -> Batch:
    """Draws of the targets (or of an average over them) in batches.

    Example:
        >>> from limitlaw import netsor
        >>> prog = netsor.Program()
        >>> g = prog.matrix("W") @ prog.initial("h")
        >>> batches = [netsor.sampler((g,), {"model": 1000}, reading, None) for reading in ("lazy", "dense")]
        >>> [batch.memory // batch.size for batch in batches]  # bytes per draw: vectors only, or the matrix twice
        [16000, 8008000]
    """
    floats = _floats_per_draw(targets, dims, reading)
    size = largest_power_of_two(min(_BATCH_FLOATS / floats, 1024))
    draw = functools.partial(_draw, targets, tuple(dims.items()), reading, average, size)
    return Batch(draw, size, 4 * size * floats)


@eqx.filter_jit
def _draw(
    targets: tuple[Value, ...],
    dims: tuple[tuple[str, int], ...],
    reading: str,
    average: Callable[..., Any] | None,
    draws: int,
    key: PRNGKeyArray,
) -> Float[Array, "draws ..."]:
    def one(key: PRNGKeyArray) -> Array:
        values = execute(targets, dict(dims), _PRODUCTS[reading](), key)
        if average is None:
            return jnp.stack([v if isinstance(t, Scalar) else v[0] for t, v in zip(targets, values, strict=True)])
        return coordinatewise(average, values, [isinstance(t, Vector) for t in targets]).mean(axis=0)

    return jax.vmap(one)(jax.random.split(key, draws))


def _floats_per_draw(targets: tuple[Value, ...], dims: dict[str, int], reading: str) -> int:
    """An upper bound on the numbers in memory during one run."""
    program = targets[0].program
    lines = [program.lines[i] for i in needed_lines(targets)]
    vectors = sum(dims[v.space] for line in lines for v in line.outputs if isinstance(v, Vector))
    products = [line for line in lines if isinstance(line, MatMul)]
    # A matrix is scaled after it is drawn, so the largest one is in memory twice for a moment.
    if reading == "dense":
        matrices = {line.matrix.name: dims[line.matrix.to] * dims[line.matrix.source] for line in products}
        return vectors + sum(matrices.values()) + max(matrices.values(), default=0)
    return vectors + sum(dims[line.matrix.to] + dims[line.matrix.source] for line in products)

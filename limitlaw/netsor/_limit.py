"""The limit reading: Definition 3.1 for any program inside Theorem 3.1.

MatMul outputs and initial vectors (here: *Gaussian vectors*) become jointly Gaussian variables `Z`, scores become Gaussians
independent of every `Z`, and Nonlin outputs are functions of both. All that has to be computed are second moments.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..laws import Gaussian, Pushforward
from ..numerics import Activation, Estimate, gaussian_axis, gaussian_expectation, sobol_normals
from ._program import (
    AssumptionError,
    Initials,
    MatMul,
    Nonlin,
    Scalar,
    Score,
    Value,
    Vector,
    coordinatewise,
    needed_lines,
)

_INNER_GRID = {1: (1024, 947), 2: (128, 113)}  # nodes per axis for the conditional expectations of `average`
_INNER_POINTS = 2**13
_INNER_BUDGET = 2**21  # numbers per vector held at a time
_RANK = 1e-10  # eigenvalues below this share of the largest are rounding


def limit_law(targets: tuple[Value, ...], single: bool) -> Gaussian | Pushforward:
    """The limiting law of coordinates of vectors and of scores, jointly."""
    _check_inside_theorem(targets)
    moments = Moments()
    if single and not isinstance(_line(targets[0]), Nonlin):
        mean, (var, error) = moments.mean(targets[0]), moments.covariance(targets[0], targets[0])
        return Gaussian(mean, Estimate(var, error))
    source = GaussianSource(moments, targets)

    def transform(xi: jax.Array) -> jax.Array:
        values = source.values(xi)
        rows = [jnp.broadcast_to(evaluate(t, values), xi.shape[-1:]) for t in targets]
        return rows[0] if single else jnp.stack(rows)

    return Pushforward(transform, source.dimension, quadrature_error=moments.largest_error)


def average_law(psi: Callable[..., Any], targets: tuple[Value, ...]) -> Pushforward:
    """The law of `E[psi(targets) | scores]`."""
    _check_inside_theorem(targets)
    moments = Moments()
    source = GaussianSource(moments, targets)
    vectors = [isinstance(t, Vector) for t in targets]

    def conditional_mean(nodes: np.ndarray, weights: np.ndarray) -> Callable[[jax.Array], jax.Array]:
        inner = source.vector_values(jnp.asarray(nodes))

        def one(score_normals: jax.Array) -> jax.Array:
            values = inner | source.score_values(score_normals)
            results = coordinatewise(psi, [evaluate(t, values) for t in targets], vectors)
            return results @ jnp.asarray(weights)

        def transform(xi: jax.Array) -> jax.Array:
            return jax.lax.map(one, xi.T, batch_size=max(_INNER_BUDGET // len(weights), 1))

        return transform

    with jax.enable_x64(True):
        rules = _inner_rules(source.vector_dimension)
        transform = conditional_mean(*rules[0])
        error = moments.largest_error
        if len(rules) > 1:
            probes = (
                jnp.asarray(sobol_normals(source.score_dimension, 16, seed=1))
                if source.score_dimension
                else jnp.zeros((0, 1))
            )
            gap = jnp.abs(transform(probes) - conditional_mean(*rules[1])(probes)).max()
            error = max(error, float(gap))
    return Pushforward(_in_x64(transform), source.score_dimension, quadrature_error=error)


def _in_x64(transform: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    def inside(xi: jax.Array) -> jax.Array:
        with jax.enable_x64(True):
            return transform(xi)

    return inside


def _inner_rules(dimension: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Nodes `(dimension, N)` and weights: two rules of one kind, so that their difference shows the error."""
    if dimension == 0:
        return [(np.zeros((0, 1)), np.ones(1))]
    if dimension > max(_INNER_GRID):
        return [
            (sobol_normals(dimension, _INNER_POINTS, seed), np.full(_INNER_POINTS, 1 / _INNER_POINTS))
            for seed in (0, 1)
        ]
    return [_tensor_rule(*gaussian_axis(count), dimension) for count in _INNER_GRID[dimension]]


def _tensor_rule(axis: np.ndarray, weight: np.ndarray, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    nodes = np.stack([a.ravel() for a in np.meshgrid(*[axis] * dimension)])
    return nodes, np.prod(np.meshgrid(*[weight] * dimension), axis=0).ravel()


def evaluate(value: Value, known: dict[Value, Any]) -> Any:
    """A value as a function of Gaussian vectors and scores; remembers what it computes in `known`."""
    if value not in known:
        line = _line(value)
        assert isinstance(line, Nonlin)
        vectors = [evaluate(v, known) for v in line.vectors]
        scalars = [evaluate(p, known) for p in line.scalars]
        # A score is a number where vectors are averaged over, and an array where every point has its own.
        each = [True] * len(vectors) + [jnp.ndim(p) == 1 for p in scalars]
        known[value] = coordinatewise(line.function, [*vectors, *scalars], each)
    return known[value]


class GaussianSource:
    """Standard normals behind the Gaussian vectors and the scores that some targets depend on."""

    def __init__(self, moments: "Moments", targets: tuple[Value, ...]) -> None:
        roots = dict.fromkeys(r for t in targets for r in roots_of(t))
        self.vectors = [r for r in roots if isinstance(r, Vector)]
        self.scores = [r for r in roots if isinstance(r, Scalar)]
        self.mean, self.vector_root = moments.joint(self.vectors)
        _, self.score_root = moments.joint(self.scores)
        self.vector_dimension, self.score_dimension = self.vector_root.shape[1], self.score_root.shape[1]

    @property
    def dimension(self) -> int:
        return self.vector_dimension + self.score_dimension

    def values(self, xi: jax.Array) -> dict[Value, Any]:
        """The roots at the points `xi`, shape `(dimension, N)`."""
        return self.vector_values(xi[: self.vector_dimension]) | self.score_values(xi[self.vector_dimension :])

    def vector_values(self, xi: jax.Array) -> dict[Value, Any]:
        values = jnp.asarray(self.vector_root) @ xi + jnp.asarray(self.mean)[:, None]
        return dict(zip(self.vectors, values, strict=True))

    def score_values(self, xi: jax.Array) -> dict[Value, Any]:
        return dict(zip(self.scores, jnp.asarray(self.score_root) @ xi, strict=True))


def roots_of(value: Value) -> tuple[Value, ...]:
    """The Gaussian vectors and scores that a value is a coordinatewise function of."""
    line = _line(value)
    if not isinstance(line, Nonlin):
        return (value,)
    return tuple(dict.fromkeys(r for a in line.arguments for r in roots_of(a)))


class Moments:
    """First and second moments of limits, computed once each, with the largest quadrature error met."""

    def __init__(self) -> None:
        self.largest_error = 0.0
        self._second: dict[tuple[Value, Value], tuple[float, float]] = {}
        self._first: dict[Value, float] = {}

    def mean(self, root: Value) -> float:
        """Of a Gaussian vector or a score: only initial vectors have one."""
        line = _line(root)
        return float(line.mean[line.outputs.index(root)]) if isinstance(line, Initials) else 0.0

    def covariance(self, a: Value, b: Value) -> tuple[float, float]:
        """Of two Gaussian vectors or two scores, with its error."""
        match _line(a), _line(b):
            case (Initials() as first, Initials() as second) if first is second:
                return float(first.cov[first.outputs.index(a), first.outputs.index(b)]), 0.0
            case (MatMul() as first, MatMul() as second) if first.matrix is second.matrix:
                value, error = self.second_moment(first.vector, second.vector)
                return first.matrix.var * value, first.matrix.var * error
            case (Score() as first, Score() as second) if first.scale == second.scale == "sqrt":
                left, left_error = self.covariance(first.left, second.left)
                right, right_error = self.covariance(first.right, second.right)
                return left * right, abs(left) * right_error + abs(right) * left_error
        return 0.0, 0.0

    def joint(self, roots: list[Value] | list[Vector] | list[Scalar]) -> tuple[np.ndarray, np.ndarray]:
        """The mean and a root (as narrow as the rank) of the covariance of Gaussian vectors or of scores."""
        if not roots:
            return np.zeros(0), np.zeros((0, 0))
        cov = np.array([[self.covariance(a, b)[0] for b in roots] for a in roots])
        eigenvalues, eigenvectors = np.linalg.eigh(cov)
        alive = eigenvalues > _RANK * max(eigenvalues[-1], 1e-300)
        return np.array([self.mean(r) for r in roots]), eigenvectors[:, alive] * np.sqrt(eigenvalues[alive])

    def second_moment(self, x: Value, y: Value) -> tuple[float, float]:
        """`E Z^x Z^y`, with its error."""
        if (y, x) in self._second:
            return self._second[y, x]
        if (x, y) not in self._second:
            self._second[x, y] = self._compute_second_moment(x, y)
            self.largest_error = max(self.largest_error, self._second[x, y][1])
        return self._second[x, y]

    def first_moment(self, x: Value) -> float:
        """`E Z^x`."""
        if not isinstance(_line(x), Nonlin):
            return self.mean(x)
        if x not in self._first:
            value, error = self._expectation((x,), lambda value: value)
            self.largest_error = max(self.largest_error, error)
            self._first[x] = value
        return self._first[x]

    def _compute_second_moment(self, x: Value, y: Value) -> tuple[float, float]:
        line_x, line_y = _line(x), _line(y)
        if not isinstance(line_x, Nonlin) and not isinstance(line_y, Nonlin):
            value, error = self.covariance(x, y)
            return value + self.mean(x) * self.mean(y), error
        if all(self.covariance(a, b)[0] == 0.0 for a in roots_of(x) for b in roots_of(y)):
            return self.first_moment(x) * self.first_moment(y), 0.0
        closed = self._closed_form(line_x, line_y)
        if closed is not None:
            return closed, 0.0
        return self._expectation((x, y), lambda a, b: a * b)

    def _closed_form(self, x: Any, y: Any) -> float | None:
        """The dual activation, for one activation of two centred Gaussians."""
        if not (isinstance(x, Nonlin) and isinstance(y, Nonlin) and x.function == y.function):
            return None
        phi = x.function
        if not (isinstance(phi, Activation) and phi.dual):
            return None
        (u,), (v,) = x.vectors, y.vectors
        if isinstance(_line(u), Nonlin) or isinstance(_line(v), Nonlin) or self.mean(u) or self.mean(v):
            return None
        a, b, c = (np.float64(self.covariance(*pair)[0]) for pair in ((u, u), (v, v), (u, v)))
        return float(phi.dual(a, b, c))

    def _expectation(self, values: tuple[Value, ...], combine: Callable[..., Any]) -> tuple[float, float]:
        source = GaussianSource(self, values)

        def integrand(xi: jax.Array) -> jax.Array:
            known = source.values(xi)
            return jnp.broadcast_to(combine(*[evaluate(v, known) for v in values]), xi.shape[-1:])

        value, error = gaussian_expectation(integrand, source.dimension)
        return float(value), float(error)


def _line(value: Value) -> Any:
    return value.program.lines[value.line]


def _check_inside_theorem(targets: tuple[Value, ...]) -> None:
    program = targets[0].program
    for number in needed_lines(targets):
        line = program.lines[number]
        if isinstance(line, MatMul) and line.vector.scored:
            raise AssumptionError(
                f"line {number + 1}, {line.output} = {line.matrix} {line.vector}: {line.vector} depends on scores, which Theorem 3.1 "
                f"allows in the last Nonlin only. Its deep extension covers this program: write it as a limitlaw.Network and "
                f"read it at width=inf, or sample it here at finite dimensions."
            )

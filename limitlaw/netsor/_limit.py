"""The limit reading: Definition 3.1 for any program inside Theorem 3.1.

MatMul outputs and initial vectors, here called *Gaussian vectors*, become jointly Gaussian variables `Z`. Scores become
Gaussians that are independent of every `Z`, and Nonlin outputs are functions of both. So the limit is determined by
second moments, which are computed line by line.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..laws import Gaussian, JointPushforward, Pushforward
from ..numerics import Activation, Estimate
from ..numerics.integrate import gaussian_axis, gaussian_expectation, sobol_normals
from ..numerics.linalg import narrow_root
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

# By dimension, the nodes per axis for conditional expectations of `average`, and those of the grid that checks them.
_INNER_GRID = {1: (1024, 947), 2: (128, 113)}
_INNER_POINTS = 2**13  # Sobol points in more dimensions
_INNER_BUDGET = 2**21  # numbers for each vector in memory at once, 16 MiB
_ROUNDING = 1e-11  # relative difference of two quadratures, below which the error is treated as 0
_REPLICATES = 6  # perturbed copies of the moments: their spread gives an error to about 30 %


def limit_law(targets: tuple[Value, ...], single: bool) -> Gaussian | Pushforward | JointPushforward:
    """The limiting law of coordinates of vectors and of scores, jointly."""
    _check_inside_theorem(targets)
    moments = Moments()
    moments.fill(targets)
    # A Gaussian vector or a score alone has a closed form. All other laws are images of standard normals.
    if single and not isinstance(_line(targets[0]), Nonlin):
        root = targets[0]
        mean, var = moments.mean(root), moments.covariance(root, root)
        others = [m.covariance(root, root) for m in moments.replicates(targets)]
        if var > 0:  # a score on the linear scale tends to 0, which the general case below returns as a constant
            return Gaussian(mean=mean, variance=Estimate(var, _spread(var, others)), name="limit")

    kind = Pushforward if single else JointPushforward

    def law(moments: Moments) -> Any:
        source = GaussianSource(moments, targets)

        def transform(xi: jax.Array) -> jax.Array:
            values = source.values(xi)
            rows = [jnp.broadcast_to(evaluate(t, values), xi.shape[-1:]) for t in targets]
            return rows[0] if single else jnp.stack(rows)

        return kind(
            transform,
            source.dimension,
            quadrature_error=moments.largest_error,
            replicates=lambda: [law(m) for m in moments.replicates(targets)],
        )

    return law(moments)


def average_law(psi: Callable[..., Any], targets: tuple[Value, ...]) -> Pushforward:
    """The law of `E[psi(targets) | scores]`."""
    # The outer normals are those of the scores. Given them, the Gaussian vectors are averaged over by an inner rule,
    # whose error is estimated by another rule of the same kind.
    _check_inside_theorem(targets)
    moments = Moments()
    moments.fill(targets)
    vectors = [isinstance(t, Vector) for t in targets]

    def law(moments: Moments, replicate: int) -> Pushforward:
        source = GaussianSource(moments, targets)
        nodes, weights = _inner_rule(source.vector_dimension, replicate)

        def one(score_normals: jax.Array) -> jax.Array:
            values = source.vector_values(jnp.asarray(nodes)) | source.score_values(score_normals)
            results = coordinatewise(psi, [evaluate(t, values) for t in targets], vectors)
            return results @ jnp.asarray(weights)

        def transform(xi: jax.Array) -> jax.Array:
            return jax.lax.map(one, xi.T, batch_size=max(_INNER_BUDGET // len(weights), 1))

        def replicates() -> list[Pushforward]:
            # Exact moments leave only the error of the inner rule, so the replicates differ in that rule alone.
            shaken = moments.replicates(targets) or [moments] * (0 if source.vector_dimension == 0 else _REPLICATES)
            return [law(m, i) for i, m in enumerate(shaken, 1)]

        inner_error = 0.0
        if replicate == 0 and source.vector_dimension:
            inner_error = _largest_gap(transform, law(moments, 1).transform, source.score_dimension)
        return Pushforward(
            transform,
            source.score_dimension,
            quadrature_error=max(moments.largest_error, inner_error),
            replicates=replicates,
        )

    return law(moments, 0)


def _largest_gap(
    first: Callable[[jax.Array], jax.Array], second: Callable[[jax.Array], jax.Array], dimension: int
) -> float:
    with jax.enable_x64(True):
        probes = jnp.asarray(sobol_normals(dimension, 16, 1)) if dimension else jnp.zeros((0, 1))
        return float(jnp.abs(first(probes) - second(probes)).max())


def _spread(value: float, others: list[float]) -> float:
    return float(np.sqrt(np.mean([(other - value) ** 2 for other in others]))) if others else 0.0


def _inner_rule(dimension: int, replicate: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes `(dimension, N)` and weights of a rule for the Gaussian vectors; other replicates have other rules."""
    if dimension == 0:
        return np.zeros((0, 1)), np.ones(1)
    if dimension > max(_INNER_GRID):
        return sobol_normals(dimension, _INNER_POINTS, replicate), np.full(_INNER_POINTS, 1 / _INNER_POINTS)
    return _tensor_rule(*gaussian_axis(_INNER_GRID[dimension][replicate > 0]), dimension)


def _tensor_rule(axis: np.ndarray, weight: np.ndarray, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    nodes = np.stack([a.ravel() for a in np.meshgrid(*[axis] * dimension)])
    return nodes, np.prod(np.meshgrid(*[weight] * dimension), axis=0).ravel()


def evaluate(value: Value, known: dict[Value, Any]) -> Any:
    """A value as a function of Gaussian vectors and scores. Intermediate values are added to `known`."""
    if value not in known:
        line = _line(value)
        assert isinstance(line, Nonlin)
        vectors = [evaluate(v, known) for v in line.vectors]
        scalars = [evaluate(p, known) for p in line.scalars]
        # A score is one number if only the vectors vary between points, and an array if every point has its score.
        each = [True] * len(vectors) + [jnp.ndim(p) == 1 for p in scalars]
        known[value] = coordinatewise(line.function, [*vectors, *scalars], each)
    return known[value]


class GaussianSource:
    """The standard normals from which the Gaussian vectors and scores behind some targets are computed."""

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
    return value.roots or (value,)


class Moments:
    """First and second moments of limits, each computed once, and the largest quadrature error among them.

    With a `rng`, every number that is not exact is perturbed by its error times a normal. The spread of such replicates
    is the error of all numbers that depend on it.
    """

    def __init__(self, rng: np.random.Generator | None = None) -> None:
        self.largest_error = 0.0
        self._rng = rng
        self._second: dict[tuple[Value, Value], float] = {}
        self._first: dict[Value, float] = {}

    def fill(self, targets: tuple[Value, ...]) -> None:
        """Compute the moments that the targets need, line by line, so that recursion never spans several lines."""
        lines = targets[0].program.lines
        for number in needed_lines(targets):
            line = lines[number]
            if isinstance(line, MatMul | Score):
                self.covariance(line.output, line.output)
        GaussianSource(self, targets)

    def replicates(self, targets: tuple[Value, ...]) -> list["Moments"]:
        """Independently perturbed copies; none if every number is exact."""
        if self.largest_error == 0.0:
            return []
        shaken = [Moments(np.random.default_rng(seed)) for seed in range(_REPLICATES)]
        for moments in shaken:
            moments.fill(targets)
        return shaken

    def mean(self, root: Value) -> float:
        """The mean of a Gaussian vector or a score, which is 0 unless it is an initial vector."""
        line = _line(root)
        return float(line.mean[line.outputs.index(root)]) if isinstance(line, Initials) else 0.0

    def covariance(self, a: Value, b: Value) -> float:
        """The covariance of two Gaussian vectors or of two scores.

        It is 0 unless both come from the same initial line, the same matrix, or scores with dependent factors.
        """
        match _line(a), _line(b):
            case (Initials() as first, Initials() as second) if first is second:
                return float(first.cov[first.outputs.index(a), first.outputs.index(b)])
            case (MatMul() as first, MatMul() as second) if first.matrix is second.matrix:
                return first.matrix.var * self.second_moment(first.vector, second.vector)
            case (Score() as first, Score() as second) if first.scale == second.scale == "sqrt":
                return self.covariance(first.left, second.left) * self.covariance(first.right, second.right)
        return 0.0

    def joint(self, roots: Sequence[Value]) -> tuple[np.ndarray, np.ndarray]:
        """The mean of Gaussian vectors or scores, and a root of their covariance with as many columns as its rank."""
        if not roots:
            return np.zeros(0), np.zeros((0, 0))
        cov = np.array([[self.covariance(a, b) for b in roots] for a in roots])
        return np.array([self.mean(r) for r in roots]), narrow_root(cov, floor=1e-10)

    def second_moment(self, x: Value, y: Value) -> float:
        """`E Z^x Z^y`."""
        if (y, x) in self._second:
            return self._second[y, x]
        if (x, y) not in self._second:
            self._second[x, y] = self._compute_second_moment(x, y)
        return self._second[x, y]

    def first_moment(self, x: Value) -> float:
        """`E Z^x`."""
        if not isinstance(_line(x), Nonlin):
            return self.mean(x)
        if x not in self._first:
            self._first[x] = self._expectation((x,), lambda value: value)
        return self._first[x]

    def _compute_second_moment(self, x: Value, y: Value) -> float:
        line_x, line_y = _line(x), _line(y)
        if not isinstance(line_x, Nonlin) and not isinstance(line_y, Nonlin):
            return self.covariance(x, y) + self.mean(x) * self.mean(y)
        # Independent factors need two integrals over their own variables in place of one over all of them.
        if all(self.covariance(a, b) == 0.0 for a in roots_of(x) for b in roots_of(y)):
            return self.first_moment(x) * self.first_moment(y)
        closed = self._closed_form(line_x, line_y)
        return self._expectation((x, y), lambda a, b: a * b) if closed is None else closed

    def _closed_form(self, x: Any, y: Any) -> float | None:
        """The dual activation, if `x` and `y` are one activation of two centred Gaussians; otherwise None."""
        if not (isinstance(x, Nonlin) and isinstance(y, Nonlin) and x.function == y.function):
            return None
        phi = x.function
        if not (isinstance(phi, Activation) and phi.dual):
            return None
        (u,), (v,) = x.vectors, y.vectors
        if isinstance(_line(u), Nonlin) or isinstance(_line(v), Nonlin) or self.mean(u) or self.mean(v):
            return None
        a, b, c = (np.float64(self.covariance(*pair)) for pair in ((u, u), (v, v), (u, v)))
        return float(phi.dual(a, b, c))

    def _expectation(self, values: tuple[Value, ...], combine: Callable[..., Any]) -> float:
        source = GaussianSource(self, values)

        def integrand(xi: jax.Array) -> jax.Array:
            known = source.values(xi)
            return jnp.broadcast_to(combine(*[evaluate(v, known) for v in values]), xi.shape[-1:])

        value, error = map(float, gaussian_expectation(integrand, source.dimension))
        if not np.isfinite(value):
            raise ValueError(
                f"{', '.join(map(repr, values))}: the limit has no finite second moment. Use functions that grow more "
                f"slowly."
            )
        if error <= _ROUNDING * max(1.0, abs(value)):
            return value
        self.largest_error = max(self.largest_error, error)
        return value if self._rng is None else value + error * self._rng.standard_normal()


def _line(value: Value) -> Any:
    return value.program.lines[value.line]


def _check_inside_theorem(targets: tuple[Value, ...]) -> None:
    program = targets[0].program
    for number in needed_lines(targets):
        line = program.lines[number]
        if isinstance(line, MatMul) and line.vector.scored:
            raise AssumptionError(
                f"line {number + 1}, {line.output} = {line.matrix} {line.vector}: {line.vector} depends on scores, "
                f"which Theorem 3.1 allows in the last Nonlin only. Use a limitlaw.Network at width=inf, which covers "
                f"deep attention, or sample this program at finite dimensions."
            )

"""The law of a token's variance after one attention layer on a fixed Gram matrix, by integration over its scores.

Given the temperature `T = chi2(d) / d`, the squared length of the query in units of its mean, the scores of a row are
Gaussian, `T m + sqrt(T) R z`. The softmax ignores a common shift, so only the part of the scores orthogonal to the
all-ones vector matters. It has at most `keys - 1` dimensions, and a random temperature adds one.

The integrand is analytic and the weight Gaussian, so a tensor trapezoid rule converges geometrically in the step
(Trefethen and Weideman 2014) and reaches rounding in up to four dimensions. Above, scrambled Sobol points are used.
"""

from collections.abc import Iterator
from functools import lru_cache
from math import inf, isinf
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import gammainccinv, gammaincinv, ndtr

from .... import _progress
from ....laws import Atoms
from ....numerics.batches import largest_power_of_two
from ....numerics.integrate import sobol_normals
from ..._layer import Layout

if TYPE_CHECKING:
    from ._attention import Attention

_MOST_DIMENSIONS = 4  # of a tensor rule: five dimensions need more nodes than Sobol points for the same accuracy
_MOST_NODES = 3 * 2**20  # about a second on one core
# Radius of the ball of nodes by dimension, in standard deviations: as large as the number of nodes permits, because the
# far tails of the law come from rare scores.
_REACH = {1: 12.0, 2: 11.0, 3: 10.0, 4: 7.5}
_BALL = {0: 1.0, 1: 2.0, 2: np.pi, 3: 4 * np.pi / 3, 4: np.pi**2 / 2}  # volumes of unit balls
_COARSEST = 0.6  # step in standard deviations at which the trapezoid rule integrates the Gaussian weight to rounding
_STEPS = (0.3, 0.24, 0.18, 0.14)  # steps as changes of a score, refined until two agree: a softmax varies on scale 1
_STEPS_IN_FOUR = (0.48, 0.42, 0.36, 0.32)  # coarser in four dimensions, or the nodes would exceed _MOST_NODES
_AGREEMENT = 5e-9  # of two steps; convergence is geometric, so the finer one has an error below 1e-9
_RANDOMISATIONS = 8  # independent scramblings of the Sobol points, whose spread gives the standard error
_POINTS = 2**18  # Sobol points of each, a power of two for balance
_MOST_COORDINATES = 2**23  # of the Sobol points of one randomisation: 64 MiB in double precision
_SOBOL_DIMENSIONS = 1024  # above, independent points: Sobol points are no better there
_CHUNK = 2**14  # points in one step, whose scores fit the cache of a core
_TEMPERATURE_KNOTS = 4001  # of a spline with an error of 1e-12
_REMEMBERED = 64  # laws in the cache, with about a thousand atoms each


class ScoreRow:
    """The scores of one token in one head, given the Gram matrix of the tokens, as a function of standard normals."""

    def __init__(self, layer: "Attention", gram: np.ndarray, token: int, head_dim: int | float, layout: Layout) -> None:
        allowed = layer.allowed(layout)
        self.keys = np.arange(len(gram)) if allowed is None else np.flatnonzero(allowed[token])
        self.gram = gram[np.ix_(self.keys, self.keys)]
        self.head_dim = head_dim
        gain = float(layer.query_std * layer.key_std) * layer.relative_factor(head_dim)
        row, own = gram[token, self.keys], gram[token, token]
        if layer.tie_qk:
            # With one matrix the key of a token is its own query q. Another key is its projection on q, which scores
            # `gain * row` times the temperature, plus an independent part, whose score is Gaussian given |q|.
            shift = gain * row
            covariance = gain**2 * (own * self.gram - np.outer(row, row)) / head_dim
        else:
            shift = np.zeros(self.keys.size)
            covariance = gain**2 * own * self.gram
        # The softmax does not see a common shift of the scores: project it out, and the all-ones axis with it.
        self.shift = shift - shift.mean()
        centring = np.eye(self.keys.size) - 1 / self.keys.size
        eigenvalues, eigenvectors = np.linalg.eigh(centring @ covariance @ centring)
        # Axes of rounding error would each cost a dimension of the integral; 1e-14 is just above double precision.
        alive = eigenvalues > 1e-14 * max(np.trace(covariance), 1e-300)
        order = np.argsort(-eigenvalues[alive])
        self.stds = np.sqrt(eigenvalues[alive][order])
        self.root = eigenvectors[:, alive][:, order] * self.stds
        moves = bool(self.stds.size or self.shift.any())  # otherwise all weights are equal at every temperature
        self.has_temperature = moves and not isinf(head_dim)
        self._defined_by = (self.gram.tobytes(), self.shift.tobytes(), self.root.tobytes(), float(head_dim))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScoreRow) and self._defined_by == other._defined_by

    def __hash__(self) -> int:
        return hash(self._defined_by)

    @property
    def dimension(self) -> int:
        """The number of dimensions of the integral over the scores."""
        return self.stds.size + self.has_temperature

    def weights_at_rest(self, size: int) -> np.ndarray:
        """The attention weights over all tokens, if the scores are not random."""
        weights = np.zeros(size)
        weights[self.keys] = np.exp(self.shift - self.shift.max())
        return weights / weights.sum()

    def temperature(self, normals: np.ndarray) -> np.ndarray:
        """`chi2(d) / d` at the quantiles of normals within 12 standard deviations, by a spline of its logarithm."""
        knots = np.linspace(-12.0, 12.0, _TEMPERATURE_KNOTS)
        return np.exp(CubicSpline(knots, np.log(_chi_square_mean_of(knots, float(self.head_dim))))(normals))

    def attended(self, normals: np.ndarray, temperature: Any = 1.0) -> np.ndarray:
        """The attended variance `pi^T K pi`, where `pi` is the softmax of the scores.

        Args:
            normals: Standard normals behind the scores, `(len(stds), N)`.
            temperature: One temperature for all of them, or `(N,)`.

        Returns:
            The variances, `(N,)`.
        """
        out = np.empty(normals.shape[1])
        for start in range(0, out.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            t = temperature if np.ndim(temperature) == 0 else temperature[part]
            scores = self.root @ (normals[:, part] * np.sqrt(t)) + np.multiply.outer(self.shift, np.atleast_1d(t))
            weights = np.exp(scores - scores.max(axis=0))
            weights /= weights.sum(axis=0)
            out[part] = np.einsum("kn,kn->n", weights, self.gram @ weights)
        return np.maximum(out, 0.0)  # rounding of a singular Gram matrix can leave a negative variance


def limit_gram(layer: "Attention", gram: np.ndarray, layout: Layout) -> np.ndarray | None:
    """The Gram matrix after the layer at infinite width; None if a score is random."""
    rows = _rows(layer, gram, layout)
    if rows is None or not layer.is_deterministic(inf) or any(row.dimension for row in rows):
        return None
    weights = np.stack([row.weights_at_rest(len(gram)) for row in rows])
    return _gain(layer) * weights @ gram @ weights.T


def _rows(layer: "Attention", gram: np.ndarray, layout: Layout) -> list["ScoreRow"] | None:
    from ._attention import is_plain

    if not is_plain(layer):
        return None
    head_dim = layer.head_dim_at(inf)
    return [ScoreRow(layer, gram, token, head_dim, layout) for token in range(len(gram))]


def _gain(layer: "Attention") -> float:
    """The variance of the output for an attended variance of one."""
    return float(layer.value_std * layer.out_std) ** 2


def limit_variance(
    layer: "Attention", gram: np.ndarray, token: int, layout: Layout, seed: int, samples: int | None, exact: bool
) -> tuple[Atoms, int | float] | None:
    """The law of the variance of one head at infinite width, and the number of heads; see `Layer.limit_variance`."""
    from ._attention import is_plain

    if not is_plain(layer):
        return None
    head_dim = layer.head_dim_at(inf)
    row = ScoreRow(layer, gram, token, head_dim, layout)
    atoms = exact_attended_variance(row) if exact else attended_variance(row, seed, samples)
    if atoms is None or (exact and atoms.values.size == 1 and isinf(head_dim)):
        return None
    return atoms.scaled(_gain(layer)).times_chi_square_mean(head_dim), layer.heads


def score_scale(layer: "Attention", width: int | float) -> tuple[float, int | float] | None:
    """`(c, d)` of the variance `c K_ii K_jj chi2(d) / d` of a score given the tokens; see `Layer.score_scale`."""
    from ._attention import is_plain

    if layer.tie_qk or not is_plain(layer):
        return None
    head_dim = layer.head_dim_at(width)
    return (float(layer.query_std * layer.key_std) * layer.relative_factor(head_dim)) ** 2, head_dim


def attended_variance(row: ScoreRow, seed: int, samples: int | None = None) -> Atoms:
    """The law of the attended variance, by quadrature if it converges, otherwise from Sobol points with an error."""
    exact = exact_attended_variance(row)
    return _quasi_monte_carlo(row, seed, samples) if exact is None else exact


@lru_cache(maxsize=_REMEMBERED)  # one limit of a head serves all widths and numbers of heads
def exact_attended_variance(row: ScoreRow) -> Atoms | None:
    """The law of the attended variance by quadrature; None if it has too many dimensions or does not converge."""
    if not row.dimension:  # one key, or equal scores
        return Atoms.exactly(row.attended(np.zeros((0, 1))), np.ones(1))
    return _trapezoid(row) if row.dimension <= _MOST_DIMENSIONS else None


def _trapezoid(row: ScoreRow) -> Atoms | None:
    """The tensor trapezoid rule, refined until two steps agree; None if that needs too many nodes."""
    previous = None
    for step in _STEPS_IN_FOUR if row.dimension == 4 else _STEPS:
        atoms = _trapezoid_with(row, step, _REACH[row.dimension])
        if atoms is None:
            return None
        check, density = _checks(atoms)
        if previous is not None and np.all(np.abs(check - previous) < _AGREEMENT * np.maximum(check, density)):
            return atoms
        previous = check
    return None


def _trapezoid_with(row: ScoreRow, step: float, radius: float) -> Atoms | None:
    """The nodes and weights of one grid for each temperature.

    Steps are set by the change of a score between nodes, since a softmax varies on the scale of one. A low temperature
    means small scores, so it has fewer nodes.
    """
    values, weights, count = [], [], 0.0
    for temperature, squared in _temperature_nodes(row, step, radius):
        room = np.sqrt(radius**2 - squared)
        # A ball and not a cube: corners have negligible weight, but in four dimensions they hold most of the nodes.
        steps = [min(_COARSEST, step / (std * np.sqrt(temperature))) for std in row.stds]
        count += _BALL[len(steps)] * room ** len(steps) / float(np.prod(steps))
        if count > _MOST_NODES:
            return None
        axes = [_axis(step, room) for step in steps]
        nodes, of_nodes = _ball(axes, room)
        normals = np.stack([axis[i] for axis, i in zip(axes, nodes, strict=True)]) if axes else np.zeros((0, 1))
        values.append(row.attended(normals, temperature))
        weight = np.exp(-of_nodes / 2)
        # Normalise each grid to the weight of its temperature, since the grids have different steps.
        weights.append(weight * (np.exp(-squared / 2) / weight.sum()))
    total = np.concatenate(weights)
    return Atoms.exactly(np.concatenate(values), total / total.sum())


def _checks(atoms: Atoms) -> tuple[np.ndarray, np.ndarray]:
    """The quantities on which two steps must agree, and the scale of the tolerance for each.

    These are three moments, relative to themselves, and the density of the mixture at 0, 2 and 5 standard deviations,
    relative to the density at 0. Moments alone do not ensure that the tail of the density is right.
    """
    mean = max(atoms.moments(1)[0], 1e-300)
    ratio = np.maximum(atoms.values / mean, 1e-300)
    densities = [float(atoms.weights @ (np.exp(-(k**2) / (2 * ratio)) / np.sqrt(ratio))) for k in (0, 2, 5)]
    moments = [float(atoms.moments(order)[0]) for order in (1, 2, 3)]
    return np.array([*moments, *densities]), np.array([0.0] * 3 + [densities[0]] * 3)


def _temperature_nodes(row: ScoreRow, step: float, radius: float) -> Iterator[tuple[float, float]]:
    """Temperatures evenly spaced in the logarithm, each with -2 times the logarithm of its weight.

    In `t = log T` the density of `chi2(d) / d` is proportional to `exp(-d (e^t - 1 - t) / 2)`, which is analytic and
    decays on both sides, so the trapezoid rule converges geometrically here as well.
    """
    if not row.has_temperature:
        yield 1.0, 0.0
        return
    dof = float(row.head_dim)
    # For large d the standard deviation of log T is sqrt(2 / d). The cap keeps steps small enough for the right tail at
    # small d, which falls like exp(-d e^t / 2).
    step *= min(1.3 * np.sqrt(2 / dof), 0.7)
    reach = np.ceil((radius**2 / dof + 2) / step)  # enough steps below t = 0, where the weight falls like exp(d t / 2)
    for t in step * np.arange(-reach, np.ceil(np.log(reach * step + 3) / step) + 1):
        squared = dof * (np.expm1(t) - t)
        if squared < radius**2:
            yield float(np.exp(t)), float(squared)


def _axis(step: float, radius: float) -> np.ndarray:
    return step * np.arange(-np.floor(radius / step), np.floor(radius / step) + 1)


def _ball(axes: list[np.ndarray], radius: float) -> tuple[np.ndarray, np.ndarray]:
    """The nodes of a product grid within a ball.

    The grid grows axis by axis and drops nodes outside the ball at once, so the full product is never in memory.

    Args:
        axes: The nodes along each axis.
        radius: The radius of the ball.

    Returns:
        The nodes as indices into the axes, `(dimension, N)`, and their squared lengths, `(N,)`.
    """
    index, squared = np.zeros((0, 1), np.int32), np.zeros(1)
    for axis in axes:
        total = squared[:, None] + axis**2
        old, new = np.nonzero(total <= radius**2)
        index = np.vstack([index[:, old], new.astype(np.int32)])
        squared = total[old, new]
    return index, squared


def _quasi_monte_carlo(row: ScoreRow, seed: int, samples: int | None) -> Atoms:
    """The law of the attended variance from independently scrambled Sobol points, the spread of which is its error."""
    wanted = _POINTS if samples is None else max(samples / _RANDOMISATIONS, 1)
    points = largest_power_of_two(min(wanted, _MOST_COORDINATES / row.dimension))
    rows = []
    with _progress.task("Integrating", _RANDOMISATIONS) as bar:
        for i in range(_RANDOMISATIONS):
            rng = np.random.default_rng([seed, i])
            if row.dimension <= _SOBOL_DIMENSIONS:
                normals = sobol_normals(row.dimension, points, rng)
            else:  # too many dimensions for Sobol points
                normals = rng.standard_normal((row.dimension, points))
            temperature = row.temperature(normals[-1]) if row.has_temperature else 1.0
            rows.append(row.attended(normals[: row.stds.size], temperature))
            bar.advance()
    return Atoms.from_randomisations(np.stack(rows))


def _chi_square_mean_of(normals: np.ndarray, dof: float) -> np.ndarray:
    """`chi2(dof) / dof` at the quantiles of normals."""
    # Each half uses the tail that is small there: 1 - ndtr(x) would lose all digits beyond eight standard deviations.
    upper = normals > 0
    out = np.empty(normals.shape)
    out[~upper] = gammaincinv(dof / 2, ndtr(normals[~upper]))
    out[upper] = gammainccinv(dof / 2, ndtr(-normals[upper]))
    return out * (2 / dof)

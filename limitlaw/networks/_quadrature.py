"""One attention layer on tokens whose Gram matrix is fixed: the law of a token's variance, by integrating over its scores.

Given the temperature `T = chi2(d) / d` the scores of a row are Gaussian, `a T m + b sqrt(T) R z`, and the softmax ignores
a common shift, so they matter only off the all-ones vector: `rank - 1` dimensions, and one more for a random
temperature. In few dimensions a tensor trapezoid rule reaches rounding; above, scrambled Sobol points.
"""

from collections.abc import Iterator
from functools import lru_cache
from math import isinf
from typing import Any

import numpy as np
from scipy.special import gammainccinv, gammaincinv, ndtr

from ..laws import Atoms
from ..numerics import CubicSpline, largest_power_of_two, sobol_normals
from ._attention import Attention
from ._described import Layout

_MOST_DIMENSIONS = 4
_MOST_NODES = 3 * 2**20
_REACH = {1: 12.0, 2: 11.0, 3: 10.0, 4: 7.5}  # radius of the ball of nodes; tails of a law look far out
_BALL = {0: 1.0, 1: 2.0, 2: np.pi, 3: 4 * np.pi / 3, 4: np.pi**2 / 2}  # volumes of unit balls
_COARSEST = 0.6  # step in standard deviations for which the Gaussian weight alone is integrated to rounding
_STEPS = (0.3, 0.24, 0.18, 0.14)  # steps in units of the scores' standard deviation, tried until two agree
_STEPS_IN_FOUR = (0.48, 0.42, 0.36, 0.32)
_AGREEMENT = 5e-9  # with the coarser of the two; convergence is geometric, so that the finer is better than 1e-9
_RANDOMISATIONS = 8
_POINTS = 2**18
_MOST_COORDINATES = 2**23  # of the Sobol points of one randomisation
_SOBOL_DIMENSIONS = 1024
_CHUNK = 2**14
_TEMPERATURE_KNOTS = 4001
_REMEMBERED = 64  # laws, of about a thousand atoms each


class ScoreRow:
    """The scores of one token in one head, given the Gram matrix of the tokens, as a function of standard normals."""

    def __init__(self, layer: Attention, gram: np.ndarray, token: int, head_dim: int | float, layout: Layout) -> None:
        allowed = layer.allowed(layout)
        self.keys = np.arange(len(gram)) if allowed is None else np.flatnonzero(allowed[token])
        self.gram = gram[np.ix_(self.keys, self.keys)]
        self.head_dim = head_dim
        gain = float(layer.query_std * layer.key_std)
        row, own = gram[token, self.keys], gram[token, token]
        if layer.tie_qk:  # one matrix: the key of the token itself is its query, the others have a part along it
            shift = gain * row
            covariance = gain**2 * (own * self.gram - np.outer(row, row)) / head_dim
        else:
            shift = np.zeros(self.keys.size)
            covariance = gain**2 * own * self.gram / (head_dim if layer.scale == "linear" else 1.0)
        self.shift = shift - shift.mean()
        centring = np.eye(self.keys.size) - 1 / self.keys.size
        eigenvalues, eigenvectors = np.linalg.eigh(centring @ covariance @ centring)
        alive = eigenvalues > 1e-14 * max(np.trace(covariance), 1e-300)
        order = np.argsort(-eigenvalues[alive])
        self.stds = np.sqrt(eigenvalues[alive][order])
        self.root = eigenvectors[:, alive][:, order] * self.stds
        moves = bool(self.stds.size or self.shift.any())
        self.has_temperature = moves and not isinf(head_dim)
        self._defined_by = (self.gram.tobytes(), self.shift.tobytes(), self.root.tobytes(), float(head_dim))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScoreRow) and self._defined_by == other._defined_by

    def __hash__(self) -> int:
        return hash(self._defined_by)

    @property
    def dimension(self) -> int:
        return self.stds.size + self.has_temperature

    def weights_at_rest(self, size: int) -> np.ndarray:
        """The attention weights over all tokens where no normal moves the scores."""
        weights = np.zeros(size)
        weights[self.keys] = np.exp(self.shift - self.shift.max())
        return weights / weights.sum()

    def temperature(self, normals: np.ndarray) -> np.ndarray:
        """`chi2(d) / d` at the quantiles of normals within 12 standard deviations, by a spline of its logarithm."""
        knots = np.linspace(-12.0, 12.0, _TEMPERATURE_KNOTS)
        return np.exp(CubicSpline(knots, np.log(_chi_square_mean_of(knots, float(self.head_dim))))(normals))

    def attended(self, normals: np.ndarray, temperature: Any = 1.0) -> np.ndarray:
        """`pi^T K pi`, `pi` the softmax of the scores, for normals `(len(stds), N)` at temperatures `(N,)` or one for all."""
        out = np.empty(normals.shape[1])
        for start in range(0, out.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            t = temperature if np.ndim(temperature) == 0 else temperature[part]
            scores = self.root @ (normals[:, part] * np.sqrt(t)) + np.multiply.outer(self.shift, np.atleast_1d(t))
            weights = np.exp(scores - scores.max(axis=0))
            weights /= weights.sum(axis=0)
            out[part] = np.einsum("kn,kn->n", weights, self.gram @ weights)
        return np.maximum(out, 0.0)


def attended_variance(row: ScoreRow, seed: int, samples: int | None = None) -> Atoms:
    """The law of `pi^T K pi` over the scores: by quadrature where that converges, else from Sobol points, with an error."""
    exact = exact_attended_variance(row)
    return _quasi_monte_carlo(row, seed, samples) if exact is None else exact


@lru_cache(maxsize=_REMEMBERED)  # one layer at many widths, or with many heads, has one limit of a head
def exact_attended_variance(row: ScoreRow) -> Atoms | None:
    """The law of `pi^T K pi` over the scores by quadrature, if there are few enough dimensions for it to converge."""
    if not row.dimension:  # one key, or no scores to speak of
        return Atoms.exactly(row.attended(np.zeros((0, 1))), np.ones(1))
    return _trapezoid(row) if row.dimension <= _MOST_DIMENSIONS else None


def _trapezoid(row: ScoreRow) -> Atoms | None:
    """The tensor trapezoid rule, refined until two steps agree; None if that takes too many nodes."""
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
    """A grid for every temperature, in steps of the scores' standard deviations at that temperature."""
    values, weights, count = [], [], 0.0
    for temperature, squared in _temperature_nodes(row, step, radius):
        room = np.sqrt(radius**2 - squared)
        steps = [min(_COARSEST, step / (std * np.sqrt(temperature))) for std in row.stds]
        count += _BALL[len(steps)] * room ** len(steps) / float(np.prod(steps))
        if count > _MOST_NODES:
            return None
        axes = [_axis(step, room) for step in steps]
        nodes, of_nodes = _ball(axes, room)
        normals = np.stack([axis[i] for axis, i in zip(axes, nodes, strict=True)]) if axes else np.zeros((0, 1))
        values.append(row.attended(normals, temperature))
        weight = np.exp(-of_nodes / 2)
        weights.append(weight * (np.exp(-squared / 2) / weight.sum()))
    total = np.concatenate(weights)
    return Atoms.exactly(np.concatenate(values), total / total.sum())


def _checks(atoms: Atoms) -> tuple[np.ndarray, np.ndarray]:
    """What must agree: three moments, and the density of the mixture at 0, 2 and 5 standard deviations; and the largest density."""
    mean = max(atoms.moments(1)[0], 1e-300)
    ratio = np.maximum(atoms.values / mean, 1e-300)
    densities = [float(atoms.weights @ (np.exp(-(k**2) / (2 * ratio)) / np.sqrt(ratio))) for k in (0, 2, 5)]
    moments = [float(atoms.moments(order)[0]) for order in (1, 2, 3)]
    return np.array([*moments, *densities]), np.array([0.0] * 3 + [densities[0]] * 3)


def _temperature_nodes(row: ScoreRow, step: float, radius: float) -> Iterator[tuple[float, float]]:
    """Temperatures, evenly spaced in the logarithm, and -2 times the logarithm of their weights."""
    if not row.has_temperature:
        yield 1.0, 0.0
        return
    dof = float(row.head_dim)
    step *= min(1.3 * np.sqrt(2 / dof), 0.7)
    reach = np.ceil((radius**2 / dof + 2) / step)  # further down than the weights are kept
    for t in step * np.arange(-reach, np.ceil(np.log(reach * step + 3) / step) + 1):
        squared = dof * (np.expm1(t) - t)
        if squared < radius**2:
            yield float(np.exp(t)), float(squared)


def _axis(step: float, radius: float) -> np.ndarray:
    return step * np.arange(-np.floor(radius / step), np.floor(radius / step) + 1)


def _ball(axes: list[np.ndarray], radius: float) -> tuple[np.ndarray, np.ndarray]:
    """The nodes of the axes' product in a ball, as indices into the axes `(dimension, N)`, and their squared lengths."""
    index, squared = np.zeros((0, 1), np.int32), np.zeros(1)
    for axis in axes:
        total = squared[:, None] + axis**2
        old, new = np.nonzero(total <= radius**2)
        index = np.vstack([index[:, old], new.astype(np.int32)])
        squared = total[old, new]
    return index, squared


def _quasi_monte_carlo(row: ScoreRow, seed: int, samples: int | None) -> Atoms:
    wanted = _POINTS if samples is None else max(samples / _RANDOMISATIONS, 1)
    points = largest_power_of_two(min(wanted, _MOST_COORDINATES / row.dimension))
    rows = []
    for i in range(_RANDOMISATIONS):
        rng = np.random.default_rng([seed, i])
        if row.dimension <= _SOBOL_DIMENSIONS:
            normals = sobol_normals(row.dimension, points, rng)
        else:  # no lattice helps there
            normals = rng.standard_normal((row.dimension, points))
        temperature = row.temperature(normals[-1]) if row.has_temperature else 1.0
        rows.append(row.attended(normals[: row.stds.size], temperature))
    return Atoms.from_randomisations(np.stack(rows))


def _chi_square_mean_of(normals: np.ndarray, dof: float) -> np.ndarray:
    """`chi2(dof) / dof` at the same quantile as the normals."""
    upper = normals > 0
    out = np.empty(normals.shape)
    out[~upper] = gammaincinv(dof / 2, ndtr(normals[~upper]))
    out[upper] = gammainccinv(dof / 2, ndtr(-normals[upper]))
    return out * (2 / dof)

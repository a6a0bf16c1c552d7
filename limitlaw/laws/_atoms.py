"""Laws of a random variance, carried by a few weighted atoms."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

BATCHES = 32
_BINS = 600
_BINS_OF_PAIRS = 1000  # sums and products of two variances spread further
_CHI_SQUARE_NODES = 512
_CHI_SQUARE_DEPTH = 400.0  # atoms of a chi-square reach up to where its density is exp(-400) of the largest
_NEGLIGIBLE = 40.0  # and down to where exp(-40) is left out of a density, or to
_SMALLEST = 1e-24


@dataclass(frozen=True)
class Atoms:
    """A law on the half-line: `weights` on `values`, and independent `replicates` of the weights.

    The replicates, `(B, len(values))`, are what is known of the error: batches of independent draws, or independent
    randomisations of a quasi-Monte Carlo rule, with the weights as their average; B = 0 for an exact rule.

    Many values become few: in each of 600 bins of the logarithm, two atoms that keep the probability and the first three
    moments of the bin (its Gauss rule). For a smooth function of the value the error is of fourth order in the width of a bin:
    1e-11 and less where bins are a few thousandths wide. The value 0 is an atom of its own.
    """

    values: np.ndarray
    weights: np.ndarray
    replicates: np.ndarray

    @classmethod
    def exactly(cls, values: np.ndarray, weights: np.ndarray) -> "Atoms":
        """Known values and weights."""
        gathered, rows = _gather([values], [weights])
        return cls(gathered, rows[0], np.empty((0, gathered.size)))

    @classmethod
    def from_draws(cls, draws: np.ndarray) -> "Atoms":
        """Independent draws, split into batches of equal size (the few that are left over join the last one)."""
        count = min(BATCHES, draws.size)
        rows = np.split(draws, draws.size // count * np.arange(1, count))
        values, weights = _gather(rows, [np.full(row.size, count / draws.size) for row in rows])
        return cls(values, weights.mean(axis=0), weights)

    @classmethod
    def from_randomisations(cls, points: np.ndarray) -> "Atoms":
        """Rows of equally weighted points, each row an independent randomisation of the same rule."""
        equal = np.full(points.shape[1], 1 / points.shape[1])
        values, weights = _gather(list(points), [equal] * len(points))
        return cls(values, weights.mean(axis=0), weights)

    @property
    def zero(self) -> float:
        """The probability of the value 0."""
        return float(self.weights[self.values == 0].sum())

    def moments(self, order: int) -> np.ndarray:
        """`E v^order`: first by the weights, then by each replicate."""
        return np.vstack([self.weights, self.replicates]) @ self.values**order

    def scaled(self, factor: float) -> "Atoms":
        """The law of `factor v`."""
        return Atoms(factor * self.values, self.weights, self.replicates)

    def times_chi_square_mean(self, dof: int | float) -> "Atoms":
        """The law of `v chi2(dof) / dof`, the factor independent of `v`; of `v` itself for `dof = inf`."""
        return self if np.isinf(dof) else self._combined(_chi_square_mean(dof), np.multiply.outer)

    def mean_of_copies(self, copies: int) -> "Atoms":
        """The law of the average of independent copies, by repeated doubling."""
        total, power, left = None, self, copies
        while True:
            if left % 2:
                total = power if total is None else total._combined(power, np.add.outer)
            left //= 2
            if not left:
                assert total is not None
                return total.scaled(1 / copies)
            power = power._combined(power, np.add.outer)

    def _combined(self, other: "Atoms", operation: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> "Atoms":
        """The law of a function of two independent values; replicates belong together if both have them."""
        pairs = [(self.weights, other.weights)]
        for i in range(max(len(self.replicates), len(other.replicates))):
            pairs.append(
                (
                    self.replicates[i] if len(self.replicates) else self.weights,
                    other.replicates[i] if len(other.replicates) else other.weights,
                )
            )
        values = operation(self.values, other.values).ravel()
        weights = [np.multiply.outer(a, b).ravel() for a, b in pairs]
        gathered, rows = _gather([values], weights, _BINS_OF_PAIRS)
        return Atoms(gathered, rows[0], rows[1:])


def _chi_square_mean(dof: int | float) -> Atoms:
    """`chi2(dof) / dof` by the trapezoid rule in the logarithm `t`, whose log density is `(dof/2)(t - e^t)` up to a constant."""

    def depth(t: float) -> float:
        return dof / 2 * (np.expm1(t) - t)

    def left_out(t: float) -> float:  # of the density at 0, E v^(-1/2)
        return depth(t) + t / 2 - _NEGLIGIBLE

    high = float(brentq(lambda t: depth(t) - _CHI_SQUARE_DEPTH, 0.0, 2 + np.log(1 + 2 * _CHI_SQUARE_DEPTH / dof)))
    low = float(np.log(_SMALLEST))
    if left_out(low) > 0:
        low = float(brentq(left_out, low, 0.0))
    t = np.linspace(low, high, _CHI_SQUARE_NODES)
    weights = np.exp(-dof / 2 * (np.expm1(t) - t))
    weights /= weights.sum()
    return Atoms(np.exp(t), weights, np.empty((0, t.size)))


def _gather(
    values: Sequence[np.ndarray], weights: Sequence[np.ndarray], bins: int = _BINS
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of weighted values as rows of weights on at most two common values per bin.

    One array of values serves all rows of weights if it is the only one. The common values are the Gauss rule of the
    average of the rows; each row keeps its own probability and mean in every bin.
    """
    positive = [v[v > 0] for v in values]
    smallest, largest = (min(v.min(initial=np.inf) for v in positive), max(v.max(initial=0.0) for v in positive))
    has_zero = any(p.size < v.size for p, v in zip(positive, values, strict=True))
    low = float(np.log(smallest)) if largest else 0.0
    step = (float(np.log(largest)) - low) / bins if largest > smallest else 1.0
    centres = np.exp(low + (np.arange(bins) + 0.5) * step)
    moments = np.zeros((len(weights), 4, bins))
    zeros = np.zeros(len(weights))
    for i, w in enumerate(weights):
        if i == 0 or len(values) > 1:
            v = np.asarray(values[i], np.float64)
            alive = v > 0
            index = np.clip(((np.log(v[alive]) - low) / step).astype(np.int64), 0, bins - 1)
            local = v[alive] / centres[index] - 1
        zeros[i] = w[~alive].sum()
        term = w[alive]
        for order in range(4):
            moments[i, order] = np.bincount(index, term, bins)
            term = term * local
    points, rows = _two_point_rules(moments, step)
    flat = (centres * (1 + points)).ravel()
    rows = rows.reshape(len(weights), -1)
    used = rows.any(axis=0)
    order = np.argsort(flat[used])
    flat, rows = flat[used][order], rows[:, used][:, order]
    return (np.append(0.0, flat), np.column_stack([zeros, rows])) if has_zero else (flat, rows)


def _two_point_rules(moments: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """From moments 0 to 3 `(rows, 4, bins)` in bins: points `(2, bins)` and weights `(rows, 2, bins)`."""
    mass = moments[:, 0].mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, second, third = np.nan_to_num(moments[:, 1:].mean(axis=0) / mass)
        variance = second - mean**2
        single = ~(variance > 1e-10 * second)  # spread of the order of rounding: one point
        std = np.sqrt(np.where(single, 1.0, variance))
        skewness = (third - 3 * mean * second + 2 * mean**3) / std**3
    skewness = np.clip(skewness, -step / std, step / std)  # rounding must not move a point out of its bin
    half = np.sqrt(skewness**2 / 4 + 1)
    points = np.where(single, mean, mean + std * (skewness / 2 + np.array([-1.0, 1.0])[:, None] * half))
    gap = np.where(single, 1.0, points[1] - points[0])
    upper = np.where(single, moments[:, 0], (moments[:, 1] - moments[:, 0] * points[0]) / gap)
    return points, np.stack([moments[:, 0] - upper, upper], axis=1)

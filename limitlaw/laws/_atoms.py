"""Laws of a random variance, carried by a few weighted atoms."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from scipy.optimize import brentq

from .._checks import ArgumentError
from ..numerics.estimate import leave_one_batch_out
from ._base import hash_of_values, same_values

BATCHES = 256  # batches of a jackknife: its standard error is itself known to 5%
_BINS = 600  # bins of the logarithm of a variance, for densities exact to 1e-11 in the body (docs/explanation/laws.md)
_MOST_AS_GIVEN = 2048  # exact nodes that are kept unchanged, somewhat more than the 1,200 atoms of 600 bins
_AT_ONCE = 2**17  # values binned at once: larger arrays are no faster, and many small ones are slower
_NO_WEIGHT = 1e-280  # a probability below this contributes nothing to any density that is not itself 0
_BINS_OF_PAIRS = 1000  # more bins for sums and products of two variances, which have a larger range
_CHI_SQUARE_NODES = 512  # on a range of at most 63 in the logarithm, where the trapezoid rule is exact to rounding
_CHI_SQUARE_DEPTH = 400.0  # atoms of a chi-square end above where its density is exp(-400) times the largest ...
_NEGLIGIBLE = 40.0  # ... and below where they would add less than exp(-40) to the density of a mixture at 0 ...
_SMALLEST = 1e-24  # ... but not below this value: a density that is infinite at 0 is not resolved beyond it
_ROUNDING = 1e-6  # share of the largest variance by which a difference of float32 numbers may be negative
_UNCORRECTED = 1e-4  # probability of each tail of a known law in which control variates are not used


@dataclass(frozen=True, eq=False)
class Atoms:
    """A law on the half-line, carried by a few weighted values, with the data for its standard errors.

    Attributes:
        values: The atoms, increasing.
        weights: Their probabilities. Control variates can make some of them negative.
        leave_one_out: The weights with one batch left out, for each batch, `(B, len(values))`: errors are the
            jackknife's over these. Batches consist of independent draws, or are independent randomisations of a
            quasi-Monte Carlo rule. B = 0 for an exact rule.
        dof: The degrees of freedom of a known chi-square factor of the value, inf without one. With one degree of
            freedom or less `E v^(-1/2)` is infinite, which no finite set of atoms can show.

    Many values are reduced to two atoms in each of 600 bins of the logarithm, which keep the probability and the first
    three moments of the bin (its Gauss rule). For a smooth function of the value the error is of fourth order in the
    width of a bin, 1e-11 and less for bins that are a few thousandths wide. The value 0 has a separate atom.

    Example:
        >>> import numpy as np
        >>> from limitlaw.laws import Atoms
        >>> v = Atoms.exactly(np.array([1.0, 3.0]), np.array([0.5, 0.5]))
        >>> v.moments(1), v.moments(2)
        (array([2.]), array([5.]))
        >>> v.mean_of_copies(2).weights.tolist()  # of 1, 2 and 3
        [0.25, 0.5, 0.25]
    """

    values: np.ndarray
    weights: np.ndarray
    leave_one_out: np.ndarray
    dof: int | float = inf

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Atoms):
            return NotImplemented
        return same_values(self._fields, other._fields)

    def __hash__(self) -> int:
        return hash_of_values(self._fields)

    @property
    def _fields(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, int | float]:
        return self.values, self.weights, self.leave_one_out, self.dof

    @classmethod
    def exactly(cls, values: np.ndarray, weights: np.ndarray) -> "Atoms":
        """Values and weights that are known exactly. A few are kept unchanged, and many are gathered in bins.

        Raises:
            ArgumentError: If a value is negative or not finite.
        """
        values = _checked_variances(values)
        counted = weights > _NO_WEIGHT
        values, weights = values[counted], weights[counted]
        if values.size <= _MOST_AS_GIVEN:
            order = np.argsort(values, kind="stable")
            return cls(values[order], weights[order], np.empty((0, values.size)))
        gathered, rows = _gather([values], [weights])
        return cls(gathered, rows[0], np.empty((0, gathered.size)))

    @classmethod
    def from_draws(cls, draws: np.ndarray) -> "Atoms":
        """Independent draws, split into batches.

        Raises:
            ArgumentError: If a draw is negative or not finite.
        """
        draws = _checked_variances(draws)
        rows = np.array_split(draws, min(BATCHES, draws.size))
        return cls._of_batches(rows, [np.full(row.size, len(rows) / draws.size) for row in rows])

    @classmethod
    def _of_batches(cls, values: list[np.ndarray], weights: list[np.ndarray]) -> "Atoms":
        gathered, rows = _gather(values, weights)
        others = leave_one_batch_out(rows)
        # Batches need not have equal sizes, so the rows that leave one out do not sum to 1 by themselves.
        return cls(gathered, rows.mean(axis=0), others / others.sum(axis=1, keepdims=True))

    @classmethod
    def from_coupled_draws(cls, draws: np.ndarray, control: np.ndarray, known: "Atoms") -> "Atoms":
        """Independent draws, each coupled to a `control` draw of a law that is `known` exactly.

        The law of the draws minus the law of the controls plus the known law (control variates). It is the same law on
        average, and its error is smaller, the closer draws and controls are. Only the middle of the known law is
        corrected, between two of its quantiles, so the far tails stay positive. Some weights may become negative.

        Raises:
            ArgumentError: If a draw is negative or not finite.
        """
        draws, control = _checked_variances(draws), _checked_variances(control)
        steps = np.cumsum(known.weights)
        low, high = known.values[np.searchsorted(steps, [_UNCORRECTED, 1 - _UNCORRECTED])]
        middle = (known.values >= low) & (known.values <= high)
        count = min(BATCHES, draws.size)
        mass = known.weights[middle].sum()
        values, weights = [], []
        for row, other in zip(np.array_split(draws, count), np.array_split(control, count), strict=True):
            other = other[(other >= low) & (other <= high)]
            share = count * row.size / draws.size
            plus = known.values[middle] if other.size else np.empty(0)  # without a control there is no correction
            # Each batch is drawn law - control law + known law, with the control scaled to the mass of the known
            # middle, so that every batch has the same total weight.
            values.append(np.concatenate([row, other, plus]))
            parts = [np.full(row.size, share / row.size), np.full(other.size, -share * mass / max(other.size, 1))]
            weights.append(np.concatenate([*parts, share * known.weights[middle][: plus.size]]))
        return cls._of_batches(values, weights)

    @classmethod
    def from_randomisations(cls, points: np.ndarray) -> "Atoms":
        """Rows of equally weighted points; each row is an independent randomisation of the same rule.

        Raises:
            ArgumentError: If a point is negative or not finite.
        """
        points = _checked_variances(points)
        return cls._of_batches(list(points), [np.full(points.shape[1], 1 / points.shape[1])] * len(points))

    @property
    def zero(self) -> float:
        """The probability of the value 0."""
        return float(self.weights[self.values == 0].sum())

    def moments(self, order: int) -> np.ndarray:
        """`E v^order`, first by the weights and then without each batch."""
        return np.vstack([self.weights, self.leave_one_out]) @ self.values**order

    def scaled(self, factor: float) -> "Atoms":
        """The law of `factor v`."""
        return Atoms(factor * self.values, self.weights, self.leave_one_out, self.dof)

    def times_chi_square_mean(self, dof: int | float) -> "Atoms":
        """The law of `v chi2(dof) / dof` with an independent chi-square; that of `v` for `dof = inf`."""
        if np.isinf(dof):
            return self
        # The density of a product at 0 is that of the factor which is more likely to be small.
        return replace(self._combined(_chi_square_mean(dof), np.multiply.outer), dof=min(self.dof, dof))

    def mean_of_copies(self, copies: int) -> "Atoms":
        """The law of the average of independent copies, by doubling in at most `2 log2(copies)` convolutions."""
        # `power` is the law of the sum of 2^k copies in round k, and `total` that of the copies whose binary digits are
        # done. Degrees of freedom of independent chi-squares add.
        total, power, left = None, self, copies
        while True:
            if left % 2:
                total = power if total is None else total._combined(power, np.add.outer)
            left //= 2
            if not left:
                assert total is not None
                return replace(total.scaled(1 / copies), dof=copies * self.dof)
            power = power._combined(power, np.add.outer)

    def _combined(self, other: "Atoms", operation: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> "Atoms":
        """The law of a symmetric function of two independent values, gathered in bins.

        Leaving a batch out moves the weights of both factors. To first order the product moves by the sum of the two
        moves, which costs one pass over the pairs of atoms for each factor instead of a convolution for each batch.
        """
        # The first axis of a place belongs to the factor whose weights move, so the second factor takes the transpose.
        # Two equal factors move together, and because the operation is symmetric their two terms are the same.
        values = operation(self.values, other.values)
        grid = _Bins.over([values], _BINS_OF_PAIRS)
        place = grid.place(values)
        pooled = place.moments(np.multiply.outer(self.weights, other.weights), 4)
        rows = pooled[None, :2]
        factors = [(self, other, place)] if self is other else [(self, other, place), (other, self, place.transposed)]
        moved = [
            of_pairs.moments_of_rows(one.leave_one_out - one.weights, two.weights)
            for one, two, of_pairs in factors
            if len(one.leave_one_out)
        ]
        if moved:  # the single term of two equal factors counts twice
            rows = np.concatenate([rows, rows + sum(moved) * (2 / len(factors))])
        gathered, weights = _on_points(grid, _two_points(pooled, grid.step), rows)
        return Atoms(gathered, weights[0], weights[1:])


def _chi_square_mean(dof: int | float) -> Atoms:
    """`chi2(dof) / dof` by the trapezoid rule in its logarithm `t`, whose log density is `(dof/2)(t - e^t)`.

    The rule converges geometrically, because that density is analytic in a strip and vanishes at both ends.
    """

    def depth(t: float) -> float:
        """The distance of the log density at `t` below its maximum at `t = 0`."""
        return dof / 2 * (np.expm1(t) - t)

    def missing(t: float) -> float:
        """The margin by which the integrand of `E v^(-1/2)`, the density of a mixture at 0, is negligible at `t`."""
        return depth(t) + t / 2 - _NEGLIGIBLE

    above = 2 + float(np.log(1 + 2 * _CHI_SQUARE_DEPTH / dof))  # depth(above) > _CHI_SQUARE_DEPTH for every dof
    # The integrand of E v^(-1/2) decays more slowly than the density, so it and not the density sets the lower end.
    high = float(brentq(lambda t: depth(t) - _CHI_SQUARE_DEPTH, 0.0, above))  # type: ignore[arg-type]
    low = float(np.log(_SMALLEST))
    if missing(low) > 0:
        low = float(brentq(missing, low, 0.0))  # type: ignore[arg-type]
    t = np.linspace(low, high, _CHI_SQUARE_NODES)
    weights = np.exp(-dof / 2 * (np.expm1(t) - t))
    weights /= weights.sum()
    return Atoms(np.exp(t), weights, np.empty((0, t.size)))


def _gather(values: Sequence[np.ndarray], weights: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Rows of weighted values as rows of weights on at most two common values per bin.

    The common values are the Gauss rule of the average of the rows; each row keeps its own probability and mean in
    every bin.
    """
    grid = _Bins.over(values, _BINS)
    absolute, moments = np.zeros((4, grid.centres.size)), []
    # Consecutive rows are binned together until there are enough values, as one pass over few values is mostly
    # overhead.
    together = np.cumsum([row.size for row in values]) // _AT_ONCE
    for group in np.split(np.arange(len(values)), np.flatnonzero(np.diff(together)) + 1):
        flat = np.concatenate([weights[i] for i in group])
        place = grid.place(np.concatenate([values[i] for i in group]))
        owner = np.repeat(np.arange(group.size), [values[i].size for i in group])
        # The points of a Gauss rule need positive weights; the signs come back with the weights of each row.
        of_all = place.moments(np.abs(flat), 4)
        absolute += of_all
        already_known = group.size == 1 and flat.min() >= 0
        moments.append(of_all[None, :2] if already_known else place.moments_by_owner(flat, owner, group.size))
    return _on_points(grid, _two_points(absolute, grid.step), np.concatenate(moments))


def _on_points(grid: "_Bins", points: np.ndarray, moments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values, and rows of weights on them, with the moments 0 and 1 `(rows, 2, bins)`."""
    rows = _two_weights(moments, points).reshape(len(moments), -1)
    flat = (grid.centres * (1 + points)).ravel()
    used = rows.any(axis=0)
    order = np.argsort(flat[used], kind="stable")
    return flat[used][order], rows[:, used][:, order]


def _checked_variances(values: np.ndarray) -> np.ndarray:
    """Finite values that are at least 0 up to rounding, with negative rounding errors replaced by 0."""
    finite = np.isfinite(values)
    least = -_ROUNDING * np.max(values, where=finite, initial=0.0)
    bad = np.argwhere(~finite | (values < least))
    if not len(bad):
        return np.maximum(values, 0.0)
    where = tuple(int(i) for i in bad[0])
    raise ArgumentError(
        "variances",
        f"variances[{', '.join(map(str, where))}]={values[where]} must be finite and at least 0 ({len(bad):,} of "
        f"{values.size:,} entries are not). In float32 numbers beyond 3e38 become inf or NaN. "
        f"Give the network smaller stds, or a norm.",
    )


@dataclass(frozen=True)
class _Place:
    """The index of the bin of each value, and the position `v / centre - 1` in that bin."""

    index: np.ndarray
    local: np.ndarray
    bins: int

    @property
    def transposed(self) -> "_Place":
        return _Place(self.index.T, self.local.T, self.bins)

    def moments(self, weights: np.ndarray, orders: int) -> np.ndarray:
        """Moments 0 to `orders - 1` about the centres, `(orders, bins)`."""
        out = np.empty((orders, self.bins))
        for order in range(orders):
            out[order] = np.bincount(self.index.ravel(), weights.ravel(), self.bins)
            weights = weights * self.local
        return out

    def moments_by_owner(self, weights: np.ndarray, owner: np.ndarray, owners: int) -> np.ndarray:
        """Moments 0 and 1 of the values of each of `0 ... owners - 1`, `(owners, 2, bins)`."""
        # One count over bins of all owners, numbered consecutively, in place of one pass for each owner.
        apart = _Place(self.index + self.bins * owner, self.local, self.bins * owners)
        return np.moveaxis(apart.moments(weights, 2).reshape(2, owners, self.bins), 0, 1)

    def moments_of_rows(self, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Moments 0 and 1, `(rows, 2, bins)`, of values `(i, j)` weighted by `rows[r, i] weights[j]`."""
        # Linear in the rows: moments are taken once for each first factor `i`, and one product then serves all rows.
        count = len(self.index)
        each = np.broadcast_to(weights, self.index.shape)
        return np.tensordot(rows, self.moments_by_owner(each, np.arange(count)[:, None], count), axes=1)


@dataclass(frozen=True)
class _Bins:
    """Bins of equal width in the logarithm, followed by one for the value 0."""

    low: float
    step: float
    centres: np.ndarray

    @classmethod
    def over(cls, values: Sequence[np.ndarray], bins: int) -> "_Bins":
        """`bins` bins from the smallest positive value to the largest."""
        smallest = min(float(v.min(where=v > 0, initial=np.inf)) for v in values)
        largest = max(float(v.max(initial=0.0)) for v in values)
        low = float(np.log(smallest)) if largest > 0 else 0.0
        step = (float(np.log(largest)) - low) / bins if largest > smallest else 1.0
        return cls(low, max(step, 1e-12), np.append(np.exp(low + (np.arange(bins) + 0.5) * step), 0.0))

    def place(self, values: np.ndarray) -> _Place:
        """The bin of each value."""
        zero = self.centres.size - 1
        with np.errstate(divide="ignore"):
            index = np.log(values, dtype=np.float64)
        index -= self.low
        index /= self.step
        index = np.where(values > 0, np.clip(index, 0, zero - 1), zero).astype(np.int64)
        local = (
            np.divide(values, self.centres[index], out=np.ones(values.shape), where=values > 0, dtype=np.float64) - 1
        )
        return _Place(index, local, self.centres.size)


def _two_points(moments: np.ndarray, step: float) -> np.ndarray:
    """The two points `(2, bins)` of the Gauss rules with moments 0 to 3 `(4, bins)`; equal where one is enough."""
    # The rule of a law with mean 0, variance 1 and skewness s has its points at s / 2 -+ sqrt(s^2 / 4 + 1).
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, second, third = np.nan_to_num(moments[1:] / moments[0])
        variance = second - mean**2
        single = ~(variance > 1e-10 * second)  # spread of the order of rounding
        std = np.sqrt(np.where(single, 1.0, variance))
        skewness = (third - 3 * mean * second + 2 * mean**3) / std**3
    skewness = np.clip(skewness, -step / std, step / std)  # rounding must not move a point out of its bin
    half = np.sqrt(skewness**2 / 4 + 1)
    return np.where(single, mean, mean + std * (skewness / 2 + np.array([-1.0, 1.0])[:, None] * half))


def _two_weights(moments: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The weights `(rows, 2, bins)` on two points that have moments 0 and 1 `(rows, 2, bins)`."""
    gap = points[1] - points[0]
    single = gap <= 0
    upper = (moments[:, 1] - moments[:, 0] * points[0]) / np.where(single, 1.0, gap)
    upper = np.where(single, moments[:, 0], upper)
    return np.stack([moments[:, 0] - upper, upper], axis=1)

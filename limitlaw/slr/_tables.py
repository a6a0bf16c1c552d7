"""The integrals behind the exact risk: a Laplace transform turns a softmax into products of one-token averages.

With `1/Z = int exp(-t Z) dt`, `t = exp(-y)`, and `kappa_x = exp(b x - y)` for a token of score `b x`, every
expectation of softmax weights is an integral over `y` of `kappa_s^j exp(-kappa_s)` for the token that carries the
signal, `s = m mu + gamma g`, times averages over the `N = L - 1` others, which are independent. They are tabulated in
`s` once, for every overlap. The trapezoid rule is exact to rounding, as the integrands are analytic in a strip of
width pi.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

from .._checks import ArgumentError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

T = TypeVar("T")

MOST_SCALE = 2000.0  # of the scores: beyond it softmax is an argmax to rounding
_STEP = 0.25  # in y: the error is about 100 exp(-pi^2 / step)
_FINEST = 0.2  # in standard deviations: the trapezoid rule for a Gaussian weight is exact to rounding at this step
_REACH = 9.0  # standard deviations: a Gaussian has a weight of 1e-19 beyond
_DEEP = 42.0  # exp(-42) is below rounding
_CERTAIN = 5.0  # exp(-exp(5)) is 0
_NEGLIGIBLE = 1e-40  # of an average over the other tokens
_MOST = 750.0  # exp(-750) is 0
_BYTES = 60  # per entry of `_signal`: four matrices, and the arrays that they are made from
_MOST_BYTES = 4 * 2**30  # tables of one problem
_KEPT_BYTES = 256 * 2**20  # all tables together: those of a problem take 12 MB at d = 100, 80 MB at d = 1000
_DERIVED = 64  # derived tables of one setting: a grid of overlaps, row by row, asks for about 40 values of rho in turn
_ROWS = 32  # values of y at a time: so few that one range of h serves them all


@dataclass(frozen=True)
class Setting:
    """The numbers that the integrals depend on: score scale `b`, mean `m` of the signal, `gamma`, and `log(L - 1)`."""

    scale: float
    signal: float
    gamma: float
    log_others: float

    @property
    def others(self) -> float:
        """`N = L - 1`, infinite if it overflows."""
        return float(np.exp(self.log_others))

    @property
    def pairs(self) -> float:
        """`(N - 1) / N`."""
        return -float(np.expm1(-self.log_others))


class Tables:
    """Averages over the other tokens on a grid in `y`, and integrals over `y` as functions of the signal's score.

    `one_other` and `same_other` average over one other token, whose score is `h`. `against(j, z)` is
    `int kappa_s^j exp(-kappa_s) z(y) dy` on the grid of `s`, for `z` on the grid of `y`.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        b, m, gamma = setting.scale, setting.signal, setting.gamma
        farthest = abs(m) + _REACH * gamma
        self.s_step = min(_STEP / b, _FINEST * gamma)
        count = int(np.ceil(farthest / self.s_step))
        self.bytes = 2 * count * (_DEEP + _CERTAIN) / _STEP * _BYTES
        if self.bytes > _MOST_BYTES:
            raise ArgumentError(
                "beta",
                f"beta sqrt(dim)={b:.4g} with signal={m:.4g} needs tables of {self.bytes / 2**30:.0f} GiB. "
                f"Use a smaller beta or signal.",
            )
        self._derived: OrderedDict[Hashable, object] = OrderedDict()
        self._lock = threading.Lock()
        self.s = self.s_step * np.arange(-count, count + 1)
        tau = np.sqrt(2 * (max(setting.log_others, 0.0) + _DEEP))
        noise = b * tau + _DEEP if tau < b else setting.log_others + b**2 / 2 + _DEEP + 3
        highest = max(b * farthest + _DEEP, noise)
        y = np.arange(-b * max(_REACH, farthest) - 5, highest + _STEP, _STEP)
        h_step = min(_STEP / b, _FINEST)
        self.h = np.arange(-_REACH, min(b, highest / b) + _REACH + 1 + h_step, h_step)
        self._h_weights = np.exp(-(self.h**2) / 2) * h_step / np.sqrt(2 * np.pi)
        log_cdf = self._log_cdf(y)
        # the largest terms have the power N - 2, or 0 for one other token: where even that is 0, all terms are
        alive = self._power(log_cdf, max(setting.others - 2, 0.0)) > -_MOST
        self.y, self._log = y[alive], log_cdf[alive]

    def _log_cdf(self, y: np.ndarray) -> np.ndarray:
        """`log E exp(-kappa_h)`, from the smaller of it and its complement.

        It is the distribution function of a score plus a Gumbel variable.
        """
        out = np.empty(y.size)
        above = np.append(np.cumsum(self._h_weights[::-1])[::-1], 0.0)
        for part in self._parts(y):
            first, last = self._columns(y[part])
            u = np.add.outer(-y[part], self.setting.scale * self.h[first:last])
            kappa = np.exp(np.minimum(u, _CERTAIN + 3))
            tail = -np.expm1(-kappa) @ self._h_weights[first:last] + above[last]
            body = np.exp(-kappa) @ self._h_weights[first:last] + above[0] - above[first]
            with np.errstate(divide="ignore"):
                out[part] = np.where(tail < 0.5, np.log1p(-np.minimum(tail, 0.5)), np.log(body))
        return out

    def _parts(self, y: np.ndarray) -> list[slice]:
        return [slice(start, start + _ROWS) for start in range(0, y.size, _ROWS)]

    def _columns(self, y: np.ndarray) -> tuple[int, int]:
        """Scores `h` that are neither negligible nor certain to win, for a range of `y`."""
        lowest = y[0] - max(self.setting.log_others, 0.0) - 100
        between = np.searchsorted(self.setting.scale * self.h, [lowest, y[-1] + _CERTAIN])
        return int(between[0]), int(between[1])

    def _power(self, log_cdf: np.ndarray, power: float) -> np.ndarray:
        """`power log cdf`, also where that is 0 times infinity."""
        return power * log_cdf if power else np.zeros_like(log_cdf)

    @functools.cached_property
    def _half(self) -> float:
        """The power of the distribution function that goes with each of two other tokens, so that neither overflows."""
        return max(self.setting.others - 2, 0.0) / 2

    def cdf_power(self, less: float) -> np.ndarray:
        """`cdf^(N - less)`."""
        return np.exp(self._power(self._log, self.setting.others - less))

    @functools.cached_property
    def _rest(self) -> np.ndarray:
        """What is left of `cdf^(N - 1)` when one token has had its half."""
        return np.exp(self._power(self._log, self.setting.others - 1 - self._half))

    @functools.cached_property
    def _others(self) -> tuple[csr_array, csr_array]:
        """`N kappa_h^j exp(-kappa_h) cdf^half`, weighted, for j = 1 and 2: rows `y`, columns `h`."""
        own = self._power(self._log, self._half) + self.setting.log_others
        rows: list[list[np.ndarray]] = [[], [], [], []]
        counts = np.zeros(self.y.size + 1, np.int64)
        for part in self._parts(self.y):
            first, last = self._columns(self.y[part])
            u = np.add.outer(-self.y[part], self.setting.scale * self.h[first:last])
            kappa = np.exp(np.minimum(u, _CERTAIN + 3))
            with np.errstate(divide="ignore"):
                log_weights = np.log(self._h_weights[first:last])
            once = np.exp(np.minimum(u, _CERTAIN + 3) - kappa + own[part, None] + log_weights)
            kept = np.nonzero(once > _NEGLIGIBLE)
            counts[1:][part] = np.bincount(kept[0], minlength=u.shape[0])
            rows[0].append(once[kept])
            rows[1].append((once * kappa)[kept])
            rows[2].append(kept[1] + first)
        starts, columns = np.cumsum(counts), np.concatenate(rows[2])
        shape = self.y.size, self.h.size
        once, twice = (_sparse(np.concatenate(data), columns, starts, shape) for data in rows[:2])
        return once, twice

    def one_other(self, values: np.ndarray) -> np.ndarray:
        """`N E[n(h) kappa_h exp(-kappa_h)] cdf^half`, for `n` on the grid of `h`, the last axis."""
        return _apply(self._others[0], values)

    def same_other(self, values: np.ndarray) -> np.ndarray:
        """`N E[n(h) kappa_h^2 exp(-kappa_h)] cdf^(N - 1)`: two factors of one other token."""
        return _apply(self._others[1], values) * self._rest

    def with_one_other(self, average: np.ndarray) -> np.ndarray:
        """`N E[n(h) kappa_h exp(-kappa_h)] cdf^(N - 1)` from `one_other`."""
        return average * self._rest

    def with_two_others(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """`N (N - 1) E[n kappa exp(-kappa)] E[n' kappa exp(-kappa)] cdf^(N - 2)`, from `one_other` of each."""
        return self.setting.pairs * first * second

    @functools.cached_property
    def _signal(self) -> tuple[list[csr_array], np.ndarray]:
        """`kappa_s^j exp(-kappa_s)`, j = 0..3, where it is not 0; for j = 0, the index in `y` from which on it is 1."""
        b, s, y = self.setting.scale, self.s, self.y
        first, last = np.searchsorted(y, b * s - _CERTAIN), np.searchsorted(y, b * s + _DEEP)
        widths = last - first
        rows = np.repeat(np.arange(s.size), widths)
        starts = np.concatenate([[0], np.cumsum(widths)])
        columns = np.arange(rows.size) - starts[rows] + first[rows]
        kappa = np.exp(b * s[rows] - y[columns])
        data = [np.exp(-kappa) * _STEP]
        for _ in range(3):
            data.append(data[-1] * kappa)
        return [_sparse(d, columns, starts, (s.size, y.size)) for d in data], last

    def against(self, j: int, z: np.ndarray) -> np.ndarray:
        """`int kappa_s^j exp(-kappa_s) z(y) dy` for each `s`; the last axis of `z` is `y`."""
        matrices, last = self._signal
        out = _apply(matrices[j], z)
        if j == 0:
            beyond = np.cumsum(z[..., ::-1], axis=-1)[..., ::-1]
            out = out + _STEP * np.concatenate([beyond, np.zeros((*z.shape[:-1], 1))], axis=-1)[..., last]
        return out

    def slope_against(self, j: int, z: np.ndarray) -> np.ndarray:
        """The derivative of `against(j, z)` in `s`: `b int (j kappa^j - kappa^(j + 1)) exp(-kappa) z dy`."""
        matrices, _ = self._signal
        rising = j * _apply(matrices[j], z) if j else 0.0
        return self.setting.scale * (rising - _apply(matrices[j + 1], z))

    def normal(self, mu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The standard normal `g` that makes each `s`, and its weight, for overlaps `mu` along a new first axis."""
        g = (self.s - self.setting.signal * mu[:, None]) / self.setting.gamma
        return g, np.exp(-(g**2) / 2) * (self.s_step / (self.setting.gamma * np.sqrt(2 * np.pi)))

    def derived(self, compute: Callable[..., T], *args: Hashable) -> T:
        """`compute(self, *args)`. The last 64 results live as long as these tables."""
        key = compute, args
        with self._lock:
            if key in self._derived:
                self._derived.move_to_end(key)
                return cast(T, self._derived[key])
        value = compute(self, *args)
        with self._lock:
            self._derived[key] = value
            if len(self._derived) > _DERIVED:
                self._derived.popitem(last=False)
        return value


def _sparse(data: np.ndarray, columns: np.ndarray, starts: np.ndarray, shape: tuple[int, int]) -> csr_array:
    from scipy.sparse import csr_array  # slow to import

    return csr_array((data, columns, starts), shape=shape)


def _apply(matrix: csr_array, z: np.ndarray) -> np.ndarray:
    """The matrix on the last axis."""
    return (matrix @ z.T).T


class _Cache:
    """Tables by setting: those used last, and earlier ones as long as all together fit into some memory."""

    def __init__(self, most_bytes: float) -> None:
        self._most_bytes = most_bytes
        self._tables: OrderedDict[Setting, Tables] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, setting: Setting) -> Tables:
        """The tables of a setting, built if they are not there."""
        with self._lock:
            if setting in self._tables:
                self._tables.move_to_end(setting)
                return self._tables[setting]
        tables = Tables(setting)  # outside of the lock: threads must not wait for the tables of others
        with self._lock:
            self._tables[setting] = tables
            self._tables.move_to_end(setting)
            while len(self._tables) > 1 and sum(kept.bytes for kept in self._tables.values()) > self._most_bytes:
                self._tables.popitem(last=False)
        return tables

    def clear(self) -> None:
        """Drop all tables."""
        with self._lock:
            self._tables.clear()


_CACHE = _Cache(_KEPT_BYTES)


def tables_of(setting: Setting) -> Tables:
    """The tables of a setting. Callers hold them for one call only: the cache alone decides how long they live."""
    return _CACHE.get(setting)


def release_tables() -> None:
    """Free the tables behind the exact risks, which may take hundreds of megabytes. They are built again when they are needed.

    Example:
        >>> from limitlaw import slr
        >>> problem = slr.Problem(dim=20, tokens=5)
        >>> before = problem.risk(1, 1)
        >>> slr.release_tables()
        >>> problem.risk(1, 1) == before
        True
    """
    _CACHE.clear()


def noise_alone(setting: Setting) -> tuple[float, float, float]:
    """Mean and variance of the attended score, and the participation `E sum q^2`, if there is no signal."""
    return tables_of(setting).derived(_noise_alone)


def _noise_alone(t: Tables) -> tuple[float, float, float]:
    one = t.with_one_other(t.one_other(np.stack([t.h, t.h**2])))
    mean, square, participation = _STEP * np.sum([*one, t.same_other(np.ones_like(t.h))], axis=1)
    return float(mean), float(square - mean**2), float(participation)

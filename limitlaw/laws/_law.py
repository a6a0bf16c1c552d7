"""What a law on the real line can do."""

import abc
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from .. import _arguments, _html
from ..numerics import CubicSpline, Estimate, jackknife

_TAILS = (
    0.5 - 1e-7,
    0.5 - 1e-5,
    0.499,
    0.49,
    0.45,
    0.35,
    0.25,
    0.15,
    0.08,
    0.04,
    0.015,
    5e-3,
    1e-3,
    1e-4,
    1e-6,
    1e-8,
    1e-11,
    1e-15,
    1e-20,
    1e-26,
)
_PANEL_NODES = 16
_SOLVED = 512  # quantiles solved one by one; more of them start from a spline through as many
_SPLINE_REACH = 9.0  # standard normals are never larger
_NEWTON_STEPS = 100
_POLISHES = 2
_REPEATED = 0.3
_GROWTH = 3.0  # of the distance from the median within one panel
_FUNCTIONS = ("pdf", "logpdf", "cdf", "logcdf", "ccdf", "logccdf", "icdf", "iccdf")
_SHOWN = 0.999  # of a law, in a notebook
_PLOTS = ("pdf", "logpdf", "cdf", "ccdf")


class Law(abc.ABC):
    """A probability law on the real line, with the methods of `scipy.stats`.

    Functions of `x` take and return float64 arrays (a scalar for a scalar) and stay accurate in the tails: `logpdf`,
    `logcdf` and `logccdf` thirty standard deviations out, where `pdf` is 1e-200. Numbers are `Estimate`s; where the
    law itself is known from draws, `error(what, x)` is the standard error of `pdf`, `cdf`, ... at `x`.

    A subclass gives `_logpdf`, `_logccdf`, `_logcdf` (one-dimensional arrays in and out), `_cf`, `moment`, `sample`, and
    `left_out`: a function of the law with one batch of what it was made from left out at a time, from which every error is
    derived. The rest (quantiles, entropy, plots, adaptors) follows. `method` says how densities are found, where there is a choice.
    """

    name: str = "law"
    event_shape: tuple[int, ...] = ()

    @abc.abstractmethod
    def _logpdf(self, x: np.ndarray) -> np.ndarray: ...

    @abc.abstractmethod
    def _logcdf(self, x: np.ndarray) -> np.ndarray: ...

    @abc.abstractmethod
    def _logccdf(self, x: np.ndarray) -> np.ndarray: ...

    @abc.abstractmethod
    def _cf(self, t: np.ndarray) -> np.ndarray: ...

    @abc.abstractmethod
    def moment(self, order: int, kind: str = "raw") -> Estimate:
        """`E y^order`; `kind` is "raw", "central" (about the mean) or "standardized" (in units of the standard deviation)."""

    @abc.abstractmethod
    def sample(self, shape: int | Sequence[int] = (), *, seed: int = 0) -> np.ndarray:
        """Independent draws, float64."""

    def left_out(self, what: str, x: np.ndarray) -> np.ndarray:
        """`what` ("pdf", "cdf" or "ccdf") at `x` with each of `B` independent batches left out in turn, `(B, len(x))`.

        B is 0 for a law that is known exactly.
        """
        del what
        return np.empty((0, x.size))

    def _pdf(self, x: np.ndarray) -> np.ndarray:
        return np.exp(self._logpdf(x))

    def pdf(self, x: Any) -> Any:
        """The density."""
        return _pointwise(self._pdf, "x", x)

    def logpdf(self, x: Any) -> Any:
        """The logarithm of the density; accurate where the density underflows."""
        return _pointwise(self._logpdf, "x", x)

    def cdf(self, x: Any) -> Any:
        """`P(y <= x)`."""
        return _pointwise(lambda x: np.exp(self._logcdf(x)), "x", x)

    def logcdf(self, x: Any) -> Any:
        """`log P(y <= x)`."""
        return _pointwise(self._logcdf, "x", x)

    def ccdf(self, x: Any) -> Any:
        """`P(y > x)`, to full relative accuracy."""
        return _pointwise(lambda x: np.exp(self._logccdf(x)), "x", x)

    def logccdf(self, x: Any) -> Any:
        """`log P(y > x)`."""
        return _pointwise(self._logccdf, "x", x)

    def icdf(self, q: Any) -> Any:
        """The quantile function: the `x` with `cdf(x) = q`."""
        return _pointwise(lambda q: self._quantiles(q, upper=False), "q", _checked_levels("q", q))

    def iccdf(self, q: Any) -> Any:
        """The `x` with `ccdf(x) = q`: quantiles near the upper end, without the rounding of `1 - q`."""
        return _pointwise(lambda q: self._quantiles(q, upper=True), "q", _checked_levels("q", q))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The central interval of probability `level`."""
        if np.ndim(level):
            raise TypeError(f"level={level!r}: must be one number in [0, 1].")
        tail = (1 - float(_checked_levels("level", level))) / 2
        return float(self.icdf(tail)), float(self.iccdf(tail))

    def median(self) -> float:
        """The median."""
        return float(self.icdf(0.5))

    def cf(self, t: Any) -> Any:
        """The characteristic function, `E exp(i t y)`."""
        return _pointwise(self._cf, "t", t, dtype=np.complex128)

    def mean(self) -> Estimate:
        """The mean."""
        return self.moment(1)

    def var(self) -> Estimate:
        """The variance."""
        return self.moment(2, "central")

    def std(self) -> Estimate:
        """The standard deviation."""
        return root_of(self.var())

    def skewness(self) -> Estimate:
        """The third standardized moment."""
        return self.moment(3, "standardized")

    def kurtosis(self) -> Estimate:
        """Excess kurtosis: the fourth standardized moment less 3."""
        fourth = self.moment(4, "standardized")
        return Estimate(fourth - 3, fourth.stderr, fourth.dof)

    def entropy(self) -> Estimate:
        """Differential entropy, `-E log pdf(y)`, by quadrature."""
        x, weights = self.panels()
        f, log_f = self._pdf(x), self._logpdf(x)
        live = f > 0
        value = -float(weights[live] @ (f[live] * log_f[live]))
        others = [
            -float(weights[live] @ (row * np.log(np.maximum(row, 1e-300)))) for row in self.left_out("pdf", x)[:, live]
        ]
        return jackknife(value, np.array(others))

    def error(self, what: str, x: Any) -> Any:
        """The standard error of `what` ("pdf", "logpdf", "cdf", "logcdf", "ccdf", "logccdf", "icdf", "iccdf") at `x`.

        !!! Example

            >>> import numpy as np
            >>> from limitlaw.laws import ScaleMixture
            >>> law = ScaleMixture(np.random.default_rng(0).chisquare(8, 100_000) / 8)
            >>> print(f"{law.pdf(0.0):.4f} ± {law.error('pdf', 0.0):.4f}")
            0.4419 ± 0.0004
        """
        _arguments.one_of("what", what, _FUNCTIONS)
        if what in ("icdf", "iccdf"):  # dx = dq / pdf
            x = _pointwise(lambda q: self._quantiles(q, upper=what == "iccdf"), "q", _checked_levels("q", x))
            return _pointwise(lambda x: self._spread("cdf", x) / np.maximum(self._pdf(x), 1e-300), "x", x)
        plain = what.removeprefix("log")
        spread = _pointwise(lambda x: self._spread(plain, x), "x", x)
        if not what.startswith("log"):
            return spread
        value = np.asarray(getattr(self, plain)(x))
        return np.divide(spread, value, out=np.zeros(value.shape), where=value > 0)[()]

    def _spread(self, what: str, x: np.ndarray) -> np.ndarray:
        rows = self.left_out(what, x)
        count = len(rows)
        return rows.std(axis=0, ddof=1) * (count - 1) / np.sqrt(count) if count > 1 else np.zeros(x.size)

    def _quantiles(self, q: np.ndarray, *, upper: bool) -> np.ndarray:
        """Newton's method on the logarithm of the smaller tail; many quantiles start from a spline through a few."""
        x = np.full(q.shape, np.nan)
        x[q == 0], x[q == 1] = (np.inf, -np.inf) if upper else (-np.inf, np.inf)
        inside = (q > 0) & (q < 1)
        levels = q[inside]
        with np.errstate(divide="ignore"):
            log_tail = np.where(levels <= 0.5, np.log(levels), np.log1p(-levels))
        right = (levels <= 0.5) == upper
        if levels.size <= _SOLVED:
            x[inside] = self._solve(log_tail, right)
        else:
            normal = np.where(right, -1.0, 1.0) * ndtri(np.exp(np.maximum(log_tail, -700.0)))
            found = self._from_normal(np.clip(normal, -_SPLINE_REACH, _SPLINE_REACH))
            for _ in range(_POLISHES):
                gap, slope = self._gap(found, log_tail, right)
                found = found + np.where(slope > 0, gap / np.maximum(slope, 1e-300), 0.0)
            missed = ~(np.abs(self._gap(found, log_tail, right)[0]) < 1e-10)
            for part in np.array_split(np.flatnonzero(missed), max(np.sum(missed) // _SOLVED, 1)):
                found[part] = self._solve(log_tail[part], right[part])
            x[inside] = found
        return x

    def _gap(self, x: np.ndarray, log_tail: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How far the log tail at `x` is above the wanted one (for a right tail; below it for a left one), and its slope."""
        value = np.empty(x.size)
        value[right], value[~right] = self._logccdf(x[right]), self._logcdf(x[~right])
        log_slope = self._logpdf(x) - value
        # There is no slope to follow where the density is infinite.
        slope = np.exp(np.where(log_slope < 700.0, log_slope, -np.inf))
        return np.where(right, value - log_tail, log_tail - value), slope

    def _solve(self, log_tail: np.ndarray, right: np.ndarray, tolerance: float = 1e-15) -> np.ndarray:
        centre, scale = float(self.mean()), float(self.std())
        if not log_tail.size:
            return np.empty(0)
        low, high = (self._bracket(log_tail, right, centre, scale * sign) for sign in (-1.0, 1.0))
        x, left = (low + high) / 2, np.arange(log_tail.size)
        for _ in range(_NEWTON_STEPS):
            old = x[left]
            gap, slope = self._gap(old, log_tail[left], right[left])
            below, above = np.where(gap >= 0, old, low[left]), np.where(gap <= 0, old, high[left])
            with np.errstate(divide="ignore", invalid="ignore"):
                step = old + gap / slope
            new = np.where((step > below) & (step < above), step, (below + above) / 2)
            low[left], high[left], x[left] = below, above, new
            left = left[np.abs(new - old) > tolerance * (scale + np.abs(old - centre))]
            if not left.size:
                break
        return x

    def _bracket(self, log_tail: np.ndarray, right: np.ndarray, centre: float, reach: float) -> np.ndarray:
        """A point on one side of the wanted quantiles for each of them."""
        x = np.full(log_tail.size, centre + reach)
        for _ in range(60):
            beyond = self._gap(x, log_tail, right)[0] * np.sign(reach) > 0
            if not beyond.any():
                break
            x[beyond] = centre + 2 * (x[beyond] - centre)
        return x

    def quantiles_of_normal(self, z: np.ndarray) -> np.ndarray:
        """The increasing map `T` for which `T(z)` has this law if `z` is a standard normal."""
        return self._solve(log_ndtr(-np.abs(z)), z > 0)

    @functools.cached_property
    def _from_normal(self) -> CubicSpline:
        """`quantiles_of_normal` as a spline."""
        z = np.linspace(-_SPLINE_REACH, _SPLINE_REACH, _SOLVED)
        return CubicSpline(z, self.quantiles_of_normal(z))

    @functools.cached_property
    def _to_normal(self) -> CubicSpline:
        """Its inverse."""
        z = self._from_normal.x
        return CubicSpline(self._from_normal(z), z)

    def cdf_by_spline(self, x: np.ndarray) -> np.ndarray:
        """The cdf at many points, to 1e-7: a spline through its values in normal scores, where that is as good."""
        knots = self._to_normal.x
        between = (knots[:-1] + knots[1:])[::4] / 2
        if np.abs(ndtr(self._to_normal(between)) - self.cdf(between)).max() > 1e-7:
            return self.cdf(x)
        return ndtr(self._to_normal(np.clip(x, knots[0], knots[-1])))

    @functools.cached_property
    def _edges(self) -> np.ndarray:
        """Quantiles far into both tails, between which the density is smooth."""
        middle = self.median()
        left, right = (self._distances(middle, right=side) for side in (False, True))
        return np.unique(np.concatenate([middle - left, [middle], middle + right]))

    def _distances(self, middle: float, *, right: bool) -> np.ndarray:
        """How far those quantiles are from the middle, on one side; roughly, as nothing hangs on where panels end."""
        tails = np.log(np.array(_TAILS))
        quantiles = self._solve(tails, np.full(tails.size, right), tolerance=1e-6)
        return _spaced(np.sort(np.abs(quantiles - middle)))

    def panels(self, *others: "Law") -> tuple[np.ndarray, np.ndarray]:
        """Nodes and weights of a Gauss rule that resolves this law and the others, from 1e-26 to 1 - 1e-26."""
        return gauss_panels(merged_edges([law._edges for law in (self, *others)]))

    def plot(self, ax: Any = None, *, kind: str = "pdf", x: Any = None, **style: Any) -> Any:
        """Draw the law on matplotlib axes (the current ones unless given) and return them.

        `kind` is "pdf", "logpdf", "cdf" or "ccdf"; `x` are the points, by default what holds all but 1e-4 of the law (1e-8
        for tails). Where the law has an error, a band shows two standard errors.
        """
        import matplotlib.pyplot as plt

        _arguments.one_of("kind", kind, _PLOTS)
        axes = plt.gca() if ax is None else ax
        if x is None:
            low, high = self.interval(1 - (1e-4 if kind in ("pdf", "cdf") else 1e-8))
            x = np.linspace(low, high, 401)
        x = _arguments.finite_array("x", x, 1)
        values, error = getattr(self, kind)(x), 2 * np.asarray(self.error(kind, x))
        (line,) = axes.plot(x, values, **{"label": self.name, **style})
        if error.any():
            axes.fill_between(x, values - error, values + error, color=line.get_color(), alpha=0.25, linewidth=0)
        if kind == "ccdf":
            axes.set_yscale("log")
        axes.set_xlabel("output y")
        axes.set_ylabel({"pdf": "density", "logpdf": "log density", "cdf": "P(Y ≤ y)", "ccdf": "P(Y > y)"}[kind])
        return axes

    def _repr_html_(self) -> str:
        moments = {"mean": self.mean(), "variance": self.var(), "excess kurtosis": self.kurtosis()}
        rows = [(name, str(value) if value.stderr else f"{float(value):.6g}") for name, value in moments.items()]
        rows += [(f"quantile {level:g}", f"{float(self.icdf(level)):.6g}") for level in (0.9, 0.99, 0.999)]
        low, high = self.interval(_SHOWN)
        x = np.linspace(low, high, 121)
        density = _html.curve(x, np.asarray(self.pdf(x)), f"density from {low:.3g} to {high:.3g}")
        return density + _html.table((f"{type(self).__name__}: {self.name}", ""), rows)

    def scipy(self) -> Any:
        """The law as a frozen `scipy.stats` distribution: `ppf`, `sf`, `rvs`, `expect`, ...

        !!! Example

            >>> from limitlaw.laws import Gaussian
            >>> frozen = Gaussian(var=4.0).scipy()
            >>> print(round(frozen.ppf(0.975), 6), round(frozen.expect(lambda y: y**2), 6))
            3.919928 4.0
        """
        from ._adaptors import as_scipy

        return as_scipy(self)

    def numpyro(self) -> Any:
        """The law as a `numpyro` distribution, traceable and differentiable; needs numpyro.

        !!! Example

            >>> from limitlaw.laws import Gaussian
            >>> float(Gaussian(var=4.0).numpyro().log_prob(0.0))  # doctest: +SKIP
            -1.6120857
        """
        from ._adaptors import as_numpyro

        return as_numpyro(self)


def _spaced(distances: np.ndarray) -> np.ndarray:
    """Increasing distances, with more between those that lie far apart: a law may live on several scales."""
    positive = distances[distances > 0]
    parts = [
        np.geomspace(a, b, int(np.ceil(np.log(b / a) / np.log(_GROWTH))) + 1)
        for a, b in itertools.pairwise(positive)
        if b > a
    ]
    return np.unique(np.concatenate([positive, *parts]))


def merged_edges(lists: list[np.ndarray]) -> np.ndarray:
    """The union of lists of edges, without those that all but repeat the one before on the scale of their own list."""
    spacing = [np.minimum(np.diff(e, prepend=-np.inf), np.diff(e, append=np.inf)) for e in lists]
    edges, scale = np.concatenate(lists), np.concatenate(spacing)
    kept: list[int] = []
    for i in np.argsort(edges, kind="stable"):
        if not kept or edges[i] - edges[kept[-1]] > _REPEATED * min(scale[i], scale[kept[-1]]):
            kept.append(int(i))
    return np.append(edges[kept], edges.max())


def gauss_panels(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss-Legendre panels between sorted edges; edges that nearly coincide are one."""
    edges = np.unique(edges)
    apart = np.diff(edges) > 1e-13 * np.maximum(np.abs(edges[1:]), np.abs(edges[:-1]))
    edges = edges[np.concatenate([[True], apart])]
    nodes, weights = np.polynomial.legendre.leggauss(_PANEL_NODES)
    half = np.diff(edges)[:, None] / 2
    return ((edges[:-1, None] + half) + half * nodes).ravel(), (half * weights).ravel()


def checked_moment(order: Any, kind: str) -> int:
    """The order of a moment, if it has one of the three kinds."""
    _arguments.one_of("kind", kind, ("raw", "central", "standardized"))
    if order == 0 and not isinstance(order, bool):
        return 0
    return int(_arguments.positive_integer("order", order))


def shape_of(shape: int | Sequence[int]) -> tuple[int, ...]:
    """`shape` as a tuple of sizes."""
    sizes = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    if not all(isinstance(size, int | np.integer) and not isinstance(size, bool) and size >= 0 for size in sizes):
        raise ValueError(f"shape={shape!r}: must be a non-negative integer, or a tuple of them.")
    return tuple(int(size) for size in sizes)


def root_of(variance: Estimate) -> Estimate:
    """The square root, with its error."""
    std = float(np.sqrt(variance))
    return Estimate(std, variance.stderr / (2 * std) if std else 0.0, variance.dof)


def _pointwise(f: Callable[[np.ndarray], np.ndarray], name: str, x: Any, dtype: Any = np.float64) -> Any:
    """Apply a function of one-dimensional arrays to an array of any shape; what is not a number stays so."""
    if x is None or isinstance(x, str) or np.iscomplexobj(x):
        raise TypeError(f"{name}={x!r}: must be a real number, or an array of them.")
    try:
        array = np.asarray(x, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name}={x!r}: must be a real number, or an array of them.") from None
    flat = array.ravel()
    out = np.full(flat.size, np.nan, dtype)
    known = ~np.isnan(flat)
    if known.any():
        out[known] = f(flat[known])
    return out.reshape(array.shape)[()]


def _checked_levels(name: str, q: Any) -> Any:
    try:
        array = np.asarray(q, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name}={q!r}: must be a number in [0, 1], or an array of them.") from None
    wrong = array[(array < 0) | (array > 1)] if array.size else array
    if wrong.size:
        raise ValueError(f"{name}={wrong.flat[0]:g}: a probability lies in [0, 1]; {_level_remedy(wrong.flat[0])}.")
    return array


def _level_remedy(value: float) -> str:
    return f"for a percentage pass {value / 100:g}" if 1 < value <= 100 else "pass a number between 0 and 1"

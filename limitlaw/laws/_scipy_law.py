"""Distributions of scipy as laws."""

import functools
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import stats
from scipy.integrate import quad

from .._checks import ArgumentTypeError
from ..numerics import Estimate
from ._arguments import Rng, generator_of, moment_order, shape_of
from ._law import Law

# The new interface has no public base class of continuous distributions, so it is taken from Normal.
_NEW: tuple[Any, ...] = (stats.Normal.__mro__[1], stats.Mixture)
_OLD_NAMES = {
    "ccdf": "sf",
    "logccdf": "logsf",
    "icdf": "ppf",
    "iccdf": "isf",
    "variance": "var",
    "standard_deviation": "std",
}
_LEAST_LOG = -690.0  # log probability down to which scipy's own quantiles are used: exp(-690) is a normal double
_CF_ERROR = 1e-12  # absolute tolerance of characteristic functions
_MISSED = 1e-6  # relative error of a log tail above which a quantile was not found


def as_law(distribution: Any) -> Law:
    """A continuous distribution of `scipy.stats` as a law, for distances, comparisons and plots.

    Densities, probabilities, quantiles and moments are those of scipy, and are treated as exact.

    Args:
        distribution: A frozen distribution of the old interface (`scipy.stats.norm(0, 1)`) or one of the new
            (`scipy.stats.Normal()`). A law is returned unchanged.

    Returns:
        The law.

    Raises:
        ArgumentError: If it is not a single continuous distribution of one variable.

    Example:
        >>> import scipy.stats
        >>> import limitlaw as ll
        >>> from limitlaw.laws import as_law
        >>> law = as_law(scipy.stats.laplace(scale=0.5))
        >>> law.variance(), law.kurtosis(), law.ccdf(1.0).round(6)
        (0.5, 3.0, np.float64(0.067668))
        >>> print(f"{ll.kl(law, ll.laws.Gaussian(variance=0.5)):.6f}")
        0.072365
    """
    if isinstance(distribution, Law):
        return distribution
    if isinstance(distribution, stats.rv_continuous) and not distribution.numargs:
        distribution = distribution()  # without parameters, like an rv_histogram, it is frozen by a call
    remedy = _reason_against(distribution)
    if remedy:
        raise ArgumentTypeError("distribution", f"distribution={distribution!r} {remedy}")
    return ScipyLaw(distribution)


def _reason_against(distribution: Any) -> str:
    """The reason why a value is not a continuous distribution of one variable, with a remedy; empty if it is one."""
    if isinstance(distribution, type):
        return "is a class. Call it, as in scipy.stats.Normal()."
    if isinstance(distribution, _NEW):
        return "" if np.shape(distribution.mean()) == () else "has parameters of several values. Pass one distribution."
    generic = getattr(distribution, "dist", None)
    if isinstance(distribution, stats.rv_continuous):
        return f"has no parameters yet. Freeze it, as in scipy.stats.{distribution.name}(...)."
    if isinstance(generic, stats.rv_continuous):
        several = any(np.ndim(value) for value in (*distribution.args, *distribution.kwds.values()))
        return "has parameters of several values. Pass one distribution." if several else ""
    if isinstance(generic, stats.rv_discrete) or hasattr(distribution, "pmf"):
        return "is discrete, but a law has a density. Use a continuous distribution."
    if hasattr(distribution, "logpdf") and hasattr(distribution, "dim"):
        return "has several variables, but a law has one. Pass the distribution of one variable."
    return (
        "is not a distribution of scipy.stats. Pass one like scipy.stats.norm(0, 1) or scipy.stats.Normal(); "
        "for an array of samples use limitlaw.laws.Empirical."
    )


def _values_of_new(distribution: Any) -> tuple[Any, ...]:
    """The values by which two new distributions are compared, as scipy compares them by identity."""
    if isinstance(distribution, stats.Mixture):
        return tuple(map(_values_of_new, distribution.components)), tuple(distribution.weights.tolist())
    return type(distribution), repr(distribution)


class _Parts(NamedTuple):
    """The class and the fields of a new distribution."""

    kind: type
    fields: dict[str, Any]


def _taken_apart(value: Any) -> Any:
    if isinstance(value, _NEW):
        if hasattr(value, "reset_cache"):
            value.reset_cache()  # its bound methods would pickle the distribution by scipy's own copy
        return _Parts(type(value), {name: _taken_apart(field) for name, field in vars(value).items()})
    return [_taken_apart(each) for each in value] if isinstance(value, list) else value


def _put_together(value: Any) -> Any:
    if isinstance(value, _Parts):
        distribution = object.__new__(value.kind)
        for name, field in value.fields.items():
            setattr(distribution, name, _put_together(field))
        return distribution
    return [_put_together(each) for each in value] if isinstance(value, list) else value


class ScipyLaw(Law):
    """The law of a continuous distribution of `scipy.stats`, created by `as_law`.

    Args:
        distribution: The distribution.
    """

    method = "scipy"

    def __init__(self, distribution: Any) -> None:
        self.distribution = distribution
        self._is_new = isinstance(distribution, _NEW)
        self.name = type(distribution).__name__ if self._is_new else distribution.dist.name

    def __repr__(self) -> str:
        if self._is_new:
            return f"as_law({self.distribution!r})"
        arguments = [*map(repr, self.distribution.args), *(f"{k}={v!r}" for k, v in self.distribution.kwds.items())]
        return f"as_law({self.distribution.dist.name}({', '.join(arguments)}))"

    @property
    def _values(self) -> Sequence[Any]:
        if self._is_new:
            return (_values_of_new(self.distribution),)
        return (
            type(self.distribution.dist),
            self.distribution.dist.name,
            tuple(self.distribution.args),
            tuple(sorted(self.distribution.kwds.items())),
        )

    def __getstate__(self) -> dict[str, Any]:
        """The state with a new distribution in parts, because scipy copies every `Normal` as a standard normal."""
        state = super().__getstate__()
        return state | {"distribution": _taken_apart(state["distribution"])}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, _put_together(value))

    def _call(self, name: str, *arguments: Any) -> Any:
        return getattr(self.distribution, name if self._is_new else _OLD_NAMES.get(name, name))(*arguments)

    def _pdf(self, x: np.ndarray) -> np.ndarray:
        return self._density("pdf", x, 0.0)

    def _logpdf(self, x: np.ndarray) -> np.ndarray:
        return self._density("logpdf", x, -np.inf)

    def _density(self, name: str, x: np.ndarray, at_infinity: float) -> np.ndarray:
        """A density of scipy, with its limit at infinity, where some are NaN."""
        out = np.full(x.size, at_infinity)
        finite = np.isfinite(x)
        with np.errstate(divide="ignore"):
            out[finite] = self._call(name, x[finite])
        return out

    def _logcdf(self, x: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.asarray(self._call("logcdf", x))

    def _logccdf(self, x: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.asarray(self._call("logccdf", x))

    def _cf(self, t: np.ndarray) -> np.ndarray:
        """By Fourier quadrature on both sides of the median, since scipy has no characteristic functions."""
        (low, high), (centre, _) = self.support(), self._centre_and_scale

        def side(t: float, sign: float, end: float) -> complex:
            """`E exp(i t (y - centre))` over one side of the centre."""
            waves = {"cos": 1.0, "sin": 1j * sign}
            return sum(
                unit
                * quad(lambda u: self._call("pdf", centre + sign * u), 0, end, weight=wave, wvar=t, epsabs=_CF_ERROR)[0]
                for wave, unit in waves.items()
            )

        values = [side(s, 1.0, high - centre) + side(s, -1.0, centre - low) if s else 1.0 for s in t.tolist()]
        return np.exp(1j * t * centre) * np.array(values)

    def _quantiles(self, q: np.ndarray, *, upper: bool) -> np.ndarray:
        return np.asarray(self._call("iccdf" if upper else "icdf", q))

    def _tail_quantiles(self, log_tail: np.ndarray, right: np.ndarray, **options: float) -> np.ndarray:
        """Quantiles of scipy where the probability does not underflow, and NaN where `logsf` or `logcdf` does."""
        # Further out the root finder works on the log tail. A log tail of scipy may be flat there because its
        # probability underflowed, so every root is checked.
        tail = np.exp(log_tail)
        x = np.where(right, self._quantiles(tail, upper=True), self._quantiles(tail, upper=False))
        far = log_tail < _LEAST_LOG
        if far.any():
            found = super()._tail_quantiles(log_tail[far], right[far], **options)
            reached = np.where(right[far], self._logccdf(found), self._logcdf(found))
            x[far] = np.where(np.abs(reached / log_tail[far] - 1) < _MISSED, found, np.nan)
        return x

    @functools.cached_property
    def _centre_and_scale(self) -> tuple[float, float]:
        """The median and the interquartile range, since the law need not have moments."""
        low, middle, high = self._quantiles(np.array([0.25, 0.5, 0.75]), upper=False)
        return float(middle), float(high - low)

    @functools.cached_property
    def _panel_edges(self) -> np.ndarray:
        ends = [end for end in self.support() if np.isfinite(end)]
        return np.unique(np.concatenate([super()._panel_edges, ends]))

    def support(self) -> tuple[float, float]:
        """The ends of the support that scipy states."""
        low, high = self.distribution.support()
        return float(low), float(high)

    def mean(self) -> Estimate:
        """The mean."""
        return Estimate(float(self._call("mean")))

    def variance(self) -> Estimate:
        """The variance."""
        return Estimate(float(self._call("variance")))

    def moment(self, order: int, kind: Literal["raw", "central", "standardized"] = "raw") -> Estimate:
        """A moment.

        Args:
            order: A non-negative integer.
            kind: "raw", "central" or "standardized".
        """
        order = moment_order(order, kind)
        if self._is_new:
            return Estimate(float(self.distribution.moment(order, kind=kind)))
        if kind == "raw":
            return Estimate(float(self.distribution.moment(order)) if order else 1.0)
        scale = float(self.distribution.std())
        return Estimate(self._standardized(order) * (1.0 if kind == "standardized" else scale**order))

    def _standardized(self, order: int) -> float:
        """A standardized moment of the old interface, which has only the first four itself."""
        if order < 3:
            return (1.0, 0.0, 1.0)[order]
        if order == 3:
            return float(self.distribution.stats("s"))
        if order == 4:
            return float(self.distribution.stats("k")) + 3
        mean, scale = float(self.distribution.mean()), float(self.distribution.std())
        return float(self.distribution.expect(lambda y: ((y - mean) / scale) ** order))

    def entropy(self) -> Estimate:
        """Differential entropy."""
        return Estimate(float(self._call("entropy")))

    def mode(self) -> float:
        """The point of largest density."""
        return float(self.distribution.mode()) if self._is_new else super().mode()

    def sample(self, shape: int | Sequence[int] = (), *, rng: Rng = None) -> np.ndarray:
        """Independent draws.

        Args:
            shape: The shape of the array of draws; a single draw by default.
            rng: An integer seed or a `numpy.random.Generator`; None draws fresh entropy.
        """
        sizes, generator = shape_of(shape), generator_of(rng)
        if self._is_new:
            return np.asarray(self.distribution.sample(sizes, rng=generator), np.float64)
        return np.asarray(self.distribution.rvs(size=sizes, random_state=generator), np.float64)

    def scipy(self) -> Any:
        """The distribution in scipy's old interface."""
        return super().scipy() if self._is_new else self.distribution

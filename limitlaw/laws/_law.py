"""The contract of laws of one real variable."""

import abc
import functools
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr

from .. import _checks
from .._checks import ArgumentTypeError
from ..numerics import Estimate, jackknife
from ._arguments import log_probabilities, pointwise, probabilities, real_array
from ._base import ProbabilityLaw, root_of
from ._showing import law_as_html, plot_law
from .normal_scores import NormalScores, solve_quantiles
from .quadrature import distances_from_median, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SMALLEST = 1e-300  # floor of densities in logarithms and quotients, above the smallest normal double, 2e-308
_INVERSES = {"icdf": "cdf", "iccdf": "ccdf", "ilogcdf": "cdf", "ilogccdf": "ccdf"}
_FUNCTIONS = ("pdf", "logpdf", "cdf", "logcdf", "ccdf", "logccdf", *_INVERSES)


class Law(ProbabilityLaw):
    """A probability law on the real line, with the method names of `scipy.stats`.

    Functions of `x` take and return float64 arrays (a scalar for a scalar) and stay accurate in the tails: `logpdf`,
    `logcdf` and `logccdf` thirty standard deviations out, where `pdf` is 1e-200. Numbers are `Estimate`s. Where the
    law itself is known from draws, `error(what, x)` is the standard error of `pdf`, `cdf`, ... at `x`. Laws compute
    with NumPy and are not traced by JAX; `law.numpyro()` is.

    A subclass gives `_logpdf`, `_logcdf`, `_logccdf` (one-dimensional arrays in and out), `_cf`, `moment`, `sample`,
    `_values` (the data that define the law) and, if it was made from draws, `leave_one_batch_out`, from which every
    error is derived. The rest (quantiles, entropy, mode, plots, adaptors) follows. `method` names the way in which
    densities are computed.

    Example:
        >>> from limitlaw.laws import Gaussian, Law
        >>> law = Gaussian(variance=4.0)
        >>> isinstance(law, Law), law.support(), float(law.ilogccdf(-1000.0).round(6))
        (True, (-inf, inf), 89.231495)
    """

    _names_elsewhere: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("ppf", "quantile", "quantiles", "percentile", "inverse_cdf"), "icdf"),
        **dict.fromkeys(("isf", "quantile_survival_function"), "iccdf"),
        **dict.fromkeys(("sf", "survival_function"), "ccdf"),
        **dict.fromkeys(("logsf", "log_survival_function"), "logccdf"),
        **dict.fromkeys(("log_prob", "logprob", "unnormalized_log_prob"), "logpdf"),
        **dict.fromkeys(("prob", "density"), "pdf"),
        **dict.fromkeys(("rvs", "rsample", "sample_n", "draw"), "sample(shape, rng=...)"),
        **dict.fromkeys(("var", "cov", "covariance"), "variance"),
        **dict.fromkeys(("std", "stddev", "sd"), "standard_deviation"),
        "log_cdf": "logcdf",
        "log_pdf": "logpdf",
        "skew": "skewness",
        "stats": "mean, variance, skewness and kurtosis",
        "expect": "law.scipy().expect, or limitlaw.laws.quadrature.panels",
        "characteristic_function": "cf",
        "confidence_interval": "interval",
    }

    @abc.abstractmethod
    def _logpdf(self, x: np.ndarray) -> np.ndarray: ...

    @abc.abstractmethod
    def _logcdf(self, x: np.ndarray) -> np.ndarray: ...

    @abc.abstractmethod
    def _logccdf(self, x: np.ndarray) -> np.ndarray: ...

    @abc.abstractmethod
    def _cf(self, t: np.ndarray) -> np.ndarray: ...

    @abc.abstractmethod
    def moment(self, order: int, kind: Literal["raw", "central", "standardized"] = "raw") -> Estimate:
        """A moment.

        Args:
            order: A non-negative integer.
            kind: "raw", `E y^order`; "central", about the mean; "standardized", central in units of the standard
                deviation.

        Raises:
            ArgumentError: If the order is negative or the kind unknown.
        """

    def leave_one_batch_out(self, what: str, x: np.ndarray) -> np.ndarray:
        """A function of the law, recomputed without each batch of the draws behind the law.

        Every standard error of the law, and of quantities that are computed from it, is a jackknife over these rows.

        Args:
            what: "pdf", "cdf" or "ccdf".
            x: Points, one-dimensional.

        Returns:
            An array `(batches, len(x))`. A law that is known exactly has no batches, so it has no rows.
        """
        del what
        return np.empty((0, x.size))

    def _pdf(self, x: np.ndarray) -> np.ndarray:
        return np.exp(self._logpdf(x))

    def pdf(self, x: Any) -> Any:
        """The density at `x`."""
        return pointwise(self._pdf, real_array("x", x))

    def logpdf(self, x: Any) -> Any:
        """The logarithm of the density at `x`, accurate where the density underflows."""
        return pointwise(self._logpdf, real_array("x", x))

    def cdf(self, x: Any) -> Any:
        """`P(y <= x)`."""
        return pointwise(lambda x: np.exp(self._logcdf(x)), real_array("x", x))

    def logcdf(self, x: Any) -> Any:
        """`log P(y <= x)`."""
        return pointwise(self._logcdf, real_array("x", x))

    def ccdf(self, x: Any) -> Any:
        """`P(y > x)`, to full relative accuracy."""
        return pointwise(lambda x: np.exp(self._logccdf(x)), real_array("x", x))

    def logccdf(self, x: Any) -> Any:
        """`log P(y > x)`."""
        return pointwise(self._logccdf, real_array("x", x))

    def icdf(self, q: Any) -> Any:
        """The quantile function: the `x` with `cdf(x) = q`.

        Args:
            q: Probabilities in [0, 1].
        """
        return pointwise(functools.partial(self._quantiles, upper=False), probabilities("q", q))

    def iccdf(self, q: Any) -> Any:
        """The `x` with `ccdf(x) = q`: quantiles near the upper end, without the rounding of `1 - q`.

        Args:
            q: Probabilities in [0, 1].
        """
        return pointwise(functools.partial(self._quantiles, upper=True), probabilities("q", q))

    def ilogcdf(self, lq: Any) -> Any:
        """The `x` with `logcdf(x) = lq`: quantiles beyond where the probability underflows.

        Args:
            lq: Logarithms of probabilities, at most 0.
        """
        return pointwise(functools.partial(self._log_quantiles, upper=False), log_probabilities("lq", lq))

    def ilogccdf(self, lq: Any) -> Any:
        """The `x` with `logccdf(x) = lq`: quantiles beyond where the probability underflows.

        Args:
            lq: Logarithms of probabilities, at most 0.
        """
        return pointwise(functools.partial(self._log_quantiles, upper=True), log_probabilities("lq", lq))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The central interval.

        Args:
            level: Its probability.

        Returns:
            Its two ends.
        """
        if np.ndim(level):
            raise ArgumentTypeError("level", f"level={level!r} must be one number in [0, 1].")
        tail = (1 - float(probabilities("level", level))) / 2
        return float(self.icdf(tail)), float(self.iccdf(tail))

    def median(self) -> float:
        """The median."""
        return float(self.icdf(0.5))

    def mode(self) -> float:
        """The point of largest density, by a search between points that resolve the density."""
        # A density may have several peaks, so the local search is confined to the neighbours of the best candidate.
        x = self._mode_candidates()
        log_f = self._logpdf(x)
        best = int(np.argmax(log_f))
        low, high = x[max(best - 1, 0)], x[min(best + 1, x.size - 1)]
        refined = minimize_scalar(
            lambda y: -float(self._logpdf(np.array([y]))[0]),
            bounds=(low, high),
            method="bounded",
            options={"xatol": 1e-9 * (high - low)},
        )
        return float(refined.x) if -refined.fun > log_f[best] else float(x[best])

    def _mode_candidates(self) -> np.ndarray:
        """Increasing points, one of which is next to the mode."""
        # A density may be largest at an end of its support, like that of an exponential law.
        ends = [end for end in self.support() if np.isfinite(end)]
        return np.unique(np.concatenate([panels(self)[0], ends]))

    def support(self) -> tuple[float, float]:
        """The ends of an interval that contains the law, the real line unless a smaller one is known."""
        return -np.inf, np.inf

    def cf(self, t: Any) -> Any:
        """The characteristic function, `E exp(i t y)`."""
        return pointwise(self._cf, real_array("t", t), dtype=np.complex128)

    def mean(self) -> Estimate:
        """The mean."""
        return self.moment(1)

    def variance(self) -> Estimate:
        """The variance."""
        return self.moment(2, "central")

    def standard_deviation(self) -> Estimate:
        """The standard deviation."""
        return root_of(self.variance())

    def skewness(self) -> Estimate:
        """The third standardized moment."""
        return self.moment(3, "standardized")

    def kurtosis(self, convention: Literal["excess", "non-excess"] = "excess") -> Estimate:
        """The kurtosis, by default the excess over that of a normal law.

        The new distributions of scipy have the other default.

        Args:
            convention: "excess", the fourth standardized moment minus 3; or "non-excess", that moment itself.
        """
        _checks.one_of("convention", convention, ("excess", "non-excess"))
        excess = self._excess_kurtosis()
        return excess if convention == "excess" else Estimate(excess + 3, excess.stderr, excess.dof)

    def _excess_kurtosis(self) -> Estimate:
        fourth = self.moment(4, "standardized")
        return Estimate(fourth - 3, fourth.stderr, fourth.dof)

    def entropy(self) -> Estimate:
        """Differential entropy, `-E log pdf(y)`, by quadrature."""
        x, weights = panels(self)
        f, log_f = self._pdf(x), self._logpdf(x)
        # 0 log 0 = 0, so nodes at which the density underflows are left out, for the law and for its replicates alike.
        live = f > 0
        value = -float(weights[live] @ (f[live] * log_f[live]))
        others = [
            -float(weights[live] @ (row * np.log(np.maximum(row, _SMALLEST))))
            for row in self.leave_one_batch_out("pdf", x)[:, live]
        ]
        return jackknife(value, np.array(others))

    def error(self, what: str, x: Any) -> Any:
        """The standard error of a function of a law that is known from draws.

        Args:
            what: "pdf", "logpdf", "cdf", "logcdf", "ccdf", "logccdf", "icdf", "iccdf", "ilogcdf" or "ilogccdf".
            x: The points, probabilities or logarithms of probabilities that the function takes.

        Returns:
            An array in the shape of `x`. It is 0 for laws that are known exactly.

        Example:
            >>> import numpy as np
            >>> from limitlaw.laws import ScaleMixture
            >>> law = ScaleMixture(np.random.default_rng(0).chisquare(8, 100_000) / 8)
            >>> print(f"{law.pdf(0.0):.4f} ± {law.error('pdf', 0.0):.4f}")
            0.4419 ± 0.0004
        """
        _checks.one_of("what", what, _FUNCTIONS)
        if what in _INVERSES:
            # The delta method: a quantile moves by the change of the probability there, divided by the density.
            at = real_array("x", getattr(self, what)(x))
            plain = _INVERSES[what]
            return pointwise(lambda x: self._spread(plain, x) / np.maximum(self._pdf(x), _SMALLEST), at)
        plain = what.removeprefix("log")
        spread = pointwise(functools.partial(self._spread, plain), real_array("x", x))
        if not what.startswith("log"):
            return spread
        # The error of a logarithm is the relative error, and 0 where the probability underflows.
        value = np.asarray(getattr(self, plain)(x))
        return np.divide(spread, value, out=np.zeros(value.shape), where=value > 0)[()]

    def _spread(self, what: str, x: np.ndarray) -> np.ndarray:
        rows = self.leave_one_batch_out(what, x)
        # Averages without one of B batches vary B - 1 times less than the batches themselves.
        count = len(rows)
        return rows.std(axis=0, ddof=1) * (count - 1) / np.sqrt(count) if count > 1 else np.zeros(x.size)

    def _quantiles(self, q: np.ndarray, *, upper: bool) -> np.ndarray:
        """`icdf`, or `iccdf` if `upper`."""
        # The smaller tail keeps its relative accuracy, while the larger one rounds to 1.
        with np.errstate(divide="ignore"):
            log_tail = np.where(q <= 0.5, np.log(q), np.log1p(-q))
        return self._quantiles_of_tails(log_tail, (q <= 0.5) == upper)

    def _log_quantiles(self, lq: np.ndarray, *, upper: bool) -> np.ndarray:
        """`ilogcdf`, or `ilogccdf` if `upper`."""
        small = lq <= np.log(0.5)
        with np.errstate(divide="ignore"):
            log_tail = np.where(small, lq, np.log(-np.expm1(lq)))
        return self._quantiles_of_tails(log_tail, small == upper)

    def _quantiles_of_tails(self, log_tail: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Quantiles from the smaller tail, and the ends of the support where that tail is 0."""
        low, high = self.support()
        x = np.where(right, high, low)
        inside = log_tail > -np.inf
        x[inside] = self._tail_quantiles(log_tail[inside], right[inside])
        return x

    def _tail_quantiles(self, log_tail: np.ndarray, right: np.ndarray, **options: float) -> np.ndarray:
        """The points at which the left tail (the right one where `right`) has these logarithms, at most `log(1/2)`."""
        return solve_quantiles(self, log_tail, right, **options)

    def _from_normal(self, z: np.ndarray) -> np.ndarray:
        """The increasing map from a standard normal to the law."""
        return self._tail_quantiles(log_ndtr(-np.abs(z)), z > 0)

    @functools.cached_property
    def _normal_scores(self) -> NormalScores:
        return NormalScores(self)

    @functools.cached_property
    def _centre_and_scale(self) -> tuple[float, float]:
        """The start of a search for quantiles, and its unit of length."""
        return float(self.mean()), float(self.standard_deviation())

    @functools.cached_property
    def _panel_edges(self) -> np.ndarray:
        """Quantiles far into both tails, between which the density is smooth."""
        median = self.median()
        left, right = (distances_from_median(self, median, right=side) for side in (False, True))
        return np.unique(np.concatenate([median - left, [median], median + right]))

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        kind: str = "pdf",
        x: Any = None,
        **style: Any,
    ) -> "Axes":
        """Plot the law on matplotlib axes.

        Where the law has an error, a band shows two standard errors.

        Args:
            ax: The axes, by default the current ones.
            kind: "pdf", "logpdf", "cdf" or "ccdf".
            x: The points; by default they span all but 1e-4 of the law (1e-8 for "logpdf" and "ccdf").
            **style: Options of `matplotlib.axes.Axes.plot`.

        Returns:
            The axes.
        """
        return plot_law(self, ax, kind, x, style)

    def _repr_html_(self) -> str:
        return law_as_html(self)

    def scipy(self) -> Any:
        """The law as a frozen distribution of scipy's old interface, with `ppf`, `sf`, `rvs`, `expect`, ...

        Example:
            >>> from limitlaw.laws import Gaussian
            >>> frozen = Gaussian(variance=4.0).scipy()
            >>> print(round(frozen.ppf(0.975), 6), round(frozen.expect(lambda y: y**2), 6))
            3.919928 4.0
        """
        from ._adaptors import as_scipy

        return as_scipy(self)

    def numpyro(self) -> Any:
        """The law as a `numpyro` distribution, traceable and differentiable; needs numpyro.

        Example:
            >>> from limitlaw.laws import Gaussian
            >>> float(Gaussian(variance=4.0).numpyro().log_prob(0.0))  # doctest: +SKIP
            -1.6120857
        """
        from ._adaptors import as_numpyro

        return as_numpyro(self)

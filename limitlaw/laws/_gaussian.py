"""The normal law."""

from collections.abc import Sequence
from math import pi
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtri, ndtri_exp

from .._checks import ArgumentError, ArgumentTypeError
from ..numerics import Estimate
from ._arguments import Rng, generator_of, moment_order, shape_of
from ._law import Law

_MOST_BATCHES = 256  # fictitious batches behind an error: more degrees of freedom change no interval visibly
_LEAST_SHARE = 1e-3  # least share of the variance in a batch, where a large error would make the variance negative


class Gaussian(Law):
    """The normal law with the given mean and variance.

    If the mean or the variance is an `Estimate`, all results have the error that follows from it.

    Args:
        mean: The mean.
        variance: The variance (not the standard deviation), positive.
        name: A label, for plots and tables.

    Raises:
        ArgumentError: If the variance is not positive, or an argument is not a finite number.

    Example:
        >>> from limitlaw.laws import Gaussian
        >>> law = Gaussian(variance=4.0)
        >>> law.standard_deviation(), law.kurtosis(), law.logpdf(100.0)
        (2.0, 0.0, np.float64(-1251.6120857137646))
    """

    method = "closed form"

    def __init__(self, *, mean: float = 0.0, variance: float = 1.0, name: str = "Gaussian") -> None:
        self._mean, self._variance = _estimate("mean", mean), _estimate("variance", variance)
        if not self._variance > 0:
            raise ArgumentError(
                "variance",
                f"variance={variance} must be positive. A law without variance is a constant and has no density.",
            )
        self.name = name

    @property
    def _values(self) -> Sequence[Any]:
        return self._mean, self._variance

    def __repr__(self) -> str:
        return f"Gaussian(mean={self._mean}, variance={self._variance})"

    def mean(self) -> Estimate:
        """The mean."""
        return self._mean

    def variance(self) -> Estimate:
        """The variance."""
        return self._variance

    def moment(self, order: int, kind: str = "raw") -> Estimate:
        """A moment. The standardized one is `(order - 1)!!` for even orders and 0 for odd ones.

        Args:
            order: A non-negative integer.
            kind: "raw", "central" or "standardized".
        """
        order = moment_order(order, kind)
        about = float(self._mean) if kind == "raw" else 0.0
        unit = kind == "standardized"

        var = 1.0 if unit else float(self._variance)
        # Orders -1, 0, 1, ... by m_k = about m_{k-1} + (k - 1) var m_{k-2} (integration by parts).
        moments = [0.0, 1.0]
        for k in range(1, order + 1):
            moments.append(about * moments[-1] + (k - 1) * var * moments[-2])
        # d m_k / d mean = k m_{k-1}, and d m_k / d var = k (k - 1) m_{k-2} / 2
        by_mean = order * moments[-2] * self._mean.stderr if kind == "raw" else 0.0
        by_var = 0.0 if unit or order < 2 else order * (order - 1) / 2 * moments[-3] * self._variance.stderr
        if not np.isfinite(moments[-1]):
            raise ArgumentError("order", f"order={order} gives a moment beyond the largest float. Use a lower order.")
        return Estimate(moments[-1], float(np.hypot(by_mean, by_var)), min(self._mean.dof, self._variance.dof))

    def entropy(self) -> Estimate:
        """`log(2 pi e var) / 2`."""
        return Estimate(
            0.5 * np.log(2 * pi * np.e * float(self._variance)),
            self._variance.stderr / (2 * float(self._variance)),
            self._variance.dof,
        )

    def sample(self, shape: int | Sequence[int] = (), *, rng: Rng = None) -> np.ndarray:
        """Independent draws."""
        return self._from_normal(generator_of(rng).standard_normal(shape_of(shape)))

    def leave_one_batch_out(self, what: str, x: np.ndarray) -> np.ndarray:
        """Rows of fictitious batches whose jackknife gives the known errors.

        Mean and variance are shifted up and down, independently of each other.
        """
        mean, var = self._mean, self._variance
        if not mean.stderr and not var.stderr:
            return super().leave_one_batch_out(what, x)
        dof = min(d.dof for d in (mean, var) if d.stderr)
        count = 4 * max(round(min(dof + 1, _MOST_BATCHES) / 4), 1)
        # The jackknife multiplies the spread of its rows by sqrt(count - 1), so these shifts give back the errors.
        reach = 1 / np.sqrt(count - 1)
        rows = []
        for i in range(count):
            m = mean + (-1 if i % 2 else 1) * reach * mean.stderr
            v = max(var + (-1 if i // 2 % 2 else 1) * reach * var.stderr, _LEAST_SHARE * var)
            rows.append(getattr(Gaussian(mean=m, variance=v), what)(x))
        return np.stack(rows)

    def _standard(self, x: np.ndarray) -> np.ndarray:
        return (x - float(self._mean)) / float(self.standard_deviation())

    def _logpdf(self, x: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return -(self._standard(x) ** 2) / 2 - 0.5 * np.log(2 * pi * float(self._variance))

    def _logcdf(self, x: np.ndarray) -> np.ndarray:
        return log_ndtr(self._standard(x))

    def _logccdf(self, x: np.ndarray) -> np.ndarray:
        return log_ndtr(-self._standard(x))

    def _cf(self, t: np.ndarray) -> np.ndarray:
        return np.exp(1j * t * float(self._mean) - t**2 * float(self._variance) / 2)

    def mode(self) -> float:
        """The mean."""
        return float(self._mean)

    def _from_normal(self, z: np.ndarray) -> np.ndarray:
        return float(self._mean) + float(self.standard_deviation()) * z

    def _quantiles(self, q: np.ndarray, *, upper: bool) -> np.ndarray:
        return self._from_normal(-ndtri(q) if upper else ndtri(q))

    def _log_quantiles(self, lq: np.ndarray, *, upper: bool) -> np.ndarray:
        return self._from_normal(-ndtri_exp(lq) if upper else ndtri_exp(lq))

    def _tail_quantiles(self, log_tail: np.ndarray, right: np.ndarray, **options: float) -> np.ndarray:
        del options  # exact
        return self._from_normal(np.where(right, -1.0, 1.0) * ndtri_exp(log_tail))


def _estimate(name: str, value: Any) -> Estimate:
    if isinstance(value, Estimate):
        return value
    try:
        number = float("nan") if isinstance(value, str | bool | np.bool_) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not np.isfinite(number):
        raise ArgumentTypeError(name, f"{name}={value!r} must be a finite number.")
    return Estimate(number)

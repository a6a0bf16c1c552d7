"""The normal law."""

from collections.abc import Sequence
from math import pi
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtri

from .. import _arguments
from ..numerics import Estimate
from ._law import Law, checked_moment, shape_of

_MOST_BATCHES = 256


class Gaussian(Law):
    """The normal law with the given mean and variance.

    A variance that is an `Estimate` carries its error into everything computed from the law.

    !!! Example

        >>> from limitlaw.laws import Gaussian
        >>> law = Gaussian(var=4.0)
        >>> law.std(), law.kurtosis(), law.logpdf(100.0)
        (2.0, 0.0, np.float64(-1251.6120857137646))
    """

    method = "closed form"

    def __init__(self, mean: float = 0.0, var: float = 1.0, *, name: str = "Gaussian") -> None:
        self._mean, self._var = _estimate("mean", mean), _estimate("var", var)
        if not self._var > 0:
            raise ValueError(f"var={var}: must be positive; a law without variance has no density.")
        self.name = name

    def __repr__(self) -> str:
        return f"Gaussian(mean={self._mean}, var={self._var})"

    def mean(self) -> Estimate:
        """The mean."""
        return self._mean

    def var(self) -> Estimate:
        """The variance."""
        return self._var

    def moment(self, order: int, kind: str = "raw") -> Estimate:
        """`E y^order`: `(order - 1)!!` in standard units, central moments of odd order vanish."""
        order = checked_moment(order, kind)
        about = float(self._mean) if kind == "raw" else 0.0
        unit = kind == "standardized"

        var = 1.0 if unit else float(self._var)
        moments = [0.0, 1.0]  # of orders -1, 0, ..., by m_k = about m_{k-1} + (k - 1) var m_{k-2}
        for k in range(1, order + 1):
            moments.append(about * moments[-1] + (k - 1) * var * moments[-2])
        # d m_k / d mean = k m_{k-1}, and d m_k / d var = k (k - 1) m_{k-2} / 2
        by_mean = order * moments[-2] * self._mean.stderr if kind == "raw" else 0.0
        by_var = 0.0 if unit or order < 2 else order * (order - 1) / 2 * moments[-3] * self._var.stderr
        if not np.isfinite(moments[-1]):
            raise ValueError(f"order={order}: the moment is beyond the largest float; ask for a lower order.")
        return Estimate(moments[-1], float(np.hypot(by_mean, by_var)), min(self._mean.dof, self._var.dof))

    def entropy(self) -> Estimate:
        """`log(2 pi e var) / 2`."""
        return Estimate(
            0.5 * np.log(2 * pi * np.e * float(self._var)), self._var.stderr / (2 * float(self._var)), self._var.dof
        )

    def sample(self, shape: int | Sequence[int] = (), *, seed: int = 0) -> np.ndarray:
        """Independent draws."""
        return self.quantiles_of_normal(np.random.default_rng(_arguments.seed(seed)).standard_normal(shape_of(shape)))

    def left_out(self, what: str, x: np.ndarray) -> np.ndarray:
        """Batches whose mean and variance lie up and down by what gives them their standard errors, independently."""
        mean, var = self._mean, self._var
        if not mean.stderr and not var.stderr:
            return super().left_out(what, x)
        dof = min(d.dof for d in (mean, var) if d.stderr)
        count = 4 * max(round(min(dof + 1, _MOST_BATCHES) / 4), 1)
        reach = 1 / np.sqrt(count - 1)
        rows = []
        for i in range(count):
            m = mean + (-1 if i % 2 else 1) * reach * mean.stderr
            v = max(var + (-1 if i // 2 % 2 else 1) * reach * var.stderr, 1e-3 * var)
            rows.append(getattr(Gaussian(m, v), what)(x))
        return np.stack(rows)

    def _standard(self, x: np.ndarray) -> np.ndarray:
        return (x - float(self._mean)) / float(self.std())

    def _logpdf(self, x: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return -(self._standard(x) ** 2) / 2 - 0.5 * np.log(2 * pi * float(self._var))

    def _logcdf(self, x: np.ndarray) -> np.ndarray:
        return log_ndtr(self._standard(x))

    def _logccdf(self, x: np.ndarray) -> np.ndarray:
        return log_ndtr(-self._standard(x))

    def _cf(self, t: np.ndarray) -> np.ndarray:
        return np.exp(1j * t * float(self._mean) - t**2 * float(self._var) / 2)

    def quantiles_of_normal(self, z: np.ndarray) -> np.ndarray:
        """`mean + std z`."""
        return float(self._mean) + float(self.std()) * z

    def _quantiles(self, q: np.ndarray, *, upper: bool) -> np.ndarray:
        return self.quantiles_of_normal(-ndtri(q) if upper else ndtri(q))


def _estimate(name: str, value: Any) -> Estimate:
    if isinstance(value, Estimate):
        return value
    try:
        number = float("nan") if isinstance(value, str | bool | np.bool_) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not np.isfinite(number):
        raise TypeError(f"{name}={value!r}: must be a finite number.")
    return Estimate(number)

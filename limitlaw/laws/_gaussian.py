"""The normal law."""

from collections.abc import Sequence
from math import pi

import numpy as np
from scipy.special import log_ndtr, ndtri

from .. import _arguments
from ..numerics import Estimate
from ._law import Law, checked_moment, shape_of


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
        for argument, value in (("mean", mean), ("var", var)):
            if not np.isscalar(value) or isinstance(value, str | bool) or not np.isfinite(value):
                raise TypeError(f"{argument}={value!r}: must be a finite number.")
        if not var > 0:
            raise ValueError(f"var={var}: must be positive; a law without variance has no density.")
        self._mean, self._var = _estimate(mean), _estimate(var)
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

        def value(var: float) -> float:
            """By the recursion `m_k = about m_{k-1} + (k - 1) var m_{k-2}`."""
            previous, current = 0.0, 1.0
            for k in range(1, order + 1):
                previous, current = current, about * current + (k - 1) * (1.0 if unit else var) * previous
            return current

        var = float(self._var)
        slope = 0.0 if unit else (value(1.001 * var) - value(0.999 * var)) / (0.002 * var)
        mean_slope = order * float(self._mean) ** (order - 1) if kind == "raw" and order and self._mean.stderr else 0.0
        return Estimate(value(var), np.hypot(slope * self._var.stderr, mean_slope * self._mean.stderr), self._var.dof)

    def entropy(self) -> Estimate:
        """`log(2 pi e var) / 2`."""
        return Estimate(
            0.5 * np.log(2 * pi * np.e * float(self._var)), self._var.stderr / (2 * float(self._var)), self._var.dof
        )

    def sample(self, shape: int | Sequence[int] = (), *, seed: int = 0) -> np.ndarray:
        """Independent draws."""
        return self.quantiles_of_normal(np.random.default_rng(_arguments.seed(seed)).standard_normal(shape_of(shape)))

    def left_out(self, what: str, x: np.ndarray) -> np.ndarray:
        """Two batches whose means and variances lie a standard error up and down."""
        mean, var = self._mean, self._var
        if not mean.stderr and not var.stderr:
            return super().left_out(what, x)
        others = [Gaussian(mean + s * mean.stderr, max(var + s * var.stderr, 1e-3 * var)) for s in (-1.0, 1.0)]
        return np.stack([getattr(law, what)(x) for law in others])

    def _standard(self, x: np.ndarray) -> np.ndarray:
        return (x - float(self._mean)) / float(self.std())

    def _logpdf(self, x: np.ndarray) -> np.ndarray:
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


def _estimate(value: float) -> Estimate:
    return value if isinstance(value, Estimate) else Estimate(value)

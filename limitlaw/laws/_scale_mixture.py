"""Gaussian scale mixtures: `y = sqrt(v) z`."""

from math import sqrt
from typing import Any

import numpy as np

from .. import _arguments
from ..numerics import Estimate


class Gaussian:
    """The normal law with the given mean and variance.

    !!! Example

        >>> from limitlaw.laws import Gaussian
        >>> law = Gaussian(var=4.0)
        >>> law.std(), law.kurtosis()
        (2.0, 0.0)
    """

    def __init__(self, mean: float = 0.0, var: float = 1.0) -> None:
        if not var >= 0:
            raise ValueError(f"var={var}: a variance is at least 0.")
        self._mean, self._var = _estimate(mean), _estimate(var)

    def __repr__(self) -> str:
        return f"Gaussian(mean={self._mean}, var={self._var})"

    def mean(self) -> Estimate:
        """The mean."""
        return self._mean

    def var(self) -> Estimate:
        """The variance."""
        return self._var

    def std(self) -> Estimate:
        """The standard deviation."""
        return root_of(self._var)

    def kurtosis(self) -> Estimate:
        """Excess kurtosis: 0."""
        return Estimate(0.0)

    def sample(self, shape: int | tuple[int, ...] = (), *, seed: int = 0) -> np.ndarray:
        """Independent draws."""
        return float(self._mean) + sqrt(self._var) * np.random.default_rng(_arguments.seed(seed)).standard_normal(shape)


class ScaleMixture:
    """`y = sqrt(v) z`, `z` a standard normal, `v` an independent random variance given by draws.

    Moments are those of `v` (Rao-Blackwell: nothing is lost to the noise of `z`), `Var y = E v` and excess kurtosis
    `3 Var(v) / (E v)^2`, with standard errors over the draws.

    !!! Example

        >>> import numpy as np
        >>> from limitlaw.laws import ScaleMixture
        >>> v = np.random.default_rng(0).chisquare(8, 100_000) / 8
        >>> law = ScaleMixture(v)
        >>> law.var(), law.kurtosis()  # 1 and 6 / 8
        (1.0010 ± 0.0016, 0.749 ± 0.004)
    """

    def __init__(self, variances: Any) -> None:
        v = _arguments.finite_array("variances", variances, 1)
        if v.size < 2 or v.min() < 0:
            raise ValueError("variances: give at least two draws, none negative.")
        self.variances = v

    def __repr__(self) -> str:
        return f"ScaleMixture(var={self.var()}, kurtosis={self.kurtosis()}, draws={self.variances.size})"

    def mean(self) -> Estimate:
        """0, by symmetry."""
        return Estimate(0.0)

    def var(self) -> Estimate:
        """`E v`."""
        v = self.variances
        return Estimate(float(v.mean()), float(v.std(ddof=1)) / sqrt(v.size))

    def std(self) -> Estimate:
        """`sqrt(E v)`."""
        return root_of(self.var())

    def kurtosis(self) -> Estimate:
        """Excess kurtosis, `3 Var(v) / (E v)^2`; the error is the spread of its influence function."""
        v = self.variances
        mean = v.mean()
        if mean == 0:
            return Estimate(0.0)
        ratio = v / mean
        spread = ratio.var(ddof=1)
        influence = (ratio - 1) ** 2 - spread - 2 * spread * (ratio - 1)
        return Estimate(3 * float(spread), 3 * float(influence.std(ddof=1)) / sqrt(v.size))

    def sample(self, shape: int | tuple[int, ...] = (), *, seed: int = 0) -> np.ndarray:
        """Independent draws: a variance picked at random from those given, then a normal."""
        rng = np.random.default_rng(_arguments.seed(seed))
        return np.sqrt(rng.choice(self.variances, shape)) * rng.standard_normal(shape)


def _estimate(value: float) -> Estimate:
    return value if isinstance(value, Estimate) else Estimate(value)


def root_of(variance: Estimate) -> Estimate:
    """The square root, with its error."""
    std = sqrt(variance)
    return Estimate(std, variance.stderr / (2 * std) if std else 0.0)

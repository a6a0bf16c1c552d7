"""The contract of laws of several real variables."""

import abc
from typing import Any, ClassVar, Literal

import numpy as np

from ._base import ProbabilityLaw
from ._law import Law


class JointLaw(ProbabilityLaw):
    """A probability law of `k` real variables jointly.

    Moments are arrays, and `error` gives their standard errors. `marginal(i)` is the `Law` of one variable, with
    quantiles and all other methods.

    A subclass gives `event_shape`, `mean`, `cov`, `marginal`, `error`, `sample` and `_values` (the data that define the
    law).

    Example:
        >>> import numpy as np
        >>> from limitlaw.laws import GaussianMixture, JointLaw
        >>> law = GaussianMixture([np.eye(2), 3 * np.eye(2)], weights=[0.5, 0.5])
        >>> isinstance(law, JointLaw), law.event_shape, law.variance().tolist(), law.marginal(0).variance()
        (True, (2,), [2.0, 2.0], 2.0)
    """

    _names_elsewhere: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("covariance", "covariance_matrix"), "cov"),
        "var": "variance",
        **dict.fromkeys(("std", "stddev"), "standard_deviation"),
        **dict.fromkeys(("rvs", "rsample", "sample_n"), "sample(shape, rng=...)"),
        **dict.fromkeys(("icdf", "ppf", "quantile"), "marginal(i).icdf"),
        **dict.fromkeys(("iccdf", "isf"), "marginal(i).iccdf"),
        "median": "marginal(i).median",
        "interval": "marginal(i).interval",
        "scipy": "marginal(i).scipy",
        "numpyro": "marginal(i).numpyro",
    }

    @abc.abstractmethod
    def mean(self) -> np.ndarray:
        """The means, `(k,)`."""

    @abc.abstractmethod
    def cov(self) -> np.ndarray:
        """The covariance matrix, `(k, k)`; its error is `error("cov")`."""

    @abc.abstractmethod
    def marginal(self, i: int) -> Law:
        """The law of one variable.

        Args:
            i: Its index, counted from the end if negative.
        """

    @abc.abstractmethod
    def error(self, what: str, x: Any = None) -> Any:
        """The standard error of a quantity of the law, in the shape of that quantity.

        Args:
            what: The name of the method that returns the quantity.
            x: Points `(..., k)`, if the quantity is a function of points.
        """

    def variance(self) -> np.ndarray:
        """The variances, `(k,)`."""
        return np.diagonal(self.cov()).copy()

    def standard_deviation(self) -> np.ndarray:
        """The standard deviations, `(k,)`."""
        return np.sqrt(self.variance())

    def skewness(self) -> np.ndarray:
        """The third standardized moments, `(k,)`."""
        return self.moment(3, "standardized")

    def kurtosis(self, convention: Literal["excess", "non-excess"] = "excess") -> np.ndarray:
        """The kurtosis of each variable, `(k,)`, by default the excess over that of a normal law.

        Args:
            convention: "excess", the fourth standardized moment minus 3; or "non-excess", that moment itself.
        """
        return np.array([float(self.marginal(i).kurtosis(convention)) for i in range(*self.event_shape)])

    def moment(self, order: int, kind: Literal["raw", "central", "standardized"] = "raw") -> np.ndarray:
        """The moments of each variable, `(k,)`.

        Args:
            order: A non-negative integer.
            kind: "raw", "central" (about the mean) or "standardized" (central, in units of the standard deviation).
        """
        return np.array([float(self.marginal(i).moment(order, kind)) for i in range(*self.event_shape)])

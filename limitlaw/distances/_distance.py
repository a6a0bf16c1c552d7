"""The base class of distances, on which comparisons and studies rely."""

import abc
import warnings
from typing import Any, NamedTuple

from .._checks import ArgumentError
from ..laws import Empirical, Law
from ..numerics import Estimate
from ._arguments import as_laws

# Standard errors above 0 at which a distance counts as resolved: about a 95 % interval that excludes 0.
_RESOLVED = 2.0


class ResolutionWarning(UserWarning):
    """A distance is too small for its draws to distinguish from 0. The message states their resolution."""


class Measured(NamedTuple):
    """A distance with the smallest value that its draws can distinguish from 0.

    Args:
        estimate: The distance.
        resolution: The smallest value that the draws resolve; 0 for two laws that are known exactly.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.distances import Measured
        >>> Measured(ll.Estimate(0.1, 0.2), resolution=0.4).resolved
        False
    """

    estimate: Estimate
    resolution: float

    @classmethod
    def by_error(cls, estimate: Estimate) -> "Measured":
        """An estimate that counts as resolved if it is at least two standard errors."""
        return cls(estimate, _RESOLVED * estimate.stderr)

    @property
    def resolved(self) -> bool:
        """Whether the draws distinguish the distance from 0."""
        return not self.resolution > 0 or bool(self.estimate >= self.resolution)


class Distance(abc.ABC):
    """A distance between two laws on the real line.

    To add a distance, write a subclass in a new file and add an instance to `DISTANCES` (`_all.py`), which comparisons,
    studies, plots and the generic tests read. A subclass declares the attributes below and implements two methods. They
    receive laws that have been checked and are two different objects.

    Attributes:
        name: The name of the function and of the measure in a study, such as "kl".
        label: The label in tables, such as "KL".
        long_label: The label on the axis of a plot, such as "total variation".
        symmetric: Whether `d(p, q) = d(q, p)`. A comparison shows both directions of a distance that is not symmetric.
        methods: The methods to estimate it from samples, one of which a caller must choose. Only a distance that needs
            densities has methods, because samples have no density and the value depends on the estimate of one.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.distances import DISTANCES
        >>> found = DISTANCES["ks"].measure(ll.laws.Gaussian(), ll.laws.Gaussian(variance=1.1))
        >>> print(f"{found.estimate:.6f} {found.resolved}")
        0.011529 True
    """

    name: str
    label: str
    long_label: str
    symmetric: bool = True
    methods: tuple[str, ...] = ()

    @property
    def needs_densities(self) -> bool:
        """Whether samples need a method that estimates their density."""
        return bool(self.methods)

    @abc.abstractmethod
    def of_laws(self, p: Law, q: Law) -> Measured:
        """The distance between two laws, each known exactly or from draws of its variance."""

    @abc.abstractmethod
    def of_samples(self, p: Law, q: Law, method: str | None) -> Measured:
        """The distance between two laws of which at least one is `Empirical`.

        Args:
            p: The first law.
            q: The second law.
            method: One of `methods`; None if there are none.
        """

    def measure(self, p: Any, q: Any, /, *, method: str | None = None) -> Measured:
        """The distance and the smallest value that its draws resolve, without a warning.

        Args:
            p: A law, an array of samples, or a frozen distribution of `scipy.stats`.
            q: Another one.
            method: The estimate of the densities of samples, one of `methods`.

        Raises:
            ArgumentError: If an argument is not a law, or `method` does not apply to these two.
        """
        first, second = as_laws(p, q)
        if first is second:
            return Measured(Estimate(0.0), 0.0)
        sampled = isinstance(first, Empirical) or isinstance(second, Empirical)
        self._check_method(method, sampled)
        return self.of_samples(first, second, method) if sampled else self.of_laws(first, second)

    def __call__(self, p: Any, q: Any, /, *, method: str | None = None) -> Estimate:
        """The distance, with a `ResolutionWarning` if its draws do not resolve it. Arguments are those of `measure`."""
        found = self.measure(p, q, method=method)
        if not found.resolved:
            warnings.warn(
                f"{self.name} = {found.estimate} is not resolved by these draws, which distinguish values above about "
                f"{found.resolution:.1g} from 0. Read it as a bound, or increase the number of draws (samples=... or a "
                f"smaller accuracy=...).",
                ResolutionWarning,
                stacklevel=3,  # the caller of the public function, such as `kl`
            )
        return found.estimate

    def _check_method(self, method: str | None, sampled: bool) -> None:
        choices = " or ".join(f"method={choice!r}" for choice in self.methods)
        if not sampled and method is not None:
            raise ArgumentError(
                "method",
                f"method={method!r} is for samples, but both arguments are laws, which are compared by quadrature. "
                f"Leave it out.",
            )
        if sampled and self.needs_densities and method not in self.methods:
            reason = "is needed to compare samples, which have no density" if method is None else "is not supported"
            raise ArgumentError(
                "method",
                f"method={method!r} {reason}. Use {choices}, or compare laws such as net.law(...).",
            )
        if sampled and not self.needs_densities and method is not None:
            raise ArgumentError("method", f"method={method!r} does not apply to {self.name}. Leave it out.")

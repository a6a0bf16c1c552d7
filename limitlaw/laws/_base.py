"""The base class of laws: equality, hashing, pickling, and hints for method names of other libraries."""

import abc
import functools
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from ..numerics import Estimate
from ._arguments import Rng


class ProbabilityLaw(abc.ABC):
    """A law of one variable (`Law`) or of several (`JointLaw`).

    Laws are values. Two laws of one class that are defined by equal numbers are equal and have the same hash. Laws can
    be pickled and copied. A name is a label, which comparisons ignore.

    A subclass gives `_values` and `sample`.

    Example:
        >>> from limitlaw.laws import Gaussian, ProbabilityLaw
        >>> law = Gaussian(variance=4.0)
        >>> isinstance(law, ProbabilityLaw), law == Gaussian(variance=4.0), {law: "known"}[Gaussian(variance=4.0)]
        (True, True, 'known')
        >>> law.ppf(0.5)
        Traceback (most recent call last):
        AttributeError: Gaussian has no attribute 'ppf'. Use icdf.
    """

    name: str = "law"
    method: str = "closed form"
    event_shape: tuple[int, ...] = ()
    _names_elsewhere: ClassVar[dict[str, str]] = {}

    @property
    @abc.abstractmethod
    def _values(self) -> Sequence[Any]:
        """The numbers, arrays and functions that define the law, for equality and hashing."""

    @abc.abstractmethod
    def sample(self, shape: int | Sequence[int] = (), *, rng: Rng = None) -> np.ndarray:
        """Independent draws, float64.

        Args:
            shape: The shape of the array of draws; a single draw by default.
            rng: As in scipy: an integer seed or a `numpy.random.Generator`; None draws fresh entropy.

        Returns:
            An array of shape `shape`, followed by `event_shape` for a joint law.
        """

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return same_values(self._values, other._values)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), hash_of_values(self._values)))

    def __getstate__(self) -> dict[str, Any]:
        """All attributes except cached properties, which are computed again on demand."""
        cached = {
            name
            for kind in type(self).__mro__
            for name, value in vars(kind).items()
            if isinstance(value, functools.cached_property)
        }
        return {name: value for name, value in self.__dict__.items() if name not in cached}

    def __getattr__(self, name: str) -> NoReturn:
        """Raise, with a hint for a name of another library. Python calls this only for names that do not exist."""
        ours = type(self)._names_elsewhere.get(name)
        remedy = f" Use {ours}." if ours else ""
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.{remedy}", name=name, obj=self)


def same_values(first: Iterable[Any], second: Iterable[Any]) -> bool:
    """Whether two sequences hold equal numbers, arrays and functions. Estimates must have equal errors as well."""
    return all(_comparable(a) == _comparable(b) for a, b in zip(first, second, strict=True))


def hash_of_values(values: Iterable[Any]) -> int:
    """A hash of numbers, arrays and functions."""
    return hash(tuple(_comparable(value) for value in values))


def _comparable(value: Any) -> Any:
    if isinstance(value, Estimate):
        return float(value), value.stderr, value.dof
    if isinstance(value, np.ndarray):
        # -0.0 + 0.0 = 0.0, so equal numbers have equal bytes.
        return value.shape, value.dtype.str, (value + 0.0).tobytes()
    return value


def root_of(variance: Estimate) -> Estimate:
    """The square root, with its standard error."""
    root = float(np.sqrt(variance))
    return Estimate(root, variance.stderr / (2 * root) if root else 0.0, variance.dof)

"""Arguments of distances and comparisons: two laws, or a network that has laws."""

from typing import Any, Protocol

from .._checks import ArgumentError, ArgumentTypeError
from ..laws import Empirical, Law, Pushforward, ScaleMixture, as_law
from ..laws.samples import checked_samples


class HasLaw(Protocol):
    """What comparisons need of a network."""

    def law(self, *, width: int | float, token: int, seed: int, samples: int | None, accuracy: float) -> Law:
        """The law of a token at a width."""
        ...


def as_laws(first: Any, second: Any) -> tuple[Law, Law]:
    """Two laws on the real line from laws, arrays of samples, or frozen distributions of `scipy.stats`.

    Args:
        first: The first argument, which errors call `p`.
        second: The second argument, which errors call `q`.

    Returns:
        Two laws without a point mass. Samples, and laws that are known only from draws, become an `Empirical`.

    Raises:
        ArgumentError: If an argument is none of these, is a joint law of several variables, or has a point mass.
    """
    pair = _as_law("p", first, second), _as_law("q", second, first)
    for name, law in zip("pq", pair, strict=True):
        if isinstance(law, ScaleMixture) and law.atoms.zero:
            raise ArgumentError(
                name,
                f"{name} has a point mass at 0 (probability {law.atoms.zero**law.copies:.2g}), so it has no density. "
                f"Compare samples of it, as in ks({name}.sample(100_000), ...).",
            )
    return pair


def _as_law(name: str, value: Any, other: Any) -> Law:
    if shape := getattr(value, "event_shape", ()):
        shape_of_other = getattr(other, "event_shape", ())
        number = f"that of {shape_of_other[0]} variables" if shape_of_other else "that of one variable"
        raise ArgumentError(
            name,
            f"{name} is the joint law of {shape[0]} variables, and the other argument is {number}. Distances compare "
            f"laws of one variable. Pass one coordinate, such as {name}.marginal(0).",
        )
    if isinstance(value, Pushforward):
        return value.drawn
    if isinstance(value, Law):
        return value
    # These are recognised by their methods, because this package does not import networks, and scipy has no public base
    # class of its distributions.
    if callable(getattr(value, "law", None)):
        raise ArgumentTypeError(
            name,
            f"{name}={type(value).__name__}(...) is a network, not a law. Pass {name}.law() or {name}.law(width=...).",
        )
    if hasattr(value, "cdf") or hasattr(value, "pmf"):
        try:
            return as_law(value)
        except ArgumentTypeError as error:
            raise ArgumentTypeError(name, f"{name}{str(error).removeprefix(error.argument)}") from None
    return Empirical(checked_samples(name, value))

"""What every distance does first and last: two laws on the same line, and an estimate that is not below its resolution."""

import warnings
from typing import Any

import numpy as np

from ..laws import Empirical, Law, Pushforward, ScaleMixture
from ..laws._empirical import checked_samples
from ..numerics import Estimate

_RESOLVED = 2.0  # standard errors above 0 at which a distance counts as seen


class ResolutionWarning(UserWarning):
    """A distance is too small to be told from 0 by the draws it was computed from; the message says how small."""


def as_laws(first: Any, second: Any) -> tuple[Law, Law]:
    """Two laws on the real line, both with a density; arrays are samples."""
    pair = _as_law("p", first, second), _as_law("q", second, first)
    for name, law in zip("pq", pair, strict=True):
        if isinstance(law, ScaleMixture) and law.atoms.zero:
            raise ValueError(
                f"{name} has a point mass at 0 (probability {law.atoms.zero**law.copies:.2g}), so it has no density; "
                f"compare samples of it, ks({name}.sample(100_000), ...)."
            )
    return pair


def _as_law(name: str, value: Any, other: Any) -> Law:
    shape = getattr(value, "event_shape", ())
    if shape:
        raise ValueError(
            f"{name} is the joint law of {shape[0]} variables and the other one of "
            f"{getattr(other, 'event_shape', ()) or 'one'}: a distance compares laws on the real line; take one coordinate, "
            f"such as {name}.marginal(0)."
        )
    if isinstance(value, Pushforward):
        return value.drawn
    if isinstance(value, Law):
        return value
    return Empirical(checked_samples(name, value))


def root_of_squared(squared: Estimate) -> Estimate:
    """The square root of an estimate that may have come out negative; near 0 the error is the root of the error."""
    root = float(np.sqrt(max(squared, 0.0)))
    spread = float(np.sqrt(squared.stderr))
    return Estimate(root, min(squared.stderr / (2 * root), spread) if root > 0 else spread, squared.dof)


def resolved(what: str, estimate: Estimate, resolution: float | None = None) -> Estimate:
    """The estimate, with a warning if it is below what it can resolve: two standard errors unless said otherwise."""
    limit = _RESOLVED * estimate.stderr if resolution is None else resolution
    if estimate.stderr > 0 and not estimate >= limit:
        warnings.warn(
            f"{what} = {estimate} is below what these draws resolve, about {limit:.1g}: read it as a bound, or draw more "
            f"(samples=, or a smaller accuracy=).",
            ResolutionWarning,
            stacklevel=3,
        )
    return estimate

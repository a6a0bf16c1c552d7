"""What every distance does first and last: two laws on the same line, and an estimate that is not below its resolution."""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..laws import Empirical, Law, Pushforward, ScaleMixture
from ..laws._empirical import checked_samples
from ..numerics import Estimate, jackknife

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


def left_out_of_two(
    value: Callable[[np.ndarray, np.ndarray], float],
    p: tuple[np.ndarray, Iterable[np.ndarray]],
    q: tuple[np.ndarray, Iterable[np.ndarray]],
    *,
    corrected: bool = True,
) -> Estimate:
    """`value` of two laws, each given by what it is and by what it is with each of its batches left out in turn."""
    (of_p, p_rows), (of_q, q_rows) = p, q
    return jackknife(
        value(of_p, of_q),
        np.array([value(row, of_q) for row in p_rows]),
        np.array([value(of_p, row) for row in q_rows]),
        corrected=corrected,
    )


def root_of_squared(squared: Estimate) -> Estimate:
    """The square root of an estimate that may have come out negative; near 0 the error is the root of the error."""
    root = float(np.sqrt(max(squared, 0.0)))
    spread = float(np.sqrt(squared.stderr))
    return Estimate(root, min(squared.stderr / (2 * root), spread) if root > 0 else spread, squared.dof)


def distance(
    what: str,
    first: Any,
    second: Any,
    of_laws: Callable[[Law, Law], Estimate],
    of_samples: Callable[[Law, Law], tuple[Estimate, float | None]],
) -> Estimate:
    """A distance between two laws, by `of_samples` if one of them is known from samples alone.

    It warns if the estimate is below what it can resolve: what `of_samples` says, or two standard errors.
    """
    p, q = as_laws(first, second)
    if p is q:
        return Estimate(0.0)
    raw = isinstance(p, Empirical) or isinstance(q, Empirical)
    estimate, resolution = of_samples(p, q) if raw else (of_laws(p, q), None)
    limit = _RESOLVED * estimate.stderr if resolution is None else resolution
    if limit > 0 and not estimate >= limit:
        warnings.warn(
            f"{what} = {estimate} is below what these draws resolve, about {limit:.1g}: read it as a bound, or draw more "
            f"(samples=, or a smaller accuracy=).",
            ResolutionWarning,
            stacklevel=3,
        )
    return estimate

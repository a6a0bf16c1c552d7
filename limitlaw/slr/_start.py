"""Overlaps that descent starts from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from .._checks import ArgumentError, ArgumentTypeError, one_of, positive_integer, seed as checked_seed
from ._arguments import overlap
from ._overlaps import as_overlaps

if TYPE_CHECKING:
    from ._problem import Problem

_KINDS = ("uniform", "manifold", "informed")
_MOST_BYTES = 2**31  # of vectors drawn for the overlaps of uniform starts


def start(
    problem: Problem,
    kind: str = "uniform",
    count: int | None = None,
    *,
    mu: float | None = None,
    nu: float | None = None,
    seed: int = 0,
) -> np.ndarray:
    """Draw overlaps that descent can start from.

    Args:
        problem: Whose dimension the directions have.
        kind: "uniform" (`u` and `v` uniform on the sphere), "manifold" (the same `mu` and `nu`, and
            `eta = zeta = rho = 0`) or "informed" (`mu`, `nu` or both as given, the rest uniform).
        count: The number of starts; if None there is one, and no axis for it.
        mu: `u . u_*` of informed starts.
        nu: `v . v_*` of informed starts.
        seed: The seed of the draw.

    Returns:
        Overlaps `(5,)`, or `(count, 5)`.

    Raises:
        ArgumentError: If the kind is unknown, or `mu` and `nu` do not fit to it.

    Example:
        >>> from limitlaw import slr
        >>> slr.start(slr.Problem(dim=100, tokens=20), "informed", mu=0.3, nu=0.1)[:2]
        array([0.3, 0.1])
    """
    one_of("kind", kind, _KINDS)
    if kind == "informed" and mu is None and nu is None:
        raise ArgumentError("kind", "start(kind='informed') needs mu, nu, or both.")
    for name, value in (("mu", mu), ("nu", nu)):
        if value is None:
            continue
        if kind != "informed":
            raise ArgumentError(
                name, f"{name}={value!r} has no effect on start(kind={kind!r}). Use kind='informed', or leave it out."
            )
        overlap(name, value)
    number = 1 if count is None else int(positive_integer("count", count))
    if 16.0 * number * problem.dim > _MOST_BYTES:
        raise ArgumentError("count", f"count={count!r} at dim={problem.dim} needs more than 2 GiB. Draw fewer starts.")
    overlaps = _draw(problem.dim, number, checked_seed(seed), mu, nu)
    if kind == "manifold":
        overlaps[:, 2:] = 0.0
    return overlaps[0] if count is None else overlaps


def as_start(problem: Problem, given: ArrayLike | None) -> np.ndarray:
    """Overlaps `(5,)` or `(starts, 5)` as they were given; a uniform start with seed 0 for None."""
    if given is None:
        return start(problem)
    try:
        array = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            "start",
            f"start={given!r} must be overlaps of shape (5,) or (starts, 5), such as slr.start(problem, 'uniform').",
        ) from None
    if array.ndim not in (1, 2) or not array.size:
        raise ArgumentError("start", f"start has shape {array.shape}. Give overlaps of shape (5,) or (starts, 5).")
    return as_overlaps(array, problem.dim)


def _draw(dim: int, count: int, seed: int, mu: float | None, nu: float | None) -> np.ndarray:
    """Overlaps of `u` and `v` uniform on the sphere, or on the part of it with the given `mu`, and the given `nu`."""
    rng = np.random.default_rng(seed)
    u, v = np.moveaxis(rng.standard_normal((count, 2, dim)), 1, 0)
    for vector, axis, value in ((u, 0, mu), (v, 1, nu)):
        if value is not None:
            vector[:, axis] = 0.0
            vector *= (np.sqrt(1 - value**2) / np.linalg.norm(vector, axis=1))[:, None]
            vector[:, axis] = value
        vector /= np.linalg.norm(vector, axis=1)[:, None]
    return np.stack([u[:, 0], v[:, 1], u[:, 1], v[:, 0], np.sum(u * v, axis=1)], axis=1)

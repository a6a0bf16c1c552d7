"""Arguments of laws: points, probabilities, orders of moments, shapes and sources of random numbers."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .. import _checks
from .._checks import ArgumentError, ArgumentTypeError

Rng = int | np.random.Generator | None
"""A source of random numbers, as scipy takes it: a seed, a generator, or None for fresh entropy."""


def real_array(name: str, x: Any) -> np.ndarray:
    """`x` as a float64 array of any shape. NaN is allowed."""
    try:
        if x is None or isinstance(x, str | bytes) or np.iscomplexobj(x):
            raise TypeError
        return np.asarray(x, np.float64)
    except jax.errors.TracerArrayConversionError:
        raise ArgumentTypeError(
            name,
            f"{name} is traced by JAX, but laws compute with NumPy. "
            f"Inside jit, grad or vmap use law.numpyro().log_prob({name}).",
        ) from None
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            name, f"{name}={x!r} must be a real number or an array of real numbers, with rows of equal length."
        ) from None


def pointwise(f: Callable[[np.ndarray], np.ndarray], x: np.ndarray, dtype: Any = np.float64) -> Any:
    """Apply a function of one-dimensional arrays to an array of any shape. NaN stays NaN."""
    flat = x.ravel()
    out = np.full(flat.size, np.nan, dtype)
    known = ~np.isnan(flat)
    if known.any():
        out[known] = f(flat[known])
    return out.reshape(x.shape)[()]


def probabilities(name: str, q: Any) -> np.ndarray:
    """`q` as an array of numbers in [0, 1]."""
    array = real_array(name, q)
    wrong = array[(array < 0) | (array > 1)]
    if wrong.size:
        value = wrong.flat[0]
        remedy = f"For {value:g} % give {value / 100:g}" if 1 < value <= 100 else "Give a number between 0 and 1"
        raise ArgumentError(name, f"{name}={value:g} must be a probability in [0, 1]. {remedy}.")
    return array


def log_probabilities(name: str, lq: Any) -> np.ndarray:
    """`lq` as an array of logarithms of probabilities, which are at most 0."""
    array = real_array(name, lq)
    wrong = array[array > 0]
    if wrong.size:
        raise ArgumentError(
            name,
            f"{name}={wrong.flat[0]:g} must be the logarithm of a probability, which is at most 0. "
            f"For the probability itself use icdf or iccdf.",
        )
    return array


def moment_order(order: Any, kind: str) -> int:
    """The order of a moment of one of the three kinds."""
    _checks.one_of("kind", kind, ("raw", "central", "standardized"))
    if order == 0 and not isinstance(order, bool):
        return 0
    return int(_checks.positive_integer("order", order))


def shape_of(shape: int | Sequence[int]) -> tuple[int, ...]:
    """`shape` as a tuple of sizes."""
    sizes = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    if not all(isinstance(size, int | np.integer) and not isinstance(size, bool) and size >= 0 for size in sizes):
        raise ArgumentError("shape", f"shape={shape!r} must be a non-negative integer or a tuple of them.")
    return tuple(int(size) for size in sizes)


def generator_of(rng: Rng) -> np.random.Generator:
    """The generator that is given or seeded by `rng`."""
    try:
        if isinstance(rng, bool | np.bool_ | str):
            raise TypeError
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            "rng", f"rng={rng!r} must be a non-negative integer, a numpy.random.Generator or None."
        ) from None

"""Refusing bad arguments before any work: one sentence with the argument, the value and the remedy."""

import numbers
from collections.abc import Iterable
from math import inf
from typing import Any

import numpy as np

_LARGEST_INTEGER = 2**53
_MOST_COUNTED = 2**31
_LARGEST = 1e9  # products of a few such numbers fit float32


def positive_integer(name: str, value: Any, *, infinite: bool = False) -> int | float:
    """`value` as an int of at least 1, or `inf` where that is allowed."""
    allowed = "a positive integer" + (" or inf" if infinite else "")
    if not _is_number(value):
        raise TypeError(f"{name}={value!r}: must be {allowed}.")
    if infinite and value == inf:
        return inf
    if value != value or value in (inf, -inf) or value != int(value) or value < 1:
        raise ValueError(f"{name}={value!r}: must be {allowed}.")
    if value > _LARGEST_INTEGER:
        raise ValueError(
            f"{name}={value!r}: is beyond 2^53{', where inf is as good' if infinite else ''}; use a smaller number."
        )
    return int(value)


def non_negative(name: str, value: Any) -> float:
    """`value` as a finite float of at least 0."""
    if not _is_number(value):
        raise TypeError(f"{name}={value!r}: must be a finite number, at least 0.")
    if not 0 <= value <= _LARGEST:
        raise ValueError(f"{name}={value!r}: must be a finite number, at least 0 and at most {_LARGEST:g}.")
    return float(value)


def finite_number(name: str, value: Any) -> float:
    """`value` as a finite float."""
    if not _is_number(value):
        raise TypeError(f"{name}={value!r}: must be a finite number.")
    if not abs(value) <= _LARGEST:
        raise ValueError(f"{name}={value!r}: must be a finite number of size at most {_LARGEST:g}.")
    return float(value)


def natural(name: str, value: Any) -> int:
    """`value` as an integer from 0 on."""
    if not _is_number(value, numbers.Integral):
        raise TypeError(f"{name}={value!r}: must be an integer.")
    if not 0 <= value < _MOST_COUNTED:
        raise ValueError(f"{name}={value!r}: must be 0 or more, and at most {_MOST_COUNTED - 1}.")
    return int(value)


def countable(name: str, value: int | float) -> None:
    """Refuse a finite number that loops cannot count to."""
    if _MOST_COUNTED <= value < inf:
        raise ValueError(f"{name} {value:,}: is more than can be drawn one by one; use fewer than 2^31, or inf.")


def one_of(name: str, value: Any, choices: Iterable[str]) -> str:
    """`value` if it is among `choices`."""
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}={value!r}: there is no such {name}; use one of {', '.join(map(repr, choices))}.")
    return value


def seed(value: Any) -> int:
    """`value` as a seed: an integer in [0, 2^64)."""
    if not _is_number(value, numbers.Integral):
        raise TypeError(f"seed={value!r}: must be an integer.")
    if not 0 <= value < 2**64:
        raise ValueError(f"seed={value!r}: must lie in [0, 2^64).")
    return int(value)


def index(name: str, value: Any, size: int, of: str) -> int:
    """`value` as an index into `size` things, negative ones counted from the end."""
    if not _is_number(value, numbers.Integral):
        raise TypeError(f"{name}={value!r}: must be an integer, or a list of them.")
    if not -size <= value < size:
        raise ValueError(f"{name}={value!r}: there are {size} {of}, so it must lie in [{-size}, {size - 1}].")
    return int(value) % size


def finite_array(name: str, value: Any, ndim: int, *, largest: float = _LARGEST) -> np.ndarray:
    """`value` as a finite float64 array with `ndim` axes and entries up to `largest` in size."""
    try:
        array = np.array(value, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name}={value!r}: must be an array of real numbers.") from None
    if array.ndim != ndim:
        raise ValueError(f"{name} has shape {array.shape}: it must have {ndim} axes.")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name}[{', '.join(map(str, where))}] is {array[where]}: every entry must be finite.")
    if np.abs(array).max(initial=0.0) > largest:
        raise ValueError(
            f"{name} has an entry of size {np.abs(array).max():g}: beyond {largest:g} the draws would overflow; rescale it."
        )
    return array


def psd_matrix(name: str, value: Any) -> np.ndarray:
    """`value` as a symmetric positive semi-definite float64 matrix."""
    matrix = finite_array(name, value, 2)
    if matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(f"{name} has shape {matrix.shape}: it must be square, with at least one row.")
    size = np.abs(matrix).max()
    skew = np.abs(matrix - matrix.T)
    if skew.max() > 1e-6 * size:
        i, j = (int(k) for k in np.unravel_index(skew.argmax(), skew.shape))
        raise ValueError(
            f"{name} is not symmetric: {name}[{i}, {j}] = {matrix[i, j]:.6g} but {name}[{j}, {i}] = {matrix[j, i]:.6g}. "
            f"Pass ({name} + {name}.T) / 2 if the difference is rounding."
        )
    matrix = (matrix + matrix.T) / 2
    eigenvalues = np.linalg.eigvalsh(matrix)
    if eigenvalues[0] < -1e-6 * size:
        raise ValueError(
            f"{name} is not positive semi-definite: its smallest eigenvalue is {eigenvalues[0]:.6g}. "
            f"Clip its negative eigenvalues to 0, or build it as X @ X.T / n."
        )
    return matrix


def _is_number(value: Any, kind: type = numbers.Real) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool | np.bool_)

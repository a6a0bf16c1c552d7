"""Checks of arguments: bad input is refused before any work, by an error that says what is wrong and what to do.

Every message begins with `argument=value`, as people search for it, and goes on in full sentences.
"""

import difflib
import math
import numbers
import tomllib
from collections.abc import Iterable, Mapping
from math import inf
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from ._format import format_bytes

_LARGEST_INTEGER = 2**53  # float64 does not tell larger integers apart
_MOST_COUNTED = 2**31  # JAX counts in int32
_LARGEST = 1e9  # float32 holds the squares of numbers up to 1.8e19; this leaves room for products of layers
_ROUNDING = 1e-6  # of a matrix, relative to its largest entry
_SMALLEST_STD = 1e-9  # float32 holds the squares of numbers from 1.1e-19 on


class ArgumentError(ValueError):
    """An argument was refused.

    Args:
        argument: The name of the argument, so that a form or a test never parses the text.
        text: What is wrong and what to do, in full sentences that begin with the argument.

    Example:
        >>> from limitlaw._checks import ArgumentError
        >>> error = ArgumentError("heads", "heads=0 must be positive. Use heads=1.")
        >>> error.argument, str(error)
        ('heads', 'heads=0 must be positive. Use heads=1.')
    """

    def __init__(self, argument: str, text: str) -> None:
        super().__init__(argument, text)

    @property
    def argument(self) -> str:
        """The name of the refused argument."""
        return self.args[0]

    def __str__(self) -> str:
        return self.args[1]


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument of the wrong type was refused. It is a `TypeError` as well."""


def positive_integer(name: str, value: Any, *, infinite: bool = False) -> int | float:
    """`value` as an int of at least 1, or `inf` if `infinite` allows it."""
    allowed = "a positive integer" + (" or inf" if infinite else "")
    if not _is_number(value):
        raise ArgumentTypeError(name, f"{name}={value!r} must be {allowed}.")
    if infinite and value == inf:
        return inf
    if value != value or value in (inf, -inf) or value != int(value) or value < 1:
        raise ArgumentError(name, f"{name}={value!r} must be {allowed}.")
    if value > _LARGEST_INTEGER:
        raise ArgumentError(
            name, f"{name}={value!r} exceeds 2^53. Use {'inf, or ' if infinite else ''}a smaller number."
        )
    return int(value)


def is_traced(value: Any) -> bool:
    """Whether JAX traces `value`, under `jit`, `vmap` or `grad`, so that checks which need a number must skip it."""
    return isinstance(value, Tracer)


def is_zero(value: Any) -> bool:
    """Whether a number is known to be zero. The value of a traced number is unknown."""
    return not is_traced(value) and bool(value == 0)


def non_negative(name: str, value: Any) -> float:
    """`value` as a finite float of at least 0. A traced value is returned unchanged."""
    if is_traced(value):
        return value
    if not _is_number(value):
        raise ArgumentTypeError(name, f"{name}={value!r} must be a finite number, at least 0.")
    if not 0 <= value <= _LARGEST:
        raise ArgumentError(name, f"{name}={value!r} must be a finite number from 0 to {_LARGEST:g}.")
    return float(value)


def standard_deviation(name: str, value: Any) -> float:
    """`value` as a float that is 0 or within the range whose squares float32 can hold."""
    value = non_negative(name, value)
    if not is_traced(value) and 0 < value < _SMALLEST_STD:
        raise ArgumentError(
            name,
            f"{name}={value!r} is below {_SMALLEST_STD:g}, and its square would underflow in single precision. "
            f"Use 0, or rescale the network.",
        )
    return value


def finite_number(name: str, value: Any) -> float:
    """`value` as a finite float. A traced value is returned unchanged."""
    if is_traced(value):
        return value
    if not _is_number(value):
        raise ArgumentTypeError(name, f"{name}={value!r} must be a finite number.")
    if not abs(value) <= _LARGEST:
        raise ArgumentError(name, f"{name}={value!r} must be a finite number from {-_LARGEST:g} to {_LARGEST:g}.")
    return float(value)


def natural(name: str, value: Any) -> int:
    """`value` as an integer of at least 0."""
    if not _is_number(value, numbers.Integral):
        raise ArgumentTypeError(name, f"{name}={value!r} must be an integer.")
    if not 0 <= value < _MOST_COUNTED:
        raise ArgumentError(name, f"{name}={value!r} must lie in [0, {_MOST_COUNTED - 1}].")
    return int(value)


def countable(name: str, value: int | float) -> None:
    """Refuse a finite number of things that are too many to be drawn one by one."""
    if _MOST_COUNTED <= value < inf:
        raise ArgumentError(name, f"{name}={value:,} is too large to be drawn one by one. Use fewer than 2^31, or inf.")


def one_of(name: str, value: Any, choices: Iterable[str]) -> str:
    """`value` if it is among `choices`."""
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        raise ArgumentError(name, f"{name}={value!r} is not known. Use one of {', '.join(map(repr, choices))}.")
    return value


def seed(value: Any) -> int:
    """`value` as a seed: an integer in [0, 2^64)."""
    if not _is_number(value, numbers.Integral):
        raise ArgumentTypeError("seed", f"seed={value!r} must be an integer.")
    if not 0 <= value < 2**64:
        raise ArgumentError("seed", f"seed={value!r} must lie in [0, 2^64).")
    return int(value)


def index(name: str, value: Any, size: int, of: str) -> int:
    """`value` as an index into `size` items, which an error names as `of`. Negative ones count from the end."""
    if not _is_number(value, numbers.Integral):
        raise ArgumentTypeError(name, f"{name}={value!r} must be an integer, or a list of them.")
    if not -size <= value < size:
        raise ArgumentError(
            name, f"{name}={value!r} is out of range. With {size} {of} it must lie in [{-size}, {size - 1}]."
        )
    return int(value) % size


def finite_array(name: str, value: Any, ndim: int, *, largest: float = _LARGEST) -> np.ndarray:
    """`value` as a finite float64 array with `ndim` axes and entries up to `largest` in size."""
    if value is None:
        raise ArgumentTypeError(name, f"{name}=None must be an array of real numbers with {_axes(ndim)}.")
    try:
        array = np.array(value, np.float64)
    except (TypeError, ValueError):
        if _is_ragged(value):
            raise ArgumentError(
                name, f"{name}={value!r} has rows of different lengths. Give every row the same length."
            ) from None
        raise ArgumentTypeError(name, f"{name}={value!r} must be an array of real numbers.") from None
    if array.ndim != ndim:
        raise ArgumentError(name, f"{name} has shape {array.shape}. It must have {_axes(ndim)}.")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ArgumentError(
            name, f"{name}[{', '.join(map(str, where))}] is {array[where]}. All entries must be finite."
        )
    if np.abs(array).max(initial=0.0) > largest:
        raise ArgumentError(
            name,
            f"{name} has an entry of size {np.abs(array).max():g}, and draws may overflow beyond {largest:g}. Rescale it.",
        )
    return array


def _axes(ndim: int) -> str:
    """The words "1 axis" or "2 axes"."""
    return "1 axis" if ndim == 1 else f"{ndim} axes"


def _is_ragged(value: Any) -> bool:
    """Whether nested lists have rows of different lengths, at any level."""
    rows = value if isinstance(value, list | tuple) else []
    lengths = {len(row) if isinstance(row, list | tuple | np.ndarray) else -1 for row in rows}
    return len(lengths) > 1 or any(map(_is_ragged, rows))


def psd_matrix(name: str, value: Any) -> np.ndarray:
    """`value` as a symmetric positive semi-definite float64 matrix."""
    matrix = finite_array(name, value, 2)
    if matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ArgumentError(name, f"{name} has shape {matrix.shape}. It must be square, with at least one row.")
    size = np.abs(matrix).max()
    skew = np.abs(matrix - matrix.T)
    # A matrix that was computed in single precision passes: its rounding errors are below 1e-6 of its largest entry.
    if skew.max() > _ROUNDING * size:
        i, j = (int(k) for k in np.unravel_index(skew.argmax(), skew.shape))
        raise ArgumentError(
            name,
            f"{name} is not symmetric: {name}[{i}, {j}] = {matrix[i, j]:.6g} but {name}[{j}, {i}] = "
            f"{matrix[j, i]:.6g}. Pass ({name} + {name}.T) / 2 if the difference is rounding.",
        )
    matrix = (matrix + matrix.T) / 2
    eigenvalues = np.linalg.eigvalsh(matrix)
    if eigenvalues[0] < -_ROUNDING * size:
        raise ArgumentError(
            name,
            f"{name} is not positive semi-definite: its smallest eigenvalue is {eigenvalues[0]:.6g}. "
            f"Clip its negative eigenvalues to 0, or build it as X @ X.T / n.",
        )
    return matrix


def boolean(name: str, value: Any) -> bool:
    """`value` if it is True or False."""
    if not isinstance(value, bool):
        raise ArgumentTypeError(name, f"{name}={value!r} must be True or False.")
    return value


def suggestion(name: Any, known: Iterable[str]) -> str:
    """A sentence that names the nearest known name, or all of them if none is near."""
    names = list(known)
    near = difflib.get_close_matches(str(name), names, 1)
    return f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(map(repr, names))}."


def known_keys(owner: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse a table with a key that is not among `known`. The error names the `owner` of the keys and the nearest one."""
    names = list(known)
    for key in table:
        if key not in names:
            raise ArgumentError(str(key), f"{key!r} is not a key of {owner}. {suggestion(key, names)}")


_MOST_TOML = 4 * 2**20  # bytes: Python's parser takes 4 s for one MiB


def read_toml(path: str | Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        size = Path(path).stat().st_size
        if size > _MOST_TOML:
            raise ArgumentError(
                "path",
                f"{path} has {format_bytes(size)}, and at most {format_bytes(_MOST_TOML)} can be read in a reasonable "
                f"time. Describe larger arrays in Python.",
            )
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ArgumentError("path", f"{path} cannot be read: {error.strerror or error}.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ArgumentError("path", f"{path} is not valid TOML: {error}.") from None
    except RecursionError:
        raise ArgumentError("path", f"{path} is nested too deeply to be read.") from None


def fitting_tokens(name: str, count: int, bytes_a_pair: int, max_memory: int) -> int:
    """Refuse a number of tokens whose Gram matrices exceed the memory, before one is made.

    Args:
        name: The name of the argument.
        count: The number of tokens.
        bytes_a_pair: The number of bytes for each pair of tokens, of all matrices that are held at once.
        max_memory: The number of bytes that are allowed.

    Returns:
        The number of tokens.

    Raises:
        ArgumentError: If the matrices do not fit.
    """
    if bytes_a_pair * count**2 > max_memory:
        raise ArgumentError(
            name,
            f"{name}={count} needs {format_bytes(bytes_a_pair * count**2)} of memory for matrices of tokens, more than "
            f"the {format_bytes(max_memory)} allowed. Use at most {math.isqrt(max_memory // bytes_a_pair):,} tokens.",
        )
    return count


def missing_package(package: str, extra: str) -> str:
    """The sentences that say that a package of an optional extra is not installed, and how to install it."""
    return f"{package} is not installed. Run pip install '.[{extra}]' in a checkout of limitlaw."


def matrix_of_text(text: str) -> list[list[float]]:
    """The matrix that a text holds as rows of numbers, separated by semicolons."""
    try:
        return [[float(entry) for entry in row.replace(",", " ").split()] for row in text.split(";")]
    except ValueError:
        raise ArgumentError(
            "gram", f"gram={text!r} must be rows of numbers, separated by semicolons, such as '1 0.5; 0.5 1'."
        ) from None


def _is_number(value: Any, kind: type = numbers.Real) -> bool:
    """Whether `value` is a number, also as an array of no axes. Booleans are not."""
    if isinstance(value, jax.Array) and not is_traced(value) and not value.shape:
        value = value.item()
    return isinstance(value, kind) and not isinstance(value, bool | np.bool_)

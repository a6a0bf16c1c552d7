"""Checks of arguments that several modules of this package share."""

from __future__ import annotations

from .._checks import ArgumentError, finite_number, positive_integer

_MOST_STEPS = 10**7  # even the cheapest steps, those of the mean field at 0.1 ms, take twenty minutes
_MOST_RECORDED = 2**31  # bytes of overlaps and risks that one call returns
_BYTES_OF_A_RECORD = 48  # five overlaps and a risk


def positive(name: str, value: float) -> float:
    """`value` as a positive finite float."""
    number = finite_number(name, value)
    if number <= 0:
        raise ArgumentError(name, f"{name}={value!r} must be positive.")
    return number


def overlap(name: str, value: float) -> float:
    """`value` as the inner product of two unit vectors."""
    number = finite_number(name, value)
    if abs(number) > 1:
        raise ArgumentError(name, f"{name}={value!r} is not an overlap of two unit vectors. It must lie in [-1, 1].")
    return number


def number_of_steps(steps: int) -> int:
    """`steps` as an int, refused where descent would not end within hours."""
    count = int(positive_integer("steps", steps))
    if count > _MOST_STEPS:
        raise ArgumentError(
            "steps", f"steps={steps!r} exceeds the limit of {_MOST_STEPS:,} steps. Take fewer, larger ones."
        )
    return count


def check_recorded(name: str, value: int, records: int, starts: int, remedy: str) -> None:
    """Refuse records that take more memory than a call should return."""
    if records * starts * _BYTES_OF_A_RECORD > _MOST_RECORDED:
        raise ArgumentError(
            name, f"{name}={value!r} keeps {records:,} records of {starts:,} starts, more than 2 GiB. {remedy}"
        )

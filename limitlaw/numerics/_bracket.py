"""Where a function of one number is zero."""

from collections.abc import Callable

_STEPS = 200


def root_between(function: Callable[[float], float], low: float, high: float, tolerance: float = 1e-12) -> float:
    """A zero of a continuous function between two points where it has different signs, to an absolute `tolerance`.

    Chandrupatla's method (1997): inverse quadratic interpolation where the function is tame enough for it, bisection otherwise.

    !!! Example

        >>> from limitlaw.numerics import root_between
        >>> round(root_between(lambda x: x**2 - 2, 0.0, 2.0), 10)
        1.4142135624
    """
    a, b, at_a, at_b = high, low, function(high), function(low)
    if at_a * at_b > 0:
        raise ValueError(f"low={low}, high={high}: the function has the same sign at both, so there may be no zero.")
    c, at_c, part = b, at_b, 0.5
    for _ in range(_STEPS):
        best, at_best = (a, at_a) if abs(at_a) < abs(at_b) else (b, at_b)
        least = (2e-16 * abs(best) + 0.5 * tolerance) / abs(b - a) if b != a else 1.0
        if at_best == 0 or least > 0.5:
            return best
        x = a + min(max(part, least), 1 - least) * (b - a)
        at_x = function(x)
        if (at_x > 0) == (at_a > 0):
            c, at_c = a, at_a
        else:
            c, at_c, b, at_b = b, at_b, a, at_a
        a, at_a = x, at_x
        xi, phi = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
        part = 0.5
        if phi**2 < xi and (1 - phi) ** 2 < 1 - xi:
            part = at_a / (at_b - at_a) * at_c / (at_b - at_c) + (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (
                at_c - at_b
            )
    return a if abs(at_a) < abs(at_b) else b

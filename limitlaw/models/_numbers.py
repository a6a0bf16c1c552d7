"""Numbers in sentences and tables: as many digits as mean something."""

import numpy as np

ROUNDING = 1e-6  # relative error of float32 after a few operations


def three_digits(value: float, spec: str = ".3g") -> str:
    """A number with three digits, or in another format."""
    if 0 < abs(value) < 1e-3:
        spec = spec.replace(".3g", ".2e")
    mantissa, _, exponent = f"{value:{spec}}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def value_and_error(value: float, error: float) -> tuple[str, str]:
    """A value and its standard error as short text: one digit of the error, and the digits of the value that it leaves.

    Args:
        value: The value; NaN stands for none.
        error: Its standard error.

    Returns:
        Two texts. The error is empty where it is of the size of rounding, both are where there is no value.

    Example:
        >>> from limitlaw.models import value_and_error
        >>> value_and_error(0.006797, 2.3e-5), value_and_error(189.42, 0.47), value_and_error(1.0, 1e-9)
        (('0.00680', '2e-5'), ('189.4', '0.5'), ('1', ''))
    """
    if np.isnan(value):
        return "", ""
    if abs(value) < ROUNDING**2:
        return "0", ""
    if error < ROUNDING * abs(value):
        return f"{value:.4g}", ""
    error = float(f"{error:.0e}")
    place, size = (int(np.floor(np.log10(x))) for x in (error, max(abs(value), error)))
    if size >= 6 or (size < -3 and place < -5):
        return _scientific(value, max(size - place, 0)), _scientific(error, 0)
    shown = f"{error:.0f}" if place >= 0 else f"{error:.{-place}f}" if place > -3 else _scientific(error, 0)
    return f"{value:.{max(-place, 0)}f}", shown


def _scientific(value: float, digits: int) -> str:
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def with_error(value: float, error: float) -> str:
    """A value and its error as one text."""
    return " ± ".join(part for part in value_and_error(value, error) if part)


def percent(share: float) -> str:
    """A share as a percentage with two digits."""
    return f"{three_digits(100 * float(f'{share:.2g}'))}%"


def multiple(factor: float) -> str:
    """A factor, with three digits up to 1000 and two beyond."""
    if factor < 1000:
        return f"{float(f'{factor:.3g}'):,.3g}"
    return f"{float(f'{factor:.2g}'):,.0f}" if factor < 1e7 else f"{factor:.2g}"

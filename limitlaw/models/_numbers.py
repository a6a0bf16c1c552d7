"""Numbers in sentences and tables: as many digits as mean something."""

import numpy as np

ROUNDING = 1e-6  # relative error of float32 after a few operations


def three_digits(value: float, spec: str = ".3g") -> str:
    """A number with three digits, or in another format."""
    if 0 < abs(value) < 1e-3:
        spec = spec.replace(".3g", ".2e")
    mantissa, _, exponent = f"{value:{spec}}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def value_and_error(value: float, error: float, *, scientific: bool | None = None) -> tuple[str, str]:
    """A value and its standard error as short text: one digit of the error, and the digits of the value that it leaves.

    Args:
        value: The value; NaN stands for none.
        error: Its standard error.
        scientific: Whether to write exponents; by default where `needs_exponent` says so.

    Returns:
        Two texts. The error is empty where it is of the size of rounding, both are where there is no value.

    Example:
        >>> from limitlaw.models import value_and_error
        >>> value_and_error(0.006797, 2.3e-5), value_and_error(189.42, 0.47), value_and_error(1.0, 1e-9)
        (('0.00680', '0.00002'), ('189.4', '0.5'), ('1', ''))
    """
    if np.isnan(value):
        return "", ""
    if abs(value) < ROUNDING**2:
        return "0", ""
    scientific = needs_exponent(value, error) if scientific is None else scientific
    if error < ROUNDING * abs(value):
        return _scientific(value, 3) if scientific else f"{value:.4g}", ""
    place, size = _places(value, error)
    if scientific:
        return _scientific(value, max(size - place, 0)), _scientific(error, 0)
    decimals = max(-place, 0)
    return f"{value:.{decimals}f}", f"{float(f'{error:.0e}'):.{decimals}f}"


def needs_exponent(value: float, error: float) -> bool:
    """Whether a value and its error are shorter with an exponent: they are large, small, or have many decimals.

    Args:
        value: The value.
        error: Its standard error.

    Returns:
        Whether they do.

    Example:
        >>> from limitlaw.models import needs_exponent
        >>> needs_exponent(0.0124, 3e-5), needs_exponent(0.00124, 3e-6)
        (False, True)
    """
    if np.isnan(value) or abs(value) < ROUNDING**2:
        return False
    place, size = _places(value, max(error, 1e-4 * abs(value)))  # at most four digits are shown of a value
    return size >= 6 or size < -3 or place < -5


def _places(value: float, error: float) -> tuple[int, int]:
    """The decimal places of the first digit of the rounded error, and of the first digit of both."""
    error = float(f"{error:.0e}")
    place, size = (int(np.floor(np.log10(x))) for x in (error, max(abs(value), error)))
    return place, size


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

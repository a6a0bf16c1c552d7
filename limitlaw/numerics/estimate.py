"""Numbers with standard errors, and the jackknife that estimates these."""

import math
import operator
import re
from collections.abc import Callable
from typing import Any, SupportsIndex, overload

import numpy as np
from scipy.special import ndtri, stdtrit

from .. import _checks
from .._format import number_with_error


class Estimate(float):
    """A float with a standard error.

    Changes of scale and origin keep the error: multiplication and division by plain numbers (of Python or NumPy),
    addition and subtraction of them, negation, `abs` and `round(estimate, digits)`. The error of `abs` is at most that
    of the number, and `round(estimate)` is an `int`, as for floats. All other operations return a plain float,
    including the sum and the quotient of two estimates, whose errors may be correlated.

    Args:
        value: The number.
        stderr: Its standard error; 0 only for closed forms and converged quadrature.
        dof: The degrees of freedom of the standard error, B - 1 for B batches; `interval` uses them in Student's t.

    Raises:
        ArgumentError: If `stderr` is negative or not a number, or `dof` is not positive.
        ArgumentTypeError: If one of them is not a number.

    Example:
        >>> from limitlaw import Estimate
        >>> Estimate(1.5804e-4, 7e-7)
        1.580e-4 ± 7e-7
        >>> Estimate(0.39197, 0.00031)
        0.39197 ± 0.00031
        >>> Estimate(0.5)
        0.5
        >>> 2 * Estimate(2.0, 0.1) + 1
        5.00 ± 0.20
        >>> Estimate(2.0, 0.1) + Estimate(1.0, 0.1)
        3.0
    """

    stderr: float
    dof: float
    # NumPy gives way to the higher priority. Above its scalars (-1e6), `np.float64(2) * estimate` has an error; below
    # its arrays (0), products with arrays stay arrays.
    __array_priority__ = -1.0

    def __new__(cls, value: Any, stderr: Any = 0.0, dof: Any = math.inf) -> "Estimate":
        value, stderr, dof = _number("value", value), _number("stderr", stderr), _number("dof", dof)
        if not stderr >= 0.0:
            raise _checks.ArgumentError("stderr", f"stderr={stderr} must be a standard error, which is 0 or more.")
        if not dof > 0:
            raise _checks.ArgumentError("dof", f"dof={dof} must be a positive number of degrees of freedom, or inf.")
        self = super().__new__(cls, value)
        self.stderr = stderr
        self.dof = dof
        return self

    def __getnewargs__(self) -> tuple[float, float, float]:  # type: ignore[override]
        return float(self), self.stderr, self.dof

    def z(self, truth: Any) -> float:
        """The number of standard errors by which the estimate exceeds `truth`.

        Args:
            truth: The number to compare with.

        Returns:
            `(estimate - truth) / stderr`; for an estimate without error 0 if the two are equal, otherwise inf or -inf.

        Raises:
            ArgumentTypeError: If `truth` is not a number.

        Example:
            >>> from limitlaw import Estimate
            >>> Estimate(1.5, 0.25).z(1.0)
            2.0
        """
        difference = float(self) - _number("truth", truth)
        if self.stderr == 0.0:
            return math.copysign(math.inf, difference) if difference else 0.0
        return difference / self.stderr

    def interval(self, level: Any = 0.95) -> tuple[float, float]:
        """The central confidence interval, by Student's t with `dof` degrees of freedom.

        Args:
            level: The probability of the interval, strictly between 0 and 1.

        Returns:
            The two ends.

        Raises:
            ArgumentError: If `level` does not lie between 0 and 1.
            ArgumentTypeError: If `level` is not a number.

        Example:
            >>> from limitlaw import Estimate
            >>> low, high = Estimate(1.0, 0.1, dof=7).interval()
            >>> print(f"{low:.4f} {high:.4f}")
            0.7635 1.2365
        """
        level = _number("level", level)
        if not 0 < level < 1:
            raise _checks.ArgumentError(
                "level", f"level={level!r} must lie strictly between 0 and 1. Use 0.95 for a 95 % interval."
            )
        tail = 0.5 + level / 2
        reach = self.stderr * float(ndtri(tail) if math.isinf(self.dof) else stdtrit(self.dof, tail))
        return float(self) - reach, float(self) + reach

    def covers(self, truth: Any, level: Any = 0.95) -> bool:
        """Whether `interval(level)` contains `truth`.

        Args:
            truth: The number to look for.
            level: The probability of the interval, strictly between 0 and 1.

        Returns:
            True or False.

        Raises:
            ArgumentError: If `level` does not lie between 0 and 1.
            ArgumentTypeError: If one of them is not a number.

        Example:
            >>> from limitlaw import Estimate
            >>> Estimate(1.98, 0.03).covers(2.0)
            True
        """
        truth = _number("truth", truth)
        low, high = self.interval(level)
        return low <= truth <= high

    def _with_error(self, value: float, stderr: float) -> float:
        """`value` with an error of the same degrees of freedom, or a plain float if that error is NaN (0 times inf)."""
        return value if math.isnan(stderr) else Estimate(value, stderr, self.dof)

    def _shifted(self, value: Any, other: Any) -> Any:
        return self._with_error(value, self.stderr) if _is_plain(other) else value

    def __add__(self, other: Any) -> Any:
        return self._shifted(float(self) + _python(other), other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._shifted(float(self) - _python(other), other)

    def __rsub__(self, other: Any) -> Any:
        return self._shifted(_python(other) - float(self), other)

    def __mul__(self, other: Any) -> Any:
        value = float(self) * _python(other)
        return self._with_error(value, self.stderr * abs(_python(other))) if _is_plain(other) else value

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        value = float(self) / _python(other)
        return self._with_error(value, self.stderr / abs(_python(other))) if _is_plain(other) else value

    def __neg__(self) -> float:
        return self._with_error(super().__neg__(), self.stderr)

    def __pos__(self) -> float:
        return self

    def __abs__(self) -> float:
        return self._with_error(super().__abs__(), self.stderr)

    @overload
    def __round__(self, ndigits: None = None, /) -> int: ...

    @overload
    def __round__(self, ndigits: SupportsIndex, /) -> float: ...

    def __round__(self, ndigits: SupportsIndex | None = None, /) -> int | float:
        return super().__round__() if ndigits is None else self._with_error(super().__round__(ndigits), self.stderr)

    def _repr_html_(self) -> str:
        return re.sub(r"e(−?\d+)", r" × 10<sup>\1</sup>", repr(self).replace("-", "−"))

    def __repr__(self) -> str:
        return number_with_error(float(self), self.stderr) if self.stderr else repr(float(self))

    __str__ = __repr__


def _number(name: str, value: Any) -> float:
    """A number of Python or NumPy, or an array without axes, as a plain float."""
    if not isinstance(value, str | bytes | bool | np.bool_):
        try:
            return float(value)
        except (TypeError, ValueError):
            pass
    raise _checks.ArgumentTypeError(name, f"{name}={value!r} must be a number.")


def _is_plain(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, Estimate)


def _python(value: Any) -> Any:
    """Numbers of NumPy and estimates as plain numbers of Python; other values are returned unchanged."""
    if isinstance(value, Estimate):
        return float(value)
    return value.item() if isinstance(value, np.generic) else value


def _as_of_floats(operation: Callable[[Any, Any], Any], *, reflected: bool = False) -> Callable[[Estimate, Any], Any]:
    def method(self: Estimate, other: Any) -> Any:
        pair = float(self), _python(other)
        return operation(*(pair[::-1] if reflected else pair))

    return method


# NumPy's scalars leave all operations to an estimate (see `__array_priority__`), including those without an error.
for _name in ("floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Estimate, f"__{_name}__", _as_of_floats(getattr(operator, _name)))
for _name in ("truediv", "floordiv", "mod", "pow"):
    setattr(Estimate, f"__r{_name}__", _as_of_floats(getattr(operator, _name), reflected=True))


def leave_one_batch_out(batches: np.ndarray) -> np.ndarray:
    """The averages over all batches but one, for each batch.

    Args:
        batches: One value or array for each batch, `(B, ...)`.

    Returns:
        The averages, `(B, ...)`. The first leaves out the first batch.

    Example:
        >>> import numpy as np
        >>> from limitlaw.numerics.estimate import leave_one_batch_out
        >>> leave_one_batch_out(np.array([1.0, 2.0, 6.0])).tolist()
        [4.0, 3.5, 1.5]
    """
    count = len(batches)
    return (batches.sum(axis=0) - batches) / max(count - 1, 1)


def jackknife(value: float, *left_out_values: np.ndarray, corrected: bool = True) -> Estimate:
    """`value` without its `O(1/N)` bias, and its standard error, by the jackknife (Quenouille 1956, Tukey 1958).

    `scipy.stats` has no jackknife. Its `bootstrap` resamples single observations, many thousand times.

    Args:
        value: A function of averages over batches.
        *left_out_values: For each independent sample, the function with each batch of that sample left out, `(B,)`;
            empty for a sample without randomness. Degrees of freedom are combined as Welch's are.
        corrected: Whether to remove the bias.

    Returns:
        The estimate.

    Example:
        >>> import numpy as np
        >>> from limitlaw.numerics import jackknife
        >>> from limitlaw.numerics.estimate import leave_one_batch_out
        >>> batches = np.random.default_rng(0).normal(3.0, 1.0, 50)
        >>> squared = jackknife(batches.mean() ** 2, leave_one_batch_out(batches) ** 2)
        >>> bool(np.isclose(squared, batches.mean() ** 2 - batches.var(ddof=1) / 50))  # the bias of a squared mean
        True
    """
    bias, variance, spread = 0.0, 0.0, 0.0
    for values in left_out_values:
        count = len(values)
        if count < 2:
            continue
        bias += (count - 1) * (float(np.mean(values)) - value)
        part = (count - 1) ** 2 / count * float(np.var(values, ddof=1))
        variance += part
        spread += part**2 / (count - 1)
    dof = variance**2 / spread if spread else np.inf
    return Estimate(value - bias if corrected else value, np.sqrt(variance), dof)

"""A number that knows how well it is known."""

import math


class Estimate(float):
    """A float with a standard error.

    It behaves as a plain float in arithmetic (the result is a plain float: errors are not propagated silently).
    `stderr` is 0 only for closed forms and converged quadrature; `dof` says how many degrees of freedom it has (a
    standard error over B batches has B - 1), so that `interval` is Student's.

    !!! Example

        >>> from limitlaw import Estimate
        >>> Estimate(1.5804e-4, 7e-7)
        1.580e-4 ± 7e-7
        >>> Estimate(0.39197, 0.00031)
        0.39197 ± 0.00031
        >>> Estimate(0.5)
        0.5
        >>> Estimate(2.0, 0.1) + 1
        3.0
    """

    stderr: float
    dof: float

    def __new__(cls, value: int | float, stderr: int | float = 0.0, dof: int | float = math.inf) -> "Estimate":
        if not stderr >= 0.0:
            raise ValueError(f"stderr={stderr}: a standard error is a non-negative number.")
        if not dof > 0:
            raise ValueError(f"dof={dof}: degrees of freedom are a positive number, or inf.")
        self = super().__new__(cls, value)
        self.stderr = float(stderr)
        self.dof = float(dof)
        return self

    def __getnewargs__(self) -> tuple[float, float, float]:  # type: ignore[override]
        return float(self), self.stderr, self.dof

    def z(self, truth: int | float) -> float:
        """How many standard errors away `truth` is.

        !!! Example

            >>> from limitlaw import Estimate
            >>> Estimate(1.5, 0.25).z(1.0)
            2.0
        """
        if self.stderr == 0.0:
            return 0.0 if float(self) == truth else math.inf
        return (float(self) - truth) / self.stderr

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The central confidence interval at `level`, by Student's t with `dof` degrees of freedom.

        !!! Example

            >>> from limitlaw import Estimate
            >>> low, high = Estimate(1.0, 0.1, dof=7).interval()
            >>> print(f"{low:.4f} {high:.4f}")
            0.7635 1.2365
        """
        if not 0 < level < 1:
            raise ValueError(f"level={level!r}: must lie strictly between 0 and 1, such as 0.95.")
        from scipy.special import ndtri, stdtrit

        tail = 0.5 + level / 2
        reach = self.stderr * float(ndtri(tail) if math.isinf(self.dof) else stdtrit(self.dof, tail))
        return float(self) - reach, float(self) + reach

    def covers(self, truth: int | float, level: float = 0.95) -> bool:
        """Whether `truth` lies in `interval(level)`.

        !!! Example

            >>> from limitlaw import Estimate
            >>> Estimate(1.98, 0.03).covers(2.0)
            True
        """
        low, high = self.interval(level)
        return low <= truth <= high

    def __repr__(self) -> str:
        value, stderr = float(self), self.stderr
        if stderr == 0.0 or not (math.isfinite(stderr) and math.isfinite(value)):
            return repr(value) if stderr == 0.0 else f"{value!r} ± {stderr:.1g}"
        # Two digits of a leading 1, 2 or 3, one digit otherwise: enough to see a change, no more than is known.
        error_exponent = math.floor(math.log10(stderr))
        digits = -error_exponent + (1 if stderr / 10.0**error_exponent < 3.5 else 0)
        size = max(abs(value), stderr)
        if 1e-3 <= size < 1e6 and digits >= 0:
            return f"{value:.{digits}f} ± {stderr:.{digits}f}"
        value_exponent = math.floor(math.log10(size))
        return f"{_scientific(value, max(value_exponent + digits, 0))} ± {_scientific(stderr, digits + error_exponent)}"

    __str__ = __repr__


def _scientific(value: float, digits: int) -> str:
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return f"{mantissa}e{int(exponent)}"

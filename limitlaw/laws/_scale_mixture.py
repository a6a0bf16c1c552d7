"""Gaussian scale mixtures: `y = sqrt(v) z`."""

import functools
from collections.abc import Callable, Sequence
from math import comb, pi
from typing import Any

import numpy as np
from scipy.special import erfcx, factorial2

from .. import _checks
from .._checks import ArgumentError
from ..numerics import Estimate, jackknife
from ._arguments import Rng, generator_of, moment_order, shape_of
from ._atoms import Atoms
from ._fourier import TiltedFourier
from ._law import Law
from .quadrature import distances_from_median

_METHODS = ("auto", "mixture", "fourier")
_SQUARE_OVERFLOWS = 1e150  # points beyond, whose square comes near the largest double, have density 0
_FEW_ROWS = 16  # rows of weights, up to which inverting all transforms costs little more than inverting one
_CHUNK = 64  # points evaluated at once, so that their kernels against all atoms stay in the cache of a core


class ScaleMixture(Law):
    """`y = sqrt(v) z`, `z` a standard normal, `v` an independent random variance, the average of `copies` of one law.

    The law of one variance is given by

    - draws: a one-dimensional array of independent draws; errors come from 256 batches of them;
    - quasi-Monte Carlo points: a two-dimensional array whose rows are independent randomisations; errors come from
      rows;
    - exact nodes with their probabilities `weights`, such as those of a quadrature rule, without error;
    - `Atoms`, which are used unchanged.

    Its Laplace transform `M` gives the characteristic function `M(t^2 / 2H)^H` for `copies=H`. There are two methods
    for densities, and both keep their relative accuracy in the tails. "mixture" averages the conditional Gaussians over
    the atoms of the H-fold convolution, a positive sum. "fourier" inverts the characteristic function along a tilted
    contour, at a cost that does not depend on `H`. "auto" chooses the first for one copy and the second for more,
    unless small variances are so likely that the integral converges slowly. `law.method` is the method in use.

    Args:
        variances: Draws, rows of quasi-Monte Carlo points, nodes, or `Atoms`.
        weights: The probabilities of nodes.
        copies: How many independent variances are averaged.
        method: "auto", "mixture" or "fourier".
        allow_zero: Whether a variance may be 0, which makes a point mass at 0.
        name: A label, for plots and tables.

    Raises:
        ArgumentError: If a variance is negative, NaN, infinite, or 0 without `allow_zero=True`; if there are too few;
            or if the method is unknown.

    Example:
        >>> import numpy as np
        >>> from limitlaw.laws import ScaleMixture
        >>> v = np.random.default_rng(0).chisquare(8, 100_000) / 8
        >>> law = ScaleMixture(v)
        >>> law.variance(), law.kurtosis()  # 1 and 6 / 8
        (1.0010 ± 0.0015, 0.7489 ± 0.0035)
        >>> exact = ScaleMixture([0.5, 1.5], weights=[0.5, 0.5], copies=1000)
        >>> exact.method, exact.kurtosis(), exact.logpdf(30.0).round(6)
        ('fourier', 0.00075, np.float64(-430.150381))
    """

    def __init__(
        self,
        variances: Any,
        weights: Any = None,
        *,
        copies: int = 1,
        method: str = "auto",
        allow_zero: bool = False,
        name: str = "scale mixture",
    ) -> None:
        self.copies = int(_checks.positive_integer("copies", copies))
        _checks.one_of("method", method, _METHODS)
        self.atoms = variances if isinstance(variances, Atoms) else _checked_atoms(variances, weights, allow_zero)
        self.name = name
        self._requested_method = method

    @property
    def _values(self) -> Sequence[Any]:
        return self.atoms, self.copies, self._requested_method

    def __repr__(self) -> str:
        moments = f"variance={self.variance()}, kurtosis={self.kurtosis()}"
        return f"ScaleMixture({moments}, copies={self.copies}, method={self.method!r})"

    @functools.cached_property
    def method(self) -> str:  # type: ignore[override]
        """The method for densities, "mixture" or "fourier"."""
        if self._requested_method == "fourier" and (self.atoms.zero or not self._fourier.converges):
            raise ArgumentError(
                "method",
                "method='fourier' cannot be used: variances near 0 are so likely that the characteristic function "
                "decays too slowly to be inverted. Use method='mixture' or 'auto'.",
            )
        if self._requested_method != "auto":
            return self._requested_method
        # Inversion avoids the convolution of the atoms. A point mass at 0 has a transform that does not decay at all.
        return "fourier" if self.copies > 1 and not self.atoms.zero and self._fourier.converges else "mixture"

    def with_method(self, method: str) -> "ScaleMixture":
        """The same law with another method for densities.

        Args:
            method: "auto", "mixture" or "fourier".

        Example:
            >>> from limitlaw.laws import ScaleMixture
            >>> law = ScaleMixture([0.5, 1.5], weights=[0.5, 0.5], copies=4)
            >>> print(law.method, abs(law.pdf(1.0) / law.with_method("mixture").pdf(1.0) - 1) < 1e-12)
            fourier True
        """
        _checks.one_of("method", method, _METHODS)
        return ScaleMixture(self.atoms, copies=self.copies, method=method, name=self.name)

    @functools.cached_property
    def mixture(self) -> Atoms:
        """The law of `v` itself, as atoms."""
        return self.atoms.mean_of_copies(self.copies) if self.copies > 1 else self.atoms

    @functools.cached_property
    def _fourier(self) -> TiltedFourier:
        """The inversion for the law, which includes its replicates without a batch if those are few and cost little."""
        few = self.atoms.leave_one_out if len(self.atoms.leave_one_out) <= _FEW_ROWS else self.atoms.leave_one_out[:0]
        return TiltedFourier(self.atoms.values, np.vstack([self.atoms.weights, few]), self.copies)

    @functools.cached_property
    def _fourier_without_batches(self) -> TiltedFourier:
        if len(self.atoms.leave_one_out) <= _FEW_ROWS:
            return self._fourier
        return TiltedFourier(self.atoms.values, np.vstack([self.atoms.weights, self.atoms.leave_one_out]), self.copies)

    def mean(self) -> Estimate:
        """0, by symmetry."""
        return Estimate(0.0)

    def moment(self, order: int, kind: str = "raw") -> Estimate:
        """A moment: `(order - 1)!! E v^(order/2)` for even orders, 0 for odd ones.

        Args:
            order: A non-negative integer.
            kind: "raw", "central" (the same, as the mean is 0) or "standardized".
        """
        order = moment_order(order, kind)
        if order % 2:
            return Estimate(0.0)
        half = order // 2
        # E v_1^k for k = 0, ..., half: column 0 is the law itself, each further column leaves out one batch.
        by_row = np.array([self.atoms.moments(k) for k in range(half + 1)])
        of_normal = float(factorial2(order - 1, exact=True)) if order else 1.0

        def value(moments: np.ndarray) -> float:
            average = _moments_of_average(moments, self.copies)
            scale = average[1] ** half if kind == "standardized" else 1.0
            return of_normal * average[half] / scale

        return jackknife(value(by_row[:, 0]), np.array([value(row) for row in by_row[:, 1:].T]))

    def mode(self) -> float:
        """0, as for every scale mixture of normals."""
        return 0.0

    def _excess_kurtosis(self) -> Estimate:
        """`3 Var(v) / (E v)^2`."""
        first, second = self.atoms.moments(1), self.atoms.moments(2)

        def value(first: Any, second: Any) -> Any:
            return 3 * (second / first / first - 1) / self.copies

        return jackknife(float(value(first[0], second[0])), value(first[1:], second[1:]))

    def laplace(self, lam: Any) -> Any:
        """`E exp(-lam v)`, the Laplace transform of the variance: `M(lam / H)^H`."""
        lam = np.asarray(lam, np.float64)
        one = np.exp(-np.multiply.outer(lam, self.atoms.values) / self.copies) @ self.atoms.weights
        return one**self.copies

    def sample(self, shape: int | Sequence[int] = (), *, rng: Rng = None) -> np.ndarray:
        """Independent draws: a variance, then a normal; of several copies, normals through the quantile function."""
        generator = generator_of(rng)
        normals = generator.standard_normal(shape_of(shape))
        # Weights with control variates may be negative, so they are no probabilities to draw from, and the Fourier
        # method does not compute the atoms of the average. In both cases normals are transformed by the quantiles.
        if self.atoms.weights.min() < 0 or (self.copies > 1 and self.method == "fourier"):
            return self._normal_scores.from_normal(normals)
        mixture = self.mixture
        steps = np.cumsum(mixture.weights)
        picked = np.searchsorted(steps, generator.uniform(0, steps[-1], normals.shape), side="right")
        return np.sqrt(mixture.values[np.minimum(picked, steps.size - 1)]) * normals

    def leave_one_batch_out(self, what: str, x: np.ndarray) -> np.ndarray:
        """See `Law.leave_one_batch_out`; the batches are those of the variances."""
        if not len(self.atoms.leave_one_out):
            return super().leave_one_batch_out(what, x)
        if what == "pdf":
            return self._rows("density", np.abs(x))
        tails = self._rows("tail", np.abs(x))
        # `tails` is the smaller tail of each point: the left one for negative x and the right one for positive x.
        below = (x < 0) == (what == "cdf")
        return np.where(below, tails, 1 - tails)

    def _rows(self, what: str, x: np.ndarray) -> np.ndarray:
        if self.method == "fourier":
            evaluate = (
                self._fourier_without_batches.log_density
                if what == "density"
                else self._fourier_without_batches.log_tail
            )
            return np.exp(evaluate(x)[1:])
        kernel = _density_kernel if what == "density" else _tail_kernel
        return _averages(kernel, x, *_positive(self.mixture, self.mixture.leave_one_out))

    def _pdf(self, x: np.ndarray) -> np.ndarray:
        if self.method == "fourier":
            return np.exp(self._logpdf(x))
        values = _averages(_density_kernel, np.abs(x), *_positive(self.mixture, self.mixture.weights[None]))[0]
        return np.where((x == 0) & self._infinite_at_zero, np.inf, values)

    @property
    def _infinite_at_zero(self) -> bool:
        """Whether `E v^(-1/2)` is infinite, and the density at 0 with it."""
        # Finitely many positive atoms have a finite sum, so a divergence is known from the degrees of freedom only.
        return self.mixture.zero > 0 or self.mixture.dof <= 1

    def _logpdf(self, x: np.ndarray) -> np.ndarray:
        if self.method == "fourier":
            return self._fourier.log_density(np.abs(x))[0]
        values = _log_averages(_density_kernel, np.abs(x), *_positive(self.mixture, self.mixture.weights))
        return np.where((x == 0) & self._infinite_at_zero, np.inf, values)

    def _log_tail(self, x: np.ndarray) -> np.ndarray:
        """`log P(y > x)` at non-negative `x`."""
        if self.method == "fourier":
            return self._fourier.log_tail(x)[0]
        return _log_averages(_tail_kernel, x, *_positive(self.mixture, self.mixture.weights))

    def _logccdf(self, x: np.ndarray) -> np.ndarray:
        # By symmetry; the complement is taken of a tail that is at most 1/2, so no digits cancel.
        tail = self._log_tail(np.abs(x))
        return np.where(x >= 0, tail, np.log1p(-np.exp(np.minimum(tail, 0.0))))

    def _logcdf(self, x: np.ndarray) -> np.ndarray:
        """`log P(y <= x)`, continuous from the right if there is a mass at 0."""
        tail = self._log_tail(np.abs(x))
        return np.where(x >= 0, np.log1p(-np.exp(np.minimum(tail, 0.0))), tail)

    def _tail_quantiles(self, log_tail: np.ndarray, right: np.ndarray, **options: float) -> np.ndarray:
        """As for any law, except that the cdf jumps at 0 if there is a point mass."""
        if not self.atoms.zero:
            return super()._tail_quantiles(log_tail, right, **options)
        # The cdf jumps from (1 - zero) / 2 to (1 + zero) / 2 at 0, so all levels in between have the quantile 0.
        jump = np.exp(log_tail) >= 0.5 - self.mixture.zero / 2
        x = np.zeros(log_tail.size)
        x[~jump] = super()._tail_quantiles(log_tail[~jump], right[~jump], **options)
        return x

    @functools.cached_property
    def _panel_edges(self) -> np.ndarray:
        """As for any law, computed on one side and mirrored."""
        right = distances_from_median(self, 0.0, right=True)
        return np.concatenate([-right[::-1], [0.0], right])

    def entropy(self) -> Estimate:
        """Differential entropy, by quadrature; `-inf` if there is a point mass at 0."""
        return Estimate(-np.inf) if self.atoms.zero else super().entropy()

    def _cf(self, t: np.ndarray) -> np.ndarray:
        return self.laplace(t**2 / 2).astype(np.complex128)


def _checked_atoms(variances: Any, weights: Any, allow_zero: bool) -> Atoms:
    array = np.asarray(variances)
    v = _checks.finite_array("variances", variances, array.ndim if array.ndim in (1, 2) else 1, largest=np.inf)
    if not v.size:
        raise ArgumentError("variances", "variances is empty. Give at least two draws, or nodes with weights.")
    wrong = np.argwhere(v < 0 if allow_zero else v <= 0)
    if wrong.size:
        where = tuple(int(i) for i in wrong[0])
        remedy = "A variance cannot be negative" if v[where] < 0 else "Pass allow_zero=True for a point mass at 0"
        raise ArgumentError(
            "variances", f"variances[{', '.join(map(str, where))}]={v[where]:g} must be positive. {remedy}."
        )
    if not v.any():
        raise ArgumentError(
            "variances", "variances are all 0, so the law is a point mass at 0 and has no density. Give positive ones."
        )
    if weights is not None:
        w = _checks.finite_array("weights", weights, 1, largest=np.inf)
        if w.shape != v.shape:
            raise ArgumentError(
                "weights", f"weights has shape {w.shape}, but variances has shape {v.shape}. Give one weight for each."
            )
        if w.min() < 0 or not w.sum() > 0:
            raise ArgumentError(
                "weights", f"weights has the smallest entry {w.min():g} and the sum {w.sum():g}. Give probabilities."
            )
        return Atoms.exactly(v, w / w.sum())
    if v.shape[0] < 2:
        raise ArgumentError(
            "variances",
            f"variances has shape {v.shape}, but a standard error takes at least two "
            f"{'draws' if v.ndim == 1 else 'rows'}. Give more, or pass weights for nodes that are exact.",
        )
    return Atoms.from_draws(v) if v.ndim == 1 else Atoms.from_randomisations(v)


def _moments_of_average(moments: np.ndarray, copies: int) -> np.ndarray:
    """Raw moments of the average of independent copies from those of one, `moments[k] = E v^k`, through cumulants."""
    if copies == 1:
        return moments
    # m_n = sum_m C(n - 1, m - 1) k_m m_{n - m} relates moments m and cumulants k. Cumulants of independent variables
    # add, and scale with the power of the factor 1/H, so cumulant n of the average is k_n / H^(n - 1).
    orders = len(moments)
    cumulants = np.zeros(orders)
    for n in range(1, orders):
        cumulants[n] = moments[n] - sum(comb(n - 1, m - 1) * cumulants[m] * moments[n - m] for m in range(1, n))
    cumulants /= float(copies) ** np.maximum(np.arange(orders) - 1, 0)
    average = np.zeros(orders)
    average[0] = 1.0
    for n in range(1, orders):
        average[n] = sum(comb(n - 1, m - 1) * cumulants[m] * average[n - m] for m in range(1, n + 1))
    return average


def _positive(atoms: Atoms, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The positive values and their weights. A Gaussian of variance 0 has no density."""
    alive = atoms.values > 0
    return atoms.values[alive], rows[..., alive]


Kernel = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""A function of points `x` and variances `v` in two parts, the exponent `(x, v)` and a factor `(x, v)` or `(v,)`."""


def _density_kernel(x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.multiply.outer(x**2, -0.5 / v), 1 / np.sqrt(2 * pi * v)


def _tail_kernel(x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # P(y > x) = erfc(u) / 2, and erfcx(u) = exp(u^2) erfc(u) neither under- nor overflows for u >= 0.
    u = np.multiply.outer(x, 1 / np.sqrt(2 * v))
    return -(u**2), 0.5 * erfcx(u)


def _averages(kernel: Kernel, x: np.ndarray, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """`sum_j rows[i, j] kernel(x, values[j])`, `(rows, x)`."""
    out = np.zeros((len(rows), x.size))
    for start in range(0, x.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        with np.errstate(over="ignore", invalid="ignore"):
            out[:, part] = rows @ _product(*kernel(x[part], values)).T
    out[:, np.isinf(x)] = 0.0
    return out


def _log_averages(kernel: Kernel, x: np.ndarray, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """`log sum_j weights[j] factor_j exp(exponent_j)` for each `x`, without underflow."""
    out = np.full(x.size, -np.inf)
    finite = np.flatnonzero(np.abs(x) < _SQUARE_OVERFLOWS)
    for start in range(0, finite.size, _CHUNK):
        part = finite[start : start + _CHUNK]
        exponent, factor = kernel(x[part], values)
        # Relative to the largest exponent of its point, at least one term of every sum is of order one.
        largest = exponent.max(axis=1)
        exponent -= largest[:, None]
        out[part] = largest + np.log(_product(exponent, factor) @ weights)
    return out


def _product(exponent: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """`exp(exponent) factor`, computed in place because a second array takes as long to allocate as to compute."""
    np.exp(exponent, out=exponent)
    exponent *= factor
    return exponent

"""Gaussian scale mixtures: `y = sqrt(v) z`."""

import functools
from collections.abc import Callable, Sequence
from math import comb, pi
from typing import Any

import numpy as np
from scipy.special import erfcx, factorial2

from .. import _arguments
from ..numerics import Estimate, jackknife
from ._atoms import Atoms
from ._fourier import TiltedFourier
from ._law import Law, checked_moment, shape_of

_METHODS = ("auto", "mixture", "fourier")
_SQUARE_OVERFLOWS = 1e150
_FEW_ROWS = 16
_CHUNK = 64  # points evaluated at once: their kernels against all atoms stay in a core's cache


class ScaleMixture(Law):
    """`y = sqrt(v) z`, `z` a standard normal, `v` an independent random variance: the average of `copies` independent ones.

    The law of one variance is given by

    - draws: a one-dimensional array of independent draws; errors come from 256 batches of them;
    - quasi-Monte Carlo points: a two-dimensional array whose rows are independent randomisations; errors come from rows;
    - `weights`: exact nodes with their weights, as of a quadrature rule. There is no error then.

    Its Laplace transform `M` gives the characteristic function `M(t^2 / 2H)^H` for `copies=H`. `method` says how densities are
    found: "mixture" averages the conditional Gaussians (over the atoms of the H-fold convolution), a positive sum;
    "fourier" inverts the characteristic function along a tilted contour, at a cost that does not depend on `H`; "auto" takes the
    first for one copy and the second for more, unless small variances are so likely that the integral converges slowly. `law.method`
    is what is used. Both keep their relative accuracy in the tails.

    A variance of 0 makes a point mass at 0; it is refused unless `allow_zero=True`.

    !!! Example

        >>> import numpy as np
        >>> from limitlaw.laws import ScaleMixture
        >>> v = np.random.default_rng(0).chisquare(8, 100_000) / 8
        >>> law = ScaleMixture(v)
        >>> law.var(), law.kurtosis()  # 1 and 6 / 8
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
        self.copies = int(_arguments.positive_integer("copies", copies))
        _arguments.one_of("method", method, _METHODS)
        self.atoms = _checked_atoms(variances, weights, allow_zero)
        self.name = name
        self._asked = method

    @classmethod
    def of_atoms(
        cls, atoms: Atoms, copies: int = 1, method: str = "auto", name: str = "scale mixture"
    ) -> "ScaleMixture":
        """The law whose variance is the average of `copies` independent ones with the law of `atoms`."""
        law = cls.__new__(cls)
        law.copies, law.atoms, law.name, law._asked = copies, atoms, name, method
        return law

    def __repr__(self) -> str:
        return (
            f"ScaleMixture(var={self.var()}, kurtosis={self.kurtosis()}, copies={self.copies}, method={self.method!r})"
        )

    @functools.cached_property
    def method(self) -> str:
        """How densities are found: "mixture" or "fourier"."""
        if self._asked == "fourier" and (self.atoms.zero or not self._fourier.converges):
            raise ValueError(
                "method='fourier': variances near 0 are so likely that the characteristic function falls too slowly to be "
                "inverted; use method='mixture', or 'auto'."
            )
        if self._asked != "auto":
            return self._asked
        return "fourier" if self.copies > 1 and not self.atoms.zero and self._fourier.converges else "mixture"

    def with_method(self, method: str) -> "ScaleMixture":
        """The same law, its densities found by another method.

        !!! Example

            >>> from limitlaw.laws import ScaleMixture
            >>> law = ScaleMixture([0.5, 1.5], weights=[0.5, 0.5], copies=4)
            >>> print(law.method, abs(law.pdf(1.0) / law.with_method("mixture").pdf(1.0) - 1) < 1e-12)
            fourier True
        """
        _arguments.one_of("method", method, _METHODS)
        return self.of_atoms(self.atoms, self.copies, method, self.name)

    @functools.cached_property
    def mixture(self) -> Atoms:
        """The law of `v` itself, as atoms."""
        return self.atoms.mean_of_copies(self.copies) if self.copies > 1 else self.atoms

    @functools.cached_property
    def _fourier(self) -> TiltedFourier:
        """For the law; and for the law with batches left out too, if there are so few that they cost next to nothing."""
        few = self.atoms.left_out if len(self.atoms.left_out) <= _FEW_ROWS else self.atoms.left_out[:0]
        return TiltedFourier(self.atoms.values, np.vstack([self.atoms.weights, few]), self.copies)

    @functools.cached_property
    def _fourier_left_out(self) -> TiltedFourier:
        if len(self.atoms.left_out) <= _FEW_ROWS:
            return self._fourier
        return TiltedFourier(self.atoms.values, np.vstack([self.atoms.weights, self.atoms.left_out]), self.copies)

    def mean(self) -> Estimate:
        """0, by symmetry."""
        return Estimate(0.0)

    def moment(self, order: int, kind: str = "raw") -> Estimate:
        """`E y^order = (order - 1)!! E v^(order/2)` for even orders, 0 for odd ones."""
        order = checked_moment(order, kind)
        if order % 2:
            return Estimate(0.0)
        half = order // 2
        by_row = np.array([self.atoms.moments(k) for k in range(half + 1)])  # E v_1^k

        of_normal = float(factorial2(order - 1, exact=True)) if order else 1.0

        def value(moments: np.ndarray) -> float:
            average = _moments_of_average(moments, self.copies)
            scale = average[1] ** half if kind == "standardized" else 1.0
            return of_normal * average[half] / scale

        return jackknife(value(by_row[:, 0]), np.array([value(row) for row in by_row[:, 1:].T]))

    def kurtosis(self) -> Estimate:
        """Excess kurtosis, `3 Var(v) / (E v)^2`."""
        first, second = self.atoms.moments(1), self.atoms.moments(2)

        def value(first: Any, second: Any) -> Any:
            return 3 * (second / first / first - 1) / self.copies

        return jackknife(float(value(first[0], second[0])), value(first[1:], second[1:]))

    def laplace(self, lam: Any) -> Any:
        """`E exp(-lam v)`, the Laplace transform of the variance: `M(lam / H)^H`."""
        lam = np.asarray(lam, np.float64)
        one = np.exp(-np.multiply.outer(lam, self.atoms.values) / self.copies) @ self.atoms.weights
        return one**self.copies

    def sample(self, shape: int | Sequence[int] = (), *, seed: int = 0) -> np.ndarray:
        """Independent draws: a variance, then a normal; of several copies, normals through the quantile function."""
        rng = np.random.default_rng(_arguments.seed(seed))
        normals = rng.standard_normal(shape_of(shape))
        if self.atoms.weights.min() < 0 or (self.copies > 1 and self.method == "fourier"):
            return self._from_normal(normals)
        mixture = self.mixture
        steps = np.cumsum(mixture.weights)
        picked = np.searchsorted(steps, rng.uniform(0, steps[-1], normals.shape), side="right")
        return np.sqrt(mixture.values[np.minimum(picked, steps.size - 1)]) * normals

    def left_out(self, what: str, x: np.ndarray) -> np.ndarray:
        """By leaving out batches of the variances."""
        if not len(self.atoms.left_out):
            return super().left_out(what, x)
        if what == "pdf":
            return self._rows("density", np.abs(x))
        tails = self._rows("tail", np.abs(x))
        below = (x < 0) == (what == "cdf")  # where the wanted tail is the smaller one
        return np.where(below, tails, 1 - tails)

    def _rows(self, what: str, x: np.ndarray) -> np.ndarray:
        if self.method == "fourier":
            evaluate = self._fourier_left_out.log_density if what == "density" else self._fourier_left_out.log_tail
            return np.exp(evaluate(x)[1:])
        kernel = _density_kernel if what == "density" else _tail_kernel
        return _averages(kernel, x, *_positive(self.mixture, self.mixture.left_out))

    def _pdf(self, x: np.ndarray) -> np.ndarray:
        if self.method == "fourier":
            return np.exp(self._logpdf(x))
        values = _averages(_density_kernel, np.abs(x), *_positive(self.mixture, self.mixture.weights[None]))[0]
        return np.where((x == 0) & (self.mixture.zero > 0), np.inf, values)

    def _logpdf(self, x: np.ndarray) -> np.ndarray:
        if self.method == "fourier":
            return self._fourier.log_density(np.abs(x))[0]
        values = _log_averages(_density_kernel, np.abs(x), *_positive(self.mixture, self.mixture.weights))
        return np.where((x == 0) & (self.mixture.zero > 0), np.inf, values)

    def _log_tail(self, x: np.ndarray) -> np.ndarray:
        """`log P(y > x)` at non-negative `x`."""
        if self.method == "fourier":
            return self._fourier.log_tail(x)[0]
        return _log_averages(_tail_kernel, x, *_positive(self.mixture, self.mixture.weights))

    def _logccdf(self, x: np.ndarray) -> np.ndarray:
        tail = self._log_tail(np.abs(x))
        return np.where(x >= 0, tail, np.log1p(-np.exp(np.minimum(tail, 0.0))))

    def _logcdf(self, x: np.ndarray) -> np.ndarray:
        """`P(y <= x)`: the right-continuous one where there is a mass at 0."""
        tail = self._log_tail(np.abs(x))
        return np.where(x >= 0, np.log1p(-np.exp(np.minimum(tail, 0.0))), tail)

    def _quantiles(self, q: np.ndarray, *, upper: bool) -> np.ndarray:
        """As for any law, except that a point mass at 0 is where it is."""
        if not self.atoms.zero:
            return super()._quantiles(q, upper=upper)
        jump = np.abs(q - 0.5) <= self.mixture.zero / 2
        x = np.zeros(q.size)
        x[~jump] = super()._quantiles(q[~jump], upper=upper)
        return x

    @functools.cached_property
    def _edges(self) -> np.ndarray:
        """As for any law, by symmetry from one side."""
        right = self._distances(0.0, right=True)
        return np.concatenate([-right[::-1], [0.0], right])

    def entropy(self) -> Estimate:
        """Differential entropy, by quadrature; `-inf` if there is a point mass at 0."""
        return Estimate(-np.inf) if self.atoms.zero else super().entropy()

    def _cf(self, t: np.ndarray) -> np.ndarray:
        return self.laplace(t**2 / 2).astype(np.complex128)


def _checked_atoms(variances: Any, weights: Any, allow_zero: bool) -> Atoms:
    array = np.asarray(variances)
    v = _arguments.finite_array("variances", variances, array.ndim if array.ndim in (1, 2) else 1, largest=np.inf)
    if not v.size:
        raise ValueError("variances is empty: give at least two draws, or nodes with weights.")
    wrong = np.argwhere(v < 0 if allow_zero else v <= 0)
    if wrong.size:
        where = tuple(int(i) for i in wrong[0])
        remedy = (
            "draws of a variance cannot be negative" if v[where] < 0 else "pass allow_zero=True for a point mass at 0"
        )
        raise ValueError(f"variances[{', '.join(map(str, where))}] is {v[where]:g}: must be positive; {remedy}.")
    if not v.any():
        raise ValueError("variances: all are 0, so the law is a point mass at 0; give some that are positive.")
    if weights is not None:
        w = _arguments.finite_array("weights", weights, 1, largest=np.inf)
        if w.shape != v.shape:
            raise ValueError(
                f"weights has shape {w.shape}: the variances have shape {v.shape}, and each needs one weight."
            )
        if w.min() < 0 or not w.sum() > 0:
            raise ValueError(f"weights: the smallest is {w.min():g} and their sum {w.sum():g}; give probabilities.")
        return Atoms.exactly(v, w / w.sum())
    if v.shape[0] < 2:
        raise ValueError(
            f"variances has shape {v.shape}: an error takes at least two {'draws' if v.ndim == 1 else 'rows'}; "
            f"give more, or pass weights for nodes that are exact."
        )
    return Atoms.from_draws(v) if v.ndim == 1 else Atoms.from_randomisations(v)


def _moments_of_average(moments: np.ndarray, copies: int) -> np.ndarray:
    """Raw moments of the average of independent copies from those of one, `moments[k] = E v^k`, through cumulants."""
    if copies == 1:
        return moments
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
    """Positive values, and the weights on them."""
    alive = atoms.values > 0
    return atoms.values[alive], rows[..., alive]


Kernel = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""The exponent and the factor of something at points `x`, given variances `v`: `(x, v)`, the factor perhaps `(v,)`."""


def _density_kernel(x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.multiply.outer(x**2, -0.5 / v), 1 / np.sqrt(2 * pi * v)


def _tail_kernel(x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
    """`log sum_j weights[j] factor_j exp(exponent_j)` for each `x`, free of underflow."""
    out = np.full(x.size, -np.inf)
    finite = np.flatnonzero(np.abs(x) < _SQUARE_OVERFLOWS)
    for start in range(0, finite.size, _CHUNK):
        part = finite[start : start + _CHUNK]
        exponent, factor = kernel(x[part], values)
        largest = exponent.max(axis=1)
        exponent -= largest[:, None]
        out[part] = largest + np.log(_product(exponent, factor) @ weights)
    return out


def _product(exponent: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """`exp(exponent) factor`, in place of the exponent: to make room for it would take as long."""
    np.exp(exponent, out=exponent)
    exponent *= factor
    return exponent

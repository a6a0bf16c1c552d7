"""How fast a network's law approaches its limit."""

import functools
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf, isinf
from typing import Any

import numpy as np

from .. import _arguments, _html
from ..laws import Law
from ..numerics import Estimate, root_between
from ._distances import kl

Metric = Callable[[Any, Any], Estimate]

_ENOUGH_FOR_CURVATURE = 5
_USUAL_EXPONENT, _EXPONENT_STEP, _FARTHEST_EXPONENT = 2.0, 0.25, 8.0


@dataclass(frozen=True)
class Fit:
    """`constant n^-exponent (1 + correction / n + curvature / n^2)`, fitted to distances in units of their errors.

    `exponent.stderr` is 0 if the exponent was given. `chi_square` is that of the residuals, on `dof` degrees of freedom.

    !!! Example

        >>> import limitlaw as ll
        >>> from limitlaw.divergence import Convergence
        >>> widths = (8, 16, 32, 64)
        >>> fit = Convergence(widths, tuple(ll.Estimate(3 / n**2 * (1 + 2 / n)) for n in widths), "kl").fit(exponent=2)
        >>> round(float(fit.constant), 4), round(float(fit.correction), 4), round(float(fit(10)), 6)
        (3.0, 2.0, 0.036)
    """

    constant: Estimate
    exponent: Estimate
    correction: Estimate
    curvature: Estimate
    chi_square: float
    dof: int

    def __call__(self, width: Any) -> Any:
        """The fitted distance at a width."""
        n = np.asarray(width, np.float64)
        return self.constant * n ** -float(self.exponent) * (1 + self.correction / n + self.curvature / n**2)

    def __str__(self) -> str:
        second = f" + ({self.curvature}) / n^2" if self.curvature else ""
        return (
            f"({self.constant}) n^-({self.exponent}) (1 + ({self.correction}) / n{second}), "
            f"chi-square {self.chi_square:.1f} on {self.dof} degrees of freedom"
        )


@dataclass(frozen=True)
class Convergence:
    """Distances to a limit at growing widths; prints as a table, draws itself.

    !!! Example

        >>> import limitlaw as ll
        >>> widths = (8, 16, 32, 64)
        >>> study = ll.Convergence(widths, tuple(ll.Estimate(3 / n**2) for n in widths), "kl")
        >>> [round(float(slope), 6) for slope in study.slopes]
        [-2.0, -2.0, -2.0]
        >>> round(float(study.exponent), 4), round(float(study.constant), 4)
        (2.0, 3.0)
    """

    widths: tuple[int, ...]
    values: tuple[Estimate, ...]
    metric: str

    @functools.cached_property
    def exponent(self) -> Estimate:
        """The exponent of the fit, with its confidence interval by `exponent.interval()`."""
        return self.fit().exponent

    @functools.cached_property
    def constant(self) -> Estimate:
        """The constant of the fit."""
        return self.fit().constant

    @property
    def slopes(self) -> tuple[Estimate, ...]:
        """Local slopes of the logarithm of the distance against that of the width, between neighbouring widths."""
        out = []
        for i in range(len(self.widths) - 1):
            gap = float(np.log(self.widths[i + 1] / self.widths[i]))
            low, high = self.values[i], self.values[i + 1]
            if low <= 0 or high <= 0:
                out.append(Estimate(float("nan"), inf))
                continue
            error = float(np.hypot(low.stderr / low, high.stderr / high)) / gap
            out.append(Estimate(float(np.log(high / low)) / gap, error, min(low.dof, high.dof)))
        return tuple(out)

    def fit(self, exponent: float | None = None) -> Fit:
        """Fit `c n^-k (1 + a / n)` by weighted least squares; `k` is fitted too unless given.

        Given five widths or more the next term of the series, `b / n^2`, is fitted as well: small widths are known best, and without it
        they would bend the exponent. Where the form still does not fit (chi-square above its degrees of freedom), errors grow accordingly.
        """
        free = 2 + (exponent is None)
        if len(self.widths) < free:
            raise ValueError(
                f"widths={list(self.widths)}: a fit of {free} numbers needs at least {free} widths; give more, or exponent=2."
            )
        n, y = np.array(self.widths, np.float64), np.array([float(v) for v in self.values])
        errors = np.array([v.stderr for v in self.values])
        errors = np.where(errors > 0, errors, 1e-6 * np.abs(y))  # exact values count alike
        series = _Series(n, y, errors, 2 + (len(n) >= _ENOUGH_FOR_CURVATURE))
        k = series.best_exponent() if exponent is None else float(exponent)
        factors, misfits = series.fitted(k)
        slopes = [*series.columns(k).T, *[series.slopes(k)] * (exponent is None)]
        covariance = _inverse_of_square(np.stack(slopes, axis=1))
        freedom, chi_square = len(n) - len(slopes), float(misfits @ misfits)
        if freedom:
            covariance *= max(chi_square / freedom, 1.0)
        dof = min(v.dof for v in self.values)

        def relative(power: int) -> Estimate:
            """A factor of the series over the first, in units of the widths."""
            if power >= factors.size:
                return Estimate(0.0, 0.0, dof)
            ratio, unit = factors[power] / factors[0], series.smallest**power
            by = (np.eye(factors.size)[power] - ratio * np.eye(factors.size)[0]) / factors[0]
            return Estimate(unit * ratio, unit * np.sqrt(by @ covariance[: by.size, : by.size] @ by), dof)

        return Fit(
            Estimate(factors[0], np.sqrt(covariance[0, 0]), dof),
            Estimate(k, np.sqrt(covariance[-1, -1]) if exponent is None else 0.0, dof),
            relative(1),
            relative(2),
            chi_square,
            freedom,
        )

    def __str__(self) -> str:
        rows = (("width", self.metric, "local slope"), *self._rows())
        lines = [f"{width:>8}  {value:>24}  {slope:>18}" for width, value, slope in rows]
        if len(self.widths) >= 3:
            lines.append(f"fit: {self.fit()}")
        return "\n".join(lines)

    __repr__ = __str__

    def _rows(self) -> list[tuple[str, str, str]]:
        slopes = ("", *map(str, self.slopes))
        return [(str(n), str(v), slope) for n, v, slope in zip(self.widths, self.values, slopes, strict=True)]

    def _repr_html_(self) -> str:
        fit = _html.paragraph(f"fit: {self.fit()}") if len(self.widths) >= 3 else ""
        return _html.table(("width", self.metric, "local slope"), self._rows()) + fit

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Distances with two standard errors against the width, on logarithmic axes, and the fit."""
        import matplotlib.pyplot as plt

        axes = plt.gca() if ax is None else ax
        shown = [(n, v) for n, v in zip(self.widths, self.values, strict=True) if v > 0]
        container = axes.errorbar(
            [n for n, _ in shown],
            [float(v) for _, v in shown],
            [[min(2 * v.stderr, 0.9 * v) for _, v in shown], [2 * v.stderr for _, v in shown]],
            **{"fmt": "o", "markersize": 4, "capsize": 2, "label": f"{self.metric} (± 2 s.e.)", **style},
        )
        if len(self.widths) >= 3:
            fit = self.fit()
            n = np.geomspace(min(self.widths), max(self.widths), 200)
            low, high = fit.exponent.interval()
            label = f"fit, exponent {-float(fit.exponent):.2f} [{-high:.2f}, {-low:.2f}]"
            axes.plot(n, fit(n), color=container.lines[0].get_color(), linewidth=1, label=label)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(list(self.widths), [str(n) for n in self.widths])
        axes.minorticks_off()
        axes.set_xlabel("width n")
        axes.set_ylabel(f"{self.metric} to the limit")
        axes.legend()
        return axes


@dataclass(frozen=True)
class _Series:
    """`n^-k (f_0 + f_1 m/n + ...)`, `m` the smallest width: linear but for `k`, and fitted to values `y` in units of their errors."""

    n: np.ndarray
    y: np.ndarray
    errors: np.ndarray
    terms: int

    @property
    def smallest(self) -> float:
        return float(self.n.min())

    def columns(self, k: float) -> np.ndarray:
        """What each factor is multiplied by."""
        powers = (self.smallest / self.n[:, None]) ** np.arange(self.terms)
        return powers * (self.n**-k / self.errors)[:, None]

    def fitted(self, k: float) -> tuple[np.ndarray, np.ndarray]:
        """The best factors, and what they leave."""
        columns = self.columns(k)
        largest = np.linalg.norm(columns, axis=0)
        factors = np.linalg.lstsq(columns / largest, self.y / self.errors)[0] / largest
        return factors, columns @ factors - self.y / self.errors

    def slopes(self, k: float) -> np.ndarray:
        """How the values change with the exponent."""
        return -np.log(self.n) * (self.columns(k) @ self.fitted(k)[0])

    def best_exponent(self) -> float:
        """Where chi-square, as a function of the exponent alone, has the minimum that lies downhill from 2."""

        def steepness(k: float) -> float:
            return float(self.fitted(k)[1] @ self.slopes(k))

        here, at = _USUAL_EXPONENT, steepness(_USUAL_EXPONENT)
        while abs(here - _USUAL_EXPONENT) < _FARTHEST_EXPONENT:
            there = here - float(np.sign(at)) * _EXPONENT_STEP
            if steepness(there) * at <= 0:
                return root_between(steepness, min(here, there), max(here, there), 1e-13)
            here = there
        return here


def _inverse_of_square(columns: np.ndarray) -> np.ndarray:
    """`(C^T C)^-1`, whatever the units of the columns."""
    largest = np.linalg.norm(columns, axis=0)
    return np.linalg.pinv((columns / largest).T @ (columns / largest)) / np.outer(largest, largest)


def convergence(
    net: Any,
    widths: Iterable[int],
    metric: Metric = kl,
    *,
    limit: Law | None = None,
    token: int = 0,
    seed: int = 0,
    samples: int | None = None,
    accuracy: float = 1e-4,
) -> Convergence:
    """The distance of `net.law(width=n)` to its limit for each width, with errors and the fit `c n^-k (1 + a / n + ...)`.

    `metric` is `kl`, `tv`, `ks`, `wasserstein`, `energy` or any function of two laws that returns an `Estimate`. Widths have
    independent seeds, `seed`, `seed + 1`, ... `limit` is what to compare with, the law at infinite width unless given. An interrupt (Ctrl-C) ends the study with the widths that are done.

    !!! Example

        >>> import limitlaw as ll
        >>> net = ll.Network(ll.GaussianInputs([[1.0]]), ll.Attention())
        >>> study = ll.convergence(net, [64, 128, 256, 512], samples=2**18)
        >>> study.fit(exponent=2).constant.covers(3.0, 0.999)  # Var v = 4/n, and KL = 3 (Var v)^2 / 16 to leading order
        True
    """
    if not isinstance(widths, Iterable):
        raise TypeError(f"widths={widths!r}: must be a list of widths, such as [64, 256, 1024].")
    if not hasattr(net, "law"):
        raise TypeError(f"net={net!r}: must be a limitlaw.Network.")
    checked = [_arguments.positive_integer("widths", n, infinite=True) for n in widths]
    if not checked or any(isinf(n) for n in checked) or len(set(checked)) < len(checked):
        raise ValueError(f"widths={checked}: give finite widths, each once; the limit is what they are compared with.")
    if not callable(metric):
        raise TypeError(f"metric={metric!r}: must be a function of two laws, such as limitlaw.kl.")
    sizes = tuple(int(n) for n in sorted(checked))
    target = net.law(width=inf, token=token, seed=seed, samples=samples, accuracy=accuracy) if limit is None else limit
    values = []
    try:
        for i, n in enumerate(sizes):
            value = metric(net.law(width=n, token=token, seed=seed + i, samples=samples, accuracy=accuracy), target)
            values.append(value if isinstance(value, Estimate) else Estimate(float(value)))
    except KeyboardInterrupt:
        if not values:
            raise
        warnings.warn(f"interrupted: the study ends at width {sizes[len(values) - 1]}.", stacklevel=2)
    return Convergence(sizes[: len(values)], tuple(values), getattr(metric, "__name__", "distance"))

"""How fast a network's law approaches its limit."""

import functools
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf, isinf
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from .. import _arguments
from ..laws import Law
from ..numerics import Estimate
from ._distances import kl

Metric = Callable[[Any, Any], Estimate]

_ENOUGH_FOR_CURVATURE = 5


@dataclass(frozen=True)
class Fit:
    """`constant n^-exponent (1 + correction / n + curvature / n^2)`, fitted to distances in units of their errors.

    `exponent.stderr` is 0 if the exponent was given. `chi_square` is that of the residuals, on `dof` degrees of freedom.
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
    """Distances to a limit at growing widths; prints as a table, draws itself."""

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
        second = len(self.widths) >= _ENOUGH_FOR_CURVATURE
        n, y = np.array(self.widths, np.float64), np.array([float(v) for v in self.values])
        errors = np.array([v.stderr for v in self.values])
        errors = np.where(errors > 0, errors, 1e-6 * np.abs(y))  # exact values count alike

        def parts(at: np.ndarray) -> tuple[float, float, float, float]:
            rest = list(at[2:])
            return (
                at[0],
                at[1],
                (rest.pop(0) if second else 0.0),
                (rest.pop(0) if exponent is None else float(exponent)),
            )

        def residuals(at: np.ndarray) -> np.ndarray:
            log_c, a, b, k = parts(at)
            return (np.exp(log_c - k * np.log(n)) * (1 + a / n + b / n**2) - y) / errors

        guess = 2.0 if exponent is None else float(exponent)
        smallest = float(n.min())
        start = [np.log(max(np.median(y * n**guess), 1e-300)), 0.0, *[0.0] * second, *[guess] * (exponent is None)]
        scale = [1.0, smallest, *[smallest**2] * second, *[0.1] * (exponent is None)]
        solution = least_squares(residuals, start, x_scale=scale, xtol=1e-14, ftol=1e-14, gtol=1e-14)
        log_c, a, b, k = parts(solution.x)
        freedom = len(n) - len(start)
        misfit = max(2 * float(solution.cost) / freedom, 1.0) if freedom else 1.0
        spread = parts(np.sqrt(misfit * np.diagonal(np.linalg.pinv(solution.jac.T @ solution.jac))))
        dof = min(v.dof for v in self.values)
        constant = float(np.exp(log_c))
        return Fit(
            Estimate(constant, constant * spread[0], dof),
            Estimate(k, spread[3] if exponent is None else 0.0, dof),
            Estimate(a, spread[1], dof),
            Estimate(b, spread[2], dof),
            2 * float(solution.cost),
            freedom,
        )

    def __str__(self) -> str:
        lines = [f"{'width':>8}  {self.metric:>24}  {'local slope':>18}"]
        slopes = ("", *map(str, self.slopes))
        for width, value, slope in zip(self.widths, self.values, slopes, strict=True):
            lines.append(f"{width:>8}  {value!s:>24}  {slope:>18}")
        if len(self.widths) >= 3:
            lines.append(f"fit: {self.fit()}")
        return "\n".join(lines)

    __repr__ = __str__

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

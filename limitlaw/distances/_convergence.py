"""The rate at which the law of a network approaches its limit."""

import functools
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf, isinf
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from .. import _checks, _progress
from .._checks import ArgumentError, ArgumentTypeError
from .._format import Table, as_text, number
from ..numerics import Estimate
from ._all import DISTANCES
from ._arguments import HasLaw
from ._kl import kl

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from rich.console import ConsoleRenderable

Metric = Callable[[Any, Any], float]
"""A function of two laws, such as a distance of this package."""

# With this number of widths the next term of the series can be fitted too, and one degree of freedom remains.
_ENOUGH_FOR_CURVATURE = 5
# Fewer widths do not determine the three numbers of a fit.
_ENOUGH_TO_FIT = 3
# The search for the exponent starts at 2, the exponent of a divergence, takes steps downhill, and ends at distance 8.
_FIRST_EXPONENT, _EXPONENT_STEP, _FARTHEST_EXPONENT = 2.0, 0.25, 8.0
# Relative error assigned to distances without error, so that all of them have the same weight in a fit.
_EXACT = 1e-6


@dataclass(frozen=True)
class Fit:
    """`constant n^-exponent (1 + correction / n + curvature / n^2)`, fitted to distances weighted by their errors.

    Args:
        constant: The constant.
        exponent: The exponent; it has no error if it was given.
        correction: The coefficient of `1 / n`.
        curvature: The coefficient of `1 / n^2`; 0 without an error if it was not fitted.
        chi_square: The sum of the squared residuals in units of their errors.
        dof: The degrees of freedom of `chi_square`, the number of widths minus that of fitted numbers.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.distances import Convergence
        >>> widths = (8, 16, 32, 64)
        >>> values = tuple(ll.Estimate(3 / n**2 * (1 + 2 / n)) for n in widths)
        >>> fit = Convergence(widths, values, "kl").fit(exponent=2)
        >>> round(float(fit.constant), 4), round(float(fit.correction), 4), round(float(fit(10)), 6)
        (3.0, 2.0, 0.036)
    """

    constant: Estimate
    exponent: Estimate
    correction: Estimate
    curvature: Estimate
    chi_square: float
    dof: int

    def __call__(self, width: ArrayLike) -> Any:
        """The fitted distance at a width, or at several."""
        n = np.asarray(width, np.float64)
        series = 1 + float(self.correction) / n + float(self.curvature) / n**2
        return float(self.constant) * n ** -float(self.exponent) * series

    def __str__(self) -> str:
        power = f"({self.exponent})" if self.exponent.stderr else f"{float(self.exponent):g}"
        terms = {"a": self.correction} | ({"b": self.curvature} if self.curvature.stderr else {})
        series = " + ".join(["1", *(f"{name}/n{'^2' if name == 'b' else ''}" for name in terms)])
        known = ", ".join(_known(name, value) for name, value in terms.items())
        return f"({self.constant}) n^-{power} ({series}) with {known}; {self._goodness()}"

    def _goodness(self) -> str:
        if not self.dof:
            return "as many numbers as widths, so the form is not tested"
        return f"chi-square {self.chi_square:.1f} on {self.dof} degree{'s' if self.dof > 1 else ''} of freedom"


def _known(name: str, value: Estimate) -> str:
    """A coefficient in words, or a bound on its size if its sign is not resolved."""
    if value.stderr and value.covers(0.0):
        bound = max(map(abs, value.interval()))
        return f"|{name}| < {number(bound, 2) if np.isfinite(bound) else 'inf'} (not resolved)"
    return f"{name} = {value if value.stderr else number(float(value))}"


@dataclass(frozen=True)
class Convergence:
    """Distances to a limit at several widths. It prints as a table, and `convergence[64]` is the distance at width 64.

    Args:
        widths: The widths, increasing.
        values: The distance at each width.
        metric: The name of the distance.

    Example:
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

    def __getitem__(self, width: int) -> Estimate:
        """The distance at a width.

        Raises:
            KeyError: If the width was not computed.
        """
        if width not in self.widths:
            raise KeyError(f"width {width!r} was not computed. Computed: {', '.join(map(str, self.widths))}.")
        return self.values[self.widths.index(width)]

    @functools.cached_property
    def exponent(self) -> Estimate:
        """The exponent of the fit; `exponent.interval()` is its confidence interval."""
        return self.fit().exponent

    @functools.cached_property
    def constant(self) -> Estimate:
        """The constant of the fit."""
        return self.fit().constant

    @property
    def slopes(self) -> tuple[Estimate, ...]:
        """The slopes of the logarithm of the distance against that of the width, between neighbouring widths."""
        out = []
        for i in range(len(self.widths) - 1):
            gap = float(np.log(self.widths[i + 1] / self.widths[i]))
            low, high = self.values[i], self.values[i + 1]
            if low <= 0 or high <= 0:
                out.append(Estimate(float("nan"), inf))
                continue
            error = float(np.hypot(low.stderr / float(low), high.stderr / float(high))) / gap
            out.append(Estimate(float(np.log(float(high) / float(low))) / gap, error, min(low.dof, high.dof)))
        return tuple(out)

    def fit(self, exponent: float | None = None) -> Fit:
        """Fit `c n^-k (1 + a / n)` by weighted least squares.

        With five widths or more the next term of the series, `b / n^2`, is fitted as well. Small widths have the
        smallest relative errors, so without that term they would bias the exponent. If chi-square exceeds its degrees
        of freedom, the errors of the fit are increased accordingly.

        Args:
            exponent: A known `k`; by default it is fitted.

        Returns:
            The fit.

        Raises:
            ArgumentError: If there are fewer widths than numbers to fit.
        """
        free = 2 + (exponent is None)
        if len(self.widths) < free:
            raise ArgumentError(
                "widths",
                f"widths={list(self.widths)} are too few: a fit of {free} numbers needs at least {free} widths. Give "
                "more" + ("." if exponent is not None else ", or exponent=2."),
            )
        n, y = np.array(self.widths, np.float64), np.array([float(v) for v in self.values])
        errors = np.array([v.stderr for v in self.values])
        errors = np.where(errors > 0, errors, _EXACT * np.abs(y))
        series = _Series(n, y, errors, 2 + (len(n) >= _ENOUGH_FOR_CURVATURE))
        k = series.best_exponent() if exponent is None else float(exponent)
        factors, misfits = series.fitted(k)
        # Linearised at the optimum, the covariance of the fitted numbers is (J^T J)^-1 for the derivatives J of the
        # residuals. The exponent is the last of them.
        slopes = [*series.columns(k).T, *[series.slopes(k)] * (exponent is None)]
        covariance = _inverse_of_square(np.stack(slopes, axis=1))
        freedom, chi_square = len(n) - len(slopes), float(misfits @ misfits)
        # Errors grow with a misfit, but a fit that is better than expected by luck does not shrink them.
        if freedom:
            covariance *= max(chi_square / freedom, 1.0)
        dof = min(v.dof for v in self.values)

        def relative(power: int) -> Estimate:
            """A coefficient relative to the leading one, in units of the widths, with its propagated error."""
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

    def table(self) -> Table:
        """The distance at each width, the slope from the previous width, and the fit."""
        slopes = (None, *self.slopes)
        rows = list(zip(self.widths, self.values, slopes, strict=True))
        note = f"fit: {self.fit()}" if len(self.widths) >= _ENOUGH_TO_FIT else ""
        return Table(("width", self.metric, "local slope"), rows, note=note)

    def to_xarray(self) -> "xr.Dataset":
        """All numbers as an `xarray.Dataset`.

        Returns:
            The distance under its name, `..._stderr` and `..._dof`, and `slope` and `slope_stderr` (from the previous
            width; NaN at the first), over `width`.

        Example:
            >>> import limitlaw as ll
            >>> study = ll.Convergence((8, 16), (ll.Estimate(0.04, 0.001), ll.Estimate(0.01, 0.001)), "kl")
            >>> study.to_xarray().slope.values.round(6).tolist()
            [nan, -2.0]
        """
        import xarray as xr

        columns = {
            self.metric: [float(value) for value in self.values],
            f"{self.metric}_stderr": [value.stderr for value in self.values],
            f"{self.metric}_dof": [value.dof for value in self.values],
            "slope": [np.nan, *map(float, self.slopes)],
            "slope_stderr": [np.nan, *(slope.stderr for slope in self.slopes)],
        }
        return xr.Dataset({name: ("width", column) for name, column in columns.items()}, {"width": list(self.widths)})

    def to_pandas(self) -> "pd.DataFrame":
        """The variables of `to_xarray` as columns of a `pandas.DataFrame`, indexed by `width`.

        Example:
            >>> import limitlaw as ll
            >>> study = ll.Convergence((8, 16), (ll.Estimate(0.04, 0.001), ll.Estimate(0.01, 0.001)), "kl")
            >>> study.to_pandas().loc[16, "kl"].item()
            0.01
        """
        return self.to_xarray().to_dataframe()

    def __rich__(self) -> "ConsoleRenderable":
        return self.table().__rich__()

    def __str__(self) -> str:
        return as_text(self.__rich__())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def plot(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Plot the distances with two standard errors against the width on logarithmic axes, and the fit.

        Args:
            ax: Matplotlib axes, by default the current ones.
            **style: Options of `matplotlib.axes.Axes.errorbar`.

        Returns:
            The axes.
        """
        import matplotlib.pyplot as plt

        axes = plt.gca() if ax is None else ax
        positive = [(n, v) for n, v in zip(self.widths, self.values, strict=True) if v > 0]
        heights = [float(v) for _, v in positive]
        # A bar that reaches 0 has no end on a logarithmic axis.
        down = [min(2 * v.stderr, 0.9 * float(v)) for _, v in positive]
        options = {"fmt": "o", "markersize": 4, "capsize": 2, "label": f"{self.metric} (± 2 s.e.)", **style}
        container = axes.errorbar(
            [n for n, _ in positive], heights, [down, [2 * v.stderr for _, v in positive]], **options
        )
        if len(self.widths) >= _ENOUGH_TO_FIT:
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
    """A fit of `n^-k (f_0 + f_1 m/n + ...)` to values `y`, linear except in `k`, where `m` is the smallest width."""

    n: np.ndarray
    y: np.ndarray
    errors: np.ndarray
    terms: int

    @property
    def smallest(self) -> float:
        return float(self.n.min())

    def columns(self, k: float) -> np.ndarray:
        """The functions of the width that the factors multiply, in units of the errors."""
        # Powers of m/n instead of 1/n keep the columns of comparable size.
        powers = (self.smallest / self.n[:, None]) ** np.arange(self.terms)
        return powers * (self.n**-k / self.errors)[:, None]

    def fitted(self, k: float) -> tuple[np.ndarray, np.ndarray]:
        """The best factors, and the residuals in units of the errors."""
        columns = self.columns(k)
        largest = np.linalg.norm(columns, axis=0)
        factors = np.linalg.lstsq(columns / largest, self.y / self.errors)[0] / largest
        return factors, columns @ factors - self.y / self.errors

    def slopes(self, k: float) -> np.ndarray:
        """The derivative of the fitted values with respect to the exponent, in units of the errors."""
        return -np.log(self.n) * (self.columns(k) @ self.fitted(k)[0])

    def best_exponent(self) -> float:
        """The exponent of least chi-square in the minimum that lies downhill from 2. There may be others far away."""

        def steepness(k: float) -> float:
            # Half the derivative of chi-square. It is stationary in the factors, so only the dependence on k counts.
            return float(self.fitted(k)[1] @ self.slopes(k))

        here, at = _FIRST_EXPONENT, steepness(_FIRST_EXPONENT)
        while abs(here - _FIRST_EXPONENT) < _FARTHEST_EXPONENT:
            there = here - float(np.sign(at)) * _EXPONENT_STEP
            if steepness(there) * at <= 0:
                return brentq(steepness, min(here, there), max(here, there), xtol=1e-13)  # type: ignore[return-value]
            here = there
        return here


def _inverse_of_square(columns: np.ndarray) -> np.ndarray:
    """`(C^T C)^-1`, computed with columns of unit length, so that it does not depend on their units."""
    largest = np.linalg.norm(columns, axis=0)
    return np.linalg.pinv((columns / largest).T @ (columns / largest)) / np.outer(largest, largest)


def convergence(
    net: HasLaw,
    widths: Iterable[int],
    metric: Metric = kl,
    *,
    limit: Any = None,
    token: int = 0,
    seed: int = 0,
    samples: int | None = None,
    accuracy: float = 1e-4,
    progress: bool = True,
) -> Convergence:
    """The distance of `net.law(width=n)` to its limit for each width, with errors and a fitted rate.

    After an interrupt (Ctrl-C) the result holds the widths that are finished.

    Args:
        net: The network.
        widths: Finite widths.
        metric: A distance such as `limitlaw.kl`, or any function of two laws that returns a number or an `Estimate`.
        limit: A law, samples, or a frozen distribution of `scipy.stats` to compare with; by default the law at infinite
            width.
        token: The token whose output is compared.
        seed: The seed of the first width. The others use `seed + 1`, `seed + 2`, ..., so that they are independent.
        samples: The number of draws at each width; by default as many as `accuracy` needs.
        accuracy: As for `Network.law`.
        progress: Whether to show progress bars after two seconds.

    Returns:
        The distances, by increasing width.

    Raises:
        ArgumentError: If `widths` is empty, repeats a width or holds an infinite one, or an argument has a wrong type.

    Example:
        >>> import limitlaw as ll
        >>> net = ll.Network(ll.GaussianInputs([[1.0]]), ll.Attention())
        >>> study = ll.convergence(net, [64, 128, 256, 512], samples=2**18)
        >>> # Var v = 4/n, and KL = 3 (Var v)^2 / 16 to leading order
        >>> study.fit(exponent=2).constant.covers(3.0, 0.999)
        True
    """
    if not isinstance(widths, Iterable):
        raise ArgumentTypeError("widths", f"widths={widths!r} must be a list of widths, such as [64, 256, 1024].")
    if not hasattr(net, "law"):
        raise ArgumentTypeError("net", f"net={net!r} must be a limitlaw.Network.")
    checked = [_checks.positive_integer("widths", n, infinite=True) for n in widths]
    if not checked or any(map(isinf, checked)) or len(set(checked)) < len(checked):
        raise ArgumentError(
            "widths",
            f"widths={checked} must be finite widths without repetition. They are compared with the limit, which need "
            f"not be listed.",
        )
    if not callable(metric):
        remedy = (
            f"limitlaw.distances.DISTANCES[{metric!r}]"
            if isinstance(metric, str) and metric in DISTANCES
            else "limitlaw.kl"
        )
        raise ArgumentTypeError("metric", f"metric={metric!r} must be a function of two laws. Pass {remedy}.")
    sizes = tuple(int(n) for n in sorted(checked))
    options: dict[str, Any] = {"token": token, "samples": samples, "accuracy": accuracy}
    values = []
    try:
        with _progress.task("Widths", len(sizes), show=_checks.boolean("progress", progress)) as bar:
            target = net.law(width=inf, seed=seed, **options) if limit is None else limit
            for i, n in enumerate(sizes):
                value = metric(net.law(width=n, seed=seed + i, **options), target)
                values.append(value if isinstance(value, Estimate) else Estimate(float(value)))
                bar.advance()
    except KeyboardInterrupt:
        if not values:
            raise
        warnings.warn(f"Interrupted: the result ends at width {sizes[len(values) - 1]}.", stacklevel=2)
    return Convergence(sizes[: len(values)], tuple(values), _name_of(metric))


def _name_of(metric: Metric) -> str:
    return getattr(metric, "name", None) or getattr(metric, "__name__", "distance")

"""Several tokens jointly: a Gaussian vector with a random covariance matrix."""

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtr, ndtri

from .. import _checks
from .._checks import ArgumentError, ArgumentTypeError
from .._format import Table
from ..numerics import Estimate, jackknife
from ..numerics.batches import largest_power_of_two
from ..numerics.estimate import leave_one_batch_out
from ..numerics.integrate import sobol_uniforms
from ._arguments import Rng, generator_of, real_array, shape_of
from ._atoms import BATCHES
from ._joint import JointLaw
from ._scale_mixture import ScaleMixture

_AT_ONCE = 2**21  # pairs of a point and a covariance whose densities are in memory at once, 16 MB for each array
_ENTROPY_DRAWS = 2**11  # draws behind an entropy, for a standard error of about 0.02
_ENTROPY_PARTS = 64  # parts in which the entropy draws are evaluated, so that 32 points are in memory at once
_SMALLEST_PIVOT = 1e-10  # least eigenvalue of a correlation matrix, below which a density has fewer than six digits
_ORTHANT_POINTS = 2**12  # points of the unit cube behind a cdf in one scrambling, for an error of about 1e-4
_SCRAMBLINGS = 8  # independent scramblings, whose spread gives that error
_CONTOUR_DRAWS = 2000  # draws behind the heights of contours, which hold their probability to about a percent
_CONTOUR_COVARIANCES = 4096  # covariances behind a contour plot, enough for the resolution of a picture


class GaussianMixture(JointLaw):
    """`y ~ N(0, C)` over a random `k x k` covariance `C`: the joint law of several tokens.

    `covariances` are independent draws `(N, k, k)`, or exact ones with `weights`. Functions of `x` take points
    `(..., k)`. Errors come from 256 batches of the draws. `marginal(i)` is the law of one coordinate, with quantiles
    and all the rest.

    Args:
        covariances: Independent draws `(draws, k, k)`, or exact values if there are weights.
        weights: The probabilities of the covariances.
        name: A label, for plots and tables.

    Raises:
        ArgumentError: If `covariances` are not covariance matrices, or `weights` are not probabilities.

    Example:
        >>> import numpy as np
        >>> from limitlaw.laws import GaussianMixture
        >>> law = GaussianMixture([np.eye(2), 3 * np.eye(2)], weights=[0.5, 0.5])
        >>> law.cov().tolist(), law.kurtosis().tolist()
        ([[2.0, 0.0], [0.0, 2.0]], [0.75, 0.75])
    """

    method = "mixture"
    _names_elsewhere: ClassVar[dict[str, str]] = {
        **JointLaw._names_elsewhere,
        **dict.fromkeys(("log_prob", "logprob"), "logpdf"),
        **dict.fromkeys(("prob", "density"), "pdf"),
        **dict.fromkeys(("sf", "survival_function"), "ccdf"),
        **dict.fromkeys(("logsf", "log_survival_function"), "logccdf"),
    }

    def __init__(self, covariances: Any, weights: Any = None, *, name: str = "Gaussian mixture") -> None:
        C = _checks.finite_array("covariances", covariances, 3, largest=np.inf)
        if not C.size or C.shape[1] != C.shape[2]:
            raise ArgumentError(
                "covariances", f"covariances has shape {C.shape}, but must be (draws, k, k) with at least one of each."
            )
        if np.abs(C - C.swapaxes(1, 2)).max() > 1e-5 * np.abs(C).max():
            raise ArgumentError(
                "covariances",
                "covariances are not symmetric. Pass (C + C.swapaxes(1, 2)) / 2 if the difference is rounding.",
            )
        smallest = np.linalg.eigvalsh(C)[:, 0]
        if smallest.min() < -1e-5 * np.abs(C).max():
            worst = int(smallest.argmin())
            raise ArgumentError(
                "covariances",
                f"covariances[{worst}] has the eigenvalue {smallest[worst]:.3g}, but a covariance has none below 0. "
                f"Build it as X @ X.T / n.",
            )
        self.name = name
        self.covariances = C
        self.exact = weights is not None
        if weights is None:
            if len(C) < 2:
                raise ArgumentError(
                    "covariances",
                    "covariances has one draw, but a standard error takes two. Give more, or pass weights=[1.0].",
                )
            self.weights = np.full(len(C), 1 / len(C))
        else:
            w = _checks.finite_array("weights", weights, 1, largest=np.inf)
            if w.shape != (len(C),) or w.min() < 0 or not w.sum() > 0:
                raise ArgumentError(
                    "weights",
                    f"weights has shape {w.shape} and smallest entry {w.min(initial=0.0):g}. "
                    f"Give one probability for each of {len(C)} covariances.",
                )
            self.weights = w / w.sum()

    @property
    def _values(self) -> Sequence[Any]:
        return self.covariances, self.weights, self.exact

    def __repr__(self) -> str:
        return f"GaussianMixture(event_shape={self.event_shape}, draws={len(self.covariances)})"

    def _repr_html_(self) -> str:
        numbers = self.cov()
        rows = [(f"y_{i}", *map(float, row), self.marginal(i).kurtosis()) for i, row in enumerate(numbers)]
        header = (repr(self), *(f"cov with y_{i}" for i in range(len(numbers))), "excess kurtosis")
        return Table(header, rows).html()

    @property
    def event_shape(self) -> tuple[int]:  # type: ignore[override]
        """`(k,)`."""
        return (self.covariances.shape[1],)

    @functools.cached_property
    def _roots(self) -> np.ndarray:
        # Singularity is judged by the correlations, so that it does not depend on the units of the variables.
        diagonal = np.einsum("nii->ni", self.covariances)
        with np.errstate(divide="ignore", invalid="ignore"):
            correlation = self.covariances / np.sqrt(diagonal[:, :, None] * diagonal[:, None])
        smallest = np.linalg.eigvalsh(np.nan_to_num(correlation)).min(axis=1)
        bad = np.flatnonzero(~(smallest > _SMALLEST_PIVOT))
        if bad.size:
            raise ArgumentError(
                "covariances",
                f"covariances[{bad[0]}] is singular (its correlations have the eigenvalue {smallest[bad[0]]:.2g}), so "
                f"there is no joint density. Remove tokens that are functions of others, or use sample() and cf().",
            )
        return np.linalg.cholesky(self.covariances)

    @functools.cached_property
    def _batch(self) -> np.ndarray:
        """The index of the first draw of each batch."""
        count = 1 if self.exact else min(BATCHES, len(self.covariances))
        return np.arange(count) * len(self.covariances) // count

    def _by_batch(self, kernel: np.ndarray) -> np.ndarray:
        """Averages `(B, ...)` over the batches of `kernel` `(N, ...)`."""
        weighted = kernel * self.weights.reshape(-1, *[1] * (kernel.ndim - 1))
        mass = np.add.reduceat(self.weights, self._batch)
        return np.add.reduceat(weighted, self._batch, axis=0) / mass.reshape(-1, *[1] * (kernel.ndim - 1))

    def _average(self, kernel: np.ndarray) -> np.ndarray:
        return np.tensordot(self.weights, kernel, axes=1)

    def marginal(self, i: int) -> ScaleMixture:
        """The law of coordinate `i`, counted from the end if negative."""
        i = _checks.index("i", i, *self.event_shape, "coordinates")
        variances = self.covariances[:, i, i]
        return ScaleMixture(variances, self.weights if self.exact else None, allow_zero=True, name=f"{self.name}[{i}]")

    def mean(self) -> np.ndarray:
        """0, by symmetry."""
        return np.zeros(self.event_shape)

    def cov(self) -> np.ndarray:
        """The covariance matrix, `E C`; its error is `error("cov")`."""
        return self._average(self.covariances)

    def pdf(self, x: Any) -> Any:
        """The joint density at points `(..., k)`."""
        return np.exp(self.logpdf(x))

    def logpdf(self, x: Any) -> Any:
        """The logarithm of the joint density at points `(..., k)`."""
        return self._over_points("x", x, lambda part: _log_mean(self._log_kernel(part), self.weights))

    def cdf(self, x: Any) -> Any:
        """`P(y_1 <= x_1, ..., y_k <= x_k)`.

        Coordinates are conditioned on one after the other, at one point of the unit cube per covariance (Genz 1992).
        """
        return self._over_points("x", x, lambda part: self._orthants(part).mean(axis=0))

    def ccdf(self, x: Any) -> Any:
        """`P(y_1 > x_1, ..., y_k > x_k)`, by symmetry from `cdf`."""
        return self.cdf(-real_array("x", x))

    def logcdf(self, x: Any) -> Any:
        """The logarithm of `cdf`."""
        with np.errstate(divide="ignore"):
            return np.log(self.cdf(x))

    def cf(self, t: Any) -> Any:
        """`E exp(i t . y) = E exp(-t^T C t / 2)` at `t` of shape `(..., k)`."""

        def average(part: np.ndarray) -> np.ndarray:
            form = np.einsum("pi,nij,pj->np", part, self.covariances, part, optimize=True)
            return self._average(np.exp(-form / 2))

        return np.asarray(self._over_points("t", t, average), np.complex128)[()]

    def error(self, what: str, x: Any = None) -> Any:
        """The standard error of "cov", or of "pdf", "logpdf" or "cdf" at points `x`."""
        _checks.one_of("what", what, ("cov", "pdf", "logpdf", "cdf"))
        if what == "cov":
            return self._spread(self._by_batch(self.covariances))
        if x is None:
            raise ArgumentTypeError("x", f"error({what!r}) needs points. Use error({what!r}, x).")
        if what == "cdf":
            return self._over_points("x", x, lambda part: self._spread(self._orthants(part)))

        spread = self._over_points("x", x, lambda part: self._spread(self._relative(part)))
        return spread if what == "logpdf" else spread * self.pdf(x)

    def entropy(self) -> Estimate:
        """`-E log pdf(y)` over 2,048 draws of the law, with the error of the draws and that of the covariances."""
        y = self.sample(_ENTROPY_DRAWS, rng=0)
        values = -self.logpdf(y)
        rows = [self._relative(part) for part in np.array_split(y, _ENTROPY_PARTS)]
        # Without a batch the density is p times the relative density `r`, so the entropy changes by -E log r.
        moved = np.log(np.maximum(leave_one_batch_out(np.concatenate(rows, axis=1)), 1e-300)).mean(axis=1)
        mean = float(values.mean())
        by_covariances = mean - moved if len(moved) > 1 else np.empty(0)
        return jackknife(mean, (values.sum() - values) / (values.size - 1), by_covariances, corrected=False)

    def sample(self, shape: int | Sequence[int] = (), *, rng: Rng = None) -> np.ndarray:
        """Independent draws, `(*shape, k)`."""
        generator = generator_of(rng)
        sizes = shape_of(shape)
        count = int(np.prod(sizes))
        # Sorted indices read the covariances in the order of memory. The permutation below makes the draws
        # exchangeable.
        picked = np.sort(generator.choice(len(self.covariances), count, p=None if not self.exact else self.weights))
        values, vectors = np.linalg.eigh(self.covariances[picked])
        normals = np.sqrt(np.maximum(values, 0.0)) * generator.standard_normal((count, *self.event_shape))
        # Eigenvectors serve singular covariances as well, for which a Cholesky factorisation fails.
        draws = np.einsum("nij,nj->ni", vectors, normals)
        return generator.permutation(draws).reshape(*sizes, *self.event_shape)

    def plot(self, ax: Any = None, *, levels: Sequence[float] = (0.1, 0.5, 0.9, 0.99), **style: Any) -> Any:
        """Plot contours of the density of two tokens that enclose the given probabilities, on matplotlib axes."""
        import matplotlib.pyplot as plt

        if self.event_shape != (2,):
            raise ValueError(
                f"plot() is defined for two tokens, but this law has {self.event_shape[0]}. Use marginal(i).plot()."
            )
        axes = plt.gca() if ax is None else ax
        few = self if self.exact else GaussianMixture(self.covariances[:_CONTOUR_COVARIANCES])
        # The set of densities above h has the probability that a draw has a density above h. So the contour of level q
        # is at the q-th quantile, from above, of the densities at draws.
        at_draws = np.sort(few.pdf(few.sample(_CONTOUR_DRAWS, rng=0)))[::-1]
        heights = {float(at_draws[min(int(level * _CONTOUR_DRAWS), _CONTOUR_DRAWS - 1)]): level for level in levels}
        reach = [float(self.marginal(i).iccdf((1 - max(levels)) / 40)) for i in range(2)]
        first, second = (np.linspace(-r, r, 101) for r in reach)
        grid = np.stack(np.meshgrid(first, second, indexing="ij"), axis=-1)
        density = few.pdf(grid)
        lines = axes.contour(first, second, density.T, levels=sorted(heights), **{"colors": "C0", **style})
        axes.clabel(lines, fmt={height: f"{level:.0%}" for height, level in heights.items()}, fontsize="small")
        axes.set_xlabel("output of the first token")
        axes.set_ylabel("output of the second token")
        return axes

    def _over_points(self, name: str, x: Any, f: Any) -> Any:
        points = real_array(name, x)
        if points.shape[-1:] != self.event_shape:
            raise ArgumentError(
                name,
                f"{name} has shape {points.shape}, but the law has {self.event_shape[0]} variables. Give an array "
                f"whose last axis has length {self.event_shape[0]}.",
            )
        flat = points.reshape(-1, *self.event_shape)
        step = max(_AT_ONCE // len(self.covariances), 1)
        parts = [f(flat[i : i + step]) for i in range(0, len(flat), step)]
        return np.concatenate(parts).reshape(points.shape[:-1])[()] if parts else np.empty(points.shape[:-1])

    def _log_kernel(self, x: np.ndarray) -> np.ndarray:
        """`log N(x; 0, C)` for each covariance and point, `(N, P)`, by forward substitution."""
        # x^T C^-1 x = |L^-1 x|^2. The loop is over the few coordinates, and vectorised over covariances and points.
        L, (k,) = self._roots, self.event_shape
        quadratic = np.zeros((len(L), len(x)))
        solved: list[np.ndarray] = []
        for i in range(k):
            residual = x[None, :, i] - sum((L[:, i, j, None] * solved[j] for j in range(i)), np.zeros((1, 1)))
            solved.append(residual / L[:, i, i, None])
            quadratic += solved[i] ** 2
        log_root = np.log(np.einsum("nii->ni", L)).sum(axis=1)
        return -quadratic / 2 - log_root[:, None] - k / 2 * np.log(2 * np.pi)

    def _orthants(self, x: np.ndarray) -> np.ndarray:
        """Independent unbiased estimates of `P(y <= x)`, `(B, P)`, each at one point of the unit cube per covariance.

        Exact covariances are few, so each is repeated at the points of several scrambled Sobol sequences.
        """
        (k,), count = self.event_shape, len(self.covariances)
        if not self.exact:
            return self._by_batch(_orthant(self._roots, np.random.default_rng(0).uniform(size=(k, count)), x))
        # Points of one sequence are spread over all covariances, and each covariance gets `repeats` of them.
        repeats = largest_power_of_two(max(_ORTHANT_POINTS / count, 1))
        roots = np.repeat(self._roots, repeats, axis=0)
        rows = []
        points = 2 * largest_power_of_two(len(roots))
        for seed in range(_SCRAMBLINGS):
            estimate = _orthant(roots, sobol_uniforms(k, points, seed)[:, : len(roots)], x)
            rows.append(self._average(estimate.reshape(count, repeats, -1).mean(axis=1)))
        return np.stack(rows)

    def _relative(self, x: np.ndarray) -> np.ndarray:
        """The density by each batch of covariances, relative to the density, `(B, P)`."""
        log_kernel = self._log_kernel(x)
        return self._by_batch(np.exp(log_kernel - _log_mean(log_kernel, self.weights)))

    def _spread(self, batches: np.ndarray) -> np.ndarray:
        if len(batches) < 2:
            return np.zeros(batches.shape[1:])
        return batches.std(axis=0, ddof=1) / np.sqrt(len(batches))


def _log_mean(log_kernel: np.ndarray, weights: np.ndarray) -> np.ndarray:
    largest = log_kernel.max(axis=0)
    return largest + np.log(weights @ np.exp(log_kernel - largest))


def _orthant(roots: np.ndarray, uniforms: np.ndarray, x: np.ndarray) -> np.ndarray:
    """`P(y <= x)` for each root `(N, k, k)` and point, from one point of the unit cube `(k, N)` (Genz 1992)."""
    # Given the coordinates before it, coordinate i is below x_i with probability `below`. The product of these is an
    # unbiased estimate if each coordinate is then drawn from its law truncated at x_i, by inversion of a uniform.
    product = np.ones((len(roots), len(x)))
    drawn: list[np.ndarray] = []
    for i in range(roots.shape[1]):
        residual = x[None, :, i] - sum((roots[:, i, j, None] * drawn[j] for j in range(i)), np.zeros((1, 1)))
        below = ndtr(residual / roots[:, i, i, None])
        product *= below
        # The bounds keep quantiles finite where `below` is 0 or 1.
        drawn.append(ndtri(np.clip(uniforms[i][:, None] * below, 1e-300, 1 - 1e-16)))
    return product

"""Images of a Gaussian under a known map."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from .. import _checks
from .._checks import ArgumentError
from ..numerics import Estimate
from ..numerics.integrate import gaussian_expectation
from ._arguments import Rng, generator_of, moment_order, shape_of
from ._empirical import Empirical
from ._joint import JointLaw
from ._law import Law

_AT_ONCE = 2**16  # draws that are transformed in one call, to bound its memory
_DRAWS = 2**18  # draws behind densities and quantiles: a cdf has a standard error of 1e-3
_CONVERGED = 1e-9  # relative difference of two quadratures, below which the error is stated as 0

Transform = Callable[[jax.Array], jax.Array]
Integral = tuple[np.ndarray, np.ndarray]
"""A value and its standard error, for one variable or for each of several."""


class _Image:
    """The base of `Pushforward` and `JointPushforward`: the map, its replicates, and draws."""

    event_shape: tuple[int, ...]

    def __init__(
        self,
        transform: Transform,
        dimension: int,
        *,
        quadrature_error: float = 0.0,
        replicates: Callable[[], list[Any]] = list,
    ) -> None:
        self.name = "limit"
        self.transform = transform
        self.dimension = dimension
        self.quadrature_error = quadrature_error
        self._make_replicates = replicates
        # The shape of the values is found without a computation, as the map may be expensive.
        with jax.enable_x64(True):
            values = jax.eval_shape(transform, jax.ShapeDtypeStruct((dimension, 1), jnp.float64))
        self.event_shape = values.shape[:-1]

    @property
    def _values(self) -> Sequence[Any]:
        return self.transform, self.dimension, self.quadrature_error

    @functools.cached_property
    def _replicates(self) -> list[Any]:
        return self._make_replicates() if self.quadrature_error else []

    def sample(self, shape: int | Sequence[int] = (), *, rng: Rng = None) -> np.ndarray:
        """Independent draws, float64.

        Args:
            shape: The shape of the array of draws; a single draw by default.
            rng: An integer seed or a `numpy.random.Generator`; None draws fresh entropy.

        Returns:
            An array of shape `shape`, followed by `event_shape` for a joint law.
        """
        sizes, generator = shape_of(shape), generator_of(rng)
        count = int(np.prod(sizes))
        parts = []
        with jax.enable_x64(True):
            for start in range(0, count, _AT_ONCE):
                normals = generator.standard_normal((min(_AT_ONCE, count - start), self.dimension))
                parts.append(np.asarray(self.transform(jnp.asarray(normals.T))).T)
        drawn = np.concatenate(parts) if parts else np.empty(0)
        return drawn.reshape(*sizes, *self.event_shape)


class Pushforward(_Image, Law):
    """The law of `T(xi)`, `xi` a standard normal of `R^dimension`: the limit of one coordinate of a tensor program.

    Moments are Gaussian integrals (quadrature up to three dimensions, quasi-Monte Carlo above), each with its error.
    There is no formula for the density of a general map, so pdf, cdf, quantiles and entropy are those of 2^18 draws
    (`Empirical`), with their errors.

    Args:
        transform: A function from points `(dimension, N)` to values `(N,)`, in float64.
        dimension: The dimension of the normal vector.
        quadrature_error: The largest error among the numbers that define the transform.
        replicates: A function that returns laws with those numbers perturbed by their errors. The effect on a moment is
            part of its standard error.

    Raises:
        ArgumentError: If the transform returns several variables.

    Example:
        >>> from limitlaw.laws import Pushforward
        >>> law = Pushforward(lambda xi: xi[0] * xi[1], 2)  # a product of two normals
        >>> print(f"{law.variance():.9f} {law.kurtosis():.9f}")
        1.000000000 6.000000000
    """

    method = "draws"

    def __init__(
        self,
        transform: Transform,
        dimension: int,
        *,
        quadrature_error: float = 0.0,
        replicates: "Callable[[], list[Pushforward]]" = list,
    ) -> None:
        super().__init__(transform, dimension, quadrature_error=quadrature_error, replicates=replicates)
        if self.event_shape:
            raise ArgumentError(
                "transform",
                f"transform returns {self.event_shape[0]} variables, but a Pushforward has one. Use JointPushforward.",
            )

    def __repr__(self) -> str:
        return f"Pushforward(dimension={self.dimension})"

    def mean(self) -> Estimate:
        """The mean."""
        scale = float(np.sqrt(_variances(self)[0]))
        return self._estimate(_means, scale)

    def variance(self) -> Estimate:
        """The variance."""
        return self._estimate(_variances, float(_variances(self)[0]))

    def _excess_kurtosis(self) -> Estimate:
        return self._estimate(_excess_kurtoses, max(1.0, abs(float(_excess_kurtoses(self)[0]))))

    def _estimate(self, integral: "Callable[[Any], Integral]", scale: float) -> Estimate:
        """An integral with its error, which is 0 if quadrature has converged on this scale."""
        value, error = float(integral(self)[0]), float(_error(self, integral))
        return Estimate(value, 0.0 if error <= _CONVERGED * scale else error)

    def moment(self, order: int, kind: Literal["raw", "central", "standardized"] = "raw") -> Estimate:
        """A moment, by Gaussian integration.

        Args:
            order: A non-negative integer.
            kind: "raw", "central" or "standardized".
        """
        order = moment_order(order, kind)
        # The integrand is centred and scaled before the power is taken: raw moments would cancel.
        mean = float(_means(self)[0]) if kind != "raw" else 0.0
        scale = float(self.standard_deviation()) if kind == "standardized" else 1.0
        value, error = gaussian_expectation(lambda xi: ((self.transform(xi) - mean) / scale) ** order, self.dimension)
        value, error = float(value), float(error)
        size = abs(value) if kind != "standardized" else 1.0
        return Estimate(value, 0.0 if error <= _CONVERGED * size else error)

    @functools.cached_property
    def drawn(self) -> Empirical:
        """2^18 draws of the law, always the same ones."""
        return Empirical(self.sample(_DRAWS, rng=0))

    def entropy(self) -> Estimate:
        """Differential entropy of the draws, from nearest neighbours."""
        return self.drawn.entropy()

    def mode(self) -> float:
        """The point at which the kernel estimate of the density is largest."""
        return self.drawn.mode()

    def leave_one_batch_out(self, what: str, x: np.ndarray) -> np.ndarray:
        """See `Law.leave_one_batch_out`; the batches are those of the draws."""
        return self.drawn.leave_one_batch_out(what, x)

    def _pdf(self, x: np.ndarray) -> np.ndarray:
        return self.drawn._pdf(x)

    def _logpdf(self, x: np.ndarray) -> np.ndarray:
        return self.drawn._logpdf(x)

    def _logcdf(self, x: np.ndarray) -> np.ndarray:
        return self.drawn._logcdf(x)

    def _logccdf(self, x: np.ndarray) -> np.ndarray:
        return self.drawn._logccdf(x)

    def _cf(self, t: np.ndarray) -> np.ndarray:
        return self.drawn._cf(t)

    def _quantiles(self, q: np.ndarray, *, upper: bool) -> np.ndarray:
        return self.drawn._quantiles(q, upper=upper)

    def _log_quantiles(self, lq: np.ndarray, *, upper: bool) -> np.ndarray:
        return self.drawn._log_quantiles(lq, upper=upper)

    def _from_normal(self, z: np.ndarray) -> np.ndarray:
        return self.drawn._from_normal(z)

    @functools.cached_property
    def _panel_edges(self) -> np.ndarray:
        return self.drawn._panel_edges


class JointPushforward(_Image, JointLaw):
    """The joint law of the variables `T(xi)`, `xi` a standard normal of `R^dimension`.

    Moments are Gaussian integrals, as for `Pushforward`. There is no joint density; `marginal(i)` has the density of
    one variable.

    Args:
        transform: A function from points `(dimension, N)` to values `(k, N)`, in float64.
        dimension: The dimension of the normal vector.
        quadrature_error: The largest error among the numbers that define the transform.
        replicates: A function that returns laws with those numbers perturbed by their errors. The effect on a moment is
            part of its standard error.

    Raises:
        ArgumentError: If the transform returns one variable.

    Example:
        >>> import jax.numpy as jnp
        >>> from limitlaw.laws import JointPushforward
        >>> law = JointPushforward(lambda xi: jnp.stack([xi[0], xi[0] + 2 * xi[1]]), 2)
        >>> law.cov().round(9).tolist()
        [[1.0, 1.0], [1.0, 5.0]]
    """

    method = "draws"

    def __init__(
        self,
        transform: Transform,
        dimension: int,
        *,
        quadrature_error: float = 0.0,
        replicates: "Callable[[], list[JointPushforward]]" = list,
    ) -> None:
        super().__init__(transform, dimension, quadrature_error=quadrature_error, replicates=replicates)
        if len(self.event_shape) != 1:
            raise ArgumentError(
                "transform", "transform must return an array (k, N). For one variable, (N,), use Pushforward."
            )

    def __repr__(self) -> str:
        return f"JointPushforward(dimension={self.dimension}, event_shape={self.event_shape})"

    def mean(self) -> np.ndarray:
        """The means, `(k,)`; their errors are `error("mean")`."""
        return _means(self)[0]

    def cov(self) -> np.ndarray:
        """The covariance matrix, `(k, k)`; its error is `error("cov")`."""
        return _covariances(self)[0]

    def variance(self) -> np.ndarray:
        """The variances, `(k,)`; their errors are `error("variance")`."""
        return _variances(self)[0]

    def kurtosis(self, convention: Literal["excess", "non-excess"] = "excess") -> np.ndarray:
        """The kurtosis of each variable, `(k,)`; its error is `error("kurtosis")`.

        Args:
            convention: "excess", the fourth standardized moment minus 3; or "non-excess", that moment itself.
        """
        _checks.one_of("convention", convention, ("excess", "non-excess"))
        return _excess_kurtoses(self)[0] + (3.0 if convention == "non-excess" else 0.0)

    def marginal(self, i: int) -> Pushforward:
        """The law of one variable.

        Args:
            i: Its index, counted from the end if negative.
        """
        i = _checks.index("i", i, self.event_shape[0], "variables")
        return Pushforward(
            lambda xi: self.transform(xi)[i],
            self.dimension,
            quadrature_error=self.quadrature_error,
            replicates=lambda: [law.marginal(i) for law in self._replicates],
        )

    def error(self, what: str, x: Any = None) -> np.ndarray:
        """The standard error of "mean", "variance", "cov" or "kurtosis", in the shape of that quantity."""
        del x
        return _error(self, _INTEGRALS[_checks.one_of("what", what, _INTEGRALS)])


def _error(law: Any, integral: Callable[[Any], Integral]) -> np.ndarray:
    """The standard error of an integral, from quadrature and from the numbers that define the transform."""
    # The two errors are independent, so their squares add.
    value, error = integral(law)
    moved = [integral(replicate)[0] - value for replicate in law._replicates]
    return np.hypot(error, np.sqrt(np.mean(np.square(moved), axis=0))) if moved else error


def _means(law: Any) -> Integral:
    return gaussian_expectation(law.transform, law.dimension)


def _central(law: Any, orders: tuple[int, ...]) -> Integral:
    mean = _means(law)[0][..., None]
    return gaussian_expectation(
        lambda xi: jnp.stack([(law.transform(xi) - mean) ** order for order in orders]), law.dimension
    )


def _variances(law: Any) -> Integral:
    value, error = _central(law, (2,))
    return np.asarray(value[0]), np.asarray(error[0])


def _covariances(law: Any) -> Integral:
    mean = _means(law)[0][..., None]

    def products(xi: jax.Array) -> jax.Array:
        centred = law.transform(xi) - mean
        return centred[:, None] * centred[None]

    return gaussian_expectation(products, law.dimension)


def _excess_kurtoses(law: Any) -> Integral:
    (variance, fourth), (variance_error, fourth_error) = _central(law, (2, 4))
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(variance > 0, fourth / variance**2 - 3, 0.0)
        # Linear error propagation through fourth / variance^2. A constant has the kurtosis 0 by convention.
        by_variance = 2 * fourth * variance_error / variance**3
        error = np.where(variance > 0, np.hypot(fourth_error / variance**2, by_variance), 0.0)
    return value, error


_INTEGRALS: dict[str, Callable[[Any], Integral]] = {
    "mean": _means,
    "variance": _variances,
    "cov": _covariances,
    "kurtosis": _excess_kurtoses,
}

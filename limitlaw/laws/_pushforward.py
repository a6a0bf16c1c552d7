"""The image of a Gaussian under a known map."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from .. import _arguments
from ..numerics import Estimate, gaussian_expectation
from ._empirical import Empirical
from ._law import Law, checked_moment, root_of, shape_of

_CHUNK = 2**16
_DRAWS = 2**18


class Pushforward(Law):
    """The law of `T(xi)`, `xi` a standard normal of `R^dimension`: what a tensor program becomes in the limit.

    `transform` maps points `(dimension, N)` to values `(N,)`, or `(k, N)` for a joint law, in float64. Moments are
    Gaussian integrals (quadrature up to three dimensions, quasi-Monte Carlo above), each with its error.
    A map has no density formula: pdf, cdf, quantiles and entropy are those of 2^18 draws (`Empirical`), with their errors.
    `quadrature_error` is the largest error among the numbers that define the transform, and `replicates` makes laws with
    those numbers moved by their errors: what they do to a moment is part of its standard error.

    !!! Example

        >>> from limitlaw.laws import Pushforward
        >>> law = Pushforward(lambda xi: xi[0] * xi[1], 2)  # a product of two normals
        >>> print(f"{law.var():.9f} {law.kurtosis():.9f}")
        1.000000000 6.000000000
    """

    def __init__(
        self,
        transform: Callable[[jax.Array], jax.Array],
        dimension: int,
        *,
        quadrature_error: float = 0.0,
        replicates: Callable[[], "list[Pushforward]"] = list,
    ) -> None:
        self.name = "limit"
        self.method = "draws"
        self.transform = transform
        self.dimension = dimension
        self.quadrature_error = quadrature_error
        self._replicates = functools.cache(replicates)
        with jax.enable_x64(True):
            self.event_shape = jax.eval_shape(transform, jax.ShapeDtypeStruct((dimension, 1), jnp.float64)).shape[:-1]

    def __repr__(self) -> str:
        return f"Pushforward(dimension={self.dimension}, event_shape={self.event_shape})"

    def mean(self) -> Any:
        """The mean: an `Estimate`, or an array for a joint law (its error by `error("mean")`)."""
        return self._moment("mean")

    def cov(self) -> np.ndarray:
        """The covariance matrix of a joint law; its error by `error("cov")`."""
        return self._covariance()[0]

    def var(self) -> Any:
        """The variance: an `Estimate`, or an array for a joint law (its error by `error("var")`)."""
        return self._moment("var")

    def std(self) -> Any:
        """The standard deviation."""
        var = self.var()
        return root_of(var) if isinstance(var, Estimate) else np.sqrt(var)

    def kurtosis(self) -> Any:
        """Excess kurtosis, `E (y - m)^4 / var^2 - 3`."""
        return self._moment("kurtosis")

    def moment(self, order: int, kind: str = "raw") -> Estimate:
        """`E y^order`, by the same integral as the others."""
        order = checked_moment(order, kind)
        self._check_single("moment")
        mean = float(self._mean()[0]) if kind != "raw" else 0.0
        scale = float(self.std()) if kind == "standardized" else 1.0
        value, error = gaussian_expectation(lambda xi: ((self.transform(xi) - mean) / scale) ** order, self.dimension)
        return _settled(float(value), float(error), abs(float(value)) if kind != "standardized" else 1.0)

    def error(self, what: str, x: Any = None) -> Any:
        """The standard error of "mean", "var", "cov" or "kurtosis", in the shape of that; or of "pdf", ... at `x`."""
        if x is not None:
            return super().error(what, x)
        compute = self._integrals[_arguments.one_of("what", what, self._integrals)]
        value, error = compute(self)
        if not self.quadrature_error:
            return error
        moved = [compute(law)[0] - value for law in self._replicates()]
        return np.hypot(error, np.sqrt(np.mean(np.square(moved), axis=0))) if moved else error

    def _moment(self, what: str) -> Estimate | np.ndarray:
        value = self._integrals[what](self)[0]
        if self.event_shape:
            return value
        scale = {"mean": np.sqrt(self._variance()[0]), "var": value}.get(what, max(1.0, abs(float(value))))
        return _settled(float(value), float(self.error(what)), float(scale))

    def sample(self, shape: int | Sequence[int] = (), *, seed: int = 0) -> np.ndarray:
        """Independent draws, float64: `shape`, followed by `(k,)` for a joint law."""
        shape = shape_of(shape)
        rng = np.random.default_rng(_arguments.seed(seed))
        count = int(np.prod(shape))
        parts = []
        with jax.enable_x64(True):
            for start in range(0, count, _CHUNK):
                normals = rng.standard_normal((min(_CHUNK, count - start), self.dimension))
                parts.append(np.asarray(self.transform(jnp.asarray(normals.T))).T)
        return (
            np.concatenate(parts).reshape(*shape, *self.event_shape) if parts else np.empty((*shape, *self.event_shape))
        )

    def _check_single(self, what: str) -> None:
        if self.event_shape:
            raise ValueError(
                f"{what}: this is the joint law of {self.event_shape[0]} variables; ask for the law of one, or use sample()."
            )

    @functools.cached_property
    def drawn(self) -> Empirical:
        """2^18 draws of the law."""
        self._check_single("the density, cdf or quantiles")
        return Empirical(self.sample(_DRAWS, seed=0))

    def entropy(self) -> Estimate:
        """Of the draws, from nearest neighbours."""
        return self.drawn.entropy()

    def left_out(self, what: str, x: np.ndarray) -> np.ndarray:
        """By batches of the draws."""
        return self.drawn.left_out(what, x)

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

    def _mean(self) -> tuple[np.ndarray, np.ndarray]:
        return gaussian_expectation(self.transform, self.dimension)

    def _central(self, orders: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        mean = self._mean()[0][..., None]
        return gaussian_expectation(
            lambda xi: jnp.stack([(self.transform(xi) - mean) ** order for order in orders]), self.dimension
        )

    def _variance(self) -> tuple[np.ndarray, np.ndarray]:
        value, error = self._central((2,))
        return np.asarray(value[0]), np.asarray(error[0])

    def _covariance(self) -> tuple[np.ndarray, np.ndarray]:
        mean = self._mean()[0][..., None]

        def products(xi: jax.Array) -> jax.Array:
            centred = jnp.atleast_2d(self.transform(xi) - mean)
            return centred[:, None] * centred[None]

        return gaussian_expectation(products, self.dimension)

    def _excess_kurtosis(self) -> tuple[np.ndarray, np.ndarray]:
        (var, fourth), (var_error, fourth_error) = self._central((2, 4))
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(var > 0, fourth / var**2 - 3, 0.0)
            error = np.where(var > 0, np.hypot(fourth_error / var**2, 2 * fourth * var_error / var**3), 0.0)
        return value, error

    _integrals: ClassVar[dict[str, Callable[[Any], tuple[np.ndarray, np.ndarray]]]] = {
        "mean": _mean,
        "var": _variance,
        "cov": _covariance,
        "kurtosis": _excess_kurtosis,
    }


def _settled(value: float, error: float, scale: float) -> Estimate:
    """Quadrature that agrees to rounding, on the scale of what is computed, has converged, and says so."""
    return Estimate(value, 0.0 if error <= 1e-9 * scale else error)

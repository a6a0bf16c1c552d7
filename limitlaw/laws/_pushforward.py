"""The image of a Gaussian under a known map."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from .. import _arguments
from ..numerics import Estimate, gaussian_expectation
from ._scale_mixture import root_of

_CHUNK = 2**16


class Pushforward:
    """The law of `T(xi)`, `xi` a standard normal of `R^dimension`: what a tensor program becomes in the limit.

    `transform` maps points `(dimension, N)` to values `(N,)`, or `(k, N)` for a joint law, in float64. Moments are
    Gaussian integrals (quadrature up to three dimensions, quasi-Monte Carlo above), each with its error.
    `quadrature_error` is the largest error among the numbers that define the transform.

    !!! Example

        >>> from limitlaw.laws import Pushforward
        >>> law = Pushforward(lambda xi: xi[0] * xi[1], 2)  # a product of two normals
        >>> print(f"{law.var():.9f} {law.kurtosis():.9f}")
        1.000000000 6.000000000
    """

    def __init__(
        self, transform: Callable[[jax.Array], jax.Array], dimension: int, *, quadrature_error: float = 0.0
    ) -> None:
        self.transform = transform
        self.dimension = dimension
        self.quadrature_error = quadrature_error
        with jax.enable_x64(True):
            self.event_shape = jax.eval_shape(transform, jax.ShapeDtypeStruct((dimension, 1), jnp.float64)).shape[:-1]

    def __repr__(self) -> str:
        return f"Pushforward(dimension={self.dimension}, event_shape={self.event_shape})"

    def mean(self) -> Estimate | np.ndarray:
        """The mean: an `Estimate`, or an array for a joint law (its error by `error("mean")`)."""
        value, error = gaussian_expectation(self.transform, self.dimension)
        return value if self.event_shape else _settled(value, error)

    def cov(self) -> np.ndarray:
        """The covariance matrix of a joint law."""
        return self._cov()[0]

    def var(self) -> Estimate | np.ndarray:
        """The variance: an `Estimate`, or an array for a joint law (its error by `error("var")`)."""
        value, error = self._central((2,))
        return value[0] if self.event_shape else _settled(value[0], error[0])

    def std(self) -> Estimate | np.ndarray:
        """The standard deviation."""
        var = self.var()
        return root_of(var) if isinstance(var, Estimate) else np.sqrt(var)

    def kurtosis(self) -> Estimate | np.ndarray:
        """Excess kurtosis, `E (y - m)^4 / var^2 - 3`."""
        value, error = self._kurtosis()
        return value if self.event_shape else _settled(value, error)

    def error(self, what: str) -> np.ndarray:
        """The standard error of `mean`, `var`, `cov` or `kurtosis` of a joint law."""
        _arguments.one_of("what", what, ["mean", "var", "cov", "kurtosis"])
        if what == "mean":
            return gaussian_expectation(self.transform, self.dimension)[1]
        if what == "cov":
            return self._cov()[1]
        return self._kurtosis()[1] if what == "kurtosis" else self._central((2,))[1][0]

    def sample(self, shape: int | tuple[int, ...] = (), *, seed: int = 0) -> np.ndarray:
        """Independent draws, float64: `shape`, followed by `(k,)` for a joint law."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
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

    def _central(self, orders: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        mean = gaussian_expectation(self.transform, self.dimension)[0][..., None]
        return gaussian_expectation(
            lambda xi: jnp.stack([(self.transform(xi) - mean) ** order for order in orders]), self.dimension
        )

    def _cov(self) -> tuple[np.ndarray, np.ndarray]:
        mean = gaussian_expectation(self.transform, self.dimension)[0][..., None]

        def products(xi: jax.Array) -> jax.Array:
            centred = jnp.atleast_2d(self.transform(xi) - mean)
            return centred[:, None] * centred[None]

        return gaussian_expectation(products, self.dimension)

    def _kurtosis(self) -> tuple[np.ndarray, np.ndarray]:
        (var, fourth), (var_error, fourth_error) = self._central((2, 4))
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(var > 0, fourth / var**2 - 3, 0.0)
            error = np.where(var > 0, np.hypot(fourth_error / var**2, 2 * fourth * var_error / var**3), 0.0)
        return value, error


def _settled(value: np.ndarray, error: np.ndarray) -> Estimate:
    """Quadrature that agrees to rounding has converged, and says so."""
    converged = error <= 1e-9 * max(1.0, abs(float(value)))
    return Estimate(float(value), 0.0 if converged else float(error))

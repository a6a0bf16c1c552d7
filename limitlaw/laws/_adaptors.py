"""Laws as the distributions of other libraries."""

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import stats

from ._gaussian import Gaussian
from ._law import Law
from ._scale_mixture import ScaleMixture

_METHODS = {
    "_pdf": "pdf",
    "_logpdf": "logpdf",
    "_cdf": "cdf",
    "_logcdf": "logcdf",
    "_sf": "ccdf",
    "_logsf": "logccdf",
    "_ppf": "icdf",
    "_isf": "iccdf",
}
if TYPE_CHECKING:
    _Continuous: Any = object  # the stubs of scipy do not know distributions without shape parameters
else:
    _Continuous = stats.rv_continuous


class _ScipyLaw(_Continuous):
    """A law as a distribution of scipy's old interface.

    To freeze a distribution, scipy creates a second instance of its class with the arguments of `rv_continuous`, which
    has no place for a law. So every law gets a subclass with the law as an attribute, and unpickling creates it again.
    """

    law: ClassVar[Law]

    def __reduce__(self) -> tuple[Any, ...]:
        return _distribution_of, (self.law,)

    def _stats(self) -> tuple[float, float, float, float]:
        law = self.law
        return float(law.mean()), float(law.variance()), float(law.skewness()), float(law.kurtosis())

    def _munp(self, n: int) -> float:
        return float(self.law.moment(n))

    def _entropy(self) -> float:
        return float(self.law.entropy())

    def _rvs(self, *, size: Any = None, random_state: Any = None) -> Any:
        if not isinstance(random_state, np.random.Generator):  # the older RandomState
            random_state = np.random.default_rng(random_state.randint(2**31))
        return self.law.sample(size if size is not None else (), rng=random_state)


def _method(name: str) -> Any:
    def call(self: _ScipyLaw, x: Any) -> Any:
        return getattr(self.law, name)(x)

    return call


for _theirs, _ours in _METHODS.items():
    setattr(_ScipyLaw, _theirs, _method(_ours))


def _distribution_of(law: Law) -> Any:
    return type("ScipyLaw", (_ScipyLaw,), {"law": law})(name=type(law).__name__)


def as_scipy(law: Law) -> Any:
    """The law as a frozen `scipy.stats` distribution."""
    return _distribution_of(law)()


def as_numpyro(law: Law) -> Any:
    """The law as a numpyro distribution: a normal, or a mixture of normals with common mean 0."""
    try:
        import jax
        import jax.numpy as jnp
        import numpyro.distributions as dist
    except ImportError:
        raise ImportError("law.numpyro() needs numpyro, which is not installed. Run pip install numpyro.") from None
    if isinstance(law, Gaussian):
        return dist.Normal(float(law.mean()), float(law.standard_deviation()))
    if not isinstance(law, ScaleMixture):
        raise TypeError(
            f"law.numpyro() is defined for Gaussian and ScaleMixture only. JAX cannot trace the density of {law!r}. "
            f"Use law.scipy()."
        )
    if law.mixture.zero:
        raise ValueError("law.numpyro() needs a density, but this law has a point mass at 0. Use law.sample().")
    values, weights = law.mixture.values, law.mixture.weights
    positive = np.maximum(weights, 0.0)

    distribution: Any = dist.Distribution

    class ScaleMixtureDistribution(distribution):
        """`sqrt(v) z` over the atoms of `v`, in the dtype of the given values."""

        support = dist.constraints.real

        def __repr__(self) -> str:
            return f"{law!r}.numpyro()"

        def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
            key_variance, key_normal = jax.random.split(key)
            steps = jnp.asarray(np.cumsum(positive) / positive.sum())
            uniform = jax.random.uniform(key_variance, sample_shape, steps.dtype)
            picked = jnp.minimum(jnp.searchsorted(steps, uniform, side="right"), steps.size - 1)
            return jnp.sqrt(jnp.asarray(values))[picked] * jax.random.normal(key_normal, sample_shape, steps.dtype)

        def log_prob(self, value: Any, intermediates: Any = None) -> Any:
            del intermediates
            y = jnp.asarray(value)
            v = jnp.asarray(values, y.dtype)
            factors = jnp.asarray(weights / np.sqrt(2 * np.pi * values), y.dtype)
            return jax.scipy.special.logsumexp(-(y[..., None] ** 2) / (2 * v), axis=-1, b=factors)

        @property
        def mean(self) -> Any:
            return jnp.zeros(())

        @property
        def variance(self) -> Any:
            return jnp.asarray(float(law.variance()))

    return ScaleMixtureDistribution(batch_shape=(), event_shape=())

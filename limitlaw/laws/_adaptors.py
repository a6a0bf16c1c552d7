"""Laws as the distributions of other libraries."""

from typing import Any

import numpy as np
from scipy import stats

from ._gaussian import Gaussian
from ._law import Law
from ._scale_mixture import ScaleMixture

_SCIPY_NAMES = {
    "_pdf": "pdf",
    "_logpdf": "logpdf",
    "_cdf": "cdf",
    "_logcdf": "logcdf",
    "_sf": "ccdf",
    "_logsf": "logccdf",
    "_ppf": "icdf",
    "_isf": "iccdf",
}
_Continuous: Any = stats.rv_continuous  # its stubs do not know that a law has no shape parameters


class _ScipyLaw(_Continuous):
    """A law under the names of `scipy.stats`."""

    def __init__(self, law: Law) -> None:
        super().__init__(name=type(law).__name__)
        self._law = law

    def _updated_ctor_param(self) -> dict[str, Any]:
        return {"law": self._law}

    def _stats(self) -> tuple[float, float, float, float]:
        law = self._law
        return float(law.mean()), float(law.var()), float(law.skewness()), float(law.kurtosis())

    def _munp(self, n: int) -> float:
        return float(self._law.moment(n))

    def _entropy(self) -> float:
        return float(self._law.entropy())

    def _rvs(self, *, size: Any = None, random_state: Any = None) -> Any:
        seed = int(random_state.integers(2**63)) if hasattr(random_state, "integers") else random_state.randint(2**31)
        return self._law.sample(size if size is not None else (), seed=seed)


def _named(ours: str) -> Any:
    return lambda self, x: getattr(self._law, ours)(x)


for _theirs, _ours in _SCIPY_NAMES.items():
    setattr(_ScipyLaw, _theirs, _named(_ours))


def as_scipy(law: Law) -> Any:
    """The law as a frozen `scipy.stats` distribution."""
    return _ScipyLaw(law)()


def as_numpyro(law: Law) -> Any:
    """The law as a numpyro distribution: a normal, or a mixture of normals with common mean 0."""
    try:
        import jax
        import jax.numpy as jnp
        import numpyro.distributions as dist
    except ImportError:
        raise ImportError("law.numpyro() needs numpyro, which is not installed; pip install numpyro.") from None
    if isinstance(law, Gaussian):
        return dist.Normal(float(law.mean()), float(law.std()))
    if not isinstance(law, ScaleMixture):
        raise TypeError(
            f"law.numpyro(): {type(law).__name__} has no density to trace; it is there for Gaussian and ScaleMixture."
        )
    if law.mixture.zero:
        raise ValueError("law.numpyro(): the law has a point mass at 0, so it has no density.")
    values, weights = law.mixture.values, law.mixture.weights
    positive = np.maximum(weights, 0.0)

    distribution: Any = dist.Distribution

    class Mixture(distribution):
        """`sqrt(v) z` over the atoms of `v`; traceable, in the dtype of what it meets."""

        support = dist.constraints.real

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
            return jnp.asarray(float(law.var()))

    return Mixture(batch_shape=(), event_shape=())

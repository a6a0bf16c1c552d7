import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from same_law import FALSE_ALARM, assert_mean

from limitlaw.numerics.chi import chi_square_mean

DOFS = [1, 2, 3, 4, 5, 9, 16, 33, 64, 257, 1024, 10_000, 1_000_000]


@pytest.mark.parametrize("dof", DOFS)
def test_is_the_quantile_transform(dof):
    z = np.linspace(-5.6, 5.6, 4001)
    exact = (
        np.where(
            z < 0, scipy.stats.chi2.ppf(scipy.stats.norm.cdf(z), dof), scipy.stats.chi2.isf(scipy.stats.norm.sf(z), dof)
        )
        / dof
    )
    ours = np.asarray(chi_square_mean(jnp.asarray(z, jnp.float32), float(dof)), np.float64)
    assert np.abs(np.cbrt(ours) - np.cbrt(exact)).max() < 1e-6


@pytest.mark.parametrize("dof", [1, 2, 3, 7, 64])
def test_draws_follow_the_law(dof):
    draws = np.asarray(chi_square_mean(jax.random.normal(jax.random.key(dof), (1_000_000,)), dof), np.float64) * dof
    assert scipy.stats.kstest(draws, scipy.stats.chi2(dof).cdf).pvalue > FALSE_ALARM
    assert_mean(draws, dof)
    assert_mean((draws - dof) ** 2, 2 * dof, catches=1.05)


def test_the_ends_of_the_range():
    z = jax.random.normal(jax.random.key(0), (100,))
    assert np.array_equal(chi_square_mean(z, jnp.inf), np.ones(100))
    assert np.array_equal(chi_square_mean(z, 0.0), np.zeros(100))
    assert np.array_equal(chi_square_mean(z, -3.0), np.zeros(100))
    assert float(chi_square_mean(jnp.asarray([-50.0]), 1.0)[0]) >= 0.0


def test_degrees_of_freedom_run_along_leading_axes():
    z = jax.random.normal(jax.random.key(0), (3, 50))
    together = chi_square_mean(z, jnp.asarray([5.0, 4.0, -1.0]))
    for row, dof in enumerate([5.0, 4.0, -1.0]):
        assert np.allclose(together[row], chi_square_mean(z[row], dof), rtol=3e-6)  # cube roots are rounded to 1e-6

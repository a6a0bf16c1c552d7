"""Laws against closed forms, with errors that mean what they say."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from same_law import FALSE_ALARM, assert_estimate, assert_mean

from limitlaw import Estimate
from limitlaw.laws import Empirical, Gaussian, JointPushforward, Pushforward, ScaleMixture


def chi_square_mixture(dof, draws, seed):
    """`v = chi2(dof)/dof`: variance 1, excess kurtosis 6/dof."""
    return ScaleMixture(np.random.default_rng(seed).chisquare(dof, draws) / dof)


@pytest.mark.parametrize("dof", [1, 4, 30])
def test_moments_of_a_scale_mixture(dof):
    law = chi_square_mixture(dof, 2_000_000, seed=dof)
    assert law.mean() == 0.0
    assert_estimate(law.variance(), 1.0)
    assert_estimate(law.standard_deviation(), 1.0)
    assert_estimate(law.kurtosis(), 6 / dof, catches=1.05)


def test_stated_errors_cover_the_truth():
    """Over 100 independent laws the z-scores of each moment have mean 0 and variance 1, as a chi-square test allows."""
    for moment, truth in (("variance", 1.0), ("standard_deviation", 1.0), ("kurtosis", 0.6)):
        z = np.array([getattr(chi_square_mixture(10, 20_000, seed), moment)().z(truth) for seed in range(100)])
        assert scipy.stats.chi2(100).sf((z**2).sum()) > FALSE_ALARM
        assert scipy.stats.chi2(100).cdf((z**2).sum()) > FALSE_ALARM


def test_half_the_draws_raise_errors_by_the_square_root_of_two():
    v = np.random.default_rng(0).chisquare(10, 400_000) / 10
    for moment in ("variance", "standard_deviation", "kurtosis"):
        ratio = getattr(ScaleMixture(v[:200_000]), moment)().stderr / getattr(ScaleMixture(v), moment)().stderr
        assert abs(ratio / np.sqrt(2) - 1) < 0.2


def test_samples_of_a_scale_mixture():
    """v = 1 / gamma(3/2, 3/2): Student's t with three degrees of freedom."""
    law = ScaleMixture(1 / np.random.default_rng(1).gamma(1.5, 1 / 1.5, 500_000))
    draws = law.sample((400, 500), rng=2)
    assert draws.shape == (400, 500)
    assert scipy.stats.kstest(draws.ravel(), scipy.stats.t(3).cdf).pvalue > FALSE_ALARM
    assert np.array_equal(law.sample(5, rng=2), law.sample(5, rng=2))


def test_gaussian():
    law = Gaussian(mean=1.0, variance=Estimate(4.0, 0.4))
    assert law.standard_deviation().stderr == pytest.approx(0.1)
    assert_mean(law.sample(1_000_000, rng=1), 1.0)
    assert_mean((law.sample(1_000_000, rng=1) - 1) ** 2, 4.0)


def test_pushforward_of_one_normal():
    """exp of a normal: the lognormal's own moments."""
    law = Pushforward(lambda xi: jnp.exp(0.5 * xi[0]), 1)
    truth = scipy.stats.lognorm(0.5)
    assert law.mean() == pytest.approx(truth.mean(), rel=1e-10)
    assert law.variance() == pytest.approx(truth.var(), rel=1e-9)
    assert law.standard_deviation() == pytest.approx(truth.std(), rel=1e-9)
    assert law.kurtosis() == pytest.approx(float(truth.stats("k")), rel=1e-8)
    assert scipy.stats.kstest(law.sample(200_000, rng=1), truth.cdf).pvalue > FALSE_ALARM


def test_pushforward_in_many_dimensions_states_an_error():
    law = Pushforward(lambda xi: (xi**2).sum(axis=0), 6)  # chi-square
    for moment, truth in ((law.mean(), 6.0), (law.variance(), 12.0), (law.kurtosis(), 2.0)):
        assert moment.stderr > 0
        assert abs(moment.z(truth)) < 8
    assert law.sample((3, 4)).shape == (3, 4)


def test_joint_pushforward():
    law = JointPushforward(lambda xi: jnp.stack([xi[0], xi[0] + 2 * xi[1]]), 2)
    assert np.allclose(law.mean(), [0, 0], atol=1e-12)
    assert np.allclose(law.cov(), [[1, 1], [1, 5]], rtol=1e-9)
    assert np.allclose(law.variance(), [1, 5], rtol=1e-9)
    assert np.allclose(law.kurtosis(), [0, 0], atol=1e-7)
    assert law.sample(7).shape == (7, 2)
    assert np.allclose(np.cov(law.sample(200_000, rng=3).T), [[1, 1], [1, 5]], atol=0.1)
    assert law.error("cov").shape == (2, 2)
    with pytest.raises(ValueError, match="what='skew'"):
        law.error("skew")


def test_standardised_moments_of_low_order_have_no_unit():
    samples = Empirical(np.array([1.0, 2.0, 5.0, 9.0, 4.0, 3.0]))
    assert samples.moment(0, kind="standardized") == 1
    assert samples.moment(1, kind="standardized") == pytest.approx(0, abs=1e-12)

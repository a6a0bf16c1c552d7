"""Laws where something nearly goes wrong: several scales, point masses, few samples, constants."""

from math import inf

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import limitlaw as ll
from limitlaw.laws import Empirical, Gaussian, GaussianMixture, ScaleMixture
from limitlaw.laws.normal_scores import cdf_by_spline

TWO_SCALES = ScaleMixture([1e-4, 1e4], weights=[0.5, 0.5])


def two_scales(x):
    return 0.5 * scipy.stats.norm.pdf(x, scale=1e-2) + 0.5 * scipy.stats.norm.pdf(x, scale=1e2)


def test_a_law_on_two_scales():
    entropy = (
        2
        * scipy.integrate.quad(
            lambda u: -np.exp(u) * two_scales(np.exp(u)) * np.log(two_scales(np.exp(u))),
            -40,
            7,
            limit=500,
            epsabs=1e-12,
        )[0]
    )
    assert TWO_SCALES.entropy() == pytest.approx(entropy, rel=1e-8)
    many = np.linspace(1e-3, 1 - 1e-3, 2001)
    assert np.allclose(TWO_SCALES.cdf(TWO_SCALES.icdf(many)), many, atol=1e-9)
    x = np.array([-50.0, 0.003, 0.1, 200.0])
    assert np.allclose(cdf_by_spline(TWO_SCALES, x), TWO_SCALES.cdf(x), atol=1e-7)
    copies = ScaleMixture([1e-4, 1e4], weights=[0.9, 0.1], copies=2)
    assert scipy.stats.kstest(copies.sample(100_000, rng=1), copies.cdf).pvalue > 1e-6


def test_distances_across_scales():
    narrow, wide = Gaussian(variance=1e-12), Gaussian(variance=1e12)
    assert ll.kl(narrow, wide) == pytest.approx(0.5 * (1e-24 - 1 + np.log(1e24)), rel=1e-9)
    assert ll.tv(narrow, wide) == pytest.approx(1.0, abs=1e-5)


def test_a_density_that_is_infinite_at_zero():
    """One token, head dimension 1: the product of two normals, with a Bessel function for a density."""
    law = ll.Network(ll.GramInputs([[1.0]]), ll.Attention(head_dim=1)).law()
    x = np.array([1e-3, 0.1, 1.0, 20.0])
    assert np.allclose(law.pdf(x), scipy.special.k0(x) / np.pi, rtol=1e-6)
    truth = (
        -2
        * scipy.integrate.quad(
            lambda u: np.exp(u) * scipy.special.k0(np.exp(u)) / np.pi * np.log(scipy.special.k0(np.exp(u)) / np.pi),
            -40,
            5,
            limit=500,
        )[0]
    )
    assert law.entropy() == pytest.approx(truth, rel=1e-6)


def test_a_point_mass_is_where_it_is():
    law = ScaleMixture([0.0, 2.0], weights=[0.3, 0.7], allow_zero=True)
    assert np.array_equal(law.icdf([0.36, 0.5, 0.64]), [0, 0, 0])
    assert law.cdf(law.icdf(0.2)) == pytest.approx(0.2)
    assert law.entropy() == -inf
    drawn = ScaleMixture(np.repeat([0.0, 2.0], [300, 700]), allow_zero=True)
    assert np.allclose(drawn.leave_one_batch_out("cdf", np.zeros(1)).mean(), drawn.cdf(0.0), atol=1e-3)
    with pytest.raises(ValueError, match="method='fourier' cannot be used: variances near 0"):
        ScaleMixture([0.0, 2.0], weights=[0.3, 0.7], allow_zero=True, method="fourier").pdf(0.5)


@pytest.mark.parametrize("std", [300.0, 3000.0])
def test_very_sharp_attention(std):
    """Two tokens, a sigmoid of a wide normal: `E v = 1 - 2 E p(1 - p)`, and `p(1 - p)` has integral 1 over its argument."""
    law = ll.Network(ll.GramInputs(np.eye(2)), ll.Attention(query_std=std)).law()
    assert law.variance() == pytest.approx(1 - 2 / (std * np.sqrt(2)) / np.sqrt(2 * np.pi), abs=3e-8)


def test_constant_variances_at_finite_width():
    law = ll.Network(ll.GramInputs([[0.7]]), ll.Attention(head_dim=inf)).law(width=8, samples=1000)
    assert isinstance(law, Gaussian)
    assert law.variance() == pytest.approx(0.7, rel=1e-6)


@pytest.mark.filterwarnings("ignore::limitlaw.ResolutionWarning")
@pytest.mark.full
def test_laws_of_one_seed_are_independent():
    """A deep network at width 10^5 and at infinity: nearly one law, whose estimated divergence is 0 on average."""
    net = ll.Network(ll.GramInputs(np.eye(2)), ll.Attention(), ll.Attention())
    # Near 0 the stated error varies as much as the estimate, so it is the spread over seeds that tells chance from bias:
    # coupled draws would make every estimate negative.
    values = [
        float(ll.kl(net.law(width=10**5, samples=2**13, seed=seed), net.law(samples=2**13, seed=seed)))
        for seed in range(12)
    ]
    assert abs(np.mean(values)) < 5 * np.std(values, ddof=1) / len(values) ** 0.5
    samples, law = net.sample(2**13, width=7, seed=0), net.law(width=7, samples=2**13, seed=0)
    assert abs(np.corrcoef(samples**2, law.sample(2**13, rng=0) ** 2)[0, 1]) < 0.1


def test_samples_and_their_copies():
    x = np.random.default_rng(0).normal(size=500)
    with pytest.warns(ll.ResolutionWarning):
        assert ll.wasserstein(x, x.copy()) == 0
    with pytest.warns(ll.ResolutionWarning):
        assert ll.wasserstein(x, x + 1e-4) == pytest.approx(1e-4)
    pair = np.array([-0.6745, 0.6745])  # two halves of a normal law around its quartiles
    truth = 4 * scipy.integrate.quad(lambda y: abs(y - 0.6745) * scipy.stats.norm.pdf(y), 0, 10)[0] / 2
    with pytest.warns(ll.ResolutionWarning):
        assert ll.wasserstein(pair, Gaussian()) == pytest.approx(truth, rel=0.05)
    assert ll.ks(x, Gaussian(mean=100.0)).stderr > 0


def test_the_degrees_of_freedom_of_a_gaussian_are_kept():
    estimate = ll.kl(Gaussian(variance=ll.Estimate(1.0, 0.02, 31)), Gaussian(variance=2.0))
    assert estimate.dof == pytest.approx(31, abs=1)
    assert estimate.stderr == pytest.approx(0.02 * 0.25, rel=0.05)  # |1/2q - 1/2p| at p = 1, q = 2
    law = Gaussian(mean=ll.Estimate(2.0, 0.1), variance=ll.Estimate(1.0, 0.02))
    assert law.moment(3) == pytest.approx(14.0)
    assert law.moment(3).stderr == pytest.approx(np.hypot(3 * 5 * 0.1, 3 * 2 * 0.02))


def test_batches_of_covariances_are_even():
    rng = np.random.default_rng(0)
    errors = [
        np.mean([GaussianMixture(rng.chisquare(4, (n, 1, 1)) / 4).error("pdf", [0.3]) for _ in range(40)]) * np.sqrt(n)
        for n in (256, 300, 511, 512)
    ]
    assert np.ptp(errors) < 0.2 * np.mean(errors)


@pytest.mark.parametrize(
    "bad, match",
    [
        (lambda: Empirical([1.0, 1.0, 1.0]).kurtosis(), "takes at least 8 samples"),
        (lambda: Empirical([1.0] * 20).kurtosis(), "not all equal"),
        (lambda: Gaussian(variance=1 + 0j), r"variance=\(1\+0j\) must be a finite number"),
        (lambda: Gaussian().pdf(1 + 0j), "x=.* must be a real number"),
        (lambda: Gaussian().pdf(None), "x=None must be a real number"),
        (lambda: Gaussian().interval([0.5, 0.9]), "must be one number"),
        (lambda: Gaussian().moment(400), "order=400 gives a moment beyond"),
        (lambda: GaussianMixture([[[-1.0]], [[1.0]]]), r"covariances\[0\] has the eigenvalue -1"),
        (lambda: GaussianMixture([np.eye(2)] * 2).pdf(["a", "b"]), "must be a real number or an array"),
    ],
)
def test_refusals(bad, match):
    with pytest.raises((ValueError, TypeError), match=match):
        bad()


def test_far_beyond_every_tail():
    for law in (
        Gaussian(),
        ScaleMixture([0.5, 1.5], weights=[0.5, 0.5]),
        ScaleMixture([0.5, 1.5], [0.5, 0.5], copies=3),
    ):
        assert law.pdf(1e200) == 0
        assert law.logccdf(1e200) == -np.inf
        assert law.error("logpdf", 100.0) == 0

"""The joint law of several tokens, and empirical laws."""

from functools import partial

import numpy as np
import pytest
import scipy.stats

from limitlaw.laws import Empirical, GaussianMixture
from limitlaw.laws.normal_scores import cdf_by_spline

SHAPE = np.array([[1.0, 0.6, 0.0], [0.6, 2.0, -0.3], [0.0, -0.3, 0.5]])
DOF = 6


def student(k):
    """Multivariate t: a Gaussian with covariance `SHAPE dof / chi2(dof)`, by the trapezoid rule in the logarithm."""
    t = np.linspace(-12, 3.5, 900)
    weights = np.exp(DOF / 2 * (t - np.exp(t)))
    return GaussianMixture(SHAPE[:k, :k] / np.exp(t)[:, None, None], weights), scipy.stats.multivariate_t(
        np.zeros(k), SHAPE[:k, :k], df=DOF
    )


POINTS = np.array([[0.2, -0.4, 0.1], [1.5, 2.0, -1.0], [-6.0, 4.0, 2.0]])


@pytest.mark.parametrize("k", [1, 2, 3])
def test_densities_of_a_multivariate_student(k):
    law, twin = student(k)
    assert np.allclose(law.logpdf(POINTS[:, :k]), twin.logpdf(POINTS[:, :k]), rtol=1e-9)
    assert np.allclose(law.pdf(POINTS[:, :k].reshape(3, 1, k)), twin.pdf(POINTS[:, :k])[:, None], rtol=1e-8)
    assert np.allclose(law.cov(), SHAPE[:k, :k] * DOF / (DOF - 2), rtol=1e-6)
    assert np.allclose(law.kurtosis(), 6 / (DOF - 4), rtol=1e-3)
    assert law.error("pdf", POINTS[:, :k]).tolist() == [0, 0, 0]


def test_orthants():
    law, twin = student(3)
    gap = np.abs(law.cdf(POINTS) - twin.cdf(POINTS, random_state=0, maxpts=10**6))
    assert gap.max() < 5e-4
    assert np.all(gap < 6 * law.error("cdf", POINTS) + 2e-4)
    assert np.allclose(law.ccdf(-POINTS), law.cdf(POINTS))


def test_draws_and_entropy():
    law, twin = student(2)
    y = law.sample((100, 500), rng=3)
    assert y.shape == (100, 500, 2)
    y = y.reshape(-1, 2)
    form = np.einsum("ni,ij,nj->n", y, np.linalg.inv(SHAPE[:2, :2]), y) / 2
    assert scipy.stats.kstest(form, scipy.stats.f(2, DOF).cdf).pvalue > 1e-6
    assert abs(law.entropy().z(float(twin.entropy()))) < 5
    t = np.array([0.3, -0.7])
    assert law.cf(t) == pytest.approx(np.exp(1j * y @ t).mean(), abs=0.02)
    assert scipy.stats.kstest(y[:, 1], partial(cdf_by_spline, law.marginal(1))).pvalue > 1e-6


def test_errors_over_draws():
    """Densities from 2,000 draws of the scale: z-scores against the truth have variance one."""
    twin, z = student(2)[1], []
    for seed in range(60):
        scale = DOF / np.random.default_rng(seed).chisquare(DOF, 2000)
        law = GaussianMixture(SHAPE[:2, :2] * scale[:, None, None])
        point = np.array([0.5, 0.8])
        z.append((law.logpdf(point) - twin.logpdf(point)) / law.error("logpdf", point))
        assert law.error("pdf", point) == pytest.approx(law.error("logpdf", point) * law.pdf(point))
    assert abs(np.mean(z)) < 0.6
    assert 0.7 < np.std(z) < 1.3


def test_a_joint_plot():
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    law, _ = student(2)
    assert law.plot(axes) is axes
    assert axes.get_xlabel() == "output of the first token"
    plt.close(figure)
    with pytest.raises(ValueError, match="is defined for two tokens"):
        student(3)[0].plot()


@pytest.mark.parametrize(
    "bad, match",
    [
        (lambda: GaussianMixture(np.eye(2)), "3 axes"),
        (lambda: GaussianMixture(np.ones((3, 2, 1))), r"must be \(draws, k, k\)"),
        (lambda: GaussianMixture([[[1.0, 0.5], [0.0, 1.0]]] * 2), "not symmetric"),
        (lambda: GaussianMixture([np.eye(2)]), "one draw"),
        (lambda: GaussianMixture([np.eye(2)], weights=[0.5, 0.5]), "weights has shape"),
        (lambda: GaussianMixture([np.ones((2, 2))] * 2).logpdf([0.0, 0.0]), r"covariances\[0\] is singular"),
        (lambda: student(2)[0].pdf([1.0, 2.0, 3.0]), "whose last axis has length 2"),
        (lambda: student(2)[0].marginal(2), "i=2"),
        (lambda: student(2)[0].error("mean"), "what='mean'"),
        (lambda: student(2)[0].error("pdf"), "needs points"),
    ],
)
def test_refusals(bad, match):
    with pytest.raises((ValueError, TypeError), match=match):
        bad()


# --- samples --------------------------------------------------------------------------------------

X = np.random.default_rng(0).gamma(3.0, size=40_000)
LAW = Empirical(X)
TWIN = scipy.stats.gamma(3.0)


def test_moments_of_samples():
    mean, var, skewness, kurtosis = (float(m) for m in TWIN.stats("mvsk"))
    for estimate, truth in (
        (LAW.mean(), mean),
        (LAW.variance(), var),
        (LAW.standard_deviation(), np.sqrt(var)),
        (LAW.skewness(), skewness),
        (LAW.kurtosis(), kurtosis),
        (LAW.moment(3), TWIN.moment(3)),
        (LAW.entropy(), float(TWIN.entropy())),
    ):
        assert abs(estimate.z(truth)) < 4
        assert estimate.stderr < 0.1 * truth
    assert LAW.variance() == pytest.approx(X.var(ddof=1), rel=1e-3)
    assert LAW.mean() == pytest.approx(X.mean(), rel=1e-9)


def test_functions_of_samples():
    x = np.array([0.5, 2.0, 6.0])
    assert np.allclose(LAW.cdf(x), [(t >= X).mean() for t in x], rtol=1e-12)
    assert np.allclose(LAW.cdf(x) + LAW.ccdf(x), 1)
    assert np.allclose(LAW.pdf(x), scipy.stats.gaussian_kde(X)(x), rtol=1e-5)
    assert np.allclose(LAW.error("cdf", x), np.sqrt(TWIN.cdf(x) * TWIN.sf(x) / X.size), rtol=0.25)
    assert np.array_equal(LAW.icdf([0.1, 0.5]), np.quantile(X, [0.1, 0.5], method="inverted_cdf"))
    assert np.allclose(LAW.cf([0.2, 1.0]), [np.exp(1j * t * X).mean() for t in (0.2, 1.0)])
    assert set(LAW.sample(100, rng=1)) <= set(X)
    assert LAW.method == "kde"
    assert LAW.logcdf(-1.0) == -np.inf
    low, high = LAW.interval(0.9)
    assert np.mean((low <= X) & (high >= X)) == pytest.approx(0.9, abs=1e-3)


def test_constant_samples_have_no_density():
    constant = Empirical([1.0, 1.0, 1.0])
    assert constant.cdf(1.0) == 1.0
    with pytest.raises(ValueError, match="are all equal"):
        constant.pdf(1.0)


def test_neighbour_distances():
    from limitlaw.laws.samples import neighbour_distances

    rng = np.random.default_rng(2)
    x, y = np.sort(rng.normal(size=40)), np.sort(rng.normal(size=30))
    brute = np.sort(np.abs(x[:, None] - y), axis=1)
    for k in (1, 3, 5):
        assert np.allclose(neighbour_distances(x, y, k), brute[:, k - 1])

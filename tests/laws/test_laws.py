"""A table of laws, each with an independent twin, and what must hold for all of them."""

from functools import partial

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
from same_law import FALSE_ALARM

from limitlaw.laws import Gaussian, ScaleMixture, as_law
from limitlaw.laws._scipy_law import ScipyLaw
from limitlaw.laws.normal_scores import cdf_by_spline
from limitlaw.laws.quadrature import panels


def gamma_nodes(shape, count=400):
    """`v ~ Gamma(shape, 1/shape)`, mean 1, by the trapezoid rule in log v."""
    t = np.linspace(np.log(1e-18) / min(shape, 1.0), 6.5, count * 4)
    log_weights = shape * t - shape * np.exp(t)
    weights = np.exp(log_weights - log_weights.max())
    return np.exp(t), weights


def inverse_gamma_nodes(shape):
    values, weights = gamma_nodes(shape)
    return 1 / values, weights


class Symmetric:
    """What twins have in common whose law is symmetric about 0 and has its mode there."""

    support, mode = (-np.inf, np.inf), 0.0

    def logcdf(self, x):
        return self.logsf(-x)

    def mean(self):
        return 0.0

    def skewness(self):
        return 0.0


class VarianceGamma(Symmetric):
    """`sqrt(v) z`, `v ~ Gamma(a, 1/a)`: a Bessel function."""

    def __init__(self, a):
        self.a = a

    def logpdf(self, x):
        a, u = self.a, np.abs(x) * np.sqrt(2 * self.a)
        bessel = np.log(scipy.special.kve(a - 0.5, u)) - u
        return (
            np.log(2)
            + a * np.log(a)
            - np.log(np.sqrt(2 * np.pi))
            - scipy.special.gammaln(a)
            + ((a - 0.5) * np.log(np.abs(x) / np.sqrt(2 * a)) + bessel)
        )

    def logsf(self, x):
        return np.array([self._log_tail(y) for y in x])

    def _log_tail(self, y):
        scale = np.sqrt(2 * self.a)  # the tail falls like exp(-scale x)

        def ratio(s):
            return np.exp(self.logpdf(y + s / scale) - self.logpdf(y))

        return self.logpdf(y) + np.log(scipy.integrate.quad(ratio, 0, 60, epsabs=0, epsrel=1e-12)[0] / scale)

    def var(self):
        return 1.0

    def kurtosis(self):
        return 3 / self.a


class Binomial(Symmetric):
    """`v` the average of `H` that are 1/2 or 3/2: a binomial mixture, term by term."""

    def __init__(self, copies):
        k = np.arange(copies + 1)
        self.v = 0.5 + k / copies
        self.log_weights = scipy.stats.binom(copies, 0.5).logpmf(k)
        self.copies = copies

    def logpdf(self, x):
        terms = scipy.stats.norm.logpdf(np.asarray(x)[:, None], scale=np.sqrt(self.v))
        return scipy.special.logsumexp(terms + self.log_weights, axis=1)

    def logsf(self, x):
        terms = scipy.stats.norm.logsf(np.asarray(x)[:, None], scale=np.sqrt(self.v))
        return scipy.special.logsumexp(terms + self.log_weights, axis=1)

    def var(self):
        return 1.0

    def kurtosis(self):
        return 3 * 0.25 / self.copies


class Scipy:
    def __init__(self, frozen, mode=0.0):
        self.frozen, self.mode, self.support = frozen, mode, frozen.support()
        self.logpdf, self.logcdf, self.logsf = frozen.logpdf, frozen.logcdf, frozen.logsf
        self.mean, self.var = frozen.mean, frozen.var

    def skewness(self):
        return float(self.frozen.stats("s"))

    def kurtosis(self):
        return float(self.frozen.stats("k"))


HALVES = dict(variances=[0.5, 1.5], weights=[0.5, 0.5])
# law, twin, relative accuracy of densities in the body and at 30 standard deviations
TABLE = {
    "normal": (Gaussian(variance=2.0), Scipy(scipy.stats.norm(scale=np.sqrt(2.0))), 1e-14, 1e-11),
    "laplace": (ScaleMixture(*gamma_nodes(1.0)), Scipy(scipy.stats.laplace(scale=2**-0.5)), 1e-6, 1e-4),
    "student": (ScaleMixture(*inverse_gamma_nodes(4.0)), Scipy(scipy.stats.t(8)), 1e-6, 1e-6),
    "gamma": (ScaleMixture(*gamma_nodes(8.0)), VarianceGamma(8.0), 1e-8, 1e-4),
    "gamma, 4 copies": (ScaleMixture(*gamma_nodes(2.0), copies=4), VarianceGamma(8.0), 1e-9, 1e-7),
    "gamma, 64 copies": (ScaleMixture(*gamma_nodes(0.5), copies=64), VarianceGamma(32.0), 1e-9, 1e-7),
    "halves": (ScaleMixture(**HALVES), Binomial(1), 1e-13, 1e-11),
    "halves, 2 copies": (ScaleMixture(**HALVES, copies=2), Binomial(2), 1e-13, 1e-11),
    "halves, 1000 copies": (ScaleMixture(**HALVES, copies=1000), Binomial(1000), 1e-12, 1e-11),
    "halves, 1000 copies, mixture": (
        ScaleMixture(**HALVES, copies=1000, method="mixture"),
        Binomial(1000),
        1e-10,
        1e-3,
    ),
    "halves, fourier": (ScaleMixture(**HALVES, method="fourier"), Binomial(1), 1e-13, 1e-11),
    "normal off centre": (
        Gaussian(mean=3.0, variance=2.0),
        Scipy(scipy.stats.norm(3, np.sqrt(2.0)), 3.0),
        1e-13,
        1e-11,
    ),
    "scipy's normal": (as_law(scipy.stats.norm(1, 2)), Scipy(scipy.stats.norm(1, 2), 1.0), 1e-14, 1e-14),
    "scipy's new normal": (as_law(scipy.stats.Normal(mu=1, sigma=2)), Scipy(scipy.stats.norm(1, 2), 1.0), 1e-13, 1e-11),
    "scipy's laplace": (
        as_law(scipy.stats.laplace(scale=2**-0.5)),
        Scipy(scipy.stats.laplace(0, 2**-0.5)),
        1e-14,
        1e-14,
    ),
    "scipy's gamma": (as_law(scipy.stats.gamma(3.0)), Scipy(scipy.stats.chi2(6, scale=0.5), 2.0), 1e-12, 1e-11),
    "scipy's exponential": (as_law(scipy.stats.expon()), Scipy(scipy.stats.gamma(1.0), 0.0), 1e-12, 1e-11),
    "scipy's beta": (as_law(scipy.stats.beta(2, 3)), Scipy(scipy.stats.beta(2, 3), 1 / 3), 1e-12, 1e-11),
}
EVERY = pytest.mark.parametrize("name", TABLE)


def inside(x, twin):
    """The points that are in the support."""
    return x[(x > twin.support[0]) & (x < twin.support[1])]


@EVERY
def test_densities_and_tails_to_thirty_standard_deviations(name):
    law, twin, body, tail = TABLE[name]
    mean, sd = float(law.mean()), float(law.standard_deviation())
    for reach, accuracy in ((np.linspace(0.01, 6, 40), body), (np.array([10.0, 20.0, 30.0]), tail)):
        above, below = inside(mean + sd * reach, twin), inside(mean - sd * reach, twin)
        for x in (above, below):
            assert np.all(np.abs(np.expm1(law.logpdf(x) - twin.logpdf(x))) < accuracy)
        assert np.all(np.abs(np.expm1(law.logccdf(above) - twin.logsf(above))) < accuracy)
        assert np.all(np.abs(np.expm1(law.logcdf(below) - twin.logcdf(below))) < accuracy)
        if isinstance(twin, Symmetric):
            assert np.allclose(law.logpdf(below), law.logpdf(above), rtol=1e-13)
            assert np.allclose(law.logcdf(below), law.logccdf(above), rtol=1e-12)
    if not isinstance(law, ScipyLaw):  # scipy's logarithms of tails may underflow
        assert np.isfinite(law.logpdf([100 * sd, 1e4 * sd])).all()


@EVERY
def test_functions_of_one_law_agree(name):
    law, _, _, _ = TABLE[name]
    mean, sd = float(law.mean()), float(law.standard_deviation())
    x = mean + sd * np.linspace(-4, 4, 17)
    assert np.allclose(law.pdf(x), np.exp(law.logpdf(x)), rtol=1e-12)
    assert np.allclose(law.cdf(x) + law.ccdf(x), 1, atol=1e-14)
    assert np.allclose(np.exp(law.logcdf(x)), law.cdf(x), rtol=1e-13)
    slope = (law.cdf(x + 1e-4 * sd) - law.cdf(x - 1e-4 * sd)) / (2e-4 * sd)
    smooth = np.abs(x) > 1e-3 * sd  # densities with a corner have it at 0
    assert np.allclose(slope[smooth], law.pdf(x)[smooth], rtol=1e-5)
    assert (law.pdf(np.inf), law.cdf(-np.inf), law.cdf(np.inf), law.ccdf(np.inf)) == (0, 0, 1, 0)
    assert np.isnan(law.pdf(np.nan))
    assert law.pdf(np.zeros((2, 3))).shape == (2, 3)
    assert np.ndim(law.pdf(0.5)) == 0


@EVERY
def test_moments_and_entropy_are_integrals_of_the_density(name):
    law, twin, _, _ = TABLE[name]
    x, weights = panels(law)
    f, mean = law.pdf(x), float(law.mean())
    assert weights @ f == pytest.approx(1, abs=1e-9)
    assert mean == pytest.approx(twin.mean(), rel=1e-12)
    assert law.variance() == pytest.approx(twin.var(), rel=1e-6)
    assert law.standard_deviation() == pytest.approx(twin.var() ** 0.5, rel=1e-6)
    assert law.skewness() == pytest.approx(twin.skewness(), rel=1e-9, abs=1e-12)
    assert law.kurtosis() == pytest.approx(twin.kurtosis(), rel=1e-5, abs=1e-9)
    assert law.kurtosis("non-excess") == law.kurtosis(convention="excess") + 3
    assert law.variance() == pytest.approx(weights @ (f * (x - mean) ** 2), rel=1e-7)
    for order in (3, 4, 6):
        exact = {"rel": 1e-5, "abs": 1e-6 * float(law.moment(6))}
        assert law.moment(order) == pytest.approx(weights @ (f * x**order), **exact)
        central = law.moment(order, "central")
        assert central == pytest.approx(weights @ (f * (x - mean) ** order), **exact)
        assert law.moment(order, "standardized") == pytest.approx(central / law.standard_deviation() ** order, rel=1e-9)
    assert law.moment(4, "standardized") == pytest.approx(law.kurtosis() + 3, rel=1e-9)
    assert law.moment(2, "central") == pytest.approx(law.variance(), rel=1e-12)
    if isinstance(twin, Symmetric):
        assert (law.mean(), law.skewness(), law.moment(3)) == (0, 0, 0)
    assert law.moment(0) == pytest.approx(1, rel=1e-14)
    density = np.exp(twin.logpdf(x))
    assert law.entropy() == pytest.approx(-weights @ scipy.special.xlogy(density, density), abs=1e-6)
    for moment in (law.variance(), law.kurtosis(), law.entropy()):
        assert moment.stderr == 0


@EVERY
def test_support_and_mode(name):
    law, twin, _, _ = TABLE[name]
    assert law.support() == tuple(twin.support)
    assert law.mode() == pytest.approx(twin.mode, abs=1e-6 * float(law.standard_deviation()))
    assert law.pdf(law.mode()) >= law.pdf(panels(law)[0]).max() * (1 - 1e-12)


@EVERY
def test_the_characteristic_function_is_the_fourier_transform_of_the_density(name):
    law, _, _, _ = TABLE[name]
    x, weights = panels(law)
    t = np.array([-1.0, 0.0, 0.3, 1.0, 2.5]) / float(law.standard_deviation())
    assert np.allclose(law.cf(t), (weights * law.pdf(x)) @ np.exp(1j * np.outer(x, t)), atol=1e-8)


@EVERY
def test_quantiles_invert_the_cdf(name):
    law, twin, _, _ = TABLE[name]
    q = np.array([1e-100, 1e-12, 1e-3, 0.2, 0.5, 0.7, 0.999])
    reached = q if twin.support[1] == np.inf else q[1:]  # 1 - 1e-50 is 1 in a double
    assert np.allclose(law.cdf(law.icdf(q)), q, rtol=1e-9)
    assert np.allclose(law.ccdf(law.iccdf(reached)), reached, rtol=1e-9)
    many = np.linspace(1e-4, 1 - 1e-4, 1201)
    assert np.allclose(law.cdf(law.icdf(many)), many, atol=1e-9)
    assert (law.icdf(0.0), law.icdf(1.0)) == law.support()
    assert law.cdf(law.median()) == pytest.approx(0.5, abs=1e-12)
    low, high = law.interval(0.9)
    assert law.cdf(high) - law.cdf(low) == pytest.approx(0.9, abs=1e-10)
    if isinstance(twin, Symmetric):
        assert abs(law.median()) < 1e-12
        assert low == pytest.approx(-high)


@EVERY
def test_quantiles_by_logarithms(name):
    law, twin, _, _ = TABLE[name]
    lq = np.array([-100.0, -30.0, -5.0, -0.7, -0.1, -1e-9])
    if twin.support[1] == np.inf:
        assert np.allclose(law.logccdf(law.ilogccdf(lq)), lq, rtol=1e-6)
    assert np.allclose(law.logcdf(law.ilogcdf(lq)), lq, rtol=1e-6)
    assert np.allclose(law.ilogcdf(lq), law.icdf(np.exp(lq)), rtol=1e-6)
    assert (law.ilogcdf(-np.inf), law.ilogcdf(0.0)) == law.support()
    assert (law.ilogccdf(0.0), law.ilogccdf(-np.inf)) == law.support()
    if isinstance(twin, Symmetric) or "normal" in name:  # whose log tails do not underflow
        far = np.array([-1e5, -2000.0])
        assert np.allclose(law.logccdf(law.ilogccdf(far)), far, rtol=1e-12)
        assert np.allclose(law.logcdf(law.ilogcdf(far)), far, rtol=1e-12)


@EVERY
def test_draws_follow_the_law(name):
    law, _, _, _ = TABLE[name]
    draws = law.sample((200, 250), rng=5)
    assert draws.shape == (200, 250)
    assert scipy.stats.kstest(draws.ravel(), partial(cdf_by_spline, law)).pvalue > FALSE_ALARM
    squares = (draws.ravel() - law.mean()) ** 2
    spread = np.sqrt((law.moment(4, "central") - law.variance() ** 2) / squares.size)
    assert abs(squares.mean() - law.variance()) < 5 * spread
    assert np.array_equal(law.sample(5, rng=2), law.sample(5, rng=2))
    assert not np.array_equal(law.sample(5, rng=2), law.sample(5, rng=3))
    generator = np.random.default_rng(2)
    assert np.array_equal(law.sample(5, rng=generator), law.sample(5, rng=2))
    assert not np.array_equal(law.sample(5, rng=generator), law.sample(5, rng=2))
    assert not np.array_equal(law.sample(5), law.sample(5))


@EVERY
def test_as_a_scipy_distribution(name):
    law, _, _, _ = TABLE[name]
    frozen = law.scipy()
    x = np.array([-1.3, 0.2, 2.0])
    for ours, theirs in (("pdf", "pdf"), ("logpdf", "logpdf"), ("cdf", "cdf"), ("ccdf", "sf"), ("logccdf", "logsf")):
        assert np.allclose(getattr(law, ours)(x), getattr(frozen, theirs)(x), rtol=1e-12)
    assert np.allclose(frozen.ppf([0.1, 0.6]), law.icdf([0.1, 0.6]))
    assert np.allclose(frozen.isf([0.1, 0.6]), law.iccdf([0.1, 0.6]))
    assert np.allclose(frozen.stats("mvsk"), [law.mean(), law.variance(), law.skewness(), law.kurtosis()])
    assert frozen.entropy() == pytest.approx(law.entropy())
    assert np.allclose(frozen.interval(0.5), law.interval(0.5))
    rng = np.random.default_rng(0)
    first, second = frozen.rvs(size=4, random_state=rng), frozen.rvs(size=4, random_state=rng)
    assert first.shape == (4,)
    assert not np.array_equal(first, second)
    assert np.array_equal(frozen.rvs(size=3, random_state=7), frozen.rvs(size=3, random_state=7))


@pytest.mark.parametrize("name", ["normal", "student", "halves, 2 copies"])
def test_as_a_numpyro_distribution(name):
    import jax
    import jax.numpy as jnp

    law, _, _, _ = TABLE[name]
    there = law.numpyro()
    x = np.array([-3.0, 0.1, 12.0], np.float32)
    log_prob = jax.jit(there.log_prob)(jnp.asarray(x))
    assert log_prob.dtype == jnp.float32
    assert np.allclose(log_prob, law.logpdf(x), rtol=1e-5)
    assert np.allclose(
        jax.vmap(jax.grad(there.log_prob))(jnp.asarray(x[:2])), _slopes(law, x[:2].astype(float)), rtol=1e-4
    )
    with jax.enable_x64(True):
        assert np.allclose(there.log_prob(jnp.asarray(x, jnp.float64)), law.logpdf(x), rtol=1e-9)
    draws = np.asarray(there.sample(jax.random.key(3), (20_000,)))
    assert scipy.stats.kstest(draws, law.cdf).pvalue > FALSE_ALARM
    assert float(there.variance) == pytest.approx(law.variance(), rel=1e-6)


def _slopes(law, x):
    return (law.logpdf(x + 1e-5) - law.logpdf(x - 1e-5)) / 2e-5


def test_numpyro_fits_the_scale_of_data():
    """The adaptor inside a model: the gradient of the likelihood vanishes at the scale that made the data."""
    import jax
    import jax.numpy as jnp

    law, _, _, _ = TABLE["halves"]
    there, data = law.numpyro(), 2.0 * law.sample(40_000, rng=1).astype(np.float32)

    def loss(log_scale):
        return -jnp.mean(there.log_prob(jnp.asarray(data) * jnp.exp(-log_scale)) - log_scale)

    at = 0.0
    for _ in range(20):
        at -= float(jax.grad(loss)(at)) / 1.5
    assert np.exp(at) == pytest.approx(2.0, rel=0.02)


def test_the_method_is_remembered():
    law = ScaleMixture(**HALVES, copies=8)
    assert law.method == "fourier"
    assert law.with_method("mixture").method == "mixture"
    assert ScaleMixture(**HALVES).method == "mixture"
    slow = ScaleMixture(*gamma_nodes(0.5), copies=3)  # chi2(3)/3: the characteristic function falls like t^-3
    assert slow.method == "mixture"
    x = np.array([0.1, 1.0, 4.0])
    assert np.allclose(slow.logpdf(x), VarianceGamma(1.5).logpdf(x), atol=1e-6)


def test_laplace_transform():
    law = ScaleMixture(**HALVES, copies=3)
    assert law.laplace(0.7) == pytest.approx((0.5 * np.exp(-0.7 / 6) + 0.5 * np.exp(-0.7 / 2)) ** 3)


def test_a_mass_at_zero():
    law = ScaleMixture([0.0, 1.0], weights=[0.25, 0.75], copies=2, allow_zero=True)
    assert law.method == "mixture"
    assert law.cdf(0.0) == pytest.approx(0.5 + 0.0625 / 2)
    assert law.ccdf(0.0) == pytest.approx(0.5 - 0.0625 / 2)
    assert law.pdf(0.0) == np.inf
    assert law.pdf(1.0) == pytest.approx(
        0.375 * scipy.stats.norm.pdf(1, scale=np.sqrt(0.5)) + 0.5625 * scipy.stats.norm.pdf(1)
    )
    assert np.mean(law.sample(100_000, rng=0) == 0) == pytest.approx(0.0625, abs=0.004)
    assert law.variance() == pytest.approx(0.75)


@pytest.mark.parametrize("kind", ["pdf", "logpdf", "cdf", "ccdf"])
def test_plots_say_what_they_show(kind):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    law = ScaleMixture(np.random.default_rng(0).gamma(4, 0.25, 2000), name="width 8")
    assert law.plot(axes, kind=kind) is axes
    (line,) = axes.get_lines()
    assert np.allclose(line.get_ydata(), getattr(law, kind)(line.get_xdata()))
    assert line.get_label() == "width 8"
    assert axes.get_xlabel() == "output y"
    assert axes.get_ylabel() == {"pdf": "density", "logpdf": "log density", "cdf": "P(Y ≤ y)", "ccdf": "P(Y > y)"}[kind]
    assert len(axes.collections) == 1  # the error band
    plt.close(figure)


@pytest.mark.parametrize(
    "bad, match",
    [
        (lambda: Gaussian(variance=0.0), "variance=0.0 must be positive"),
        (lambda: Gaussian(variance=-1.0), "variance=-1.0 must be positive"),
        (lambda: Gaussian(variance=np.nan), "variance=nan must be a finite number"),
        (lambda: Gaussian(mean="a"), "mean='a'"),
        (lambda: ScaleMixture([1.0, -1.0]), r"variances\[1\]=-1 must be positive. A variance cannot be negative"),
        (lambda: ScaleMixture([0.0, 1.0]), r"variances\[0\]=0 must be positive. Pass allow_zero=True"),
        (lambda: ScaleMixture([0.0, 0.0], allow_zero=True), "are all 0"),
        (lambda: ScaleMixture([1.0]), "at least two draws"),
        (lambda: ScaleMixture([[1.0, 2.0]]), "at least two rows"),
        (lambda: ScaleMixture([1.0, np.nan]), r"variances\[1\] is nan"),
        (lambda: ScaleMixture([]), "variances is empty"),
        (lambda: ScaleMixture([[[1.0]]]), "1 axis"),
        (lambda: ScaleMixture([1.0, 2.0], weights=[1.0]), "weights has shape"),
        (lambda: ScaleMixture([1.0, 2.0], weights=[1.0, -1.0]), "smallest entry -1"),
        (lambda: ScaleMixture([1.0, 2.0], copies=0), "copies=0"),
        (lambda: ScaleMixture([1.0, 2.0], method="saddle"), "method='saddle'"),
        (
            lambda: Gaussian().icdf(1.5),
            r"q=1.5 must be a probability in \[0, 1\]. For 1.5 % give 0.015",
        ),
        (lambda: Gaussian().icdf([0.5, -0.1]), "q=-0.1 must be a probability"),
        (lambda: Gaussian().interval(95), "level=95 must be a probability"),
        (lambda: Gaussian().pdf("a"), "x='a' must be a real number"),
        (lambda: Gaussian().moment(-1), "order=-1"),
        (lambda: Gaussian().moment(2, "cumulant"), "kind='cumulant'"),
        (lambda: Gaussian().error("mode", 0.0), "what='mode'"),
        (lambda: Gaussian().sample(-1), "shape=-1"),
        (lambda: Gaussian().plot(kind="bar"), "kind='bar'"),
    ],
)
def test_refusals(bad, match):
    with pytest.raises((ValueError, TypeError), match=match):
        bad()


@pytest.mark.parametrize("rate", [20, 30, 40])
@pytest.mark.parametrize("count", [3, 9, 21, 41])
def test_likely_small_variances_and_rare_large_ones(count, rate):
    """The tilt leaps from the likely to the rare ones, where Newton's method cycles; two copies are a double sum."""
    values = np.linspace(0.05, 0.9, count)
    weights = np.exp(-rate * values) / np.exp(-rate * values).sum()
    law = ScaleMixture(values, weights=weights, copies=2, method="fourier")
    variances = np.add.outer(values, values).ravel() / 2
    log_weights = np.add.outer(np.log(weights), np.log(weights)).ravel()
    x = np.linspace(0, 50 * float(law.standard_deviation()), 301)[:, None]
    densities = log_weights - x**2 / (2 * variances) - np.log(2 * np.pi * variances) / 2
    assert np.abs(law.logpdf(x[:, 0]) - scipy.special.logsumexp(densities, axis=1)).max() < 1e-10
    tails = log_weights + scipy.stats.norm.logsf(x / np.sqrt(variances))
    assert np.abs(law.logccdf(x[:, 0]) - scipy.special.logsumexp(tails, axis=1)).max() < 1e-10

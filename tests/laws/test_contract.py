"""What all laws promise as Python objects: names, values, refusals."""

import copy
import pickle
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import limitlaw as ll
from limitlaw import Estimate
from limitlaw._checks import ArgumentError
from limitlaw.laws import (
    Atoms,
    Empirical,
    Gaussian,
    GaussianMixture,
    JointLaw,
    JointPushforward,
    Law,
    ProbabilityLaw,
    Pushforward,
    ScaleMixture,
    as_law,
)
from limitlaw.laws.quadrature import panels

DRAWS = np.random.default_rng(0).gamma(3.0, size=2000) / 3


def product(xi):
    return xi[0] * xi[1]


def pair(xi):
    return jnp.stack([xi[0], xi[0] + 2 * xi[1]])


MAKERS = {  # each makes a new, equal law
    "Gaussian": lambda: Gaussian(mean=1.0, variance=Estimate(2.0, 0.1, 30)),
    "ScaleMixture": lambda: ScaleMixture([0.5, 1.5], weights=[0.5, 0.5]),
    "ScaleMixture, 4 copies": lambda: ScaleMixture([0.5, 1.5], weights=[0.5, 0.5], copies=4),
    "ScaleMixture of draws": lambda: ScaleMixture(DRAWS),
    "Empirical": lambda: Empirical(DRAWS),
    "as_law, old": lambda: as_law(scipy.stats.gamma(3.0, scale=2.0)),
    "as_law, new": lambda: as_law(scipy.stats.Normal(mu=1.0, sigma=2.0)),
    "as_law, mixture": lambda: as_law(
        scipy.stats.Mixture([scipy.stats.Normal(), scipy.stats.Normal(mu=2.0, sigma=3.0)], weights=[0.25, 0.75])
    ),
    "as_law, truncated": lambda: as_law(scipy.stats.truncate(scipy.stats.Normal(mu=1.0, sigma=2.0), 0.0, 5.0)),
    "Pushforward": lambda: Pushforward(product, 2),
    "GaussianMixture": lambda: GaussianMixture([np.eye(2), 3 * np.eye(2)], weights=[0.5, 0.5]),
    "JointPushforward": lambda: JointPushforward(pair, 2),
}
EVERY = pytest.mark.parametrize("name", MAKERS)
UNIVARIATE = pytest.mark.parametrize("name", [name for name, make in MAKERS.items() if isinstance(make(), Law)])

CONTRACT = {
    *("pdf", "logpdf", "cdf", "ccdf", "icdf", "iccdf", "logcdf", "logccdf", "ilogcdf", "ilogccdf", "cf", "error"),
    *(
        "mean",
        "variance",
        "standard_deviation",
        "skewness",
        "kurtosis",
        "moment",
        "median",
        "mode",
        "support",
        "interval",
    ),
    *("entropy", "plot", "sample", "scipy", "numpyro"),
}
SHARED = {"name", "method", "event_shape", "leave_one_batch_out"}
OWN = {
    "ScaleMixture": {"atoms", "copies", "laplace", "mixture", "with_method"},
    "Empirical": {"samples", "ordered", "batch_masks", "bandwidth"},
    "ScipyLaw": {"distribution"},
    "Pushforward": {"transform", "dimension", "quadrature_error", "drawn"},
}


@UNIVARIATE
def test_a_law_shows_its_contract_and_nothing_else(name):
    law = MAKERS[name]()
    shown = {name for name in dir(law) if not name.startswith("_")}
    assert shown >= CONTRACT
    assert shown - CONTRACT - SHARED == OWN.get(type(law).__name__, set())


@UNIVARIATE
def test_every_method_answers(name):
    law = MAKERS[name]()
    for method in ("pdf", "logpdf", "cdf", "ccdf", "logcdf", "logccdf", "cf"):
        assert getattr(law, method)(np.full((2, 1), 0.7)).shape == (2, 1)
    for method in ("icdf", "iccdf"):
        assert np.isfinite(getattr(law, method)([0.1, 0.9])).all()
    for method in ("ilogcdf", "ilogccdf"):
        assert np.isfinite(getattr(law, method)([-3.0, -0.1])).all()
        assert np.isfinite(law.error(method, -3.0))
    for method in ("mean", "variance", "standard_deviation", "skewness", "kurtosis"):
        assert isinstance(getattr(law, method)(), Estimate)
    if name != "Pushforward":  # nearest neighbours among 2^18 draws take ten seconds
        assert isinstance(law.entropy(), Estimate)
    low, high = law.support()
    assert low <= law.mode() <= high
    assert law.sample((2, 3), rng=0).shape == (2, 3)
    assert law.kurtosis("non-excess") == law.kurtosis() + 3
    assert law.kurtosis("non-excess").stderr == law.kurtosis().stderr


@EVERY
def test_laws_are_values(name):
    law, other = MAKERS[name](), MAKERS[name]()
    assert law == other
    assert hash(law) == hash(other)
    assert all(law != make() for different, make in MAKERS.items() if different != name)
    if isinstance(law, Law):
        law.icdf(np.linspace(0.001, 0.999, 600))  # fills caches, which are not part of the value
    for copied in (pickle.loads(pickle.dumps(law)), copy.deepcopy(law), copy.copy(law)):
        assert copied == law == other
        assert hash(copied) == hash(law)
        assert copied.name == law.name
        assert np.array_equal(copied.sample(3, rng=1), law.sample(3, rng=1))
    assert len(pickle.dumps(law)) < len(pickle.dumps(other)) + 1000


def test_what_makes_laws_differ():
    assert Gaussian(mean=0.0) == Gaussian(mean=-0.0, name="another name")
    assert Gaussian(variance=2.0) != Gaussian(variance=Estimate(2.0, 0.1))
    assert ScaleMixture([1.0, 2.0], [0.5, 0.5]) != ScaleMixture([1.0, 2.0], [0.4, 0.6])
    assert ScaleMixture([1.0, 2.0], [0.5, 0.5]) != ScaleMixture([1.0, 2.0], [0.5, 0.5], copies=2)
    assert Empirical([1.0, 2.0]) != Empirical([2.0, 1.0])  # their batches differ
    assert as_law(scipy.stats.norm(0, 1)) != as_law(scipy.stats.norm(0, 2))
    assert Gaussian() != "Gaussian"
    law = ScaleMixture([1.0, 2.0], [0.5, 0.5])
    assert ScaleMixture(law.atoms) == law


@EVERY
def test_laws_have_one_base_each(name):
    law = MAKERS[name]()
    joint = name in ("GaussianMixture", "JointPushforward")
    assert isinstance(law, ProbabilityLaw)
    assert isinstance(law, Law) is not joint
    assert isinstance(law, JointLaw) is joint
    assert law.event_shape == ((2,) if joint else ())


FOREIGN = [
    ("ppf", "icdf"),
    ("isf", "iccdf"),
    ("sf", "ccdf"),
    ("logsf", "logccdf"),
    ("rvs", "sample"),
    ("var", "variance"),
    ("std", "standard_deviation"),
    ("stddev", "standard_deviation"),
    ("stats", "mean, variance, skewness and kurtosis"),
    ("log_prob", "logpdf"),
    ("prob", "pdf"),
    ("quantile", "icdf"),
]


@UNIVARIATE
@pytest.mark.parametrize("theirs, ours", FOREIGN)
def test_names_of_other_libraries_lead_to_ours(name, theirs, ours):
    law = MAKERS[name]()
    assert not hasattr(law, theirs)
    with pytest.raises(AttributeError, match=rf"{type(law).__name__} has no attribute '{theirs}'\. Use {ours}"):
        getattr(law, theirs)


def test_names_of_other_libraries_on_joint_laws():
    for name in ("GaussianMixture", "JointPushforward"):
        law = MAKERS[name]()
        for theirs, ours in (("var", "variance"), ("covariance", "cov"), ("icdf", r"marginal\(i\).icdf")):
            assert not hasattr(law, theirs)
            with pytest.raises(AttributeError, match=f"Use {ours}"):
                getattr(law, theirs)
    with pytest.raises(AttributeError, match=r"Gaussian has no attribute 'nonsense'\.$"):
        Gaussian().nonsense  # noqa: B018


@UNIVARIATE
def test_tracers_are_refused(name):
    law = MAKERS[name]()
    for transform in (jax.jit, jax.vmap):
        for method in (law.logpdf, law.cdf, law.icdf, law.ilogcdf, law.cf):
            for call in (method, lambda x, method=method: method([x, 0.2])):
                with pytest.raises(TypeError, match=r"is traced by JAX, but laws compute with NumPy.*law\.numpyro\(\)"):
                    transform(call)(jnp.array([-0.5]))
    with pytest.raises(TypeError, match="laws compute with NumPy"):
        jax.grad(law.logpdf)(0.5)
    assert law.pdf(jnp.float32(0.5)) == pytest.approx(law.pdf(0.5))


@pytest.mark.parametrize("method", ["pdf", "cdf", "icdf", "ilogcdf", "cf"])
@pytest.mark.parametrize("x", [[[1], [2, 3]], None, "a", 1j, [object()]])
def test_points_that_are_no_numbers(method, x):
    with pytest.raises(ArgumentError, match=rf"^(x|q|lq|t)={re.escape(repr(x))[:8]}.*must be a real number"):
        getattr(Gaussian(), method)(x)


@pytest.mark.parametrize(
    "bad, match",
    [
        (lambda: Gaussian(1.0), "positional"),
        (lambda: Gaussian().sample(2, rng=-1), "rng=-1 must be"),
        (lambda: Gaussian().sample(2, rng="seed"), "rng='seed' must be"),
        (lambda: Gaussian().sample(2, rng=True), "rng=True must be"),
        (lambda: Gaussian().kurtosis("fisher"), "convention='fisher'"),
        (lambda: Gaussian().ilogcdf(0.5), "lq=0.5 must be the logarithm of a probability"),
        (lambda: Pushforward(pair, 2), "Use JointPushforward"),
        (lambda: JointPushforward(product, 2), "use Pushforward"),
        (lambda: Empirical([1.0, np.nan, 2.0]), r"samples\[1\]=nan must be finite"),
        (lambda: Empirical([1.0, 2.0, -np.inf]), r"samples\[2\]=-inf must be finite"),
        (lambda: as_law(scipy.stats.gamma), r"has no parameters yet. Freeze it, as in scipy.stats.gamma\(...\)"),
        (lambda: as_law(scipy.stats.Normal), "is a class"),
        (lambda: as_law(scipy.stats.poisson(3.0)), "is discrete"),
        (lambda: as_law(scipy.stats.Binomial(n=3, p=0.5)), "is discrete"),
        (lambda: as_law(scipy.stats.multivariate_normal([0, 0])), "has several variables"),
        (lambda: as_law(scipy.stats.norm([0, 1], 1)), "parameters of several values"),
        (lambda: as_law(scipy.stats.Normal(mu=[0.0, 1.0])), "parameters of several values"),
        (lambda: as_law([1.0, 2.0]), "is not a distribution of scipy.stats.*Empirical"),
    ],
)
def test_refusals(bad, match):
    with pytest.raises((ValueError, TypeError), match=match):
        bad()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
@pytest.mark.parametrize(
    "make",
    [
        lambda v: Atoms.from_draws(v),
        lambda v: Atoms.from_draws(v.astype(np.float32)),
        lambda v: Atoms.from_randomisations(v.reshape(2, -1)),
        lambda v: Atoms.exactly(v, np.full(v.size, 1 / v.size)),
        lambda v: Atoms.from_coupled_draws(v, np.ones(v.size), Atoms.exactly(np.ones(1), np.ones(1))),
        lambda v: Atoms.from_coupled_draws(np.ones(v.size), v, Atoms.exactly(np.ones(1), np.ones(1))),
    ],
)
def test_variances_that_are_none_are_refused(make, bad):
    """What overflows in a network ended in an IndexError of the bins, or in a variance of 0."""
    draws = DRAWS[:1000].copy()
    draws[[7, 8]] = bad
    with pytest.raises(
        ArgumentError, match=rf"variances\[.*\]={bad:g}.* must be finite and at least 0 .2 of 1,000 entries are not."
    ):
        make(draws)


def test_variances_that_rounding_made_negative_are_zero():
    atoms = Atoms.from_draws(np.array([1.0, -1e-9, 2.0, 3.0], np.float32))
    assert atoms.zero == pytest.approx(0.25)
    assert atoms.values.min() == 0.0


def test_the_density_at_zero_of_one_degree_of_freedom():
    """`sqrt(v chi2(d) / d) z` averaged over H heads has an infinite density at 0 exactly for H d = 1."""
    one = Atoms.exactly(np.array([0.5, 2.0]), np.array([0.5, 0.5]))
    law = ScaleMixture(one.times_chi_square_mean(1))
    assert law.pdf(0.0) == law.logpdf(0.0) == np.inf
    assert law.error("pdf", 0.0) == 0.0
    assert law.pdf(1e-3) == pytest.approx(
        sum(0.5 * scipy.special.k0(1e-3 / np.sqrt(v)) / (np.pi * np.sqrt(v)) for v in (0.5, 2.0)), rel=1e-6
    )
    assert np.isfinite(law.entropy())
    for finite in (
        ScaleMixture(one.times_chi_square_mean(1), copies=2),
        ScaleMixture(one.times_chi_square_mean(2)),
        ScaleMixture(one),
    ):
        assert np.isfinite(finite.pdf(0.0))
    assert one.times_chi_square_mean(3).mean_of_copies(4).dof == 12
    assert one.times_chi_square_mean(1).scaled(2.0).times_chi_square_mean(5).dof == 1


@pytest.mark.parametrize("heads, head_dim, infinite", [(1, 1, True), (2, 1, False), (1, 2, False)])
def test_the_density_at_zero_of_a_network(heads, head_dim, infinite):
    law = ll.Network(ll.GramInputs(np.eye(2)), ll.Attention(heads=heads, head_dim=head_dim)).law()
    assert np.isinf(law.pdf(0.0)) == infinite
    assert np.isfinite(law.pdf(1e-8))


def test_an_infinite_density_is_drawn():
    import matplotlib.pyplot as plt

    law = ScaleMixture(Atoms.exactly(np.ones(1), np.ones(1)).times_chi_square_mean(1))
    figure, axes = plt.subplots()
    law.plot(axes)
    assert np.isfinite(axes.get_ylim()).all()
    plt.close(figure)
    assert "nan" not in law._repr_html_()


def test_distances_take_distributions_of_scipy_as_laws():
    p, q = as_law(scipy.stats.norm(0, 1)), as_law(scipy.stats.Normal(mu=0.5, sigma=2.0))
    same = Gaussian(), Gaussian(mean=0.5, variance=4.0)
    for distance in (ll.kl, ll.tv, ll.ks, ll.wasserstein, ll.energy):
        assert distance(p, q) == pytest.approx(distance(*same), rel=1e-9)
    assert ll.as_law is as_law
    assert as_law(p) is p
    assert as_law(scipy.stats.norm) == as_law(scipy.stats.norm())  # without parameters there is nothing to freeze
    # KL of an exponential from a gamma law with shape 2: E log(e^{-x} / (x e^{-x})) = -E log x, Euler's constant
    exponential, gamma = as_law(scipy.stats.expon()), as_law(scipy.stats.gamma(2.0))
    assert ll.kl(exponential, gamma) == pytest.approx(np.euler_gamma, rel=1e-6)


def test_heavy_tails_of_scipy():
    law = as_law(scipy.stats.cauchy())
    assert law.icdf(0.75) == pytest.approx(1.0)
    assert law.entropy() == pytest.approx(np.log(4 * np.pi))
    x, weights = panels(law)
    assert weights @ law.pdf(x) == pytest.approx(1, abs=1e-12)
    assert law.variance() == np.inf or np.isnan(law.variance())


def test_logarithms_that_underflow_in_scipy_give_no_wrong_quantile():
    law = as_law(scipy.stats.gamma(3.0))
    assert law.ilogccdf(-300.0) == pytest.approx(scipy.stats.gamma(3.0).isf(np.exp(-300.0)), rel=1e-12)
    assert np.isnan(law.ilogccdf(-2000.0))
    assert as_law(scipy.stats.norm()).ilogcdf(-2000.0) == pytest.approx(Gaussian().ilogcdf(-2000.0), rel=1e-12)


def test_numpyro_says_what_it_is():
    pytest.importorskip("numpyro")
    law = ScaleMixture([0.5, 1.5], weights=[0.5, 0.5])
    assert repr(law.numpyro()) == f"{law!r}.numpyro()"
    with pytest.raises(TypeError, match="is defined for Gaussian and ScaleMixture"):
        Empirical(DRAWS).numpyro()


@UNIVARIATE
def test_the_scipy_adaptor_can_be_pickled(name):
    frozen = MAKERS[name]().scipy()
    for copied in (pickle.loads(pickle.dumps(frozen)), copy.deepcopy(frozen)):
        assert copied.cdf(0.3) == frozen.cdf(0.3)
        assert copied.ppf(0.3) == frozen.ppf(0.3)


def test_moments_of_joint_laws_are_those_of_their_marginals():
    law = MAKERS["JointPushforward"]()
    assert np.allclose(law.cov(), [[1, 1], [1, 5]])
    assert np.allclose(law.variance(), [law.marginal(i).variance() for i in range(2)])
    assert law.marginal(-1).variance() == pytest.approx(5.0)
    assert np.allclose(law.moment(4), [3, 75])
    mixture = MAKERS["GaussianMixture"]()
    assert np.allclose(mixture.kurtosis("non-excess"), mixture.kurtosis() + 3)
    assert np.allclose(mixture.skewness(), 0)
    assert np.allclose(mixture.standard_deviation() ** 2, mixture.variance())

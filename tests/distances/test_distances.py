"""Distances against closed forms, scipy and each other."""

import inspect
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from hypothesis import given, settings, strategies as st
from same_law import FALSE_ALARM, some_at_length
from scipy.special import gammaln, hyperu

import limitlaw as ll
from limitlaw.distances import DISTANCES
from limitlaw.experiments import MEASURES, Study
from limitlaw.laws import Empirical, Gaussian, GaussianMixture, ScaleMixture
from limitlaw.laws.quadrature import panels

# Every distance of the package: one that is added is tested here, and needs an integral and a degree below.
METRICS = DISTANCES
SYMMETRIC = [name for name, metric in METRICS.items() if metric.symmetric]
# Scaling the variable by c multiplies the distance by c to this power.
DEGREES = {"kl": 0.0, "tv": 0.0, "ks": 0.0, "wasserstein": 1.0, "wasserstein_2": 1.0, "energy": 0.5}


def test_every_distance_is_declared_once_and_read_everywhere():
    assert set(METRICS) == set(DEGREES)
    guide = Path(__file__).parents[2] / "docs" / "howto" / "study.md"
    for name, metric in METRICS.items():
        assert f"`{name}`" in guide.read_text(), name
        assert f'"{name}"' in inspect.getdoc(Study), name
        assert MEASURES[name].variables()[name].label == f"{metric.long_label} to the limit"
    labels = set(ll.compare(halves(), Gaussian()).distances)
    reverse = {f"reverse {metric.label}" for metric in METRICS.values() if not metric.symmetric}
    assert labels == {metric.label for metric in METRICS.values()} | reverse


def test_functions_are_those_of_the_objects():
    p, q = halves(), Gaussian(mean=0.2)
    for name in ("kl", "tv", "ks", "wasserstein", "energy"):
        assert getattr(ll, name)(p, q) == METRICS[name](p, q)
    assert ll.wasserstein(p, q, p=2) == METRICS["wasserstein_2"](p, q)
    assert not METRICS["kl"].symmetric
    assert METRICS["kl"](p, q) != METRICS["kl"](q, p)


@pytest.mark.parametrize("name", METRICS)
def test_distributions_of_scipy_are_laws(name):
    frozen = scipy.stats.norm(0.3, 2.0)
    assert METRICS[name](frozen, halves()) == pytest.approx(
        METRICS[name](Gaussian(mean=0.3, variance=4.0), halves()), rel=1e-7
    )


@pytest.mark.parametrize("name", METRICS)
def test_a_network_is_told_to_pass_its_law(name):
    net = ll.Network(ll.Inputs(tokens=2), ll.Attention())
    remedy = r"q=Network\(...\) is a network, not a law. Pass q.law\(\) or q.law\(width=...\)."
    with pytest.raises(TypeError, match=remedy) as refused:
        METRICS[name](Gaussian(), net)
    assert refused.value.argument == "q"


def halves(copies=1, scale=1.0):
    return ScaleMixture([0.5 * scale, 1.5 * scale], weights=[0.5, 0.5], copies=copies)


def mean_absolute(variance):
    return np.sqrt(2 * variance / np.pi)


def test_closed_forms_of_two_gaussians():
    p, q = Gaussian(mean=0.3, variance=2.0), Gaussian(mean=-0.4, variance=0.7)
    assert ll.kl(p, q) == pytest.approx(0.5 * (2 / 0.7 + 0.7**2 / 0.7 - 1 - np.log(2 / 0.7)), rel=1e-11)
    assert ll.wasserstein(p, q, p=2) == pytest.approx(np.hypot(0.7, np.sqrt(2) - np.sqrt(0.7)), rel=1e-9)
    shifted = Gaussian(mean=1.0), Gaussian(mean=0.0)
    assert ll.tv(*shifted) == pytest.approx(2 * scipy.stats.norm.cdf(0.5) - 1, rel=1e-12)
    assert ll.ks(*shifted) == pytest.approx(2 * scipy.stats.norm.cdf(0.5) - 1, rel=1e-12)
    assert ll.wasserstein(*shifted) == pytest.approx(1.0, rel=1e-11)
    wide = Gaussian(variance=4.0), Gaussian(variance=1.0)
    crossing = np.sqrt(8 / 3 * np.log(2))
    assert ll.tv(*wide) == pytest.approx(
        2 * (scipy.stats.norm.cdf(crossing) - scipy.stats.norm.cdf(crossing / 2)), rel=1e-11
    )
    assert ll.wasserstein(*wide) == pytest.approx(mean_absolute(1.0), rel=1e-11)
    squared = 2 * mean_absolute(5.0) - mean_absolute(2.0) - mean_absolute(8.0)
    assert ll.energy(*wide) == pytest.approx(np.sqrt(squared), rel=1e-11)


@pytest.mark.parametrize("name", METRICS)
def test_mixtures_against_numerical_integration(name):
    """An adaptive integrator on the two densities (or cdfs) written out by hand."""
    p, q = halves(), Gaussian(variance=1.1)

    def f(x):
        return 0.5 * scipy.stats.norm.pdf(x, scale=0.5**0.5) + 0.5 * scipy.stats.norm.pdf(x, scale=1.5**0.5)

    def F(x):
        return 0.5 * scipy.stats.norm.cdf(x, scale=0.5**0.5) + 0.5 * scipy.stats.norm.cdf(x, scale=1.5**0.5)

    g, G = scipy.stats.norm(scale=1.1**0.5).pdf, scipy.stats.norm(scale=1.1**0.5).cdf
    x = np.linspace(-14, 14, 2_000_001)
    step = x[1] - x[0]
    truth = {
        "kl": lambda: step * np.sum(f(x) * np.log(f(x) / g(x))),
        "tv": lambda: 0.5 * step * np.sum(np.abs(f(x) - g(x))),
        "ks": lambda: np.abs(F(x) - G(x)).max(),
        "wasserstein": lambda: step * np.sum(np.abs(F(x) - G(x))),
        "wasserstein_2": lambda: np.sqrt(step * np.sum((x - np.interp(F(x), G(x), x)) ** 2 * f(x))),
        "energy": lambda: np.sqrt(2 * step * np.sum((F(x) - G(x)) ** 2)),
    }[name]()
    assert METRICS[name](p, q) == pytest.approx(truth, rel=2e-6)
    assert METRICS[name](p, q).stderr == 0


@pytest.mark.parametrize("name", METRICS)
def test_a_law_is_at_distance_zero_from_itself(name):
    for law in (
        Gaussian(mean=0.2, variance=3.0),
        halves(4),
        ScaleMixture(np.random.default_rng(0).gamma(3, size=5000)),
    ):
        assert abs(METRICS[name](law, law)) < 1e-12


@settings(max_examples=8, deadline=None)
@given(
    variances=st.lists(st.floats(0.2, 5.0), min_size=3, max_size=3),
    weight=st.floats(0.1, 0.9),
    scale=st.floats(0.1, 10.0),
    copies=st.integers(1, 4),
)
def test_what_every_distance_must_satisfy(variances, weight, scale, copies):
    """Symmetry, triangle inequality, scaling, and the inequalities between them."""
    a, b, c = variances

    def laws(factor):
        return (
            ScaleMixture([factor * a, factor * b], weights=[weight, 1 - weight], copies=copies),
            Gaussian(variance=factor * c),
            ScaleMixture([factor * b, factor * c], weights=[0.5, 0.5]),
        )

    p, q, r = laws(1.0)
    d = {name: float(metric(p, q)) for name, metric in METRICS.items()}
    for name in SYMMETRIC:
        metric = METRICS[name]
        assert metric(q, p) == pytest.approx(d[name], rel=1e-6, abs=1e-9)
        assert d[name] <= metric(p, r) + metric(r, q) + 1e-9
    scaled = laws(scale**2)
    for name, metric in METRICS.items():
        assert metric(*scaled[:2]) == pytest.approx(d[name] * scale ** DEGREES[name], rel=1e-6, abs=1e-9)
    assert d["ks"] <= d["tv"] + 1e-12
    assert d["tv"] <= np.sqrt(max(d["kl"], 0.0) / 2) + 1e-9  # Pinsker
    assert d["wasserstein"] <= d["wasserstein_2"] + 1e-9
    # Data processing: what one event says of the divergence, and what averaging more heads does to it.
    inside = [float(law.cdf(1.0) - law.cdf(-1.0)) for law in (p, q)]
    binary = sum(u * np.log(u / v) for u, v in zip((inside[0], 1 - inside[0]), (inside[1], 1 - inside[1]), strict=True))
    assert binary <= d["kl"] + 1e-12


@pytest.mark.parametrize("name", METRICS)
def test_shifts_move_both(name):
    near = METRICS[name](Gaussian(mean=0.0, variance=1.0), Gaussian(mean=0.5, variance=2.0))
    assert METRICS[name](Gaussian(mean=100.0, variance=1.0), Gaussian(mean=100.5, variance=2.0)) == pytest.approx(
        near, rel=1e-8
    )


def test_the_reverse_divergence_swaps_the_arguments():
    forth, back = (
        ll.kl(Gaussian(variance=1.0), Gaussian(variance=4.0)),
        ll.kl(Gaussian(variance=4.0), Gaussian(variance=1.0)),
    )
    assert forth == pytest.approx(0.5 * (0.25 - 1 + np.log(4)), rel=1e-12)
    assert back == pytest.approx(0.5 * (4 - 1 - np.log(4)), rel=1e-12)


def test_far_tails_do_not_break_anything():
    """A density of 1e-300 and less where the other has mass."""
    narrow, wide = Gaussian(variance=1e-4), Gaussian(variance=1.0)
    assert ll.kl(wide, narrow) == pytest.approx(0.5 * (1e4 - 1 - np.log(1e4)), rel=1e-10)
    assert ll.tv(Gaussian(mean=0.0), Gaussian(mean=60.0)) == pytest.approx(1.0, rel=1e-9)


# --- laws made of draws ---------------------------------------------------------------------------


def drawn(draws, seed, dof=8):
    return ScaleMixture(np.random.default_rng(seed).chisquare(dof, draws) / dof)


def exact(dof=8):
    t = np.linspace(-6, 3.5, 1500)
    weights = np.exp(dof / 2 * (t - np.exp(t)))
    return ScaleMixture(np.exp(t), weights)


TARGET = Gaussian(variance=1.0)
TRUTHS = {name: float(metric(exact(), TARGET)) for name, metric in METRICS.items()}


@pytest.mark.parametrize("name", some_at_length(METRICS, ["kl", "tv", "ks", "energy"]))
def test_stated_errors_of_distances(name):
    """Over 30 laws made of 4,000 draws: the z-scores have mean 0 and variance 1."""
    z = np.array([METRICS[name](drawn(4000, seed), TARGET).z(TRUTHS[name]) for seed in range(30)])
    assert abs(z.mean()) < 0.8
    assert 0.5 < z.std() < 1.5


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", [*METRICS, "variance", "kurtosis", "entropy", "pdf", "cdf", "icdf"])
def test_intervals_cover_the_truth(name):
    """95% intervals over 1,000 seeds, by a binomial test at 1e-4 (two-sided)."""

    def estimate(law):
        if name in METRICS:
            return METRICS[name](law, TARGET)
        if name in ("variance", "kurtosis", "entropy"):
            return getattr(law, name)()
        at = 0.9 if name == "icdf" else 0.7
        return ll.Estimate(float(getattr(law, name)(at)), float(law.error(name, at)), 255)

    truth = float(estimate(exact()))
    covered = sum(estimate(drawn(8000, seed)).covers(truth) for seed in range(1000))
    assert scipy.stats.binomtest(covered, 1000, 0.95).pvalue > 1e-4, covered


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", [name for name, metric in METRICS.items() if not metric.needs_densities])
@pytest.mark.parametrize("against", ["law", "samples"])
def test_intervals_of_sampled_distances_cover_the_truth(name, against):
    """One-sided samples far from the law they are compared with: at least 92% of 95% intervals cover, at most 98%."""
    target = Gaussian(mean=0.5, variance=1.5)
    truth = float(METRICS[name](Gaussian(mean=0.0, variance=1.0), target))
    covered = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        other = target if against == "law" else target.sample(2000, rng=seed + 10_000)
        covered += METRICS[name](rng.normal(size=3000), other).covers(truth)
    assert scipy.stats.binomtest(covered, 300, 0.95).pvalue > 1e-4, covered


def energy_of_mixture(dof):
    """Between `N(0, v)`, `v` a chi-square variable over its `dof`, and `N(0, 1)`, by `E|N(0, v)| = sqrt(2 v / pi)`."""

    def mean_root(k):  # of a chi-square variable
        return np.sqrt(2) * np.exp(gammaln((k + 1) / 2) - gammaln(k / 2))

    a = dof / 2
    crossed = a**a * hyperu(a, a + 1.5, a)  # E sqrt(1 + v)
    return np.sqrt(np.sqrt(2 / np.pi) * (2 * crossed - mean_root(2 * dof) / np.sqrt(dof) - np.sqrt(2)))


def test_energy_of_a_mixture_in_closed_form():
    assert ll.energy(exact(), TARGET) == pytest.approx(energy_of_mixture(8), rel=1e-7)


@pytest.mark.filterwarnings("ignore::limitlaw.ResolutionWarning")
def test_intervals_of_the_energy_distance_cover_the_truth_for_few_draws():
    """2,048 draws, 200 seeds, a distance of three standard errors. Intervals by the standard error cover 169 times."""
    found = [ll.energy(drawn(2048, seed, dof=180), TARGET) for seed in range(200)]
    covered = sum(estimate.covers(energy_of_mixture(180)) for estimate in found)
    assert scipy.stats.binomtest(covered, 200, 0.95).pvalue > FALSE_ALARM, covered
    by_standard_error = [ll.Estimate(float(e), e.stderr, e.dof) for e in found]
    length = np.mean([np.ptp(e.interval()) for e in found]) / np.mean([np.ptp(e.interval()) for e in by_standard_error])
    assert length < 1.5  # wider intervals would cover, too


def test_a_root_of_squares_is_a_value():
    estimate = ll.energy(drawn(2048, 0), TARGET)
    copy = pickle.loads(pickle.dumps(estimate))
    assert (copy, copy.stderr, copy.dof, copy.interval()) == (
        estimate,
        estimate.stderr,
        estimate.dof,
        estimate.interval(),
    )
    assert estimate.interval()[0] <= estimate <= estimate.interval()[1]
    with pytest.raises(ValueError, match=r"level=2.* between 0 and 1"):
        estimate.interval(2)


@pytest.mark.parametrize("name", METRICS)
def test_half_the_draws_raise_the_error_by_the_square_root_of_two(name):
    v = np.random.default_rng(3).chisquare(8, 100_000) / 8
    ratio = METRICS[name](ScaleMixture(v[:50_000]), TARGET).stderr / METRICS[name](ScaleMixture(v), TARGET).stderr
    assert abs(ratio / np.sqrt(2) - 1) < 0.2


@pytest.mark.filterwarnings("ignore::limitlaw.ResolutionWarning")
@pytest.mark.full
def test_the_bias_of_sampled_mixtures_is_removed():
    """Draws of the law itself, 500 at a time: the plug-in divergence is biased upwards, ours is not."""
    truth, plug_in, ours = exact(), [], []
    x, weights = panels(truth)
    for seed in range(60):
        law = drawn(500, seed)
        f, g = law.pdf(x), truth.pdf(x)
        plug_in.append(weights @ (f * np.log(f / g) - f + g))
        ours.append(float(ll.kl(law, truth)))
    spread = np.std(ours) / np.sqrt(60)
    assert np.mean(plug_in) > 6 * spread
    assert abs(np.mean(ours)) < 4 * spread


def test_what_cannot_be_resolved_is_said():
    with pytest.warns(
        ll.ResolutionWarning,
        match=r"kl = .* is not resolved by these draws, .* above about .*e-.*increase the number of draws",
    ):
        ll.kl(drawn(2000, 0), exact())
    with pytest.warns(ll.ResolutionWarning, match=r"ks = .* above about 0.04"):
        ll.ks(np.random.default_rng(0).normal(size=1000), Gaussian())


def test_two_drawn_laws_carry_both_errors():
    p, q = drawn(20_000, 1), drawn(20_000, 2, dof=4)
    one = np.hypot(ll.kl(p, exact(4)).stderr, ll.kl(exact(8), q).stderr)
    both = ll.kl(p, q)
    assert both.stderr == pytest.approx(one, rel=0.15)
    assert abs(both.z(float(ll.kl(exact(8), exact(4))))) < 4


def test_the_error_of_a_gaussian_variance_is_carried():
    """d KL / d var of N(0, v) from N(0, 1) is (v - 1) / 2v."""
    estimate = ll.kl(Gaussian(variance=1.0), Gaussian(variance=ll.Estimate(1.5, 0.01)))
    assert estimate.stderr == pytest.approx(0.01 * abs(0.5 / 1.5 - 0.5 / 1.5**2), rel=1e-2)


# --- samples --------------------------------------------------------------------------------------

RNG = np.random.default_rng(11)
X, Y = RNG.normal(size=4000), RNG.normal(0.3, 1.2, size=3000)


def test_two_samples_against_scipy():
    assert ll.ks(X, Y) == pytest.approx(scipy.stats.ks_2samp(X, Y).statistic, abs=1e-12)
    plain = scipy.stats.wasserstein_distance(X, Y)
    assert abs(ll.wasserstein(X, Y) - plain) < 2 * ll.wasserstein(X, Y).stderr
    assert abs(ll.energy(X, Y) - scipy.stats.energy_distance(X, Y)) < ll.energy(X, Y).stderr
    from limitlaw.distances._energy import mean_distance, mean_gap
    from limitlaw.distances._wasserstein import W1, W2

    x, y = np.sort(X[:70]), np.sort(Y[:50])
    assert W1.between_sorted(x, y) == pytest.approx(scipy.stats.wasserstein_distance(x, y), rel=1e-12)
    square = W2.between_sorted(np.sort(X[:60]), np.sort(Y[:60])) ** 2
    assert square == pytest.approx(np.mean((np.sort(X[:60]) - np.sort(Y[:60])) ** 2), rel=1e-12)
    assert mean_distance(x, y) == pytest.approx(np.abs(x[:, None] - y).mean(), rel=1e-12)
    assert mean_gap(x) == pytest.approx(np.abs(x[:, None] - x).sum() / (70 * 69), rel=1e-12)


def test_a_sample_and_a_law():
    law = Gaussian(mean=0.3, variance=1.44)
    assert ll.ks(X, law) == pytest.approx(scipy.stats.kstest(X, law.cdf).statistic, abs=1e-7)
    for name in (name for name, metric in METRICS.items() if not metric.needs_densities):
        truth = float(METRICS[name](Gaussian(), law))
        assert abs(METRICS[name](X, law).z(truth)) < 4
        assert METRICS[name](law, X) == pytest.approx(METRICS[name](X, law), rel=1e-9)


@pytest.mark.parametrize("sizes", [(20_000, None), (20_000, 20_000), (None, 20_000)])
def test_nearest_neighbours_find_the_divergence(sizes):
    p, q = Gaussian(mean=0.0, variance=1.0), Gaussian(mean=0.5, variance=2.0)
    truth = float(ll.kl(p, q))
    first, second = (
        law if n is None else law.sample(n, rng=5 + i) for i, (law, n) in enumerate(zip((p, q), sizes, strict=True))
    )
    estimate = ll.kl(first, second, method="knn")
    assert estimate.stderr < 0.02
    assert abs(estimate.z(truth)) < 4


@pytest.mark.full
def test_kernel_estimates_of_divergence_and_variation():
    """By scipy's kernel estimate on a fine grid."""
    p, q = Gaussian(mean=0.0, variance=1.0).sample(3000, rng=1), scipy.stats.norm(0.5, np.sqrt(2.0))
    x = np.linspace(-8, 8, 4001)
    f, g = scipy.stats.gaussian_kde(p)(x), q.pdf(x)
    live = f > 1e-100
    divergence = 0.004 * np.sum(f[live] * np.log(f[live] / g[live]))
    assert ll.kl(p, Gaussian(mean=0.5, variance=2.0), method="kde") == pytest.approx(divergence, rel=1e-5)
    assert ll.tv(p, Gaussian(mean=0.5, variance=2.0), method="kde") == pytest.approx(
        0.002 * np.abs(f - g).sum(), rel=1e-3
    )


@pytest.mark.parametrize("size", [3, 40, 6000])
def test_distances_of_samples_from_a_law_are_those_of_the_step_function(size):
    """`int |F_N - F|` and `int |F_N^{-1} - F^{-1}|^2` on fine grids, and the mean distance to a normal in closed form."""
    from limitlaw.distances._energy import distance_to

    samples, law = np.sort(RNG.normal(0.2, 1.3, size)), Gaussian()
    x = np.linspace(-12, 12, 400_001)
    steps = np.searchsorted(samples, x, side="right") / size
    truth = (x[1] - x[0]) * np.abs(steps - scipy.stats.norm.cdf(x)).sum()
    assert METRICS["wasserstein"].measure(Empirical(samples), law).estimate == pytest.approx(truth, rel=3e-3)
    levels = (np.arange(600_000) + 0.5) / 600_000
    squared = np.mean((samples[(levels * size).astype(int)] - scipy.stats.norm.ppf(levels)) ** 2)
    assert METRICS["wasserstein_2"].measure(Empirical(samples), law).estimate == pytest.approx(
        np.sqrt(squared), rel=3e-3
    )
    to_law, own = distance_to(law)
    y = np.array([-20.0, -1.0, 0.0, 0.3, 5.0])
    assert np.allclose(to_law(y), 2 * scipy.stats.norm.pdf(y) + y * (2 * scipy.stats.norm.cdf(y) - 1), rtol=1e-7)
    assert own == pytest.approx(2 / np.sqrt(np.pi), rel=1e-9)


@pytest.mark.parametrize(
    "bad, match",
    [
        (lambda: ll.kl(X, Y), "method=None is needed to compare samples.* Use method='knn' or method='kde'"),
        (lambda: ll.kl(X, Gaussian()), "method=None is needed"),
        (lambda: ll.tv(X, Gaussian()), "method=None is needed .* Use method='kde'"),
        (lambda: ll.kl(X, Y, method="magic"), "method='magic'"),
        (
            lambda: ll.kl(Gaussian(), Gaussian(), method="knn"),
            "method='knn' is for samples, but both arguments are laws",
        ),
        (lambda: ll.ks([1.0, np.nan, 2.0], Gaussian()), r"p\[1\]=nan must be finite \(1 of 3 samples are not\)"),
        (lambda: ll.ks(Gaussian(), []), "q has 0 entries. Give at least two"),
        (lambda: ll.ks(Gaussian(), [1.0]), "q has 1 entries"),
        (lambda: ll.ks(Gaussian(), "samples"), "q='samples' must be a law"),
        (lambda: ll.ks(np.ones((3, 2)), Gaussian()), r"p has shape \(3, 2\)"),
        (
            lambda: ll.kl(GaussianMixture([np.eye(2)], weights=[1.0]), Gaussian()),
            r"p is the joint law of 2 variables, .* p.marginal\(0\)",
        ),
        (lambda: ll.wasserstein(X, Y, p=3), "p=3 is not supported as the order"),
        (lambda: ll.kl(X[:8], Gaussian(), method="knn"), "p has 8 samples, but method='knn' needs more than 10"),
        (
            lambda: ll.kl(ScaleMixture([0.0, 1.0], weights=[0.5, 0.5], allow_zero=True), Gaussian()),
            r"p has a point mass at 0 .*ks\(p.sample",
        ),
        (lambda: ll.kde_kl(X, np.ones(5)), "q has only equal samples"),
        (lambda: ll.kde_kl(X, Y, points=0), "points=0"),
        (lambda: ll.kde_kl(X, Y, points=1), "points=1 must be at least 2"),
        (lambda: ll.kde_kl(Gaussian(), Y), r"p is a law, but .* p.sample\(50_000\)"),
        (lambda: ll.kl(np.repeat([0.0, 1.0], 20), Gaussian(), method="knn"), "equal entries, so nearest neighbours"),
        (lambda: ll.kde_kl(X, Y, floor=-1.0), "floor=-1"),
    ],
)
def test_refusals(bad, match):
    with pytest.raises((ValueError, TypeError), match=match):
        bad()


# --- the paper's estimator ------------------------------------------------------------------------


def to_the_letter(p, q, floor=1e-12):
    grid = np.linspace(min(p.min(), q.min()), max(p.max(), q.max()), 500)
    first, second = scipy.stats.gaussian_kde(p)(grid) + floor, scipy.stats.gaussian_kde(q)(grid) + floor
    return scipy.stats.entropy(first / first.sum(), second / second.sum())


@pytest.mark.parametrize("size", [3000, 50_000])
def test_the_estimator_of_the_paper(size):
    rng = np.random.default_rng(size)
    p, q = 1.2 * rng.normal(size=size), rng.normal(size=size)
    for floor in (1e-12, 1e-6):
        assert ll.kde_kl(p, q, floor=floor) == pytest.approx(to_the_letter(p, q, floor), rel=1e-5)


def test_its_floor_and_its_dependence_on_the_constant():
    """Two samples of one law score 5e-4 (0.00050 +- 0.00015 on brute-force samples of the limit), whatever the truth below."""
    law = ll.Network(ll.Inputs(4, ll.clip(100.0)), ll.Attention(heads=2)).law()
    scores = [ll.kde_kl(law.sample(50_000, rng=2 * i), law.sample(50_000, rng=2 * i + 1)) for i in range(8)]
    assert 3.5e-4 < np.mean(scores) < 6.5e-4
    assert 0.4 < np.std(scores, ddof=1) / np.mean([s.stderr for s in scores]) < 2.5
    heavy, sample = (
        np.random.default_rng(0).standard_t(5, 50_000) * float(law.standard_deviation()),
        law.sample(50_000, rng=0),
    )
    assert ll.kde_kl(heavy, sample, floor=1e-8) < 0.9 * ll.kde_kl(heavy, sample)


def test_empirical_is_what_arrays_become():
    assert ll.ks(Empirical(X), Y) == ll.ks(X, Y)


@pytest.mark.parametrize(
    "p, q, order, infinite",
    [
        (scipy.stats.cauchy(), scipy.stats.norm(), 1, True),
        (scipy.stats.t(2), scipy.stats.norm(), 2, True),
        (scipy.stats.t(1.5), scipy.stats.norm(), 2, True),
        (scipy.stats.norm(), scipy.stats.pareto(1.0), 1, True),
        (scipy.stats.t(2), scipy.stats.norm(), 1, False),
        (scipy.stats.t(3), scipy.stats.norm(), 2, False),
        (scipy.stats.cauchy(), scipy.stats.cauchy(loc=1.0), 1, False),
    ],
)
def test_a_wasserstein_distance_of_heavy_tails_is_infinite(p, q, order, infinite):
    assert np.isinf(ll.wasserstein(p, q, p=order)) == infinite


def test_comparisons_can_be_keys():
    comparison = ll.compare(scipy.stats.norm(), scipy.stats.norm(scale=2.0))
    assert {comparison: 1}[comparison] == 1

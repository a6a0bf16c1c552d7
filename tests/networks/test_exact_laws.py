"""Laws at infinite width without Monte Carlo, laws at finite width, joint laws, laws of scores."""

import json
from functools import partial
from math import inf
from pathlib import Path

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from same_law import FALSE_ALARM, some_at_length

import limitlaw as ll
from limitlaw._checks import ArgumentError
from limitlaw.laws.normal_scores import cdf_by_spline
from limitlaw.laws.quadrature import panels
from limitlaw.networks.layers.attention._exact import exact_attended_variance

REFERENCE = json.loads((Path(__file__).parent.parent / "data" / "attention_reference.json").read_text())
K3 = np.array([[1, 0.4, 0.1], [0.4, 1, 0.4], [0.1, 0.4, 2]])
K4 = np.array([[1, 0.3, -0.2, 0.1], [0.3, 0.8, 0.1, 0.0], [-0.2, 0.1, 1.5, 0.4], [0.1, 0.0, 0.4, 0.6]])


def paper(heads=2, tokens=4, activation=None, **options):
    return ll.Network(ll.Inputs(tokens, activation or ll.clip(100.0)), ll.Attention(heads=heads, **options))


def layer(K, **options):
    return ll.Network(ll.GramInputs(K), ll.Attention(**options))


def plain_fourier(heads, x):
    """The density for K = I, s = 4 by Gauss-Hermite nodes over three contrasts of the scores and a plain cosine transform."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(76)
    z = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij")).reshape(3, -1)
    w = np.einsum("i,j,k->ijk", weights, weights, weights).ravel() / weights.sum() ** 3
    z, w = z[:, w > 1e-22], w[w > 1e-22]
    contrasts = np.array([[1, -1, 0, 0], [1, 1, -2, 0], [1, 1, 1, -3]]) / np.sqrt([[2], [6], [12]])
    e = np.exp(contrasts.T @ z)
    v = (e**2).sum(axis=0) / e.sum(axis=0) ** 2
    t = np.arange(0, 20, 0.1)
    phi = np.array([w @ np.exp(-(s**2) * v / (2 * heads)) for s in t]) ** heads
    phi[0] /= 2
    return 0.1 / np.pi * np.cos(np.outer(x, t)) @ phi, float(w @ v)


@pytest.mark.parametrize("heads", [1, 2, 256])
def test_the_limit_and_its_divergence_from_infinitely_many_heads(heads):
    limits = REFERENCE["limits"]["limit_identity_gram_s4"]
    law, gaussian = paper(heads).law(), paper(inf).law()
    assert isinstance(gaussian, ll.laws.Gaussian)
    assert abs(law.variance() - limits["var"]) < 1e-10
    assert abs(gaussian.variance() - limits["var"]) < 1e-10
    assert abs(heads * law.kurtosis() - limits["excess_kurtosis_H1"]) < 1e-10
    assert law.variance().stderr == law.kurtosis().stderr == gaussian.variance().stderr == 0
    x = np.linspace(-9, 9, 3001)
    f, var = plain_fourier(heads, x)
    g = scipy.stats.norm.pdf(x, scale=np.sqrt(var))
    assert np.abs(law.pdf(x) - f).max() < 1e-9
    shown = f > 1e-13
    truth = 0.006 * np.sum((f * np.log(f / g, where=shown, out=np.zeros_like(f)) - f + g)[shown])
    value = ll.kl(law, gaussian)
    assert value == pytest.approx(truth, rel=1e-6)
    # The reference stops at |y| = 5, which costs it 7e-6 of the value at one head.
    assert value == pytest.approx(limits["kl_to_infinite_heads"][f"H{heads}"], rel=1e-5)


def test_the_mixture_over_the_scores_written_out():
    """Two tokens: one normal, the difference of the scores. `scipy.integrate` on the definition."""
    rho = 0.3
    net = layer([[1, rho], [rho, 1]], heads=1, query_std=1.5)

    def variance(z):
        p = 1 / (1 + np.exp(-1.5 * np.sqrt(2 - 2 * rho) * z))
        return p**2 + (1 - p) ** 2 + 2 * rho * p * (1 - p)

    law = net.law()
    for x in (0.0, 0.7, 3.0, 9.0):
        truth = scipy.integrate.quad(
            lambda z, x=x: scipy.stats.norm.pdf(x, scale=np.sqrt(variance(z))) * scipy.stats.norm.pdf(z),
            -12, 12, epsabs=0, epsrel=1e-12, limit=500,
        )[0]  # fmt: skip
        assert law.pdf(x) == pytest.approx(truth, rel=1e-9)
    second = scipy.integrate.quad(lambda z: variance(z) ** 2 * scipy.stats.norm.pdf(z), -12, 12, epsrel=1e-12)[0]
    first = scipy.integrate.quad(lambda z: variance(z) * scipy.stats.norm.pdf(z), -12, 12, epsrel=1e-12)[0]
    assert law.kurtosis() == pytest.approx(3 * (second / first**2 - 1), rel=1e-9)


@pytest.mark.full
def test_other_limits():
    limits = REFERENCE["limits"]
    relu = paper(1, activation="relu").law()
    assert relu.variance() == pytest.approx(limits["limit_relu_gram_s4"]["var"], abs=1e-6)
    assert relu.kurtosis() == pytest.approx(limits["limit_relu_gram_s4"]["excess_kurtosis_H1"], abs=2e-6)
    for d in (4, 64):
        law, truth = paper(1, head_dim=d).law(), limits["fixed_head_dim_identity_s4"][f"d{d}"]
        assert law.variance() == pytest.approx(truth["var"], abs=2e-6)
        assert law.kurtosis() == pytest.approx(truth["excess_kurtosis_H1"], abs=4e-5)
    sixteen = paper(1, tokens=16).law()
    assert abs(sixteen.variance().z(limits["limit_identity_gram_s16"]["var"])) < 5
    assert sixteen.variance().stderr < 5e-5 * sixteen.variance()
    assert abs(sixteen.kurtosis().z(limits["limit_identity_gram_s16"]["excess_kurtosis_H1"])) < 5


@pytest.mark.parametrize("K", [np.eye(4), K4, np.eye(5) + 0.2], ids=["4", "gram", "5"])
def test_up_to_five_tokens_there_is_no_monte_carlo_in_it(K):
    first, second = (layer(K, heads=2).law(seed=seed, token=1) for seed in (0, 1))
    x = np.linspace(0, 8, 50)
    assert np.abs(first.pdf(x) - second.pdf(x)).max() < 1e-9
    assert first.error("pdf", 1.0) == 0.0


@pytest.mark.full
def test_many_tokens_state_their_error():
    first, second = (layer(np.eye(40), heads=2).law(seed=seed) for seed in (0, 1))
    assert first.method == "fourier"
    assert first.variance().stderr > 0
    assert abs(first.variance() - second.variance()) < 5 * np.hypot(first.variance().stderr, second.variance().stderr)
    x = np.array([0.0, 0.2])
    assert np.all(np.abs(first.pdf(x) - second.pdf(x)) < 6 * np.hypot(first.error("pdf", x), second.error("pdf", x)))
    assert np.all(first.error("pdf", x) < 1e-3 * first.pdf(x))


OPTIONS = {
    "plain": dict(heads=1),
    "heads": dict(heads=3, query_std=2.0, value_std=1.3, out_std=0.7),
    "causal": dict(heads=2, mask="causal"),
    "mask": dict(heads=1, mask=np.array([[1, 1, 0, 1], [0, 1, 1, 0], [1, 0, 1, 1], [1, 1, 1, 1]], bool)),
    "head_dim": dict(heads=2, head_dim=3),
    "head_dim 1": dict(heads=1, head_dim=1),
    "linear": dict(heads=2, head_dim=5, scale="linear", query_std=3.0),
    "tied": dict(heads=2, head_dim=5, scale="linear", tie_qk=True, query_std=2.0),
    "tied, infinite": dict(heads=2, scale="linear", tie_qk=True),
    "sharp": dict(heads=1, query_std=8.0),
}


@pytest.mark.parametrize("name", some_at_length(OPTIONS, ["heads"]))
def test_quadrature_against_draws(name):
    """The same law by drawing every score: moments, and outputs against the exact cdf."""
    net = layer(K4, **OPTIONS[name])
    token = 2
    exact, drawn = net.law(token=token), net.law(token=token, method="draws", samples=2**19, seed=3)
    spread = np.hypot(drawn.variance().stderr, exact.variance().stderr) + 1e-6
    assert abs(exact.variance() - drawn.variance()) < 5 * spread
    if not isinstance(exact, ll.laws.Gaussian):
        spread = np.hypot(drawn.kurtosis().stderr, exact.kurtosis().stderr) + 1e-5
        assert abs(exact.kurtosis() - drawn.kurtosis()) < 5 * spread
    y = net.sample(100_000, token=token, seed=4).astype(np.float64)
    assert scipy.stats.kstest(y, partial(cdf_by_spline, exact)).pvalue > FALSE_ALARM


def test_masked_tokens_do_not_matter():
    causal = layer(K4, heads=2, mask="causal").law(token=2)
    three = layer(K4[:3, :3], heads=2).law(token=2)
    assert causal.variance() == pytest.approx(three.variance(), rel=1e-9)
    assert causal.logpdf(3.0) == pytest.approx(three.logpdf(3.0), rel=1e-9)
    first = layer(K4, heads=5, mask="causal").law(token=0)
    assert isinstance(first, ll.laws.Gaussian)
    assert first.variance() == pytest.approx(1.0, rel=1e-12)


def test_the_order_of_tokens_does_not_matter():
    order = [2, 0, 3, 1]
    for i, t in enumerate(order):
        here, there = layer(K4, heads=2).law(token=t), layer(K4[np.ix_(order, order)], heads=2).law(token=i)
        assert here.pdf(0.5) == pytest.approx(there.pdf(0.5), rel=1e-9)


@pytest.mark.full
def test_nearly_opposite_tokens_fall_back_on_the_mixture():
    """Variances near 0 are likely: the characteristic function falls slowly."""
    law = layer([[1, -1], [-1, 1]], heads=2).law()
    assert law.method == "mixture"
    y = layer([[1, -1], [-1, 1]], heads=2).sample(100_000, seed=1).astype(np.float64)
    assert scipy.stats.kstest(y, law.cdf).pvalue > FALSE_ALARM


def test_deterministic_layers_before_the_random_one():
    """Zero queries average the tokens exactly; what follows sees a constant Gram matrix."""
    net = ll.Network(ll.GramInputs(K3), ll.Attention(heads=2, query_std=0.0, value_std=2.0), ll.Attention(heads=2))
    law = net.law()
    assert isinstance(law, ll.laws.Gaussian)  # equal tokens attend to themselves
    assert law.variance() == pytest.approx(4 * K3.mean(), rel=1e-12)


@pytest.mark.full
def test_two_random_layers_are_drawn():
    net = ll.Network(ll.GramInputs(K3), ll.Attention(heads=1), ll.Attention(heads=2))
    law = net.law(samples=2**15)
    y = net.sample(20_000, seed=8).astype(np.float64)
    assert law.variance().stderr > 0
    assert scipy.stats.kstest(y, partial(cdf_by_spline, law)).pvalue > FALSE_ALARM


def test_inputs_alone():
    law = ll.Network(ll.GramInputs(K3)).law(token=2)
    assert isinstance(law, ll.laws.Gaussian)
    assert law.variance() == 2.0


FINITE = {
    # width, options, samples, value and error of 4 million draws of an independent implementation
    "n16": (paper(2), 16, 2**19, 0.02213, 4e-5),
    "lowrank_H1": (paper(1, head_dim=64), 64, 2**18, 0.0024968, 1.6e-5),
    "lowrank_H4": (paper(4, head_dim=64), 256, 2**19, 1.9824e-4, 5e-7),
}


@pytest.mark.parametrize("name", FINITE)
def test_divergence_from_the_limit(name):
    net, width, samples, truth, error = FINITE[name]
    limit = paper(net.layers[0].heads).law()  # the paper compares low-rank heads with infinitely wide ones
    value = ll.kl(net.law(width=width, samples=samples, seed=2), limit)
    assert abs(value - truth) < 5 * np.hypot(value.stderr, error)
    assert value.stderr < 0.02 * value


def test_control_variates_change_the_error_alone():
    """At n = 4096 draws are coupled to the limit: the plain average of the same law agrees, less sharply."""
    net, x = paper(2), np.array([0.0, 0.5, 1.0, 2.0])
    law = net.law(width=4096, samples=2**17, seed=1)
    v = net.sample(2**19, width=4096, token=0, observe="covariance", seed=2)
    plain = ll.laws.ScaleMixture(v)
    for what in ("pdf", "cdf"):
        spread = np.hypot(law.error(what, x), plain.error(what, x))
        gap = np.abs(getattr(law, what)(x) - getattr(plain, what)(x))
        assert np.all(gap <= 5 * spread)
    assert law.variance().stderr < 0.7 * plain.variance().stderr
    assert abs(law.variance() - plain.variance()) < 5 * np.hypot(law.variance().stderr, plain.variance().stderr)
    assert np.isfinite(law.logpdf(np.linspace(0, 30, 100) * float(law.standard_deviation()))).all()
    assert panels(law)[1] @ law.pdf(panels(law)[0]) == pytest.approx(1, abs=1e-9)
    assert scipy.stats.kstest(law.sample(20_000, rng=1), partial(cdf_by_spline, law)).pvalue > FALSE_ALARM


@pytest.mark.full
@pytest.mark.parametrize("samples", [2**13, 2**16])
def test_the_error_with_control_variates_is_the_spread_over_seeds(samples):
    """150 laws at n = 4096: the spread of each number against its stated error, by a chi-square test at 1e-4."""
    net = paper(2)
    limit, found = net.law(), {"var": [], "kurtosis": [], "pdf": [], "kl": []}
    for seed in range(150):
        law = net.law(width=4096, samples=samples, seed=seed)
        found["var"].append(law.variance())
        found["kurtosis"].append(law.kurtosis())
        found["pdf"].append(ll.Estimate(law.pdf(0.5), law.error("pdf", 0.5)))
        if samples > 2**15:  # fewer draws do not resolve it
            found["kl"].append(ll.kl(law, limit))
    for name, estimates in found.items():
        if estimates:
            stated = np.mean([e.stderr**2 for e in estimates])
            ratio = 149 * np.var([float(e) for e in estimates], ddof=1) / stated
            tails = scipy.stats.chi2(149).cdf(ratio), scipy.stats.chi2(149).sf(ratio)
            assert min(tails) > 5e-5, (name, ratio / 149)


@pytest.mark.parametrize("width", [12, inf])
@pytest.mark.parametrize(
    "options",
    [dict(heads=2), dict(head_dim=3, scale="linear"), dict(head_dim=3, scale="linear", tie_qk=True)],
    ids=["plain", "linear", "tied"],
)
def test_scores(width, options):
    net = ll.Network(ll.GaussianInputs(K3), ll.Attention(query_std=1.5, **options))
    law = net.score_law(0, 2, width=width, samples=2**15)
    drawn = net.sample(50_000, width=width, observe="scores", token=0, seed=9)[:, 0, 2].astype(np.float64)
    pvalue = (
        scipy.stats.ks_2samp(drawn, law.samples).pvalue
        if isinstance(law, ll.laws.Empirical)
        else scipy.stats.kstest(drawn, partial(cdf_by_spline, law)).pvalue
    )
    assert pvalue > FALSE_ALARM
    assert law.name == ("limit" if width == inf else "width 12")


def test_scores_in_the_limit_are_gaussian_or_nearly():
    """`N(0, K_ii K_jj)`; at head dimension d excess kurtosis 6 / d."""
    net = ll.Network(ll.GaussianInputs(K3), ll.Attention(query_std=1.5))
    law = net.score_law(0, 2)
    assert isinstance(law, ll.laws.Gaussian)
    assert law.variance() == pytest.approx(1.5**2 * 2.0)
    narrow = ll.Network(ll.GaussianInputs(K3), ll.Attention(head_dim=8)).score_law(1, 1)
    assert narrow.kurtosis() == pytest.approx(6 / 8, rel=1e-9)
    assert narrow.variance() == pytest.approx(1.0)


@pytest.mark.parametrize("width", [9, inf])
def test_joint_law(width):
    net = layer(K3, heads=2, head_dim=2)
    law = net.joint_law([2, 0], width=width, samples=2**15)
    covariance = net.sample(2**16, width=width, token=[2, 0], observe="covariance", seed=5).astype(np.float64)
    spread = np.hypot(law.error("cov"), covariance.std(axis=0) / 2**8)
    assert np.all(np.abs(law.cov() - covariance.mean(axis=0)) < 5 * spread)
    y = net.sample(50_000, width=width, token=[2, 0], seed=6)
    for point in ([0.3, -0.2], [1.0, 0.5]):
        inside = np.mean(np.all(y <= point, axis=1))
        assert abs(law.cdf(point) - inside) < 5 * np.hypot(law.error("cdf", point), 0.5 / np.sqrt(50_000))
    alone = net.law(width=width, token=2, samples=2**15)
    assert abs(law.marginal(0).variance() - alone.variance()) < 5 * np.hypot(
        law.marginal(0).variance().stderr, alone.variance().stderr
    )


def test_joint_law_of_infinitely_many_heads():
    law = layer(K3, heads=inf).joint_law([0, 1])
    assert isinstance(law, ll.laws.GaussianMixture)
    assert np.allclose(law.kurtosis(), 0, atol=1e-5)  # the covariance is an average of a few integrals
    assert law.cov()[0, 0] == pytest.approx(layer(K3, heads=inf).law(token=0).variance(), rel=1e-3)


@pytest.mark.parametrize(
    "bad, argument, match",
    [
        (lambda: layer(K3, value_std=0.0).law(), "variance", "identically 0"),
        (lambda: layer(K3, scale="linear").score_law(0, 1), "scale", "identically 0"),
        (lambda: layer(K3, scale="linear", tie_qk=True).score_law(0, 1), "width", "tends to the constant 0.4"),
        (lambda: layer(K3, heads=inf).score_law(0, 1), "observe", "finitely many heads"),
        (lambda: layer(K3, heads=inf).law(width=64), "heads", "heads=inf is not defined at width=64"),
        (lambda: layer(K3).joint_law([0, 0], width=8), "tokens", "twice"),
        (lambda: layer(K3).joint_law([], width=8), "tokens", "at least one"),
        (lambda: layer(K3).joint_law(0, width=8), "tokens", "net.law"),
        (lambda: layer(K3).score_law(0, 9), "key", "3 tokens"),
        (lambda: layer(K3).score_law(-4, 0), "query", "3 tokens"),
    ],
)
def test_refusals(bad, argument, match):
    with pytest.raises(ArgumentError, match=match) as refusal:
        bad()
    assert refusal.value.argument == argument


def test_a_singular_joint_law_has_no_density():
    with pytest.raises(ValueError, match="singular"):
        layer(np.ones((2, 2)), heads=1).joint_law([0, 1], samples=50).pdf([0.0, 1.0])


@pytest.mark.parametrize(
    "change",
    [
        {"head_dim": 8}, {"head_dim": 4, "query_std": 1.1}, {"head_dim": 4, "key_std": 0.9}, {"head_dim": 4, "mask": "causal"},
        {"head_dim": 4, "scale": "linear"}, {"head_dim": 4, "scale": "linear", "tie_qk": True},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_remembered_of_one_layer_serves_no_other(change):
    """The limit of a head is integrated once; every option that changes it makes it another one."""
    ll.Network(ll.GramInputs(K3), ll.Attention(head_dim=4)).law(token=1)
    changed = ll.Network(ll.GramInputs(K3), ll.Attention(**change))
    after = changed.law(token=1).kurtosis()
    exact_attended_variance.cache_clear()
    assert float(after) == float(changed.law(token=1).kurtosis())


@pytest.mark.parametrize(
    "options",
    [{}, {"heads": 2, "kv_heads": 1}, {"rope": 100.0}, {"rope": 100.0, "heads": 2, "kv_heads": 1}],
    ids=str,
)
@pytest.mark.parametrize("scale", ["sqrt", "linear"])
def test_variance_of_a_score(scale, options):
    """`K_ii K_jj (s_Q s_K)^2`, over the head dimension on the linear scale: exact at every width, whatever the keys share."""
    layer = ll.Attention(head_dim=8, scale=scale, query_std=1.5, **options)
    scores = ll.Network(ll.GramInputs(K3), layer).sample(2**16, width=16, observe="scores", seed=3).astype(float)
    expected = 1.5**2 * np.multiply.outer(np.diag(K3), np.diag(K3)) / (8 if scale == "linear" else 1)
    squares = scores**2
    z = (squares.mean(axis=0) / expected - 1) / (squares.std(axis=0) / expected / 2**8)
    assert np.abs(z).max() < 5  # a wrong factor of 1.02 would be 6 off or more


def test_scores_that_do_not_vary_are_remembered_by_their_values():
    """Tied keys at infinite head dimension: the scores are `s_Q s_K K`, and nothing else tells the layers apart."""
    for std in (1.0, 2.0):
        weights = np.exp(std * K3[1]) / np.exp(std * K3[1]).sum()
        law = layer(K3, tie_qk=True, scale="linear", query_std=std).law(token=1)
        assert law.variance() == pytest.approx(weights @ K3 @ weights, rel=1e-12)


K_OF_TWO = np.array([[1.0, 0.3], [0.3, 2.0]])


@pytest.mark.parametrize(
    "layers",
    [
        (ll.Block(ll.Attention(heads=2)),),
        (ll.Repeat(1, ll.Attention(heads=2)),),
        (ll.Linear(), ll.Block(ll.Attention(heads=2))),
        (ll.Repeat(3, ll.Linear()), ll.Attention(heads=2)),
    ],
    ids=repr,
)
def test_a_wrapped_layer_has_the_exact_law_of_the_layer(layers):
    plain = ll.Network(ll.GramInputs(K_OF_TWO), ll.Attention(heads=2)).law(token=1)
    wrapped = ll.Network(ll.GramInputs(K_OF_TWO), *layers).law(token=1)
    assert wrapped.variance().stderr == 0
    assert wrapped.variance() == pytest.approx(float(plain.variance()), rel=1e-12)
    assert wrapped.kurtosis() == pytest.approx(float(plain.kurtosis()), rel=1e-9)
    assert ll.Network(ll.GramInputs(np.eye(2)), ll.Block(ll.Attention(head_dim=1))).law().pdf(0) == np.inf


@pytest.mark.parametrize("norm", [ll.RMSNorm(), ll.LayerNorm(eps=0.0)], ids=repr)
def test_a_norm_before_attention_keeps_the_law_exact(norm):
    length = np.sqrt(np.diagonal(K_OF_TWO))
    normed = ll.Network(ll.GramInputs(K_OF_TWO), norm, ll.Attention())
    by_hand = ll.Network(ll.GramInputs(K_OF_TWO / length / length[:, None]), ll.Attention())
    assert normed.law().variance() == pytest.approx(float(by_hand.law().variance()), rel=1e-12)
    assert normed.score_law(0, 1).variance() == pytest.approx(1.0)


def test_a_mean_of_the_inputs_is_not_forgotten_by_a_norm():
    """LayerNorm subtracts it, so the limit is not that of tokens without a mean."""
    inputs = ll.GramInputs(np.eye(2), mean=[0.8, 0.0])
    net = ll.Network(inputs, ll.LayerNorm(eps=0.0), ll.Attention())
    variance = net.law(samples=2**16).variance()
    centred = np.array([[0.36, 0.0], [0.0, 1.0]])
    length = np.sqrt(np.diagonal(centred))
    by_hand = ll.Network(ll.GramInputs(centred / length / length[:, None]), ll.Attention()).law().variance()
    assert variance.covers(float(by_hand), 0.999)

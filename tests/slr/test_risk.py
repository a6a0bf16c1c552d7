"""The exact risk: reference values, brute force in the true dimension, quadrature with two tokens, identities, limits."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.special import ndtr

from limitlaw import slr
from limitlaw.slr._landscapes._general import GeneralRisk
from limitlaw.slr._landscapes._linear import LinearRisk
from limitlaw.slr._links import LINKS
from limitlaw.slr._overlaps import vectors
from limitlaw.slr._tables import Setting, tables_of

# Exact excess risks by quadrature, each cross-checked by brute-force Monte Carlo (|z| < 1.1 at a standard error of 1e-4).
REFERENCE = json.loads(Path(__file__).parents[1].joinpath("data", "slr_reference.json").read_text())["values"]
MANY = 4.5  # standard errors: all comparisons here together fail by chance less than once in a thousand runs


@pytest.mark.parametrize("case", REFERENCE, ids=lambda case: case["id"])
def test_reference_to_every_digit(case):
    p = slr.Problem(case["dim"], case["tokens"], case["gamma"], case["beta"])
    assert p.risk(*case["overlaps"]) == pytest.approx(case["risk"], abs=6e-13)


def test_oracle_keeps_its_digits():
    assert slr.Problem(100, 20, 0.5).risk(1, 1) == pytest.approx(9.12573873e-14, rel=3e-9)
    assert slr.Problem(100, 20, 2**-0.5).risk(1, 1) == pytest.approx(8.6363916023e-08, rel=3e-11)
    quadratic = slr.Problem(100, 20, 0.5, link="quadratic")
    assert 0 < quadratic.risk(1, 1) < 1e-12


@pytest.mark.parametrize(("tokens", "weight"), [(2, 0.942358092989), (20, 0.613411923317), (10**6, 0.000479806859)])
def test_nishimori_line(tokens, weight):
    """gamma = 1, b = m: softmax is Bayes' predictor, and the weight of the signal is that of a replica."""
    found = LinearRisk(Setting(2.5, 2.5, 1.0, np.log(tokens - 1))).moments(np.array([1.0]))[0, 0]
    assert found[0] == pytest.approx(weight, abs=6e-13)
    assert found[0] == pytest.approx(found[1] + found[3], abs=1e-12)


@pytest.mark.parametrize(
    ("name", "expected", "paper"), [("quadratic", 2.38455, 0.75), ("relu", 0.46264, 0.25), ("sign", 1.81727, 1.0)]
)
def test_lost_signal_against_both_theories(name, expected, paper):
    p = slr.Problem(100, 20, link=name)
    assert p.risk(-0.4, 0.0) == pytest.approx(expected, abs=6e-6)
    assert p.risk(-0.4, 0.0, method="refined") == pytest.approx(expected, abs=6e-6)
    assert p.risk(-0.4, 0.0, method="mean-field") == pytest.approx(paper, abs=1e-12)


scales, signals, gammas, sizes = st.floats(0.05, 30), st.floats(0, 8), st.floats(0.2, 1), st.floats(0, 60)


@settings(max_examples=15)
@given(b=scales, m=signals, gamma=gammas, log_others=sizes, mu=st.floats(-1, 1))
def test_identities(b, m, gamma, log_others, mu):
    setting = Setting(b, m, gamma, log_others)
    tables = tables_of(setting)
    p, p2, _, q, h, ph, _ = LinearRisk(setting).moments(np.array([mu]))[0].T
    (_,), (weight,) = tables.normal(np.array([mu]))
    others = weight @ tables.against(0, tables.with_one_other(tables.one_other(np.ones_like(tables.h))))
    assert p[0] + others == pytest.approx(1.0, abs=1e-10)
    assert h[0] == pytest.approx(b * (1 - p[0] - q[0]), abs=1e-10 * max(b, 1))
    assert p[1] == pytest.approx(b * gamma * (p[0] - p2[0]), abs=1e-10 * max(b, 1))
    assert h[1] == pytest.approx(-b * gamma * ph[0], abs=1e-10 * max(b, 1))


@pytest.mark.parametrize("tokens", [2, 3, 50, 10**9])
def test_exchangeable_tokens_share_alike(tokens):
    for b in (0.1, 3.0, 40.0):
        weight = LinearRisk(Setting(b, 0.0, 1.0, np.log(tokens - 1))).moments(np.array([0.3]))[0, 0, 0]
        assert weight == pytest.approx(1 / tokens, rel=1e-9)


@settings(max_examples=20)
@given(overlaps=st.tuples(*[st.floats(-0.4, 0.4)] * 5), gamma=gammas, tokens=st.integers(2, 100))
def test_weak_scores_tend_to_even_attention(overlaps, gamma, tokens):
    _, nu, _, zeta, _ = overlaps
    m = np.sqrt((1 - gamma**2) * 30)
    closed = gamma**2 - 2 * gamma**2 * nu / tokens + (m**2 * zeta**2 + gamma**2 + tokens - 1) / tokens**2
    for name in LINKS:
        even = slr.Problem(30, tokens, gamma, 0.0, link=name)
        weak = slr.Problem(30, tokens, gamma, 1e-4 / np.sqrt(30), link=name)
        assert weak.risk(*overlaps) == pytest.approx(even.risk(*overlaps), rel=3e-3)
        assert even.gradient(*overlaps) == pytest.approx(_differences(even, overlaps), abs=1e-6)
    assert slr.Problem(30, tokens, gamma, 0.0).risk(*overlaps) == pytest.approx(closed, abs=1e-12)


def test_strong_scores_tend_to_hard_attention():
    z, step = np.linspace(-9, 9, 4001, retstep=True)
    hard = np.sum(ndtr(1.0 + 0.8 * z) ** 9 * np.exp(-(z**2) / 2)) * step / np.sqrt(2 * np.pi)
    errors = [
        abs(LinearRisk(Setting(b, 2.0, 0.8, np.log(9))).moments(np.array([0.5]))[0, 0, 0] - hard) for b in (100, 400)
    ]
    assert errors[1] < errors[0] / 3 < 1e-2 / 3


def brute_force(problem, overlaps, count, seed):
    """The loss of independent sequences in the true dimension, every token drawn."""
    return np.concatenate([_losses(problem, overlaps, 50_000, [seed, i]) for i in range(count // 50_000)])


def _losses(problem, overlaps, count, seed):
    rng = np.random.default_rng(seed)
    u, v = vectors(np.array(overlaps), problem.dim)
    X = rng.standard_normal((count, problem.tokens, problem.dim))
    X[:, 0] *= problem.gamma
    X[:, 0, 0] += problem.signal
    scores = problem.scale * X @ u
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    predicted = np.sum(weights * problem.link(X @ v), axis=1)
    return (predicted - problem.link(X[:, 0, 1])) ** 2


@pytest.mark.parametrize("link", [*LINKS, np.tanh], ids=str)
@pytest.mark.parametrize("tokens", [2, 7])
def test_brute_force_in_the_true_dimension(link, tokens):
    p = slr.Problem(6, tokens, 0.7, 0.9, link=link)
    overlaps = (0.4, 0.3, -0.2, 0.15, 0.25)
    losses = brute_force(p, overlaps, 700_000, seed=tokens)
    stderr = losses.std() / np.sqrt(losses.size)
    assert abs(losses.mean() - p.risk(*overlaps)) < MANY * stderr
    assert MANY * stderr < 0.02 * p.risk(*overlaps)  # a factor of 1.02 would be seen


def test_one_token():
    for name in LINKS:
        p = slr.Problem(6, 1, 0.7, link=name)
        overlaps = (0.4, 0.3, -0.2, 0.15, 0.25)
        losses = brute_force(p, overlaps, 200_000, seed=1)
        assert abs(losses.mean() - p.risk(*overlaps)) < MANY * losses.std() / np.sqrt(losses.size)
        assert p.gradient(*overlaps) == pytest.approx(_differences(p, overlaps), abs=1e-6)


def two_tokens(overlaps, b, m, gamma):
    """The risk with two tokens, linear link, by a tensor rule over both scores: no Laplace transform in it. Traceable."""
    mu, nu, eta, zeta, rho = overlaps
    z = jnp.linspace(-9.5, 9.5, 1501)
    weight = jnp.exp(-(z**2) / 2) / jnp.sum(jnp.exp(-(z**2) / 2))
    g, h = z[:, None], z
    p = jax.nn.sigmoid(b * (m * mu + gamma * g - h))
    q = jax.nn.sigmoid(-b * (m * mu + gamma * g - h))
    residual = p * (m * zeta + gamma * rho * g) + q * rho * h - gamma * eta * g
    spread = gamma**2 * (p**2 * (1 - rho**2) + 1 - eta**2 - 2 * p * (nu - rho * eta)) + q**2 * (1 - rho**2)
    return weight @ (residual**2 + spread) @ weight


@pytest.mark.parametrize(
    "overlaps", [(0.1, -0.5, 0.2, 0.02, 0.6), (0.5, 0.3, -0.2, 0.1, -0.3), (0.0, 0.0, 0.0, 0.0, 0.0)]
)
def test_two_tokens_by_quadrature_and_automatic_differentiation(overlaps):
    p = slr.Problem(25, 2, 0.6, 0.5)
    with jax.enable_x64(True):
        value, slopes = jax.value_and_grad(two_tokens)(jnp.array(overlaps), p.scale, p.signal, p.gamma)
        value, slopes = float(value), np.asarray(slopes)
    assert p.risk(*overlaps) == pytest.approx(value, abs=1e-12)
    assert p.gradient(*overlaps) == pytest.approx(slopes, abs=1e-10)


def _differences(problem, overlaps, step=1e-5, **method):
    at, unit = np.array(overlaps, float), np.eye(5) * step
    return np.array(
        [(problem.risk(*(at + e), **method) - problem.risk(*(at - e), **method)) / (2 * step) for e in unit]
    )


@pytest.mark.parametrize("link", [*LINKS, np.tanh], ids=str)
@pytest.mark.parametrize("overlaps", [(0.3, 0.2, 0.1, 0.05, -0.1), (-0.2, 0.6, -0.3, 0.1, 0.4)])
def test_gradients_against_differences(link, overlaps):
    p = slr.Problem(50, 10, 0.6, 0.8, link=link)
    assert p.gradient(*overlaps) == pytest.approx(_differences(p, overlaps), abs=2e-6, rel=1e-6)
    mean_field = p.gradient(*overlaps, method="mean-field")
    if link != "sign":  # k = sigma(rho r sqrt(d)) has a slope of 0 there but for a jump
        assert mean_field == pytest.approx(_differences(p, overlaps, method="mean-field"), abs=2e-6, rel=1e-5)


@settings(max_examples=10)
@given(
    b=st.floats(0.3, 20),
    m=signals,
    gamma=gammas,
    log_others=st.just(0.0) | st.floats(np.log(2), 40),
    scale=st.floats(0.1, 0.5),
)
def test_general_formula_has_the_polynomial_as_its_linear_case(b, m, gamma, log_others, scale):
    setting = Setting(b, m, gamma, log_others)
    overlaps = scale * np.array([[1.0, -0.7, 0.4, 0.9, -0.8], [0.3, 1.0, -1.0, 0.2, 0.5]])
    risks, slopes = LinearRisk(setting).risk_and_gradient(overlaps)
    general = GeneralRisk(setting, LINKS["linear"]).risk_and_gradient(overlaps)
    size = 1 + b**2 + m**2
    assert general[0] == pytest.approx(risks, abs=1e-11 * size)
    assert general[1] == pytest.approx(slopes, abs=1e-9 * size * (1 + m * b))


def test_arrays_are_the_numbers_one_by_one():
    for name in ("linear", "relu"):
        p = slr.Problem(30, 8, link=name)
        mu, nu = np.linspace(-0.5, 0.9, 4), np.array([[0.1], [0.6]])
        grid = p.risk(mu, nu, 0.05, 0.0, 0.1)
        assert grid.shape == (2, 4)
        assert grid[1, 2] == pytest.approx(p.risk(mu[2], 0.6, 0.05, 0.0, 0.1), rel=1e-13)
        assert p.gradient(mu, nu).shape == (2, 4, 5)


@pytest.mark.parametrize(("beta", "log_tokens"), [(10.0, 3.0), (10.0, 500.0), (3.0, 500.0), (0.1, 500.0), (1.0, 200.0)])
def test_far_out_the_refined_asymptotics_take_over(beta, log_tokens):
    """Score scales up to 100 and e^500 tokens: finite, and what the theory of the limit says where the signal is surely lost or found."""
    for name in LINKS:
        p = slr.Problem(100, None, 0.6, beta, link=name, log_tokens=log_tokens)
        mu = 0.9 if slr.phase(p, 0.9) == "retrieval" else -0.5
        for rho in (0.0, 0.2):
            exact = p.risk(mu, 0.3, 0.0, mu * rho, rho)
            assert exact == pytest.approx(p.risk(mu, 0.3, 0.0, mu * rho, rho, method="refined"), rel=0.06)


def test_deep_in_the_paramagnetic_phase_the_refined_risk_is_exact():
    """Attention is spread over so many tokens that the law of large numbers holds to every digit, also off `rho = 0`."""
    for name in LINKS:
        p = slr.Problem(100, None, 0.6, 0.1, link=name, log_tokens=500.0)
        at = (-0.5, 0.3, 0.0, -0.1, 0.2)
        assert slr.phase(p, -0.5) == "paramagnetic"
        assert p.risk(*at, method="refined") == pytest.approx(p.risk(*at), rel=1e-10)


def test_mean_field_of_the_linear_link_is_corollary_1():
    p = slr.Problem(100, 20)
    mu, nu, eta, zeta, rho = 0.36, 0.4, 0.1, 0.05, 0.3
    for alpha in (0.0, None, 0.1):
        a = p.alpha if alpha is None else alpha
        r = min(1.0, np.sqrt(2 * a))
        psi = np.sqrt(2 * a)  # beta is above its critical value at all three
        weight = 1 / (1 + np.exp(-(p.strength * mu - psi) * 100))
        bias = weight * p.strength * zeta + (1 - weight) * rho * r
        expected = bias**2 * 100 + 0.5 * (weight**2 - 2 * weight * nu + 1)
        assert p.risk(mu, nu, eta, zeta, rho, method="mean-field", alpha=alpha) == pytest.approx(expected, rel=1e-12)


def test_mean_field_oracles_have_no_negative_risk():
    for name in LINKS:
        assert 0 <= slr.Problem(100, 20, link=name).risk(1, 1, method="mean-field", alpha=0.0) < 1e-8


def test_closed_mean_field_risks():
    """The paper's quadratic and ReLU formulas, written out."""
    p = slr.Problem(100, 20, 0.6, link="quadratic")
    mu, nu, zeta, rho, gamma = 0.3, 0.5, 0.04, 0.1, 0.6
    a, b0 = p.signal * zeta, rho * np.sqrt(2 * p.alpha * 100)
    weight = 1 / (1 + np.exp(-p.scale * (p.signal * mu - np.sqrt(2 * p.alpha * 100))))
    one = a**4 + 6 * a**2 * gamma**2 + 3 * gamma**4 - 2 * b0**2 * (a**2 + gamma**2) + b0**4
    two = gamma**2 * (a**2 + gamma**2) + 2 * gamma**4 * nu**2 - b0**2 * (a**2 + 2 * gamma**2) + b0**4
    rest = 3 * gamma**4 - 2 * b0**2 * gamma**2 + b0**4
    expected = weight**2 * one - 2 * weight * two + rest
    assert p.risk(mu, nu, 0.0, zeta, rho, method="mean-field") == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"gamma": 0.0}, r"gamma=0.0 must lie in \(0, 1\]"),
        ({"gamma": 1.2}, "gamma=1.2"),
        ({"tokens": 0}, "tokens=0 must be a positive integer"),
        ({"tokens": None}, "Give exactly one"),
        ({"log_tokens": 3.0}, "Give exactly one"),
        ({"tokens": None, "log_tokens": 700.0}, "log_tokens=700.0 exceeds 600"),
        ({"tokens": None, "log_tokens": 0.2}, "between one token"),
        ({"dim": 1}, "dim=1"),
        ({"beta": -1.0}, "beta=-1.0"),
        ({"beta": 1e4}, "Use a smaller beta"),
        ({"noise": float("nan")}, "noise=nan"),
    ],
)
def test_refused_problems(settings, words):
    with pytest.raises(ValueError, match=words):
        slr.Problem(**{"dim": 10, "tokens": 5, **settings})


@pytest.mark.parametrize(
    ("overlaps", "words"),
    [
        ((0.9, 0.0, 0.9, 0.0, 0.0), "mu = 0.9.* are not those of any four unit vectors"),
        ((0.0, 0.0, 0.0, 0.0, 1.1), "not those of any four unit vectors"),
        ((1.0, 1.0, 0.0, 0.0, 0.5), "not those of any four unit vectors"),
        ((np.nan, 0.0, 0.0, 0.0, 0.0), "must all be finite"),
    ],
)
def test_impossible_overlaps(overlaps, words):
    with pytest.raises(ValueError, match=words):
        slr.Problem(10, 5).risk(*overlaps)


def test_few_dimensions_allow_few_overlaps():
    with pytest.raises(ValueError, match="need more than dim=3"):
        slr.Problem(3, 5).risk(0.1, 0.1)
    with pytest.raises(ValueError, match="need more than dim=2"):
        slr.Problem(2, 5).risk(0.1, 0.1)
    assert slr.Problem(2, 5).risk(1.0, 1.0) > 0
    with pytest.raises(ValueError, match="method='refind'"):
        slr.Problem(10, 5).risk(0, 0, method="refind")
    with pytest.raises(ValueError, match=r"alpha=0\.1 has no effect with method='exact'"):
        slr.Problem(10, 5).risk(0, 0, alpha=0.1)
    with pytest.raises(TypeError, match="mu='a'"):
        slr.Problem(10, 5).risk("a", 0)

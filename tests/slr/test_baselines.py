"""Baselines of single-location regression: against numbers found elsewhere, simulation, and other ways to the same risk."""

from math import inf, log, pi, sqrt

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.stats
from scipy.special import erf, expit

from limitlaw import slr
from limitlaw.slr import Problem, _predictors as predictors

ORACLE = (1.0, 1.0, 0.0, 0.0, 0.0)


def signal_of(gamma, dim):
    return sqrt((1 - gamma**2) * dim)


def simulate(rng, count, tokens, dim, gamma, signal):
    """Tokens `(count, tokens, dim)`, the first informative along axis 0; the label is its coordinate along axis 1."""
    x = rng.standard_normal((count, tokens, dim))
    x[:, 0] *= gamma
    x[:, 0, 0] += signal
    return x, x[:, 0, 1].copy()


def assert_mean(errors, expected, resolution=0.02):
    """`expected` is within 4 standard errors of the mean, and these are so small that an error of 2% would show."""
    standard_error = errors.std() / sqrt(errors.size)
    assert 4 * standard_error < resolution * expected
    assert abs(errors.mean() - expected) < 4 * standard_error


def agrees(value, printed):
    """Whether `value` rounds to the digits of `printed`."""
    digits = len(printed.split("e")[0].replace(".", "").lstrip("0"))
    return float(f"{value:.{digits - 1}e}") == float(printed)


# From an independent quadrature (midpoint rule in the distance, noncentral chi-square density of scipy), cross-checked by
# Monte Carlo; every printed digit counts.
@pytest.mark.parametrize(
    "dim, gamma, linear, attention, erf_best, pointwise, projections",
    [
        (100, 0.5, "0.246753", "0.125203", "0.133128", "2.5052e-08", "4.4423e-14"),
        (20, 0.8, "0.619145", "0.503504", "0.518685", "0.28631", "0.19468"),
    ],
)
def test_reference_values(dim, gamma, linear, attention, erf_best, pointwise, projections):
    signal, log_others = signal_of(gamma, dim), log(19)
    assert predictors.zero(gamma) == gamma**2
    assert agrees(predictors.best_linear(gamma, log_others), linear)
    assert agrees(predictors.linear_attention(gamma, signal, log_others), attention)
    assert agrees(predictors.erf_gate(gamma, signal, log_others)[0], erf_best)
    assert agrees(predictors.best_pointwise_gate(gamma, signal, log_others), pointwise)
    assert agrees(predictors.bayes(gamma, signal, log_others, 2), projections)


def test_reference_value_with_the_full_likelihood():
    assert agrees(predictors.bayes(0.8, signal_of(0.8, 20), log(19), 20), "0.13234")


@pytest.mark.parametrize("tokens, hit", [(2, 0.942358092989), (20, 0.613411923317), (10**6, 0.000479806859)])
def test_equal_variances_are_softmax_at_the_matched_temperature(tokens, hit):
    """At gamma = 1 the risk is the mean weight on noise; the mean weight on the signal is from the exact softmax risk."""
    risk = predictors.bayes(1.0, 2.5, log(tokens - 1), 2)
    assert 1 - risk == pytest.approx(hit, abs=6e-13)
    assert predictors.bayes(1.0, 2.5, log(tokens - 1), 50) == pytest.approx(risk, rel=1e-13)
    assert predictors.bayes(1.0, -2.5, log(tokens - 1), 2) == risk
    for dimension in (2, 50):
        nearly = predictors.bayes(1 - 1e-10, 2.5, log(tokens - 1), dimension)
        assert nearly == pytest.approx(risk, rel=1e-8)


@pytest.mark.parametrize("gamma, signal", [(0.8, signal_of(0.8, 4)), (0.5, 0.7), (1.0, 1.3)])
@pytest.mark.parametrize("dimension", [2, 4])
def test_bayes_by_simulation(gamma, signal, dimension):
    x, label = simulate(np.random.default_rng(1), 400_000, 5, dimension, gamma, signal)
    towards = x.copy()
    towards[..., 0] -= signal
    ratio = (x**2).sum(-1) / 2 - (towards**2).sum(-1) / (2 * gamma**2)
    weights = np.exp(ratio - ratio.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    errors = ((weights * x[..., 1]).sum(1) - label) ** 2
    assert_mean(errors, predictors.bayes(gamma, signal, log(4), dimension))


@pytest.mark.parametrize("gamma, signal, dimension", [(0.8, signal_of(0.8, 20), 20), (0.6, 2.0, 3), (0.5, 0.0, 2)])
def test_bayes_of_two_tokens_by_double_quadrature(gamma, signal, dimension):
    """`gamma^2 E expit(Lambda_2 - Lambda_1)`, over the squared distances, with the densities of scipy."""
    k = gamma**-2 - 1
    distance = signal / (gamma**2 * k)
    nodes, weights = np.polynomial.legendre.leggauss(600)
    r = (nodes + 1) / 2 * (sqrt(distance**2 + dimension) + 9)
    weights = weights * r * (r[-1] + r[0])  # of r^2
    near = (gamma * distance) ** 2

    def density(square, dof, noncentrality):
        if noncentrality == 0:
            return scipy.stats.chi2.pdf(square, dof)
        return scipy.stats.ncx2.pdf(square, dof, noncentrality)

    noise = weights * density(r**2, dimension, distance**2)
    first = weights * density((r / gamma) ** 2, dimension + 2, near) / gamma**2
    assert noise.sum() == pytest.approx(1, abs=1e-9)
    risk = gamma**2 * first @ expit(k / 2 * (r[:, None] ** 2 - r**2)) @ noise
    assert predictors.bayes(gamma, signal, 0.0, dimension) == pytest.approx(risk, rel=1e-8)


@pytest.mark.parametrize("gamma, signal, tokens", [(0.7, 2.0, 4), (1.0, 1.0, 3)])
def test_any_gate_at_any_overlaps_by_simulation(gamma, signal, tokens):
    rng = np.random.default_rng(2)
    u, v = rng.standard_normal((2, 3))
    u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
    overlaps = u[0], v[1], u[1], v[0], u @ v
    assert min(map(abs, overlaps)) > 0.05
    x, label = simulate(rng, 1_000_000, tokens, 3, gamma, signal)

    def gate(h):
        return 0.4 + 0.5 * np.tanh(2 * h - 1) + 0.1 * np.cos(h)

    errors = ((gate(x @ u) * (x @ v)).sum(1) - label) ** 2
    assert_mean(errors, predictors.gate_risk(gate, overlaps, gamma, signal, log(tokens - 1)))


@pytest.mark.parametrize("slope", [0.01, 0.3, 2.0, 40.0])
def test_quadrature_of_gates_against_arcsines(slope):
    gamma, others = 0.6, 7.0
    risk = predictors.gate_risk(lambda h: erf(slope * h), (0, 0.3, 0, 0, 0), gamma, 1.5, log(others))
    square = [2 / pi * np.arcsin(2 * x**2 / (1 + 2 * x**2)) for x in (gamma * slope, slope)]
    assert risk == pytest.approx(gamma**2 * (1 + square[0]) + others * square[1], rel=1e-12)


def test_a_constant_gate_at_any_overlaps():
    """The sum of the tokens, with a closed form: `gamma^2 (1 - 2 nu a + a^2) + a^2 (m^2 zeta^2 + N)` for a gate `a`."""
    gamma, signal, others, a = 0.6, 3.0, 9.0, 0.35
    nu, zeta = 0.4, -0.3
    risk = predictors.gate_risk(lambda h: np.full(h.shape, a), (0.2, nu, 0.5, zeta, -0.6), gamma, signal, log(others))
    expected = gamma**2 * (1 - 2 * nu * a + a**2) + a**2 * (signal**2 * zeta**2 + others)
    assert risk == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "gamma, signal, log_others",
    [(0.5, 8.66, log(19)), (0.8, 2.0, 0.0), (0.9, 0.4, 0.0), (0.3, 6.0, 8.0), (0.7, -5.0, 3.0), (1.0, 3.0, 1.0)],
)
def test_the_best_slope_of_erf_is_global(gamma, signal, log_others):
    best, slope = predictors.erf_gate(gamma, signal, log_others)

    def risk(x):
        return predictors.gate_risk(lambda h: erf(x * h), ORACLE, gamma, signal, log_others)

    assert slope * signal > 0
    assert risk(slope) == pytest.approx(best, rel=1e-12)
    scan = np.sign(signal) * np.geomspace(1e-6, 50, 150)
    found = min(risk(x) for x in scan)
    assert best <= found * (1 + 1e-12)
    assert found < best * 1.02
    for factor in (0.999, 1.001):
        assert risk(slope * factor) > best


def test_erf_at_many_tokens_is_a_straight_line():
    """Through the change of method at slopes of 1e-6 the risk and the slope are continuous."""
    gamma, signal = 0.8, 3.0
    for log_others in (12.0, 14.0, 15.0, 16.0, 20.0):
        others = np.exp(log_others)
        stiffness = others + gamma**2 * (signal**2 + gamma**2)
        risk, slope = predictors.erf_gate(gamma, signal, log_others)
        assert slope == pytest.approx(sqrt(pi) / 2 * gamma**2 * signal / stiffness, rel=1e-4)
        assert gamma**2 - risk == pytest.approx(gamma**4 * signal**2 / stiffness, rel=1e-4)
    assert predictors.erf_gate(gamma, signal, 500.0)[0] == pytest.approx(gamma**2, rel=1e-15)
    assert predictors.erf_gate(gamma, 0.0, 1.0) == (pytest.approx(gamma**2), 0.0)


def test_the_best_linear_predictor_by_least_squares():
    gamma, signal, tokens = 0.8, 1.5, 3
    rng = np.random.default_rng(3)
    x, label = simulate(rng, 400_000, tokens, 2, gamma, signal)
    order = rng.permuted(np.tile(np.arange(tokens), (len(x), 1)), axis=1)
    x = np.take_along_axis(x, order[..., None], axis=1).reshape(len(x), -1)
    coefficients = np.linalg.lstsq(x, label)[0]
    assert_mean((x @ coefficients - label) ** 2, predictors.best_linear(gamma, log(tokens - 1)))


@pytest.mark.parametrize("gamma, signal, log_others", [(0.8, 2.7, log(19)), (0.5, 8.66, 0.0), (1.0, 1.0, 2.0)])
def test_linear_attention_is_the_best_affine_gate(gamma, signal, log_others):
    def risk(a):
        return predictors.gate_risk(lambda h: a[0] + a[1] * h, ORACLE, gamma, signal, log_others)

    found = scipy.optimize.minimize(risk, [0.0, 0.0], options={"gtol": 1e-7}).fun
    assert predictors.linear_attention(gamma, signal, log_others) == pytest.approx(found, rel=1e-9)


@pytest.mark.parametrize(
    "gamma, signal, log_others", [(0.5, 8.66, log(19)), (0.8, 2.7, 0.0), (0.6, 24.0, 250.0), (1.0, 2.0, 3.0)]
)
def test_no_gate_beats_the_best_pointwise_gate(gamma, signal, log_others):
    def gate(h, extra=0.0):
        return expit(np.log(gamma) - ((h - signal) / gamma) ** 2 / 2 + h**2 / 2 - log_others + extra)

    best = predictors.best_pointwise_gate(gamma, signal, log_others)
    assert predictors.gate_risk(gate, ORACLE, gamma, signal, log_others) == pytest.approx(best, rel=1e-11)
    for extra in (-0.1, 0.1):
        assert predictors.gate_risk(lambda h, e=extra: gate(h, e), ORACLE, gamma, signal, log_others) > best


@pytest.mark.parametrize("gamma", [0.3, 0.5, 1 / sqrt(2), 0.95, 1.0])
@pytest.mark.parametrize("dim", [2, 30, 300])
def test_order_and_growth_with_tokens(gamma, dim):
    signal = signal_of(gamma, dim) if gamma < 1 else 2.0
    previous = np.zeros(5)
    for log_others in (0.0, log(2), log(19), 12.0, 60.0, 200.0):
        linear = predictors.best_linear(gamma, log_others)
        attention = predictors.linear_attention(gamma, signal, log_others)
        slope = predictors.erf_gate(gamma, signal, log_others)[0]
        pointwise = predictors.best_pointwise_gate(gamma, signal, log_others)
        projections = predictors.bayes(gamma, signal, log_others, 2)
        full = predictors.bayes(gamma, signal, log_others, dim)
        slack = 1 + 1e-12
        assert full <= projections * slack
        assert projections <= pointwise * slack
        assert pointwise <= min(attention, slope) * slack
        assert attention <= linear * slack
        assert linear <= gamma**2
        now = np.array([linear, attention, pointwise, projections, full])
        assert np.all(now * slack >= previous)
        previous = now


def test_two_tokens_show_the_pointwise_gate_its_place():
    """A posterior over tokens compares them, a gate does not: the gap is large where scores overlap."""
    assert predictors.bayes(0.8, 2.0, 0.0, 2) < 0.8 * predictors.best_pointwise_gate(0.8, 2.0, 0.0)


def test_thresholds_in_the_number_of_tokens():
    """With `L = exp(alpha d)`, retrieval up to `alpha = (1 - gamma^2) / 2` by projections, `log(1 / gamma)` by all there is."""
    gamma, dim = 0.5, 1000
    signal = signal_of(gamma, dim)
    assert predictors.bayes(gamma, signal, 300.0, 2) < 1e-3
    assert predictors.bayes(gamma, signal, 450.0, 2) == pytest.approx(gamma**2, rel=1e-2)
    assert predictors.bayes(gamma, signal, 500.0, 2) == pytest.approx(gamma**2, rel=1e-6)
    assert 0 < predictors.bayes(gamma, signal, 500.0, dim) < 1e-5
    assert predictors.bayes(gamma, signal, 900.0, dim) == pytest.approx(gamma**2, rel=1e-6)


def test_small_risks_are_proportional_to_the_number_of_tokens():
    """Where it is the rare noise token that wins, twice the tokens win twice as often, however small the risk."""
    gamma, dim = 0.5, 1000
    signal = signal_of(gamma, dim)
    for dimension in (2, dim):
        one, thousand = (predictors.bayes(gamma, signal, log(n), dimension) for n in (1, 1000))
        assert 0 < one < 1e-80
        assert thousand / one == pytest.approx(1000, rel=1e-9)


@pytest.mark.parametrize("dimension", [2, 100])
def test_bayes_does_not_depend_on_the_quadrature(monkeypatch, dimension):
    cases = [(0.5, 8.66, log(19)), (0.8, 1.0, 0.0), (0.9, 4.0, 100.0), (1.0, 3.0, 5.0), (1.0, 30.0, 400.0)]
    before = [predictors.bayes(*case, dimension) for case in cases]
    for name, value in {"_Y_STEP": 0.19, "_PANEL_RISE": 2.5, "_DEPTH": 60.0, "_DEBYE_FROM": 90.0}.items():
        monkeypatch.setattr(predictors, name, value)
    assert [predictors.bayes(*case, dimension) for case in cases] == pytest.approx(before, rel=1e-12)


def test_without_a_signal_in_the_mean_and_variance_all_tokens_are_alike():
    for log_others in (0.0, 3.0, 40.0):
        uniform = expit(log_others)
        assert predictors.bayes(1.0, 0.0, log_others, 2) == pytest.approx(uniform, rel=1e-13)
        assert predictors.best_pointwise_gate(1.0, 0.0, log_others) == pytest.approx(uniform, rel=1e-13)
        assert predictors.linear_attention(0.7, 0.0, log_others) == predictors.best_linear(0.7, log_others)


def test_one_token_is_read_without_error():
    assert predictors.best_linear(0.8, -inf) == 0
    assert predictors.linear_attention(0.8, 2.0, -inf) == 0
    assert predictors.best_pointwise_gate(0.8, 2.0, -inf) == 0
    assert predictors.bayes(0.8, 2.0, -inf, 2) == 0
    assert predictors.gate_risk(np.ones_like, ORACLE, 0.8, 2.0, -inf) == 0
    assert predictors.gate_risk(np.ones_like, (0.1, 0.2, 0.3, 0.4, 0.5), 0.8, 2.0, -inf) == pytest.approx(
        2 * 0.8**2 * (1 - 0.2) + 4 * 0.4**2
    )
    # erf has amplitude 1 and the wrong sign where the score is negative: there is a risk left.
    best, slope = predictors.erf_gate(0.8, 2.0, -inf)
    assert best == pytest.approx(predictors.gate_risk(lambda h: erf(slope * h), ORACLE, 0.8, 2.0, -inf), rel=1e-12)
    assert 0 < best < 4 * 0.8**2 * scipy.stats.norm.cdf(-2.0 / 0.8)


def test_softmax_best_finds_the_deeper_of_two_minima_and_leaves_the_scan():
    def two(beta):
        x = np.log(beta)
        return 1 - 0.5 * np.exp(-((x + 2) ** 2)) - 0.6 * np.exp(-((x - 2) ** 2) / 0.1)

    assert predictors.softmax_best(two) == (pytest.approx(0.4, abs=1e-6), pytest.approx(np.exp(2), rel=1e-6))
    for place in (1e-4, 1 / 32, 1.0, 20.0):
        risk, beta = predictors.softmax_best(lambda b, p=place: 2 + np.log(b / p) ** 2)
        assert risk == pytest.approx(2, abs=1e-12)
        assert beta == pytest.approx(place, rel=1e-5)


def test_baselines_by_name_are_those_of_the_table(monkeypatch):
    p = Problem(dim=20, tokens=5, gamma=0.8)
    table = slr.baselines(p)
    monkeypatch.setattr(predictors, "softmax_best", lambda risk: pytest.fail("it was not asked for"))
    some = slr.baselines(p, "bayes_full", "softmax")
    assert dict(some) == {name: table[name] for name in ("bayes_full", "softmax")}
    assert some.settings == {"softmax": "beta = 1"}
    assert str(slr.baselines(p, "zero")).splitlines()[-1].split() == ["zero", "0.64000"]
    with pytest.raises(ValueError, match=r"baseline='bayes' is not known.*'bayes_full'"):
        slr.baselines(p, "bayes")


def test_softmax_best_of_two_tokens_with_equal_variances_is_bayes():
    """The risk of softmax on two tokens at the oracle is one integral, `(1 + gamma^2) E expit(b (h - s))^2`."""
    signal = 1.7

    def risk(b):
        def integrand(z):
            return 2 * expit(b * (sqrt(2) * z - signal)) ** 2 * np.exp(-(z**2) / 2) / sqrt(2 * pi)

        return scipy.integrate.quad(integrand, -10, 10, points=[0.0, signal / sqrt(2)], limit=200, epsabs=1e-13)[0]

    best, b = predictors.softmax_best(risk)
    assert b == pytest.approx(signal, rel=1e-5)
    assert best == pytest.approx(predictors.bayes(1.0, signal, 0.0, 2), rel=1e-10)


@pytest.mark.parametrize("tokens", [2, 5, 1000])
def test_without_a_signal_bayes_averages(tokens):
    """At gamma = 1 with the default signal, 0, tokens are alike: all weigh 1/L, and the risk is 1 - 1/L; nearby it is close."""
    found = slr.baselines(Problem(dim=10, tokens=tokens, gamma=1.0))
    assert found["bayes_projections"] == pytest.approx(1 - 1 / tokens, rel=1e-12)
    assert found["bayes_full"] == pytest.approx(1 - 1 / tokens, rel=1e-12)
    near = slr.baselines(Problem(dim=10, tokens=tokens, gamma=0.9999))
    assert near["bayes_full"] <= near["bayes_projections"] <= near["linear"]
    assert near["bayes_full"] == pytest.approx(1 - 1 / tokens, rel=2e-3)

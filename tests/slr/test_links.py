"""Gaussian moments of the links against quadrature that knows nothing of closed forms, and their derivatives against differences."""

import dataclasses
import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.integrate import quad

from limitlaw import slr
from limitlaw.slr._links import LINKS, as_link


def softened(t):
    return np.log1p(np.exp(-np.abs(t))) + np.maximum(t, 0.0)


EVERY = [*LINKS.values(), as_link(softened), as_link(np.tanh)]
TOLERANCE = {"softened": 1e-9, "tanh": 1e-6}  # Gauss-Hermite; poles of tanh are close to the axis

means = st.floats(-2, 2)
variances = st.floats(0.05, 1.5)
correlations = st.floats(-0.95, 0.95)


def average(function, m, v):
    """`E function(m + sqrt(v) z)`, split where a link may bend."""
    s = np.sqrt(v)
    density = lambda t: np.exp(-((t - m) ** 2) / (2 * v)) / (s * np.sqrt(2 * np.pi))  # noqa: E731
    ends = sorted({m - 12 * s, *([0.0] if abs(m) < 12 * s else []), m, m + 12 * s})
    return sum(
        quad(lambda t: float(function(t)) * density(t), a, b, epsabs=1e-13, limit=200)[0]
        for a, b in itertools.pairwise(ends)
    )


def numbers(*values):
    return [np.array(float(value)) for value in values]


@pytest.mark.parametrize("link", EVERY, ids=str)
@settings(max_examples=6)
@given(m=means, v=variances)
def test_mean_and_square(link, m, v):
    tolerance = TOLERANCE.get(link.name, 1e-11)
    assert link.mean(*numbers(m, v))[0] == pytest.approx(average(link, m, v), abs=tolerance)
    assert link.square(*numbers(m, v))[0] == pytest.approx(average(lambda t: link(t) ** 2, m, v), abs=tolerance)


@pytest.mark.parametrize("link", EVERY, ids=str)
@settings(max_examples=6)
@given(m1=means, v1=variances, m2=means, v2=variances, r=correlations)
def test_product_by_conditioning(link, m1, v1, m2, v2, r):
    c = r * np.sqrt(v1 * v2)

    def given_first(t):
        return link(t) * float(link.mean(*numbers(m2 + c / v1 * (t - m1), v2 - c**2 / v1))[0])

    tolerance = TOLERANCE.get(link.name, 1e-10)
    assert link.product(*numbers(m1, v1, m2, v2, c))[0] == pytest.approx(average(given_first, m1, v1), abs=tolerance)


@pytest.mark.parametrize("link", EVERY, ids=str)
@settings(max_examples=8)
@given(m1=means, v1=variances, m2=means, v2=variances, r=correlations)
def test_derivatives(link, m1, v1, m2, v2, r):
    for method, at in (
        (link.mean, [m1, v1]),
        (link.square, [m1, v1]),
        (link.product, [m1, v1, m2, v2, r * np.sqrt(v1 * v2)]),
        (link.gap, [m1, v1, m2, v2, r * np.sqrt(v1 * v2)]),
    ):
        found = method(*numbers(*at))[1:]
        for i, derivative in enumerate(found):
            step = np.zeros(len(at))
            step[i] = 1e-5
            up, down = (float(method(*numbers(*(np.array(at) + sign * step)))[0]) for sign in (1, -1))
            assert derivative == pytest.approx((up - down) / 2e-5, abs=3e-5, rel=1e-4), (method.__name__, i)


@pytest.mark.parametrize("link", EVERY, ids=str)
def test_gap_is_the_difference_of_squares_and_vanishes_at_equality(link):
    m1, v1, m2, v2, c = numbers(0.4, 0.6, -0.2, 0.9, 0.3)
    spread = link.square(m1, v1)[0] - 2 * link.product(m1, v1, m2, v2, c)[0] + link.square(m2, v2)[0]
    assert link.gap(m1, v1, m2, v2, c)[0] == pytest.approx(spread, abs=1e-6 if link.name == "tanh" else 1e-12)
    # the probability that two signs differ goes with the root of one minus the correlation: rounding becomes 1e-8
    nearly = {"sign": 1e-7}.get(link.name, 1e-9)
    assert link.gap(m1, v1, m1, v1, v1)[0] == pytest.approx(0.0, abs=nearly)


@pytest.mark.parametrize("nu", [-0.9, -0.3, 0.0, 0.5, 0.99])
def test_dual_kernels_are_the_paper_s(nu):
    gamma = 0.7
    expected = {
        "linear": gamma**2 * nu,
        "quadratic": gamma**4 * (1 + 2 * nu**2),
        "relu": gamma**2 * (np.sqrt(1 - nu**2) + nu * np.arccos(-nu)) / (2 * np.pi),
        "sign": 2 / np.pi * np.arcsin(nu),
    }
    for name, value in expected.items():
        assert LINKS[name].kernel(gamma, np.array([nu]))[0][0] == pytest.approx(value, abs=1e-13)


@pytest.mark.parametrize(
    ("link", "error", "words"),
    [
        ("cubic", ValueError, "'linear', 'quadratic', 'relu', 'sign'"),
        (3, TypeError, "a name, a function"),
        (np.log, ValueError, "must be finite everywhere"),
        (lambda t: t.sum(), ValueError, "entry by entry"),
        (lambda t: t.nothing, ValueError, "fails on an array"),
        (lambda t: np.maximum(t, 0.0), ValueError, "a kink or a jump"),
        (lambda t: np.tanh(20 * t), ValueError, "a kink or a jump"),
    ],
)
def test_refused(link, error, words):
    with pytest.raises(error, match=words):
        slr.Problem(dim=10, tokens=3, link=link)


def test_links_of_others_are_values():
    @dataclasses.dataclass(frozen=True, repr=False)
    class Scaled(type(LINKS["quadratic"])):
        factor: float = 2.0

    first, second = (slr.Problem(9, 4, link=Scaled(factor)) for factor in (2.0, 3.0))
    assert first == slr.Problem(9, 4, link=Scaled()) != second
    assert first != slr.Problem(9, 4, link="quadratic")

    class Mutable(Scaled):
        __hash__ = None

    with pytest.raises(TypeError, match="Make its class a frozen dataclass"):
        slr.Problem(9, 4, link=Mutable())


def test_functions_are_as_good_as_names():
    for function, name in ((lambda t: 1.0 * t, "linear"), (lambda t: t * t, "quadratic")):
        own, known = (slr.Problem(100, 20, 0.5, link=link) for link in (function, name))
        assert own.risk(1, 1) == pytest.approx(known.risk(1, 1), rel=1e-8)  # 1e-13: nothing cancels
        at = (0.3, 0.2, 0.1, 0.05, -0.1)
        assert own.gradient(*at) == pytest.approx(known.gradient(*at), abs=1e-8)
        assert own.link.parity == known.link.parity


def test_functions_of_jax_are_computed_in_double_precision():
    at = (0.3, 0.2, 0.1, 0.05, -0.1)
    first, second = (slr.Problem(20, 5, link=link) for link in (np.tanh, jnp.tanh))
    assert first.risk(*at) == pytest.approx(second.risk(*at), abs=1e-13)
    assert slr.simulate(second, 20, 4, test_samples=20).risk.shape == (2,)
    with pytest.raises(ValueError, match=r"Write it with jax\.numpy"):
        slr.simulate(first, 20, 4)


def test_a_name_is_not_a_link():
    def linear(t):
        return 3 * t

    with pytest.raises(ValueError, match="link='linear'"):
        slr.baselines(slr.Problem(20, 5, link=linear))


@pytest.mark.parametrize("name", ["relu", "sign"])
def test_slopes_at_the_bounds_are_limits_of_those_inside(name):
    p = slr.Problem(100, 20, link=name)
    for bound, inside in (((0, 0, 0, 0, 1.0), (0, 0, 0, 0, 0.999)), ((0, 0, 1.0, 0, 0), (0, 0, 0.999, 0, 0))):
        assert p.gradient(*bound) == pytest.approx(p.gradient(*inside), abs=0.02)
        assert p.risk(*bound) == pytest.approx(p.risk(*inside), abs=0.02)

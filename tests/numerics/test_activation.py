import copy
import pickle
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw._checks import ArgumentError, ArgumentTypeError
from limitlaw.numerics.integrate import gaussian_expectation

CLOSED = ["identity", "relu", "erf", "gelu"]


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("a, b, c", [(1.0, 1.0, 0.0), (1.0, 1.0, 0.6), (0.5, 2.0, -0.7), (3.0, 0.2, 0.1)])
def test_dual_is_the_gaussian_integral(name, a, b, c):
    phi = ll.activation(name)
    root = np.linalg.cholesky([[a, c], [c, b]])

    def product(xi):
        u, v = jnp.asarray(root) @ xi
        return phi(u) * phi(v)

    value, error = gaussian_expectation(product, 2)
    assert phi.dual is not None
    assert abs(phi.dual(a, b, c) - value) < max(6 * error, 1e-7)


@pytest.mark.parametrize("name", CLOSED)
def test_dual_on_the_diagonal(name):
    phi = ll.activation(name)
    assert phi.dual is not None
    assert abs(phi.dual(1.0, 1.0, 1.0) - phi.moments()[1]) < 1e-8
    assert abs(phi.dual(1.0, 1.0, 0.0) - phi.moments()[0] ** 2) < 1e-8


def test_dual_of_a_dead_token():
    assert ll.activation("relu").dual(np.float64(0.0), np.float64(2.0), np.float64(0.0)) == 0.0  # type: ignore[misc]


@pytest.mark.parametrize(
    "spec, name", [("tanh", "tanh"), (jax.nn.relu, "relu"), (jnp.tanh, "tanh"), (ll.clip(2.0), "clip(2.0)")]
)
def test_what_counts_as_an_activation(spec, name):
    assert repr(ll.activation(spec)) == name


def test_clip_clips():
    assert np.array_equal(ll.clip(2.0)(jnp.asarray([-5.0, 1.0, 3.0])), [-2.0, 1.0, 2.0])


NAMES = {
    "swish": "Did you mean 'silu'",
    "linear": "Did you mean 'identity'",
    "gelu_new": "Did you mean 'gelu_tanh'",
    "relu6": "Did you mean 'relu'",
    "clip(-1)": "Did you mean 'clip",
    "xyzzy": "Known: 'identity', 'relu'.*'clip",
}
ONE_NUMBER = "must return one real number"
MIXES = "mixes coordinates"
GROWS = "grows so fast"
FUNCTIONS = {
    "two numbers": (lambda x: jnp.stack([x, x]), ONE_NUMBER),
    "a truth value": (lambda x: x > 0, ONE_NUMBER),
    "of two": (lambda x, y: x, "fails on 1 number "),
    "along an axis": (lambda x: jax.nn.softmax(x, -1), "fails on 1 number "),
    "centred": (lambda x: x - x.mean(), MIXES),
    "a sum": (lambda x: x.sum(), MIXES),
    "a maximum": (lambda x: x.max(), MIXES),
    "normalised": (lambda x: x / jnp.linalg.norm(x), MIXES),
    "not a number": (lambda x: x * jnp.nan, "is nan at x=0"),
    "half a root": (jnp.sqrt, "is nan at x=-0.06"),
    "a logarithm": (jnp.log, "is -inf at x=0"),
    "a pole": (lambda x: 1 / x, "is inf at x=0"),
    "exp(x^2)": (lambda x: jnp.exp(x**2), GROWS),
    "exp(x^2 / 4)": (lambda x: jnp.exp(x**2 / 4), GROWS),
    "exp(-x^3)": (lambda x: jnp.exp(-(x**3)), GROWS),
    "exp(exp(x))": (lambda x: jnp.exp(jnp.exp(x)), GROWS),
    "x^40, which quadrature misses": (lambda x: x**40, GROWS),
    "in a class": (ll.Activation("nan", lambda x: x * jnp.nan), "is nan at x=0"),
}


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_name_is_refused_with_the_nearest(name):
    with pytest.raises(ArgumentError, match=rf"^activation='{re.escape(name)}' is not a known name.*{NAMES[name]}"):
        ll.activation(name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_without_gaussian_moments_is_refused(name):
    function, text = FUNCTIONS[name]
    for _ in range(2):  # a refusal is not remembered as an acceptance
        with pytest.raises(ArgumentError, match=rf"^activation=.*{text}") as refused:
            ll.activation(function)
    assert refused.value.argument == "activation"


@pytest.mark.parametrize("spec", [3, None, jnp.ones(2)])
def test_what_is_no_function_is_refused(spec):
    with pytest.raises(ArgumentTypeError, match=r"^activation=.*must be a name"):
        ll.activation(spec)


def test_a_function_without_a_hash_is_refused():
    class Unhashable:
        __hash__ = None

        def __call__(self, x):
            return x

    with pytest.raises(ArgumentTypeError, match=r"must be hashable"):
        ll.activation(Unhashable())


ACCEPTED = {
    "x^9": (lambda x: x**9, 34459425.0),
    "exp": (jnp.exp, np.exp(2)),
    "cosh": (jnp.cosh, (np.exp(2) + 1) / 2),
    "exp(x^2 / 8)": (lambda x: jnp.exp(x**2 / 8), np.sqrt(2)),
    "zero": (lambda x: 0 * x, 0.0),
    "constant": (lambda x: jnp.ones((), x.dtype), 1.0),
    "with a branch": (lambda x: jax.lax.cond(x > 0, lambda x: x, lambda x: 0 * x, x), 0.5),
    "with a jump": (jnp.sign, 1.0),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_function_with_gaussian_moments_is_accepted(name):
    function, second = ACCEPTED[name]
    assert ll.activation(function).moments()[1] == pytest.approx(second, rel=1e-4)


def test_a_function_is_tried_once():
    calls = []

    def counted(x):
        calls.append(x)
        return x

    first = ll.activation(counted)
    tried = len(calls)
    assert ll.activation(counted) is first
    assert ll.activation(first) is first
    assert len(calls) == tried


@pytest.mark.parametrize("bound", [0.0, -1.0, float("nan")])
def test_clip_refuses(bound):
    with pytest.raises(ArgumentError, match=r"^bound=.*must be positive"):
        ll.clip(bound)


@pytest.mark.parametrize("bound", ["1", True, None])
def test_clip_refuses_what_is_no_number(bound):
    with pytest.raises(ArgumentTypeError, match=r"^bound=.*must be a positive number"):
        ll.clip(bound)


def cubed(x):
    return x**3


def cubic_dual(a, b, c):
    return 9 * a * b * c + 6 * c**3


VALUES = {
    **{name: ll.activation(name) for name in [*CLOSED, "tanh", "gelu_tanh", "silu", "sigmoid", "clip(100)"]},
    "function": ll.activation(cubed),
    "function of jax": ll.activation(jnp.sin),
    "with a dual": ll.Activation("cubic", cubed, cubic_dual),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda phi: pickle.loads(pickle.dumps(phi))])
def test_an_activation_is_a_value(name, clone):
    phi = VALUES[name]
    twin = clone(phi)
    assert twin == phi
    assert hash(twin) == hash(phi)
    assert (twin.dual, twin.takes_arrays) == (phi.dual, phi.takes_arrays)
    assert twin(0.5) == phi(0.5)
    assert phi != ll.clip(3.0)


def test_networks_with_activations_can_be_pickled():
    for spec in ("identity", "gelu", ll.clip(2.0), cubed):
        net = ll.Network(ll.Inputs(4, spec), ll.MLP(spec))
        assert pickle.loads(pickle.dumps(net)).inputs.activation == net.inputs.activation


@pytest.mark.parametrize("variance", [1.0, 1e4, 1e8, 1e12, 1e16])
@pytest.mark.parametrize("correlation", [-1.0, 0.3, 0.9999, 1.0])
def test_duals_of_large_variances_in_single_precision(variance, correlation):
    """Gelu is relu far out: its dual differs from relu's by at most 0.17 at any point, so the dual by less than 0.31 sqrt(variance)."""
    C = jnp.array([[1.0, correlation], [correlation, 1.0]], jnp.float32)[..., None] * variance
    gelu, relu = (ll.activation(name).kernel(C)[..., 0] for name in ("gelu", "relu"))
    size = float(np.sqrt(variance))
    np.testing.assert_allclose(gelu / variance, relu / variance, atol=0.31 / size + 2e-6)

"""NumPy in the place of a compiler: every operation, on its own and in whole networks, gives what jax gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from numpy.testing import assert_allclose, assert_array_equal

import limitlaw as ll
from limitlaw.numerics import _interpreted, interpreted, random, seed_key

_rng = np.random.default_rng(0)
REAL = _rng.standard_normal((3, 4)).astype(np.float32)
OTHER = _rng.standard_normal((3, 4)).astype(np.float32)
UNIT = (0.99 * np.tanh(REAL)).astype(np.float32)
POSITIVE = np.exp(REAL)
WORDS = _rng.integers(0, 2**32, (3, 4), dtype=np.uint32)
SIGNED = _rng.integers(-9, 9, (3, 4), dtype=np.int32)
YES = REAL > 0
WITH_GAPS = np.where(YES, REAL, np.float32(np.nan))

OPERATIONS = {
    "abs": (jnp.abs, REAL),
    "acos": (jnp.arccos, UNIT),
    "add": (lax.add, REAL, OTHER),
    "add, words that overflow": (lax.add, WORDS, WORDS),
    "and": (lax.bitwise_and, WORDS, WORDS[::-1].copy()),
    "asin": (jnp.arcsin, UNIT),
    "atan2": (lax.atan2, REAL, OTHER),
    "bitcast": (lambda x: lax.bitcast_convert_type(x, jnp.float32), (WORDS >> 9) | np.uint32(0x3F800000)),
    "broadcast": (lambda x: lax.broadcast_in_dim(x, (2, 3, 5, 4), (1, 3)), REAL),
    "ceil": (jnp.ceil, REAL),
    "concatenate": (lambda x, y: jnp.concatenate([x, y], axis=1), REAL, OTHER),
    "convert": (lambda x: x.astype(jnp.int32), 9 * REAL),
    "copy": (jnp.copy, REAL),
    "cos": (jnp.cos, REAL),
    "div": (lax.div, REAL, OTHER),
    "dot, matrices": (lambda x, y: lax.dot(x, y.T, precision="highest"), REAL, OTHER),
    "dot, batches on both sides": (
        lambda x, y: lax.dot_general(x, y, (((2, 0), (0, 2)), ((3,), (1,))), precision="highest"),
        _rng.standard_normal((2, 3, 4, 5)).astype(np.float32),
        _rng.standard_normal((4, 5, 2, 6)).astype(np.float32),
    ),
    "dynamic slice": (lambda x, i: lax.dynamic_slice(x, (i, i), (2, 3)), REAL, np.int32(1)),
    "dynamic slice beyond the end": (lambda x, i: lax.dynamic_slice(x, (i, i), (2, 3)), REAL, np.int32(7)),
    "eq": (lax.eq, SIGNED, SIGNED[::-1].copy()),
    "erf": (lax.erf, REAL),
    "erf_inv": (lax.erf_inv, UNIT),
    "erfc": (lax.erfc, REAL),
    "exp": (jnp.exp, REAL),
    "expm1": (jnp.expm1, REAL),
    "floor": (jnp.floor, REAL),
    "gather rows": (lambda x: x[np.array([[2, 0], [1, 1]])], REAL),
    "gather columns": (lambda x: x[:, np.array([3, 0])], REAL),
    "ge": (lax.ge, SIGNED, SIGNED[::-1].copy()),
    "gt": (lax.gt, REAL, WITH_GAPS),
    "integer_pow": (lambda x: x**3, REAL),
    "integer_pow, negative": (lambda x: lax.integer_pow(x, -2), REAL),
    "iota": (lambda x: x + lax.broadcasted_iota(jnp.float32, (3, 4), 0), REAL),
    "is_finite": (jnp.isfinite, WITH_GAPS),
    "le": (lax.le, REAL, WITH_GAPS),
    "log": (jnp.log, POSITIVE),
    "log of a negative number": (jnp.log, REAL),
    "log1p": (jnp.log1p, POSITIVE),
    "logistic": (lax.logistic, REAL),
    "lt": (lax.lt, REAL, OTHER),
    "max": (lax.max, REAL, WITH_GAPS),
    "min": (lax.min, REAL, WITH_GAPS),
    "mul": (lax.mul, REAL, OTHER),
    "mul, words that overflow": (lax.mul, WORDS, WORDS),
    "ne": (lax.ne, REAL, WITH_GAPS),
    "neg": (lax.neg, REAL),
    "not": (lax.bitwise_not, YES),
    "not, words": (lax.bitwise_not, WORDS),
    "or": (lax.bitwise_or, WORDS, WORDS[::-1].copy()),
    "pow": (lax.pow, POSITIVE, REAL),
    "reduce_and": (lambda x: jnp.all(x, axis=1), YES),
    "reduce_max": (lambda x: jnp.max(x, axis=0), WITH_GAPS),
    "reduce_min": (lambda x: jnp.min(x, axis=(0, 1)), REAL),
    "reduce_or": (lambda x: jnp.any(x, axis=0), YES),
    "reduce_sum": (lambda x: jnp.sum(x, axis=1), REAL),
    "reshape": (lambda x: x.reshape(2, 6), REAL),
    "rev": (lambda x: lax.rev(x, (1,)), REAL),
    "rsqrt": (lax.rsqrt, POSITIVE),
    "select": (lambda p, x, y: lax.select(p, x, y), YES, REAL, OTHER),
    "select among three": (lambda i, x: lax.select_n(i, x, 2 * x, 3 * x), np.abs(SIGNED) % 3, REAL),
    "shift_left": (lax.shift_left, WORDS, WORDS % 31),
    "shift_right_logical": (lax.shift_right_logical, WORDS, WORDS % 31),
    "sin": (jnp.sin, REAL),
    "slice with strides": (lambda x: x[::2, 1::2], REAL),
    "split": (lambda x: jnp.concatenate(lax.split(x, (1, 3), axis=1)[::-1], axis=1), REAL),
    "sqrt": (jnp.sqrt, POSITIVE),
    "squeeze": (lambda x: lax.squeeze(x[:, :1], (1,)), REAL),
    "stack": (lambda x, y: jnp.stack([x, y], axis=1), REAL, OTHER),
    "stop_gradient": (lax.stop_gradient, REAL),
    "sub": (lax.sub, REAL, OTHER),
    "tanh": (jnp.tanh, REAL),
    "transpose": (lambda x: x.T, REAL),
    "xor": (lax.bitwise_xor, WORDS, WORDS[::-1].copy()),
    "a function in a function": (lambda x: jax.jit(lambda y: jax.nn.relu(y) + 1)(x) * 2, REAL),
    "softmax": (lambda x: jax.nn.softmax(x, axis=1), REAL),
    "a constant": (lambda x: x + jnp.asarray(OTHER), REAL),
    "one number": (lambda x: x**2 + 1, np.float32(1.5)),
    "its argument": (lambda x: x, REAL),
}
LEFT_TO_JAX = {
    "cumulative sums": (jnp.cumsum, REAL),
    "order": (lambda x: jnp.sort(x, axis=0), REAL),
    "whole numbers divided": (lax.div, SIGNED, np.abs(SIGNED) + 2),
    "signed shift": (lax.shift_right_logical, SIGNED, np.abs(SIGNED)),
    "entries picked": (lambda x: x[np.array([0, 1]), np.array([2, 0])], REAL),
    "rows that may not exist": (lambda x, i: x.at[i].get(mode="fill", fill_value=-1.0), REAL, np.array([0, 9])),
    "a Cholesky factor": (lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(3)), REAL),
    "bits as bytes": (lambda x: lax.bitcast_convert_type(x, jnp.uint8), WORDS),
    "a long loop": (lambda x: lax.fori_loop(0, 100, lambda i, y: jnp.cos(y) + x, x), REAL),
    "random bits of jax": (lambda key: jax.random.bits(key, (5,)), jax.random.key(0)),
}


def assert_as_compiled(function, *arguments, rtol=3e-6):
    expected = jax.jit(function)(*arguments)
    found = interpreted(function)(*arguments)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        if one.dtype.kind == "f":
            assert_allclose(one, other, rtol=rtol, atol=1e-6)
        else:
            assert_array_equal(one, other)


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_that_of_jax_and_needs_none_of_it(name, monkeypatch):
    function, *arguments = OPERATIONS[name]

    def forbidden(equation):
        raise AssertionError(f"{equation.primitive} was left to jax")

    monkeypatch.setattr(_interpreted, "_left_to_jax", forbidden)
    assert_as_compiled(function, *arguments)


@pytest.mark.parametrize("name", LEFT_TO_JAX)
def test_what_is_not_in_the_tables_is_left_to_jax(name, monkeypatch):
    function, *arguments = LEFT_TO_JAX[name]
    left, own = [], _interpreted._left_to_jax
    monkeypatch.setattr(_interpreted, "_left_to_jax", lambda equation: left.append(equation) or own(equation))
    assert_as_compiled(function, *arguments, rtol=1e-4)
    assert left


@pytest.mark.parametrize("index", [-3, 0, 1, 2, 9])
def test_branches_and_their_bounds(index):
    branches = [jnp.sin, jnp.cos, lambda x: x**2]
    assert_as_compiled(lambda i, x: lax.switch(i, branches, x), np.int32(index), REAL)


@pytest.mark.parametrize("length", [0, 1, 5, 40])
@pytest.mark.parametrize("reverse", [False, True])
def test_loops_with_rows_and_results(length, reverse):
    rows = _rng.standard_normal((length, 4)).astype(np.float32)

    def loop(rows, factor):
        def step(carry, row):
            total, count = carry
            return (total + factor * row, count + 1), (total, row * count.astype(jnp.float32))

        return lax.scan(step, (jnp.zeros(4), jnp.int32(0)), rows, reverse=reverse)

    assert_as_compiled(loop, rows, np.float32(0.5))


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_loops_of_unknown_length(steps):
    def loop(steps, x):
        return lax.while_loop(lambda c: c[0] < steps, lambda c: (c[0] + 1, jnp.tanh(c[1]) + x), (0, x))

    assert_as_compiled(loop, np.int32(steps), REAL)


def test_keys_are_one_number_each():
    def function(key):
        keys = jnp.stack(random.split(key, 6)).reshape(2, 3)
        _, drawn = lax.scan(lambda c, one: (c, (random.normal(one[1], (4,)), one[0])), 0, keys)
        return drawn, keys[1, 2], random.bits(keys[0, 1], (3,))

    (normals, keys), key, bits = interpreted(function)(seed_key(5))
    (as_normals, as_keys), as_key, as_bits = jax.jit(function)(seed_key(5))
    assert_allclose(normals, as_normals, rtol=3e-6)
    assert bool((keys == as_keys).all())
    assert bool(key == as_key)
    assert_array_equal(bits, as_bits)


def test_what_is_not_needed_is_not_computed(monkeypatch):
    monkeypatch.setattr(_interpreted, "_left_to_jax", lambda equation: pytest.fail("it is not needed"))
    assert_as_compiled(lambda x: (jnp.cumsum(x), x + 1)[1], REAL)


def block(attention, mlp, norm):
    return ll.Repeat(3, ll.Residual(norm, attention), ll.Residual(norm, mlp, skip=0.5))


_GRAM = np.array([[1.0, 0.3, 0.0], [0.3, 1.0, -0.2], [0.0, -0.2, 0.5]])
NETWORKS = {
    "pre-LN": ll.Network(
        ll.GaussianInputs(_GRAM),
        block(ll.Attention(heads=2, head_dim="split", mask="causal"), ll.MLP("gelu"), ll.LayerNorm()),
    ),
    "post-norm, gated": ll.Network(
        ll.GramInputs(_GRAM),
        ll.Repeat(2, ll.Residual(ll.Attention(heads=4, head_dim=3)), ll.RMSNorm(1e-3)),
        ll.Residual(ll.MLP("silu", gated=True, in_bias_std=0.5)),
        ll.RMSNorm(1e-3),
    ),
    "rotary, groups, biases": ll.Network(
        ll.GaussianInputs(_GRAM),
        ll.Residual(
            ll.RMSNorm(),
            ll.Attention(heads=4, kv_heads=2, head_dim="split", rope=50.0, value_bias_std=0.5, query_bias_std=0.2),
        ),
    ),
    "the paper's inputs, tied": ll.Network(
        ll.Inputs(3, "relu"), ll.Attention(heads=2, tie_qk=True, scale="linear"), ll.LayerNorm(), ll.MLP("tanh")
    ),
    "many heads": ll.Network(ll.GaussianInputs(_GRAM), ll.Residual(ll.Attention(heads=20, head_dim=5))),
}  # fmt: skip


@pytest.mark.parametrize("width", [8, 24, np.inf])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_trajectory_is_that_of_the_compiled_program(name, width):
    """The same draws: each entry of each Gram matrix and each entropy, up to the rounding of a few layers."""
    net = NETWORKS[name]
    one, other = (net.trajectory(300, width=width, seed=3, jit=jit) for jit in (False, True))
    assert_allclose(one.gram, other.gram, rtol=2e-3, atol=2e-3)
    for found, expected in zip(one.entropies, other.entropies, strict=True):
        assert_allclose(found, expected, rtol=2e-3, atol=2e-3)


def test_at_infinite_width_a_trajectory_takes_no_compiler(monkeypatch):
    def forbidden(equation):
        raise AssertionError(f"{equation.primitive} was left to jax")

    net = NETWORKS["pre-LN"]
    compiled = net.trajectory(50, width=np.inf)
    monkeypatch.setattr(_interpreted, "_left_to_jax", lambda equation: lambda *_: forbidden(equation))
    assert_allclose(net.trajectory(50, width=np.inf, jit=False).gram, compiled.gram, rtol=2e-3, atol=2e-3)

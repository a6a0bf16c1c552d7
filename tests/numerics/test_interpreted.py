"""NumPy in the place of a compiler: every operation, on its own and in whole networks, gives what jax gives."""

import tracemalloc

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
EDGES = np.array([0.0, -1.7, 1.7, 3e9, -3e9, np.inf, -np.inf, np.nan], np.float32)
WITH_GAPS = np.where(YES, REAL, np.float32(np.nan))


@jax.custom_vjp
def with_own_derivative(x):
    return jnp.sin(x) + 1


with_own_derivative.defvjp(lambda x: (jnp.sin(x) + 1, x), lambda x, g: (g * jnp.cos(x),))

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
    "convert what is too large": (lambda x: x.astype(jnp.int32), EDGES),
    "convert what is negative": (lambda x: x.astype(jnp.uint8), EDGES),
    "convert to booleans": (lambda x: x.astype(bool), EDGES),
    "copy": (jnp.copy, REAL),
    "cos": (jnp.cos, REAL),
    "div": (lax.div, REAL, OTHER),
    "dot, matrices": (lambda x, y: lax.dot(x, y.T, precision="highest"), REAL, OTHER),
    "dot, batches on both sides": (
        lambda x, y: lax.dot_general(x, y, (((2, 0), (0, 2)), ((3,), (1,))), precision="highest"),
        _rng.standard_normal((2, 3, 4, 5)).astype(np.float32),
        _rng.standard_normal((4, 5, 2, 6)).astype(np.float32),
    ),
    "dot, batches in another order": (
        lambda x, y: lax.dot_general(x, y, (((0,), (3,)), ((3, 1), (0, 2))), precision="highest"),
        _rng.standard_normal((2, 3, 4, 5)).astype(np.float32),
        _rng.standard_normal((5, 6, 3, 2)).astype(np.float32),
    ),
    "dot, whole numbers": (
        lambda x, y: lax.dot(x, y.T, preferred_element_type=jnp.int32),
        np.full((2, 50), 100, np.int8),
        np.full((2, 50), 90, np.int8),
    ),
    "dynamic slice before the start": (lambda x, i: lax.dynamic_slice(x, (i, i), (2, 3)), REAL, np.int32(-7)),
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
    "reduce_and, words": (lambda x: lax.reduce(x, np.uint32(0xFFFFFFFF), lax.bitwise_and, (0,)), WORDS),
    "reduce_or, words": (lambda x: lax.reduce(x, np.uint32(0), lax.bitwise_or, (1,)), WORDS),
    "reduce_and": (lambda x: jnp.all(x, axis=1), YES),
    "reduce_max": (lambda x: jnp.max(x, axis=0), WITH_GAPS),
    "reduce_min": (lambda x: jnp.min(x, axis=(0, 1)), REAL),
    "reduce_or": (lambda x: jnp.any(x, axis=0), YES),
    "reduce_sum": (lambda x: jnp.sum(x, axis=1), REAL),
    "reduce_sum, many rows": (lambda x: jnp.sum(x, axis=0), np.full((200_000, 2), 0.1, np.float32)),
    "reduce_sum, small whole numbers": (lambda x: jnp.sum(x, axis=1, dtype=jnp.int8), np.full((2, 3), 100, np.int8)),
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
    "a function with its own derivative": (with_own_derivative, REAL),
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
    "a Cholesky factor of a batch": (lambda x: jax.vmap(lambda y: jnp.linalg.cholesky(y * jnp.eye(2)))(x), POSITIVE[0]),
    "in another order": (lambda x: lax.reshape(x, (12,), dimensions=(1, 0)), REAL),
    "a power of another type": (lambda x, n: lax.pow(x, n), POSITIVE, np.abs(SIGNED)),
    "powers of whole numbers": (lambda x: lax.integer_pow(x, 3), SIGNED),
    "the largest of none": (lambda x: jnp.max(x, axis=1, initial=-1.0), np.zeros((2, 0), np.float32)),
    "half precision": (
        lambda x: lax.erf(x.astype(jnp.bfloat16)) + jnp.sum(x.astype(jnp.float16)).astype(jnp.bfloat16),
        REAL,
    ),
    "keys compared": (lambda one, other: one == other, jax.random.key(1), jax.random.key(2)),
    "a batch of loops": (
        jax.vmap(lambda x: lax.while_loop(lambda y: y < 2, lambda y: y + jnp.exp(x), x)),
        REAL.reshape(-1),
    ),
    "many numbers in few steps": (
        lambda x: lax.map(lambda i: x + i.astype(jnp.float32), jnp.arange(3))[:, ::9973],
        np.zeros(2**18, np.float32),
    ),
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


def test_a_function_is_traced_for_every_kind_of_arrays():
    traced = []

    @interpreted
    def double(x):
        traced.append(x.dtype)
        return x + x

    for x in (REAL, OTHER, SIGNED, REAL[:2], np.float32(3), REAL):
        found = double(x)
        assert (found.dtype, found.shape) == (x.dtype, np.shape(x))
        assert_array_equal(found, 2 * x)
    with jax.enable_x64(True):
        assert double(np.float64(0.1)) == 0.2
    assert double(np.float64(0.1)).dtype == np.float32
    assert len(traced) == 5  # outside of that context a float64 is a float32, and known
    assert_array_equal(double(REAL), 2 * REAL)


def test_what_is_printed_is_printed(capfd):
    interpreted(lambda x: (jax.debug.print("seen {}", x), x + 1)[1])(np.float32(7))
    jax.effects_barrier()
    assert "seen 7.0" in capfd.readouterr().out


def test_other_keys_are_refused():
    with pytest.raises(TypeError, match=r"rbg.*threefry2x32"):
        interpreted(lambda key: jax.random.normal(key))(jax.random.key(0, impl="rbg"))


def test_values_are_held_no_longer_than_they_are_needed():
    """A chain of a hundred arrays needs room for a few of them."""

    def chain(x):
        for _ in range(100):
            x = jnp.sin(x) + 1
        return x

    x, run = np.zeros(2**18, np.float32), interpreted(chain)
    run(x)
    tracemalloc.start()
    run(x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 * x.nbytes


def test_results_are_arrays_of_their_own():
    fixed, x = np.ones(3, np.float32), np.zeros(3, np.float32)
    function = interpreted(lambda x: (x, x + 1, jnp.asarray(fixed) * 1, jnp.broadcast_to(x[:1], (3,)), jnp.arange(3.0)))
    for result in function(x):
        result += 7
    assert (x == 0).all()
    assert (fixed == 1).all()
    assert [result.tolist() for result in function(x)] == [[0] * 3, [1] * 3, [1] * 3, [0] * 3, [0, 1, 2]]


def test_arguments_have_the_precision_that_jax_gives_them():
    def third(x):
        return x / 3

    for wide in (False, True):
        with jax.enable_x64(wide):
            found, expected = interpreted(third)(np.float64(1.0)), jax.jit(third)(np.float64(1.0))
            assert found.dtype == expected.dtype == (np.float64 if wide else np.float32)
            assert found == np.asarray(expected)


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

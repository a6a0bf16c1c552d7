"""`numerics.random` against `jax.random`: the same numbers, whatever the shape and however it is called."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from limitlaw.numerics import random
from limitlaw.numerics.batches import seed_key

KEY = seed_key(2**63 + 11)  # both words of the key matter

SHAPES = [(), (1,), (5,), (2048,), (4099,), (7, 2048), (14, 2048), (3, 5, 1024), (1, 1, 4096), (2, 20_000), (0, 3)]
"""Single numbers, few, rows that are taken one, several or all at a time, a prime number of them, and none."""


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits_are_those_of_jax(shape):
    np.testing.assert_array_equal(random.bits(KEY, shape), jax.random.bits(KEY, shape, jnp.uint32))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_normals_are_those_of_jax(shape):
    expected = jax.random.normal(KEY, shape, jnp.float32)
    np.testing.assert_allclose(random.normal(KEY, shape), expected, rtol=1e-6, atol=1e-7)


@given(seed=st.integers(0, 2**64 - 1), number=st.integers(0, 2**31 - 1))
@settings(max_examples=50, deadline=None)
def test_keys_are_those_of_jax(seed, number):
    key = seed_key(seed)
    assert random.fold_in(key, number) == jax.random.fold_in(key, number)
    for own, expected in zip(random.split(key, 3), jax.random.split(key, 3), strict=True):
        assert own == expected


def test_several_keys_at_once():
    keys = random.fold_in(KEY, np.arange(6))
    assert bool((keys == jax.random.split(KEY, 6)).all())
    together = jax.jit(jax.vmap(lambda key: random.normal(key, (3, 700))))(keys)
    for own, key in zip(together, keys, strict=True):
        np.testing.assert_allclose(own, jax.random.normal(key, (3, 700)), rtol=1e-6, atol=1e-7)


def test_single_precision_whatever_the_setting_of_jax():
    with jax.enable_x64(True):
        normals = random.normal(KEY, (2, 2048))
    assert normals.dtype == jnp.float32
    np.testing.assert_allclose(normals, jax.random.normal(KEY, (2, 2048), jnp.float32), rtol=1e-6, atol=1e-7)

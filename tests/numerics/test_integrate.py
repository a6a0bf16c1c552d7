import jax.numpy as jnp
import numpy as np
import pytest

from limitlaw.numerics.integrate import gaussian_expectation, sobol_normals, sobol_uniforms


@pytest.mark.parametrize("dimension", [0, 1, 2, 3])
def test_smooth_integrands_converge(dimension):
    value, error = gaussian_expectation(lambda xi: jnp.cos(xi.sum(axis=0)), dimension)
    assert abs(value - np.exp(-dimension / 2)) < 1e-12
    assert error < 1e-11


@pytest.mark.parametrize("dimension", [4, 9])
def test_quasi_monte_carlo_states_its_error(dimension):
    value, error = gaussian_expectation(lambda xi: jnp.cos(xi.sum(axis=0) / 2), dimension)
    assert 0 < error < 1e-3
    assert abs(value - np.exp(-dimension / 8)) < 6 * error


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_kinks_are_within_the_stated_error(dimension):
    direction = np.arange(1, dimension + 1) / np.linalg.norm(np.arange(1, dimension + 1))
    value, error = gaussian_expectation(lambda xi: jnp.maximum(direction @ xi - 0.3, 0.0), dimension)
    truth = np.exp(-0.045) / np.sqrt(2 * np.pi) - 0.3 * 0.38208857781104733
    assert abs(value - truth) < 6 * error + 1e-12
    assert error < 1e-4


def test_several_integrands_at_once():
    value, _ = gaussian_expectation(lambda xi: jnp.stack([xi[0] ** 2, xi[0] ** 4]), 1)
    assert np.allclose(value, [1, 3], rtol=1e-12)


def test_sobol_points_lie_evenly_and_inside():
    """A net: 1,024 points share out each axis, and 32 x 32 boxes of the first two, evenly."""
    points = sobol_uniforms(5, 1024, 1)
    assert points.min() > 0
    assert points.max() < 1
    assert all(np.array_equal(np.sort((axis * 1024).astype(int)), np.arange(1024)) for axis in points)
    boxes = (points[0] * 32).astype(int) * 32 + (points[1] * 32).astype(int)
    assert np.array_equal(np.sort(boxes), np.arange(1024))


def test_a_generator_gives_independent_scramblings():
    rng = np.random.default_rng(3)
    first, second = sobol_normals(4, 16, rng), sobol_normals(4, 16, rng)
    assert np.array_equal(first, sobol_normals(4, 16, 3))
    assert not np.isin(first, second).any()

"""Sobol points against scipy's."""

import numpy as np
import pytest
import scipy.stats

from limitlaw.numerics import sobol_uniforms


@pytest.mark.filterwarnings("ignore:The balance properties")
@pytest.mark.parametrize("dimension", [1, 2, 3, 13, 200, 1024, 1025])
@pytest.mark.parametrize("points", [1, 2, 37, 1024])
def test_they_are_the_points_of_scipy(dimension, points):
    for seed in (0, 7):
        reference = scipy.stats.qmc.Sobol(dimension, scramble=True, rng=np.random.default_rng(seed)).random(points)
        assert np.array_equal(sobol_uniforms(dimension, points, seed), reference.T + 2.0**-32)


def test_a_generator_goes_on():
    rng, twin = np.random.default_rng(3), np.random.default_rng(3)
    for _ in range(2):
        reference = scipy.stats.qmc.Sobol(4, scramble=True, rng=twin).random(16)
        assert np.array_equal(sobol_uniforms(4, 16, rng), reference.T + 2.0**-32)


def test_all_places_are_visited_once():
    """A net: 1,024 points share out each axis, and 32 x 32 boxes of the first two, evenly."""
    points = sobol_uniforms(5, 1024, seed=1)
    assert all(np.array_equal(np.sort((axis * 1024).astype(int)), np.arange(1024)) for axis in points)
    boxes = (points[0] * 32).astype(int) * 32 + (points[1] * 32).astype(int)
    assert np.array_equal(np.sort(boxes), np.arange(1024))

"""Cubic splines against scipy's, whose place they take."""

import numpy as np
import pytest
import scipy.interpolate

from limitlaw.numerics import CubicSpline


@pytest.mark.parametrize("points", [4, 5, 40, 512])
@pytest.mark.parametrize("even", [True, False])
def test_the_spline_is_that_of_scipy(points, even):
    rng = np.random.default_rng(points)
    x = np.linspace(-3, 5, points) if even else np.cumsum(rng.uniform(0.1, 2, points))
    y = rng.standard_normal(points)
    t = np.concatenate([x, rng.uniform(x[0] - 0.3, x[-1] + 0.3, 2000)])  # knots, between them, and beyond
    expected = scipy.interpolate.CubicSpline(x, y)(t)
    np.testing.assert_allclose(CubicSpline(x, y)(t), expected, rtol=1e-10, atol=1e-10)


def test_shapes_and_what_is_not_a_number():
    spline = CubicSpline(np.arange(6.0), np.arange(6.0) ** 3)
    np.testing.assert_allclose(spline(np.array([[0.5, 1.5], [2.5, np.nan]])), [[0.125, 3.375], [15.625, np.nan]])
    assert float(spline(np.array(7.0))) == pytest.approx(343)

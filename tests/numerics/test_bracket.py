"""Roots between two points."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import brentq

from limitlaw.numerics import root_between

FUNCTIONS = {
    "cubic": (lambda x: x**3 - 2, 0.0, 3.0),
    "cosine": (np.cos, 0.0, 3.0),
    "from the far side": (lambda x: np.exp(x) - 1e5, -5.0, 100.0),
    "a cusp": (lambda x: np.sign(x - 0.3) * abs(x - 0.3) ** 0.2, -1.0, 2.0),
    "nearly a jump": (lambda x: np.arctan(1e6 * (x - 0.1)), -10.0, 12.0),
    "at an end": (lambda x: x - 1, 0.0, 1.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_root_is_that_of_scipy_at_no_more_cost(name):
    function, low, high = FUNCTIONS[name]
    calls = []

    def counted(x):
        calls.append(x)
        return float(function(x))

    root = root_between(counted, low, high)
    ours = len(calls)
    assert root == pytest.approx(brentq(counted, low, high, xtol=1e-12), abs=4e-12)
    assert all(low <= x <= high for x in calls)
    assert ours <= 1.5 * (len(calls) - ours) + 5


@given(st.floats(-50, 50), st.floats(0.1, 40), st.floats(0.1, 40), st.sampled_from([1, 3, 7]))
@settings(max_examples=100, deadline=None)
def test_every_bracket_of_a_rising_function_leads_to_its_root(at, left, right, power):
    root = root_between(lambda x: (x - at) ** power + 1e-3 * (x - at), at - left, at + right, 1e-9)
    assert root == pytest.approx(at, abs=1e-9 + 1e-15 * abs(at))


def test_the_same_sign_at_both_ends_is_refused():
    with pytest.raises(ValueError, match=r"low=1.0, high=2.0: the function has the same sign at both"):
        root_between(lambda x: x, 1.0, 2.0)

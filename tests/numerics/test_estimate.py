import copy
import pickle

import pytest

from limitlaw import Estimate


@pytest.mark.parametrize(
    "value, stderr, text",
    [
        (1.5804e-4, 7e-7, "1.580e-4 ± 7e-7"),
        (0.39197, 0.00031, "0.39197 ± 0.00031"),
        (0.40348, 9e-5, "0.40348 ± 0.00009"),
        (12345.6, 7.0, "12346 ± 7"),
        (-2.5, 0.5, "-2.5 ± 0.5"),
        (0.0, 0.1, "0.00 ± 0.10"),
        (3.0e9, 2.0e7, "3.000e9 ± 2.0e7"),
        (0.25, 0.0, "0.25"),
    ],
)
def test_prints_the_digits_that_are_known(value, stderr, text):
    assert str(Estimate(value, stderr)) == text


def test_is_a_float_and_arithmetic_gives_plain_floats():
    e = Estimate(2.0, 0.1)
    assert e + 1 == 3.0
    assert type(e * 2) is float
    assert f"{e:.3f}" == "2.000"


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_survives_copying(clone):
    e = clone(Estimate(2.0, 0.1))
    assert (float(e), e.stderr) == (2.0, 0.1)


def test_z_counts_standard_errors():
    assert Estimate(1.5, 0.25).z(1.0) == 2.0
    assert Estimate(1.0).z(1.0) == 0.0
    assert Estimate(1.0).z(2.0) == float("inf")


@pytest.mark.parametrize("stderr", [-1.0, float("nan")])
def test_refuses_an_impossible_error(stderr):
    with pytest.raises(ValueError, match="standard error"):
        Estimate(1.0, stderr)

import copy
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

from limitlaw import Estimate
from limitlaw._checks import ArgumentError, ArgumentTypeError
from limitlaw.numerics import jackknife
from limitlaw.numerics.estimate import leave_one_batch_out

RNG = np.random.default_rng(0)


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


def test_is_a_float():
    assert f"{Estimate(2.0, 0.1):.3f}" == "2.000"
    assert json.loads(json.dumps(Estimate(2.0, 0.1))) == 2.0


PLAIN_ARITHMETIC = {
    "add": (lambda e: e + 3, 5.0, 0.1),
    "add to": (lambda e: 3 + e, 5.0, 0.1),
    "subtract": (lambda e: e - 0.5, 1.5, 0.1),
    "subtract from": (lambda e: 1 - e, -1.0, 0.1),
    "multiply": (lambda e: e * -2, -4.0, 0.2),
    "multiply by": (lambda e: 3.0 * e, 6.0, 0.3),
    "divide": (lambda e: e / -4, -0.5, 0.025),
    "negative": (lambda e: -e, -2.0, 0.1),
    "positive": (lambda e: +e, 2.0, 0.1),
    "absolute": (lambda e: abs(-e), 2.0, 0.1),
    "round": (lambda e: round(e + 0.26, 1), 2.3, 0.1),
    "float64": (lambda e: np.float64(2) * e, 4.0, 0.2),
    "by float64": (lambda e: e / np.float64(2), 1.0, 0.05),
    "float32": (lambda e: np.float32(3) - e, 1.0, 0.1),
    "int64": (lambda e: np.int64(3) + e, 5.0, 0.1),
    "int8": (lambda e: e * np.int8(3), 6.0, 0.3),
    "sum of one": (lambda e: sum([e]), 2.0, 0.1),
}


@pytest.mark.parametrize("name", PLAIN_ARITHMETIC)
def test_the_error_survives_arithmetic_with_plain_numbers(name):
    compute, value, stderr = PLAIN_ARITHMETIC[name]
    result = compute(Estimate(2.0, 0.1, dof=7))
    assert type(result) is Estimate
    assert (float(result), result.stderr, result.dof) == pytest.approx((value, stderr, 7))


@pytest.mark.parametrize(
    "compute",
    [
        lambda e: e + Estimate(2.0, 0.3),
        lambda e: e - e,
        lambda e: e * Estimate(2.0),
        lambda e: e / Estimate(2.0, 0.3),
        lambda e: sum([e, e]),
        lambda e: 1 / e,
        lambda e: e**2,
        lambda e: e % 2,
        lambda e: e + Fraction(1, 2),
        lambda e: Estimate(0.0) * math.inf,  # an error of 0 inf
        lambda e: np.float32(1) / e,
        lambda e: e ** np.int64(2),
        lambda e: np.float64(2) ** e,
        lambda e: np.float32(3) % e,
    ],
)
def test_everything_else_is_a_plain_float(compute):
    """Two estimates may be correlated, and the error of a curved function is no multiple."""
    assert type(compute(Estimate(2.0, 0.1))) is float


@pytest.mark.parametrize("number", [2, 2.0, np.float64(2), np.float32(2), np.int64(2), Estimate(2.0, 0.3), Fraction(2)])
def test_compares_as_a_float(number):
    e = Estimate(2.0, 0.1)
    assert e == number == e
    assert e <= number <= e
    assert (e != number) is False
    assert not e < number
    assert not number > e
    assert hash(e) == hash(2.0)


def test_complex_numbers():
    e = Estimate(2.0, 0.1)
    for unit in (1j, np.complex128(1j), np.complex64(1j)):
        assert unit * e == e * unit == 2j
        assert unit + e == 2 + 1j


def test_rounding_to_an_integer_and_arrays_are_as_for_floats():
    e = Estimate(2.6, 0.1)
    assert type(round(e)) is int
    assert np.array_equal(np.array([1.0, 2.0]) * e, [2.6, 5.2])
    assert np.array_equal(e * np.array([1.0, 2.0]), [2.6, 5.2])
    with pytest.raises(ZeroDivisionError):
        e / 0


@pytest.mark.parametrize(
    "e, html",
    [
        (Estimate(0.39197, 0.00031), "0.39197 ± 0.00031"),
        (Estimate(-1.58e-4, 7e-7), "−1.580 × 10<sup>−4</sup> ± 7 × 10<sup>−7</sup>"),
        (Estimate(3e9, 2e7), "3.000 × 10<sup>9</sup> ± 2.0 × 10<sup>7</sup>"),
    ],
)
def test_notebooks_show_powers_of_ten(e, html):
    assert e._repr_html_() == html


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_survives_copying(clone):
    e = clone(Estimate(2.0, 0.1, 7))
    assert type(e) is Estimate
    assert (float(e), e.stderr, e.dof) == (2.0, 0.1, 7)


def test_z_counts_standard_errors():
    assert Estimate(1.5, 0.25).z(1.0) == 2.0
    assert Estimate(1.0).z(1.0) == 0.0
    assert Estimate(1.0).z(2.0) == -math.inf
    assert Estimate(1.0).z(0.5) == math.inf


REFUSED = {
    "a negative error": (lambda: Estimate(1.0, -1.0), "stderr", "which is 0 or more"),
    "an error that is no number": (lambda: Estimate(1.0, math.nan), "stderr", "which is 0 or more"),
    "no degrees of freedom": (lambda: Estimate(1.0, 1.0, 0), "dof", "must be a positive number"),
    "a level above 1": (lambda: Estimate(1.0).interval(95), "level", "strictly between 0 and 1"),
    "a level of 0": (lambda: Estimate(1.0).covers(1.0, 0), "level", "strictly between 0 and 1"),
}
NO_NUMBERS = {
    "a word": (lambda: Estimate("a", 1), "value"),
    "digits": (lambda: Estimate("1.5"), "value"),
    "a list": (lambda: Estimate([1.0, 2.0]), "value"),
    "a truth value": (lambda: Estimate(True), "value"),
    "an error in words": (lambda: Estimate(1.0, "b"), "stderr"),
    "a level in words": (lambda: Estimate(1.0).interval("x"), "level"),
    "a truth in words": (lambda: Estimate(1.0).covers("x"), "truth"),
    "nothing to compare with": (lambda: Estimate(1.0).z(None), "truth"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_impossible_numbers_are_refused(name):
    call, argument, text = REFUSED[name]
    with pytest.raises(ArgumentError, match=rf"^{argument}=.*{text}") as refused:
        call()
    assert refused.value.argument == argument


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_what_is_no_number_is_refused(name):
    call, argument = NO_NUMBERS[name]
    with pytest.raises(ArgumentTypeError, match=rf"^{argument}=.* must be a number") as refused:
        call()
    assert refused.value.argument == argument


def test_a_mean_has_the_textbook_error():
    batches = RNG.normal(size=40)
    estimate = jackknife(batches.mean(), leave_one_batch_out(batches))
    assert estimate == pytest.approx(batches.mean(), rel=1e-12)
    assert estimate.stderr == pytest.approx(batches.std(ddof=1) / np.sqrt(40), rel=1e-12)
    assert estimate.dof == pytest.approx(39)


def test_the_bias_of_a_square_is_removed():
    batches = RNG.normal(3.0, 1.0, 25)
    squares, others = batches.mean() ** 2, leave_one_batch_out(batches) ** 2
    assert jackknife(squares, others) == pytest.approx(squares - batches.var(ddof=1) / 25, rel=1e-12)
    assert jackknife(squares, others, corrected=False) == squares


def test_two_samples_add_their_variances_as_welch_does():
    first, second = RNG.normal(size=10), RNG.normal(0, 3, size=30)
    whole = first.mean() - second.mean()
    estimate = jackknife(whole, leave_one_batch_out(first) - second.mean(), first.mean() - leave_one_batch_out(second))
    a, b = first.var(ddof=1) / 10, second.var(ddof=1) / 30
    assert estimate.stderr == pytest.approx(np.sqrt(a + b), rel=1e-12)
    assert estimate.dof == pytest.approx((a + b) ** 2 / (a**2 / 9 + b**2 / 29), rel=1e-12)


def test_nothing_random_has_no_error():
    exact = jackknife(2.0, np.empty(0), np.empty(0))
    assert (exact, exact.stderr, exact.dof) == (2.0, 0.0, np.inf)

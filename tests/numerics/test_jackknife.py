"""The jackknife against textbook formulas."""

import numpy as np
import pytest

from limitlaw.numerics import jackknife, left_out

RNG = np.random.default_rng(0)


def test_a_mean_has_the_textbook_error():
    batches = RNG.normal(size=40)
    estimate = jackknife(batches.mean(), left_out(batches))
    assert estimate == pytest.approx(batches.mean(), rel=1e-12)
    assert estimate.stderr == pytest.approx(batches.std(ddof=1) / np.sqrt(40), rel=1e-12)
    assert estimate.dof == pytest.approx(39)


def test_the_bias_of_a_square_is_removed():
    batches = RNG.normal(3.0, 1.0, 25)
    squares, others = batches.mean() ** 2, left_out(batches) ** 2
    assert jackknife(squares, others) == pytest.approx(squares - batches.var(ddof=1) / 25, rel=1e-12)
    assert jackknife(squares, others, corrected=False) == squares


def test_two_samples_add_their_variances_as_welch_does():
    first, second = RNG.normal(size=10), RNG.normal(0, 3, size=30)
    whole = first.mean() - second.mean()
    estimate = jackknife(whole, left_out(first) - second.mean(), first.mean() - left_out(second))
    a, b = first.var(ddof=1) / 10, second.var(ddof=1) / 30
    assert estimate.stderr == pytest.approx(np.sqrt(a + b), rel=1e-12)
    assert estimate.dof == pytest.approx((a + b) ** 2 / (a**2 / 9 + b**2 / 29), rel=1e-12)


def test_nothing_random_has_no_error():
    exact = jackknife(2.0, np.empty(0), np.empty(0))
    assert (exact, exact.stderr, exact.dof) == (2.0, 0.0, np.inf)

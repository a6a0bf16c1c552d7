"""The statistical assertions themselves: they must fail when they should."""

import numpy as np
import pytest
from same_law import FALSE_ALARM, assert_same_law, smallest_p


def normals(samples, seed):
    return np.random.default_rng(seed).standard_normal((samples, 2))


def test_equal_laws_pass():
    assert_same_law(normals, normals, samples=20_000)


@pytest.mark.parametrize(
    "other",
    [
        lambda x: x * 1.05,
        lambda x: x + 0.05,
        lambda x: np.column_stack([x[:, 0], 0.1 * x[:, 0] + np.sqrt(0.99) * x[:, 1]]),  # equal marginals
        lambda x: np.column_stack([x[:, 0], np.abs(x[:, 0]) * np.sign(x[:, 1])]),  # equal marginals, no correlation
    ],
)
def test_other_laws_fail(other):
    assert smallest_p(normals(100_000, 1), other(normals(100_000, 2))) < FALSE_ALARM


def test_what_is_not_a_number_fails():
    with pytest.raises(AssertionError):
        assert_same_law(normals, lambda samples, seed: np.full((samples, 2), np.nan), samples=1000)

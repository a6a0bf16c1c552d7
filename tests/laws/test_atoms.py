"""Identities of laws of a variance that hold for every batch that is left out."""

import numpy as np
import pytest

from limitlaw.laws import Atoms

DRAWS = np.random.default_rng(0).gamma(3.0, size=20_000) / 3


@pytest.mark.parametrize("copies", [2, 3, 12])
def test_an_average_of_copies_has_the_mean_of_one_and_a_share_of_its_variance(copies):
    """`E m = E v` and `Var m = Var v / copies`. Leaving a batch out of all copies is exact to first order, so for the mean."""
    one = Atoms.from_draws(DRAWS)
    several = one.mean_of_copies(copies)
    assert np.allclose(several.moments(1), one.moments(1), rtol=1e-10, atol=0)
    variance, share = (atoms.moments(2)[0] - atoms.moments(1)[0] ** 2 for atoms in (one, several))
    assert share == pytest.approx(variance / copies, rel=1e-6)
    # E m^2 moves by 2 (1 - 1/copies) E v d(E v) + d(E v^2) / copies
    moved = [atoms.moments(2)[1:] - atoms.moments(2)[0] for atoms in (one, several)]
    by_mean = 2 * (1 - 1 / copies) * one.moments(1)[0] * (one.moments(1)[1:] - one.moments(1)[0])
    assert np.allclose(moved[1], by_mean + moved[0] / copies, atol=1e-5 * np.abs(moved[0]).max())


def test_a_chi_square_factor_leaves_means_alone():
    one = Atoms.from_draws(DRAWS)
    product = one.times_chi_square_mean(7)
    assert np.allclose(product.moments(1), one.moments(1), rtol=1e-6, atol=0)
    assert product.moments(2)[0] == pytest.approx(one.moments(2)[0] * (1 + 2 / 7), rel=1e-6)


@pytest.mark.parametrize("count", [300, 20_000, 300_000])  # the most are gathered in three groups
def test_draws_in_batches_keep_their_moments(count):
    """The first of every batch that is left out; up to the third of all."""
    draws = np.random.default_rng(1).gamma(3.0, size=count) / 3
    one = Atoms.from_draws(draws)
    for order in (1, 2, 3):
        assert one.moments(order)[0] == pytest.approx(np.mean(draws**order), rel=1e-9)
    batches = np.array_split(draws, 256)
    others = [np.mean(np.concatenate([b for j, b in enumerate(batches) if j != i])) for i in (0, 100, 255)]
    assert one.moments(1)[[1, 101, 256]] == pytest.approx(others, rel=1e-9)

from math import inf

import numpy as np
import pytest
from same_law import assert_same_law

import limitlaw as ll
from limitlaw.networks._lazy import lower


def test_the_program_reads_as_the_paper_writes_it():
    net = ll.Network(ll.Inputs(2, "relu"), ll.Attention(heads=1, mask="causal", value_std=2.0))
    assert (
        str(net.program())
        == """\
matrices
     W1 : model -> model, N(0, 1/model)
     W2 : model -> model, N(0, 1/model)
     Q1 : model -> head, N(0, 1/model)
     K1 : model -> head, N(0, 1/model)
     V1 : model -> head, N(0, 4/model)
     O1 : head -> model, N(0, 1/head)
lines
  1  h ~ N(0, 1)
  2  g1 = W1 h
  3  x1 = relu(g1)
  4  g2 = W2 h
  5  x2 = relu(g2)
  6  g3 = Q1 x1
  7  g4 = Q1 x2
  8  g5 = K1 x1
  9  g6 = K1 x2
 10  g7 = V1 x1
 11  g8 = O1 g7
 12  g9 = V1 x2
 13  g10 = O1 g9
 14  p1_11 = g3 . g5 / sqrt(head)
 15  p1_12 = g3 . g6 / sqrt(head)
 16  p1_21 = g4 . g5 / sqrt(head)
 17  p1_22 = g4 . g6 / sqrt(head)
 18  y1 = sum_a softmax(p^a) . z^a (g8; p1_11)
 19  y2 = sum_a softmax(p^a) . z^a (g8, g10; p1_21, p1_22)"""
    )


@pytest.mark.parametrize(
    "net",
    [
        pytest.param(
            ll.Network(ll.Inputs(3, "relu"), ll.Attention(heads=2, query_std=1.5, mask="causal")),
            marks=pytest.mark.full,
        ),
        ll.Network(ll.GaussianInputs([[1.0, 0.6], [0.6, 0.5]]), ll.Attention(heads=1, value_std=0.7, out_std=1.3)),
        ll.Network(ll.Inputs(2, "tanh"), ll.Attention(heads=2, scale="linear")),
    ],
    ids=repr,
)
def test_limit_of_the_program_is_the_network_at_infinite_width(net):
    lowered = lower(net)

    def by_theorem(samples, seed):
        return lowered.program.limit(lowered.tokens).sample(samples, rng=seed)

    def by_network(samples, seed):
        return net.sample(samples, width=inf, token=list(range(net.tokens)), seed=seed)

    assert_same_law(by_theorem, by_network, samples=100_000)


@pytest.mark.full
def test_the_gram_matrix_is_an_average_over_coordinates():
    """Theorem 3.1 itself: the average of y_2^2 tends to its conditional variance, which is random."""
    net = ll.Network(ll.Inputs(3, "relu"), ll.Attention(heads=1, query_std=3.0))
    lowered = lower(net)
    law = lowered.program.average(lambda y: y**2, lowered.tokens[1])
    assert law.quadrature_error < 2e-3
    assert_same_law(
        lambda samples, seed: law.sample(samples, rng=seed),
        lambda samples, seed: net.sample(samples, token=1, observe="covariance", seed=seed),
        samples=20_000,
    )


def test_stacked_layers_lower_but_lie_beyond_the_theorem():
    net = ll.Network(ll.GaussianInputs(np.eye(2)), ll.Attention(), ll.Attention())
    lowered = lower(net)
    assert "outside Theorem 3.1, inside its deep extension" in str(lowered.program)
    with pytest.raises(ll.netsor.AssumptionError, match=r"line \d+, .* depends on scores.*limitlaw.Network"):
        lowered.program.limit(lowered.tokens[0])


def test_equal_networks_share_a_program_and_different_ones_do_not():
    def program(**options):
        return lower(ll.Network(ll.GaussianInputs(np.eye(2)), ll.Attention(**options))).program

    assert program(mask=np.eye(2, dtype=bool)) is program(mask=np.eye(2, dtype=bool))
    different = [
        program(),
        program(mask="causal"),
        program(mask=np.eye(2, dtype=bool)),
        program(query_std=2.0),
        program(heads=2),
    ]
    assert len({id(p) for p in different}) == len(different)
    assert lower(ll.Network(ll.GaussianInputs(2 * np.eye(2)), ll.Attention())).program is not program()

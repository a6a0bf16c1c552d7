"""dense = lazy = gram, in law, over random networks; conditional covariances, Gram entries and scores are compared, since
output coordinates, with their own noise on top, would hide most errors."""

from math import inf

import hypothesis.strategies as st
import numpy as np
import pytest
from same_law import FALSE_ALARM, assert_same_law, examples, smallest_p, some_at_length

import limitlaw as ll


def sampler(net, width, reading, observe):
    return lambda samples, seed: net.sample(samples, width=width, reading=reading, observe=observe, seed=seed)


@st.composite
def grams(draw, tokens):
    """Well-conditioned, singular, and with equal tokens."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    rank = draw(st.integers(1, tokens))
    x = rng.standard_normal((tokens, rank))
    if tokens > 1 and draw(st.booleans()):
        x[1] = x[0]
    return x @ x.T / rank


@st.composite
def attentions(draw, tokens, width, tied=True):
    tie_qk = tied and draw(st.booleans())
    mask = draw(st.sampled_from([None, "causal", "random"]))
    if mask == "random":
        mask = np.random.default_rng(draw(st.integers(0, 99))).random((tokens, tokens)) < 0.5
        mask |= np.eye(tokens, dtype=bool)
    divisors = [h for h in (1, 2, 3) if width % h == 0]
    split = draw(st.booleans())
    return ll.Attention(
        heads=draw(st.sampled_from(divisors if split else [1, 2, 3])),
        head_dim="split" if split else draw(st.sampled_from([None, 1, 2, 5, 12])),
        mask=mask,
        scale="linear" if tie_qk else draw(st.sampled_from(["sqrt", "sqrt", "linear"])),
        tie_qk=tie_qk,
        query_std=draw(st.sampled_from([1.0, 1.7])),
        key_std=draw(st.sampled_from([1.0, 0.6])),
        value_std=draw(st.sampled_from([1.0, 1.3])),
        out_std=draw(st.sampled_from([1.0, 0.8])),
    )


@st.composite
def networks(draw, lowerable=False):
    tokens, width = draw(st.integers(1, 3 if lowerable else 4)), draw(st.integers(1, 12))
    kinds = ["paper", "gaussian"] + ([] if lowerable else ["fixed"])
    kind = draw(st.sampled_from(kinds))
    if kind == "paper":
        inputs = ll.Inputs(tokens, draw(st.sampled_from([ll.clip(100.0), "relu", "tanh", ll.clip(0.7)])))
    elif kind == "gaussian":
        inputs = ll.GaussianInputs(draw(grams(tokens)))
    else:
        gram = draw(grams(tokens))
        width = max(width, np.linalg.matrix_rank(gram, tol=1e-6))
        inputs = ll.GramInputs(gram)
    layers = draw(st.lists(attentions(tokens, width, tied=not lowerable), min_size=1, max_size=2))
    return ll.Network(inputs, *layers), int(width)


@examples(networks(), st.sampled_from(["covariance", "gram", "scores"]), quick=3, full=15, long=100)
def test_gram_is_dense(drawn, observe):
    net, width = drawn
    assert_same_law(sampler(net, width, "gram", observe), sampler(net, width, "dense", observe), samples=20_000)


@examples(networks(lowerable=True), st.sampled_from(["gram", "scores"]), quick=2, full=10, long=40)
def test_gram_is_lazy(drawn, observe):
    net, width = drawn
    assert_same_law(sampler(net, width, "gram", observe), sampler(net, width, "lazy", observe), samples=10_000)


POWERFUL = {
    "paper": (ll.Network(ll.Inputs(3, ll.clip(100.0)), ll.Attention(heads=2)), 5),
    "relu": (ll.Network(ll.Inputs(3, "relu"), ll.Attention(heads=1, head_dim=2)), 6),
    "narrower than the tokens": (ll.Network(ll.Inputs(4, ll.clip(100.0)), ll.Attention(heads=1, head_dim=2)), 2),
    "tied": (
        ll.Network(
            ll.GaussianInputs(np.eye(3) + 0.5),
            ll.Attention(heads=2, head_dim=2, tie_qk=True, scale="linear", query_std=2.0),
        ),
        4,
    ),
    "causal": (
        ll.Network(
            ll.GramInputs([[1, 0.5, 0.2], [0.5, 1, 0.5], [0.2, 0.5, 2]]),
            ll.Attention(heads=2, head_dim=3, mask="causal", key_std=2.0),
        ),
        6,
    ),
    "two layers": (
        ll.Network(
            ll.Inputs(2, ll.clip(100.0)), ll.Attention(heads=2, head_dim=3, value_std=1.2), ll.Attention(mask="causal")
        ),
        4,
    ),
}


@pytest.mark.parametrize("name", some_at_length(POWERFUL, ["paper"]))
def test_enough_samples_to_catch_two_percent(name):
    net, width = POWERFUL[name]
    assert_same_law(
        sampler(net, width, "gram", "covariance"), sampler(net, width, "dense", "covariance"), samples=400_000
    )


@pytest.mark.full
def test_the_test_would_catch_two_percent():
    """The same comparison of two networks that differ by a factor of 1.02 in one variance."""
    net, width = POWERFUL["paper"]
    wrong = ll.Network(net.inputs, ll.Attention(heads=2, value_std=np.sqrt(1.02)))
    first = net.sample(400_000, width=width, observe="covariance", seed=1)
    second = wrong.sample(400_000, width=width, observe="covariance", seed=2)
    assert smallest_p(first, second) < FALSE_ALARM


@pytest.mark.parametrize("tokens", some_at_length([[2], [3, 1]], [[3, 1]]))
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("reading", some_at_length(["gram", "dense"], ["gram"]))
def test_some_tokens_have_their_part_of_the_joint_law(tokens, tied, reading):
    """The shortcut for wanted rows against the computation of all rows."""
    K = np.array([[1, 0.4, 0.1, 0.0], [0.4, 1, 0.4, 0.2], [0.1, 0.4, 2, 0.9], [0.0, 0.2, 0.9, 0.5]])
    layer = ll.Attention(
        heads=2, head_dim=3, mask="causal", scale="linear" if tied else "sqrt", tie_qk=tied, query_std=3.0
    )
    net = ll.Network(ll.GramInputs(K), layer)

    def some(samples, seed):
        return net.sample(samples, width=8, token=tokens, observe="covariance", seed=seed, reading=reading)

    def part(samples, seed):
        whole = net.sample(samples, width=8, observe="covariance", seed=seed)
        return whole[:, tokens][:, :, tokens]

    assert_same_law(some, part, samples=50_000)

    def some_scores(samples, seed):
        return net.sample(samples, width=8, token=tokens, observe="scores", seed=seed, reading=reading)

    def part_of_scores(samples, seed):
        return net.sample(samples, width=8, observe="scores", seed=seed)[:, :, tokens]

    assert_same_law(some_scores, part_of_scores, samples=50_000)


@pytest.mark.parametrize("reading", some_at_length(["gram", "dense", "lazy"], ["gram"]))
@pytest.mark.parametrize("layers", [(), (ll.Attention(heads=2, head_dim=2),)])
def test_output_is_gaussian_given_its_covariance(reading, layers):
    net = ll.Network(ll.GaussianInputs([[1.0, 0.5], [0.5, 2.0]]), *layers)

    def by_hand(samples, seed):
        values, vectors = np.linalg.eigh(net.sample(samples, width=3, observe="covariance", seed=seed))
        normals = np.sqrt(np.maximum(values, 0)) * np.random.default_rng(seed).standard_normal((samples, 2))
        y = np.einsum("nij,nj->ni", vectors, normals)
        return np.column_stack([y, y[:, 0] - y[:, 1]])

    def drawn(samples, seed):
        y = net.sample(samples, width=3, token=[0, 1], seed=seed, reading=reading)
        return np.column_stack([y, y[:, 0] - y[:, 1]])

    assert_same_law(drawn, by_hand, samples=50_000)


@pytest.mark.full
def test_large_sequences_take_the_other_branch_of_the_algebra():
    net = ll.Network(ll.Inputs(11, ll.clip(100.0)), ll.Attention(heads=2, head_dim=4))
    assert_same_law(sampler(net, 9, "gram", "covariance"), sampler(net, 9, "dense", "covariance"), samples=20_000)


def test_infinite_head_dim_is_the_limit_of_large_ones():
    inputs = ll.GramInputs(np.eye(3) + 0.3)
    infinite = ll.Network(inputs, ll.Attention(heads=2, head_dim=inf))
    large = ll.Network(inputs, ll.Attention(heads=2, head_dim=100_000))
    assert_same_law(
        sampler(infinite, 16, "gram", "covariance"), sampler(large, 16, "gram", "covariance"), samples=200_000
    )

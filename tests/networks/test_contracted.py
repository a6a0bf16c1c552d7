"""Contracted rules against those that follow from a layer's matrices and inner map, at finite and infinite width."""

from math import inf

import numpy as np
import pytest
from same_law import FALSE_ALARM, assert_same_law, smallest_p, some_at_length

import limitlaw as ll
from limitlaw.networks.derived import draw_derived

AR = 0.3 ** np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
SCORE_BIAS = np.random.default_rng(0).normal(size=(2, 3, 3))
MASK = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]], bool)
SAMPLES = 100_000


def attention(**options):
    return ll.Attention(**({"heads": 2, "head_dim": 4, "query_std": 1.5} | options))


# For each: the layer, and the same with a variance that is 2 % larger.
LAYERS = {
    "attention": lambda k: attention(out_std=k),
    "grouped": lambda k: attention(heads=4, kv_heads=2, out_std=k),
    "causal": lambda k: attention(mask="causal", value_std=1.3 * k),
    "masked": lambda k: attention(mask=MASK, out_std=k),
    "biased": lambda k: attention(query_bias_std=0.7, key_bias_std=0.5, value_bias_std=0.6 * k, value_std=k),
    "biased output": lambda k: attention(out_bias_std=0.4 * k, out_std=k),
    "score bias": lambda k: attention(score_bias=SCORE_BIAS, out_std=k),
    "alibi": lambda k: attention(score_bias="alibi", out_std=k),
    "rope": lambda k: attention(rope=10.0, out_std=k),
    "rope, grouped": lambda k: attention(heads=4, kv_heads=1, rope=10.0, out_std=k),
    "linear": lambda k: attention(scale="linear", query_std=4.0, out_std=k),
    "a number as scale": lambda k: attention(scale=0.8, out_std=k),
    "tied": lambda k: attention(scale="linear", tie_qk=True, out_std=k),
    "tied, a number": lambda k: attention(scale=0.3, tie_qk=True, key_std=0.8, out_std=k),
    "perceptron": lambda k: ll.MLP("relu", width=64, in_std=1.2, out_std=k),
    "perceptron, biased": lambda k: ll.MLP("tanh", width=64, in_bias_std=0.5, out_bias_std=0.3 * k, out_std=k),
    "gated": lambda k: ll.MLP("silu", width=64, gated=True, gate_std=1.4, out_std=k),
    "gated, biased": lambda k: ll.MLP("gelu", width=64, gated=True, in_bias_std=0.4, out_std=k),
    "dense": lambda k: ll.Dense("relu", std=1.2 * k),
    "dense, biased": lambda k: ll.Dense("relu", std=k, bias_std=0.6 * k),
}
QUICK = ["attention", "grouped", "biased", "rope", "tied", "gated, biased", "dense, biased"]


def observed(layer):
    return "covariance" if layer.ends_fresh else "gram"


def net_of(layer):
    return ll.Network(ll.GramInputs(AR), layer)


@pytest.mark.parametrize("name", some_at_length(LAYERS, QUICK))
def test_contracted_is_derived(name):
    layer, wrong = LAYERS[name](1.0), LAYERS[name](1.02**0.5)
    assert layer.has_contracted

    def contracted(count, seed):
        return net_of(layer).sample(count, width=64, observe=observed(layer), seed=seed)

    def derived(count, seed):
        return draw_derived(net_of(layer), count, width=64, observe=observed(layer), seed=seed)

    assert_same_law(contracted, derived, samples=SAMPLES)
    # the comparison would fail if the variance were 2 % too large
    other = net_of(wrong).sample(SAMPLES, width=64, observe=observed(layer), seed=1)
    assert smallest_p(other, derived(SAMPLES, 2)) < FALSE_ALARM


@pytest.mark.parametrize("name", some_at_length(["attention", "causal", "perceptron"], ["causal"]))
def test_contracted_is_derived_at_infinite_width(name):
    """Where the layer's own matrices have finitely many columns, a derived rule exists at infinite width, too."""
    net = net_of(LAYERS[name](1.0))
    assert_same_law(
        lambda count, seed: net.sample(count, width=inf, observe="covariance", seed=seed),
        lambda count, seed: draw_derived(net, count, width=inf, observe="covariance", seed=seed),
        samples=SAMPLES,
    )


@pytest.mark.parametrize("observe", ["scores", "entropy"])
def test_observables_are_those_of_the_derived_rule(observe):
    net = net_of(attention(heads=4, kv_heads=2, mask="causal"))
    assert_same_law(
        lambda count, seed: net.sample(count, width=16, observe=observe, seed=seed),
        lambda count, seed: draw_derived(net, count, width=16, observe=observe, seed=seed),
        samples=20_000,
    )


def test_a_linear_layer_is_its_matrix():
    """The derived rule of a layer whose only matrix is "out" is that formula: exact, without draws."""
    layer = ll.Linear(std=0.7, bias_std=0.3)
    covariance = net_of(layer).sample(1, width=16, observe="covariance")[0]
    assert np.allclose(covariance, 0.49 * AR + 0.09, atol=1e-6)
    assert np.allclose(draw_derived(net_of(layer), 1, width=16, observe="covariance")[0], covariance, atol=1e-6)
    assert_same_law(
        lambda count, seed: net_of(layer).sample(count, width=8, observe="gram", seed=seed),
        lambda count, seed: net_of(layer).sample(count, width=8, observe="gram", seed=seed, reading="dense"),
        samples=20_000,
    )

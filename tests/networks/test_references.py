"""Numbers obtained elsewhere; their origin is in the data files."""

import json
from math import inf
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from same_law import FALSE_ALARM, assert_estimate, some_at_length

import limitlaw as ll

DATA = Path(__file__).parent.parent / "data"
DENSE = json.loads((DATA / "dense_reference.json").read_text())
REFERENCE = json.loads((DATA / "attention_reference.json").read_text())


def paper(heads=2, tokens=4, activation=None, **options):
    return ll.Network(ll.Inputs(tokens, activation or ll.clip(100.0)), ll.Attention(heads=heads, **options))


BRUTE_FORCE = {
    "clip_n16_H2": (paper(), 16),
    "clip_n64_H2": (paper(), 64),
    "clip_n256_H2": (paper(), 256),
    "clip_n256_H1": (paper(heads=1), 256),
    "lowrank_H1": (paper(heads=1, head_dim=64), 64),
    "lowrank_H4": (paper(heads=4, head_dim=64), 256),
    "relu_n16_H2": (paper(activation="relu"), 16),
    "clip_s16_n16_H2": (paper(tokens=16), 16),
}


@pytest.mark.parametrize("name", some_at_length(BRUTE_FORCE, ["clip_n16_H2", "lowrank_H1", "relu_n16_H2"]))
def test_brute_force_samples(name):
    """50,000 outputs of dense networks against our mixture's cdf, `E Phi(y / sqrt(v))`, and its moments."""
    net, width = BRUTE_FORCE[name]
    case, count = DENSE["cases"][name], DENSE["samples"]
    v = net.sample(2**17, width=width, token=0, observe="covariance", seed=1).astype(np.float64)
    edges, counts = np.array(case["edges"]), np.array(case["counts"])
    cdf = np.array([scipy.stats.norm.cdf(edge / np.sqrt(v)).mean() for edge in edges])
    law = net.law(width=width, samples=2**17, seed=1)
    assert np.abs(law.cdf(edges) - cdf).max() < 5 * law.error("cdf", edges).max()
    distance = np.abs(counts / count - cdf).max()
    assert scipy.stats.kstwobign.sf(distance * np.sqrt(count)) > FALSE_ALARM
    spread = np.sqrt((case["mean_fourth"] - case["mean_square"] ** 2) / count)
    assert abs(case["mean_square"] - v.mean()) < 5 * spread
    spread = np.sqrt((case["mean_eighth"] - case["mean_fourth"] ** 2) / count)
    assert abs(case["mean_fourth"] - 3 * (v**2).mean()) < 6 * spread


def test_brute_force_scores():
    case, count = DENSE["cases"]["score_n256"], DENSE["samples"]
    ours = np.sort(paper().sample(500_000, width=256, observe="scores", token=0)[:, 0, 0])
    cdf = np.searchsorted(ours, case["edges"], side="right") / ours.size
    distance = np.abs(np.array(case["counts"]) / count - cdf).max()
    assert scipy.stats.kstwobign.sf(distance * np.sqrt(count / 1.1)) > FALSE_ALARM


@pytest.mark.parametrize("name", some_at_length(REFERENCE["kde_moments"], ["clip_n16_H2", "relu_n64_H2"]))
def test_brute_force_variances(name):
    kind, *rest = name.split("_")
    heads = int(rest[-1][1:])
    width = 64 * heads if kind == "lowrank" else int(next(r for r in rest if r[0] == "n")[1:])
    net = paper(
        heads=heads,
        tokens=16 if "s16" in rest else 4,
        activation="relu" if kind == "relu" else None,
        **({"head_dim": 64} if kind == "lowrank" else {}),
    )
    moments = REFERENCE["kde_moments"][name]
    law = net.law(width=width, samples=2**15 if heads == 256 else 2**18)
    assert_estimate(
        law.variance(), moments["var"], truth_stderr=moments["var_se"] / np.sqrt(moments["trials"]), catches=1.06
    )


@pytest.mark.parametrize(
    "key, net, catches",
    [
        ("limit_identity_gram_s4", paper(heads=1), 1.02),
        ("limit_relu_gram_s4", paper(heads=1, activation="relu"), 1.08),
        pytest.param("limit_identity_gram_s16", paper(heads=1, tokens=16), 1.1, marks=pytest.mark.full),
    ],
)
def test_limits(key, net, catches):
    limit = REFERENCE["limits"][key]
    law = net.law(samples=2**20 if net.tokens == 4 else 2**18, method="draws")
    assert_estimate(law.variance(), limit["var"])
    assert_estimate(law.kurtosis(), limit["excess_kurtosis_H1"], truth_stderr=1e-6, catches=catches)


@pytest.mark.parametrize("head_dim", [4, 64])
def test_fixed_head_dimension(head_dim):
    limit = REFERENCE["limits"]["fixed_head_dim_identity_s4"][f"d{head_dim}"]
    law = paper(heads=1, head_dim=head_dim).law(samples=2**21, method="draws")
    assert_estimate(law.variance(), limit["var"], truth_stderr=1e-6)
    assert_estimate(law.kurtosis(), limit["excess_kurtosis_H1"], truth_stderr=2e-5, catches=1.04)


def test_infinitely_many_heads():
    law = paper(heads=inf).law(accuracy=1e-3, method="draws")
    assert isinstance(law, ll.laws.Gaussian)
    assert_estimate(law.variance(), REFERENCE["limits"]["limit_identity_gram_s4"]["var"], catches=1.005)


def test_infinitely_many_heads_jointly():
    """`E[P K P^T]` of all tokens at once: the average over many finite heads."""
    K = np.array([[1, 0.4, 0.1], [0.4, 1, 0.4], [0.1, 0.4, 2]])
    infinite = ll.Network(ll.GramInputs(K), ll.Attention(heads=inf, head_dim=5, mask="causal")).sample(
        256, observe="covariance"
    )
    finite = ll.Network(ll.GramInputs(K), ll.Attention(heads=1, head_dim=5, mask="causal")).sample(
        2**20, observe="covariance"
    )
    stderr = np.hypot(finite.std(axis=0) / 2**10, infinite.std(axis=0) / 16)
    assert np.abs(infinite.mean(axis=0) - finite.mean(axis=0)).max() < 5 * stderr.max()
    assert stderr.max() < 0.003


def test_neural_tangents_tied_linear_attention():
    net = ll.Network(ll.GramInputs(REFERENCE["nt_input_gram"]), ll.Attention(heads=3, tie_qk=True, scale="linear"))
    covariance = net.sample(2, observe="covariance")[0]
    assert np.abs(covariance - np.array(REFERENCE["nt_attention_tied_linear"])).max() < 1e-6
    assert isinstance(net.law(), ll.laws.Gaussian)

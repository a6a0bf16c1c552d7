"""Exact statements that hold without any reference number."""

from math import inf

import numpy as np
import pytest
from same_law import assert_estimate, assert_mean, some_at_length

import limitlaw as ll

K3 = np.array([[1.0, 0.3, 0.1], [0.3, 0.8, 0.2], [0.1, 0.2, 1.5]])


@pytest.mark.parametrize("head_dim", some_at_length([1, 2, 8], [2]))
@pytest.mark.parametrize("token", some_at_length([0, 2], [2]))
def test_a_score_has_excess_kurtosis_six_over_d(head_dim, token):
    net = ll.Network(ll.GramInputs(K3), ll.Attention(head_dim=head_dim, query_std=1.5))
    score = net.sample(4_000_000, width=7, observe="scores", token=token)[:, 0, 1].astype(np.float64)
    variance = 1.5**2 * K3[token, token] * K3[1, 1]
    assert_mean(score**2, variance)
    assert_mean(score**4, (3 + 6 / head_dim) * variance**2, catches=1.2 if head_dim == 1 else 1.05)


def test_score_covariance_is_a_kronecker_product():
    net = ll.Network(ll.GramInputs(K3), ll.Attention(head_dim=inf))
    scores = net.sample(1_000_000, observe="scores")[:, 0].reshape(-1, 9).astype(np.float64)
    for i in range(9):
        for j in range(i + 1):
            products = scores[:, i] * scores[:, j]
            stderr = products.std() / 1000
            assert abs(products.mean() - np.kron(K3, K3)[i, j]) < 5.5 * stderr
            assert stderr < 0.004


def test_kurtosis_of_one_layer_is_inversely_proportional_to_heads():
    def kurtosis(heads):
        net = ll.Network(ll.GramInputs(K3), ll.Attention(heads=heads, query_std=2.0))
        return net.law(samples=2**20, method="draws").kurtosis()

    one = kurtosis(1)
    for heads in (2, 5, 16):
        estimate = kurtosis(heads)
        assert_estimate(
            ll.Estimate(heads * estimate, heads * estimate.stderr), float(one), truth_stderr=one.stderr, catches=1.05
        )


def test_the_first_token_of_a_causal_layer_is_gaussian():
    net = ll.Network(ll.GramInputs(K3), ll.Attention(heads=2, head_dim=inf, mask="causal", value_std=2.0))
    v = net.sample(10_000, width=9, token=0, observe="covariance")
    assert np.allclose(v, 4.0, rtol=1e-6)
    assert net.law(width=9).kurtosis() < 1e-10
    assert net.sample(10_000, width=9, token=2, observe="covariance").std() > 0.05


def test_one_token_attends_to_itself_whatever_the_scores():
    """v = K chi2(d)/d: excess kurtosis of the output is 6/d per head."""
    net = ll.Network(ll.GramInputs([[2.0]]), ll.Attention(heads=3, head_dim=4, query_std=7.0))
    drawn, exact = net.law(samples=2**20, method="draws"), net.law()
    assert_estimate(drawn.variance(), 2.0)
    assert_estimate(drawn.kurtosis(), 6 / 4 / 3)
    assert abs(exact.variance() - 2.0) < 1e-12
    assert abs(exact.kurtosis() - 6 / 4 / 3) < 1e-12


def test_equal_tokens_have_equal_outputs():
    net = ll.Network(ll.GramInputs(np.full((3, 3), 0.5)), ll.Attention(heads=2, head_dim=2))
    y = net.sample(1000, width=5, token=[0, 1, 2])
    assert np.allclose(y[:, :1], y, atol=2e-3)


def test_zero_queries_average_the_tokens():
    law = ll.Network(ll.GramInputs(K3), ll.Attention(heads=2, query_std=0.0)).law()
    assert isinstance(law, ll.laws.Gaussian)
    assert abs(law.variance() - K3.mean()) < 1e-6


def test_linear_scale_at_infinite_width_averages_the_tokens():
    law = ll.Network(ll.GramInputs(K3), ll.Attention(heads=2, scale="linear")).law(token=1)
    assert abs(law.variance() - K3.mean()) < 1e-6
    assert law.kurtosis() == 0.0


@pytest.mark.parametrize("activation", some_at_length(["relu", "tanh", "sigmoid"], ["relu"]))
def test_the_gram_matrix_of_wide_inputs(activation):
    inputs = ll.Inputs(4, activation)
    net = ll.Network(inputs)
    limit = net.sample(1, observe="gram")[0]
    first, second = inputs.activation.moments()
    assert np.allclose(limit, first**2 + (second - first**2) * np.eye(4), atol=1e-6)
    wide = net.sample(64, width=16_384, observe="gram")
    assert np.abs(wide.mean(axis=0) - limit).max() < 0.02


def test_fixed_tokens_have_the_gram_matrix_and_mean_they_were_given():
    mean = np.array([0.2, -0.1, 0.4])
    for width in (4, 5, 64):
        x = ll.Network(ll.GramInputs(K3, mean)).realise(width=width).tokens
        assert np.allclose(x @ x.T / width, K3, atol=1e-6)
        assert np.allclose(x.mean(axis=1), mean, atol=1e-6)
    for width in (3, 4, 17):
        x = ll.Network(ll.GramInputs(K3)).realise(width=width).tokens
        assert np.allclose(x @ x.T / width, K3, atol=1e-6)
        assert width == 3 or np.allclose(x.mean(axis=1), 0, atol=1e-6)

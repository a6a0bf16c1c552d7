"""Variances beyond single precision are refused with the block and the remedy, or right; zeros that are true stay zeros."""

from math import inf

import jax
import numpy as np
import pytest

import limitlaw as ll
from limitlaw._checks import ArgumentError

GROWING = ll.Residual(ll.MLP("identity", width=16))
SHRINKING = ll.MLP("identity", width=16, out_std=0.3)


def stacked(count, layer, *layers):
    return ll.Network(ll.GramInputs(np.eye(2)), ll.Repeat(count, layer), *layers)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: stacked(140, ll.Residual(ll.Attention())).sample(4, width=64),
        lambda: stacked(140, ll.Residual(ll.Attention())).sample(4, width=64, token=[0, 1]),
        lambda: stacked(140, ll.Residual(ll.Attention())).sample(4, width=64, observe="gram"),
        lambda: stacked(140, ll.Residual(ll.Attention())).sample(4, width=64, observe="covariance"),
        lambda: stacked(140, ll.Residual(ll.Attention())).law(width=64, samples=256),
        lambda: stacked(140, ll.Residual(ll.Attention())).joint_law([0, 1], width=64, samples=256),
        lambda: stacked(140, ll.Residual(ll.Attention())).trajectory(64, width=64),
        lambda: stacked(140, ll.Residual(ll.Attention())).sample(4, observe="gram"),
        lambda: stacked(120, GROWING).sample(64, width=64, observe="gram"),
        lambda: stacked(200, GROWING).sample(64, width=64, observe="gram"),
        lambda: stacked(60, ll.Block(GROWING, GROWING)).sample(64, width=64, observe="gram"),
        lambda: stacked(3, ll.MLP(in_std=1e9, out_std=1e9)).sample(4, width=8, observe="gram"),
        lambda: stacked(2, ll.MLP(in_std=1e9, out_std=1e9)).law(width=8, samples=100),
        lambda: stacked(40, SHRINKING).sample(64, width=64, observe="gram"),
        lambda: stacked(80, SHRINKING).sample(64, width=64, observe="gram"),
        lambda: stacked(40, SHRINKING, ll.RMSNorm()).sample(64, width=64, observe="gram"),
        lambda: stacked(40, SHRINKING, ll.RMSNorm()).law(width=64, samples=64),
        lambda: stacked(40, SHRINKING, ll.Attention()).sample(64, width=64, observe="scores"),
    ],
)  # fmt: skip
def test_what_leaves_single_precision_is_refused(draw):
    with pytest.raises(
        ArgumentError, match=r"after (the inputs|block \d+).*beyond single precision.*Add a norm"
    ) as refusal:
        draw()
    assert refusal.value.argument == "layers"


@pytest.mark.parametrize(
    "draw",
    [
        lambda: stacked(140, ll.Residual(ll.Attention())).sample(4, width=8, reading="dense"),
        lambda: stacked(80, SHRINKING, ll.RMSNorm()).sample(4, width=8, reading="dense", observe="gram"),
        lambda: stacked(140, ll.Residual(ll.Attention())).draw(jax.random.key(0), width=8),
    ],
)
def test_other_readings_refuse_it_as_well(draw):
    with pytest.raises(ArgumentError, match=r"beyond single precision.*Add a norm") as refusal:
        draw()
    assert refusal.value.argument == "layers"


def test_the_block_is_named():
    """The variance doubles with every block and has left [1e-30, 1e30] after about a hundred."""
    with pytest.raises(ArgumentError, match="beyond single precision") as refusal:
        stacked(200, GROWING).trajectory(16, width=256)
    block = int(str(refusal.value).split("after block ")[1].split()[0])
    assert 80 <= block <= 105


@pytest.mark.parametrize(
    "make, argument",
    [
        (lambda: ll.Attention(value_std=1e-25), "value_std"),
        (lambda: ll.MLP(out_std=1e-12), "out_std"),
        (lambda: ll.Linear(std=1e-20), "std"),
        (lambda: ll.Dense(bias_std=1e-20), "bias_std"),
        (lambda: ll.Readout(std=1e-20), "std"),
        (lambda: ll.GramInputs(np.eye(2) * 1e-40), "K"),
        (lambda: ll.GramInputs(np.diag([1.0, 1e-40])), "K"),
        (lambda: ll.GaussianInputs(np.diag([1.0, 1e-40])), "K"),
        (lambda: ll.Embedding([1, 2], std=1e-20), "std"),
    ],
)
def test_numbers_whose_squares_underflow_are_refused(make, argument):
    with pytest.raises(ArgumentError) as refusal:
        make()
    assert refusal.value.argument == argument


@pytest.mark.parametrize("std", [1e-3, 1e-6, 1e-8])
def test_small_stds_that_are_accepted_are_right(std):
    """The law is that of `std = 1`, scaled."""
    one, small = (ll.Network(ll.Inputs(3), ll.Attention(value_std=value)) for value in (1.0, std))
    for width in (8, inf):
        first, second = (net.law(width=width, samples=2**12).variance() for net in (one, small))
        assert float(second) / std**2 == pytest.approx(float(first), rel=1e-4)


def test_a_stream_near_the_edge_is_right():
    """`E K = 2^60`, six standard errors."""
    gram = stacked(60, GROWING).sample(4096, width=4096, observe="gram")[:, 0, 0].astype(np.float64)
    assert abs(gram.mean() / 2.0**60 - 1) < 6 * gram.std() / 2.0**60 / 64


@pytest.mark.parametrize(
    "net",
    [
        ll.Network(ll.GramInputs(np.eye(2)), ll.MLP("relu", width=1)),  # a unit that is dead for both tokens
        ll.Network(ll.GramInputs(np.diag([1.0, 0.0])), ll.Residual(ll.Attention(mask=np.eye(2, dtype=bool)))),
        ll.Network(ll.Embedding([[1, 2], [2, 3]], padding=3), ll.Residual(ll.MLP("relu")), ll.RMSNorm(1e-6)),
        ll.Network(ll.GramInputs(np.eye(2)), ll.Attention(value_std=0.0)),
        ll.Network(ll.GramInputs(np.eye(2)), ll.Dense("relu", std=0.0)),
    ],
    ids=["dead units", "zero token", "padding", "zero values", "zero weights"],
)
def test_true_zeros_are_drawn(net):
    gram = net.sample(200, width=8, observe="gram")
    assert np.isfinite(gram).all()
    assert (np.diagonal(gram, axis1=1, axis2=2) == 0).any()
    assert np.isfinite(net.trajectory(50, width=8).gram).all()
    assert np.isfinite(net.sample(50, width=8)).all()

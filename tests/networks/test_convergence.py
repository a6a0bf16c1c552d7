"""Declares the rate that the theory gives, and fits it; separately, that the limit is the right one."""

import jax.numpy as jnp
import numpy as np
import pytest
from same_law import some_at_length

import limitlaw as ll
from limitlaw import netsor

WIDTHS = 2 ** np.arange(5, 12)


def fitted_slope(widths, values, stderrs):
    """Weighted least squares of log(value) on log(width): slope and its standard error."""
    design = np.column_stack([np.ones(len(widths)), np.log(widths)])
    weights = (np.array(values) / np.array(stderrs)) ** 2
    covariance = np.linalg.inv(design.T @ (weights[:, None] * design))
    return (covariance @ design.T @ (weights * np.log(values)))[1], np.sqrt(covariance[1, 1])


@pytest.mark.parametrize("activation", some_at_length([ll.clip(100.0), "relu"], [ll.clip(100.0)]))
def test_gram_fluctuations_fall_like_the_square_root_of_the_width(activation):
    net = ll.Network(ll.Inputs(3, activation))
    limit = net.sample(1, observe="gram")[0]
    widths = WIDTHS[:5]
    squares = [
        ((net.sample(2**15, width=int(n), observe="gram") - limit)[:, 0, 0] ** 2).astype(np.float64) for n in widths
    ]
    slope, stderr = fitted_slope(widths, [s.mean() for s in squares], [s.std() / np.sqrt(s.size) for s in squares])
    assert abs(slope + 1) < 5 * stderr
    assert stderr < 0.01


@pytest.mark.parametrize("options", some_at_length([{}, {"head_dim": "split", "mask": "causal"}], [{}]))
def test_variance_and_kurtosis_approach_the_limit_like_one_over_the_width(options):
    net = ll.Network(ll.Inputs(4, ll.clip(100.0)), ll.Attention(heads=2, **options))
    limit = net.law(token=2)
    laws = [net.law(width=int(n), token=2, samples=2**20, seed=int(n)) for n in WIDTHS[1:5]]
    for moment, tolerance in ((lambda law: law.variance(), 0.12), (lambda law: law.kurtosis(), 0.05)):
        gaps = [abs(moment(law) - moment(limit)) for law in laws]
        stderrs = [np.hypot(moment(law).stderr, moment(limit).stderr) for law in laws]
        slope, stderr = fitted_slope(WIDTHS[1:5], gaps, stderrs)
        # the next order, a / n with a of a few units, bends the line by a few hundredths at these widths
        assert abs(slope + 1) < tolerance + 4 * stderr
        assert stderr < 0.05


@pytest.mark.full
@pytest.mark.parametrize("reading", ["lazy", "dense"])
def test_programs_approach_their_limit_like_one_over_the_dimension(reading):
    """The fourth moment of `tanh(p)^2 g^2`, `g = V h`: an average over coordinates, so that few runs say much."""
    prog = netsor.Program()
    h = prog.initial("h")
    p = prog.score(prog.matrix("Q") @ h, prog.matrix("K") @ h)
    y = prog.nonlin(lambda g, p: jnp.tanh(p) * g, prog.matrix("V") @ h, scalars=[p])
    limit = float(prog.average(lambda y: y**2, y).mean())
    gaps, stderrs, dims = [], [], np.array([4, 8, 16])
    for n in dims:
        draws = prog.sample(
            y,
            samples=2**19,
            dims={"model": int(n)},
            reading=reading,
            seed=int(n),
            average=lambda y: y**2,
        )
        gaps.append(abs(draws.mean() - limit))
        stderrs.append(draws.std() / np.sqrt(draws.size))
    slope, stderr = fitted_slope(dims, gaps, stderrs)
    assert abs(slope + 1) < 0.2 + 4 * stderr
    assert stderr < 0.15


def test_a_million_is_almost_infinity():
    net = ll.Network(ll.Inputs(4, ll.clip(100.0)), ll.Attention(heads=2))
    wide, limit = net.law(width=10**6, samples=2**20), net.law()
    assert abs(wide.variance() - limit.variance()) < 5 * np.hypot(wide.variance().stderr, limit.variance().stderr)
    assert abs(wide.kurtosis() - limit.kurtosis()) < 5 * np.hypot(wide.kurtosis().stderr, limit.kurtosis().stderr)

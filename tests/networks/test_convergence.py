"""Declares the rate that the theory gives, and fits it; separately, that the limit is the right one."""

import numpy as np
import pytest

import limitlaw as ll

WIDTHS = 2 ** np.arange(5, 12)


def fitted_slope(widths, values, stderrs):
    """Weighted least squares of log(value) on log(width): slope and its standard error."""
    design = np.column_stack([np.ones(len(widths)), np.log(widths)])
    weights = (np.array(values) / np.array(stderrs)) ** 2
    covariance = np.linalg.inv(design.T @ (weights[:, None] * design))
    return (covariance @ design.T @ (weights * np.log(values)))[1], np.sqrt(covariance[1, 1])


@pytest.mark.parametrize("activation", [ll.clip(100.0), "relu"], ids=str)
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


@pytest.mark.parametrize("options", [{}, {"head_dim": "split"}, {"mask": "causal"}], ids=str)
def test_variance_and_kurtosis_approach_the_limit_like_one_over_the_width(options):
    """n gap(n) = c + a / n + b / n^2 fits within its errors, and c is not 0."""
    net = ll.Network(ll.Inputs(4, ll.clip(100.0)), ll.Attention(heads=2, **options))
    limit = net.law(token=2, samples=2**22, seed=7)
    for moment in (lambda law: law.var(), lambda law: law.kurtosis()):
        laws = [net.law(width=int(n), token=2, samples=2**21, seed=11) for n in WIDTHS[:4]]
        gaps = np.array([moment(law) - moment(limit) for law in laws])
        stderrs = np.array([np.hypot(moment(law).stderr, moment(limit).stderr) for law in laws])
        # Fit n gap = c + a / n and let the residual speak.
        x = np.column_stack([np.ones(4), 1 / WIDTHS[:4], 1 / WIDTHS[:4] ** 2])
        y, w = WIDTHS[:4] * gaps, 1 / (WIDTHS[:4] * stderrs)
        coefficients, *_ = np.linalg.lstsq(x * w[:, None], y * w, rcond=None)
        residual = (y - x @ coefficients) * w
        assert np.abs(residual).max() < 5
        covariance = np.linalg.inv((x * w[:, None]).T @ (x * w[:, None]))
        assert coefficients[0] > 3 * np.sqrt(covariance[0, 0]), "no 1/n term: the limit is wrong or the rate is"


def test_a_million_is_almost_infinity():
    net = ll.Network(ll.Inputs(4, ll.clip(100.0)), ll.Attention(heads=2))
    wide, limit = net.law(width=10**6, samples=2**20), net.law(samples=2**20, seed=1)
    assert abs(wide.var() - limit.var()) < 5 * np.hypot(wide.var().stderr, limit.var().stderr)
    assert abs(wide.kurtosis() - limit.kurtosis()) < 5 * np.hypot(wide.kurtosis().stderr, limit.kurtosis().stderr)

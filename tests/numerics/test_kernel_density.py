"""Kernel estimates on a grid against the plain sum."""

import numpy as np

from limitlaw.numerics.density import kernel_density_on_grid


def test_a_gap_between_samples_is_filled_by_far_kernels():
    """Some 15 bandwidths from any sample, where an estimate is 1e-50 of its largest value."""
    rng = np.random.default_rng(0)
    samples, bandwidth = np.concatenate([rng.normal(size=2000), 9 + rng.normal(size=2000)]), 0.1
    low, high = samples.min(), samples.max()
    grid = np.linspace(low, high, 200)
    estimate = kernel_density_on_grid(samples, low, high, 200, bandwidth)
    u = (grid[:, None] - samples) / bandwidth
    plain = np.exp(-0.5 * u**2).mean(axis=1) / (bandwidth * np.sqrt(2 * np.pi))
    gap = np.abs(u).min(axis=1) > 9
    assert plain[gap].min() < 1e-40
    assert np.allclose(estimate[gap], plain[gap], rtol=2e-2, atol=0)
    assert np.allclose(estimate[~gap], plain[~gap], rtol=1e-3, atol=0)
    assert np.allclose(estimate[plain > 1e-3], plain[plain > 1e-3], rtol=2e-5, atol=0)

"""The table of baselines, and the three descents beside each other."""

import json
from pathlib import Path

import numpy as np
import pytest

from limitlaw import slr

REFERENCE = json.loads(Path(__file__).parents[1].joinpath("data", "slr_reference.json").read_text())["baselines"]


@pytest.mark.parametrize("case", REFERENCE, ids=lambda case: f"d={case['dim']}")
def test_baselines_to_every_printed_digit(case):
    found = dict(slr.baselines(slr.Problem(case["dim"], case["tokens"], case["gamma"])))
    found["softmax_beta1"] = found["softmax"]
    expected = {name: value for name, value in case.items() if name not in ("dim", "tokens", "gamma")}
    for name, value in expected.items():
        digits = len(repr(value).split("e")[0].replace(".", "").lstrip("0"))
        assert float(f"{found[name]:.{digits}g}") == value, name


def test_the_best_temperature_is_the_best_on_a_finer_grid():
    p = slr.Problem(20, 20, 0.8)
    best = slr.baselines(p)["softmax_best"]
    around = [p.changed(beta=beta).risk(1.0, 1.0) for beta in np.linspace(0.3, 1.5, 61)]
    assert best <= min(around)
    assert best == pytest.approx(min(around), rel=1e-4)


@pytest.mark.full
def test_simulation_follows_the_exact_descent_as_data_grow():
    """The largest gap in nu to the exact descent falls with the number of samples; the mean-field descent stays apart."""
    p = slr.Problem(20, 5, 0.6, 1.0, 0.1)
    start = slr.start(p, "informed", mu=0.4, nu=0.2, seed=5)
    exact = slr.descent(p, 400, 0.02, start, every=20)
    gaps = [
        np.abs(slr.simulate(p, n, 400, 0.02, 1, start=start, test_samples=500, every=20).nu - exact.nu).max()
        for n in (300, 20_000)
    ]
    assert gaps[1] < gaps[0] / 3
    assert gaps[1] < 0.02
    assert np.abs(slr.descent(p, 400, 0.02, start, every=20, method="mean-field").nu - exact.nu).max() > 2 * gaps[1]


@pytest.mark.full
def test_fresh_test_risk_is_the_exact_risk_of_the_overlaps():
    for link in ("linear", "quadratic", "relu"):
        p = slr.Problem(10, 4, 0.7, 0.8, 0.3, link)
        start = slr.start(p, "informed", 3, mu=0.4, nu=0.5)
        run = slr.simulate(p, 100, 20, 0.02, start=start, test_samples=60_000)
        for k in (0, -1):
            # losses have a standard deviation of about 3 times their mean; 4.5 standard errors
            allowed = 4.5 * 4 * (run.risk[:, k] + 0.09) / np.sqrt(60_000)
            assert np.all(np.abs(run.risk[:, k] - p.risk(*run.overlaps[:, k].T)) < allowed)


def test_data_have_the_stated_law():
    p = slr.Problem(6, 3, 0.5, noise=0.2, link="quadratic")
    X, y = map(np.asarray, slr.sample(p, 50_000, seed=2))
    place = np.argmax(X[..., 0] - 0.2 * np.linalg.norm(X, axis=-1), axis=1)
    assert np.bincount(place, minlength=3) / 50_000 == pytest.approx(1 / 3, abs=0.01)
    assert y.mean() == pytest.approx(0.25, abs=4.5 * y.std() / np.sqrt(50_000))
    assert X.sum(axis=1)[:, 0].mean() == pytest.approx(p.signal, abs=4.5 * np.sqrt(2.25 / 50_000))
    assert slr.simulate(p, 10, 10).at.tolist() == [0, 10]
    with pytest.raises(ValueError, match="multiple of every=3"):
        slr.simulate(p, 10, 10, every=3)

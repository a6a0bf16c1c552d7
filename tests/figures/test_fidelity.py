"""The figures at full counts against a separate implementation that draws every matrix."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import xarray as xr

pytestmark = pytest.mark.full

REFERENCE = json.loads((Path(__file__).parent.parent / "data" / "divergence_reference.json").read_text())
PLACES = {
    "clip_n16_H2": ("fig1b", 0),
    "clip_n64_H2": ("fig1b", 1),
    "clip_n256_H2": ("fig1b", 2),
    "clip_n256_H1": ("heads_limit", 0),
    "clip_n256_H256": ("heads_limit", 4),
    "lowrank_H1": ("fig3b", 0),
    "lowrank_H4": ("fig3b", 1),
    "lowrank_H16": ("fig3b", 2),
    "clip_s16_n16_H2": ("fig4b", 0),
    "clip_s16_n64_H2": ("fig4b", 1),
    "relu_n16_H2": ("fig5b", 0),
    "relu_n64_H2": ("fig5b", 1),
    "relu_n256_H2": ("fig5b", 2),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    out = tmp_path_factory.mktemp("full")
    arguments = ["reproduce", "--only", "data", "--out", str(out)]
    code = "from limitlaw.cli import main; main()"
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.DEVNULL)
    return {path.stem: xr.open_zarr(path).load() for path in (out / "data").glob("*.zarr")}


def test_the_paper_at_full_counts(data):
    """Kernel estimates agree with those of dense samples, which are as rare beyond as three standard errors of a normal.

    A spread that is known from 2 or 4 trials is itself uncertain, so the bound is Student's, with Welch's degrees of freedom.
    """
    surprises = {}
    for name, (figure, point) in PLACES.items():
        ours = data[figure]["kde_kl"].values[point]
        assert ours.size == 10
        assert data[figure].attrs["samples"] == REFERENCE["kde"][name]["N"]
        surprises[name] = surprise(ours, REFERENCE["kde"][name])
    surprises["floor_H2"] = surprise(data["fig1b"]["floor_kde_kl"].values[0], REFERENCE["kde"]["floor_H2"])
    assert max(surprises.values()) < 3, surprises


def surprise(ours, truth):
    """The distance of two means, in standard deviations of a normal as unlikely."""
    parts = ours.var(ddof=1) / ours.size, truth["kl_std"] ** 2 / truth["trials"]
    dof = sum(parts) ** 2 / (parts[0] ** 2 / (ours.size - 1) + parts[1] ** 2 / (truth["trials"] - 1))
    return scipy.stats.norm.isf(scipy.stats.t.sf(abs(ours.mean() - truth["kl_mean"]) / np.sqrt(sum(parts)), dof))


def test_variances_of_the_outputs(data):
    for name, (figure, point) in PLACES.items():
        densities = figure.replace("b", "a") if figure.startswith("fig") else "fig2b"
        row = {0: 0, 4: 1}[point] if densities == "fig2b" else point
        outputs = data[densities]["output"].values[row].astype(np.float64)
        truth = REFERENCE["kde"][name]
        by_trial = outputs.var(axis=1)
        spread = np.hypot(by_trial.std(ddof=1) / np.sqrt(by_trial.size), truth["var_se"])
        assert abs(by_trial.mean() - truth["var"]) < 4 * spread, name


def test_true_divergences(data):
    for figure, references in (("fig1b", REFERENCE["true_kl"]["clip"]), ("fig3b", REFERENCE["true_kl"]["low rank"])):
        for (value, stderr, _), (truth, error) in zip(
            data[figure]["kl_limit"].values, references.values(), strict=False
        ):
            assert abs(value - truth) < 3 * np.hypot(stderr, error)
            assert stderr < 0.02 * value
    slopes = data["fig1b"]["kl_limit"].values[:, 0]
    assert slopes[2] / slopes[3] == pytest.approx(15.2, rel=0.05)  # (1024/256)^1.96, the local slope that theory gives
    # the mixture at infinite width, against infinitely many heads: independent quadrature
    known = data["heads_gaussian"]["limit_kl_gaussian"].values[:, 0]
    assert known[0] == pytest.approx(9.724250e-4, rel=1e-6)
    assert known[-1] == pytest.approx(1.88025e-8, rel=1e-4)


def test_depth_at_full_counts(data):
    """At twice the depth of a quick run the rates have settled."""
    rates = json.loads((Path(__file__).parent.parent / "data" / "deep_reference.json").read_text())["rates"]
    gap = data["deep_collapse"]["gap"].sel(statistic="value")
    for kind in ("post", "skip"):
        factor = gap.sel(stack=kind, beta=1.0)[-1] / gap.sel(stack=kind, beta=1.0)[-2]
        assert float(factor) == pytest.approx(rates[f"{kind}_factor"], abs=0.005)
    kurtosis = data["deep_kurtosis"].sel(statistic="value", block=16)
    assert float(kurtosis["finite_kurtosis"].sel(stack="pre", width=1024)) == pytest.approx(6 / 1024, rel=0.15)
    assert float(kurtosis["finite_kurtosis"].sel(stack="attention", width=1024)) == pytest.approx(
        12 * 16 / 1024, rel=0.2
    )
    assert data["deep_heads"].sizes["head_dim"] == 6

"""The figures at full counts against a separate implementation that draws every matrix."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
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
    """Kernel estimates within three standard errors of those of dense samples; outputs have their variance; true divergences agree."""
    scores = {}
    for name, (figure, point) in PLACES.items():
        truth = REFERENCE["kde"][name]
        ours = data[figure]["kde_kl"].values[point]
        assert ours.size == 10
        assert data[figure].attrs["samples"] == truth["N"]
        spread = np.hypot(ours.std(ddof=1) / np.sqrt(ours.size), truth["kl_std"] / np.sqrt(truth["trials"]))
        scores[name] = (ours.mean() - truth["kl_mean"]) / spread
    floor, truth = data["fig1b"]["floor_kde_kl"].values.ravel(), REFERENCE["kde"]["floor_H2"]
    spread = np.hypot(floor.std(ddof=1) / np.sqrt(10), truth["kl_std"] / np.sqrt(truth["trials"]))
    scores["floor_H2"] = (floor.mean() - truth["kl_mean"]) / spread
    assert max(map(abs, scores.values())) < 3, scores


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

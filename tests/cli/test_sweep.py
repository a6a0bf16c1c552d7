"""`limitlaw sweep`, `status`, `export` as a person uses them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from limitlaw.cli._sweep import cluster_of
from limitlaw.experiments import Sweep

STUDY = """
name = "widths"
measure = ["moments"]
samples = 2048
[network]
inputs = { kind = "Inputs", tokens = 3 }
layers = [{ kind = "Attention", heads = 2 }]
[axes]
width = [8, 16, "inf"]
heads = [2]
"""


def run(*args, env=None):
    words = [sys.executable, "-c", "from limitlaw.cli import main; main()", *map(str, args)]
    return subprocess.run(words, capture_output=True, text=True, env=env)


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


def test_from_a_file_to_a_table(study, tmp_path):
    out = tmp_path / "out"
    done = run("sweep", study, "--out", out, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "widths: 3 points, 4 tasks, 0 of them done" in done.stdout
    assert not out.exists()
    done = run("sweep", study, "--out", out, "--workers", 1)
    assert done.returncode == 0, done.stderr
    page = (out / "report.html").read_text()
    assert page.count('src="data:image/png;base64,') == 2
    assert re.search(r"<td[^>]*>16</td><td[^>]*>2</td>", page)
    assert "http" not in page.replace("http-equiv", "")  # it needs nothing else
    data = xr.open_zarr(out / "results.zarr").load()
    assert data.identical(Sweep.open(out).dataset())
    assert data.variance.dims == ("width", "heads", "trial")  # as in the file
    assert np.all(data.variance > 0)
    assert run("status", out).stdout == "widths: complete, 4 of 4 tasks done\n"
    assert run("export", out, "--csv", tmp_path / "out.csv").stdout == f"wrote 6 rows to {tmp_path / 'out.csv'}\n"
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 7


def test_what_a_sweep_will_take(study, tmp_path):
    """Unknown on a machine that has run nothing like it; compilation counts afterwards."""
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    first = run("sweep", study, "--out", tmp_path / "first", "--workers", 1, env=env)
    assert "time not yet measured on this machine" in first.stdout
    second = run("sweep", study, "--out", tmp_path / "second", "--workers", 1, "--dry-run", env=env)
    assert re.search(r"about \d+ s on 1 at once", second.stdout), second.stdout
    third = run("sweep", study, "--out", tmp_path / "first", "--dry-run", env=env)
    assert "4 of them done; nothing left to compute" in third.stdout


def test_tables_that_cannot_be_written(study, tmp_path):
    out = tmp_path / "out"
    run("sweep", study, "--out", out, "--workers", 1)
    done = run("export", out, "--csv", ".")
    assert done.returncode == 2
    assert done.stderr == "limitlaw: --csv . is a folder. Give the name of a file.\n"
    done = run("export", out, "--csv", "/proc/out.csv")
    assert done.returncode == 2
    assert "--csv /proc/out.csv cannot be written" in done.stderr
    assert "--out" not in done.stderr


def test_a_refusal_is_one_line(study, tmp_path):
    done = run("sweep", study, "--out", tmp_path / "out", "--cluster", "cloud")
    assert done.returncode == 2
    assert done.stderr == "limitlaw: --cluster 'cloud' is not known. Use local:N, tcp://host:port, or slurm.\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words, profile, workers, sentence",
    [
        ("local:0", None, None, "--cluster 'local:0' must give the number of workers"),
        ("tcp://host", None, None, "--cluster 'tcp://host' must have a host and a port"),
        ("slurm", None, None, "--cluster slurm needs --profile FILE"),
        (None, Path("p.toml"), None, "--profile p.toml belongs to --cluster slurm"),
        ("local:2", Path("p.toml"), None, "--profile p.toml belongs to --cluster slurm, not to --cluster 'local:2'"),
        ("local:2", None, 2, "which has its own"),
        ("slurm", Path("missing.toml"), None, "missing.toml cannot be read: No such file"),
    ],
)
def test_places_that_make_no_sense(words, profile, workers, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        cluster_of(words, profile, workers)


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("cores = 4", "has no 'memory'"),
        ("cores = 'four'\nmemory = '8GB'", "cores='four' must be int"),
        ("core = 4", "Did you mean 'cores'?"),
        ("core = ", "is not valid TOML"),
    ],
)
def test_a_profile_is_checked(text, sentence, tmp_path):
    (tmp_path / "profile.toml").write_text(text)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        cluster_of("slurm", tmp_path / "profile.toml", None)


def test_folders_without_a_sweep(tmp_path):
    for words in (["status", tmp_path], ["export", tmp_path, "--csv", tmp_path / "x.csv"]):
        done = run(*words)
        assert done.returncode == 2
        assert "does not hold a sweep" in done.stderr
    assert "is in a folder that does not exist" in run("export", tmp_path, "--csv", tmp_path / "no" / "x.csv").stderr

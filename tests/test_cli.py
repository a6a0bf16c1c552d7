import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from same_law import assert_estimate
from typer.testing import CliRunner

import limitlaw
from limitlaw.cli import app
from limitlaw.figures import convergence

ROOT = Path(__file__).parent.parent


def test_reproduce_writes_its_figure_and_table(tmp_path):
    result = CliRunner().invoke(app, ["reproduce", "--out", str(tmp_path / "new"), "--samples", "4096", "--seed", "3"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "new" / "convergence.pdf").stat().st_size > 5_000
    assert (tmp_path / "new" / "convergence.png").stat().st_size > 20_000
    assert [line.split()[0] for line in result.output.splitlines()[3:8]] == ["16", "64", "256", "1024", "inf"]


def test_the_table_holds_the_moments_of_the_paper():
    rows = convergence.compute(convergence.Settings(widths=(64,), draws=2**20))
    assert_estimate(rows[0].kurtosis, 0.554, truth_stderr=0.002, catches=1.05)  # a separate prototype's value
    assert abs(rows[1].var - 0.3919714436) < 1e-9
    assert abs(rows[1].kurtosis - 0.2433184252 / 2) < 1e-9
    gap = convergence.table(rows).splitlines()[1].split("±")[2].split()[-1]
    assert np.isclose(float(gap), 64 * (rows[0].var - rows[1].var), atol=0.01)


def test_the_figure_says_what_it_shows(tmp_path, monkeypatch):
    import matplotlib.pyplot as plt

    shown = []
    monkeypatch.setattr(plt, "close", lambda figure: shown.append(figure))
    convergence.draw(convergence.compute(convergence.Settings(draws=1024)), tmp_path)
    left, right = shown[0].axes
    assert (left.get_xlabel(), left.get_ylabel()) == ("width n", "variance of the output")
    assert right.get_ylabel() == "excess kurtosis of the output"
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["limit, n = ∞", "width n (± 2 s.e.)"]
    monkeypatch.undo()
    plt.close("all")


def test_version():
    result = CliRunner().invoke(app, ["--version"])
    assert result.output.strip() == f"limitlaw {limitlaw.__version__}"
    assert f'version = "{limitlaw.__version__}"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    "arguments, hint",
    [(["--samples", "1"], "--samples"), (["--seed", "-1"], "--seed"), (["--out", "/proc/nowhere"], "--out")],
)
def test_bad_arguments_are_refused(arguments, hint):
    result = CliRunner().invoke(app, ["reproduce", *arguments])
    assert result.exit_code == 2
    assert hint in result.output


def test_the_example_runs():
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "attention_layer.py"], capture_output=True, text=True, check=True
    )
    assert done.stdout.count("variance") == 3

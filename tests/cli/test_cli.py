import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from same_law import assert_estimate
from typer.testing import CliRunner

import limitlaw as ll
from limitlaw.cli import app

ROOT = Path(__file__).parents[2]


def invoke(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "120"})


def test_large_seeds_are_taken_as_they_are():
    result = CliRunner().invoke(
        app, ["law", "--seed", "9007199254740993", "--width", "16", "--samples", "512", "--json"]
    )
    assert json.loads(result.stdout)["seed"] == 9007199254740993
    refused = CliRunner().invoke(app, ["law", "--seed", "18446744073709551617", "--width", "16"])
    assert "seed=18446744073709551617" in str(refused.exception)


def test_version():
    assert invoke("--version").output.strip() == f"limitlaw {ll.__version__}"
    assert f'version = "{ll.__version__}"' in (ROOT / "pyproject.toml").read_text()


def test_the_law_of_the_paper():
    result = invoke(
        "law", "--tokens", 4, "--heads", 2, "--activation", "clip(100)", "--width", 64, "--samples", 2**18, "--json"
    )
    assert result.exit_code == 0, result.output
    answer = json.loads(result.output)
    assert answer["laws"] == ["width 64", "limit"]
    kurtosis, limit = answer["values"]["excess kurtosis"]
    # a separate prototype's value at n = 64, and the trapezoid rule of another at infinity
    assert_estimate(ll.Estimate(kurtosis["value"], kurtosis["stderr"]), 0.554, truth_stderr=0.002, catches=1.1)
    assert limit == {"value": pytest.approx(0.2433184252 / 2, abs=1e-9), "stderr": 0.0}
    divergence = answer["distances"]["KL"]
    assert_estimate(ll.Estimate(divergence["value"], divergence["stderr"]), 2.1361e-3, truth_stderr=3e-6, catches=1.2)


def test_without_a_width_the_limit_is_compared_with_a_gaussian():
    answer = json.loads(invoke("law", "--gram", "1 0; 0 1", "--heads", 3, "--json").output)
    assert answer["laws"] == ["limit", "Gaussian"]
    law = ll.Network(ll.GramInputs(np.eye(2)), ll.Attention(heads=3)).law()
    assert answer["values"]["variance"] == [{"value": pytest.approx(law.variance()), "stderr": 0.0}] * 2
    assert answer["network"]["inputs"] == {"kind": "GramInputs", "K": [[1.0, 0.0], [0.0, 1.0]]}


def test_every_flag_reaches_the_network():
    flags = ["--gram", "1 .5; .5 2", "--heads", 2, "--head-dim", 8, "--scale", "linear", "--mask", "causal", "--tie-qk"]
    stds = ["--query-std", 2, "--key-std", 3, "--value-std", 0.5, "--out-std", 0.25]
    answer = json.loads(
        invoke("law", *flags, *stds, "--width", 16, "--token", 1, "--samples", 1000, "--seed", 4, "--json").output
    )
    net = ll.networks.from_plain(answer["network"])
    assert repr(net.layers[0]) == (
        "Attention(heads=2, head_dim=8, mask='causal', scale='linear', tie_qk=True, query_std=2.0, key_std=3.0, value_std=0.5, out_std=0.25)"
    )
    law = net.law(width=16, token=1, samples=1000, seed=4)
    assert answer["values"]["variance"][0] == {"value": law.variance(), "stderr": law.variance().stderr}


def test_a_file_describes_any_network(tmp_path):
    file = tmp_path / "net.toml"
    file.write_text(
        'width = 8\ntoken = 1\nsamples = 2000\n[inputs]\nkind = "GaussianInputs"\nK = [[1, 0.2], [0.2, 1]]\n'
        '[[layers]]\nkind = "Attention"\nheads = 2\n[[layers]]\nkind = "Attention"\nhead_dim = 3\nmask = "causal"\n'
    )
    net = ll.Network(
        ll.GaussianInputs([[1, 0.2], [0.2, 1]]), ll.Attention(heads=2), ll.Attention(head_dim=3, mask="causal")
    )
    answer = json.loads(invoke("law", file, "--json").output)
    assert answer["values"]["variance"][0]["value"] == net.law(width=8, token=1, samples=2000).variance()
    wider = json.loads(invoke("law", file, "--width", 12, "--json").output)
    assert wider["values"]["variance"][0]["value"] == net.law(width=12, token=1, samples=2000).variance()


def test_a_person_sees_a_table_and_gets_a_picture(tmp_path):
    result = invoke("law", "--tokens", 2, "--width", 16, "--samples", 1000, "--plot", tmp_path / "law.pdf")
    assert result.exit_code == 0, result.output
    assert "excess kurtosis" in result.output
    assert "Network(Inputs(tokens=2" in result.output
    assert (tmp_path / "law.pdf").read_bytes().startswith(b"%PDF")
    assert result.stderr == f"Wrote {tmp_path / 'law.pdf'}.\n"
    result = invoke("law", "--tokens", 2, "--width", 16, "--samples", 1000, "--plot", tmp_path / "law.png", "--json")
    assert json.loads(result.stdout)["width"] == 16
    assert result.stderr == f"Wrote {tmp_path / 'law.png'}.\n"


@pytest.mark.parametrize(
    "arguments, hint",
    [
        (["--heads", "x"], "--heads='x' must be a number"),
        (["--heads", "none"], "--heads='none' must be a number"),
        (["--head-dim", "none"], "--head-dim='none' must be a number"),
        (["--scale", "none"], "scale='none'"),
        (["--heads", "1e400"], "--heads='1e400' is too large for a number. Use inf for infinity."),
        (["--width", "1e400"], "width='1e400' is too large"),
        (["--width", ""], "--width='' is empty. Give a number."),
        (
            ["--tokens", "100000"],
            "tokens=100000 needs 298 GiB of memory for matrices of tokens, more than the 1 GiB allowed",
        ),
        (["many.toml"], "tokens=100000 needs 298 GiB"),
        (["deep.toml"], "layers are nested too deeply. Use Repeat"),
        (["brackets.toml"], "brackets.toml is nested too deeply to be read"),
        (["--load", "nowhere.py"], "load='nowhere.py' is not a file"),
        (["--width", "3.5"], "width=3.5"),
        (["--activation", "tnah"], "activation='tnah'"),
        (["--gram", "1 a"], "gram='1 a' must be rows of numbers"),
        (["--gram", "1", "--tokens", "3"], "--tokens cannot be combined with --gram"),
        (["--plot", "law.xyz"], "must end in .pdf"),
        (["--plot", "/nowhere/law.pdf"], "is in a folder that does not exist"),
        (["nowhere.toml"], "nowhere.toml cannot be read: No such file"),
        (["bad.toml"], "bad.toml is not valid TOML"),
        (["key.toml"], "'hedas' is not a key of Attention. Did you mean 'heads'?"),
        (["kind.toml"], "kind='Atention' in layers is not known. Did you mean 'Attention'?"),
        (["top.toml"], "'wdith'"),
        (["key.toml", "--heads", "2"], "--heads cannot be combined with key.toml"),
    ],
)
def test_bad_questions_are_refused_in_one_sentence(arguments, hint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inputs = '[inputs]\nkind = "Inputs"\ntokens = 2\n'
    for name, text in {
        "bad": "x = [",
        "key": inputs + '[[layers]]\nkind = "Attention"\nhedas = 2\n',
        "kind": inputs + '[[layers]]\nkind = "Atention"\n',
        "top": "wdith = 3\n" + inputs,
        "many": inputs.replace("2", "100000"),
        "deep": inputs + "".join(f"[[{'.'.join(['layers'] * depth)}]]\nkind = 'Residual'\n" for depth in range(1, 400)),
        "brackets": "x = " + "[" * 5000,
    }.items():
        Path(f"{name}.toml").write_text(text)
    result = invoke("law", *arguments)
    assert isinstance(result.exception, ValueError)
    assert hint in str(result.exception)
    assert "\n" not in str(result.exception)


def test_the_example_runs():
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "attention_layer.py"], capture_output=True, text=True, check=True
    )
    assert done.stdout.count("variance") == 3


def test_regression_risk():
    found = json.loads(invoke("slr", "risk", "--mu", -0.4, "--nu", 0, "--link", "quadratic", "--json").output)
    assert found == {
        "exact": pytest.approx(2.38455, abs=6e-6),
        "refined asymptotics": pytest.approx(2.38455, abs=6e-6),
        "mean field, alpha = log L / d": pytest.approx(0.75),
        "mean field, alpha = 0": pytest.approx(0.75),
    }
    printed = invoke("slr", "risk").output
    assert "excess risk" in printed
    assert re.search(r"^exact +8\.63639e-8$", printed, re.MULTILINE)


def test_regression_descent(tmp_path):
    picture = tmp_path / "descent.png"
    flags = [
        "--steps",
        100,
        "--start",
        "informed",
        "--mu",
        0.4,
        "--nu",
        0.3,
        "--samples",
        50,
        "--dim",
        20,
        "--plot",
        picture,
    ]
    found = json.loads(invoke("slr", "descent", *flags, "--json").stdout)
    assert set(found) == {"exact", "mean field", "mean field, alpha = 0", "simulation"}
    p = ll.slr.Problem(20, 20, noise=0.1)
    run = ll.slr.descent(p, 100, start=ll.slr.start(p, "informed", mu=0.4, nu=0.3), every=10)
    assert found["exact"]["risk"] == pytest.approx(run.risk)
    assert picture.read_bytes().startswith(b"\x89PNG")
    result = invoke("slr", "descent", *flags)
    assert result.stderr == f"Wrote {picture}.\n"
    lines = result.stdout.splitlines()
    assert lines[0] == "exact"
    assert lines[1].split() == ["step", "excess", "risk", "mu", "nu", "eta", "zeta", "rho"]
    assert lines[3].split()[2:] == ["0.4000", "0.3000", *(f"{x:.4f}" for x in run.overlaps[0, 2:])]
    assert [line.split()[0] for line in lines[3:14]] == list(map(str, range(0, 101, 10)))  # the last step is there


def test_regression_phase_and_baselines(tmp_path):
    found = json.loads(invoke("slr", "phase", "--dim", 30, "--log-tokens", 20, "--json").output)
    assert (found["phase"], found["thresholds"]["alpha_best_beta"]) == ("paramagnetic", pytest.approx(0.25))
    picture = tmp_path / "phases.pdf"
    result = invoke("slr", "phase", "--dim", 6, "--over", "mu,beta", "--plot", picture)
    assert result.stderr == f"Wrote {picture}.\n"
    assert "alpha, below which the oracle finds it" in result.stdout
    assert picture.read_bytes().startswith(b"%PDF")
    assert json.loads(invoke("slr", "baselines", "--dim", 20, "--gamma", 0.8, "--json").output)["bayes_full"] == (
        pytest.approx(0.13234, abs=6e-6)
    )
    printed = invoke("slr", "baselines", "--dim", 20, "--gamma", 0.8).output
    assert "excess risk" in printed
    assert "Bayes, whole tokens" in printed
    assert "bayes_full" not in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["risk", "--gamma", "2"], "gamma=2.0 must lie in (0, 1]"),
        (["risk", "--mu", "0.9", "--eta", "0.9"], "not those of any four unit vectors"),
        (["descent", "--steps", "0"], "--steps=0"),
        (["descent", "--samples", "0", "--steps", "1000000"], "--samples=0"),
        (["descent", "--start", "foo"], "--start='foo'"),
        (["descent", "--mu", "0.3"], "Use --start informed"),
        (["phase", "--over", "foo,bar"], "--over='foo,bar'"),
        (["descent", "--plot", "x.gif"], "--plot x.gif"),
        (["phase", "--beta", "0"], "beta=0"),
        (["baselines", "--tokens", "0"], "tokens=0"),
    ],
)
def test_regression_refuses_bad_input(arguments, words):
    done = invoke("slr", *arguments)
    assert isinstance(done.exception, ValueError)
    assert words in str(done.exception)


def test_regression_refuses_in_one_line():
    done = subprocess.run(
        [sys.executable, "-c", "from limitlaw.cli import main; main()", "slr", "risk", "--gamma", "2"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "gamma=2.0" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1

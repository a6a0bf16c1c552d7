"""`limitlaw inspect`, end to end on small configurations."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from limitlaw.cli import app
from limitlaw.models import Subject, from_config, observations

GPT2 = {"model_type": "gpt2", "n_embd": 24, "n_head": 2, "n_layer": 3, "n_positions": 16, "vocab_size": 30}
BERT = {
    "model_type": "bert",
    "hidden_size": 24,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 24,
    "pad_token_id": 1,
}
VIT = {
    "model_type": "vit",
    "hidden_size": 24,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 24,
    "patch_size": 2,
    "image_size": 8,
    "num_channels": 1,
}


def invoke(*arguments, columns=120):
    return CliRunner().invoke(app, ["inspect", *map(str, arguments)], env={"COLUMNS": str(columns)})


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(GPT2))
    return path


SHAPE = "--depth", 2, "--samples", 200  # one for all tests: it is compiled once


def test_json_holds_what_the_trajectory_says(file):
    result = invoke(file.parent, *SHAPE, "--width", 48, "--tokens", "3 17 5 3", "--seed", 4, "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.output)
    net = from_config(GPT2, [3, 17, 5, 3], width=48, depth=2)
    t = net.trajectory(200, seed=4)
    assert (answer["width"], answer["blocks"], answer["tokens"], answer["ids"]) == (48, 2, 4, [3, 17, 5, 3])
    assert (answer["samples"], answer["seed"], answer["config"]) == (200, 4, GPT2)
    assert answer["seconds"] > 0
    assert [row["block"] for row in answer["table"]] == [0, 1, 2]
    for b, row in enumerate(answer["table"]):
        assert row["variance"] == {
            "value": pytest.approx(t.variance[b, -1]),
            "stderr": pytest.approx(t.error("variance")[b, -1]),
        }
        assert row["kurtosis"]["value"] == pytest.approx(t.kurtosis[b, -1])
        assert row["effective_rank"]["value"] == pytest.approx(t.effective_rank[b])
    assert answer["table"][0]["entropy"] is None
    assert answer["table"][2]["entropy"]["value"] == pytest.approx(t.entropy[1].mean())
    assert 0.9 < answer["table"][1]["uniformity"]["value"] < 1
    assert answer["observations"] == observations(t, net)


@pytest.mark.parametrize(("columns", "entropy"), [(80, False), (120, True)])
def test_a_person_sees_a_table_words_and_a_picture(file, tmp_path, columns, entropy, monkeypatch):
    monkeypatch.chdir(tmp_path)
    picture = tmp_path / "model.png"
    result = invoke(file.name, *SHAPE, "--tokens", 4, "--plot", picture.name, columns=columns)
    assert result.exit_code == 0, result.output
    assert result.stderr == f"Wrote {picture.name}.\n"
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= columns
    assert lines[0] == "config.json (gpt2) at initialisation: 2 blocks, width 24, 2 heads"
    assert lines[1] == "4 tokens (ids 1 2 1 4)"
    assert "200 exact draws of the whole network, seed 0, " in lines[2]
    (header,) = (line for line in lines if "block" in line and "cosine" in line)
    assert ("entropy" in header) == entropy
    assert "% of uniform" in header
    rows = [line.split() for line in lines if line[:5].strip() in ("input", "1", "2")]
    assert [row[0] for row in rows] == ["input", "1", "2"]
    cells = [
        re.findall(r"\S+ ?± ?\S+", line) for line in lines if line[:5].strip() in ("input", "1", "2") and "±" in line
    ]
    for column in zip(*cells, strict=False):  # the input has no entropy
        assert len({"e" in cell.split("±")[0] for cell in column}) == 1, column  # one format in a column
        assert all(("e" in value) == ("e" in error) for value, error in (cell.split("±") for cell in column)), column
    assert "What stands out" in lines
    assert "- Attention is uniform" in result.output
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_default_tokens(tmp_path):
    path = tmp_path / "bert.json"
    path.write_text(json.dumps(BERT))
    assert Subject.of(str(path), 5, 0).tokens == [2, 3, 4, 2, 6]  # not 0, nor the padding 1; one is met twice
    path.write_text(json.dumps(BERT | {"vocab_size": 3}))
    assert Subject.of(str(path), 3, 0).tokens == [2, 2, 2]
    gpt2 = Subject.of("gpt2", 8, 0)
    assert gpt2.tokens == [1, 2, 3, 4, 1, 6, 7, 8]
    assert gpt2.tokens_in_words == "8 tokens (ids 1 2 3 4 1 6 7 8)"
    assert Subject.of("gpt2", [3, 17, 5], 0).tokens == [3, 17, 5]


def test_a_vit_sees_patches_of_an_image(tmp_path):
    path = tmp_path / "vit.json"
    path.write_text(json.dumps(VIT))
    subject = Subject.of(str(path), 6, 3)
    assert subject.config["image_size"] == [4, 6]
    assert (subject.tokens == np.random.default_rng(3).standard_normal((1, 4, 6)).astype(np.float32)).all()
    assert from_config(subject.config, subject.tokens).tokens == 7
    words = "class token + 6 patches (2 x 3) of a standard normal image of 4 x 6 pixels instead of 8 x 8"
    assert subject.tokens_in_words == words
    assert "instead" not in Subject.of(str(path), 16, 0).tokens_in_words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gtp2"], "config='gtp2' is neither a known model nor a file. Did you mean 'gpt2'? Known models: "),
        (["nowhere.json"], "'bert', 'gpt2', 'llama', 'vit'. Models are not downloaded; give the path of a config.json"),
        (["."], "config='config.json' cannot be read: No such file"),
        (["bad.json"], "config='bad.json' is not valid JSON"),
        (["other.json"], "model_type='mistral' is not supported"),
        (["gpt2", "--tokens", "3 99999"], "tokens has the id 99999, which is out of range"),
        (["gpt2", "--tokens", "x"], "tokens='x' must be a number of tokens"),
        (["gpt2", "--tokens", "0"], "tokens='0' must be"),
        (["gpt2", "--tokens", "2000"], "n_positions=1024"),
        (
            ["vit", "--tokens", "4000"],
            "tokens=4000 needs 3.81 GiB of memory for matrices of tokens, more than the 1 GiB allowed. Use at most 2,048",
        ),
        (["vit", "--tokens", "3 4"], "tokens=[3, 4] are ids, but a vit reads an image"),
        (["gpt2", "--depth", "0"], "depth=0"),
        (
            ["gpt2", "--depth", "1000000"],
            "samples=64 of 1000000 blocks with 8 tokens need 46 GiB, more than max_memory=",
        ),
        (["gpt2", "--width", "100"], "n_embd=100 is not divisible by n_head=12"),
        (["gpt2", "--samples", "1"], "samples=1"),
        (["gpt2", "--check", "1"], "check=1 must be at least 2"),
        (["gpt2", "--plot", "x.gif"], "--plot x.gif"),
        (["gpt2", "--seed", "-1"], "seed=-1"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("bad.json").write_text("{")
    Path("other.json").write_text('{"model_type": "mistral"}')
    error = invoke(*arguments).exception
    assert isinstance(error, ValueError)
    assert words in str(error)
    assert "\n" not in str(error)


def test_a_refusal_is_one_line():
    done = subprocess.run(
        [sys.executable, "-c", "from limitlaw.cli import main; main()", "inspect", "lama"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "Did you mean 'llama'?" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not done.stdout


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_genuine_models_beside_the_law(file):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    arguments = file, "--depth", 2, "--tokens", "3 17 5 3", "--check", 100
    check = json.loads(invoke(*arguments, "--json").output)["check"]
    assert (check["models"], check["count"], len(check["table"])) == (100, 8, 3)
    assert check["p"] > 1e-3
    found = [row[name]["z"] for row in check["table"] for name in ("variance", "cosine", "entropy")]
    assert [z for z in found if z is not None and abs(z) > abs(check["largest"]["z"])] == []
    shown = invoke(*arguments, columns=80).output
    assert "Compared with 100 genuine models" in shown
    assert "The largest of 8 |z| is " in shown
    assert max(len(line) for line in shown.splitlines()[1:]) <= 80

"""`--load`: files of users become modules, once, and are refused in a sentence where they cannot."""

import pickle
import sys

import pytest
from typer.testing import CliRunner

from limitlaw._checks import ArgumentError
from limitlaw._load import load_module
from limitlaw.cli import app


@pytest.fixture
def own(tmp_path):
    """Writes a file; its module is forgotten afterwards."""
    names = []

    def write(name, text):
        file = tmp_path / name
        file.write_text(text)
        names.append(file.stem)
        return file

    yield write
    for name in names:
        if getattr(sys.modules.get(name), "__file__", "").startswith(str(tmp_path)):
            del sys.modules[name]


def test_a_file_is_loaded_once_under_its_stem(own):
    file = own("own_layers_a.py", "from dataclasses import dataclass\n\n@dataclass\nclass Point:\n    x: int\n")
    module = load_module(file)
    assert sys.modules["own_layers_a"] is module
    assert load_module(str(file)) is module
    assert pickle.loads(pickle.dumps(module.Point(3))) == module.Point(3)


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        (None, "", r"load='.*nowhere\.py' is not a file\. Give a Python file"),
        ("json.py", "", r"has the name of another module, 'json'\. Rename the file\."),
        ("own-layers.py", "", r"cannot be imported\. Rename it to a Python name"),
        ("own_layers.txt", "", r"cannot be imported\. Rename it"),
        ("own_layers_b.py", "import limitlaw\n1 / 0\n", r"failed with ZeroDivisionError: division by zero\. Correct"),
        ("own_layers_c.py", "def (:\n", r"failed with SyntaxError: "),
        ("own_layers_d.py", "import sys; sys.exit(3)", r"failed with SystemExit: 3"),
    ],
)
def test_refusals(own, tmp_path, name, text, match):
    file = tmp_path / "nowhere.py" if name is None else own(name, text)
    before = sys.modules.get(file.stem)
    with pytest.raises(ArgumentError, match=match) as refused:
        load_module(file)
    assert refused.value.argument == "load"
    assert "\n" not in str(refused.value)
    assert sys.modules.get(file.stem) is before


def test_another_file_with_the_same_stem_is_refused(own, tmp_path):
    load_module(own("own_layers_e.py", "x = 1"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "own_layers_e.py").write_text("x = 2")
    with pytest.raises(ArgumentError, match=r"another module, 'own_layers_e'"):
        load_module(tmp_path / "other" / "own_layers_e.py")


def test_a_file_that_python_finds_by_its_name_is_no_other_module(own, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    file = own("own_layers_i.py", "x = 1")
    assert load_module(file).x == 1
    assert load_module(file) is sys.modules["own_layers_i"]


@pytest.mark.parametrize(
    "command",
    [
        ["law", "nowhere.toml"],
        ["sweep", "nowhere.toml", "--out", "out"],
        ["status", "nowhere"],
        ["export", "nowhere", "--csv", "x.csv"],
    ],
)
def test_commands_load_files_before_they_read(own, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = [own(f"own_layers_{name}.py", "") for name in "fg"]
    done = CliRunner().invoke(app, [*command, *(word for file in files for word in ("--load", str(file)))])
    assert isinstance(done.exception, ValueError)
    assert {"own_layers_f", "own_layers_g"} <= set(sys.modules)


def test_the_explorer_loads_files_before_it_listens(own):
    file = own("own_layers_h.py", "raise RuntimeError('not yet')")
    done = CliRunner().invoke(app, ["explore", "--no-open", "--load", str(file)])
    assert isinstance(done.exception, ArgumentError)

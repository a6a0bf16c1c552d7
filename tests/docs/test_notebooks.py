"""The notebooks in `examples` are the tutorials, executed: the same code, and the outputs that the pages show."""

import base64
import doctest
import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("make_notebooks", ROOT / "docs" / "make_notebooks.py")
make_notebooks = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(make_notebooks)

_SAME, _LOOSELY = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def shown(cell):
    """What a cell printed, or what its last line is; not what was drawn on the way."""
    told = [output for output in cell["outputs"] if output["output_type"] != "display_data"]
    texts = [output.get("text") or output["data"]["text/plain"] for output in told]
    return "".join("".join(text) for text in texts).strip()


@pytest.mark.parametrize("name", list(make_notebooks.tutorials()))
def test_a_notebook_is_its_tutorial(name):
    page = make_notebooks.tutorials()[name]
    notebook = json.loads((ROOT / "examples" / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))
    found = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    assert found == list(make_notebooks.cells(page)), "run python docs/make_notebooks.py"
    wanted = [want for block in make_notebooks._BLOCK.findall(page) for _, want in make_notebooks.steps(block)]
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for cell, want in zip(code, wanted, strict=True):
        assert not want or _SAME.check_output(want + "\n", shown(cell) + "\n", _LOOSELY), (want, shown(cell))


@pytest.mark.parametrize("name", list(make_notebooks.tutorials()))
def test_a_notebook_shows_pictures_and_tables(name):
    path = ROOT / "examples" / "notebooks" / f"{name}.ipynb"
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    data = [output["data"] for cell in cells for output in cell["outputs"] if "data" in output]
    pictures = [base64.b64decode("".join(shown["image/png"])) for shown in data if "image/png" in shown]
    assert pictures
    assert all(picture.startswith(b"\x89PNG") for picture in pictures)
    assert any("<table" in "".join(shown.get("text/html", "")) for shown in data)
    assert path.stat().st_size < 300_000


@pytest.mark.parametrize("name", list(make_notebooks.tutorials()))
def test_every_line_that_draws_has_its_picture(name):
    path = ROOT / "examples" / "notebooks" / f"{name}.ipynb"
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        last = "".join(cell["source"]).splitlines()[-1]
        if cell["cell_type"] == "code" and (last.startswith("_ = ") or ".plot(" in last):
            assert any("image/png" in output.get("data", ()) for output in cell["outputs"]), last


def test_what_is_drawn_on_the_same_axes_is_one_cell():
    block = ">>> x = 1\n>>> _ = law.plot()\n>>> _ = other.plot()\n>>> x\n1\n>>> _ = law.plot()\n"
    assert list(make_notebooks.steps(block)) == [
        ("x = 1\n_ = law.plot()\n_ = other.plot()", ""),
        ("x", "1"),
        ("_ = law.plot()", ""),
    ]

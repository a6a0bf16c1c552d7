"""The notebooks in `examples` are the tutorials, executed: the same code, and the outputs that the pages show."""

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
    """What a cell printed, or what its last line is."""
    texts = [output.get("text") or output["data"]["text/plain"] for output in cell["outputs"]]
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

"""Tasks of the regression figures."""

import shutil
from pathlib import Path

import pytest

import limitlaw
from limitlaw.experiments import _task
from limitlaw.figures import _regression


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A copy of the code that results may depend on, which a test can change."""
    package = Path(limitlaw.__file__).parent
    for name in ("numerics", "slr"):
        shutil.copytree(package / name, tmp_path / name)
    shutil.copy(package / "_checks.py", tmp_path)
    monkeypatch.setattr(_task, "_PACKAGE", tmp_path)
    _task.code_version.cache_clear()
    yield tmp_path
    _task.code_version.cache_clear()


@pytest.mark.parametrize("file", ["numerics/_streams.py", "slr/_landscapes/_linear.py", "_checks.py"])
def test_results_are_computed_anew_when_their_code_changes(copied, file):
    def key():
        _task.code_version.cache_clear()
        return _regression.task("one", _regression.baselines, 1.0, problem={"dim": 9}, tokens=4).key

    before = key()
    assert key() == before
    with (copied / file).open("a") as source:
        source.write("# changed\n")
    assert key() != before

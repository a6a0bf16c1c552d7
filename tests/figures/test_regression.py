"""Results of the regression figures depend on all code below them."""

import shutil
from pathlib import Path

import pytest

import limitlaw
from limitlaw.experiments import Study, _task


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


@pytest.mark.parametrize("file", ["numerics/linalg.py", "slr/_landscapes/_linear.py", "_checks.py"])
def test_results_are_computed_anew_when_their_code_changes(copied, file):
    def key():
        _task.code_version.cache_clear()
        study = Study({"dim": 9, "tokens": 4}, axes={}, measure=["baselines"])
        return study.measurements[0].task.key

    before = key()
    assert key() == before
    with (copied / file).open("a") as source:
        source.write("# changed\n")
    assert key() != before

"""Which pages are tests, and when they run."""

import pytest

collect_ignore = ["conf.py", "make_gallery.py", "make_notebooks.py", "_build"]

_LONG = (
    "explanation/netsor.md",
    "tutorials/collapse.md",
    "tutorials/depth.md",
)  # pages that are for `make test-full` alone


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.parent.name == "docs" and f"{item.path.parent.name}/{item.path.name}" in _LONG:
            item.add_marker(pytest.mark.full)

"""All figures, found by listing the folder."""

import pkgutil
from importlib import import_module
from pathlib import Path

from ._figure import Figure

_ORDER = ("attention", "slr", "deep")


def _found() -> dict[str, Figure]:
    names = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])]
    every = [Figure(import_module(f".{name}", __package__)) for name in names if not name.startswith("_")]
    return {
        figure.name: figure for figure in sorted(every, key=lambda figure: (_ORDER.index(figure.group), figure.name))
    }


FIGURES: dict[str, Figure] = _found()
"""Every figure by its name on the command line, in the order of groups and names."""

GROUPS: dict[str, tuple[str, ...]] = {
    group: tuple(name for name, figure in FIGURES.items() if figure.group == group) for group in _ORDER
}
"""Names of the figures of each paper, attention and single-location regression, and of those that go beyond both."""

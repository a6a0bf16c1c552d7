"""All figures, found by listing the folder."""

import pkgutil
from importlib import import_module
from pathlib import Path

from .._checks import ArgumentError
from .._load import load_module
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


def load_figure(path: str | Path) -> Figure:
    """A figure of one's own: a Python file with what `Figure` describes, whose name is that of the file.

    Args:
        path: The file.

    Returns:
        The figure.

    Raises:
        ArgumentError: If the file cannot be loaded or lacks a part, or if a figure of the package has its name.

    Example:
        >>> from limitlaw.figures import load_figure
        >>> load_figure("fig0.py")
        Traceback (most recent call last):
        limitlaw._checks.ArgumentError: load='fig0.py' is not a file. Give a Python file.
    """
    figure = Figure(load_module(path))
    missing = [name for name in ("TITLE", "CLAIM", "STUDY", "plot", "numbers") if not hasattr(figure.module, name)]
    if missing:
        raise ArgumentError("load", f"load={str(path)!r} has no {missing[0]}, which a figure needs. Add it.")
    if figure.name in FIGURES:
        raise ArgumentError("load", f"load={str(path)!r} has the name of a figure of limitlaw. Rename the file.")
    return figure

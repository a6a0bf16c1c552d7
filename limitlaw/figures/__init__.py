"""The figures of the attention paper: one module each, in the order of the paper."""

from importlib import import_module

from ._figure import Figure as Figure, Table as Table
from ._settings import Settings as Settings
from ._style import save as save

_NAMES = ("fig1a", "fig1b", "fig2a", "fig2b", "fig3a", "fig3b", "fig4a", "fig4b", "fig5a", "fig5b", "heads_limit", "heads_gaussian")  # fmt: skip

FIGURES: dict[str, Figure] = {name: import_module(f".{name}", __name__).FIGURE for name in _NAMES}
"""Every figure by its name on the command line."""

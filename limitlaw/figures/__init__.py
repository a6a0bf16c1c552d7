"""The figures of the attention paper: one module each, in the order of the paper."""

from . import (
    fig1a,
    fig1b,
    fig2a,
    fig2b,
    fig3a,
    fig3b,
    fig4a,
    fig4b,
    fig5a,
    fig5b,
    heads_gaussian,
    heads_limit,
)
from ._figure import Figure as Figure, Table as Table
from ._settings import Settings as Settings
from ._style import save as save

_MODULES = (
    fig1a,
    fig1b,
    fig2a,
    fig2b,
    fig3a,
    fig3b,
    fig4a,
    fig4b,
    fig5a,
    fig5b,
    heads_limit,
    heads_gaussian,
)
FIGURES: dict[str, Figure] = {module.FIGURE.name: module.FIGURE for module in _MODULES}
"""Every figure by its name on the command line."""

"""The figures of both papers and of what lies beyond: one module each, in order."""

from importlib import import_module

from ._figure import Figure as Figure, Table as Table
from ._pictures import KINDS as KINDS, pictures as pictures
from ._settings import Settings as Settings
from ._style import save as save

GROUPS: dict[str, tuple[str, ...]] = {
    "attention": (
        "fig1a", "fig1b", "fig2a", "fig2b", "fig3a", "fig3b", "fig4a", "fig4b", "fig5a", "fig5b", "heads_limit", "heads_gaussian",
    ),
    "slr": ("slr_fig2", "slr_samples", "slr_landscape", "slr_basins", "slr_phase", "slr_baselines"),
    "deep": ("deep_kurtosis", "deep_collapse", "deep_entropy", "deep_heads"),
}  # fmt: skip
"""Names of the figures of each paper, attention and single-location regression, and of those that go beyond both."""

FIGURES: dict[str, Figure] = {
    name: import_module(f".{name}", __name__).FIGURE for names in GROUPS.values() for name in names
}
"""Every figure by its name on the command line."""

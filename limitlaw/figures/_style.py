"""One look for every figure: column width, readable in print, safe for colour-blind readers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from cycler import cycler

COLUMN = 3.4  # inches
# Okabe and Ito's palette, dark colours first.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
LIMIT = "#333333"


@contextmanager
def style() -> Iterator[None]:
    """Matplotlib settings for a figure, restored afterwards."""
    settings: dict[Any, Any] = {
        "font.size": 8,
        "axes.labelsize": 8,
        "axes.titlesize": 8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": cycler(color=COLOURS),
        "legend.frameon": False,
        "legend.fontsize": 7,
        "lines.linewidth": 1.2,
        "savefig.dpi": 300,
        "pdf.fonttype": 42,
    }
    with matplotlib.rc_context(settings):
        yield

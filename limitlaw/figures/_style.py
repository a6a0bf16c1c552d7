"""One look for every figure: as wide as a page of a paper, readable in print, safe for colour-blind readers."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..experiments import replacing

WIDTH = 6.8  # inches, two columns of a paper
# Okabe and Ito's palette, dark colours first.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
MARKERS = ["o", "s", "^", "D", "v", "P"]
LIMIT = "#222222"
FLOOR = "#999999"


@contextmanager
def style() -> Iterator[None]:
    """Matplotlib settings for a figure, restored afterwards."""
    import matplotlib
    from cycler import cycler

    settings: dict[Any, Any] = {
        "font.family": "STIXGeneral",
        "mathtext.fontset": "stix",
        "font.size": 9,
        "axes.labelsize": 9,
        "axes.titlesize": 9,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.6,
        "axes.prop_cycle": cycler(color=COLOURS),
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        "legend.frameon": False,
        "legend.fontsize": 8,
        "legend.handlelength": 1.8,
        "legend.labelspacing": 0.3,
        "legend.columnspacing": 1.4,
        "lines.linewidth": 1.2,
        "lines.markersize": 4,
        "hatch.linewidth": 0.4,
        "savefig.dpi": 300,
        "pdf.fonttype": 42,
    }
    with matplotlib.rc_context(settings):
        yield


def two_panels(height: float = 2.6) -> tuple[Any, Any, Any]:
    """A figure with two axes beside each other."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    left, right = figure.subplots(1, 2)
    return figure, left, right


def save(figure: Any, path: Path) -> None:
    """Write a figure to a file, in the format that its name says; equal figures make equal files.

    Example:
        >>> import tempfile, pathlib
        >>> from matplotlib.figure import Figure
        >>> from limitlaw.figures import save
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     first, second = (pathlib.Path(folder, name) for name in ("first.pdf", "second.pdf"))
        ...     save(Figure(), first)
        ...     save(Figure(), second)
        ...     print(first.read_bytes() == second.read_bytes())
        True
    """
    with replacing(path) as part:
        part.write_bytes(rendered(figure, path.suffix[1:]))


def rendered(figure: Any, kind: str) -> bytes:
    """A figure as a file of this kind; equal figures make equal files."""
    file = io.BytesIO()
    # a PNG packed harder is a tenth smaller, and takes half as long again
    options: dict[str, Any] = {
        "pdf": {"metadata": {"CreationDate": None}},
        "png": {"pil_kwargs": {"compress_level": 3}},
    }
    with style():
        figure.savefig(file, format=kind, **options.get(kind, {}))
    return file.getvalue()


def outside_legend(figure: Any, *panels: Any) -> None:
    """One legend below the panels, with each label once, in as few rows as fit."""
    found: dict[str, Any] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    # a rough width is enough: letters of mathtext commands are not drawn, and there is room to spare
    sizes = [0.5 + 0.06 * len(re.sub(r"\\\w+|[${}]", "", label)) for label in found]
    columns = next(
        c
        for rows in range(1, len(sizes) + 1)
        if sum(max(sizes[i : i + rows]) for i in range(0, len(sizes), rows)) < WIDTH
        for c in [-(-len(sizes) // rows)]
    )
    figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=columns)

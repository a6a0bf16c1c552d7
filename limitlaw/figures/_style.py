"""One look for every figure: column width, readable in print, safe for colour-blind readers."""

import functools
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..experiments import replacing

COLUMN = 3.4  # inches
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

    _know_own_font()
    settings: dict[Any, Any] = {
        "font.family": ["Limitlaw Sans", "DejaVu Sans"],
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


@functools.cache
def _know_own_font() -> None:
    """A part of DejaVu Sans, from which a PDF takes its characters ten times as fast."""
    from matplotlib import font_manager

    font_manager.fontManager.addfont(Path(__file__).with_name("fonts") / "LimitlawSans.ttf")


def two_panels(height: float = 2.5) -> tuple[Any, Any, Any]:
    """A figure as wide as two columns, with two axes."""
    figure, ((left, right),) = panels(1, 2, height)
    return figure, left, right


def panels(rows: int, columns: int, height: float, *, gap: float = 0.26, right: float = 0.975) -> tuple[Any, Any]:
    """A figure as wide as two columns, with rows and columns of axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2 * COLUMN, height))
    axes = figure.subplots(rows, columns, squeeze=False)
    # by hand: matplotlib's own layout draws everything twice, and all figures have labels of the same size
    figure.subplots_adjust(left=0.09, right=right, bottom=0.46 / height, top=1 - 0.22 / height, wspace=gap, hspace=0.3)
    return figure, axes


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


def power_of_ten(exponent: int) -> str:
    """10⁻⁵ for -5."""
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def powers_of_ten(value: float, _: int) -> str:
    """Tick labels of a logarithmic axis, as plain text: matplotlib's own go through a formula parser, at a second a figure."""
    return power_of_ten(round(np.log10(value)))

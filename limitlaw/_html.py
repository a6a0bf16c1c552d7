"""Small pieces of HTML, for notebooks and reports."""

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of text."""
    return "\n".join(["<table>", _row(header, "th"), *(_row(row, "td") for row in rows), "</table>"])


def _row(cells: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def paragraph(text: str) -> str:
    """A line of text."""
    return f"<p>{escape(text)}</p>"


def curve(x: np.ndarray, y: np.ndarray, title: str) -> str:
    """A line without axes, in the colour of the text around it."""
    across, up = 240 * (x - x[0]) / (x[-1] - x[0]), 60 * (1 - y / y.max())
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, up, strict=True))
    return (
        f"<svg width='240' height='64' viewBox='0 -2 240 64' role='img' aria-label='{escape(title, quote=True)}'>"
        f"<polyline points='{points}' fill='none' stroke='currentColor' stroke-width='1.5'/></svg>"
    )

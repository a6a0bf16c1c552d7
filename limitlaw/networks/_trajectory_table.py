"""A trajectory as a table, for a terminal or a notebook."""

from typing import Any

import numpy as np

from .. import _html
from ..numerics import Estimate

_MOST_ROWS = 26
_PRECISION = 1e-6  # of the Gram matrices behind it


def table(t: Any) -> str:
    """The summary of a trajectory as text; the middle of a deep network is left out."""
    header, body = _cells(t)
    widths = [max(len(row[c]) for row in [header, *body]) for c in range(len(header))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [header, *body]]
    return "\n".join([_title(t), *lines])


def html_table(t: Any) -> str:
    """The same in HTML."""
    return f"<p>{_title(t)}</p>{_html.table(*_cells(t))}"


def _title(t: Any) -> str:
    where = "infinite width" if np.isinf(t.width) else f"width {t.width}"
    return f"{t.samples} draws at {where}, {t.tokens} tokens (variance and kurtosis of the last)"


def _cells(t: Any) -> tuple[list[str], list[list[str]]]:
    summary = {name: pair for name, pair in t.summary().items() if t.entropies or name not in ("entropy", "uniformity")}
    header = ["block", *(name.replace("_", " ") for name in summary)]
    body = [
        [
            "input" if block == 0 else str(block),
            *(_shown(value[block], error[block]) for value, error in summary.values()),
        ]
        for block in range(t.blocks + 1)
    ]
    if len(body) > _MOST_ROWS:
        half = _MOST_ROWS // 2
        body = [*body[:half], ["..."] * len(header), *body[-half:]]
    return header, body


def _shown(value: float, error: float) -> str:
    if np.isnan(value):
        return ""
    if error < _PRECISION * abs(value):
        return repr(float(f"{value:.6g}"))
    return repr(Estimate(float(value), float(error)))

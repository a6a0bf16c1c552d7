"""The plain data that a panel shows: curves, maps, a table, or sentences."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .._format import Table

Panel = dict[str, Any]


def numbers(values: Any) -> list[Any]:
    """An array as lists, with `None` where it is not finite, as JSON requires.

    Example:
        >>> from limitlaw.explore._panels import numbers
        >>> numbers([1.0, float("nan")])
        [1.0, None]
    """
    array = np.asarray(values, np.float64)
    listed = array.astype(object)
    listed[~np.isfinite(array)] = None
    return listed.tolist()


def curve(
    name: str, x: Any, y: Any, *, role: str = "", error: Any = None, mode: str = "lines", on_map: int = 0
) -> Panel:
    """A curve.

    Args:
        name: What the legend calls it.
        x: The points.
        y: The values.
        role: What it is, which fixes its colour and its dashes in every panel.
        error: The standard errors.
        mode: "lines", "markers" or "lines+markers".
        on_map: The map of the panel on which it lies.
    """
    drawn = {"name": name, "x": numbers(x), "y": numbers(y), "role": role, "mode": mode, "on_map": on_map}
    return drawn if error is None else {**drawn, "error": numbers(error)}


def heat_map(name: str, x: Any, y: Any, z: Any) -> Panel:
    """Values over two axes, `z[y, x]`."""
    return {"name": name, "x": numbers(x), "y": numbers(y), "z": numbers(z)}


def figure(
    x: str,
    y: str,
    curves: Iterable[Panel] = (),
    maps: Iterable[Panel] = (),
    *,
    notes: Sequence[str] = (),
    logarithmic: str = "",
    **details: Any,
) -> Panel:
    """Curves or maps over labelled axes.

    Args:
        x: The label of the x axis.
        y: The label of the y axis.
        curves: The curves.
        maps: The maps, which stand side by side.
        notes: Sentences below.
        logarithmic: The axes that are logarithmic in any case, such as "xy".
        **details: `click`, the fields that a click sets from x and y; `marker`, the field that says where a line stands
            on the x axis, which can be dragged; `labels`, texts at points; `frames`, one list of curves for each value
            of a field, and the names of both; `elsewhere`, curves that belong into another part.
    """
    return {
        "x": x,
        "y": y,
        "curves": list(curves),
        "maps": list(maps),
        "notes": list(notes),
        "logarithmic": logarithmic,
        **details,
    }


def tables(*shown: Table, notes: Sequence[str] = ()) -> Panel:
    """Tables as rows of text."""
    return {
        "tables": [{"columns": list(t.header), "rows": [list(row) for row in t.cells()]} for t in shown],
        "notes": list(notes),
    }


def sentences(notes: Sequence[str]) -> Panel:
    """Nothing but sentences."""
    return {"notes": list(notes)}

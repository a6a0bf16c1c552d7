"""The plain shape of what a view shows: figures of curves and maps, and tables."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Panel = dict[str, Any]


def numbers(values: Any) -> list[Any]:
    """An array as lists, `None` where it is not finite, as JSON wants it.

    Example:
        >>> from limitlaw.explore._panels import numbers
        >>> numbers([1.0, float("nan")])
        [1.0, None]
    """
    array = np.asarray(values, np.float64).astype(object)
    array[~np.isfinite(array.astype(np.float64))] = None
    return array.tolist()


def curve(
    name: str, x: Any, y: Any, *, role: str = "", error: Any = None, mode: str = "lines", on_map: int = 0
) -> Panel:
    """A curve; `role` is what it is, which gives it the same colour in every figure; `error` is a standard error; `on_map` says
    to which of the maps of a figure it belongs."""
    drawn = {"name": name, "x": numbers(x), "y": numbers(y), "role": role or name, "mode": mode, "on_map": on_map}
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
    click: Sequence[str] = (),
    marker: str = "",
) -> Panel:
    """Curves or maps over labelled axes. `logarithmic` names axes; `click` the fields that a click sets from x and y; `marker` the field
    that says where a line stands on the x axis, which can be dragged from one value to the next."""
    return {
        "x": x,
        "y": y,
        "curves": list(curves),
        "maps": list(maps),
        "notes": list(notes),
        "logarithmic": logarithmic,
        "click": list(click),
        "marker": marker,
    }


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], notes: Sequence[str] = ()) -> Panel:
    """Rows of text under a heading."""
    return {"columns": list(columns), "rows": [list(row) for row in rows], "notes": list(notes)}

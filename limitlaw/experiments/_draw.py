"""Pictures of a study: lines along one axis, maps over two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

_MOST_LINES = 8
_BINS = 60


def label(data: xr.Dataset, name: str) -> str:
    """What a variable is called in a picture."""
    return str(data[name].attrs.get("long_name", name))


def labels_of(data: xr.Dataset | xr.DataArray, dim: str) -> tuple[str, np.ndarray]:
    """The coordinate that stands along a dimension, and its name: of zipped axes, the first one with distinct numbers."""
    if dim in data.coords:
        return dim, data[dim].values
    along = {str(name): c.values for name, c in data.coords.items() if c.dims == (dim,)}
    ordered = sorted(along, key=dim.find)  # as the name of the dimension has them
    distinct = [name for name in ordered if along[name].dtype.kind in "if" and len({*along[name]}) == len(along[name])]
    name = (distinct or ordered)[0]
    return name, along[name]


def figure(data: xr.Dataset, name: str, axes: tuple[str, ...]) -> Any:
    """One variable of a dataset, over the dimensions `axes` of its study.

    It is drawn against its own dimension, or the axis with most values; in a map if two axes have numbers.
    """
    from .._picture import Figure

    if data[name].dims[-1:] == ("draw",):
        return _histograms(data, name, axes)
    value, error = mean_over_trials(data, name)
    own = [str(dim) for dim in value.dims if dim not in axes]
    numeric = [a for a in axes if labels_of(data, a)[1].dtype.kind in "if" and data.sizes[a] > 1]
    figure = Figure(figsize=(4.2, 3.0), layout="constrained")
    panel = figure.add_subplot()
    if value.ndim == 0 or value.dtype.kind not in "if":
        panel.text(0.5, 0.5, str(value.values), ha="center", va="center", wrap=True)
        panel.set_title(label(data, name))
    elif len(own) >= 2:
        _map(figure, panel, value, own[-2:][::-1], label(data, name))
    elif not own and len(numeric) >= 2:
        _map(figure, panel, value, numeric[:2], label(data, name))
    else:
        along = own[0] if own else max(numeric or axes, key=lambda axis: data.sizes[axis])
        _lines(panel, value, error, along, label(data, name))
    return figure


def mean_over_trials(data: xr.Dataset, name: str) -> tuple[xr.DataArray, xr.DataArray]:
    """The mean over trials, and its standard error: of the trials among each other; as stated where there is one, or where they are one and the same."""
    value = data[name]
    if "trial" not in value.dims:
        return value, value * 0
    mean = value.mean("trial")
    stated = data[f"{name}_stderr"].mean("trial") if f"{name}_stderr" in data else mean * 0
    if value.sizes["trial"] == 1:
        return mean, stated
    spread = value.std("trial", ddof=1) / np.sqrt(value.notnull().sum("trial"))
    # a limit is computed once for all trials: what does not vary between them may still be wrong
    return mean, spread.where(value.max("trial") > value.min("trial"), stated)


def _histograms(data: xr.Dataset, name: str, axes: tuple[str, ...]) -> Any:
    """Samples of all trials together, point by point."""
    from .._picture import Figure

    figure = Figure(figsize=(4.2, 3.0), layout="constrained")
    panel = figure.add_subplot()
    outputs = data[name]
    reach = 4 * float(outputs.std())
    for place, look in _looks(outputs, list(axes)):
        drawn = outputs.isel(place).values
        counts, edges = np.histogram(drawn[np.isfinite(drawn)], _BINS, (-reach, reach), density=True)
        panel.stairs(counts, edges, **look)
    panel.set_xlabel(name)
    panel.set_ylabel(label(data, name))
    if axes:
        panel.legend(fontsize=6)
    return figure


def _lines(panel: Any, value: xr.DataArray, error: xr.DataArray, along: str, name: str) -> None:
    """A line for each combination of the other axes; infinity is where the numbers end."""
    others = [str(dim) for dim in value.dims if dim != along]
    axis, labels = labels_of(value, along)
    x, ticks = _positions(labels)
    for place, look in _looks(value, others):
        y, e = value.isel(place).values, error.isel(place).values
        if len(x) > 40:
            panel.plot(x, y, **look)
            panel.fill_between(x, y - 2 * e, y + 2 * e, color=look["color"], alpha=0.2, lw=0)
        else:
            panel.errorbar(x, y, 2 * e, **look, marker=".", capsize=2)
    positive = value.values[np.isfinite(value.values) & (value.values != 0)]
    if positive.size and positive.min() > 0 and positive.max() > 30 * positive.min() and name != "density":
        panel.set_yscale("log")
    _label_axis(panel.xaxis, panel.set_xscale, labels, ticks)
    panel.set_xlabel(axis)
    panel.set_ylabel(name)
    if others:
        panel.legend(fontsize=6)


def _looks(value: xr.DataArray, dims: list[str]) -> Iterator[tuple[dict[str, int], dict[str, Any]]]:
    """Combinations along some dimensions, not too many, each with a colour and a label."""
    import matplotlib

    places = list(np.ndindex(*(value.sizes[dim] for dim in dims)))
    shown = places[:: max(-(-len(places) // _MOST_LINES), 1)]
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.85, max(len(shown), 1)))
    for colour, index in zip(colours, shown, strict=True):
        place = dict(zip(dims, index, strict=True))
        text = ", ".join(_named(value, dim, i) for dim, i in place.items())
        yield place, {"color": colour, "label": text}


def _map(figure: Any, panel: Any, value: xr.DataArray, axes: list[str], name: str) -> None:
    """Colours over two axes; of further ones, the first value, which the title names."""
    from matplotlib.colors import LogNorm

    rest = {str(dim): 0 for dim in value.dims if dim not in axes}
    grid = value.isel(rest).transpose(axes[1], axes[0])
    numbers = grid.values[np.isfinite(grid.values) & (grid.values != 0)]
    logarithmic = numbers.size and numbers.min() > 0 and numbers.max() > 30 * numbers.min()
    shown = np.where(grid.values > 0, grid.values, np.nan) if logarithmic else grid.values
    mesh = panel.pcolormesh(shown, cmap="viridis", norm=LogNorm() if logarithmic else None)
    figure.colorbar(mesh, ax=panel, label=name)
    for axis, set_ticks, set_label in (
        (axes[0], panel.set_xticks, panel.set_xlabel),
        (axes[1], panel.set_yticks, panel.set_ylabel),
    ):
        found, values = labels_of(value, axis)
        labels = [_short(v) for v in values]
        step = max(-(-len(labels) // 8), 1)
        set_ticks(np.arange(len(labels))[::step] + 0.5, labels[::step])
        set_label(found)
    if rest:
        panel.set_title(", ".join(_named(value, dim, 0) for dim in rest), fontsize=7)


def _named(value: xr.DataArray, dim: str, i: int) -> str:
    """A place along a dimension in words, with every axis that is zipped there."""
    along = [str(name) for name, c in value.coords.items() if c.dims == (dim,)]
    return ", ".join(f"{name} = {value[name].values[i]}" for name in along)


def _positions(values: np.ndarray) -> tuple[np.ndarray, bool]:
    """Where values stand on an axis, and whether they have to be named there: words, and numbers with infinity among them."""
    if not np.issubdtype(values.dtype, np.number) or np.isinf(values).any():
        return np.arange(len(values)), True
    return values, False


def _label_axis(axis: Any, set_scale: Any, values: np.ndarray, named: bool) -> None:
    if named:
        axis.set_ticks(np.arange(len(values)), [_short(value) for value in values])
    elif values.min() > 0 and values.max() > 30 * values.min():
        set_scale("log")


def _short(value: Any) -> str:
    return f"{value:.4g}".replace("inf", "∞") if isinstance(value, int | float | np.number) else str(value)

"""Pictures of a study: lines along one axis, maps over two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..distances import DISTANCES

if TYPE_CHECKING:
    import xarray as xr

_MOST_LINES = 8
_LABELS = {
    "variance": "variance",
    "kurtosis": "excess kurtosis",
    **{name: distance.long_label for name, distance in DISTANCES.items()},
    "kde_kl": "kernel estimate of the KL",
    "kde_floor": "floor of the kernel estimate",
    "outputs": "density of the output, sampled",
    "risk": "excess risk",
    "mean_field_risk": "mean-field risk",
    "refined_risk": "refined risk",
    "block_variance": "variance of the last token",
    "block_kurtosis": "excess kurtosis",
    "block_cosine": "cosine between tokens",
    "block_effective_rank": "effective rank",
    "block_entropy": "attention entropy (nats)",
    "block_uniformity": "entropy / that of uniform attention",
    "quantiles": "quantile",
    "density": "density",
}
_TO = {
    "limit": "to the limit",
    "fixed_head_dim": "to the limit with d kept",
    "infinite_head_dim": "to the limit n = d = ∞",
    "infinite_heads": "to the Gaussian of H = ∞",
}
_BINS = 60


def label(name: str) -> str:
    """What a measure is called in a picture."""
    measure, _, target = name.partition("_to_")
    compared = measure in (*DISTANCES, "kde_kl")
    return _LABELS[measure] + (f" {_TO[target or 'limit']}" if target or compared else "")


def figure(data: xr.Dataset, name: str, axes: tuple[str, ...]) -> Any:
    """One measure of a dataset: against what it is measured at or the axis with most values, in a map if there are two axes of numbers."""
    from .._picture import Figure

    if name == "outputs":
        return _histograms(data, axes)
    value, error = mean_over_trials(data, name)
    own = [str(dim) for dim in value.dims if dim not in axes]
    numeric = [axis for axis in axes if np.issubdtype(data[axis].dtype, np.number) and data.sizes[axis] > 1]
    figure = Figure(figsize=(4.2, 3.0), layout="constrained")
    panel = figure.add_subplot()
    if not own and len(numeric) >= 2:
        _map(figure, panel, value, numeric[:2], name)
    else:
        along = own[0] if own else max(numeric or axes, key=lambda axis: data.sizes[axis])
        _lines(panel, value, error, along, name)
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


def _histograms(data: xr.Dataset, axes: tuple[str, ...]) -> Any:
    """The outputs of all trials together, point by point."""
    from .._picture import Figure

    figure = Figure(figsize=(4.2, 3.0), layout="constrained")
    panel = figure.add_subplot()
    outputs = data["outputs"]
    reach = 4 * float(outputs.std())
    for place, look in _looks(outputs, list(axes)):
        counts, edges = np.histogram(outputs.isel(place).values, _BINS, (-reach, reach), density=True)
        panel.stairs(counts, edges, **look)
    panel.set_xlabel("output")
    panel.set_ylabel(label("outputs"))
    panel.legend(fontsize=6)
    return figure


def _lines(panel: Any, value: xr.DataArray, error: xr.DataArray, along: str, name: str) -> None:
    """A line for each combination of the other axes; infinity is where the numbers end."""
    others = [str(dim) for dim in value.dims if dim != along]
    x, ticks = _positions(value[along].values)
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
    _label_axis(panel.xaxis, panel.set_xscale, value[along].values, ticks)
    panel.set_xlabel(along)
    panel.set_ylabel(label(name))
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
        text = ", ".join(f"{dim} = {value[dim].values[i]}" for dim, i in place.items())
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
    figure.colorbar(mesh, ax=panel, label=label(name))
    for axis, set_ticks, set_label in (
        (axes[0], panel.set_xticks, panel.set_xlabel),
        (axes[1], panel.set_yticks, panel.set_ylabel),
    ):
        labels = [_short(v) for v in value[axis].values]
        step = max(-(-len(labels) // 8), 1)
        set_ticks(np.arange(len(labels))[::step] + 0.5, labels[::step])
        set_label(axis)
    if rest:
        panel.set_title(", ".join(f"{dim} = {value[dim].values[0]}" for dim in rest), fontsize=7)


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

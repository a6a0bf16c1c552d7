"""Heads of a fixed dimension in a network of infinite width, beside heads of infinite dimension."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from .._format import Column, Table
from ..experiments import Study
from ..numerics import Estimate
from . import _depth as deep
from ._settings import Settings
from ._style import COLOURS, LIMIT, MARKERS, outside_legend

TITLE = "Depth: heads of a fixed dimension"
CLAIM = "Low-rank heads are compared with the limit in which the head dimension grows too (figure 3 of the attention paper)."
GROUP = "deep"
LAYOUT = [["variance", "kurtosis"]]
HEIGHT = 3.2
_HEAD_DIMS = (2, 4, 16, 64, 256, "inf")
_LAYERS = 4
_SETTINGS = {"correlated": (2.0, deep.CORRELATION), "orthogonal": (1.0, 0.0)}
_LABELS = {"correlated": "K = 0.3^|i−j|, β = 2", "orthogonal": "K = I, β = 1"}
_MATH = {"correlated": r"$K_{ij} = 0.3^{|i-j|}$, $\beta = 2$", "orthogonal": r"$K = I$, $\beta = 1$"}
_SMALL, _USUAL = 4, 64  # head dimensions in the text


def STUDY(settings: Settings) -> dict[str, Study]:
    """Moments of the last token for each head dimension: of one layer exactly, of a stack from draws."""
    beta, correlation = _SETTINGS["correlated"]
    dims = {"head_dim": _HEAD_DIMS}
    stack = deep.stack(settings, "attention", dims, beta=beta, correlation=correlation)
    return {"stack": stack} | {name: deep.layer(given[1], given[0], dims) for name, given in _SETTINGS.items()}


def gather(found: Mapping[str, xr.Dataset], settings: Settings) -> xr.Dataset:
    """Moments by head dimension."""
    data = xr.Dataset(
        coords={
            "tokens": list(_SETTINGS),
            "head_dim": found["stack"]["head_dim"].values.astype(float),
            "layers": np.arange(1, _LAYERS + 1),
            "statistic": ["value", "stderr"],
        },
        attrs={"samples": min(settings.draws, deep.DRAWS), "heads": deep.HEADS},
    )
    for name in ("variance", "kurtosis"):
        layers = [[found[tokens][name + part].isel(trial=0).values for part in ("", "_stderr")] for tokens in _SETTINGS]
        data[f"layer_{name}"] = ("tokens", "head_dim", "statistic"), np.moveaxis(np.array(layers), 1, -1)
        stack = deep.along_depth(found["stack"], name)[:, 1 : _LAYERS + 1]
        data[f"stack_{name}"] = ("head_dim", "layers", "statistic"), stack
    return data


def plot(data: xr.Dataset, axes: dict[str, Any]) -> None:
    """Variance and kurtosis of the last token against the head dimension."""
    dims = data["head_dim"].values[:-1]
    fine = np.geomspace(dims[0], dims[-1], 100)
    for name, panel in axes.items():
        for i, tokens in enumerate(_SETTINGS):
            exact = data[f"layer_{name}"].sel(tokens=tokens, statistic="value")
            panel.plot(
                fine, _between(exact, fine), color=COLOURS[i], linewidth=1, label=f"one layer, {_MATH[tokens]}, exact"
            )
            panel.axhline(float(exact[-1]), color=COLOURS[i], linestyle="--", linewidth=0.8)
        for i, layers in ((0, 1), (2, _LAYERS)):
            value, error = data[f"stack_{name}"].sel(layers=layers).values.T
            many = "one layer" if layers == 1 else f"{layers} layers"
            look: dict[str, Any] = {"color": COLOURS[i], "markersize": 3, "elinewidth": 0.8, "capsize": 1.5}
            label = f"{many}, {_MATH['correlated']}, drawn (± 2 s.e.)"
            panel.errorbar(dims, value[:-1], 2 * error[:-1], fmt=MARKERS[i], label=label, **look)
            if layers > 1:
                panel.axhline(value[-1], color=COLOURS[i], linestyle="--", linewidth=0.8)
        panel.set_xscale("log", base=2)
        panel.set_xticks(dims, [f"{dim:.0f}" for dim in dims])
        panel.xaxis.minorticks_off()
        panel.set_xlabel("head dimension $d$")
        panel.set_ylabel(f"{'excess ' if name == 'kurtosis' else ''}{name} of a read-out")
        panel.set_title("variance" if name == "variance" else "excess kurtosis")
    right = axes["kurtosis"]
    right.plot(fine, _equal_tokens(data, fine), color=COLOURS[2], linewidth=0.8, label=f"{_LAYERS} layers, predicted")
    right.plot([], [], "--", color=LIMIT, linewidth=0.8, label=r"$d = \infty$")
    right.set_yscale("log")
    outside_legend(right.figure, right)


def numbers(data: xr.Dataset) -> dict[str, Any]:
    """Moments at a small head dimension, at the usual one and at infinity."""
    variance, kurtosis = (
        data[f"layer_{name}"].sel(tokens="correlated", statistic="value") for name in ("variance", "kurtosis")
    )
    orthogonal = data["layer_variance"].sel(tokens="orthogonal", statistic="value")
    stack = data["stack_kurtosis"].sel(layers=_LAYERS)
    drawn = data["stack_kurtosis"].sel(layers=1).values.T
    gap = np.abs(stack.values[:-1, 0] - _equal_tokens(data, data["head_dim"].values[:-1])) / stack.values[:-1, 1]
    return {
        "heads": data.attrs["heads"],
        "tokens": deep.TOKENS,
        "samples": data.attrs["samples"],
        "layers": _LAYERS,
        "small": _SMALL,
        "usual": _USUAL,
        "kurtosis": _at(kurtosis),
        "lower": [1 - float(variance.sel(head_dim=dim) / variance[-1]) for dim in (_SMALL, _USUAL)],
        "orthogonal": _at(orthogonal),
        "stack": _at(stack.sel(statistic="value")),
        "worst": float(np.max(np.abs(drawn[0] - kurtosis.values) / drawn[1])),
        "worst_stack": float(gap.max()),
        "table": _table(data),
    }


def _at(values: xr.DataArray) -> list[float]:
    """At the small head dimension, at the usual one, and at infinity."""
    return [float(values.sel(head_dim=dim)) for dim in (_SMALL, _USUAL, np.inf)]


def _table(data: xr.Dataset) -> Table:
    rows = []
    for i, dim in enumerate(data["head_dim"].values):
        at = data.isel(head_dim=i)
        exact = [at[f"layer_{name}"].sel(tokens=tokens) for tokens in _SETTINGS for name in ("variance", "kurtosis")]
        drawn = [at[f"stack_{name}"].sel(layers=layers) for layers in (1, _LAYERS) for name in ("variance", "kurtosis")]
        found = [Estimate(*pair.values) for pair in (*exact, *drawn)]
        rows.append((dim if np.isinf(dim) else int(dim), *found, float(_equal_tokens(data, dim))))
    labels = [f"one layer, {_LABELS[tokens]}" for tokens in _SETTINGS] + [
        "one layer, drawn",
        f"{_LAYERS} layers, drawn",
    ]
    names = [f"{name}, {label}" for label in labels for name in ("variance", "kurtosis")]
    return Table(("d", *names, Column(f"kurtosis, {_LAYERS} layers, predicted", 4)), rows)


def _between(exact: xr.DataArray, dims: np.ndarray) -> np.ndarray:
    """Between head dimensions: what is exact is smooth in 1/d, and a polynomial through its values is right to 0.03%."""
    from scipy.interpolate import BarycentricInterpolator  # slow to import

    return BarycentricInterpolator(1 / exact["head_dim"].values, exact.values)(1 / dims)


def _equal_tokens(data: xr.Dataset, dims: Any) -> Any:
    """The kurtosis of the stack, if each layer multiplied the variance of equal tokens by an average of `H d` squared normals."""
    limit = float(data["stack_kurtosis"].sel(layers=_LAYERS, statistic="value")[-1])
    return 3 * ((1 + 2 / (data.attrs["heads"] * dims)) ** _LAYERS * (1 + limit / 3) - 1)

"""Softmax attention beside other predictors as the number of tokens grows."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from .._format import Column, Table
from ..experiments import Study
from ..slr import BASELINES
from ._settings import Settings
from ._style import COLOURS, FLOOR, LIMIT, MARKERS, outside_legend

TITLE = "Regression: softmax beside other predictors"
CLAIM = "Softmax attention realises the regression where pointwise gates such as erf do not."
GROUP = "slr"
LAYOUT = [["risk", "ratio"]]
HEIGHT = 3.2
_PROBLEM: dict[str, float] = {"dim": 20, "gamma": 0.8, "beta": 1.0}
_LARGEST = 160_000
_NAMES = {name: label.replace("beta", "β") for name, label in BASELINES.items() if name != "zero"}
_NAMES["softmax"] = f"softmax, β = {_PROBLEM['beta']:g}"


def STUDY(settings: Settings) -> Study:
    """Excess risks with the true directions against the number of tokens."""
    sizes = np.geomspace(2, _LARGEST, max(settings.points // 2 + 1, 3)).round()
    return Study(_PROBLEM, axes={"tokens": [int(size) for size in sizes]}, measure=["baselines"], name="baselines")


def gather(found: xr.Dataset, settings: Settings) -> xr.Dataset:
    """Risks by the number of tokens and the predictor."""
    return found.rename(baselines="risk").sel(predictor=list(_NAMES)).assign_attrs(_PROBLEM)


def plot(data: xr.Dataset, axes: dict[str, Any]) -> None:
    """Excess risks on the left; on the right divided by that of Bayes on the projections."""
    left, right = axes["risk"], axes["ratio"]
    bayes = data["risk"].sel(predictor="bayes_projections")
    for i, (name, label) in enumerate(_NAMES.items()):
        look: dict[str, Any] = {
            "color": LIMIT if name.startswith("bayes") else COLOURS[i],
            "marker": MARKERS[i % 6],
            "markersize": 3,
            "linewidth": 1,
            "linestyle": "--" if name == "bayes_full" else "-",
        }
        risk = data["risk"].sel(predictor=name)
        left.plot(data["tokens"], risk, label=label.replace("β", r"$\beta$"), **look)
        right.plot(data["tokens"], risk / bayes, **look)
    zero = data.attrs["gamma"] ** 2 + 0 * bayes
    left.plot(data["tokens"], zero, color=FLOOR, linewidth=1, label="predicting 0")
    left.set_ylabel("excess risk")
    left.set_title("excess risk")
    right.set_ylabel("ratio of excess risks")
    right.set_title("relative to Bayes on the projections")
    right.set_yscale("log")
    for panel in (left, right):
        panel.set_xscale("log")
        panel.set_xlabel("tokens $L$")
    outside_legend(left.figure, left)


def numbers(data: xr.Dataset) -> dict[str, Any]:
    """Excess risks, in the text at the second number of tokens."""
    rows = [
        (int(tokens), *map(float, risk))
        for tokens, risk in zip(data["tokens"].values, data["risk"].values, strict=True)
    ]
    shown = data["risk"].isel(tokens=1)
    return {
        "tokens": int(shown["tokens"]),
        "risk": {name: float(shown.sel(predictor=name)) for name in _NAMES},
        "last": {name: float(data["risk"].isel(tokens=-1).sel(predictor=name)) for name in _NAMES},
        "largest": int(data["tokens"][-1]),
        "table": Table(("tokens L", *(Column(name, 4, one_quantity=False) for name in _NAMES.values())), rows),
    }

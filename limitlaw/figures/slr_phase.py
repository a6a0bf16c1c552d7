"""The phase diagram, over three pairs of parameters, with the exact risk at a finite dimension underneath."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from .._format import Column, Table
from ..experiments import Phases, Study
from ..slr import PhaseDiagram, Problem
from ._settings import Settings

TITLE = "Regression: phases"
CLAIM = "With L = e^(αd) tokens softmax attention retrieves the signal if and only if c μ > ψ(α, β); at the best β, if α < (1 − γ²)/2 (Proposition 2)."
GROUP = "slr"
HEIGHT = 2.7
_PROBLEM = {"dim": 40, "log_tokens": 2.0, "gamma": 0.6, "beta": 1.0}
_RANGES = {"alpha": (0.02, 0.7), "gamma": (0.1, 0.95), "beta": (0.05, 2.0), "mu": (-0.2, 1.0)}
_PAIRS = (("alpha", "gamma"), ("alpha", "beta"), ("mu", "beta"))
LAYOUT = [["".join(pair) for pair in _PAIRS]]
_FIXED = (r"$\beta = 1$, $\mu = 1$", r"$\gamma = 0.6$, $\mu = 1$", r"$\gamma = 0.6$, $\alpha = 0.05$")
_MATH = {"alpha": r"$\alpha = \log L / d$", "gamma": r"$\gamma$", "beta": r"$\beta$", "mu": r"overlap $\mu$"}
_SYMBOLS = {"alpha": "α", "gamma": "γ", "beta": "β", "mu": "μ"}


def STUDY(settings: Settings) -> dict[str, Study]:
    """The exact risk of the oracle over three pairs of parameters."""
    values = {name: np.linspace(*ends, settings.points).tolist() for name, ends in _RANGES.items()}
    return {
        f"{x} and {y}": Study(
            _PROBLEM,
            axes={},
            measure=[Phases(x=x, y=y, x_values=values[x], y_values=values[y])],
            name=f"phases over {x} and {y}",
        )
        for x, y in _PAIRS
    }


def gather(found: Mapping[str, xr.Dataset], settings: Settings) -> xr.Dataset:
    """The three diagrams."""
    return xr.Dataset(
        {
            name: (("diagram", "row", "column"), np.stack([data[f"phases_{name}"].values for data in found.values()]))
            for name in ("level", "critical", "risk")
        }
        | {
            "x": (("diagram", "column"), [data["phase_x"].values for data in found.values()]),
            "y": (("diagram", "row"), [data["phase_y"].values for data in found.values()]),
        },
        coords={"diagram": list(found)},
        attrs=_PROBLEM,
    )


def plot(data: xr.Dataset, axes: dict[str, Any]) -> None:
    """Retrieval, paramagnetic and frozen phases, over the risk."""
    diagrams = _diagrams(data)
    worst = max(float(diagram.risk.max()) for diagram in diagrams)
    for panel, diagram, fixed in zip(axes.values(), diagrams, _FIXED, strict=True):
        diagram.plot(panel, colorbar=False, vmin=0.0, vmax=worst)
        panel.set_title(fixed)
        panel.set_xlabel(_MATH[diagram.x_name])
        panel.set_ylabel(_MATH[diagram.y_name])
    panels = list(axes.values())
    label = f"oracle's exact risk, $d = {data.attrs['dim']}$"
    panels[0].figure.colorbar(panels[0].collections[0], ax=panels, label=label)


def _diagrams(data: xr.Dataset) -> list[PhaseDiagram]:
    return [
        PhaseDiagram(Problem(**_PROBLEM), x, y, *(data[name].values[i] for name in ("x", "y", "risk")))
        for i, (x, y) in enumerate(_PAIRS)
    ]


def numbers(data: xr.Dataset) -> dict[str, Any]:
    """The oracle's risk in each phase of each diagram."""
    diagrams, rows = _diagrams(data), []
    for diagram in diagrams:
        for name in dict.fromkeys(diagram.phase.ravel().tolist()):
            risk = diagram.risk[diagram.phase == name]
            over = ", ".join(_SYMBOLS[axis] for axis in (diagram.x_name, diagram.y_name))
            rows.append((over, name, int(risk.size), float(np.median(risk)), float(risk.min()), float(risk.max())))
    first = diagrams[1]
    inside, outside = (float(np.median(first.risk[(first.level > 0) == found])) for found in (True, False))
    risks = (Column(name, 3, one_quantity=False) for name in ("median exact risk", "smallest", "largest"))
    return {
        "dim": data.attrs["dim"],
        "inside": inside,
        "outside": outside,
        "noise": _PROBLEM["gamma"] ** 2,
        "table": Table(("diagram over", "phase", "points", *risks), rows),
    }

"""What the figures of single-location regression share."""

from typing import Any

import numpy as np
import xarray as xr

from .. import slr
from ..slr import Problem

FIGURE_2: dict[str, Any] = {"dim": 100, "tokens": 20, "gamma": 2**-0.5, "beta": 1.0, "noise": 0.1}
"""The setting of the paper's figure 2; the link is added to it."""
STEP_SIZE = 0.01
EVERY = 20
LEARNED = 0.05
"""An excess risk below which a descent has found the signal; the plateaus are at 1 and above."""


def uniform_starts(count: int, seed: int) -> list[list[float]]:
    """Overlaps of uniform starts."""
    return slr.start(Problem(**FIGURE_2), "uniform", count, seed=seed).tolist()


def theories(found: xr.Dataset, names: dict[str, str], variable: str) -> np.ndarray:
    """A variable of several measures, stacked: `names` has theories and the measures of them."""
    return np.stack([found[f"{measure}_{variable}"].values for measure in names.values()])

"""What only the figures measure: settings in, arrays out."""

from typing import Any

import numpy as np

from ..experiments import Result, named
from ..networks import from_plain


def scores(*, network: dict[str, Any], width: int, samples: int, draws: int, seed: int) -> Result:
    """The score of token 1 with itself in one head, and its exact law on a grid."""
    net = from_plain(network)
    drawn = net.sample(samples, width=width, observe="scores", token=0, seed=seed, progress=False)[:, 0, 0]
    law = net.score_law(0, 0, width=width, seed=seed, samples=draws, progress=False)
    grid = np.linspace(-5, 5, 401) * float(law.standard_deviation())
    moments = named("variance", law.variance()) | named("kurtosis", law.kurtosis())
    return {"score": drawn, "grid": grid, "density": law.pdf(grid), **moments}

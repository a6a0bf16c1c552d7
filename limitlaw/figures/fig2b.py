"""Figure 2b: one head and many, against their limits and the Gaussian of infinitely many."""

from ._densities import DensityFigure
from ._experiments import heads

FIGURE = DensityFigure(
    name="fig2b",
    title="Figure 2b: one head and 256 heads at n = 256",
    claim="At a usual width the limit describes one head and many alike; the Gaussian of infinitely many heads only many.",
    design=heads,
    chosen=(0, 4),
    gaussian=True,
)

"""Figure 3a: densities with heads of dimension 64."""

from ._densities import DensityFigure
from ._experiments import low_rank

FIGURE = DensityFigure(
    name="fig3a",
    title="Figure 3a: low-rank heads, d = 64, n = 64 H",
    claim="With heads of fixed dimension 64 the output approaches the limit as the number of heads grows.",
    design=low_rank,
)

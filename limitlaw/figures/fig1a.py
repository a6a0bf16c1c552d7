"""Figure 1a: densities of the output at growing width."""

from ._densities import DensityFigure
from ._experiments import clipped

FIGURE = DensityFigure(
    name="fig1a",
    title="Figure 1a: the output at growing width, two heads",
    claim="As the width grows, the law of an output coordinate approaches the limit, a mixture of Gaussians over random scores.",
    design=clipped,
)

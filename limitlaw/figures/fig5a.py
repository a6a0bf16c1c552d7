"""Figure 5a: densities with ReLU tokens."""

from ._densities import DensityFigure
from ._experiments import relu

FIGURE = DensityFigure(
    name="fig5a",
    title="Figure 5a: ReLU tokens",
    claim="The limit holds for tokens made by ReLU, an activation that is not bounded.",
    design=relu,
)

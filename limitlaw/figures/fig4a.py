"""Figure 4a: densities for a longer sequence."""

from ._densities import DensityFigure
from ._experiments import long

FIGURE = DensityFigure(
    name="fig4a",
    title="Figure 4a: a longer sequence",
    claim="The limit holds for longer sequences too.",
    design=long,
)

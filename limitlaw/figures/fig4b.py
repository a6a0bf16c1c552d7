"""Figure 4b: divergences for a longer sequence."""

from ._divergences import DivergenceFigure
from ._experiments import long

FIGURE = DivergenceFigure(
    name="fig4b",
    title="Figure 4b: divergence from the limit, a longer sequence",
    claim="For longer sequences the divergence falls as the width grows, from a larger value.",
    design=long,
    axis="width",
    axis_label="width n",
    symbol="n",
)

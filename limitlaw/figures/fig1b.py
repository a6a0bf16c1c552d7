"""Figure 1b: the divergence from the limit at growing width."""

from ._divergences import DivergenceFigure
from ._experiments import clipped

FIGURE = DivergenceFigure(
    name="fig1b",
    title="Figure 1b: divergence from the limit at growing width, two heads",
    claim="The Kullback-Leibler divergence from the limit falls as the width grows.",
    design=clipped,
    axis="width",
    axis_label="width n",
    symbol="n",
)

"""The divergence from the limit against the number of heads, at one width."""

from ._divergences import DivergenceFigure
from ._experiments import heads

FIGURE = DivergenceFigure(
    name="heads_limit",
    title="Further plot: divergence from the limit against the number of heads, n = 256",
    claim="The limit for H heads describes a network of width 256 for every H.",
    design=heads,
    axis="heads",
    axis_label="number of heads H",
    symbol="H",
    power_law=False,
)

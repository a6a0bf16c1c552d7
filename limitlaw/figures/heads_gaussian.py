"""The divergence from the Gaussian of infinitely many heads against the number of heads, at one width."""

from ._divergences import DivergenceFigure
from ._experiments import heads

FIGURE = DivergenceFigure(
    name="heads_gaussian",
    title="Further plot: divergence from the Gaussian of infinitely many heads, n = 256",
    claim="The Gaussian of infinitely many heads is approached as the number of heads grows.",
    design=heads,
    axis="heads",
    axis_label="number of heads H",
    symbol="H",
    target="gaussian",
    power_law=False,
)

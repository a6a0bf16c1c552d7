"""Figure 3b: divergences with heads of dimension 64."""

from ._divergences import DivergenceFigure
from ._experiments import low_rank

FIGURE = DivergenceFigure(
    name="fig3b",
    title="Figure 3b: divergence from the limit, low-rank heads, d = 64, n = 64 H",
    claim="With heads of fixed dimension 64 the divergence from the limit falls as the number of heads grows.",
    design=low_rank,
    axis="heads",
    axis_label="number of heads H (width n = 64 H)",
    symbol="H",
)

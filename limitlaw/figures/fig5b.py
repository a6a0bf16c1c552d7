"""Figure 5b: divergences with ReLU tokens."""

from ._divergences import DivergenceFigure
from ._experiments import relu

FIGURE = DivergenceFigure(
    name="fig5b",
    title="Figure 5b: divergence from the limit, ReLU tokens",
    claim="With ReLU tokens the divergence falls as the width grows.",
    design=relu,
    axis="width",
    axis_label="width n",
    symbol="n",
)

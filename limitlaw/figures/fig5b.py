"""Figure 5b: divergences with ReLU tokens."""

from ._divergences import HEIGHT as HEIGHT, LAYOUT as LAYOUT, Divergences, numbers as numbers, plot as plot
from ._experiments import relu

TITLE = "Figure 5b: divergence from the limit, ReLU tokens"
CLAIM = "With ReLU tokens the divergence falls as the width grows."
GROUP = "attention"
DATA = Divergences(relu)

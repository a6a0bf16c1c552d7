"""Figure 4b: divergences for a longer sequence."""

from ._divergences import HEIGHT as HEIGHT, LAYOUT as LAYOUT, Divergences, numbers as numbers, plot as plot
from ._experiments import long

TITLE = "Figure 4b: divergence from the limit, a longer sequence"
CLAIM = "For longer sequences the divergence falls as the width grows, from a larger value."
GROUP = "attention"
DATA = Divergences(long)

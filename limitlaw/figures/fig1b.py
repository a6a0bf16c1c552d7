"""Figure 1b: the divergence from the limit at growing width."""

from ._divergences import HEIGHT as HEIGHT, LAYOUT as LAYOUT, Divergences, numbers as numbers, plot as plot
from ._experiments import clipped

TITLE = "Figure 1b: divergence from the limit at growing width, two heads"
CLAIM = "The Kullback-Leibler divergence from the limit falls as the width grows."
GROUP = "attention"
DATA = Divergences(clipped)

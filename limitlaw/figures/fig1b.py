"""Figure 1b: the divergence from the limit at growing width."""

from ._attention import clipped
from ._divergences import HEIGHT as HEIGHT, LAYOUT as LAYOUT, Divergences, numbers as numbers, plot as plot

TITLE = "Figure 1b: divergence from the limit at growing width, two heads"
CLAIM = "The Kullback-Leibler divergence from the limit falls as the width grows."
GROUP = "attention"
_DATA = Divergences(clipped)
STUDY, gather = _DATA.studies, _DATA.gather

"""Figure 1a: densities of the output at growing width."""

from ._attention import clipped
from ._densities import HEIGHT as HEIGHT, LAYOUT as LAYOUT, Densities, numbers as numbers, plot as plot

TITLE = "Figure 1a: the output at growing width, two heads"
CLAIM = "As the width grows, the law of an output coordinate approaches the limit, a mixture of Gaussians over random scores."
GROUP = "attention"
_DATA = Densities(clipped)
STUDY, gather = _DATA.studies, _DATA.gather

"""Figure 3a: densities with heads of dimension 64."""

from ._attention import low_rank
from ._densities import HEIGHT as HEIGHT, LAYOUT as LAYOUT, Densities, numbers as numbers, plot as plot

TITLE = "Figure 3a: low-rank heads, d = 64, n = 64 H"
CLAIM = "With heads of fixed dimension 64 the output approaches the limit as the number of heads grows."
GROUP = "attention"
_DATA = Densities(low_rank)
STUDY, gather = _DATA.studies, _DATA.gather

"""Figure 3b: divergences with heads of dimension 64."""

from ._attention import low_rank
from ._divergences import HEIGHT as HEIGHT, LAYOUT as LAYOUT, Divergences, numbers as numbers, plot as plot

TITLE = "Figure 3b: divergence from the limit, low-rank heads, d = 64, n = 64 H"
CLAIM = "With heads of fixed dimension 64 the divergence from the limit falls as the number of heads grows."
GROUP = "attention"
_DATA = Divergences(low_rank)
STUDY, gather = _DATA.studies, _DATA.gather

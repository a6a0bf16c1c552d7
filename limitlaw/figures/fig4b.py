"""Figure 4b: divergences for a longer sequence."""

from ._attention import long
from ._divergences import HEIGHT as HEIGHT, LAYOUT as LAYOUT, Divergences, numbers as numbers, plot as plot

TITLE = "Figure 4b: divergence from the limit, a longer sequence"
CLAIM = "For longer sequences the divergence falls as the width grows, from a larger value."
GROUP = "attention"
_DATA = Divergences(long)
STUDY, gather = _DATA.studies, _DATA.gather

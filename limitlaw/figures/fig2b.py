"""Figure 2b: one head and many, with their limits and the Gaussian of infinitely many."""

from ._attention import heads
from ._densities import HEIGHT as HEIGHT, LAYOUT as LAYOUT, Densities, numbers as numbers, plot as plot

TITLE = "Figure 2b: one head and 256 heads at n = 256"
CLAIM = "At a usual width the limit describes one head and many heads alike; the Gaussian of infinitely many heads describes only many."
GROUP = "attention"
_DATA = Densities(heads, chosen=(0, 4))
STUDY, gather = _DATA.studies, _DATA.gather

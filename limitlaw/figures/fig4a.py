"""Figure 4a: densities for a longer sequence."""

from ._attention import long
from ._densities import HEIGHT as HEIGHT, LAYOUT as LAYOUT, Densities, numbers as numbers, plot as plot

TITLE = "Figure 4a: a longer sequence"
CLAIM = "The limit holds for longer sequences too."
GROUP = "attention"
_DATA = Densities(long)
STUDY, gather = _DATA.studies, _DATA.gather

"""The divergence from the limit against the number of heads, at one width."""

from ._attention import heads
from ._divergences import HEIGHT as HEIGHT, LAYOUT as LAYOUT, Divergences, numbers as numbers, plot as plot

TITLE = "Further plot: divergence from the limit against the number of heads, n = 256"
CLAIM = "The limit for H heads describes a network of width 256 for every H."
GROUP = "attention"
_DATA = Divergences(heads, power_law=False)
STUDY, gather = _DATA.studies, _DATA.gather

"""The divergence from the Gaussian of infinitely many heads against the number of heads, at one width."""

from ._attention import heads
from ._divergences import HEIGHT as HEIGHT, LAYOUT as LAYOUT, Divergences, numbers as numbers, plot as plot

TITLE = "Further plot: divergence from the Gaussian of infinitely many heads, n = 256"
CLAIM = "The Gaussian of infinitely many heads is approached as the number of heads grows."
GROUP = "attention"
_DATA = Divergences(heads, target="gaussian", power_law=False)
STUDY, gather = _DATA.studies, _DATA.gather

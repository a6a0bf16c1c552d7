"""Figure 4a: densities for a longer sequence."""

from ._densities import HEIGHT as HEIGHT, LAYOUT as LAYOUT, Densities, numbers as numbers, plot as plot
from ._experiments import long

TITLE = "Figure 4a: a longer sequence"
CLAIM = "The limit holds for longer sequences too."
GROUP = "attention"
DATA = Densities(long)

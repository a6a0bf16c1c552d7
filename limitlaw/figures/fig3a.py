"""Figure 3a: densities with heads of dimension 64."""

from ._densities import HEIGHT as HEIGHT, LAYOUT as LAYOUT, Densities, numbers as numbers, plot as plot
from ._experiments import low_rank

TITLE = "Figure 3a: low-rank heads, d = 64, n = 64 H"
CLAIM = "With heads of fixed dimension 64 the output approaches the limit as the number of heads grows."
GROUP = "attention"
DATA = Densities(low_rank)

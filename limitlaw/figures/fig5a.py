"""Figure 5a: densities with ReLU tokens."""

from ._densities import HEIGHT as HEIGHT, LAYOUT as LAYOUT, Densities, numbers as numbers, plot as plot
from ._experiments import relu

TITLE = "Figure 5a: ReLU tokens"
CLAIM = "The limit holds for tokens made by ReLU, an activation that is not bounded."
GROUP = "attention"
DATA = Densities(relu)

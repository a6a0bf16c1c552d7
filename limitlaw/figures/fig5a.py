"""Figure 5a: densities with ReLU tokens."""

from ._attention import relu
from ._densities import HEIGHT as HEIGHT, LAYOUT as LAYOUT, Densities, numbers as numbers, plot as plot

TITLE = "Figure 5a: ReLU tokens"
CLAIM = "The limit holds for tokens made by ReLU, an activation that is not bounded."
GROUP = "attention"
_DATA = Densities(relu)
STUDY, gather = _DATA.studies, _DATA.gather

"""Figure 5b: divergences with ReLU tokens."""

from ._attention import relu
from ._divergences import HEIGHT as HEIGHT, LAYOUT as LAYOUT, Divergences, numbers as numbers, plot as plot

TITLE = "Figure 5b: divergence from the limit, ReLU tokens"
CLAIM = "With ReLU tokens the divergence falls as the width grows."
GROUP = "attention"
_DATA = Divergences(relu)
STUDY, gather = _DATA.studies, _DATA.gather

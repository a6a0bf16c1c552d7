"""The divergence from the Gaussian of infinitely many heads against the number of heads, at one width."""

from ._divergences import HEIGHT as HEIGHT, LAYOUT as LAYOUT, Divergences, numbers as numbers, plot as plot
from ._experiments import heads

TITLE = "Further plot: divergence from the Gaussian of infinitely many heads, n = 256"
CLAIM = "The Gaussian of infinitely many heads is approached as the number of heads grows."
GROUP = "attention"
DATA = Divergences(heads, target="gaussian", power_law=False)

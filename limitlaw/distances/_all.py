"""The list of distances, which comparisons, studies, plots, documentation and tests read."""

from ._distance import Distance
from ._energy import ENERGY
from ._kl import KL
from ._ks import KS
from ._tv import TV
from ._wasserstein import W1, W2

DISTANCES: dict[str, Distance] = {distance.name: distance for distance in (KL, TV, KS, W1, W2, ENERGY)}
"""Every distance by its name. A new one is a file like `_tv.py` and an entry here."""

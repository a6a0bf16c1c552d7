from ._all import DISTANCES as DISTANCES
from ._comparison import (
    Comparison as Comparison,
    compare as compare,
    compare_with_limit as compare_with_limit,
)
from ._convergence import Convergence as Convergence, Fit as Fit, convergence as convergence
from ._distance import Distance as Distance, Measured as Measured, ResolutionWarning as ResolutionWarning
from ._energy import energy as energy
from ._kde_kl import kde_kl as kde_kl
from ._kl import kl as kl
from ._ks import ks as ks
from ._tv import tv as tv
from ._wasserstein import wasserstein as wasserstein

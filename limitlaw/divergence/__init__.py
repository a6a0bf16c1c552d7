from ._comparison import Comparison as Comparison, compare as compare
from ._convergence import Convergence as Convergence, Fit as Fit, convergence as convergence
from ._distances import energy as energy, kl as kl, ks as ks, tv as tv, wasserstein as wasserstein
from ._kde_kl import kde_kl as kde_kl
from ._pair import ResolutionWarning as ResolutionWarning

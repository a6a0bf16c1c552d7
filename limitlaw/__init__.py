from . import laws as laws, netsor as netsor, slr as slr
from .divergence import (
    Comparison as Comparison,
    Convergence as Convergence,
    ResolutionWarning as ResolutionWarning,
    compare as compare,
    convergence as convergence,
    energy as energy,
    kde_kl as kde_kl,
    kl as kl,
    ks as ks,
    tv as tv,
    wasserstein as wasserstein,
)
from .networks import (
    Attention as Attention,
    GaussianInputs as GaussianInputs,
    GramInputs as GramInputs,
    Inputs as Inputs,
    Network as Network,
)
from .numerics import Activation as Activation, Estimate as Estimate, activation as activation, clip as clip

__version__ = "0.1.0"

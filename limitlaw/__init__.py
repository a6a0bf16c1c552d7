"""Exact probability laws of attention networks at initialisation, at any width, infinity included."""

__version__ = "0.2.0"

from . import (
    distances as distances,
    laws as laws,
    models as models,
    netsor as netsor,
    networks as networks,
    numerics as numerics,
    slr as slr,
    testing as testing,
)
from ._cite import cite as cite
from .distances import (
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
from .laws import as_law as as_law
from .models import from_config as from_config, from_torch as from_torch
from .networks import (
    MLP as MLP,
    Attention as Attention,
    Block as Block,
    Dense as Dense,
    Embedding as Embedding,
    GaussianInputs as GaussianInputs,
    GramInputs as GramInputs,
    Inputs as Inputs,
    Layer as Layer,
    LayerNorm as LayerNorm,
    Linear as Linear,
    Matrix as Matrix,
    Network as Network,
    OnSequence as OnSequence,
    Readout as Readout,
    Repeat as Repeat,
    Residual as Residual,
    RMSNorm as RMSNorm,
)
from .numerics import Activation as Activation, Estimate as Estimate, activation as activation, clip as clip


def __getattr__(name: str) -> object:
    from ._checks import suggestion

    known = [known for known in globals() if not known.startswith("_")]
    raise AttributeError(f"limitlaw has no attribute {name!r}. {suggestion(name, known)}")

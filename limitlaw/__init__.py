"""Exact probability laws of attention networks at initialisation, at any width, infinity included."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import laws as laws, netsor as netsor, slr as slr
    from ._cite import cite as cite
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
    from .models import from_config as from_config, from_torch as from_torch
    from .networks import (
        MLP as MLP,
        Attention as Attention,
        Embedding as Embedding,
        GaussianInputs as GaussianInputs,
        GramInputs as GramInputs,
        Inputs as Inputs,
        LayerNorm as LayerNorm,
        Network as Network,
        Only as Only,
        Readout as Readout,
        Repeat as Repeat,
        Residual as Residual,
        RMSNorm as RMSNorm,
    )
    from .numerics import Activation as Activation, Estimate as Estimate, activation as activation, clip as clip

__version__ = "0.1.0"

# A name is imported when it is first used: the command line answers before JAX is there, and starts processes that import it beside.
_PACKAGES = ("laws", "netsor", "slr")
_HOMES = {
    "_cite": ("cite",),
    "divergence": (
        "Comparison", "Convergence", "ResolutionWarning", "compare", "convergence", "energy", "kde_kl", "kl", "ks", "tv",
        "wasserstein",
    ),
    "models": ("from_config", "from_torch"),
    "networks": (
        "MLP", "Attention", "Embedding", "GaussianInputs", "GramInputs", "Inputs", "LayerNorm", "Network", "Only", "Readout",
        "Repeat", "Residual", "RMSNorm",
    ),
    "numerics": ("Activation", "Estimate", "activation", "clip"),
}  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f".{name}", __name__)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PACKAGES, *_HOME})

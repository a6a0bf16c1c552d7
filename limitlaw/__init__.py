from . import laws as laws, netsor as netsor
from .networks import (
    Attention as Attention,
    GaussianInputs as GaussianInputs,
    GramInputs as GramInputs,
    Inputs as Inputs,
    Network as Network,
)
from .numerics import Activation as Activation, Estimate as Estimate, activation as activation, clip as clip

__version__ = "0.1.0"

from . import laws as laws
from . import netsor as netsor
from .networks import (
    Attention as Attention,
)
from .networks import (
    GaussianInputs as GaussianInputs,
)
from .networks import (
    GramInputs as GramInputs,
)
from .networks import (
    Inputs as Inputs,
)
from .networks import (
    Network as Network,
)
from .numerics import Activation as Activation
from .numerics import Estimate as Estimate
from .numerics import activation as activation
from .numerics import clip as clip

__version__ = "0.1.0"

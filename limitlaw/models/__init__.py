from ._config import from_config as from_config
from ._inspection import genuine as genuine, observations as observations
from ._torch import from_torch as from_torch

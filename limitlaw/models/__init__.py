from ._config import from_config as from_config
from ._genuine import (
    Agreement as Agreement,
    compare_trajectories as compare_trajectories,
    genuine as genuine,
    require_genuine as require_genuine,
)
from ._inspection import Check as Check, Inspection as Inspection, inspect as inspect
from ._numbers import needs_exponent as needs_exponent, value_and_error as value_and_error
from ._observations import observations as observations
from ._subject import Subject as Subject, affordable_draws as affordable_draws
from ._torch import from_torch as from_torch
from .families import PRESETS as PRESETS

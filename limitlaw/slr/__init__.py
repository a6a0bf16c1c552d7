"""Single-location regression: softmax attention has to find the one token that carries the label."""

from ._baselines import BASELINES as BASELINES, Baselines as Baselines, baselines as baselines, gated_risk as gated_risk
from ._basins import BasinMap as BasinMap, basins as basins
from ._descent import Descent as Descent, descent as descent, flow as flow, vector_field as vector_field
from ._landscapes import free_energy as free_energy
from ._links import LINKS as LINKS, Link as Link
from ._phases import (
    THRESHOLDS as THRESHOLDS,
    PhaseDiagram as PhaseDiagram,
    participation as participation,
    phase as phase,
    phase_diagram as phase_diagram,
    phase_margins as phase_margins,
    thresholds as thresholds,
)
from ._problem import Problem as Problem
from ._simulation import sample as sample, simulate as simulate
from ._start import start as start
from ._stationary import StationaryPoint as StationaryPoint, stationary_points as stationary_points
from ._tables import release_tables as release_tables

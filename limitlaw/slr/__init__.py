from ._comparison import Baselines as Baselines
from ._dynamics import StationaryPoint as StationaryPoint, Trajectory as Trajectory
from ._links import LINKS as LINKS, Link as Link
from ._maps import SYMBOLS as SYMBOLS, BasinMap as BasinMap, PhaseDiagram as PhaseDiagram
from ._mean_field import free_energy as free_energy
from ._problem import Problem as Problem
from ._tables import release_tables as release_tables

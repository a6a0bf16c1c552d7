from ._cluster import Cluster as Cluster
from ._costs import Costs as Costs
from ._dask import ClusterError as ClusterError
from ._dataset import dataset_from as dataset_from, dataset_of as dataset_of
from ._engine import (
    TaskError as TaskError,
    complete as complete,
)
from ._family import program_of as program_of, to_target as to_target, toward as toward
from ._page import (
    Part as Part,
    Picture as Picture,
    Section as Section,
    Summary as Summary,
    page as page,
)
from ._plain import read as read
from ._progress import Progress as Progress, duration as duration
from ._provenance import Provenance as Provenance
from ._run import Files as Files, Job as Job, Run as Run, mark_of as mark_of
from ._store import Store as Store, StoreError as StoreError, remove_parts as remove_parts, replacing as replacing
from ._study import Study as Study
from ._study_page import write_study_page as write_study_page
from ._sweep import Sweep as Sweep
from ._task import (
    NUMERICAL as NUMERICAL,
    REGRESSION as REGRESSION,
    Result as Result,
    Task as Task,
    code_version as code_version,
    with_needs as with_needs,
)
from .measures import (
    GROUPS as GROUPS,
    MEASURES as MEASURES,
    Baselines as Baselines,
    Basins as Basins,
    Density as Density,
    Descent as Descent,
    DistanceTo as DistanceTo,
    Landscape as Landscape,
    Measure as Measure,
    Phases as Phases,
    Quantiles as Quantiles,
    ReadoutKurtosis as ReadoutKurtosis,
    ScoreLaw as ScoreLaw,
    Scores as Scores,
    Simulation as Simulation,
    StationaryPoints as StationaryPoints,
    Trial as Trial,
    Variable as Variable,
    named as named,
)

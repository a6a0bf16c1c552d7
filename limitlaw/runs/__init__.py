from ._cluster import Cluster as Cluster
from ._dask import ClusterError as ClusterError
from ._engine import (
    TaskError as TaskError,
    collect_rarely as collect_rarely,
    complete as complete,
    prepare_processes as prepare_processes,
)
from ._progress import Progress as Progress
from ._store import Store as Store, StoreError as StoreError, remove_parts as remove_parts, replacing as replacing
from ._task import (
    NUMERICAL as NUMERICAL,
    REGRESSION as REGRESSION,
    Result as Result,
    Task as Task,
    code_version as code_version,
    with_needs as with_needs,
)

"""A study in a folder: its tasks computed and kept, its results as one labelled dataset."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _checks
from .._checks import ArgumentError
from .._format import format_bytes
from ._dataset import dataset_of, empty_dataset, encoding_of, fill, write_csv
from ._engine import TaskError, complete
from ._plan import Measurement
from ._progress import Progress
from ._store import Store, StoreError, remove_parts, replacing
from ._study import Study
from ._task import Result, Task, with_needs

if TYPE_CHECKING:
    import xarray as xr

_STUDY, _RUN, _FAILED, _RESULTS = "study.json", "run.json", "failed.json", "results.zarr"
_EVERY = 5.0  # seconds between looks at what is to be written
_FILE = 4096  # bytes that a small file takes on a disk
_RECORD = 1024  # of what a result depends on


@dataclass(frozen=True)
class Estimates:
    """What a sweep will take: seconds on one core, bytes of memory for each worker and on disk."""

    tasks: int
    left: int
    seconds: float
    memory: int
    disk: int


@dataclass(frozen=True)
class Status:
    """How far a sweep is. `seconds_left` is None unless it runs and has computed something."""

    done: int
    total: int
    failed: dict[str, str]
    running: bool
    seconds_left: float | None


@dataclass(frozen=True)
class Sweep:
    """A study and the folder that its results are kept in: `store/` has them one by one, `results.zarr` all of them with labels.

    A result is computed once and kept under all that it depends on, so a study with another trial or axis value computes what is new. A folder
    belongs to one study, by name.

    Example:
        >>> import tempfile, limitlaw as ll
        >>> from limitlaw.experiments import Study, Sweep
        >>> net = ll.Network(ll.Inputs(tokens=4), ll.Attention(heads=2))
        >>> study = Study(net, axes={"width": [16, "inf"]}, measure=["variance"], samples=2**14)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sweep = Sweep(study, folder + "/sweep")
        ...     sweep.run()
        ...     data = sweep.dataset()
        >>> dict(data.sizes), bool(abs(data.variance.sel(width=16)[0] - 0.4384) < 0.01)
        ({'width': 2, 'trial': 1}, True)
    """

    study: Study
    folder: str | Path

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.folder)

    @classmethod
    def open(cls, folder: str | Path) -> Sweep:
        """The sweep in a folder; refused if there is none."""
        file = Path(folder) / _STUDY
        try:
            return cls(Study.from_plain(json.loads(file.read_text(encoding="utf-8"))["study"]), folder)
        except OSError:
            raise StoreError(
                f"{folder} does not hold a sweep: {_STUDY} is missing. Give the folder of limitlaw sweep --out."
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{file} is damaged ({error}). Run the sweep again to write it anew.") from None

    @cached_property
    def store(self) -> Store:
        """The results one by one."""
        return Store(self.path / "store")

    @cached_property
    def tasks(self) -> list[Task]:
        """All that has to be computed, needs first."""
        return with_needs(measurement.task for measurement in self.study.measurements)

    def estimates(self) -> Estimates:
        """What it will take, before anything is done."""
        begun = (self.path / _STUDY).exists()
        kept = [task for task in self.tasks if self.store.path(task.key).exists()] if begun else []
        left = len(self.tasks) - len(kept)
        seconds = sum(task.cost for task in self.tasks) - sum(task.cost for task in kept)
        largest = max((point.member.memory for point in self.study.points), default=0)
        most_samples = max(self.study.axes.get("samples", (self.study.samples,)))
        numbers = empty_dataset(self.study).nbytes
        disk = left * (2 * _FILE + _RECORD) + 2 * numbers
        return Estimates(len(self.tasks), left, seconds, largest + 80 * most_samples, disk)

    def check_room(self) -> Estimates:
        """Refuse, before any work, what this machine has no memory or disk for."""
        found = self.estimates()
        if hasattr(os, "sysconf"):
            memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
            if found.memory > memory:
                raise ArgumentError(
                    "samples",
                    f"samples={self.study.samples}: one task takes about {format_bytes(found.memory)}, more than the "
                    f"{format_bytes(memory)} of this machine. Use fewer samples, or fewer tokens.",
                )
        there = next(folder for folder in (self.path.absolute(), *self.path.absolute().parents) if folder.exists())
        free = shutil.disk_usage(there).free
        if found.disk > free:
            raise StoreError(
                f"{self.path} needs about {format_bytes(found.disk)} for the results, but {format_bytes(free)} are free. "
                f"Make room, or choose another folder with --out."
            )
        return found

    def run(
        self,
        *,
        workers: int = 1,
        client: Any = None,
        progress: Callable[[dict[str, list[Task]]], Progress] | None = None,
        waiting: Callable[[], None] = lambda: None,
    ) -> None:
        """Compute what is missing, in this process, on `workers` of its own, or by a `dask.distributed` client.

        What was computed is kept whatever happens. A task that fails is tried again, then reported at the end with its settings, and stops none of the others.
        """
        self.check_room()
        self._claim()
        with self.store.locked(waiting), self._recorded():
            remove_parts(self.path, self.store.folder)
            results = _Results(self)
            shown = None if progress is None else progress({self.study.name: self.tasks})
            there = {task.key for task in self.tasks if self.store.path(task.key).exists()}
            try:
                with _shown(shown):
                    for task in complete(self.tasks, self.store, workers=workers, client=client):
                        if shown is not None:
                            shown.done(task, computed=task.key not in there)
                        results.add(task)
            except TaskError as error:
                self._write(_FAILED, {task.name: str(reason) for task, reason in error.failures})
                raise
            finally:
                results.write()
            self._write(_FAILED, {})

    def dataset(self) -> xr.Dataset:
        """The results so far, labelled by axes, trial and what they are measured at; NaN where one is missing."""
        return dataset_of(self.study, self.store)

    def plot(self, measure: str | None = None) -> Any:
        """A matplotlib figure of a variable (the first unless given): lines along an axis, or a map over two."""
        from ._draw import figure

        shown = self.study.shown
        name = _checks.one_of("measure", shown[0] if measure is None else measure, shown)
        return figure(self.dataset(), name, self.study.dims)

    def _repr_html_(self) -> str:
        status = self.status()
        return f"<p>{status.done} of {status.total} tasks done</p>{self.study._repr_html_()}"

    def status(self) -> Status:
        """How far it is."""
        if not (self.path / _STUDY).exists():  # looking leaves no trace
            return Status(0, len(self.tasks), {}, False, None)
        done = sum(self.store.path(task.key).exists() for task in self.tasks)
        run, failed = self._read(_RUN), self._read(_FAILED)
        running = self.store.is_locked()
        computed = done - run.get("done", done)
        left = len(self.tasks) - done
        pace = (time.time() - run["started"]) / computed if running and computed > 0 else None
        return Status(done, len(self.tasks), failed, running, None if pace is None else left * pace)

    def write_csv(self, path: Path) -> int:
        """Write one row for each number, one kind of measurement after the other.

        Returns:
            The number of rows.
        """
        return write_csv(self.study, self.dataset(), path)

    def _claim(self) -> None:
        """Make the folder this study's; refused if it is another's."""
        if (self.path / _STUDY).exists():
            found = Sweep.open(self.path).study.name
            if found != self.study.name:
                raise StoreError(
                    f"{self.path} belongs to the study {found!r}, not to {self.study.name!r}. Choose another folder with --out."
                )
        elif self.path.exists() and any(self.path.iterdir()):
            raise StoreError(f"{self.path} is not empty and does not hold a sweep. Choose another folder with --out.")
        self.path.mkdir(parents=True, exist_ok=True)
        self._write(_STUDY, {"study": self.study.as_plain()})

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """Say, while it runs, when it began and with what."""
        done = sum(self.store.path(task.key).exists() for task in self.tasks)
        self._write(_RUN, {"started": time.time(), "done": done, "pid": os.getpid()})
        yield

    def _write(self, name: str, table: dict[str, Any]) -> None:
        with replacing(self.path / name) as part:
            part.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")

    def _read(self, name: str) -> dict[str, Any]:
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}


class _Results:
    """`results.zarr`, written whole from the store at the start, and then by region: slabs of the first dimension in which something is new."""

    def __init__(self, sweep: Sweep) -> None:
        self._sweep, self._path = sweep, sweep.path / _RESULTS
        self._of: dict[str, list[Measurement]] = {}
        for measurement in sweep.study.measurements:
            self._of.setdefault(measurement.task.key, []).append(measurement)
        self._data = sweep.dataset()
        self._first = next(iter(sweep.study.dims), None)
        self._known = {key for key in self._of if sweep.store.path(key).exists()}
        self._new: set[int] = set()
        self._last = time.monotonic()
        self._write_all()

    def _write_all(self) -> None:
        encoding = encoding_of(self._data, None if self._first is None else (1,))
        with replacing(self._path) as part:
            self._data.to_zarr(part, mode="w", zarr_format=2, encoding=encoding, consolidated=True)

    def add(self, task: Task) -> None:
        """A task is there."""
        if task.key in self._known:
            return
        result: Result | None = None
        for measurement in self._of.get(task.key, []):
            result = self._sweep.store.load(task) if result is None else result
            fill(self._data, measurement, result)
            self._new.add(measurement.index[0] if self._first is not None else 0)
        if time.monotonic() - self._last > _EVERY:
            self.write()

    def write(self) -> None:
        """Write what is new."""
        self._last = time.monotonic()
        if self._new and self._first is None:
            self._write_all()
        elif self._first is not None:
            for i in sorted(self._new):
                region = {self._first: slice(i, i + 1)}
                slab = self._data.isel(region)
                slab.drop_vars(list(slab.coords)).to_zarr(self._path, mode="r+", region=region, zarr_format=2)
        self._new.clear()


@contextmanager
def _shown(progress: Progress | None) -> Iterator[None]:
    if progress is None:
        yield
    else:
        with progress.showing():
            yield

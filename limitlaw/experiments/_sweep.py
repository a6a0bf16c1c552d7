"""A study in a folder: its tasks computed and kept, its results as one labelled dataset."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _checks
from .._checks import ArgumentError
from .._format import format_bytes
from ._costs import Costs
from ._dataset import dataset_of, empty_dataset, encoding_of, write_csv
from ._run import Job, Run, mark_of, refuse_old, status_of
from ._store import Store, StoreError, replacing
from ._study import Study
from ._task import Task

if TYPE_CHECKING:
    import xarray as xr

_RESULTS = "results.zarr"
_FILE = 4096  # bytes that a small file takes on a disk
_RECORD = 1024  # bytes of what is kept beside a result
_BYTES_A_SAMPLE = 80  # of a law from samples: variances, atoms and their errors


@dataclass(frozen=True)
class Estimates:
    """What a sweep will take.

    Attributes:
        tasks: The number of tasks.
        left: Those that have not been computed.
        seconds: Seconds on the workers, compilation included; None if nothing like it has been measured here.
        memory: Bytes for each worker.
        disk: Bytes on disk.
    """

    tasks: int
    left: int
    seconds: float | None
    memory: int
    disk: int


@dataclass(frozen=True)
class Status:
    """How far a sweep is.

    Attributes:
        done: The number of tasks that have been computed.
        total: The number of tasks.
        failed: Why tasks failed in the last run, by their names.
        running: Whether a run is at work.
        seconds_left: The seconds that are left at its present pace; None if it is not running or has computed nothing.
    """

    done: int
    total: int
    failed: dict[str, str]
    running: bool
    seconds_left: float | None


@dataclass(frozen=True)
class Sweep:
    """A study and the folder where its results are kept: `store/` has them one by one, `results.zarr` all of them.

    A result is computed once and kept under all that it depends on, so a study with another trial or axis value
    computes what is new. A folder belongs to one study, by name.

    Args:
        study: The study.
        folder: The folder.

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
        """The sweep in a folder.

        Raises:
            StoreError: If there is none.
        """
        found = mark_of(Path(folder))
        if found is None:
            refuse_old(Path(folder))
        if found is None or "study" not in found:
            raise StoreError(f"{folder} does not hold a sweep. Give the folder of limitlaw sweep --out.")
        return cls(Study.from_plain(found["study"]), folder)

    @cached_property
    def _run(self) -> Run:
        study = self.study
        job = Job.of(study.name, {study.name: study}, _write_results, partial=True)
        return Run(self.path, f"the study {study.name!r}", [job], {"study": study.as_plain()})

    @property
    def store(self) -> Store:
        """The results one by one."""
        return self._run.store

    @property
    def tasks(self) -> list[Task]:
        """All that has to be computed, needs first."""
        return self._run.tasks

    def estimates(self, workers: int = 1, costs: Costs | None = None) -> Estimates:
        """The expected time, memory and disk space on a number of workers, before any work."""
        left = self.tasks
        if mark_of(self.path) is not None:
            left = [task for task in left if not self.store.path(task.key).exists()]
        largest = max((point.member.memory for point in self.study.points), default=0)
        samples = max(self.study.axes.get("samples", (self.study.samples,)))
        disk = len(left) * (2 * _FILE + _RECORD) + 2 * empty_dataset(self.study).nbytes
        seconds = (costs or Costs()).seconds(left, min(workers, max(len(left), 1)))
        return Estimates(len(self.tasks), len(left), seconds, largest + _BYTES_A_SAMPLE * samples, disk)

    def check_room(self, workers: int = 1) -> Estimates:
        """Refuse, before any work, a study that needs more memory or disk than this machine has.

        Raises:
            ArgumentError: If a task needs more memory than there is.
            StoreError: If the results need more disk than is free.
        """
        found = self.estimates(workers)
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
                f"{self.path} needs about {format_bytes(found.disk)} for the results, but {format_bytes(free)} are "
                f"free. Make room, or choose another folder with --out."
            )
        return found

    def run(
        self,
        *,
        workers: int = 1,
        client: Any = None,
        console: Any = None,
        waiting: Callable[[], None] = lambda: None,
    ) -> None:
        """Compute what is missing, and write `results.zarr`.

        Args:
            workers: The number of processes; 1 is this process.
            client: A client of `dask.distributed`, whose workers compute.
            console: A rich console to show progress on.
            waiting: It is called if another run is at work in the folder.

        Raises:
            TaskError: If tasks failed, after all others are done.
            StoreError: If the folder is another's, or is damaged.
        """
        self.check_room()
        with self._run.opened(waiting):
            self._run.compute(workers=workers, client=client, console=console)

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
        if mark_of(self.path) is None:  # looking leaves no trace
            return Status(0, len(self.tasks), {}, False, None)
        done = sum(self.store.path(task.key).exists() for task in self.tasks)
        last, running = status_of(self.path), self.store.is_locked()
        computed = done - last.get("done", done)
        left = len(self.tasks) - done
        pace = (time.time() - last["started"]) / computed if running and computed > 0 else None
        return Status(done, len(self.tasks), last.get("failed", {}), running, None if pace is None else left * pace)

    def write_csv(self, path: Path) -> int:
        """Write one row for each number, one kind of measurement after the other.

        Returns:
            The number of rows.
        """
        return write_csv(self.study, self.dataset(), path)


def _write_results(datasets: dict[str, xr.Dataset], folder: Path) -> list[Path]:
    (data,) = datasets.values()
    path = folder / _RESULTS
    with replacing(path) as part:
        data.to_zarr(part, mode="w", zarr_format=2, encoding=encoding_of(data), consolidated=True)
    return [path]

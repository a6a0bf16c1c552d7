"""A run: claim a folder, compute what its jobs need, and write the files of each job once its results are there."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._costs import Costs
from ._dataset import dataset_of
from ._engine import TaskError, complete
from ._progress import Progress
from ._store import Store, StoreError, is_store, remove_parts, replacing
from ._study import Study
from ._task import Task, with_needs

if TYPE_CHECKING:
    import xarray as xr

_MARK, _STATUS = "limitlaw.json", "status.json"


@dataclass(frozen=True)
class Job:
    """A named part of a run: tasks, and the files that are written once all their results are there.

    Args:
        name: What it is called.
        tasks: What has to be computed.
        write: Writes the files, from the store and the folder of the run, and returns their paths. It runs on a thread
            beside the computation.
        code: A digest of all that the files depend on besides the results.
        partial: Whether to write them even if tasks have failed, with what there is.

    Example:
        >>> from limitlaw.experiments import Job, Study
        >>> study = Study({"dim": 20, "tokens": 5}, {"mu": [0.0, 0.5]}, ["risk"])
        >>> len(Job.of("risk", {"plane": study}, lambda datasets, folder: []).tasks)
        2
    """

    name: str
    tasks: Sequence[Task]
    write: Callable[[Store, Path], Iterable[Path]]
    code: str = ""
    partial: bool = False

    @classmethod
    def of(
        cls,
        name: str,
        studies: Mapping[str, Study],
        write: Callable[[dict[str, xr.Dataset], Path], Iterable[Path]],
        *,
        code: str = "",
        partial: bool = False,
    ) -> Job:
        """A job of studies; `write` takes their datasets, by the names of the studies, and the folder."""

        def write_datasets(store: Store, folder: Path) -> Iterable[Path]:
            return write({name: dataset_of(study, store) for name, study in studies.items()}, folder)

        tasks = [measurement.task for study in studies.values() for measurement in study.measurements]
        described = json.dumps({name: study.as_plain() for name, study in studies.items()}, sort_keys=True)
        return cls(name, tasks, write_datasets, f"{code} {described}", partial)

    @cached_property
    def needs(self) -> list[Task]:
        """The tasks and all that they need, needs first."""
        return with_needs(self.tasks)

    @cached_property
    def key(self) -> str:
        """A digest of all that its files depend on."""
        text = json.dumps([[task.key for task in self.tasks], self.code])
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class Run:
    """Jobs in a folder: `store/` keeps results, each once and under all that it depends on; beside it are their files.

    A folder belongs to one owner, such as a study. Files are written again only if their results or their code have
    changed, or if they are no longer as they were written.

    Args:
        folder: The folder, new or of an earlier run.
        owner: Whom it belongs to, in words: "the study 'widths'".
        jobs: The jobs, in order.
        about: Plain data that is kept in the folder.

    Attributes:
        written: The files that this run has written.
        computed: The keys of the results that it has computed.

    Example:
        >>> import tempfile, pathlib
        >>> from limitlaw.experiments import Job, Run, Study
        >>> study = Study({"dim": 20, "tokens": 5}, {"mu": [0.0, 0.5]}, ["risk"], overlaps={"nu": 0.5})
        >>> def write(datasets, folder):
        ...     path = folder / "risk.txt"
        ...     _ = path.write_text(f"{float(datasets['plane'].risk[1]):.3f}")
        ...     return [path]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = Run(pathlib.Path(folder, "run"), "the example", [Job.of("risk", {"plane": study}, write)])
        ...     with run.opened():
        ...         fresh = run.compute()
        ...     print(fresh, [path.name for path in run.written], len(run.computed))
        ['risk'] ['risk.txt'] 2
    """

    folder: Path
    owner: str
    jobs: Sequence[Job]
    about: Mapping[str, Any] = field(default_factory=dict)
    written: list[Path] = field(default_factory=list, init=False)
    computed: set[str] = field(default_factory=set, init=False)

    @cached_property
    def store(self) -> Store:
        """The results one by one."""
        return Store(self.folder / "store")

    @cached_property
    def tasks(self) -> list[Task]:
        """All that has to be computed, needs first."""
        return with_needs(task for job in self.jobs for task in job.needs)

    @contextmanager
    def opened(self, waiting: Callable[[], None] = lambda: None) -> Iterator[Store]:
        """Claim the folder and lock it; `waiting` is called if another run is at work in it."""
        claim(self.folder, self.owner, self.about)
        with self.store.locked(waiting):
            subfolders = [path for path in self.folder.iterdir() if path.is_dir() and path != self.store.folder]
            remove_parts(self.folder, *subfolders, self.store.folder / "made")
            yield self.store

    def compute(
        self, *, workers: int = 1, client: Any = None, console: Any = None, costs: Costs | None = None
    ) -> list[str]:
        """Compute what is missing, and write the files of each job as soon as it has all that it needs.

        Args:
            workers: The number of processes; 1 is this process.
            client: A client of `dask.distributed`, whose workers compute.
            console: A rich console to show progress on.
            costs: What tasks cost on this machine.

        Returns:
            The names of the jobs that have new files.

        Raises:
            TaskError: If tasks failed. The others are computed, and jobs that do not need them are written.
        """
        store, known = self.store, costs or Costs()
        present = {task.key for task in self.tasks if store.path(task.key).exists()}
        at_once = workers if client is None else len(client.scheduler_info()["workers"])
        # those that are there cost nothing, and do not count as progress
        shown = Progress(
            {job.name: [task for task in job.needs if task.key not in present] for job in self.jobs},
            console,
            known,
            at_once,
        )
        waiting_for = {job.name: {task.key for task in job.needs} for job in self.jobs}
        needed_by: dict[str, list[Job]] = {}
        for job in self.jobs:
            for key in waiting_for[job.name]:
                needed_by.setdefault(key, []).append(job)
        beside, writing, fresh = ThreadPoolExecutor(1), list[Future[None]](), list[str]()
        if len(present) < len(self.tasks):
            self._record(started=time.time(), done=len(present), failed={})
        try:
            with shown.showing():
                try:
                    for task in complete(self.tasks, store, workers=workers, client=client):
                        if task.key not in present:
                            self.computed.add(task.key)
                            record = store.record(task)
                            known.measured(task, record.get("wall", 0.0), first=record.get("first", False))
                        shown.done(task)
                        for job in needed_by.pop(task.key, ()):
                            waiting_for[job.name].discard(task.key)
                            if not waiting_for[job.name]:
                                writing.append(beside.submit(self._write, job, fresh, shown))
                        for future in writing:
                            if future.done():
                                future.result()  # a full disk ends the run at once
                except TaskError as error:
                    self._record(failed={task.name: str(reason) for task, reason in error.failures})
                    for job in self.jobs:
                        if job.partial and waiting_for[job.name]:
                            Files(store, job).forget()  # they are to be written again once all is there
                            self.written += job.write(store, self.folder)
                    raise
                finally:
                    known.save()
                for future in writing:
                    future.result()
        finally:
            beside.shutdown(wait=False, cancel_futures=True)
        return fresh

    def _write(self, job: Job, fresh: list[str], shown: Progress) -> None:
        record = Files(self.store, job)
        if record.hold(self.folder):
            self._say(shown, f"{job.name} was done before")
            return
        paths = list(job.write(self.store, self.folder))
        record.write(self.folder, paths)
        self.written += paths
        fresh.append(job.name)
        self._say(shown, f"{job.name} done")

    def _say(self, shown: Progress, text: str) -> None:
        if len(self.jobs) > 1:
            shown.say(text)

    def missing(self) -> list[Task]:
        """What has not been computed."""
        return [task for task in self.tasks if not self.store.has(task)]

    def _record(self, **changes: Any) -> None:
        with replacing(self.folder / _STATUS) as part:
            table = {**status_of(self.folder), "pid": os.getpid(), **changes}
            part.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def claim(folder: Path, owner: str, about: Mapping[str, Any]) -> None:
    """Make a folder the owner's. One that is another's, or that holds anything else, is refused and left as it is.

    Raises:
        StoreError: If it is refused; the message says what to do.
    """
    found = mark_of(folder)
    if found is None:
        refuse_old(folder)
        begun = f"{_MARK}.part-"  # by a run that was killed at its very beginning
        others = sorted(path for path in _listed(folder) if not path.name.startswith(begun))
        if others:
            raise StoreError(f"{others[0]} exists, and limitlaw did not make it. Choose another folder with --out.")
    elif found["owner"] != owner:
        raise StoreError(f"{folder} belongs to {found['owner']}, not to {owner}. Choose another folder with --out.")
    ours = json.loads(json.dumps({"owner": owner, **about}))
    if found != ours:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / _MARK) as part:
            part.write_text(json.dumps(ours, indent=1) + "\n", encoding="utf-8")


def mark_of(folder: Path) -> dict[str, Any] | None:
    """What a run has written about itself into its folder; None if no run has.

    Example:
        >>> import pathlib, tempfile
        >>> from limitlaw.experiments import mark_of
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     print(mark_of(pathlib.Path(folder)))
        None
    """
    file = folder / _MARK
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        assert isinstance(found["owner"], str)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError, AssertionError):
        raise StoreError(f"{file} is damaged. Choose another folder with --out, or delete {folder}.") from None
    return found


def refuse_old(folder: Path) -> None:
    """Refuse a folder that version 0.1 has written."""
    if is_store(folder / "store"):
        raise StoreError(
            f"{folder} was written by limitlaw 0.1, whose results this version cannot use. Choose another folder with "
            f"--out, or delete it."
        )


def status_of(folder: Path) -> dict[str, Any]:
    """When the last run in a folder began, with how many results, and which tasks failed."""
    try:
        return dict(json.loads((folder / _STATUS).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def _listed(folder: Path) -> Iterable[Path]:
    if folder.exists() and not folder.is_dir():
        return [folder]
    return folder.iterdir() if folder.exists() else []


@dataclass(frozen=True)
class Files:
    """What the files of a job were made from, kept in the store.

    Example:
        >>> import pathlib, tempfile
        >>> from limitlaw.experiments import Files, Job, Store
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     out = pathlib.Path(folder)
        ...     files = Files(Store(out / "store"), Job("text", [], lambda store, folder: []))
        ...     _ = (out / "a.txt").write_text("a")
        ...     files.write(out, [out / "a.txt"])
        ...     before = files.hold(out)
        ...     _ = (out / "a.txt").write_text("b")
        ...     print(before, files.hold(out))
        True False
    """

    store: Store
    job: Job

    @property
    def path(self) -> Path:
        """The record."""
        return self.store.folder / "made" / f"{hashlib.sha256(self.job.name.encode()).hexdigest()[:16]}.json"

    def hold(self, folder: Path) -> bool:
        """Whether the files are there, as they were made from what the job is now."""
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            key, files = found["key"], dict(found["files"])
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return key == self.job.key and all(digest_of(folder / name) == digest for name, digest in files.items())

    def forget(self) -> None:
        """Remove the record."""
        self.path.unlink(missing_ok=True)

    def write(self, folder: Path, paths: Iterable[Path]) -> None:
        """Record them."""
        self.path.parent.mkdir(exist_ok=True)
        files = {path.relative_to(folder).as_posix(): digest_of(path) for path in paths}
        table = {"job": self.job.name, "key": self.job.key, "files": files}
        with replacing(self.path) as part:
            part.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def digest_of(path: Path) -> str:
    """A digest of a file, or of all files in a folder; empty if there is nothing."""
    digest = hashlib.sha256()
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file():
                digest.update(file.relative_to(path).as_posix().encode() + file.read_bytes())
    elif path.exists():
        digest.update(path.read_bytes())
    else:
        return ""
    return digest.hexdigest()

"""Compute tasks: the queue, the contract of engines, and the engine that is this process."""

from __future__ import annotations

import functools
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from threadpoolctl import ThreadpoolController

from ._store import Store, StoreError
from ._task import Result, Task, with_needs

_IN_VIEW = 256  # tasks among which an engine chooses
_MOST_LOST = 20  # times that a task may go down with its worker: jobs end at their time limits, memory runs out

Failures = list[tuple[Task, BaseException]]


class TaskError(RuntimeError):
    """Tasks failed. The message names the first one with its settings; `failures` has them all with their reasons."""

    def __init__(self, failures: Failures) -> None:
        self.failures = failures
        task, error = failures[0]
        others = f"; and {len(failures) - 1} more" if len(failures) > 1 else ""
        super().__init__(f"{task.name} failed: {error} (settings: {dict(task.settings)}){others}")


class WorkerLostError(Exception):
    """A task went down with its worker through no fault that is known of it. It is submitted again."""


class Engine(Protocol):
    """Computes tasks and keeps their results in a store."""

    def submit(self, ready: list[Task]) -> list[Task]:
        """Start some of the tasks that are ready, as many as it has room for, and return those."""
        ...

    def completed(self) -> Iterator[tuple[Task, BaseException | None]]:
        """Wait a moment for tasks to end, and yield them, each with None or the reason why it has no result."""
        ...

    @property
    def busy(self) -> bool:
        """Whether a task that was started has not ended."""
        ...

    def close(self) -> None:
        """End at once, whatever is being computed."""
        ...


def complete(
    tasks: Iterable[Task], store: Store, *, workers: int = 1, client: Any = None, retries: int = 2
) -> Iterator[Task]:
    """Compute what the store lacks of the tasks and their needs; yields each task once its result is there.

    A result is saved before its task is yielded, so it is kept whatever happens next. A task that fails is tried
    again; then it does not stop those that do not need it, and all failures are raised at the end. A task whose worker
    was killed is submitted again too.

    Args:
        tasks: The tasks.
        store: Where results are kept; it should be locked.
        workers: The number of processes; 1 is this process.
        client: A client of `dask.distributed`, whose workers compute.
        retries: How often a task that fails is tried again.

    Yields:
        The tasks and their needs, first those that were there.

    Raises:
        TaskError: If tasks failed, after all others are done.
        StoreError: If the store is damaged.
        ClusterError: If the scheduler goes away.

    Example:
        >>> import tempfile, numpy as np
        >>> from limitlaw.experiments import Store, Task, complete
        >>> def squares(*, count):
        ...     return {"squares": np.arange(count) ** 2}
        >>> def total(numbers, *, power):
        ...     return {"total": (numbers["squares"] ** power).sum()}
        >>> task = Task("total", total, {"power": 1}, needs=(Task("squares", squares, {"count": 3}),))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store(folder + "/store")
        ...     print([done.name for done in complete([task], store)], store.load(task)["total"])
        ['squares', 'total'] 5
    """
    ordered = with_needs(tasks)
    present = {task.key for task in ordered if store.has(task)}
    yield from (task for task in ordered if task.key in present)
    queue = _Queue([task for task in ordered if task.key not in present], present)
    if not queue:
        return
    tries: Counter[str] = Counter()
    engine = _engine(store, min(workers, len(queue)), client, queue.modules)
    try:
        while queue or engine.busy:
            queue.started(engine.submit(queue.ready()))
            for task, error in engine.completed():
                if isinstance(error, OSError | StoreError):  # the disk, on which everything else depends as well
                    raise error
                if error is None:
                    queue.done(task)
                    yield task
                    continue
                tries[task.key] += 1
                if tries[task.key] <= (_MOST_LOST if isinstance(error, WorkerLostError) else retries):
                    queue.again(task)
                else:
                    queue.failed(task, error)
    finally:
        engine.close()
    if queue.failures:
        raise TaskError(queue.failures) from queue.failures[0][1]


class _Queue:
    """Tasks that wait, in order. A task is ready when all that it needs is done; it is lost with what it needs."""

    def __init__(self, tasks: list[Task], present: set[str]) -> None:
        self.modules = sorted({task.compute.__module__ for task in tasks})
        self.failures: Failures = []
        self._blocked: dict[str, set[str]] = {}  # tasks to the needs that they wait for
        self._needed_by: dict[str, list[Task]] = {}
        self._ready: dict[str, Task] = {}
        self._waiting = len(tasks)
        for task in tasks:
            missing = {need.key for need in task.needs} - present
            for key in missing:
                self._needed_by.setdefault(key, []).append(task)
            if missing:
                self._blocked[task.key] = missing
            else:
                self._ready[task.key] = task

    def __len__(self) -> int:
        return self._waiting

    def ready(self) -> list[Task]:
        """The first of those that are ready."""
        return list(islice(self._ready.values(), _IN_VIEW))

    def started(self, tasks: list[Task]) -> None:
        for task in tasks:
            del self._ready[task.key]
        self._waiting -= len(tasks)

    def again(self, task: Task) -> None:
        """Behind the others."""
        self._ready[task.key] = task
        self._waiting += 1

    def done(self, task: Task) -> None:
        for other in self._needed_by.pop(task.key, []):
            missing = self._blocked.get(other.key)
            if missing is not None:
                missing.discard(task.key)
                if not missing:
                    del self._blocked[other.key]
                    self._ready[other.key] = other

    def failed(self, task: Task, error: BaseException) -> None:
        self.failures.append((task, error))
        lost = [task]
        while lost:
            for other in self._needed_by.pop(lost.pop().key, []):
                if self._blocked.pop(other.key, None) is not None:
                    self._waiting -= 1
                    lost.append(other)


def _engine(store: Store, workers: int, client: Any, modules: list[str]) -> Engine:
    if client is not None:
        from ._dask import DaskEngine

        return DaskEngine(store, client)
    if workers == 1:
        return ThisProcess(store)
    from ._processes import Processes

    return Processes(store, workers, modules)


@dataclass(frozen=True)
class Timed:
    """A result with the time that it took.

    Attributes:
        result: The result.
        seconds: The CPU time.
        wall: The time by the clock.
        first: Whether it was the first task of its program in this process.
    """

    result: Result
    seconds: float
    wall: float
    first: bool

    def save(self, task: Task, store: Store) -> None:
        """Keep it."""
        store.save(task, self.result, seconds=self.seconds, wall=self.wall, first=self.first)


_programs: set[tuple[str, str]] = set()  # that this process has compiled


@functools.cache
def _libraries(modules: int) -> ThreadpoolController:
    """The libraries with threads, found anew when there are more modules: to look for them takes milliseconds."""
    return ThreadpoolController()


def timed(task: Task, needs: Iterable[Result]) -> Timed:
    """Compute a task."""
    program = task.compute.__qualname__, task.program
    first = program not in _programs
    wall, cpu = time.perf_counter(), time.process_time()
    # sums that are shared between threads would differ in their last bits
    with _libraries(len(sys.modules)).limit(limits=1):
        result = task.run(*needs)
    _programs.add(program)
    return Timed(result, time.process_time() - cpu, time.perf_counter() - wall, first)


def compute(task: Task, store: Store) -> BaseException | None:
    """Compute a task and keep its result; an error is returned."""
    try:
        timed(task, [store.load(need) for need in task.needs]).save(task, store)
    except Exception as error:
        return error
    return None


class ThisProcess:
    """This process. It computes on a second thread, since a wait can be interrupted and a computation cannot."""

    def __init__(self, store: Store) -> None:
        self._store, self._task, self._thread = store, None, ThreadPoolExecutor(1)

    @property
    def busy(self) -> bool:
        return self._task is not None

    def submit(self, ready: list[Task]) -> list[Task]:
        self._task = ready[0] if ready else None
        return ready[:1]

    def completed(self) -> Iterator[tuple[Task, BaseException | None]]:
        task, self._task = self._task, None
        if task is not None:
            yield task, self._thread.submit(compute, task, self._store).result()

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

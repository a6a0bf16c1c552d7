"""Run tasks on this machine: in this process, or on a few of its own."""

import atexit
import functools
import gc
import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from ._store import Store, StoreError
from ._task import Task, with_needs

_IN_VIEW = 256  # tasks among which an engine chooses


Failures = list[tuple[Task, BaseException]]


class TaskError(RuntimeError):
    """Tasks failed; the message says which one first, with its settings, `failures` has them all with their reasons."""

    def __init__(self, failures: Failures) -> None:
        self.failures = failures
        task, error = failures[0]
        others = f"; and {len(failures) - 1} more" if len(failures) > 1 else ""
        super().__init__(f"{task.name} failed: {error} (settings: {dict(task.settings)}){others}")


def complete(
    tasks: Iterable[Task], store: Store, *, workers: int = 1, client: Any = None, retries: int = 2
) -> Iterator[Task]:
    """Compute what the store lacks of the tasks and their needs; yields each task once its result is there.

    A result is saved before its task is yielded, so it is kept whatever happens next. A task that fails is tried again, `retries` times;
    then it does not stop those that do not need it, and all failures are raised at the end. One worker is this process; more are processes of their own, each
    with its share of the cores, and tasks of one program stay with the worker that compiled it while there is other work. A `client` of
    `dask.distributed` has workers of its own.

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
    waiting = {task.key: task for task in ordered if task.key not in present}
    if not waiting:
        return
    failures: dict[str, tuple[Task, BaseException]] = {}
    tries: Counter[str] = Counter()
    modules = {task.compute.__module__ for task in waiting.values()}
    engine = _engine(store, min(workers, len(waiting)), client, modules)
    try:
        while waiting or engine.busy:
            ready = (task for task in waiting.values() if all(need.key in present for need in task.needs))
            for task in engine.start(list(islice(ready, _IN_VIEW))):
                del waiting[task.key]
            for task, error in engine.finished():
                if isinstance(error, OSError | StoreError):  # the disk, on which everything else depends as well
                    raise error
                if error is None:
                    present.add(task.key)
                    yield task
                elif tries[task.key] < retries:
                    tries[task.key] += 1
                    waiting[task.key] = task  # behind the others
                else:
                    failures[task.key] = task, error
                    _give_up_what_needs(waiting, failures)
    finally:
        engine.close()
    if failures:
        own = list({task.key: (task, error) for task, error in failures.values()}.values())
        raise TaskError(own) from own[0][1]


def prepare_processes(*modules: str) -> None:
    """Begin to import, in a process beside, what computing processes will be forked with; at once if it has begun before.

    Example:
        >>> from limitlaw.experiments import prepare_processes
        >>> prepare_processes("limitlaw.networks")  # returns at once
    """
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(modules))
    resource_tracker.ensure_running()  # which lets interrupts through again
    # an interrupt is for this process: one that still imports would answer it with a traceback
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _engine(store: Store, workers: int, client: Any, modules: set[str]) -> "_Engine":
    if client is not None:
        from ._dask import DaskEngine

        return DaskEngine(store, client)
    return _Here(store) if workers == 1 else _Processes(store, workers, modules)


def _give_up_what_needs(waiting: dict[str, Task], failures: dict[str, tuple[Task, BaseException]]) -> None:
    """Tasks that can no longer be computed share the failure of what they need."""
    for task in list(waiting.values()):  # needs come first
        failed = [failures[need.key] for need in task.needs if need.key in failures]
        if failed:
            failures[task.key] = failed[0]
            del waiting[task.key]


def compute(task: Task, store: Store) -> BaseException | None:
    """Compute a task and keep its result, with the CPU time it took; an error is returned."""
    start = time.process_time()
    try:
        result = task.run(*(store.load(need) for need in task.needs))
        store.save(task, result, seconds=time.process_time() - start)
    except Exception as error:
        return error
    return None


class _Engine(Protocol):
    """What computes tasks: takes some of those that are ready, and says which are finished."""

    @property
    def busy(self) -> bool: ...

    def start(self, ready: list[Task]) -> list[Task]: ...

    def finished(self) -> Iterator[tuple[Task, BaseException | None]]: ...

    def close(self) -> None: ...


class _Here:
    """This process, on a thread of its own: a wait can be interrupted, a computation cannot."""

    def __init__(self, store: Store) -> None:
        self._store, self._task, self._thread = store, None, ThreadPoolExecutor(1)

    @property
    def busy(self) -> bool:
        return self._task is not None

    def start(self, ready: list[Task]) -> list[Task]:
        self._task = ready[0] if ready else None
        return ready[:1]

    def finished(self) -> Iterator[tuple[Task, BaseException | None]]:
        task, self._task = self._task, None
        if task is not None:
            yield task, self._thread.submit(self._compute, task).result()

    def _compute(self, task: Task) -> BaseException | None:
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):  # sums that are shared between threads would differ in their last bits
            return compute(task, self._store)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


class _Processes:
    """Processes of their own, each with its share of the cores; they end with this one, however it ends.

    They are forked from one that has imported what they need, and nothing else: no thread is at work in it.
    """

    def __init__(self, store: Store, count: int, modules: set[str]) -> None:
        context = multiprocessing.get_context("forkserver")
        prepare_processes(*sorted(modules))
        self._workers: list[_Worker] = []
        self._compiled = store.part("compiled")
        self._compiled.mkdir(exist_ok=True)
        for cores in shares(count):
            mine, theirs = context.Pipe()
            process = context.Process(
                target=_work, args=(store.folder, theirs, cores, str(self._compiled)), daemon=True
            )
            process.start()
            theirs.close()
            self._workers.append(_Worker(process, mine))

    @property
    def busy(self) -> bool:
        return any(worker.task for worker in self._workers)

    def start(self, ready: list[Task]) -> list[Task]:
        started: list[Task] = []
        for worker in self._workers:
            left = [task for task in ready if task not in started]
            if worker.task is None and left:
                others = {p for other in self._workers if other is not worker for p in other.programs} - worker.programs
                task = min(left, key=lambda task: task.program in others)  # the first, of those not compiled elsewhere
                worker.give(task)
                started.append(task)
        return started

    def finished(self) -> Iterator[tuple[Task, BaseException | None]]:
        talking: Any = wait([worker.pipe for worker in self._workers if worker.task])
        for worker in self._workers:
            if worker.pipe in talking:
                yield worker.take()

    def close(self) -> None:
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
        shutil.rmtree(self._compiled, ignore_errors=True)


class _Worker:
    """A process, what it is computing, and the programs it has compiled."""

    def __init__(self, process: Any, pipe: Connection) -> None:
        self.process, self.pipe = process, pipe
        self.task: Task | None = None
        self.programs = {""}

    def give(self, task: Task) -> None:
        self.task = task
        self.programs.add(task.program)
        self.pipe.send(task)

    def take(self) -> tuple[Task, BaseException | None]:
        task, self.task = self.task, None
        assert task is not None
        try:
            return task, self.pipe.recv()
        except (EOFError, ConnectionError):
            raise StoreError(
                f"{task.name}: the process that computed it was killed, perhaps for lack of memory. Finished results are saved; "
                f"run the same command again, or use --workers 1."
            ) from None


def _work(folder: Any, pipe: Connection, cores: set[int], compiled: str) -> None:
    """What a process does until the one that started it ends; `compiled` is where the processes share what they compile."""
    from ..numerics import keep_compiled

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    if cores:  # libraries start as many threads as they see cores
        os.sched_setaffinity(0, cores)
    keep_compiled(compiled)
    collect_rarely()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    store = Store(folder)
    with suppress(EOFError, ConnectionError):
        while True:
            task = pipe.recv()
            _one_thread_a_library(len(sys.modules))
            pipe.send(compute(task, store))


@functools.cache
def _one_thread_a_library(modules: int) -> None:
    """As in this process; looked after once for so many `modules`, since only new ones bring libraries."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)


def collect_rarely() -> None:
    """For a process that ends soon: fonts and compilers make many small objects, none of them garbage.

    Example:
        >>> import gc
        >>> from limitlaw.experiments import collect_rarely
        >>> before = gc.get_threshold()
        >>> collect_rarely()
        >>> gc.get_threshold()
        (200000, 20, 20)
        >>> gc.set_threshold(*before)
    """
    gc.set_threshold(200_000, 20, 20)
    atexit.register(gc.freeze)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def shares(count: int) -> list[set[int]]:
    """The cores, dealt out."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return [set(cores[i::count]) or set(cores) for i in range(count)]

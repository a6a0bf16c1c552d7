"""Run tasks on this machine: in this process, or on a few of its own."""

import gc
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from ._store import Store, StoreError
from ._task import Task, with_needs

_CACHE_ALL = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}


class TaskError(RuntimeError):
    """A task failed; the message says which, with its settings."""


def complete(tasks: Iterable[Task], store: Store, *, workers: int = 1) -> Iterator[Task]:
    """Compute what the store lacks of the tasks and their needs; yields each task once its result is there.

    A result is saved by whoever computed it, so what was yielded is kept whatever happens next. A task that fails does not stop those
    that do not need it; the first failure is raised at the end. One worker is this process; more are processes of their own, each
    with its share of the cores, and tasks of one program stay with the worker that compiled it while there is other work.

    !!! Example

        >>> import tempfile, numpy as np
        >>> from limitlaw.runs import Store, Task, complete
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
    waiting = [task for task in ordered if task.key not in present]
    if not waiting:
        return
    failures: dict[str, tuple[Task, BaseException]] = {}
    engine: _Engine = _Here(store) if workers == 1 else _Processes(store, min(workers, len(waiting)))
    try:
        while waiting or engine.busy:
            waiting = _without_lost(waiting, failures)
            ready = [task for task in waiting if all(need.key in present for need in task.needs)]
            started = {task.key for task in engine.start(ready)}
            waiting = [task for task in waiting if task.key not in started]
            for task, error in engine.finished():
                if isinstance(error, OSError | StoreError):  # the disk, on which everything else depends as well
                    raise error
                if error is not None:
                    failures[task.key] = task, error
                    continue
                present.add(task.key)
                yield task
    finally:
        engine.close()
    if failures:
        task, error = next(iter(failures.values()))
        raise TaskError(f"{task.name} failed: {error} (settings: {dict(task.settings)})") from error


def _without_lost(waiting: list[Task], failures: dict[str, tuple[Task, BaseException]]) -> list[Task]:
    """Those that can still be computed; the others share the failure of what they need."""
    kept = []
    for task in waiting:
        failed = [failures[need.key] for need in task.needs if need.key in failures]
        if failed:
            failures[task.key] = failed[0]
        else:
            kept.append(task)
    return kept


def compute(task: Task, store: Store) -> BaseException | None:
    """Compute a task and keep its result; an error is returned."""
    from threadpoolctl import threadpool_limits

    start = time.perf_counter()
    try:
        with threadpool_limits(1):  # sums that are shared between threads would differ in their last bits
            result = task.run(*(store.load(need) for need in task.needs))
        store.save(task, result, seconds=time.perf_counter() - start)
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
            yield task, self._thread.submit(compute, task, self._store).result()

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


class _Processes:
    """Processes of their own, each with its share of the cores; they end with this one, however it ends."""

    def __init__(self, store: Store, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []
        self._compiled = tempfile.TemporaryDirectory(prefix="limitlaw-")
        shared = {"JAX_COMPILATION_CACHE_DIR": self._compiled.name, **_CACHE_ALL}
        for cores in _shares(count):
            mine, theirs = context.Pipe()
            process = context.Process(target=_work, args=(store.folder, theirs), daemon=True)
            # inherited: libraries start as many threads as they see cores, and what one process compiles serves the others
            with _on(cores), _with_environment(shared):
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
        self._compiled.cleanup()


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
                f"{task.name}: the process that computed it was ended from outside (too little memory?); what is done is kept: "
                f"run the same command again, or use --workers 1."
            ) from None


def _work(folder: Any, pipe: Connection) -> None:
    """What a process does until the one that started it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    collect_rarely()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    store = Store(folder)
    with suppress(EOFError, ConnectionError):
        while True:
            pipe.send(compute(pipe.recv(), store))


def collect_rarely() -> None:
    """For a process that ends soon: fonts and compilers make many small objects, none of them garbage."""
    gc.set_threshold(200_000, 20, 20)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _shares(count: int) -> list[set[int]]:
    """The cores, dealt out."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return [set(cores[i::count]) or set(cores) for i in range(count)]


@contextmanager
def _with_environment(values: dict[str, str]) -> Iterator[None]:
    """Within it, variables that are not set have these values."""
    unset = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(unset)
    try:
        yield
    finally:
        for name in unset:
            del os.environ[name]


@contextmanager
def _on(cores: set[int]) -> Iterator[None]:
    """Within it, this thread and the processes it starts run on these cores, where the system can do that."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)

"""Compute tasks in processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from importlib.machinery import PathFinder
from multiprocessing import forkserver
from pathlib import Path

from ._engine import compute
from ._store import Store
from ._task import Task


class Processes:
    """Processes of their own, which end with this one, however it ends.

    Each is a `ProcessPoolExecutor` of one worker, for two reasons: a task stays with the worker that has compiled its
    program, and it is known which task was at work when a worker died. They are forked from a server that has
    imported what they need and runs no threads.
    """

    def __init__(self, store: Store, count: int, modules: list[str]) -> None:
        self._store = store
        self._compiled = store.part("compiled")
        self._compiled.mkdir(exist_ok=True)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(modules)
        self._files = [file for name in modules if (file := _file_to_load(name))]
        _start_forkserver()
        self._workers = [_Worker(self._executor) for _ in range(count)]

    def _executor(self) -> ProcessPoolExecutor:
        initargs = (str(self._compiled), self._files)
        return ProcessPoolExecutor(1, self._context, initializer=_initialise, initargs=initargs)

    @property
    def busy(self) -> bool:
        return any(worker.task for worker in self._workers)

    def submit(self, ready: list[Task]) -> list[Task]:
        started: list[Task] = []
        left = list(ready)
        for worker in self._workers:
            if worker.task is None and left:
                others = {p for other in self._workers if other is not worker for p in other.programs} - worker.programs
                task = min(left, key=lambda task: task.program in others)  # the first, of those not compiled elsewhere
                left = [other for other in left if other is not task]
                worker.start(task, self._store)
                started.append(task)
        return started

    def completed(self) -> Iterator[tuple[Task, BaseException | None]]:
        running = {worker.future: worker for worker in self._workers if worker.future is not None}
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            worker = running[future]
            task = worker.take()
            try:
                yield task, future.result()
            except BrokenProcessPool:
                worker.renew()
                yield task, RuntimeError("its process was killed, perhaps for lack of memory. Try --workers 1.")
            except Exception as error:  # a task that cannot be sent
                yield task, error

    def close(self) -> None:
        for worker in self._workers:
            worker.kill()
        shutil.rmtree(self._compiled, ignore_errors=True)


class _Worker:
    """An executor of one process, what it is computing, and the programs it has compiled."""

    def __init__(self, make: Callable[[], ProcessPoolExecutor]) -> None:
        self._make, self.executor = make, make()
        self.programs = {""}
        self.task: Task | None = None
        self.future: Future[BaseException | None] | None = None

    def renew(self) -> None:
        self.executor.shutdown(wait=False)
        self.executor, self.programs = self._make(), {""}

    def start(self, task: Task, store: Store) -> None:
        try:
            future = self.executor.submit(compute, task, store)
        except BrokenProcessPool:  # it was killed while it had nothing to do
            self.renew()
            future = self.executor.submit(compute, task, store)
        self.task, self.future = task, future
        self.programs.add(task.program)

    def take(self) -> Task:
        task, self.task, self.future = self.task, None, None
        assert task is not None
        return task

    def kill(self) -> None:
        processes = list((self.executor._processes or {}).values())  # as `kill_workers` of Python 3.14
        self.executor.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()
            process.join()


def _start_forkserver() -> None:
    """Start the server without interrupts: one that arrives while it imports would be answered by a traceback."""
    with suppress(ValueError):  # not the main thread
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            forkserver.ensure_running()
        finally:
            signal.signal(signal.SIGINT, before)


def _file_to_load(name: str) -> str | None:
    """The file of a module that cannot be imported by its name, because it was loaded from there with `--load`."""
    if name == "__main__" or PathFinder.find_spec(name.split(".")[0]) is not None:
        return None
    return getattr(sys.modules.get(name), "__file__", None)


def _initialise(compiled: str, files: list[str]) -> None:
    """In a worker: `compiled` is where the processes share what they compile; `files` define what tasks call."""
    from .._load import load_module
    from ..numerics import keep_compiled

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    # A worker holds both ends of the queue of its executor, so that the end of its parent does not end it.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    keep_compiled(Path(compiled))
    for file in files:
        load_module(file)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)

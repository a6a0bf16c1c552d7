"""Computations in worker processes, for as long as somebody waits for them.

A future that runs cannot be cancelled, and a worker that dies breaks the whole pool. So jobs wait here for a free
worker and can leave the queue; a running job looks at a flag after each step; and a broken pool is replaced.
"""

import asyncio
import ctypes
import multiprocessing
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from .._checks import ArgumentError

WORKERS = 2  # so that one job which compiles, and cannot stop meanwhile, does not hold up the next
_ATTEMPTS = 2  # a worker may die from what another one did to the memory of the machine

Emit = Callable[[Any], None]
"""Sends an event to those who wait; with None it only looks whether anybody does. Raises `Unwanted` if nobody does."""


class Unwanted(BaseException):
    """Nobody waits for this job any more. No exception that a library may catch."""


_writers: list[Connection] = []  # of this process, where it is a worker
_flags: Any = None


def _begin(
    writers: list[Connection], flags: Any, alive: Connection, prepare: Callable[..., None], arguments: Any
) -> None:
    """Make this process a worker."""
    global _writers, _flags
    _writers, _flags = writers, flags
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the server's affair
    threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
    prepare(*arguments)


def _end_with(alive: Connection) -> None:
    """End this process with its server, whatever it computes: a pool would wait for that, and be orphaned by SIGKILL."""
    with suppress(EOFError, OSError):
        alive.recv()
    os._exit(0)


def _compute(slot: int, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    def emit(event: Any) -> None:
        if _flags[slot]:
            raise Unwanted
        if event is not None:
            _writers[slot].send(event)

    try:
        with suppress(Unwanted):
            emit(None)
            function(emit, *arguments)
    finally:
        _writers[slot].send(None)


def _nothing() -> None:
    """The first task of each worker."""


class _Job:
    """The events of a computation so far, and how many follow them."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.error: Exception | None = None
        self.ended = False
        self.followers = 0
        self.slot: int | None = None  # while it runs
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def note(self, event: Any) -> None:
        self.events.append(event)
        self._tell()

    def end(self, error: Exception | None = None) -> None:
        self.ended, self.error = True, error
        self._tell()

    def _tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class _Pool:
    """A process pool with a pipe and a flag for each job that it can run at once."""

    def __init__(self, workers: int, prepare: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([prepare.__module__])
        self.flags: Any = context.RawArray(ctypes.c_byte, workers)
        pipes = [context.Pipe(duplex=False) for _ in range(workers)]
        self.readers, self._writers = [pipe[0] for pipe in pipes], [pipe[1] for pipe in pipes]
        alive, self._alive = context.Pipe(duplex=False)
        self.broken = False
        self.executor = ProcessPoolExecutor(
            workers, context, initializer=_begin, initargs=(self._writers, self.flags, alive, prepare, arguments)
        )
        # All workers start now: Python 3.11 wakes its watcher before it starts a worker on demand, and the watcher then
        # misses the death of that worker.
        for _ in range(workers):
            self.executor.submit(_nothing)

    def close(self) -> None:
        """End all workers now, and with them whoever reads from them."""
        self.broken = True
        self._alive.close()
        for writer in self._writers:
            writer.close()
        self.executor.shutdown(wait=False, cancel_futures=True)


class Workers:
    """Worker processes, the queue before them, and who waits for what.

    Args:
        prepare: Called in each worker when it starts. Its module is imported once, before the first worker starts.
        arguments: What it is called with.
        count: The number of workers.
    """

    def __init__(self, prepare: Callable[..., None], arguments: tuple[Any, ...] = (), count: int = WORKERS) -> None:
        self._make = lambda: _Pool(count, prepare, arguments)
        self._pool = self._make()
        self._free = list(range(count))
        self._turn = asyncio.Semaphore(count)  # first come, first served; who is cancelled leaves the queue
        self._jobs: dict[Any, _Job] = {}

    async def follow(self, key: Any, function: Callable[..., None], *arguments: Any) -> AsyncIterator[Any]:
        """Compute `function(emit, *arguments)` in a worker, or join those who wait for the same.

        Args:
            key: Equal for equal questions.
            function: Calls `emit` with each of its events, and with None where it could stop. It and its arguments are
                pickled.
            *arguments: Its arguments.

        Yields:
            The events, from the first one. When the last follower leaves, the job is dropped.

        Raises:
            ArgumentError: If the worker died twice.
            Exception: What the function raised.
        """
        job = self._jobs.get(key)
        if job is None:
            job = self._jobs[key] = _Job()
            job.task = asyncio.create_task(self._run(key, job, function, arguments))
        job.followers += 1
        try:
            known = 0
            while True:
                changed = job.changed
                for event in job.events[known:]:
                    yield event
                    known += 1
                if job.ended and known == len(job.events):
                    break
                if known == len(job.events):
                    await changed.wait()
            if job.error is not None:
                raise job.error
        finally:
            job.followers -= 1
            if not job.followers and not job.ended:
                self._drop(key, job)

    def _drop(self, key: Any, job: _Job) -> None:
        if self._jobs.get(key) is job:
            del self._jobs[key]
        if job.slot is not None:
            self._pool.flags[job.slot] = 1
        elif job.task is not None:
            job.task.cancel()

    async def _run(self, key: Any, job: _Job, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        try:
            async with self._turn:
                job.slot = slot = self._free.pop()
                try:
                    await self._attempts(job, slot, function, arguments)
                finally:
                    job.slot = None
                    self._free.append(slot)
            job.end()
        except Exception as error:
            job.end(error)
        finally:
            if self._jobs.get(key) is job:
                del self._jobs[key]

    async def _attempts(self, job: _Job, slot: int, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        for _ in range(_ATTEMPTS):
            pool = self._pool
            pool.flags[slot] = 0
            try:
                await _events(pool, job, slot, function, arguments)
                return
            except (BrokenProcessPool, EOFError, OSError):
                if pool is self._pool and not pool.broken:
                    pool.close()
                    self._pool = self._make()
                elif pool is self._pool:
                    return  # closed with the server
            if not job.followers:
                return
        raise ArgumentError("", "The process that computed this ended, perhaps for lack of memory. Use smaller values.")

    def close(self) -> None:
        """End all workers, and drop all jobs."""
        for key, job in list(self._jobs.items()):
            self._drop(key, job)
        self._pool.close()


async def _events(pool: _Pool, job: _Job, slot: int, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Have a job computed, and note its events."""
    future = asyncio.wrap_future(pool.executor.submit(_compute, slot, function, arguments))

    async def read() -> None:
        while (event := await asyncio.to_thread(pool.readers[slot].recv)) is not None:
            job.note(event)

    reading = asyncio.ensure_future(read())
    for task in (reading, future):
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # looked at even if nobody waits
    await asyncio.wait({reading, future}, return_when=asyncio.FIRST_COMPLETED)
    if future.done() and isinstance(future.exception(), BrokenProcessPool) and not pool.broken:
        raise BrokenProcessPool  # the pipe says nothing: another worker, or this process, can still write to it
    await reading
    await future

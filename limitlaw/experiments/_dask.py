"""Run tasks on a cluster of `dask.distributed`: its scheduler, its workers, our store."""

from __future__ import annotations

import queue
import time
from collections import OrderedDict
from collections.abc import Iterator
from itertools import takewhile
from math import inf
from typing import Any

from ._engine import Timed, WorkerLostError, timed
from ._store import Store
from ._task import Result, Task, code_version

_AHEAD = 3  # trips that wait for each thread, so that none is idle while results travel
_WORTH_A_TRIP, _MOST_TOGETHER = 0.25, 32  # seconds of work, and tasks
_PATIENCE = 1.0  # seconds between looks at whether the scheduler is still there
_NEEDS_KEPT = 32  # results that tasks need and workers hold


class ClusterError(RuntimeError):
    """A cluster that cannot be reached or used; the message says what to do."""


class DaskEngine:
    """The workers of a scheduler. They compute; this process keeps the results, so that no disk has to be shared.

    A bounded number of tasks is on its way at any time, so neither the scheduler's graph nor the memory grows with the number of tasks. Short
    tasks travel several at a time; those that came back without a result, because their worker died, one at a time.
    """

    def __init__(self, store: Store, client: Any) -> None:
        self._store, self._client = store, client
        self._running: dict[Any, list[Task]] = {}
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._threads, self._asked = 0, -inf
        self._needs: OrderedDict[str, Any] = OrderedDict()
        self._alone: set[str] = set()
        self._usual = inf  # seconds of a task

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def submit(self, ready: list[Task]) -> list[Task]:
        room = max(_AHEAD * self._count_threads(), 1) - len(self._running)
        started: list[Task] = []
        while room > 0 and len(started) < len(ready):
            batch = self._batch(ready[len(started) :])
            needs = [self._sent(need) for need in batch[0].needs]
            codes = [_code(task) for task in batch]
            future = self._call(self._client.submit, _compute, batch, codes, *needs, pure=False, retries=0)
            self._running[future] = batch
            future.add_done_callback(self._done.put)
            started += batch
            room -= 1
        return started

    def _batch(self, ready: list[Task]) -> list[Task]:
        """The first task, with those after it that need the same, as many as make a trip worth while."""
        most = min(max(int(_WORTH_A_TRIP / self._usual), 1), _MOST_TOGETHER) if self._usual else _MOST_TOGETHER
        if ready[0].key in self._alone:
            return ready[:1]
        batch = takewhile(lambda task: task.needs == ready[0].needs and task.key not in self._alone, ready[:most])
        return list(batch)

    def _count_threads(self) -> int:
        """Of all workers, which come and go."""
        if time.monotonic() - self._asked > _PATIENCE:
            self._threads, self._asked = sum(self._call(self._client.nthreads).values()), time.monotonic()
        return self._threads

    def _sent(self, need: Task) -> Any:
        """A result on the cluster; the last few are kept there for tasks to come."""
        if need.key not in self._needs:
            self._needs[need.key] = self._call(self._client.scatter, [self._store.load(need)])[0]
            while len(self._needs) > _NEEDS_KEPT:
                self._needs.popitem(last=False)
        self._needs.move_to_end(need.key)
        return self._needs[need.key]

    def completed(self) -> Iterator[tuple[Task, BaseException | None]]:
        if not self._running:
            time.sleep(_PATIENCE)  # no worker yet
            return
        try:
            future = self._done.get(timeout=_PATIENCE)
        except queue.Empty:
            self._count_threads()
            return
        yield from self._kept(self._running.pop(future), future)

    def _kept(self, batch: list[Task], future: Any) -> Iterator[tuple[Task, BaseException | None]]:
        if future.status == "cancelled":
            # A result that was scattered lay on a worker that died. The scheduler cannot make it again and cancels
            # what depends on it, so all are sent anew. A scheduler that is gone is refused by the call.
            self._call(self._client.nthreads)
            self._needs.clear()
            yield from ((task, WorkerLostError("its worker ended")) for task in batch)
            return
        if future.status == "error":
            self._alone |= {task.key for task in batch}
            error = future.exception() or RuntimeError("it failed without a reason")
            yield from ((task, _explained(error)) for task in batch)
            return
        for task, result in zip(batch, self._call(future.result), strict=True):
            if isinstance(result, BaseException):
                yield task, result
                continue
            self._usual = result.seconds if self._usual == inf else 0.9 * self._usual + 0.1 * result.seconds
            yield task, self._saved(task, result)

    def _saved(self, task: Task, result: Timed) -> OSError | None:
        try:
            result.save(task, self._store)
        except OSError as error:
            return error
        return None

    def _call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Ask the scheduler something; refused in one sentence if it is gone."""
        from distributed import CancelledError

        try:
            return function(*args, **kwargs)
        except (OSError, TimeoutError, CancelledError) as error:
            raise self._lost(f"does not answer ({type(error).__name__})") from None

    def _lost(self, how: str) -> ClusterError:
        where = getattr(getattr(self._client, "scheduler", None), "address", None) or "the cluster"
        return ClusterError(
            f"{where} {how}. Finished results are saved; start it again, and run the same command again to resume."
        )

    def close(self) -> None:
        futures, self._running = list(self._running), {}
        try:
            self._client.cancel(futures, force=True)
        except Exception:
            return  # it is gone, or going


def _code(task: Task) -> str:
    return task.record()["code"]


def _compute(batch: list[Task], codes: list[str], *needs: Result) -> list[Timed | BaseException]:
    """What a worker does: compute with the code that the client has, or say that it is another."""
    if codes != [_code(task) for task in batch]:
        raise RuntimeError(
            "A worker has another version of limitlaw or of its libraries than the client. Install the same on both."
        )
    out: list[Timed | BaseException] = []
    for task in batch:
        try:
            out.append(timed(task, needs))
        except Exception as error:
            out.append(RuntimeError(str(error)))  # an error of any kind can travel
    return out


def _explained(error: BaseException) -> BaseException:
    from distributed.scheduler import KilledWorker

    if isinstance(error, KilledWorker):
        return RuntimeError("the workers that computed it were ended from outside (too little memory?)")
    return error


def check_versions(client: Any) -> None:
    """Refuse workers whose code is not this one's."""
    ours = code_version()
    try:
        theirs = client.run(code_version)
    except Exception as error:
        raise ClusterError(
            f"the workers cannot run limitlaw ({error}); install it on them, with the same libraries."
        ) from None
    for address, version in theirs.items():
        if version != ours:
            raise ClusterError(
                f"the worker {address} has another version of limitlaw or of its libraries than this client; install the same on both."
            )

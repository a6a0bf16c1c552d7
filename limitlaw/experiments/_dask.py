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

# Batches on their way for each thread of a worker: while one is computed, the next one lies ready there, and one travels.
_AHEAD = 3
# Seconds of work that make a trip worth while, and the most tasks in one: a trip takes about 5 ms.
_WORTH_A_TRIP, _MOST_TOGETHER = 0.25, 32
_PATIENCE = 1.0  # seconds between looks at whether the scheduler is still there
_NEEDS_KEPT = 32  # results that tasks need and workers hold
# Seconds without a result after the death of a worker, and tasks in place of seconds, before all is sent anew: a worker
# that waits for data that died with another one may wait for ever.
_STUCK_SECONDS, _STUCK_TASKS = 20.0, 20


class ClusterError(RuntimeError):
    """A cluster that cannot be reached or used; the message says what to do."""


class _NoWorkerError(Exception):
    """All workers have ended, as jobs do at their time limits; others may come."""


class DaskEngine:
    """The workers of a scheduler. They compute; this process keeps the results, so that no disk has to be shared.

    A bounded number of tasks is on its way at any time, so neither the scheduler's graph nor its memory grows with the
    number of tasks. Short tasks travel in batches; those whose batch failed as a whole travel one at a time.
    """

    def __init__(self, store: Store, client: Any) -> None:
        self._store, self._client = store, client
        self._running: dict[Any, list[Task]] = {}
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._threads, self._counted_at = 0, -inf
        self._needs: OrderedDict[str, Any] = OrderedDict()
        self._single: set[str] = set()
        self._seconds_a_task = inf
        self._workers: set[str] = set()
        self._quiet_since: float | None = None  # the last result after a worker died

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def submit(self, ready: list[Task]) -> list[Task]:
        room = _AHEAD * self._count_threads() - len(self._running)
        started: list[Task] = []
        while room > 0 and len(started) < len(ready):
            batch = self._batch(ready[len(started) :])
            try:
                needs = [self._scattered(need) for need in batch[0].needs]
            except _NoWorkerError:
                break
            codes = [_code(task) for task in batch]
            future = self._call(self._client.submit, _compute, batch, codes, *needs, pure=False, retries=0)
            self._running[future] = batch
            future.add_done_callback(self._done.put)
            started += batch
            room -= 1
        return started

    def _batch(self, ready: list[Task]) -> list[Task]:
        """The first task, and as many of those after it with the same needs as make a trip worth while."""
        most = max(min(int(_WORTH_A_TRIP / max(self._seconds_a_task, 1e-9)), _MOST_TOGETHER), 1)
        if ready[0].key in self._single:
            return ready[:1]
        batch = takewhile(lambda task: task.needs == ready[0].needs and task.key not in self._single, ready[:most])
        return list(batch)

    def _count_threads(self) -> int:
        """The number of threads of all workers, which come and go."""
        if time.monotonic() - self._counted_at > _PATIENCE:
            threads = self._call(self._client.nthreads)
            self._threads, self._counted_at = sum(threads.values()), time.monotonic()
            if self._workers - set(threads):
                self._quiet_since = time.monotonic()
            self._workers = set(threads)
        return self._threads

    def _scattered(self, need: Task) -> Any:
        """A result on the cluster. The last few stay there, since the next tasks often need the same ones."""
        if need.key not in self._needs:
            try:
                self._needs[need.key] = self._call(self._client.scatter, [self._store.load(need)])[0]
            except ClusterError:
                self._counted_at = -inf
                self._count_threads()  # refused if the scheduler is gone; otherwise it has no worker
                raise _NoWorkerError from None
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
            yield from self._stuck()
            return
        if future not in self._running:  # it was sent anew
            return
        if self._quiet_since is not None:
            self._quiet_since = time.monotonic()
        yield from self._results(self._running.pop(future), future)

    def _stuck(self) -> Iterator[tuple[Task, BaseException | None]]:
        """All tasks that are on their way, to be sent anew, if none has ended for long since a worker died."""
        allowed = _STUCK_SECONDS + _STUCK_TASKS * (self._seconds_a_task if self._seconds_a_task < inf else 0.0)
        if self._quiet_since is None or time.monotonic() - self._quiet_since < allowed:
            return
        batches, futures = list(self._running.values()), list(self._running)
        self._running, self._quiet_since = {}, None
        self._needs.clear()
        self._call(self._client.cancel, futures, force=True)
        yield from ((task, WorkerLostError("its worker ended")) for batch in batches for task in batch)

    def _results(self, batch: list[Task], future: Any) -> Iterator[tuple[Task, BaseException | None]]:
        if future.status == "cancelled":
            # A result that was scattered lay on a worker that died. The scheduler cannot make it again and cancels
            # what depends on it, so all are sent anew. A scheduler that is gone is refused by the call.
            self._call(self._client.nthreads)
            self._needs.clear()
            yield from ((task, WorkerLostError("its worker ended")) for task in batch)
            return
        if future.status == "error":
            self._single |= {task.key for task in batch}
            error = future.exception() or RuntimeError("it failed without a reason.")
            yield from ((task, _as_sentence(error)) for task in batch)
            return
        for task, result in zip(batch, self._call(future.result), strict=True):
            if isinstance(result, BaseException):
                yield task, result
                continue
            before = result.seconds if self._seconds_a_task == inf else self._seconds_a_task
            self._seconds_a_task = 0.9 * before + 0.1 * result.seconds
            yield task, self._save(task, result)

    def _save(self, task: Task, result: Timed) -> OSError | None:
        try:
            result.save(task, self._store)
        except OSError as error:
            return error
        return None

    def _call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a function that talks to the scheduler.

        Raises:
            ClusterError: If the scheduler is gone.
        """
        from distributed import CancelledError

        try:
            return function(*args, **kwargs)
        except (OSError, TimeoutError, CancelledError) as error:
            raise self._unreachable(f"does not answer ({type(error).__name__})") from None

    def _unreachable(self, how: str) -> ClusterError:
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
    """Compute tasks on a worker, if it has the same code as the client."""
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


def _as_sentence(error: BaseException) -> BaseException:
    from distributed.scheduler import KilledWorker

    if isinstance(error, KilledWorker):
        return RuntimeError("its workers were killed, perhaps for lack of memory.")
    return error


def check_versions(client: Any) -> None:
    """Refuse workers that have another version of the code."""
    ours = code_version()
    try:
        theirs = client.run(code_version)
    except Exception as error:
        raise ClusterError(
            f"The workers cannot run limitlaw ({error}). Install it on them, with the same libraries."
        ) from None
    for address, version in theirs.items():
        if version != ours:
            raise ClusterError(
                f"The worker {address} has another version of limitlaw or of its libraries than this client. Install the "
                f"same versions on both."
            )

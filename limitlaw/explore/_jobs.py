"""Answers are computed one at a time, remembered, and dropped when nobody waits for them any more."""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from ..numerics import release_compiled

Report = Callable[[float], None]
"""Called with the fraction that is done; raises `Cancelled` when nobody waits."""


def share(report: Report, part: int, parts: int) -> Report:
    """The report of one of so many equal parts.

    Example:
        >>> from limitlaw.explore._jobs import share
        >>> share(print, 1, 2)(0.5)
        0.75
    """
    return lambda done: report((part + done) / parts)


_REMEMBERED = 4 * 10**6  # bytes of answers
_ATTENTION = 0.05  # seconds between looks at whether somebody still waits


class Cancelled(Exception):  # noqa: N818 - nothing went wrong
    """Nobody waits for this answer any more."""


@dataclass
class Job:
    """One computation: how far it is, and whether it is still wanted."""

    done: float = 0.0
    unwanted: threading.Event = field(default_factory=threading.Event)

    def report(self, done: float) -> None:
        """Note the progress, and stop here if the answer is no longer wanted."""
        self.done = done
        if self.unwanted.is_set():
            raise Cancelled


class Jobs:
    """Answers by key: known ones, up to so many bytes, at once; others in turn on one thread, which leaves the other cores to the library."""

    def __init__(self, remembered: int = _REMEMBERED) -> None:
        self._remembered = remembered
        self._held = 0
        self._known: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "limitlaw-explore")
        self._waiting: dict[str, Job] = {}

    def known(self, key: str) -> bytes | None:
        """An answer that is remembered."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)

    def progress(self, tab: str) -> float | None:
        """How far the computation is that a tab waits for; None if it waits for none."""
        job = self._waiting.get(tab)
        return None if job is None else job.done

    async def answer(
        self, tab: str, key: str, make: Callable[[Report], bytes], gone: Callable[[], Awaitable[bool]]
    ) -> bytes:
        """What `make` returns; a newer question of the same tab, or a tab that is `gone`, cancels it between two steps."""
        if (known := self.known(key)) is not None:
            return known
        if tab in self._waiting:
            self._waiting[tab].unwanted.set()
        job = Job()
        if tab:
            self._waiting[tab] = job

        future = asyncio.get_running_loop().run_in_executor(self._thread, self._compute, key, make, job.report)
        try:
            while not future.done():
                await asyncio.wait([future], timeout=_ATTENTION)
                if await gone():
                    job.unwanted.set()
            return future.result()
        finally:
            if self._waiting.get(tab) is job:
                del self._waiting[tab]

    def _compute(self, key: str, make: Callable[[Report], bytes], report: Report) -> bytes:
        report(0.0)
        if (known := self.known(key)) is not None:  # somebody else asked for it meanwhile
            return known
        release_compiled()
        body = make(report)
        self._remember(key, body)
        return body

    def _remember(self, key: str, body: bytes) -> None:
        with self._lock:
            self._known[key] = body
            self._held += len(body)
            while self._held > self._remembered:
                self._held -= len(self._known.popitem(last=False)[1])

    def prepare(self, key: str, make: Callable[[Report], bytes]) -> None:
        """Compute an answer before it is asked for."""
        self._thread.submit(self._compute, key, make, lambda done: None)

    def close(self) -> None:
        """Drop what has not begun; what runs ends at its next step."""
        for job in list(self._waiting.values()):
            job.unwanted.set()
        self._thread.shutdown(wait=False, cancel_futures=True)

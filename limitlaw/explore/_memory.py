"""Memory between answers: what they leave behind is returned to the system, and tables and compiled programs go when they take too much."""

import ctypes
import gc
import os
import re
import threading
from pathlib import Path

import jax

from ..slr import release_tables

# bytes beyond a start at which jax has computed nothing yet; with the parts of its library that it reads later, below 150 MB in all
_ROOM = 85 * 10**6
_CROWDED = 0.5  # of the room, above which one view makes room for another
_MOST_ARENAS = -8  # as glibc's mallopt knows it


def occupied() -> int:
    """Bytes of memory that are this process' own, unlike libraries, which it shares and of which it may read more any time; 0 where the system does not tell.

    !!! Example

        >>> from limitlaw.explore._memory import occupied
        >>> occupied() >= 0
        True
    """
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    own = re.search(r"RssAnon:\s+(\d+) kB", status)
    return 1024 * int(own[1]) if own else 0


def few_arenas() -> None:
    """Let threads share their free memory, where the system has glibc; otherwise each compiling thread keeps its own."""
    if hasattr(_SYSTEM, "mallopt"):
        _SYSTEM.mallopt(_MOST_ARENAS, 2)


class Room:
    """Keeps a process below the memory it started with and `room` bytes.

    A program costs megabytes for as long as it is remembered, and comes back from the disk within a second. If an answer needs
    more than there is room for even alone, it may have it until programs are dropped again.
    """

    def __init__(self, room: int = _ROOM) -> None:
        gc.freeze()  # what is there by now stays, and need not be looked through after every answer
        self._usual = self._most = occupied() + room
        self._crowded = self._usual - (1 - _CROWDED) * room
        self._dropped = False
        self._view = ""
        self._lock = threading.Lock()

    def enter(self, view: str) -> None:
        """Before an answer: the programs of another view go, unless they are few; this one has none of them in common."""
        with self._lock:
            if view != self._view and occupied() > self._crowded:
                release_tables()
                jax.clear_caches()
                _return_unused()
            self._view = view

    def tidy(self) -> None:
        """After an answer: return free memory, and if it is not enough drop the tables of a regression, then the programs."""
        with self._lock:
            _return_unused()
            if occupied() > self._usual:
                release_tables()
                _return_unused()
            if self._dropped:
                self._most = max(self._most, occupied())
                self._dropped = False
            elif occupied() > self._most:
                jax.clear_caches()
                _return_unused()
                self._most, self._dropped = self._usual, True


def _return_unused() -> None:
    gc.collect()
    if hasattr(_SYSTEM, "malloc_trim"):
        _SYSTEM.malloc_trim(0)


_SYSTEM = ctypes.CDLL(None) if os.name == "posix" else None

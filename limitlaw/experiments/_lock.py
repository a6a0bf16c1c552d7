"""A lock on a folder that ends with its process."""

import contextlib
import fcntl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_PATIENCE = 0.1  # seconds between tries: a call that blocks would keep an interrupt waiting


@contextlib.contextmanager
def locked(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a lock file; `waiting` is called once if another process holds it."""
    with open(path, "w") as file:
        if not _take(file, fcntl.LOCK_EX):
            waiting()
            while not _take(file, fcntl.LOCK_EX):
                time.sleep(_PATIENCE)
        yield


def is_locked(path: Path) -> bool:
    """Whether a process holds it."""
    try:
        with open(path) as file:
            return not _take(file, fcntl.LOCK_SH)
    except FileNotFoundError:
        return False


def _take(file: object, how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)  # type: ignore[reportArgumentType]
    except BlockingIOError:
        return False
    return True

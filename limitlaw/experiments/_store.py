"""Results on disk, each under its key; whole or not there at all."""

import contextlib
import json
import os
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from ._task import Result, Task

_FORMAT = 3
_PATIENCE = 0.1  # seconds between looks at whether another run has ended
_MARK = "limitlaw-store.json"
_KEY = "key of the result"  # among its arrays, so that no file can stand in for another


class StoreError(ValueError):
    """A store that cannot be used as it is; the message names the file and what to do."""


class Store:
    """A folder of results by key, for one run at a time.

    A result is written beside its place and moved there in one step, so that a kill leaves the old state or the new one. A folder that
    is not a store, or a result that cannot be read back, is refused by name and never overwritten.

    Example:
        >>> import tempfile, numpy as np
        >>> from limitlaw.experiments import Store, Task
        >>> def squares(*, count):
        ...     return {"squares": np.arange(count) ** 2}
        >>> task = Task("squares", squares, {"count": 3})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store(folder + "/store")
        ...     store.save(task, task.run(), seconds=0.1)
        ...     print(store.has(task), store.load(task)["squares"])
        True [0 1 4]
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.results = self.folder / "results"
        mark = self.folder / _MARK
        if mark.exists():
            self._check(mark)  # before anything in it is touched
        elif self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise StoreError(f"{self.folder} is not a store of limitlaw. Move it away, or choose another folder.")
        self.results.mkdir(parents=True, exist_ok=True)
        if not mark.exists():
            with replacing(mark) as path:
                path.write_text(json.dumps({"store": "limitlaw", "format": _FORMAT}) + "\n")

    def _check(self, mark: Path) -> None:
        try:
            found = json.loads(mark.read_text())
            known = found["store"] == "limitlaw" and found["format"]
        except (ValueError, KeyError, TypeError):
            raise StoreError(
                f"{mark} is damaged, so {self.folder} may be too. Move it away, or choose another folder."
            ) from None
        if known != _FORMAT:
            raise StoreError(
                f"{self.folder} has format {found.get('format')!r}, but this version of limitlaw reads {_FORMAT}. Move it "
                f"away, or choose another folder."
            )

    @contextlib.contextmanager
    def locked(self, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold the store for this process; `waiting` is called once if another one has it. The lock ends with its process."""
        lock = FileLock(self.folder / "lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            waiting()
            lock.acquire(poll_interval=_PATIENCE)
        try:
            remove_parts(self.folder, self.results, *self.results.iterdir())
            yield
        finally:
            lock.release()

    def part(self, name: str) -> Path:
        """A place for what lasts no longer than a run; what a killed one left is removed by the next."""
        return self.folder / f"{name}.part-{os.getpid()}"

    def is_locked(self) -> bool:
        """Whether a run holds the store."""
        if not (self.folder / "lock").exists():
            return False
        try:
            with FileLock(self.folder / "lock", timeout=0):
                return False
        except Timeout:
            return True
        except PermissionError:  # a folder that cannot be written to has no run
            return False

    def path(self, key: str) -> Path:
        """Where the result with a key is, or will be."""
        return self.results / key[:2] / f"{key}.npz"

    def has(self, task: Task) -> bool:
        """Whether the result of a task is there, and whole; a damaged one is refused."""
        path = self.path(task.key)
        if not path.exists():
            return False
        try:
            with zipfile.ZipFile(path) as file:
                broken = file.testzip()
        except (zipfile.BadZipFile, EOFError, zlib.error) as error:
            raise self._damaged(task, error) from None
        if broken:
            raise self._damaged(task, f"{broken} has the wrong check sum")
        self._load(task, _KEY)
        return True

    def _damaged(self, task: Task, reason: Any) -> StoreError:
        return StoreError(
            f"{self.path(task.key)} ({task.name}) is damaged ({reason}); delete it and run again, and it is computed anew."
        )

    def save(self, task: Task, result: Result, *, seconds: float, wall: float = 0.0, first: bool = False) -> None:
        """Keep a result, and beside it what it depends on and how long it took.

        Args:
            task: The task.
            result: Its result.
            seconds: The CPU time that it took.
            wall: The time that it took by the clock.
            first: Whether it was the first of its program in its process, which compiles it.
        """
        path = self.path(task.key)
        path.parent.mkdir(exist_ok=True)
        took = {"seconds": round(seconds, 3), "wall": round(wall, 4), "first": first}
        record = {"name": task.name, **took, **task.record()}
        with replacing(path.with_suffix(".json")) as part:
            part.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
        with replacing(path) as part, open(part, "wb") as file:
            np.savez(file, **{**result, _KEY: np.array(task.key)})  # type: ignore[reportArgumentType]

    def load(self, task: Task) -> Result:
        """The result of a task; a damaged one is refused."""
        return self._load(task)

    def _load(self, task: Task, *names: str) -> Result:
        """Arrays of a result, all of them unless some are named; refused if they are those of another task."""
        try:
            with np.load(self.path(task.key), allow_pickle=False) as file:
                found = str(file[_KEY])
                result = {name: file[name] for name in names or file.files if name != _KEY}
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise self._damaged(task, error) from None
        if found != task.key:
            raise self._damaged(task, "it holds another result")
        return result

    def record(self, task: Task) -> dict[str, Any]:
        """What is kept beside a result; empty if there is none."""
        try:
            return dict(json.loads(self.path(task.key).with_suffix(".json").read_text()))
        except (OSError, ValueError, TypeError):
            return {}

    def seconds(self, task: Task) -> float:
        """The CPU time of the task when it was computed."""
        seconds = self.record(task).get("seconds", 0.0)
        return float(seconds) if isinstance(seconds, int | float) else 0.0


def is_store(folder: Path) -> bool:
    """Whether a folder is a store, of this version or another."""
    return (folder / _MARK).exists()


def remove_parts(*folders: Path) -> None:
    """Remove what runs that were killed had begun to write into these folders with `replacing`.

    Example:
        >>> import tempfile, pathlib
        >>> from limitlaw.experiments import remove_parts
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("numbers.txt", "others.txt.part-4711"):
        ...         pathlib.Path(folder, name).touch()
        ...     remove_parts(pathlib.Path(folder))
        ...     print([path.name for path in pathlib.Path(folder).iterdir()])
        ['numbers.txt']
    """
    for folder in folders:
        for left in folder.glob("*.part-*"):
            if left.is_dir():
                shutil.rmtree(left)
            else:
                left.unlink()


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A place beside `path` to write to, moved onto it at the end, or removed if something went wrong.

    Example:
        >>> import tempfile, pathlib
        >>> from limitlaw.experiments import replacing
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     place = pathlib.Path(folder, "numbers.txt")
        ...     with replacing(place) as part:
        ...         _ = part.write_text("1 2 3")
        ...     place.read_text()
        '1 2 3'
    """
    part = path.with_name(f"{path.name}.part-{os.getpid()}")
    try:
        yield part
        if part.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        os.replace(part, path)
    except BaseException:
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        part.unlink(missing_ok=True)
        raise

"""What tasks cost on this machine: measured while they are computed, and kept for the next run."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ._store import replacing
from ._task import Task

_MOST_KINDS = 5000  # in the file, of which each takes about 100 bytes
_ENOUGH = 0.5  # share of the tasks whose kind must have been measured for an estimate


@dataclass
class _Kind:
    """What is known of the tasks that share a program.

    The first one in a process compiles the program, so that it is measured apart from the others.
    """

    first: float = 0.0  # seconds that the first task takes more than the others
    nominal: float = 0.0  # the sum of `Task.cost` of those that were measured
    seconds: float = 0.0  # and what they took

    @property
    def pace(self) -> float:
        return self.seconds / self.nominal if self.nominal else 0.0


class Costs:
    """Seconds of tasks by the program that they share: a pace for the nominal costs, and the time to compile.

    Args:
        file: Where they are kept; by default `limitlaw/costs.json` in the user's folder of caches.

    Example:
        >>> import tempfile, pathlib
        >>> from limitlaw.experiments import Costs, Task
        >>> def nothing():
        ...     return {}
        >>> tasks = [Task("a", nothing, {}, cost=2.0), Task("b", nothing, {"n": 1}, cost=4.0)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     costs = Costs(pathlib.Path(folder, "costs.json"))
        ...     before = costs.seconds(tasks)
        ...     costs.measured(tasks[0], 3.0, first=True)
        ...     costs.measured(tasks[0], 1.0, first=False)
        ...     print(before, costs.seconds(tasks))
        None 5.0
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file or _usual_file()
        self._kinds: dict[str, _Kind] = {}
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):  # damaged: measured again
            found = json.loads(self._file.read_text(encoding="utf-8"))
            self._kinds = {name: _Kind(*map(float, numbers)) for name, numbers in found.items()}

    def seconds(self, tasks: Iterable[Task], workers: int = 1) -> float | None:
        """The seconds that tasks take on a number of workers; None if too few of their kinds have been measured.

        Compilation counts, and is not shared: the program that takes longest to compile is a lower bound.
        """
        groups: dict[str, tuple[int, float]] = {}
        for task in tasks:
            count, nominal = groups.get(kind_of(task), (0, 0.0))
            groups[kind_of(task)] = count + 1, nominal + task.cost
        return self.of_groups(groups, workers)

    def of_groups(self, groups: dict[str, tuple[int, float]], workers: int = 1) -> float | None:
        """The same, for the number of tasks of each kind and the sum of their nominal costs."""
        total = known_nominal = known_seconds = 0.0
        counted = measured = 0
        for name, (count, nominal) in groups.items():
            counted += count
            kind = self._kinds.get(name)
            if kind is not None:
                measured += count
                seconds = kind.first + kind.pace * nominal
                known_nominal, known_seconds = known_nominal + nominal, known_seconds + seconds
                total += seconds
        if counted and measured < _ENOUGH * counted:
            return None
        # those that are not known are taken to be as the others
        rest = sum(nominal for name, (_, nominal) in groups.items() if name not in self._kinds)
        total += rest * known_seconds / known_nominal if known_nominal else 0.0
        longest = max((self._kinds[name].first for name in groups if name in self._kinds), default=0.0)
        return max(total / workers, longest)

    def measured(self, task: Task, seconds: float, *, first: bool) -> None:
        """Record the seconds that a task took; `first` says that it was the first of its kind in its process."""
        kind = self._kinds.setdefault(kind_of(task), _Kind())
        if first and kind.nominal:
            kind.first = max(seconds - kind.pace * task.cost, 0.0)
        elif first:
            kind.first = seconds
        else:
            if not kind.nominal:  # what the first one took beyond this one was compilation
                kind.first = max(kind.first - seconds, 0.0)
            kind.nominal, kind.seconds = kind.nominal + task.cost, kind.seconds + seconds

    def save(self) -> None:
        """Keep them for the next run, if the folder can be written to."""
        kept = dict(list(self._kinds.items())[-_MOST_KINDS:])
        table = {name: [round(x, 6) for x in (k.first, k.nominal, k.seconds)] for name, k in kept.items()}
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self._file) as part:
                part.write_text(json.dumps(table), encoding="utf-8")


def kind_of(task: Task) -> str:
    """Tasks of one kind run the same compiled program."""
    text = f"{task.compute.__module__}.{task.compute.__qualname__} {task.program}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _usual_file() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "limitlaw" / "costs.json"

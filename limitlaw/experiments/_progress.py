"""What a run shows while it runs: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ._costs import Costs, kind_of
from ._task import Task

_SILENCE = 5.0  # seconds between lines where there is no terminal


class Progress:
    """How far the jobs of a run are, and how long the rest will take.

    The time left is that of the tasks that are left, as they have been measured on this machine, in this run or
    before, divided among the workers. Until enough is known it is "measuring".

    Args:
        jobs: For each job the tasks that it needs.
        console: Where to show it; None shows nothing.
        costs: What tasks cost.
        workers: The number of tasks that are computed at once.

    Example:
        >>> import numpy as np, tempfile, pathlib
        >>> from rich.console import Console
        >>> from limitlaw.experiments import Costs, Progress, Task
        >>> def squares(*, count):
        ...     return {"squares": np.arange(count) ** 2}
        >>> tasks = [Task(f"squares {n}", squares, {"count": n}) for n in (3, 4, 5)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     costs = Costs(pathlib.Path(folder, "costs.json"))
        ...     progress = Progress({"squares": tasks}, None, costs)
        ...     before = progress.note()
        ...     for task in tasks[:2]:
        ...         costs.measured(task, 4.0, first=False)
        ...         progress.done(task)
        >>> before, progress.note()
        ('0 of 3 tasks, measuring', '2 of 3 tasks, about 4 s left')
    """

    def __init__(
        self, jobs: Mapping[str, Sequence[Task]], console: Any, costs: Costs | None = None, workers: int = 1
    ) -> None:
        self._console, self._costs, self._workers = console, costs or Costs(), max(workers, 1)
        self._left = {task.key: task for tasks in jobs.values() for task in tasks}
        self._jobs = {name: {task.key for task in tasks} for name, tasks in jobs.items()}
        self._groups: dict[str, tuple[int, float]] = {}
        for task in self._left.values():
            self._count(task, 1)
        self._total = len(self._left)
        self._start = self._said = time.monotonic()
        self._bar: Any = None

    def _count(self, task: Task, sign: int) -> None:
        kind = kind_of(task)
        count, nominal = self._groups.get(kind, (0, 0.0))
        self._groups[kind] = count + sign, nominal + sign * task.cost
        if self._groups[kind][0] == 0:
            del self._groups[kind]

    @contextmanager
    def showing(self) -> Iterator[Progress]:
        """Show a bar, if there is a terminal to show it on."""
        if self._console is None or not (self._console.is_terminal or self._console.is_jupyter):
            yield self
            return
        from rich.progress import BarColumn, Progress as Bars, TextColumn

        columns = (TextColumn("{task.description}"), BarColumn(24), TextColumn("{task.fields[note]}"))
        with Bars(*columns, console=self._console, transient=True) as bars:
            row = bars.add_task(self._current, total=max(self._total, 1), note=self.note())
            self._bar = bars, row
            try:
                yield self
            finally:
                self._bar = None

    @property
    def _current(self) -> str:
        return next((name for name, keys in self._jobs.items() if keys & self._left.keys()), "")

    def done(self, task: Task) -> None:
        """A task is there."""
        if self._left.pop(task.key, None) is None:
            return
        self._count(task, -1)
        now = time.monotonic()
        if self._bar is not None:
            bars, row = self._bar
            bars.update(row, completed=self._total - len(self._left), description=self._current, note=self.note())
        elif now - self._said > _SILENCE:
            self._said = now
            self.say(f"{self._current}: {self.note()}")

    def say(self, text: str) -> None:
        """A line that stays."""
        if self._console is not None:
            self._console.print(f"{time.monotonic() - self._start:5.0f} s  {text}", highlight=False)

    def note(self) -> str:
        """How many tasks are done, and the time left."""
        seconds = self._costs.of_groups(self._groups, self._workers)
        left = "measuring" if seconds is None else f"about {duration(seconds)} left"
        return f"{self._total - len(self._left)} of {self._total} tasks, {left}"


def duration(seconds: float) -> str:
    """A time in words.

    Example:
        >>> from limitlaw.experiments import duration
        >>> duration(12.3), duration(600), duration(9000)
        ('12 s', '10 minutes', '2.5 hours')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"

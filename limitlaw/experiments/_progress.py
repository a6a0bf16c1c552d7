"""What a run shows while it runs: bars on a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ._task import Task, with_needs

_SILENCE = 5.0  # seconds between lines where there is no terminal
_EXPECTED, _TRUST = (
    0.6,
    15.0,
)  # seconds of a run for each of work, and the work after which the run's own pace counts as much as that


class Progress:
    """How far each job (a named list of tasks) is, and when it will be ready at the present pace.

    Jobs are worked on in their order, so a job is ready when what is left of those before it and of itself is done.

    Example:
        >>> import numpy as np
        >>> from rich.console import Console
        >>> from limitlaw.experiments import Progress, Task
        >>> def squares(*, count):
        ...     return {"squares": np.arange(count) ** 2}
        >>> task = Task("squares", squares, {"count": 3})
        >>> progress = Progress({"squares": [task]}, Console())
        >>> progress.note("squares")
        '1 s left'
        >>> progress.done(task, computed=True)
        >>> progress.note("squares")
        'computed'
    """

    def __init__(self, jobs: Mapping[str, Iterable[Task]], console: Any) -> None:
        self._console, self._bars = console, None
        self._left = {name: {task.key: task.cost for task in with_needs(tasks)} for name, tasks in jobs.items()}
        self._total = {name: sum(left.values()) for name, left in self._left.items()}
        self._start, self._spent, self._said = time.monotonic(), 0.0, time.monotonic()
        self._rows: dict[str, Any] = {}

    @contextmanager
    def showing(self) -> Iterator["Progress"]:
        """Show bars, if there is a terminal to show them on."""
        if not self._console.is_terminal:
            yield self
            return
        from rich.progress import BarColumn, Progress as Bars, TextColumn

        columns = (TextColumn("{task.description:<15}"), BarColumn(24), TextColumn("{task.fields[note]}"))
        with Bars(*columns, console=self._console, transient=True) as self._bars:
            for name, total in self._total.items():
                self._rows[name] = self._bars.add_task(name, total=max(total, 1e-9), note="")
            yield self
            self._bars = None

    def done(self, task: Task, *, computed: bool) -> None:
        """A task is there."""
        if computed:
            self._spent += task.cost
        for left in self._left.values():
            left.pop(task.key, None)
        now = time.monotonic()
        if self._bars is not None:
            for name, row in self._rows.items():
                completed = self._total[name] - sum(self._left[name].values())
                self._bars.update(row, completed=completed, note=self.note(name), visible=bool(self._left[name]))
        elif now - self._said > _SILENCE:
            self._said = now
            waiting = next((name for name, left in self._left.items() if left), None)
            if waiting:
                every = f"; all: {self.note(list(self._left)[-1])}" if len(self._left) > 1 else ""
                self.say(f"{waiting}: {self.note(waiting)}{every}")

    def say(self, text: str) -> None:
        """A line that stays."""
        self._console.print(f"{time.monotonic() - self._start:5.0f} s  {text}", highlight=False)

    def note(self, name: str) -> str:
        """When a job will be ready."""
        if not self._left[name]:
            return "computed"
        ahead: dict[str, float] = {}
        for job, left in self._left.items():
            ahead |= left
            if job == name:
                break
        # a run begins with what is compiled and imported: its pace is believed by and by
        pace = (time.monotonic() - self._start + _EXPECTED * _TRUST) / (self._spent + _TRUST)
        return f"{pace * sum(ahead.values()):.0f} s left"

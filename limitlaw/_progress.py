"""Progress bars of long calls, on the standard error of a terminal or in a notebook.

All bars come from `task`. A nested call joins the display of the outer one, so only one display writes to the terminal.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_PATIENCE = 2.0  # seconds before bars appear; shorter calls show none


Listener = Callable[[int, int | None], None]
"""Called with the steps that are done and their total, if that is known. What it raises ends the call."""


class Task:
    """A bar, or a placeholder without effect if no bars are shown."""

    def __init__(
        self,
        bars: "Progress | None",
        description: str,
        total: int | None,
        compiles: bool,
        listener: Listener | None = None,
    ) -> None:
        self._bars, self._total, self._done, self._listener = bars, total, 0, listener
        if bars is not None:
            note = "compiling" if compiles else ""
            self._row = bars.add_task(description, total=None if compiles else total, note=note)

    def advance(self, count: int = 1) -> None:
        """Report that `count` more steps are done. It may be called on any thread.

        Args:
            count: The number of steps.
        """
        self._done += count
        if self._listener is not None:
            self._listener(self._done, self._total)
        if self._bars is not None:
            note = f"{self._done}" if self._total is None else f"{self._done}/{self._total}"
            # rich resets its speed when a total changes from None to a number, so compilation does not count.
            self._bars.update(self._row, total=self._total, advance=count, note=note)

    def close(self) -> None:
        """Remove the bar."""
        if self._bars is not None:
            self._bars.remove_task(self._row)


class _Display:
    """The bars of the outermost call and of all nested ones, shown after `_PATIENCE` seconds."""

    def __init__(self, console: "Console") -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        text, note = TextColumn("{task.description}"), TextColumn("{task.fields[note]}")
        self.bars = Progress(text, BarColumn(), note, TimeRemainingColumn(), console=console, transient=True)
        self._lock, self._closed = threading.Lock(), False
        self._timer = threading.Timer(_PATIENCE, self._show)  # a timer, as the main thread may wait for the first step
        self._timer.daemon = True
        self._timer.start()

    def _show(self) -> None:
        with self._lock:
            if not self._closed:
                self.bars.start()

    def close(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            self.bars.stop()


_bars: "Progress | None" = None  # of the outermost call
_silent = False  # whether that call wants no bars
_listener: Listener | None = None  # told about the steps of all calls on the main thread, in place of bars


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call a function after each step of every task on the main thread, and show no bars.

    A listener that raises ends the call whose step it heard of, so that a computation can be cancelled between steps.

    Args:
        listener: Called with the number of steps that are done and their total.

    Example:
        >>> from limitlaw import _progress
        >>> with _progress.listening(print), _progress.task("Counting", total=2) as counting:
        ...     counting.advance()
        1 2
    """
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before


@contextmanager
def task(description: str, total: int | None = None, *, compiles: bool = False, show: bool = True) -> Iterator[Task]:
    """A bar during a `with` statement.

    It appears after two seconds, if standard error is a terminal or in a notebook with ipywidgets. Calls on other
    threads than the main one show no bars, because these would overwrite the bars of the call that started the thread.

    Args:
        description: The name of the activity, such as "Drawing".
        total: The number of steps; without it the bar pulses.
        compiles: Whether the first step includes compilation. Until it is done the bar pulses, and the remaining time
        is
            estimated from the steps after it.
        show: Whether to show this bar and those of nested calls.

    Yields:
        The task. Call its `advance` after every step.

    Example:
        >>> from limitlaw import _progress
        >>> with _progress.task("Counting", total=3) as counting:
        ...     for _ in range(3):
        ...         counting.advance()
    """
    global _bars, _silent
    outermost, before = None, (_bars, _silent)
    if threading.current_thread() is not threading.main_thread():
        yield Task(None, description, total, compiles)
        return
    if _listener is not None:
        yield Task(None, description, total, compiles, _listener)
        return
    _silent = _silent or not show
    if _bars is None and not _silent:
        place = console()
        if place is not None:
            outermost = _Display(place)
            _bars = outermost.bars
    row = Task(None if _silent else _bars, description, total, compiles)
    try:
        yield row
    finally:
        row.close()
        if outermost is not None:
            outermost.close()
        _bars, _silent = before


@contextmanager
def allowed(show: bool) -> Iterator[None]:
    """Show no bars within a `with` statement if `show` is false.

    Args:
        show: Whether nested calls may show bars.

    Example:
        >>> from limitlaw import _progress
        >>> with _progress.allowed(False), _progress.task("Counting", total=1) as counting:
        ...     counting.advance()
    """
    global _silent
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before, _silent = _silent, _silent or not show
    try:
        yield
    finally:
        _silent = before


def console() -> "Console | None":
    """Where bars are shown: on standard error, and nowhere if that is a file."""
    from rich.console import Console

    place = Console(stderr=True)
    if place.is_jupyter:
        return place if find_spec("ipywidgets") else None  # without them rich warns in place of a bar
    return place if place.file.isatty() else None

"""Progress bars: when they appear, and that calls within calls share a display."""

import io
import os
import re
import subprocess
import sys
import threading
import time

import pytest
from rich.console import Console

from limitlaw import _progress


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of 100 columns, and bars that appear after 20 ms."""
    console = Console(force_terminal=True, file=io.StringIO(), width=100)
    monkeypatch.setattr(_progress, "console", lambda: console)
    monkeypatch.setattr(_progress, "_PATIENCE", 0.02)
    return console


def text(console):
    """What was written, without colours and movements of the cursor."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())


def work(steps, *, compiles=False, show=True, name="Drawing", seconds=0.15):
    with _progress.task(name, steps, compiles=compiles, show=show) as bar:
        for _ in range(steps):
            time.sleep(seconds)
            bar.advance()


def test_a_long_call_shows_its_steps_and_leaves_nothing(terminal):
    work(4)
    assert "Drawing" in text(terminal)
    assert "2/4" in text(terminal)
    assert re.search(r"\x1b\[2K\x1b\[\?25h\r?$", terminal.file.getvalue())  # the line is erased, the cursor visible


def test_a_short_call_is_silent(terminal, monkeypatch):
    monkeypatch.setattr(_progress, "_PATIENCE", 5.0)
    work(2, seconds=0.01)
    time.sleep(0.1)
    assert text(terminal) == ""


def test_a_call_that_wants_no_bar_is_silent_with_all_within(terminal):
    with _progress.task("Law", show=False):
        work(2)
    work(2, show=False)
    assert text(terminal) == ""
    work(2)  # the silence ends with the call
    assert "Drawing" in text(terminal)


def test_other_threads_are_silent(terminal):
    thread = threading.Thread(target=work, args=(3,))
    thread.start()
    thread.join()
    assert text(terminal) == ""


def test_calls_within_join_the_display(terminal):
    with _progress.task("Distances", 2) as outer:
        for name in ("First", "Second"):
            work(3, name=name)
            outer.advance()
    frames = re.split(r"\r", text(terminal))
    assert any("Distances" in frame and "1/2" in frame for frame in frames)
    assert "First" in text(terminal)
    assert "Second" in text(terminal)
    assert _progress._bars is None


def test_an_error_ends_the_display(terminal):
    def fails():
        with _progress.task("Drawing", 2):
            time.sleep(0.15)
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        fails()
    assert "Drawing" in text(terminal)
    before = text(terminal)
    time.sleep(0.2)
    assert text(terminal) == before
    assert _progress._bars is None


def test_compilation_does_not_count_as_a_step(terminal):
    """A first step of 1.2 s before three of 0.3 s: counted in, it would make the time left 0.6 s too long."""
    with _progress.task("Drawing", 4, compiles=True) as bar:
        time.sleep(1.2)
        assert "compiling" in text(terminal)
        assert "/4" not in text(terminal)
        left = []
        for _ in range(3):
            bar.advance()
            left.append(_progress._bars.tasks[0].time_remaining)
            time.sleep(0.3)
    assert left[0] is None  # nothing is known yet
    assert left[1] <= 1  # rich rounds up to seconds; 2 steps of 0.3 s
    assert left[2] <= 1


PROGRAM = """
import time
from limitlaw import _progress
_progress._PATIENCE = 0.1
with _progress.task("Drawing", 3) as bar:
    for _ in range(3):
        time.sleep(0.2)
        bar.advance()
"""


def test_a_file_gets_no_bar():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="pseudo terminals are those of POSIX")
def test_a_terminal_gets_a_bar_on_standard_error():
    ours, theirs = os.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=theirs, env=environment)
    os.close(theirs)
    assert done.returncode == 0
    assert done.stdout == b""
    assert b"Drawing" in os.read(ours, 100_000)
    os.close(ours)

"""The main job from an empty folder: wall time and peak memory of all its processes. `python benchmarks/reproduction.py`.

Prints a Markdown table. Memory is the sum of the resident sets, so pages that processes share count more than once.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import heading

RUNS = (
    ("attention paper, full counts", ["attention"], "60"),
    ("attention paper, --quick", ["attention", "--quick"], "20"),
    ("everything, full counts", [], ""),
    ("everything, --quick", ["--quick"], ""),
)


def resident(group):
    """Kilobytes held by the processes of a group."""
    total = 0
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group:
                total += int(fields[21]) * 4
        except (OSError, IndexError):
            continue
    return total


def measure(arguments):
    """Seconds and peak kilobytes of one run."""
    program = "from limitlaw.cli import main; main()"
    with tempfile.TemporaryDirectory() as out:
        start = time.perf_counter()
        command = [sys.executable, "-c", program, "reproduce", *arguments, "--out", out]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        peak = 0
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            time.sleep(0.1)
        assert process.returncode == 0
        return time.perf_counter() - start, peak


if __name__ == "__main__":
    print(heading() + "\n")
    print("| `limitlaw reproduce` | seconds | to reach | peak, MiB | to reach |\n|---|---|---|---|---|")
    for name, arguments, goal in RUNS:
        seconds, peak = measure(arguments)
        print(f"| {name} | {seconds:.0f} | {goal} | {peak / 1024:.0f} | 2,048 |", flush=True)

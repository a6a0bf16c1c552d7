"""The main job from an empty folder: wall time and peak memory of all its processes. `python benchmarks/reproduction.py`.

Prints a Markdown table. Memory is the sum of the proportional sets: pages that processes share count once.
"""

import os
import re
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


def held(group):
    """Kilobytes held by the processes of a group."""
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(process.name)) == group:
                total += int(re.search(r"^Pss:\s+(\d+)", (process / "smaps_rollup").read_text(), re.MULTILINE)[1])
        except (OSError, TypeError):  # it has ended
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
            peak = max(peak, held(process.pid))
            time.sleep(0.1)
        assert process.returncode == 0
        return time.perf_counter() - start, peak


if __name__ == "__main__":
    print(heading() + "\n")
    print("| `limitlaw reproduce` | seconds | to reach | peak, MiB | to reach |\n|---|---|---|---|---|")
    for name, arguments, goal in RUNS:
        seconds, peak = measure(arguments)
        print(f"| {name} | {seconds:.0f} | {goal} | {peak / 1024:.0f} | 2,048 |", flush=True)

"""What a table must say about where it was made."""

import os
import platform
import subprocess
from datetime import date


def heading() -> str:
    """Date, commit, hardware and versions, in one line."""
    import jax

    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    versions = f"Python {platform.python_version()}, jax {jax.__version__}"
    return f"{date.today()}, commit {commit or 'unknown'}, {_hardware()}, {versions}"


def _hardware() -> str:
    try:
        with open("/proc/cpuinfo") as info:
            model = next(line.split(":")[1].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor()
    return f"{model}, {os.cpu_count()} cores"

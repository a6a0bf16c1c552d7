"""Tasks that wait, fail and leave traces, in a module that workers can import."""

import os
import signal
import time
from pathlib import Path

import numpy as np

from limitlaw.experiments import Task


def numbers(*, seed, seconds=0.0, trace="", count=100):
    """Random numbers, after a while; `trace` is a file that says which process is at work."""
    if trace:
        with open(trace, "a") as file:
            file.write(f"{os.getpid()}\n")
    time.sleep(seconds)
    return {"numbers": np.random.default_rng(seed).standard_normal(count)}


def fails(*, times, folder, name):
    """Fails so many times, then works."""
    marks = Path(folder)
    tries = len(list(marks.glob(f"{name}-*")))
    (marks / f"{name}-{tries}").touch()
    if tries < times:
        raise RuntimeError(f"on purpose, for the {tries + 1}th time")
    return {"numbers": np.array([tries])}


def busy(*, seed, seconds):
    """Keeps a core busy so long."""
    end = time.process_time() + seconds
    x = np.full(100, float(seed))
    while time.process_time() < end:
        x = np.sqrt(x + 1)
    return {"numbers": x}


def dies(*, times, folder, name):
    """Is killed so many times, as for lack of memory, then works."""
    tries = len(list(Path(folder).glob(f"{name}-*")))
    if tries < times:
        (Path(folder) / f"{name}-{tries}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"numbers": np.array([tries])}


def together(*parts, power, seconds=0.0, trace=""):
    """Needs others, and takes a while."""
    numbers(seed=0, seconds=seconds, trace=trace)
    return {"numbers": sum(part["numbers"] ** power for part in parts)}


def many(tasks, **settings):
    return [Task(f"numbers {seed}", numbers, {"seed": seed, **settings}) for seed in range(tasks)]

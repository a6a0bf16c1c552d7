"""What a cluster costs: `make bench`, or `python benchmarks/cluster.py`. Prints a Markdown table.

1,000 tasks of 50 ms on two workers of one thread against the ideal of two that never wait, and 10,000 tasks of nothing. Start-up is not counted.
"""

import resource
import tempfile
import time

import numpy as np
from machine import heading

from limitlaw.experiments import Cluster, Store, Task, complete

WORKERS = 2


def busy(*, seed, seconds):
    """Keep a core busy so long, and say for how long."""
    start = time.perf_counter()
    end = time.process_time() + seconds
    x = np.full(100, float(seed))
    while time.process_time() < end:
        x = np.sqrt(x + 1)
    return {"numbers": x, "seconds": np.array(time.perf_counter() - start)}


def measured(client, count, seconds):
    """Seconds for all, the share of them that workers computed, and the most futures on their way."""
    tasks = [Task(f"task {seed}", busy, {"seed": seed, "seconds": seconds}) for seed in range(count)]
    most = 0
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder + "/store")
        start = time.perf_counter()
        for _ in complete(tasks, store, client=client):
            most = max(most, len(client.futures))
        elapsed = time.perf_counter() - start
        computing = sum(float(store.load(task)["seconds"]) for task in tasks)
    return elapsed, computing / (WORKERS * elapsed), most


if __name__ == "__main__":
    print(heading())
    print("\n| tasks on local:2 | s | ideal, s | ratio | to reach | workers busy | to reach | on their way, at most |")
    print("|:--|--:|--:|--:|--:|--:|--:|--:|")
    with Cluster.of(f"local:{WORKERS}").client() as client:
        measured(client, 10, 0.01)
        for count, seconds, reach, busy_reach in ((1_000, 0.05, "1.3", "80 %"), (10_000, 0.0, "", "")):
            elapsed, share, most = measured(client, count, seconds)
            ideal = count * seconds / WORKERS
            ratio = f"{elapsed / ideal:.2f}" if ideal else ""
            shown = f"{100 * share:.0f} %" if ideal else ""
            print(
                f"| {count:,} of {1e3 * seconds:.0f} ms | {elapsed:.1f} | {ideal:.1f} | {ratio} | {reach} | {shown} | {busy_reach} | {most} |"
            )
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\nPeak memory of the client with its scheduler: {memory:.0f} MiB.")

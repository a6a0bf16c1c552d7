"""Single-location regression: tables, risks, descents, simulation. `python benchmarks/regression.py`.

Prints a Markdown table: seconds, beside what was asked for. Risks are printed with their references.
"""

import time

import numpy as np
from machine import heading

from limitlaw import slr

FIGURE_2 = {"dim": 100, "tokens": 20, "gamma": 2**-0.5, "beta": 1.0, "noise": 0.1}


def seconds(work, repeat=1):
    """The best of a few runs."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def fresh(**settings):
    """A problem whose tables are not built."""
    slr.release_tables()
    return slr.Problem(**{**FIGURE_2, **settings})


def rows():
    yield "tables, d = 100, L = 20", seconds(lambda: fresh().risk(0.0, 0.0), 3), 0.5
    p = fresh()
    p.risk(0.0, 0.0)
    yield "one exact risk, tables built", seconds(lambda: p.risk(0.3, 0.2, 0.1, 0.05, -0.1), 20), 1e-3
    points = np.random.default_rng(0).uniform(-0.4, 0.4, (5, 1000))
    yield "1,000 exact risks at once", seconds(lambda: p.risk(*points), 3), None
    start = [0.3, 0.2, 0.1, 0.05, -0.1]
    for link, goal in (("linear", 1.0), ("quadratic", 30.0), ("relu", 30.0)):
        q = slr.Problem(**FIGURE_2, link=link)
        q.gradient(*start)
        yield f"2,000 exact steps, {link}", seconds(lambda q=q: slr.descent(q, 2000, start=start, every=100)), goal
    hard = {"beta": 10.0}
    yield (
        "score scale 100: tables and 2,000 steps",
        seconds(lambda: slr.descent(fresh(**hard), 2000, start=start, every=100)),
        30.0,
    )
    eight = slr.start(p, count=8)
    yield (
        "simulation, n = 1,000, 2,500 steps, 8 starts",
        seconds(lambda: slr.simulate(p, 1000, 2500, start=eight, every=25)),
        30.0,
    )
    yield "baselines, d = 100, L = 20", seconds(lambda: slr.baselines(p)), None


if __name__ == "__main__":
    print(heading() + "\n")
    print("| | seconds | to reach |\n|---|---|---|")
    for name, took, goal in rows():
        print(f"| {name} | {took:.3g} | {'' if goal is None else f'{goal:g}'} |", flush=True)
    oracle = slr.Problem(100, 20, 0.5).risk(1, 1)
    print(f"\noracle's risk at d = 100, L = 20, gamma = 1/2: {oracle:.9g} (reference 9.12573873e-14)")

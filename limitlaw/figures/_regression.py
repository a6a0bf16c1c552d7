"""What the figures of single-location regression compute: each function is a task, from settings to arrays."""

from typing import Any

import numpy as np

from .. import slr
from ..experiments import REGRESSION, Result, Task
from ..slr import Descent, Problem

Plain = dict[str, Any]

FIGURE_2: Plain = {"dim": 100, "tokens": 20, "gamma": 2**-0.5, "beta": 1.0, "noise": 0.1}
"""The setting of the paper's figure 2; the link is added to it."""
STEP_SIZE = 0.01
EVERY = 20
LEARNED = 0.05
"""An excess risk below which a descent has found the signal; the plateaus are at 1 and above."""


def task(name: str, compute: Any, cost: float, **settings: Any) -> Task:
    """A task whose result depends on the regression alone."""
    return Task(name, compute, settings, packages=REGRESSION, cost=cost, program=f"slr {compute.__name__}")


def starts(problem: Plain, kind: str, count: int, seed: int, **given: float) -> list[list[float]]:
    """Overlaps to begin with, as JSON holds them."""
    return slr.start(Problem(**problem), kind, count, seed=seed, **given).tolist()


def descent(*, problem: Plain, start: list, steps: int, method: str, alpha: float | None) -> Result:
    """Descent of the overlaps on the population risk."""
    return _arrays(
        slr.descent(
            Problem(**problem), steps, STEP_SIZE, start, method=method, alpha=alpha, every=EVERY, progress=False
        )
    )


def simulation(*, problem: Plain, start: list, steps: int, samples: int, seed: int) -> Result:
    """Descent in the space itself on an empirical risk."""
    return _arrays(
        slr.simulate(Problem(**problem), samples, steps, STEP_SIZE, seed, start=start, every=EVERY, progress=False)
    )


def _arrays(run: Descent) -> Result:
    return {"step": run.at, "overlaps": run.overlaps, "risk": run.risk}


def landscape(*, problem: Plain, mu: list, nu: list, method: str, alpha: float | None) -> Result:
    """Risk and velocity on the plane `eta = zeta = rho = 0`."""
    p, grid = Problem(**problem), np.meshgrid(mu, nu)
    return {
        "risk": p.risk(*grid, method=method, alpha=alpha),
        "velocity": slr.vector_field(p, *grid, method=method, alpha=alpha),
    }


def stationary(*, problem: Plain, alpha: float) -> Result:
    """Where the mean-field flow rests, and the kinds of these points."""
    points = slr.stationary_points(Problem(**problem), alpha=alpha)
    return {
        "place": np.array([(point.mu, point.nu) for point in points]),
        "kind": np.array([point.kind for point in points]),
    }


def basins(*, problem: Plain, mu: list, nu: list, steps: int, method: str, alpha: float | None) -> Result:
    """When descent from each start of the plane learns."""
    found = slr.basins(
        Problem(**problem),
        mu,
        nu,
        steps=steps,
        step_size=STEP_SIZE,
        level=LEARNED,
        method=method,
        alpha=alpha,
        progress=False,
    )
    return {"learned_at": found.learned_at, "final_risk": found.final_risk}


def phases(*, problem: Plain, x: str, y: str, x_values: list, y_values: list) -> Result:
    """The phases over two parameters, and the oracle's exact risk."""
    found = slr.phase_diagram(Problem(**problem), x, y, x_values=x_values, y_values=y_values, progress=False)
    return {"level": found.level, "critical": found.critical, "risk": found.risk}


def baselines(*, problem: Plain, tokens: int) -> Result:
    """Every predictor at one number of tokens."""
    found = slr.baselines(Problem(**problem, tokens=tokens), progress=False)
    return {name: np.array(risk) for name, risk in found.items()}

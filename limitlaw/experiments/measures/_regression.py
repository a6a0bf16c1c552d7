"""Measures of single-location regression: risks, descents, maps, phases and baselines."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ... import _checks, slr
from ..._checks import ArgumentError
from ...slr import BASELINES, Problem
from .._family import OVERLAPS
from .._task import REGRESSION, Result, Task
from ._measure import Measure, Trial, Variable, seed_of

if TYPE_CHECKING:
    from .._study import Study

Plain = dict[str, Any]
Starts = int | Sequence[Sequence[float]] | None
"""Where descents begin: at rows of five overlaps, at a number of uniform starts, or at the overlaps of the study."""

_RISKS = {
    "risk": ("exact", "excess risk"),
    "mean_field_risk": ("mean-field", "mean-field risk"),
    "refined_risk": ("refined", "refined risk"),
}
_METHODS = ("exact", "mean-field")
_MOST_POINTS = 16  # stationary points of a flow on the plane, more than any link has


class RegressionMeasure(Measure):
    """A measure of a regression problem. It is exact, so that trials are the same."""

    of = "problem"
    needs_trials = False

    def _task(
        self, trial: Trial, compute: Callable[..., Result], settings: Mapping[str, Any], cost: float, name: str = ""
    ) -> Task:
        given = {"problem": dict(trial.settings["problem"]), **settings}
        return trial.task(compute, given, name=name, packages=REGRESSION, cost=cost, program=f"slr {compute.__name__}")

    def _options(self) -> dict[str, Any]:
        """Its fields but the name, as plain data."""
        fields: Any = self
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(fields) if field.name != "name"}


@dataclass(frozen=True)
class Risk(RegressionMeasure):
    """The excess risk at the overlaps of the study.

    Args:
        name: "risk", exact at this dimension and number of tokens; "mean_field_risk"; or "refined_risk".
    """

    name: str = "risk"

    def __post_init__(self) -> None:
        _checks.one_of("name", self.name, _RISKS)

    def variables(self) -> Mapping[str, Variable]:
        return {self.name: Variable(_RISKS[self.name][1])}

    def task(self, trial: Trial) -> Task:
        what = {"overlaps": trial.settings["overlaps"], "measure": [measure.name for measure in trial.measures(Risk)]}
        return trial.once(Risk, lambda: self._task(trial, risks, what, 0.01))


@dataclass(frozen=True, kw_only=True)
class Descent(RegressionMeasure):
    """Gradient descent on the population risk, `slr.descent`: `_risk` and `_overlap` along `start` and `step`.

    Args:
        steps: The number of steps.
        step_size: The length that multiplies the gradient.
        start: Rows of five overlaps; or a number of uniform starts; by default the overlaps of the study.
        method: "exact" or "mean-field".
        alpha: Replaces `log L / d` in the mean field.
        every: Which steps are recorded; the last one is too.
        name: What its variables begin with.

    Example:
        >>> from limitlaw.experiments import Descent, Study
        >>> data = Study({"dim": 20, "tokens": 5}, {}, [Descent(steps=40, start=2)]).dataset()
        >>> data.descent_risk.dims, data.step.values.tolist()
        (('start', 'step'), [0, 20, 40])
    """

    steps: int = 2000
    step_size: float = 0.01
    start: Starts = None
    method: str = "exact"
    alpha: float | None = None
    every: int = 20
    name: str = "descent"

    def __post_init__(self) -> None:
        _check_descent(self)
        _checks.one_of("method", self.method, _METHODS)

    def variables(self) -> Mapping[str, Variable]:
        return _along_steps(self.name)

    def coordinates(self, study: "Study") -> Mapping[str, np.ndarray]:
        return _coordinates(self)

    def task(self, trial: Trial) -> Task:
        settings = {**self._options(), "start": _starts(self.start, trial), "name": self.name}
        cost = 0.1 + (5e-3 if self.method == "exact" else 1e-5) * self.steps
        return self._task(trial, descent, settings, cost, self.name)


@dataclass(frozen=True, kw_only=True)
class Simulation(RegressionMeasure):
    """Gradient descent on the empirical risk of `samples` sequences, `slr.simulate`.

    Its variables are those of `Descent`. The sequences are those of the trial; `samples` is that of the study, or an
    axis.

    Args:
        steps: The number of steps.
        step_size: The length that multiplies the gradient.
        start: As for `Descent`.
        every: Which steps are recorded, a divisor of `steps`.
        name: What its variables begin with.

    Example:
        >>> from limitlaw.experiments import Simulation, Study
        >>> study = Study({"dim": 20, "tokens": 5}, {"samples": [50, 100]}, [Simulation(steps=40, start=2)])
        >>> study.variables["simulation_risk"].dims
        ('samples', 'trial', 'start', 'step')
    """

    needs_trials = True

    steps: int = 2000
    step_size: float = 0.01
    start: Starts = None
    every: int = 20
    name: str = "simulation"

    def __post_init__(self) -> None:
        _check_descent(self)
        if self.steps % self.every:
            raise ArgumentError("every", f"every={self.every} must be a divisor of steps={self.steps}.")

    def variables(self) -> Mapping[str, Variable]:
        return _along_steps(self.name)

    def coordinates(self, study: "Study") -> Mapping[str, np.ndarray]:
        return _coordinates(self)

    def task(self, trial: Trial) -> Task:
        start = _starts(self.start, trial)
        what = {**self._options(), "start": start, "name": self.name, "samples": trial.samples, "seed": trial.seed()}
        cost = 1 + 1.4e-6 * self.steps * trial.samples
        return self._task(trial, simulation, what, cost, self.name)


@dataclass(frozen=True, kw_only=True)
class Landscape(RegressionMeasure):
    """Risk and velocity on the plane `eta = zeta = rho = 0`: `_risk` and `_velocity` along `plane_nu`, `plane_mu`.

    Args:
        mu: The values of `mu` on the plane.
        nu: The values of `nu`.
        method: "exact" or "mean-field".
        alpha: Replaces `log L / d` in the mean field.
        name: What its variables begin with.

    Example:
        >>> from limitlaw.experiments import Landscape, Study
        >>> data = Study({"dim": 20, "tokens": 5}, {}, [Landscape(mu=[0, 1], nu=[0, 1])]).dataset()
        >>> bool(data.landscape_risk.sel(plane_mu=1, plane_nu=1) < 0.1)
        True
    """

    mu: Sequence[float] = tuple(np.linspace(-0.995, 0.995, 41))
    nu: Sequence[float] = tuple(np.linspace(-0.995, 0.995, 41))
    method: str = "exact"
    alpha: float | None = None
    name: str = "landscape"

    def __post_init__(self) -> None:
        _checks.one_of("method", self.method, _METHODS)
        _keep_numbers(self, "mu", "nu")

    def variables(self) -> Mapping[str, Variable]:
        plane = ("plane_nu", "plane_mu")
        return {
            f"{self.name}_risk": Variable("excess risk", plane),
            f"{self.name}_velocity": Variable("velocity of the flow", (*plane, "component")),
        }

    def coordinates(self, study: "Study") -> Mapping[str, np.ndarray]:
        return {**_plane(self.mu, self.nu), "component": np.array(["mu", "nu"])}

    def task(self, trial: Trial) -> Task:
        cost = 0.02 + 5e-5 * len(self.mu) * len(self.nu)
        return self._task(trial, landscape, {**self._options(), "name": self.name}, cost, self.name)


@dataclass(frozen=True, kw_only=True)
class StationaryPoints(RegressionMeasure):
    """The stationary points of the mean-field flow on that plane: `_place` and `_kind` along `point`.

    Args:
        alpha: Replaces `log L / d`; None leaves it.
        name: What its variables begin with.

    Example:
        >>> from limitlaw.experiments import StationaryPoints, Study
        >>> data = Study({"dim": 20, "tokens": 5}, {}, [StationaryPoints()]).dataset()
        >>> sorted({str(kind) for kind in data.stationary_kind.values if kind})
        ['saddle', 'sink', 'source']
    """

    alpha: float | None = 0.0
    name: str = "stationary"

    def variables(self) -> Mapping[str, Variable]:
        return {
            f"{self.name}_place": Variable("stationary point", ("point", "component")),
            f"{self.name}_kind": Variable("", ("point",), "<U10"),
        }

    def coordinates(self, study: "Study") -> Mapping[str, np.ndarray]:
        return {"point": np.arange(1, _MOST_POINTS + 1), "component": np.array(["mu", "nu"])}

    def task(self, trial: Trial) -> Task:
        return self._task(trial, stationary, {**self._options(), "name": self.name}, 0.1, self.name)


@dataclass(frozen=True, kw_only=True)
class Basins(RegressionMeasure):
    """From which starts of that plane descent learns: `_learned_at` and `_final_risk` along `plane_nu`, `plane_mu`.

    Args:
        mu: The values of `mu` of the starts.
        nu: The values of `nu`.
        steps: The number of steps.
        step_size: The length that multiplies the gradient.
        level: The risk below which a start has learned.
        method: "exact" or "mean-field".
        alpha: Replaces `log L / d` in the mean field.
        name: What its variables begin with.

    Example:
        >>> from limitlaw.experiments import Basins, Study
        >>> data = Study({"dim": 20, "tokens": 5}, {}, [Basins(mu=[0.5], nu=[0.5], steps=500)]).dataset()
        >>> bool(data.basins_final_risk < 0.5)
        True
    """

    mu: Sequence[float] = tuple(np.linspace(-0.9, 0.9, 19))
    nu: Sequence[float] = tuple(np.linspace(-0.9, 0.9, 19))
    steps: int = 2000
    step_size: float = 0.01
    level: float = 0.01
    method: str = "exact"
    alpha: float | None = None
    name: str = "basins"

    def __post_init__(self) -> None:
        _checks.one_of("method", self.method, _METHODS)
        _checks.positive_integer("steps", self.steps)
        _keep_numbers(self, "mu", "nu")

    def variables(self) -> Mapping[str, Variable]:
        plane = ("plane_nu", "plane_mu")
        return {
            f"{self.name}_learned_at": Variable("step at which descent has learned", plane),
            f"{self.name}_final_risk": Variable("excess risk at the last step", plane),
        }

    def coordinates(self, study: "Study") -> Mapping[str, np.ndarray]:
        return _plane(self.mu, self.nu)

    def task(self, trial: Trial) -> Task:
        cost = 0.1 + 4e-6 * self.steps * len(self.mu) * len(self.nu)
        return self._task(trial, basins, {**self._options(), "name": self.name}, cost, self.name)


@dataclass(frozen=True, kw_only=True)
class Phases(RegressionMeasure):
    """The phases over two parameters, `slr.phase_diagram`: `_level`, `_critical` and `_risk` along `phase_y`, `phase_x`.

    Args:
        x: The parameter along x, "alpha" or "mu".
        y: The parameter along y, "gamma" or "beta".
        x_values: The values along x.
        y_values: The values along y.
        name: What its variables begin with.

    Example:
        >>> from limitlaw.experiments import Phases, Study
        >>> data = Study({"dim": 20, "tokens": 5}, {}, [Phases(x_values=[0.1, 0.3], y_values=[0.4, 0.6])]).dataset()
        >>> data.phases_level.dims
        ('phase_y', 'phase_x')
    """

    x: str = "alpha"
    y: str = "gamma"
    x_values: Sequence[float] = tuple(np.linspace(0.02, 0.7, 19))
    y_values: Sequence[float] = tuple(np.linspace(0.1, 0.95, 19))
    name: str = "phases"

    _labels: ClassVar[dict[str, str]] = {
        "level": "c μ − ψ",
        "critical": "β − √(2α)",
        "risk": "exact excess risk of the oracle",
    }

    def __post_init__(self) -> None:
        _checks.one_of("x", self.x, ("alpha", "mu"))
        _checks.one_of("y", self.y, ("gamma", "beta"))
        _keep_numbers(self, "x_values", "y_values")

    def variables(self) -> Mapping[str, Variable]:
        return {f"{self.name}_{key}": Variable(label, ("phase_y", "phase_x")) for key, label in self._labels.items()}

    def coordinates(self, study: "Study") -> Mapping[str, np.ndarray]:
        return {"phase_x": np.array(self.x_values), "phase_y": np.array(self.y_values)}

    def task(self, trial: Trial) -> Task:
        points = len(self.x_values) * len(self.y_values)
        return self._task(trial, phases, {**self._options(), "name": self.name}, 0.1 + 0.005 * points, self.name)


@dataclass(frozen=True)
class Baselines(RegressionMeasure):
    """The excess risks of other predictors, `slr.baselines`, along a dimension `predictor`.

    Example:
        >>> from limitlaw.experiments import Baselines, Study
        >>> data = Study({"dim": 20, "tokens": 5}, {}, [Baselines()]).dataset()
        >>> round(float(data.baselines.sel(predictor="zero")), 3)
        0.5
    """

    name = "baselines"

    def variables(self) -> Mapping[str, Variable]:
        return {"baselines": Variable("excess risk", ("predictor",))}

    def coordinates(self, study: "Study") -> Mapping[str, np.ndarray]:
        return {"predictor": np.array(list(BASELINES))}

    def task(self, trial: Trial) -> Task:
        return self._task(trial, baselines, {}, 0.2, "baselines")


def _check_descent(measure: Descent | Simulation) -> None:
    for name in ("steps", "every"):
        _checks.positive_integer(name, getattr(measure, name))
    if not _checks.finite_number("step_size", measure.step_size) > 0:
        raise ArgumentError("step_size", f"step_size={measure.step_size} must be positive.")
    start = measure.start
    if isinstance(start, int):
        _checks.positive_integer("start", start)
    elif start is not None:
        rows = _checks.finite_array("start", start, 2)
        if rows.shape[1] != len(OVERLAPS):
            raise ArgumentError("start", f"start has rows of {rows.shape[1]} overlaps. Give 5: {', '.join(OVERLAPS)}.")
        object.__setattr__(measure, "start", tuple(tuple(map(float, row)) for row in rows))


def _keep_numbers(measure: RegressionMeasure, *names: str) -> None:
    """Sequences of numbers become tuples, so that measures can be compared and hashed."""
    for name in names:
        values = _checks.finite_array(name, getattr(measure, name), 1)
        object.__setattr__(measure, name, tuple(map(float, values)))


def _starts(start: Starts, trial: Trial) -> list[list[float]]:
    """Rows of overlaps. Uniform ones depend on the dimension and the seed alone, so that descents of a study share them."""
    problem, overlaps = trial.settings["problem"], trial.settings["overlaps"]
    if start is None:
        return [[float(overlaps.get(name, 0.0)) for name in OVERLAPS]]
    if isinstance(start, int):
        seed = seed_of(trial.study.seed, {"starts": problem["dim"]}, trial.number)
        return slr.start(Problem(**problem), "uniform", start, seed=seed).tolist()
    return [list(row) for row in start]


def _along_steps(name: str) -> dict[str, Variable]:
    return {
        f"{name}_risk": Variable("excess risk", ("start", "step")),
        f"{name}_overlap": Variable("overlap", ("start", "step", "overlap")),
    }


def _coordinates(measure: Descent | Simulation) -> dict[str, np.ndarray]:
    start = measure.start
    count = 1 if start is None else start if isinstance(start, int) else len(start)
    return {
        "start": np.arange(1, count + 1),
        "step": np.unique([*range(0, measure.steps + 1, measure.every), measure.steps]),
        "overlap": np.array(OVERLAPS),
    }


def _plane(mu: Sequence[float], nu: Sequence[float]) -> dict[str, np.ndarray]:
    return {"plane_mu": np.array(mu), "plane_nu": np.array(nu)}


def risks(*, problem: Plain, overlaps: dict[str, float], measure: list[str]) -> Result:
    """Excess risks at overlaps."""
    p = Problem(**problem)
    return {name: np.asarray(p.risk(**overlaps, method=_RISKS[name][0])) for name in measure}


def descent(
    *,
    problem: Plain,
    steps: int,
    step_size: float,
    start: list,
    method: str,
    alpha: float | None,
    every: int,
    name: str,
) -> Result:
    """Descent of the overlaps on the population risk."""
    how: dict[str, Any] = {"method": method, "alpha": alpha, "every": every, "progress": False}
    return _recorded(name, slr.descent(Problem(**problem), steps, step_size, start, **how))


def simulation(
    *, problem: Plain, steps: int, step_size: float, start: list, every: int, name: str, samples: int, seed: int
) -> Result:
    """Descent in the space itself on an empirical risk."""
    how: dict[str, Any] = {"start": start, "every": every, "progress": False}
    return _recorded(name, slr.simulate(Problem(**problem), samples, steps, step_size, seed, **how))


def _recorded(name: str, run: slr.Descent) -> Result:
    return {f"{name}_risk": run.risk, f"{name}_overlap": run.overlaps}


def landscape(*, problem: Plain, mu: list, nu: list, method: str, alpha: float | None, name: str) -> Result:
    """Risk and velocity on the plane `eta = zeta = rho = 0`."""
    p, grid = Problem(**problem), np.meshgrid(mu, nu)
    return {
        f"{name}_risk": p.risk(*grid, method=method, alpha=alpha),
        f"{name}_velocity": slr.vector_field(p, *grid, method=method, alpha=alpha),
    }


def stationary(*, problem: Plain, alpha: float | None, name: str) -> Result:
    """The stationary points of the mean-field flow, and their kinds."""
    points = slr.stationary_points(Problem(**problem), alpha=alpha)
    return {
        f"{name}_place": np.array([(point.mu, point.nu) for point in points]).reshape(-1, 2),
        f"{name}_kind": np.array([point.kind for point in points], "<U10"),
    }


def basins(*, problem: Plain, name: str, **how: Any) -> Result:
    """When descent from each start of the plane learns."""
    found = slr.basins(Problem(**problem), how.pop("mu"), how.pop("nu"), **how, progress=False)
    return {f"{name}_learned_at": found.learned_at, f"{name}_final_risk": found.final_risk}


def phases(*, problem: Plain, x: str, y: str, x_values: list, y_values: list, name: str) -> Result:
    """The phases over two parameters, and the oracle's exact risk."""
    found = slr.phase_diagram(Problem(**problem), x, y, x_values=x_values, y_values=y_values, progress=False)
    return {f"{name}_level": found.level, f"{name}_critical": found.critical, f"{name}_risk": found.risk}


def baselines(*, problem: Plain) -> Result:
    """The excess risks of all predictors."""
    found = slr.baselines(Problem(**problem), progress=False)
    return {"baselines": np.array([found[name] for name in BASELINES])}

"""The view of single-location regression: its risk over the overlaps, descent, phases, baselines."""

import functools
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from .. import slr
from ..slr import BASELINES, LINKS, Descent, PhaseDiagram, Problem
from ._jobs import Report, share
from ._panels import Panel, curve, figure, heat_map
from ._python import call
from ._state import State, control

_GRID, _COARSE = 41, 21
_FAST = ("linear", "quadratic")  # links whose risks are polynomials
_KEPT, _LEG = 100, 10  # points of a trajectory, and of a part of it
_OBSERVED = ("mu", "nu", "risk")
_DIAGRAM, _COARSE_DIAGRAM = 20, 10  # values along an axis; even, since a diagram is made of two rows at a time
_DIAGRAMS = {"alpha, gamma": ("alpha", "gamma"), "alpha, beta": ("alpha", "beta"), "mu, beta": ("mu", "beta")}
_LENGTHS = (2, 5, 20, 100, 1000)
_SHOWN = ("linear_attention", "erf_best", "best_pointwise", "softmax", "bayes_full", "softmax_best")
_RUNS = ("landscape", "descent")  # the parts that show a descent
_METHODS = {"exact": "finite", "mean-field": "limit"}


@dataclass(frozen=True)
class Regression(State):
    """A problem of single-location regression, and where descent starts."""

    dim: int = control(100, "Dimension d", "count", low=4, high=1000, logarithmic=True, group="Problem")
    tokens: int = control(20, "Tokens L", "count", low=2, high=10**6, logarithmic=True, group="Problem")
    gamma: float = control(
        0.7, "Spread γ", "number", low=0.05, high=1.0, group="Problem",
        hint="Standard deviation of the token with the signal, which is √((1 − γ²) d).",
    )  # fmt: skip
    beta: float = control(
        1.0, "Inverse temperature β", "number", low=0.01, high=4.0, group="Problem", hint="Scores are β √d x·u."
    )
    link: str = control("linear", "Link", "choice", choices=tuple(LINKS), group="Problem")
    mu: float = control(
        0.3,
        "Start μ = u·u*",
        "number",
        low=-1.0,
        high=1.0,
        group="Descent",
        parts=_RUNS,
        hint="Or click into the landscape.",
    )
    nu: float = control(0.1, "Start ν = v·v*", "number", low=-1.0, high=1.0, group="Descent", parts=_RUNS)
    steps: int = control(300, "Steps", "count", low=10, high=1000, group="Descent", parts=_RUNS, hint="Of size 0.01.")
    diagram: str = control(
        "mu, beta", "Phases over", "choice", choices=tuple(_DIAGRAMS), group="Phase diagram", parts=("phases",)
    )

    def check(self) -> None:
        self.problem()

    def problem(self) -> Problem:
        """The problem that the fields describe."""
        return Problem(**self.settings())

    def settings(self) -> dict[str, Any]:
        """The arguments of the problem."""
        return {name: getattr(self, name) for name in ("dim", "tokens", "gamma", "beta", "link")}

    @property
    def start(self) -> list[float]:
        """The five overlaps that descent starts from."""
        return [self.mu, self.nu, 0.0, 0.0, 0.0]

    @property
    def every(self) -> int:
        """Which steps are kept."""
        return max(1, self.steps // _KEPT)

    @property
    def leg(self) -> int:
        """How many steps are computed between two looks at whether they are still wanted."""
        return _LEG * self.every


@functools.lru_cache(64)
def _landscape(problem: Problem, method: str, points: int) -> tuple[np.ndarray, np.ndarray]:
    """The grid, and the risk on it; apart from the start, so that a click costs only its descent."""
    grid = np.linspace(-1, 1, points)
    return grid, problem.risk(grid[None, :], grid[:, None], method=method)


@functools.lru_cache(512)
def _leg(state: Regression, method: str, number: int) -> Descent:
    """Steps of descent, from where those before end."""
    start = _leg(state, method, number - 1).overlaps[-1] if number else state.start
    left = state.steps - number * state.leg
    steps = min(state.leg, left)
    return slr.descent(state.problem(), steps, start=start, method=method, every=state.every, progress=False)


def _descent(state: Regression, method: str, report: Report) -> dict[str, np.ndarray]:
    """Steps, overlaps and risk along descent, leg by leg: each can be the last if nobody waits any more."""
    legs, count = [], -(-state.steps // state.leg)
    for number in range(count):
        report(number / count)
        legs.append(_leg(state, method, number))
    at = np.concatenate([number * state.leg + leg.at[number > 0 :] for number, leg in enumerate(legs)])
    observed = ((name, [getattr(leg, name)[number > 0 :] for number, leg in enumerate(legs)]) for name in _OBSERVED)
    return {"at": at, **{name: np.concatenate(parts) for name, parts in observed}}


def landscape(state: Regression, report: Report) -> Panel:
    """The risk over (mu, nu), exact and in mean field, each with the descent from the start."""
    return _landscapes(state, report, _GRID, tuple(_METHODS))


def landscape_sketch(state: Regression, report: Report) -> Panel | None:
    """On a coarser grid, and without the exact descent, of a link for which these take long."""
    return None if state.link in _FAST else _landscapes(state, report, _COARSE, ("mean-field",))


def _landscapes(state: Regression, report: Report, points: int, methods: tuple[str, ...]) -> Panel:
    """With the descents by these methods."""
    maps, paths = [], []
    for i, method in enumerate(_METHODS):
        own = share(report, i, len(_METHODS))
        own(0.0)
        grid, risk = _landscape(state.problem(), method, points)
        maps.append(heat_map(f"{method} risk", grid, grid, risk))
        if method in methods:
            run = _descent(state, method, own)
            paths.append(curve(f"descent, {method}", run["mu"], run["nu"], mode="lines+markers", on_map=i))
    return figure(
        "μ", "ν", paths, maps, click=("mu", "nu"),
        notes=[
            "η = ζ = ρ = 0 on the map and at the start; descent may leave that plane. "
            "The line is the descent; click to start elsewhere."
        ],
    )  # fmt: skip


def descent(state: Regression, report: Report) -> Panel:
    """The risk along descent, by the exact dynamics and in mean field."""
    return _descents(state, report, tuple(_METHODS))


def descent_sketch(state: Regression, report: Report) -> Panel | None:
    """In mean field alone, of a link for which exact steps take long."""
    return None if state.link in _FAST else _descents(state, report, ("mean-field",))


def _descents(state: Regression, report: Report, methods: tuple[str, ...]) -> Panel:
    runs = {method: _descent(state, method, share(report, i, len(methods))) for i, method in enumerate(methods)}
    curves = [
        curve(f"{method} dynamics", run["at"], run["risk"], role=_METHODS[method]) for method, run in runs.items()
    ]
    return figure("step", "excess risk", curves)


def baselines(state: Regression, report: Report) -> Panel:
    """Excess risks of other predictors with the true directions as the number of tokens grows."""
    return _all_baselines(state, report, _SHOWN)


def baselines_sketch(state: Regression, report: Report) -> Panel | None:
    """Without the last, which is optimised numerically."""
    return None if state.link != "linear" else _all_baselines(state, report, _SHOWN[:-1])


def _all_baselines(state: Regression, report: Report, names: tuple[str, ...]) -> Panel:
    if state.link != "linear":
        return figure("tokens L", "excess risk", notes=["The baselines are those of the linear link."])
    curves = []
    for i, name in enumerate(names):
        own, risks = share(report, i, len(names)), []
        for j, tokens in enumerate(_LENGTHS):
            own(j / len(_LENGTHS))
            risks.append(_baseline(state.problem().changed(tokens=tokens), name))
        curves.append(curve(BASELINES[name], _LENGTHS, risks, mode="lines+markers"))
    return figure("tokens L", "excess risk", curves, logarithmic="xy")


@functools.lru_cache(512)
def _baseline(problem: Problem, name: str) -> float:
    return slr.baselines(problem, name, progress=False)[name]


def phases(state: Regression, report: Report) -> Panel:
    """The oracle's exact risk over two parameters, and where the mean-field limit finds the signal."""
    return _phases(state, report, _DIAGRAM)


def phases_sketch(state: Regression, report: Report) -> Panel:
    """On a coarser grid."""
    return _phases(state, report, _COARSE_DIAGRAM)


def _phases(state: Regression, report: Report, points: int) -> Panel:
    x_name, y_name = _DIAGRAMS[state.diagram]
    x, y = (np.linspace(*ends, points) for ends in _ranges(state))
    rows = []
    for i in range(0, len(y), 2):
        report(i / len(y))
        two = slr.phase_diagram(state.problem(), x_name, y_name, x_values=x, y_values=y[i : i + 2], progress=False)
        rows.append(two.risk)
    diagram = PhaseDiagram(state.problem(), x_name, y_name, x, y, np.concatenate(rows))
    boundary = _boundary(diagram)
    drawn = not np.isnan(boundary[0]).all()
    return figure(
        diagram.x_label,
        diagram.y_label,
        [curve("c μ = ψ", *boundary)] if drawn else [],
        [heat_map("exact risk at ν = 1", x, y, diagram.risk)],
        notes=[
            "On the line the score of the token with the signal equals the free energy of the others in the mean-field "
            "limit. The signal is found on the side where the risk is small."
        ]
        if drawn
        else ["The mean-field limit has no boundary here."],
    )


def _boundary(diagram: PhaseDiagram) -> tuple[list[float], np.ndarray]:
    """Where `c mu = psi`: an x for every y, since psi grows with alpha; NaN where it is not on the map."""
    x, y, level, _ = diagram.finer()
    rising = level if diagram.x_name == "mu" else -level
    return [float(np.interp(0.0, row, x, left=np.nan, right=np.nan)) for row in rising], y


def _ranges(state: Regression) -> tuple[tuple[float, float], tuple[float, float]]:
    """The ranges of x and y of the phase diagram."""
    ranges = {"alpha": (log(2) / state.dim, 0.6), "gamma": (0.1, 0.95), "beta": (0.05, 2.0), "mu": (-0.2, 1.0)}
    x_name, y_name = _DIAGRAMS[state.diagram]
    return ranges[x_name], ranges[y_name]


def python(state: Regression) -> str:
    """The code that makes the same numbers, and the picture of the landscapes with their descents."""
    x_name, y_name = _DIAGRAMS[state.diagram]
    x, y = (f"np.linspace({low!r}, {high!r}, {_DIAGRAM})" for low, high in _ranges(state))
    options = f"{state.steps}, start={state.start}, every={state.every}"
    lines = [
        "import matplotlib.pyplot as plt\nimport numpy as np\n\nfrom limitlaw import slr\n",
        f"problem = {call('slr.Problem', **state.settings())}",
        f"grid = np.linspace(-1, 1, {_GRID})",
        "exact = problem.risk(grid[None, :], grid[:, None])",
        'mean_field = problem.risk(grid[None, :], grid[:, None], method="mean-field")',
        f"run = slr.descent(problem, {options})",
        f'mean_field_run = slr.descent(problem, {options}, method="mean-field")',
        'fig, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")',
        "for ax, risk, path in zip(axes, (exact, mean_field), (run, mean_field_run), strict=True):",
        '    fig.colorbar(ax.pcolormesh(grid, grid, risk, cmap="cividis"), ax=ax, label="excess risk")',
        '    ax.plot(path.mu, path.nu, color="red")',
        '    ax.set(title=path.method, xlabel="μ", ylabel="ν")',
        'fig.savefig("regression.png")',
    ]
    if state.link == "linear":
        lines.append(f"baselines = {{L: slr.baselines(problem.changed(tokens=L)) for L in {_LENGTHS}}}")
    lines.append(f"diagram = slr.phase_diagram(problem, {x_name!r}, {y_name!r}, x_values={x}, y_values={y})")
    return "\n".join(lines) + "\n"

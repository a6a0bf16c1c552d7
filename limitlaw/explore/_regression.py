"""The view of single-location regression: its risk over the overlaps, descent, phases, baselines."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isinf, log
from typing import Any

import numpy as np

from .. import slr
from ..slr import BASELINES, LINKS, Descent, PhaseDiagram, Problem
from ._panels import Panel, curve, figure, heat_map, sentences
from ._python import call, program
from ._state import State, control

_GRID, _COARSE = 61, 21
_FAST = ("linear", "quadratic")  # links whose risks are polynomials
_SLOW_GRID = 41  # for the other links
_KEPT = 100  # points of a trajectory
_DIAGRAM, _COARSE_DIAGRAM = 20, 8  # values along an axis
_DIAGRAMS = {"alpha, gamma": ("alpha", "gamma"), "alpha, beta": ("alpha", "beta"), "mu, beta": ("mu", "beta")}
_LENGTHS = (2, 5, 20, 100, 1000)
_SHOWN = ("linear_attention", "erf_best", "best_pointwise", "softmax", "bayes_full", "softmax_best")
_RUNS = ("descent", "remarks")  # the parts that depend on the start
_METHODS = {"exact": "finite", "mean-field": "limit"}
_STUCK = 0.02  # relative change of the risk below which descent is on a plateau
_PHASES = {
    "retrieval": "retrieval: the signal is found",
    "paramagnetic": "paramagnetic: many tokens share the attention",
    "frozen": "frozen: a few wrong tokens have it",
}


@dataclass(frozen=True)
class Regression(State):
    """A problem of single-location regression, and where descent starts."""

    dim: int = control(100, "Dimension d", "count", low=4, high=1000, logarithmic=True, group="Problem")
    tokens: int = control(20, "Tokens L", "count", low=2, high=10**6, logarithmic=True, group="Problem")
    gamma: float = control(
        0.7, "Spread γ", "number", low=0.05, high=1.0, group="Problem",
        hint="The token with the signal has length √(1 − γ²) along it (times √d), and noise γ.",
    )  # fmt: skip
    beta: float = control(
        1.0, "Inverse temperature β", "number", low=0.01, high=4.0, group="Problem", hint="Scores are β √d x·u."
    )
    link: str = control("linear", "Link", "choice", choices=tuple(LINKS), group="Problem")
    mu: float = control(
        0.3, "Start μ = u·u*", "number", low=-1.0, high=1.0, group="Descent", parts=_RUNS,
        hint="Or click into the landscape.",
    )  # fmt: skip
    nu: float = control(0.1, "Start ν = v·v*", "number", low=-1.0, high=1.0, group="Descent", parts=_RUNS)
    steps: int = control(
        300, "Steps", "count", low=10, high=1000, group="Descent", parts=_RUNS, hint="Each of size 0.01."
    )
    diagram: str = control(
        "mu, beta", "Axes", "choice", choices=tuple(_DIAGRAMS), group="Phase diagram", parts=("phases",),
        words={"alpha, gamma": "α and γ", "alpha, beta": "α and β", "mu, beta": "μ and β"},
    )  # fmt: skip

    def check(self) -> None:
        self.problem()

    def problem(self) -> Problem:
        """The problem that the fields describe."""
        return self._problem

    @cached_property
    def _problem(self) -> Problem:
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
        """The steps between two that are kept."""
        return max(1, self.steps // _KEPT)

    @cached_property
    def runs(self) -> dict[str, Descent]:
        """The descents by both methods."""
        return {
            method: slr.descent(
                self.problem(), self.steps, start=self.start, method=method, every=self.every, progress=False
            )
            for method in _METHODS
        }


def landscape(state: Regression) -> Panel:
    """The risk over (mu, nu), exact and in mean field."""
    return _landscapes(state, _GRID if state.link in _FAST else _SLOW_GRID)


def coarse_landscape(state: Regression) -> Panel | None:
    """On a coarser grid, for a link whose risk takes long."""
    return None if state.link in _FAST else _landscapes(state, _COARSE)


def _landscapes(state: Regression, points: int) -> Panel:
    maps = []
    grid = np.linspace(-1, 1, points)
    for method in _METHODS:
        risk = state.problem().risk(grid[None, :], grid[:, None], method=method)
        maps.append(heat_map(f"{method} risk", grid, grid, risk))
    return figure(
        "μ, overlap of the scores", "ν, overlap of the values", [], maps, click=("mu", "nu"),
        notes=[
            "The line is gradient descent, from the large dot. Click to start elsewhere. The map is the plane "
            "η = ζ = ρ = 0 of the other overlaps, which descent may leave. In mean field the risk has a cliff where the "
            "signal is found, and steps of a fixed size zigzag along it."
        ],
    )  # fmt: skip


def descent(state: Regression) -> Panel:
    """The risk along descent, by the exact dynamics and in mean field; and the paths, for the landscape."""
    curves = [
        curve(f"{method} dynamics", run.at, run.risk, role=_METHODS[method]) for method, run in state.runs.items()
    ]
    paths = [
        curve(f"descent, {method}", run.mu, run.nu, role="path", mode="lines+markers", on_map=i)
        for i, (method, run) in enumerate(state.runs.items())
    ]
    notes = [_plateau(method, run) for method, run in state.runs.items() if _is_stuck(run)]
    return figure(
        "step", "excess risk", curves, notes=notes, elsewhere={"part": "landscape", "curves": paths, "notes": notes}
    )


def _is_stuck(run: Descent) -> bool:
    return abs(run.risk[-1] - run.risk[0]) < _STUCK * abs(run.risk[0])


def _plateau(method: str, run: Descent) -> str:
    if run.risk[0] < 1e-3:
        return f"{method.capitalize()} descent begins at its minimum."
    return f"{method.capitalize()} descent is on a plateau: in {run.at[-1]} steps its risk stays at {run.risk[-1]:.3g}."


def remarks(state: Regression) -> Panel:
    """What stands out, in words."""
    return sentences(list(_remarks(state)))


def _remarks(state: Regression) -> Iterator[str]:
    problem = state.problem()
    found = slr.phase(problem)
    limits = slr.thresholds(problem)
    if found == "retrieval":
        needed = f"once its overlap μ exceeds {limits['mu']:.3g}" if limits["mu"] > 0 else "at any overlap μ > 0"
        yield f"In the mean-field limit attention finds the token with the signal {needed} (retrieval phase)."
    elif isinf(limits["mu"]):
        yield "Nothing but noise tells the tokens apart, so attention cannot find the signal."
    else:
        share = (
            "many tokens share the attention" if found == "paramagnetic" else "a few wrong tokens have the attention"
        )
        yield f"In the mean-field limit attention does not find the signal, even with the true direction: {share} ({found} phase)."
    exact, limit = state.runs["exact"], state.runs["mean-field"]
    yield (
        f"From μ = {state.mu:g}, ν = {state.nu:g}, {state.steps} steps of gradient descent take the exact risk from "
        f"{exact.risk[0]:.3g} to {exact.risk[-1]:.3g}, and the mean-field risk from {limit.risk[0]:.3g} to {limit.risk[-1]:.3g}."
    )
    if _is_stuck(limit) and not _is_stuck(exact):
        yield (
            f"The mean field sees a plateau where there is none: at d = {state.dim} the exact risk still has a slope, "
            f"and descent on it gets away."
        )
    elif _is_stuck(exact) and exact.risk[0] > 1e-3:
        yield "Descent is stuck on a plateau. Start nearer to the signal, or raise μ or β."


def baselines(state: Regression) -> Panel:
    """Excess risks of other predictors with the true directions as the number of tokens grows."""
    return _all_baselines(state, _SHOWN)


def quick_baselines(state: Regression) -> Panel | None:
    """Without the last, which is optimised numerically."""
    return None if state.link != "linear" else _all_baselines(state, _SHOWN[:-1])


def _all_baselines(state: Regression, names: Sequence[str]) -> Panel:
    if state.link != "linear":
        return figure("tokens L", "excess risk", notes=["Other predictors are known for the linear link."])
    curves = []
    for name in names:
        risks = [
            slr.baselines(state.problem().changed(tokens=tokens), name, progress=False)[name] for tokens in _LENGTHS
        ]
        curves.append(curve(_predictor(name, state), _LENGTHS, risks, role=name, mode="lines+markers"))
    notes = ["All have the true directions. softmax at its best β is below softmax at your β, or equal to it."]
    return figure("tokens L", "excess risk", curves, notes=notes, logarithmic="xy")


def _predictor(name: str, state: Regression) -> str:
    """A predictor in words."""
    named = {"softmax": f"softmax at β = {state.beta:g}", "softmax_best": "softmax at its best β"}
    return named.get(name, BASELINES[name])


def phases(state: Regression) -> Panel:
    """The oracle's exact risk over two parameters, and the phases of the mean-field limit."""
    return _phases(state, _DIAGRAM)


def coarse_phases(state: Regression) -> Panel:
    """On a coarser grid."""
    return _phases(state, _COARSE_DIAGRAM)


def _phases(state: Regression, points: int) -> Panel:
    x_name, y_name = _DIAGRAMS[state.diagram]
    x, y = (np.linspace(*ends, points) for ends in _ranges(state))
    diagram = slr.phase_diagram(state.problem(), x_name, y_name, x_values=x, y_values=y, progress=False)
    notes = [
        "White lines are the boundaries of the phases in the mean-field limit; colours are exact, at your dimension."
    ]
    return figure(
        diagram.x_label, diagram.y_label,
        [curve(name, *line, role="boundary") for name, line in _boundaries(diagram)],
        [heat_map("exact risk of the oracle (ν = 1)", x, y, diagram.risk)],
        labels=_labels(diagram), notes=notes,
    )  # fmt: skip


def _boundaries(diagram: PhaseDiagram) -> Iterator[tuple[str, Any]]:
    """The lines between phases."""
    from contourpy import contour_generator  # of matplotlib

    x, y, level, critical = diagram.finer()
    for line in _lines(contour_generator(x, y, level)):
        yield "signal found: c μ = ψ", np.transpose(line)
    outside = np.ma.masked_where(level > 0, critical)
    for line in _lines(contour_generator(x, y, outside)):
        yield "frozen above: β = √(2α)", np.transpose(line)


def _lines(contours: Any) -> list[np.ndarray]:
    """The pieces of the contour at 0, each `(points, 2)`."""
    return contours.lines(0.0)


def _labels(diagram: PhaseDiagram) -> list[dict[str, Any]]:
    """The name of each phase, in the middle of the largest disc inside it."""
    from scipy.ndimage import distance_transform_edt

    x, y, level, critical = diagram.finer()
    named = np.where(level > 0, "retrieval", np.where(critical > 0, "frozen", "paramagnetic"))
    labels = []
    for name, words in _PHASES.items():
        inside = np.pad(named == name, 1)
        if inside.mean() > 0.02:  # smaller ones have no room for a name
            depth: Any = distance_transform_edt(inside)
            row, column = np.unravel_index(depth[1:-1, 1:-1].argmax(), level.shape)
            labels.append({"x": float(x[column]), "y": float(y[row]), "text": name, "words": words})
    return labels


def _ranges(state: Regression) -> tuple[tuple[float, float], tuple[float, float]]:
    """The ranges of x and y of the phase diagram."""
    ranges = {"alpha": (log(2) / state.dim, 0.6), "gamma": (0.1, 0.95), "beta": (0.05, 2.0), "mu": (-0.2, 1.0)}
    x_name, y_name = _DIAGRAMS[state.diagram]
    return ranges[x_name], ranges[y_name]


def python(state: Regression) -> str:
    """The code that makes the same numbers, and a picture of the landscapes with their descents."""
    x_name, y_name = _DIAGRAMS[state.diagram]
    x, y = (f"np.linspace({low:.6g}, {high:.6g}, {_DIAGRAM})" for low, high in _ranges(state))
    lines = [
        f"problem = {call('slr.Problem', **state.settings())}",
        f"start = {state.start}  # mu, nu, eta, zeta, rho",
        f"grid = np.linspace(-1, 1, {_GRID if state.link in _FAST else _SLOW_GRID})",
        "",
        'fig, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")',
        'for ax, method in zip(axes, ("exact", "mean-field")):',
        "    risk = problem.risk(grid[None, :], grid[:, None], method=method)",
        f"    run = slr.descent(problem, {state.steps}, start=start, every={state.every}, method=method)",
        "    mesh = ax.pcolormesh(grid, grid, risk)",
        '    fig.colorbar(mesh, ax=ax, label="excess risk")',
        '    ax.plot(run.mu, run.nu, "r.-")',
        '    ax.set(title=method, xlabel="μ", ylabel="ν")',
        "    print(run)",
        'fig.savefig("regression.png")',
        "",
        "diagram = slr.phase_diagram(",
        f'    problem, "{x_name}", "{y_name}",',
        f"    x_values={x},",
        f"    y_values={y},",
        ")",
        'fig, ax = plt.subplots(layout="constrained")',
        "diagram.plot(ax)",
        'fig.savefig("phases.png")',
    ]
    if state.link == "linear":
        lines += ["", f"for tokens in {_LENGTHS}:", "    print(tokens, slr.baselines(problem.changed(tokens=tokens)))"]
    return program(*lines)

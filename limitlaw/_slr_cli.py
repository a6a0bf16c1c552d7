"""`limitlaw slr`: questions about single-location regression from the command line."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import _arguments

if TYPE_CHECKING:
    from .slr import Problem

app = typer.Typer(
    no_args_is_help=True, help="Softmax attention on single-location regression: risk, descent, phases, baselines."
)

Dim = Annotated[int, typer.Option(help="Dimension d of the tokens.")]
Tokens = Annotated[int | None, typer.Option(help="Number of tokens L (20).", show_default=False)]
LogTokens = Annotated[float | None, typer.Option(help="Its logarithm instead, up to 600.", show_default=False)]
Gamma = Annotated[float, typer.Option(help="Standard deviation γ of the token with the signal.")]
Beta = Annotated[float, typer.Option(help="Normalised inverse temperature β; scores are scaled by β √d.")]
Noise = Annotated[float, typer.Option(help="Standard deviation of the label noise.")]
LinkName = Annotated[str, typer.Option(help="linear, quadratic, relu or sign.")]
Signal = Annotated[float | None, typer.Option(help="Mean m of the signal (√((1 − γ²) d)).", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Plot = Annotated[Path | None, typer.Option(help="Draw to this file (PDF, PNG, SVG).", show_default=False)]

_SHOWN_STEPS = 10


def _problem(
    dim: int,
    tokens: int | None,
    log_tokens: float | None,
    gamma: float,
    beta: float,
    noise: float,
    link: str,
    signal: float | None,
) -> "Problem":
    from .slr import Problem

    count = 20 if tokens is None and log_tokens is None else tokens
    return Problem(dim, count, gamma, beta, noise, link, log_tokens=log_tokens, signal=signal)


@app.command()
def risk(
    mu: Annotated[float, typer.Option(help="u · u*")] = 1.0,
    nu: Annotated[float, typer.Option(help="v · v*")] = 1.0,
    eta: Annotated[float, typer.Option(help="u · v*")] = 0.0,
    zeta: Annotated[float, typer.Option(help="v · u*")] = 0.0,
    rho: Annotated[float, typer.Option(help="u · v")] = 0.0,
    dim: Dim = 100,
    tokens: Tokens = None,
    log_tokens: LogTokens = None,
    gamma: Gamma = 2**-0.5,
    beta: Beta = 1.0,
    noise: Noise = 0.0,
    link: LinkName = "linear",
    signal: Signal = None,
    as_json: AsJson = False,
) -> None:
    """The excess risk at given overlaps (the oracle's unless given): exact, and in both mean-field pictures."""
    problem = _problem(dim, tokens, log_tokens, gamma, beta, noise, link, signal)
    at = mu, nu, eta, zeta, rho
    found = {"exact": problem.risk(*at)}
    if problem.beta:
        found["refined asymptotics"] = problem.risk(*at, method="refined")
        found["mean field, alpha = log L / d"] = problem.risk(*at, method="mean-field")
        found["mean field, alpha = 0"] = problem.risk(*at, method="mean-field", alpha=0.0)
    _tell(found, [f"{name:<30}  {value:.12g}" for name, value in found.items()], as_json)


@app.command()
def descent(
    steps: Annotated[int, typer.Option(help="Steps of Riemannian gradient descent.")] = 1000,
    step_size: Annotated[float, typer.Option(help="Their length.")] = 0.01,
    start: Annotated[str, typer.Option(help="uniform, manifold or informed.")] = "uniform",
    mu: Annotated[float | None, typer.Option(help="Of an informed start.", show_default=False)] = None,
    nu: Annotated[float | None, typer.Option(help="Of an informed start.", show_default=False)] = None,
    seed: Annotated[int, typer.Option(help="Of the start, and of the data.")] = 0,
    samples: Annotated[
        int | None, typer.Option(help="Simulate with so many training sequences too.", show_default=False)
    ] = None,
    dim: Dim = 100,
    tokens: Tokens = None,
    log_tokens: LogTokens = None,
    gamma: Gamma = 2**-0.5,
    beta: Beta = 1.0,
    noise: Noise = 0.1,
    link: LinkName = "linear",
    signal: Signal = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Overlaps and risk along gradient descent: the exact map, the mean field, and with --samples a simulation."""
    from ._question import check_picture

    problem = _problem(dim, tokens, log_tokens, gamma, beta, noise, link, signal)
    if plot is not None:
        check_picture(plot)
    _arguments.one_of("--start", start, ("uniform", "manifold", "informed"))
    if start != "informed" and not (mu is None and nu is None):
        raise ValueError(f"--mu or --nu with --start {start}: they belong to an informed one; use --start informed.")
    for name, value in (("--steps", steps), ("--samples", samples)):
        if value is not None:
            _arguments.positive_integer(name, value)
    beginning = problem.start(start, mu=mu, nu=nu, seed=seed)
    every = max(k for k in range(1, max(steps // _SHOWN_STEPS, 1) + 1) if steps % k == 0) if steps > 0 else 1
    runs = {"exact": problem.descent(steps, step_size, beginning, every=every)}
    for name, alpha in (("mean field", None), ("mean field, alpha = 0", 0.0)) if problem.beta else ():
        runs[name] = problem.descent(steps, step_size, beginning, method="mean-field", alpha=alpha, every=every)
    if samples is not None:
        runs["simulation"] = problem.simulate(samples, steps, step_size, seed, start=beginning, every=every)
    plain = {
        name: {"step": run.at.tolist(), "overlaps": run.overlaps.tolist(), "risk": run.risk.tolist()}
        for name, run in runs.items()
    }
    lines = []
    for name, run in runs.items():
        lines += ["", name, "   step        risk      mu      nu     eta    zeta     rho"]
        shown = sorted({*range(0, run.at.size, max(run.at.size // _SHOWN_STEPS, 1)), run.at.size - 1})
        lines += [
            f"{run.at[i]:7d}  {run.risk[i]:10.4g}" + "".join(f"{value:8.3f}" for value in run.overlaps[i])
            for i in shown
        ]
    _tell(plain, lines[1:], as_json)
    if plot is not None:
        _draw(plot, lambda axes: [run.plot(axes, label=name) for name, run in runs.items()], legend=True)


@app.command()
def phase(
    mu: Annotated[float, typer.Option(help="Overlap u · u*.")] = 1.0,
    over: Annotated[
        str, typer.Option(help="What to draw with --plot: alpha,gamma or alpha,beta or mu,beta.")
    ] = "alpha,gamma",
    dim: Dim = 100,
    tokens: Tokens = None,
    log_tokens: LogTokens = None,
    gamma: Gamma = 2**-0.5,
    beta: Beta = 1.0,
    link: LinkName = "linear",
    signal: Signal = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """The phase of the mean-field limit, and where it changes."""
    from ._question import check_picture

    problem = _problem(dim, tokens, log_tokens, gamma, beta, 0.0, link, signal)
    over = over.replace(" ", "")
    _arguments.one_of("--over", over, ("alpha,gamma", "alpha,beta", "mu,beta"))
    if plot is not None:
        check_picture(plot)
    found: dict[str, Any] = {"phase": problem.phase(mu), "alpha": problem.alpha, "thresholds": problem.thresholds()}
    words = {
        "mu": "found above the overlap mu",
        "beta": "found by the oracle above beta",
        "alpha": "found by the oracle below alpha",
        "alpha_best_beta": "  at the best beta",
        "alpha_bayes": "  by Bayes with whole tokens",
    }
    lines = [f"{'phase':<34}{found['phase']}", f"{'alpha = log L / d':<34}{problem.alpha:.6g}"]
    lines += [f"{words[name]:<34}{value:.6g}" for name, value in found["thresholds"].items()]
    if plot is not None:
        diagram = problem.phase_diagram(*over.split(","))
        _draw(plot, diagram.plot, legend=False)
    _tell(found, lines, as_json)


@app.command()
def baselines(
    dim: Dim = 100,
    tokens: Tokens = None,
    log_tokens: LogTokens = None,
    gamma: Gamma = 2**-0.5,
    beta: Beta = 1.0,
    signal: Signal = None,
    as_json: AsJson = False,
) -> None:
    """Softmax attention beside linear, pointwise-gated and Bayes predictors, all with the true directions."""
    found = _problem(dim, tokens, log_tokens, gamma, beta, 0.0, "linear", signal).baselines()
    _tell(dict(found), str(found).splitlines(), as_json)


def _tell(plain: Any, lines: list[str], as_json: bool) -> None:
    typer.echo(json.dumps(_finite(plain), indent=1) if as_json else "\n".join(lines))


def _finite(plain: Any) -> Any:
    """JSON has no infinity: null where nothing finite is meant."""
    if isinstance(plain, dict):
        return {name: _finite(value) for name, value in plain.items()}
    if isinstance(plain, list):
        return [_finite(value) for value in plain]
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain


def _draw(path: Path, draw: Any, *, legend: bool) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axes = figure.subplots()
    draw(axes)
    if legend:
        axes.legend(frameon=False)
    figure.savefig(path, dpi=200)

"""`limitlaw slr`: single-location regression on the command line."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._checks import ArgumentError, one_of, positive_integer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..slr import Problem

app = typer.Typer(
    no_args_is_help=True, help="Compute risk, descent, phases and baselines of single-location regression."
)

Dim = Annotated[int, typer.Option(help="Dimension d of the tokens.")]
Tokens = Annotated[int | None, typer.Option(help="Number of tokens L (default: 20).", show_default=False)]
LogTokens = Annotated[float | None, typer.Option(help="log L instead of --tokens, up to 600.", show_default=False)]
Gamma = Annotated[float, typer.Option(help="Standard deviation γ of the token with the signal.")]
Beta = Annotated[float, typer.Option(help="Normalised inverse temperature β; scores are multiplied by β √d.")]
Noise = Annotated[float, typer.Option(help="Standard deviation of the label noise.")]
LinkName = Annotated[str, typer.Option(help="Link function: linear, quadratic, relu or sign.")]
Signal = Annotated[
    float | None, typer.Option(help="Mean m of the signal (default: √((1 − γ²) d)).", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Plot = Annotated[Path | None, typer.Option(help="Save a figure to this PDF, PNG or SVG file.", show_default=False)]

_PRINTED_STEPS = 10  # lines of a table
_MOST_RECORDS = 1000  # of a descent whose number of steps has no fitting divisor, unless every step is recorded
_THRESHOLDS = {
    "mu": "signal found for mu above",
    "beta": "found by the oracle for beta above",
    "alpha": "found by the oracle for alpha below",
    "alpha_best_beta": "  at the best beta",
    "alpha_bayes": "  by Bayes with whole tokens",
}


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
    from ..slr import Problem

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
    """Print the excess risk at given overlaps (default: the oracle's), exact and in the mean field."""
    problem = _problem(dim, tokens, log_tokens, gamma, beta, noise, link, signal)
    at = mu, nu, eta, zeta, rho
    found = {"exact": problem.risk(*at)}
    if problem.beta:
        found["refined asymptotics"] = problem.risk(*at, method="refined")
        found["mean field, alpha = log L / d"] = problem.risk(*at, method="mean-field")
        found["mean field, alpha = 0"] = problem.risk(*at, method="mean-field", alpha=0.0)
    lines = [f"{'':<30}  excess risk", *(f"{name:<30}  {value:.12g}" for name, value in found.items())]
    _print(found, lines, as_json)


@app.command()
def descent(
    steps: Annotated[int, typer.Option(help="Number of steps of Riemannian gradient descent.")] = 1000,
    step_size: Annotated[float, typer.Option(help="Step size.")] = 0.01,
    start: Annotated[str, typer.Option(help="Start: uniform, manifold or informed.")] = "uniform",
    mu: Annotated[float | None, typer.Option(help="u · u* of an informed start.", show_default=False)] = None,
    nu: Annotated[float | None, typer.Option(help="v · v* of an informed start.", show_default=False)] = None,
    seed: Annotated[int, typer.Option(help="Seed of the start and of the data.")] = 0,
    samples: Annotated[
        int | None, typer.Option(help="Also simulate, with this number of training sequences.", show_default=False)
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
    """Print excess risk and overlaps along gradient descent, exact, in the mean field, and with --samples simulated."""
    from .. import slr
    from ._question import check_picture

    problem = _problem(dim, tokens, log_tokens, gamma, beta, noise, link, signal)
    if plot is not None:
        check_picture(plot)
    one_of("--start", start, ("uniform", "manifold", "informed"))
    if start != "informed" and not (mu is None and nu is None):
        raise ArgumentError("--start", f"--start {start} takes no --mu or --nu. Use --start informed.")
    for name, value in (("--steps", steps), ("--samples", samples)):
        if value is not None:
            positive_integer(name, value)
    first = slr.start(problem, start, mu=mu, nu=nu, seed=seed)
    # the fewest records, ten or more, that end with the last step
    every = next((steps // count for count in range(_PRINTED_STEPS, _MOST_RECORDS) if steps % count == 0), 1)
    runs = {"exact": slr.descent(problem, steps, step_size, first, every=every)}
    for name, alpha in (("mean field", None), ("mean field, alpha = 0", 0.0)) if problem.beta else ():
        runs[name] = slr.descent(problem, steps, step_size, first, method="mean-field", alpha=alpha, every=every)
    if samples is not None:
        runs["simulation"] = slr.simulate(problem, samples, steps, step_size, seed, start=first, every=every)
    plain = {
        name: {"step": run.at.tolist(), "overlaps": run.overlaps.tolist(), "risk": run.risk.tolist()}
        for name, run in runs.items()
    }
    lines = []
    for name, run in runs.items():
        lines += ["", name, "   step  excess risk      mu      nu     eta    zeta     rho"]
        rows = sorted({*range(0, run.at.size, max(run.at.size // _PRINTED_STEPS, 1)), run.at.size - 1})
        lines += [
            f"{run.at[i]:7d}  {run.risk[i]:11.4g}" + "".join(f"{value:8.3f}" for value in run.overlaps[i]) for i in rows
        ]
    _print(plain, lines[1:], as_json)
    if plot is not None:
        _plot(plot, lambda axes: [run.plot(axes, label=name) for name, run in runs.items()], legend=True)


@app.command()
def phase(
    mu: Annotated[float, typer.Option(help="Overlap u · u*.")] = 1.0,
    over: Annotated[
        str, typer.Option(help="Axes of the diagram for --plot: alpha,gamma or alpha,beta or mu,beta.")
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
    """Print the phase of the mean-field limit and where it changes."""
    from .. import slr
    from ._question import check_picture

    problem = _problem(dim, tokens, log_tokens, gamma, beta, 0.0, link, signal)
    over = over.replace(" ", "")
    one_of("--over", over, ("alpha,gamma", "alpha,beta", "mu,beta"))
    if plot is not None:
        check_picture(plot)
    found: dict[str, Any] = {
        "phase": slr.phase(problem, mu), "alpha": problem.alpha, "thresholds": slr.thresholds(problem),
    }  # fmt: skip
    lines = [f"{'phase':<36}{found['phase']}", f"{'alpha = log L / d':<36}{problem.alpha:.6g}"]
    lines += [f"{_THRESHOLDS[name]:<36}{value:.6g}" for name, value in found["thresholds"].items()]
    if plot is not None:
        x, y = over.split(",")
        _plot(plot, slr.phase_diagram(problem, x, y).plot, legend=False)
    _print(found, lines, as_json)


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
    """Print excess risks of softmax attention and of linear, gated and Bayes predictors with the true directions."""
    from .. import slr

    found = slr.baselines(_problem(dim, tokens, log_tokens, gamma, beta, 0.0, "linear", signal))
    _print(dict(found), str(found).splitlines(), as_json)


def _print(plain: Any, lines: list[str], as_json: bool) -> None:
    typer.echo(json.dumps(_finite(plain), indent=1) if as_json else "\n".join(lines))


def _finite(plain: Any) -> Any:
    """Plain data with null in place of infinity, which JSON does not have."""
    if isinstance(plain, dict):
        return {name: _finite(value) for name, value in plain.items()}
    if isinstance(plain, list):
        return [_finite(value) for value in plain]
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain


def _plot(path: Path, plot: Callable[["Axes"], Any], *, legend: bool) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axes = figure.subplots()
    plot(axes)
    if legend:
        axes.legend(frameon=False)
    figure.savefig(path, dpi=200)

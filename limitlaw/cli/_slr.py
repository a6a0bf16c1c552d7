"""`limitlaw slr`: single-location regression on the command line."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._checks import ArgumentError, one_of, positive_integer
from .._format import Table
from ._options import AsJson, PictureFile, check_picture, print_json, save_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..slr import Problem

app = typer.Typer(
    no_args_is_help=True, help="Compute risk, descent, phases and baselines of single-location regression."
)

Dim = Annotated[int, typer.Option(help="Dimension d of the tokens.")]
Tokens = Annotated[int | None, typer.Option(help="Number of tokens L (default: 20).", show_default=False)]
LogTokens = Annotated[
    float | None, typer.Option(help="Logarithm of L, up to 600, instead of --tokens.", show_default=False)
]
Gamma = Annotated[
    float, typer.Option(help="Standard deviation γ of the token with the signal (default: √(1/2)).", show_default=False)
]
Beta = Annotated[float, typer.Option(help="Normalised inverse temperature β: scores are multiplied by β √d.")]
Noise = Annotated[float, typer.Option(help="Standard deviation of the label noise.")]
LinkName = Annotated[str, typer.Option(help="Link function: linear, quadratic, relu or sign.")]
Signal = Annotated[
    float | None, typer.Option(help="Mean m of the signal (default: √((1 − γ²) d)).", show_default=False)
]

_FEWEST_RECORDS = 10  # of a descent: the lines of its table
_MOST_RECORDS = 1000  # of a descent whose number of steps has no smaller fitting divisor


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
    mu: Annotated[float, typer.Option(help="Overlap u · u*.")] = 1.0,
    nu: Annotated[float, typer.Option(help="Overlap v · v*.")] = 1.0,
    eta: Annotated[float, typer.Option(help="Overlap u · v*.")] = 0.0,
    zeta: Annotated[float, typer.Option(help="Overlap v · u*.")] = 0.0,
    rho: Annotated[float, typer.Option(help="Overlap u · v.")] = 0.0,
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
    _print(found, [Table(("", "excess risk"), list(found.items()))], as_json)


@app.command()
def descent(
    steps: Annotated[int, typer.Option(help="Number of steps of Riemannian gradient descent.")] = 1000,
    step_size: Annotated[float, typer.Option(help="Step size.")] = 0.01,
    start: Annotated[str, typer.Option(help="Start: uniform, manifold or informed.")] = "uniform",
    mu: Annotated[float | None, typer.Option(help="Overlap u · u* of an informed start.", show_default=False)] = None,
    nu: Annotated[float | None, typer.Option(help="Overlap v · v* of an informed start.", show_default=False)] = None,
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
    plot: PictureFile = None,
    as_json: AsJson = False,
) -> None:
    """Print excess risk and overlaps along gradient descent, exact, in the mean field, and with --samples simulated."""
    from .. import slr

    check_picture(plot)
    problem = _problem(dim, tokens, log_tokens, gamma, beta, noise, link, signal)
    one_of("--start", start, ("uniform", "manifold", "informed"))
    if start != "informed" and not (mu is None and nu is None):
        raise ArgumentError("--start", f"--start {start} takes no --mu or --nu. Use --start informed.")
    for name, value in (("--steps", steps), ("--samples", samples)):
        if value is not None:
            positive_integer(name, value)
    first = slr.start(problem, start, mu=mu, nu=nu, seed=seed)
    every = _record_every(steps)
    runs = {"exact": slr.descent(problem, steps, step_size, first, every=every)}
    for name, alpha in (("mean field", None), ("mean field, alpha = 0", 0.0)) if problem.beta else ():
        runs[name] = slr.descent(problem, steps, step_size, first, method="mean-field", alpha=alpha, every=every)
    if samples is not None:
        runs["simulation"] = slr.simulate(problem, samples, steps, step_size, seed, start=first, every=every)
    plain = {
        name: {"step": run.at.tolist(), "overlaps": run.overlaps.tolist(), "risk": run.risk.tolist()}
        for name, run in runs.items()
    }
    tables = [run.table() for run in runs.values()]
    _print(plain, [Table(t.columns, t.rows, title=name) for name, t in zip(runs, tables, strict=True)], as_json)
    if plot is not None:
        figure, axes = _panel()
        for name, run in runs.items():
            run.plot(axes, label=name)
        axes.legend(frameon=False)
        save_picture(figure, plot)


def _record_every(steps: int) -> int:
    """The steps between records: a divisor, so that the last step is one, and as large as leaves a table of records."""
    counts = range(min(_FEWEST_RECORDS, steps), _MOST_RECORDS)
    return next((steps // count for count in counts if steps % count == 0), 1)


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
    plot: PictureFile = None,
    as_json: AsJson = False,
) -> None:
    """Print the phase of the mean-field limit and where it changes."""
    from .. import slr

    check_picture(plot)
    problem = _problem(dim, tokens, log_tokens, gamma, beta, 0.0, link, signal)
    over = over.replace(" ", "")
    one_of("--over", over, ("alpha,gamma", "alpha,beta", "mu,beta"))
    phase_name, found = slr.phase(problem, mu), slr.thresholds(problem)
    values = [("alpha = log L / d", problem.alpha), *((slr.THRESHOLDS[name], value) for name, value in found.items())]
    table = Table(("", "value"), values, title=f"The phase is {phase_name}.")
    _print({"phase": phase_name, "alpha": problem.alpha, "thresholds": found}, [table], as_json)
    if plot is not None:
        figure, axes = _panel()
        x, y = over.split(",")
        slr.phase_diagram(problem, x, y).plot(axes)
        save_picture(figure, plot)


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
    _print(dict(found), [found.table()], as_json)


def _print(plain: Any, tables: list[Table], as_json: bool) -> None:
    if as_json:
        print_json(plain)
    else:
        typer.echo("\n\n".join(map(str, tables)))


def _panel() -> "tuple[Figure, Axes]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.4), layout="constrained")
    return figure, figure.subplots()

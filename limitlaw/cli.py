"""The command line: parses, calls, prints."""

import contextlib
import errno
import io
import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from . import __version__, _explore_cli, _inspect_cli, _slr_cli, _sweep_cli
from ._load import LoadedFiles, load_modules

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
app.add_typer(_slr_cli.app, name="slr")

# imported when a first picture is drawn; in each of the computing processes, unless they are forked with it
_DRAWING = ("xarray", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_pdf")


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"limitlaw {__version__}")
        raise typer.Exit


@app.callback()
def _limitlaw(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Exact laws of attention networks at initialisation, at any width, infinity included."""


@app.command()
def reproduce(
    figures: Annotated[
        list[str] | None,
        typer.Argument(help="Names, such as fig1b, or attention, slr or deep (default: all).", show_default=False),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for figures, data and report.")] = Path("out"),
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Take a first look: 3 trials of 5,000 networks, figure 4 with 5 tokens, 8 blocks."
        ),
    ] = False,
    trials: Annotated[
        int | None, typer.Option(help="Number of trials of every experiment (default: 10).", show_default=False)
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(help="Number of networks in a trial (default: 50,000; 100,000 for ReLU).", show_default=False),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of all random numbers (default: 0).", show_default=False)
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(help="Number of tokens of figure 4 (default: 16).", show_default=False)
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of processes (default: one for each core).", show_default=False)
    ] = None,
    only: Annotated[str | None, typer.Option(help="Do one step: data, figures or report.", show_default=False)] = None,
    cluster: _sweep_cli.ClusterWords = None,
    profile: _sweep_cli.ProfileFile = None,
) -> None:
    """Regenerate every figure of the papers, with data, exact values and a report."""
    start = time.perf_counter()
    from .runs import Progress, collect_rarely, prepare_processes

    collect_rarely()
    if workers != 1 and cluster is None:
        prepare_processes("limitlaw.figures", *_DRAWING)

    from rich.console import Console

    from . import _checks
    from .figures import FIGURES, GROUPS, Settings
    from .numerics import available_cores
    from .report import Reproduction

    settings = (Settings.quick() if quick else Settings()).override(
        trials=trials, samples=samples, seed=seed, tokens=tokens
    )
    if only is not None:
        _checks.one_of("--only", only, ("data", "figures", "report"))
    asked = figures or list(GROUPS)
    for name in asked:
        _checks.one_of("figure", name, (*GROUPS, *FIGURES))
    names = tuple(dict.fromkeys(figure for name in asked for figure in GROUPS.get(name, (name,))))
    console = Console()
    place = _sweep_cli.cluster_of(cluster, profile, workers)
    work = Reproduction(out, settings, names, only, workers or available_cores())
    try:
        with contextlib.nullcontext() if place is None else place.client() as client:
            work.run(
                lambda jobs: Progress(jobs, console),
                lambda: console.print(f"waiting for another run in {out} to end", highlight=False),
                client,
            )
    except KeyboardInterrupt:
        console.print("Interrupted. Finished results are saved; run the same command again to resume.", highlight=False)
        sys.stdout.flush()
        os._exit(130)  # at once: threads may be in the middle of a long computation
    if work.costs is not None:
        from rich import box
        from rich.table import Table

        table = Table(*work.costs.header, box=box.SIMPLE_HEAD, pad_edge=False)
        for row in work.costs.rows:
            table.add_row(*row)
        console.print(table)
    last = work.written[-1] if work.written else out
    console.print(
        f"{'wrote ' if work.written else 'nothing to do in '}{last} in {time.perf_counter() - start:.1f} s",
        highlight=False,
    )


@app.command()
def law(
    file: Annotated[
        Path | None,
        typer.Argument(help=r"A network as TOML: \[inputs], \[\[layers]], and width, token, ...", show_default=False),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(help="Number of tokens φ(W_i h) (default: 4).", show_default=False)
    ] = None,
    activation: Annotated[
        str | None,
        typer.Option(help="φ: identity, relu, gelu, tanh, 'clip(100)', ... (default: identity).", show_default=False),
    ] = None,
    gram: Annotated[
        str | None,
        typer.Option(help="Gram matrix of fixed tokens instead, such as '1 0.5; 0.5 1'.", show_default=False),
    ] = None,
    heads: Annotated[str | None, typer.Option(help="Number of heads, or inf (default: 1).", show_default=False)] = None,
    head_dim: Annotated[
        str | None,
        typer.Option(help="Dimension of each head: a number, inf, or split (default: the width).", show_default=False),
    ] = None,
    scale: Annotated[
        str | None, typer.Option(help="Divide scores by √d (sqrt) or d (linear).", show_default=False)
    ] = None,
    mask: Annotated[str | None, typer.Option(help="Mask: causal, or none (default: none).", show_default=False)] = None,
    tie_qk: Annotated[bool, typer.Option("--tie-qk", help="Use one matrix for queries and keys.")] = False,
    query_std: Annotated[
        float | None,
        typer.Option(
            help="√fan-in times the standard deviation of the query weights (default: 1).", show_default=False
        ),
    ] = None,
    key_std: Annotated[float | None, typer.Option(help="The same of the key weights.", show_default=False)] = None,
    value_std: Annotated[float | None, typer.Option(help="The same of the value weights.", show_default=False)] = None,
    out_std: Annotated[float | None, typer.Option(help="The same of the output weights.", show_default=False)] = None,
    width: Annotated[
        str | None, typer.Option(help="Width n (default: infinite, and compared with a Gaussian).", show_default=False)
    ] = None,
    token: Annotated[
        int | None, typer.Option(help="Index of the token, from 0 (default: 0).", show_default=False)
    ] = None,
    samples: Annotated[
        int | None, typer.Option(help="Number of draws of the conditional variance.", show_default=False)
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the draws.", show_default=False)] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Plot densities and tails to this file (PDF, PNG, SVG).", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    load: LoadedFiles = None,
) -> None:
    """Compare the law of a token's output at a finite width with its limit."""
    import json

    from rich.console import Console

    from . import _question

    load_modules(load)
    asked = {
        "tokens": tokens, "activation": activation, "gram": gram, "heads": heads, "head_dim": head_dim, "scale": scale,
        "mask": mask, "tie_qk": tie_qk or None, "query_std": query_std, "key_std": key_std, "value_std": value_std,
        "out_std": out_std,
    }  # fmt: skip
    question = _question.Question.of(
        file, {name: value for name, value in asked.items() if value is not None}, width, token, samples, seed
    )
    if plot is not None:
        _question.check_picture(plot)
    answer = question.answer()
    if as_json:
        typer.echo(json.dumps(answer.as_plain(), indent=1))
    else:
        console = Console()
        console.print(f"{question.network}, token {question.token} of the output", highlight=False)
        console.print(answer.comparison)
    if plot is not None:
        answer.plot(plot)
        typer.echo(f"wrote {plot}", err=as_json)  # what is printed stays JSON


app.command()(_inspect_cli.inspect)
app.command()(_explore_cli.explore)
app.command()(_sweep_cli.sweep)
app.command()(_sweep_cli.status)
app.command()(_sweep_cli.export)


def main() -> None:
    """Run the command line. An interrupt or a refused argument is one line, not a traceback."""
    for stream in (sys.stdout, sys.stderr):  # a terminal that has no √ shows something else
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app()
    except (ValueError, TypeError) as error:
        _fail(str(error), 2)
    except OSError as error:
        _fail(_explained(error), 1)
    except RuntimeError as error:
        _fail(str(error), 1)
    except MemoryError:
        _fail("Not enough memory. Make the network or the number of samples smaller.", 1)


def _fail(text: str, code: int) -> None:
    typer.echo(f"limitlaw: {text}", err=True)
    sys.stderr.flush()
    os._exit(code)  # not waiting for threads that compute what can no longer be kept


_REMEDIES = {
    errno.ENOSPC: "Free some space and run the same command again to resume; finished results are saved",
    errno.EROFS: "Choose another folder with --out",
    errno.EACCES: "Choose another folder with --out, or make it writable",
    errno.ENOTDIR: "Choose another folder with --out",
    errno.ENOENT: "Choose another folder with --out",
    errno.EEXIST: "Choose another folder with --out",
}


def _explained(error: OSError) -> str:
    remedy = _REMEDIES.get(error.errno or 0, "Check the disk and the folder")
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}. {remedy}."


if __name__ == "__main__":
    main()

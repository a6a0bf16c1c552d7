"""The command line: parses, calls, prints."""

import time
from pathlib import Path
from typing import Annotated

import typer

from . import __version__

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


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
    out: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("out"),
    samples: Annotated[int, typer.Option(min=2, help="Draws of the conditional variance at each width.")] = 2**22,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
) -> None:
    """The paper's attention layer at n = 16 ... 1024 against its limit: a table and a figure."""
    from .figures import convergence

    start = time.perf_counter()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(
            f"cannot write to {out}: {error.strerror}; choose another folder.", param_hint="--out"
        ) from error
    settings = convergence.Settings(draws=samples, seed=seed)
    typer.echo(f"{settings.network}, token 1 of the output; {samples} draws at each width, seed {seed}\n")
    rows = convergence.compute(settings)
    typer.echo(convergence.table(rows))
    paths = convergence.draw(rows, out)
    typer.echo(f"\nwrote {', '.join(map(str, paths))} in {time.perf_counter() - start:.1f} s")


def main() -> None:
    """The entry point: an interrupt or a refusal is one line, not a traceback."""
    try:
        app()
    except ValueError as error:
        typer.echo(f"limitlaw: {error}", err=True)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()

"""The command line: parses, calls, prints."""

import errno
import io
import os
import sys
from typing import Annotated

import typer

from .. import __version__
from . import _explore, _inspect, _law, _reproduce, _slr, _sweep

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
app.add_typer(_slr.app, name="slr")


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


app.command()(_reproduce.reproduce)
app.command()(_law.law)
app.command()(_inspect.inspect)
app.command()(_explore.explore)
app.command()(_sweep.sweep)
app.command()(_sweep.status)
app.command()(_sweep.export)


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

"""The command line as a whole: its commands, and the one place where refusals, failures and interrupts are printed."""

import errno
import io
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .. import __version__
from . import _explore, _inspect, _law, _reproduce, _slr, _sweep

_SAVING = ("reproduce", "sweep")  # commands that save each result as soon as they have it
_MISUSED, _FAILED, _INTERRUPTED = 2, 1, 130  # exit codes, as shells use them


class _InterruptedError(Exception):
    """Ctrl-C in the command of this name. Typer ends at a KeyboardInterrupt without a word, but lets others pass."""


class _Commands(TyperGroup):
    """The commands of `limitlaw`."""

    def invoke(self, ctx: Any) -> Any:  # typer's own class of contexts is private
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise _InterruptedError(ctx.invoked_subcommand) from None


app = typer.Typer(cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False)
app.add_typer(_slr.app, name="slr")


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"limitlaw {__version__}")
        raise typer.Exit


@app.callback()
def _limitlaw(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Compute exact laws of attention networks at initialisation, at any width, infinity included."""


app.command()(_reproduce.reproduce)
app.command()(_law.law)
app.command()(_inspect.inspect)
app.command()(_explore.explore)
app.command()(_sweep.sweep)
app.command()(_sweep.status)
app.command()(_sweep.export)


@app.command("help", hidden=True, context_settings={"ignore_unknown_options": True})
def show_help(
    words: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]", show_default=False)] = None,
) -> None:
    """Show the options of a command, as `limitlaw COMMAND --help` does."""
    typer.main.get_command(app).main([*(words or ()), "--help"], prog_name="limitlaw")


def main() -> None:
    """Run the command line. A refused argument, a failure and an interrupt are one line each, not a traceback."""
    for stream in (sys.stdout, sys.stderr):  # a terminal that has no √ shows something else
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app()
    except _InterruptedError as interrupt:
        saved = " Finished results are saved; run the same command again to resume."
        _end(f"Interrupted.{saved if interrupt.args[0] in _SAVING else ''}", _INTERRUPTED)
    except (ValueError, TypeError) as error:
        _end(str(error), _MISUSED)
    except OSError as error:
        _end(_text_of(error), _FAILED)
    except RuntimeError as error:
        _end(str(error), _FAILED)
    except MemoryError:
        _end("Not enough memory. Make the network or the number of samples smaller.", _FAILED)


def _end(text: str, code: int) -> None:
    """Print a line and end the process at once: other threads may be in the middle of a long computation."""
    sys.stdout.flush()
    typer.echo(f"limitlaw: {text}", err=True)
    sys.stderr.flush()
    os._exit(code)


_OTHER_FOLDER = "Choose another folder"
_REMEDIES = {
    errno.ENOSPC: "Free some space and run the same command again to resume; finished results are saved",
    errno.EROFS: _OTHER_FOLDER,
    errno.EACCES: f"{_OTHER_FOLDER}, or make it writable",
    errno.ENOTDIR: _OTHER_FOLDER,
    errno.ENOENT: _OTHER_FOLDER,
    errno.EEXIST: _OTHER_FOLDER,
}


def _text_of(error: OSError) -> str:
    """What the system says, with a remedy that is true of every option that names a folder or a file."""
    remedy = _REMEDIES.get(error.errno or 0, "Check the disk and the folder")
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}. {remedy}."

"""Options that several commands have, and what they do."""

import json
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._checks import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PICTURES = (".pdf", ".png", ".svg")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
PictureFile = Annotated[
    Path | None, typer.Option("--plot", help="Save a figure to this file (PDF, PNG, SVG).", show_default=False)
]
LoadedFiles = Annotated[
    list[Path] | None,
    typer.Option("--load", help="Load a Python file that defines layers (repeatable).", show_default=False),
]
"""The option `--load` of commands that read networks or studies."""


def check_output_file(option: str, path: Path, endings: Collection[str] = ()) -> None:
    """Refuse a file that cannot be written, before any work.

    Args:
        option: The name of the option, such as "csv".
        path: The file.
        endings: The endings it may have; any unless given.

    Raises:
        ArgumentError: If the path is a folder or in one that does not exist, or has another ending.
    """
    if endings and path.suffix.lower() not in endings:
        raise ArgumentError(option, f"--{option} {path} must end in {', '.join(endings)}.")
    if path.is_dir():
        raise ArgumentError(option, f"--{option} {path} is a folder. Give the name of a file.")
    if not path.absolute().parent.is_dir():
        raise ArgumentError(option, f"--{option} {path} is in a folder that does not exist. Make {path.parent} first.")


def check_picture(path: Path | None) -> None:
    """Refuse a file for `--plot` to which no picture can be written, before any work.

    Args:
        path: The file, or None where no picture is wanted.

    Raises:
        ArgumentError: If the file cannot be written, or its ending is that of no known format.
    """
    if path is not None:
        check_output_file("plot", path, _PICTURES)


def save_picture(figure: "Figure", path: Path) -> None:
    """Write a figure to the file of `--plot`, and say so. The words go to standard error, so that JSON stays JSON.

    Args:
        figure: The figure.
        path: The file.
    """
    figure.savefig(path, dpi=200)
    typer.echo(f"Wrote {path}.", err=True)


def print_json(plain: Any) -> None:
    """Print plain data as JSON, with null in place of NaN and infinity, which JSON does not have.

    Args:
        plain: Dicts, lists, text and numbers.
    """
    typer.echo(json.dumps(_finite(plain), indent=1, allow_nan=False))


def _finite(plain: Any) -> Any:
    if isinstance(plain, Mapping):
        return {name: _finite(value) for name, value in plain.items()}
    if isinstance(plain, list | tuple):
        return [_finite(value) for value in plain]
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain


def number(option: str, text: str) -> int | float:
    """The number in the text of an option: whole where it is written so, `inf` for infinity.

    Args:
        option: The name of the option, such as "head-dim".
        text: What was given for it.

    Returns:
        The number.

    Raises:
        ArgumentError: If the text is empty, no number, or a number too large for a float.
    """
    argument = option.replace("-", "_")
    if not text.strip():
        raise ArgumentError(argument, f"--{option}={text!r} is empty. Give a number.")
    try:
        value = float(text)
    except ValueError:
        raise ArgumentTypeError(argument, f"--{option}={text!r} must be a number.") from None
    if text.strip().lstrip("+-").isdigit():
        return int(text)  # exact beyond 2^53, as a seed may be
    if math.isinf(value) and "inf" not in text.lower():
        raise ArgumentError(argument, f"--{option}={text!r} is too large for a number. Use inf for infinity.")
    return int(value) if value.is_integer() else value

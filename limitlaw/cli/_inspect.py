"""`limitlaw inspect`: a model at initialisation as a table and sentences."""

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from .._checks import ArgumentError
from ._options import AsJson, PictureFile, check_picture, print_json, save_picture

if TYPE_CHECKING:
    from rich.console import Console, ConsoleRenderable
    from rich.table import Table
    from rich.text import Text

    from ..models import Check, Inspection
    from ..networks import Trajectory

_MOST_ROWS = 40  # of a table: about a screen
_WIDEST_TEXT = 100  # columns of a paragraph, however wide the terminal is
_COLUMNS = {
    "variance": "variance",
    "kurtosis": "kurtosis",
    "cosine": "cosine",
    "effective_rank": "eff. rank",
    "entropy": "entropy",
    "uniformity": "% of uniform",
}


def inspect(
    model: Annotated[
        str,
        typer.Argument(help="A known model, such as gpt2, or a config.json, or its folder.", show_default=False),
    ],
    tokens: Annotated[
        str, typer.Option(help="Number of tokens (patches of a vit), or their ids, such as '3 17 5 3'.")
    ] = "8",
    depth: Annotated[int | None, typer.Option(help="Override the number of blocks.", show_default=False)] = None,
    width: Annotated[int | None, typer.Option(help="Override the width.", show_default=False)] = None,
    samples: Annotated[
        int | None,
        typer.Option(help="Number of draws (default: as many as take about a second).", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draws, and of a vit's image.")] = 0,
    check: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Build N randomly initialised models with transformers and compare.",
            show_default=False,
        ),
    ] = None,
    plot: PictureFile = None,
    as_json: AsJson = False,
) -> None:
    """Report signal, rank and attention statistics of a model at initialisation, block by block."""
    from rich.console import Console

    from .. import models

    check_picture(plot)
    found = models.inspect(
        model, _token_numbers(tokens), width=width, depth=depth, samples=samples, seed=seed, check=check
    )
    if as_json:
        print_json(found.as_plain())
    else:
        console = Console(highlight=False)
        _show(console, found)
        if found.check is not None:
            _show_check(console, found.check)
    if plot is not None:
        t = found.trajectory
        figure = t.plot()
        figure.suptitle(f"{found.subject.title} at initialisation: width {t.width}, {t.samples} draws", fontsize=9)
        save_picture(figure, plot)


def _token_numbers(text: str) -> int | list[int]:
    """A number of tokens, or a list of their ids."""
    try:
        numbers = [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        numbers = []
    if not numbers or (len(numbers) == 1 and numbers[0] < 1):
        raise ArgumentError(
            "tokens", f"tokens={text!r} must be a number of tokens, such as 8, or their ids, such as '3 17 5 3'."
        )
    return numbers[0] if len(numbers) == 1 else numbers


def _show(console: "Console", found: "Inspection") -> None:
    t = found.trajectory
    heads = t.entropies[0].shape[1]
    shape = f"{t.blocks} block{'s' * (t.blocks != 1)}, width {t.width}, {heads} head{'s' * (heads != 1)}"
    _print(console, f"{found.subject.title} at initialisation: {shape}")
    _print(console, found.subject.tokens_in_words)
    _print(
        console,
        f"{t.samples} exact draws of the whole network, seed {found.seed}, {found.seconds:.1f} s; ± is a standard "
        f"error",
    )
    # A narrow terminal shows attention entropy in percent alone, and then leaves no spaces around ±.
    without = [name for name in _COLUMNS if name != "entropy"]
    layouts = [_table(t, list(_COLUMNS)), _table(t, without), _table(t, without, between="±")]
    chosen = next((table for table in layouts if _fits(console, table)), layouts[-1])
    console.print("", chosen, "", sep="\n")
    _print(
        console,
        "Variance and excess kurtosis are those of the last token, cosines between all pairs; entropy of attention "
        "(nats) is the mean over heads and tokens."
        if chosen is layouts[0]
        else "Variance and excess kurtosis are those of the last token, cosines between all pairs; 'of uniform' is the "
        "entropy of attention divided by its largest possible value.",
        style="dim",
    )
    console.print("\nWhat stands out", style="bold")
    for sentence in found.observations or ["Nothing."]:
        _print(console, sentence, bullet="- ")


def _fits(console: "Console", table: "ConsoleRenderable") -> bool:
    return console.measure(table, options=console.options.update(width=1000)).maximum <= console.width


def _print(console: "Console", text: str, *, bullet: str = "", style: str | None = None) -> None:
    width = min(console.width, _WIDEST_TEXT)
    console.print(
        textwrap.fill(text, width, initial_indent=bullet, subsequent_indent=" " * len(bullet), break_on_hyphens=False),
        style=style,
        markup=False,
        soft_wrap=True,
    )


def _table(t: "Trajectory", names: list[str], between: str = " ± ") -> "Table":
    """A table with rows for the input and each block; the middle of a deep network is omitted."""
    from rich import box
    from rich.table import Table

    from ..models import needs_exponent, value_and_error

    rows, table = _rows(t.blocks), t.summary()
    out = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    out.add_column("block", justify="right", min_width=5)
    columns = []
    for name in names:
        out.add_column(_COLUMNS[name], no_wrap=True)
        value, error = table[name]
        if name == "uniformity":
            value, error = 100 * value, (100 * error).clip(min=0.01)  # as many digits as anyone needs
        pairs = [None if b is None else (value[b], error[b]) for b in rows]
        scientific = any(needs_exponent(*pair) for pair in pairs if pair)  # one format in a column
        cells = [None if pair is None else value_and_error(*pair, scientific=scientific) for pair in pairs]
        columns.append(_aligned(cells, between))
    for i, block in enumerate(rows):
        out.add_row(
            "..." if block is None else "input" if block == 0 else str(block), *(column[i] for column in columns)
        )
    return out


def _rows(blocks: int) -> list[int | None]:
    """Blocks to show, None where some are omitted."""
    every: list[int | None] = list(range(blocks + 1))
    half = _MOST_ROWS // 2
    return every if len(every) <= _MOST_ROWS else [*every[:half], None, *every[-half:]]


def _aligned(cells: Sequence[tuple[str, str] | None], between: str) -> "list[Text]":
    """Cells with values aligned to the right and errors to the left."""
    from rich.text import Text

    left = max(len(cell[0]) for cell in cells if cell)
    out = []
    for cell in cells:
        value, error = cell or ("...", "")
        out.append(Text.assemble(value.rjust(left), (between + error if error else "", "dim")))
    return out


def _show_check(console: "Console", check: "Check") -> None:
    from rich import box
    from rich.table import Table

    from ..models import value_and_error

    agreement = check.agreement
    console.print(f"\nCompared with {check.models} genuine models ({check.seconds:.1f} s)", style="bold")
    out = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    out.add_column("\nblock", justify="right")
    for name in agreement.z:
        for head in (f"{name}\nlaw", "\ngenuine", "\nz"):
            out.add_column(head, justify="right")
    for block in _rows(len(agreement.z["variance"]) - 1):
        if block is None:
            out.add_row(*["..."] * (1 + 3 * len(agreement.z)))
            continue
        row = ["input" if block == 0 else str(block)]
        for name, z in agreement.z.items():
            (a, _), (b, error) = (
                (values[block], errors[block]) for values, errors in (agreement.first[name], agreement.second[name])
            )
            # Both have the digits that the error of the genuine models leaves. Equal numbers have no z-score.
            texts = [value_and_error(value, error)[0] for value in (a, b)]
            row += [*texts, "" if math.isnan(a) else "=" if math.isnan(z[block]) else f"{z[block]:.1f}"]
        out.add_row(*row)
    console.print("", out, "", sep="\n")
    _print(console, str(agreement))

"""`limitlaw inspect`: parses, calls, prints."""

import json
import math
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._checks import ArgumentError

if TYPE_CHECKING:
    from ..models import Agreement, Subject
    from ..networks import Trajectory

_TOKENS = "8"
_DRAWING = 1.0  # seconds of one core that draws take unless their number is given
_MOST_ROWS = 40
_WIDEST_TEXT = 100
_COLUMNS = {
    "variance": "variance",
    "kurtosis": "kurtosis",
    "cosine": "cosine",
    "effective_rank": "eff. rank",
    "entropy": "entropy",
    "uniformity": "% of uniform",
}


@dataclass(frozen=True)
class Inspection:
    """A model, its trajectory, and the findings."""

    subject: "Subject"
    trajectory: "Trajectory"
    observations: list[str]
    seed: int
    seconds: float


def inspect(
    model: Annotated[
        str,
        typer.Argument(help="A known model, such as gpt2, or a config.json, or its folder.", show_default=False),
    ],
    tokens: Annotated[
        str, typer.Option(help="Number of tokens (patches of a vit), or their ids, such as '3 17 5 3'.")
    ] = _TOKENS,
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
    plot: Annotated[
        Path | None, typer.Option(help="Plot the observables to this file (PDF, PNG, SVG).", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Report signal, rank and attention statistics of a model at initialisation, block by block."""
    from .. import _checks
    from ..models import Subject, affordable_draws, compare_trajectories, genuine, observations, require_genuine
    from ._question import check_picture

    start = time.perf_counter()
    _checks.seed(seed)
    if plot is not None:
        check_picture(plot)
    if check is not None and check < 2:
        raise ArgumentError("check", f"check={check} must be at least 2: a standard error needs two models.")
    subject = Subject.of(model, _token_numbers(tokens), seed)
    net = subject.network(width=width, depth=depth)
    if check is not None:
        require_genuine(subject.config, width, depth)
    t = net.trajectory(affordable_draws(net, net.width, _DRAWING) if samples is None else samples, seed=seed)
    found = Inspection(subject, t, observations(t, net), seed, time.perf_counter() - start)
    agreement, check_seconds = None, 0.0
    if check is not None:
        start = time.perf_counter()
        models = genuine(subject.config, subject.tokens, check, width=width, depth=depth, seed=seed)
        agreement, check_seconds = compare_trajectories(t, models), time.perf_counter() - start
    if plot is not None:
        figure = t.plot()
        figure.suptitle(f"{subject.title} at initialisation: width {t.width}, {t.samples} draws", fontsize=9)
        figure.savefig(plot, dpi=200)
    if as_json:
        plain = _plain(found)
        if agreement is not None:
            plain["check"] = _plain_check(agreement, check or 0, check_seconds)
        typer.echo(json.dumps(plain, indent=1, allow_nan=False))
        return
    _show(found)
    if agreement is not None:
        _show_check(agreement, check or 0, check_seconds)
    if plot is not None:
        typer.echo(f"\nwrote {plot}")


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


def _show(found: Inspection) -> None:
    from rich.console import Console

    console, t = Console(highlight=False), found.trajectory
    heads = t.entropies[0].shape[1]
    shape = f"{t.blocks} block{'s' * (t.blocks != 1)}, width {t.width}, {heads} head{'s' * (heads != 1)}"
    _print(console, f"{found.subject.title} at initialisation: {shape}")
    _print(console, found.subject.tokens_in_words)
    _print(
        console,
        f"{t.samples} exact draws of the whole network, seed {found.seed}, {found.seconds:.1f} s; ± is a standard "
        f"error",
    )
    without = [name for name in _COLUMNS if name != "entropy"]
    layouts = [_table(t, list(_COLUMNS)), _table(t, without), _table(t, without, between="±")]
    room = [
        console.width - console.measure(each, options=console.options.update(width=1000)).maximum for each in layouts
    ]
    fits = room[0] >= 0
    console.print()
    console.print(next((each for each, left in zip(layouts, room, strict=True) if left >= 0), layouts[-1]))
    console.print()
    _print(
        console,
        "Variance and excess kurtosis are those of the last token, cosines between all pairs; entropy of attention "
        "(nats) is the mean over heads and tokens."
        if fits
        else "Variance and excess kurtosis are those of the last token, cosines between all pairs; 'of uniform' is the "
        "entropy of attention divided by its largest possible value.",
        style="dim",
    )
    console.print("\nWhat stands out", style="bold")
    for sentence in found.observations or ["Nothing."]:
        _print(console, sentence, bullet="- ")


def _print(console: Any, text: str, *, bullet: str = "", style: str | None = None) -> None:
    width = min(console.width, _WIDEST_TEXT)
    console.print(
        textwrap.fill(text, width, initial_indent=bullet, subsequent_indent=" " * len(bullet), break_on_hyphens=False),
        style=style,
        markup=False,
        soft_wrap=True,
    )


def _table(t: "Trajectory", names: list[str], between: str = " ± ") -> Any:
    """A table with rows for the input and each block; the middle of a deep network is omitted."""
    from rich import box
    from rich.table import Table

    from ..models import value_and_error

    rows, table = _rows(t.blocks), t.summary()
    out = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    out.add_column("block", justify="right", min_width=5)
    columns = []
    for name in names:
        out.add_column(_COLUMNS[name], no_wrap=True)
        value, error = table[name]
        if name == "uniformity":
            value, error = 100 * value, (100 * error).clip(min=0.01)  # as many digits as anyone needs
        columns.append(_aligned([None if b is None else value_and_error(value[b], error[b]) for b in rows], between))
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


def _aligned(cells: Sequence[tuple[str, str] | None], between: str) -> list[Any]:
    """Cells with values aligned to the right and errors to the left."""
    from rich.text import Text

    left = max(len(cell[0]) for cell in cells if cell)
    out = []
    for cell in cells:
        value, error = cell or ("...", "")
        out.append(Text.assemble(value.rjust(left), (between + error if error else "", "dim")))
    return out


def _show_check(agreement: "Agreement", models: int, seconds: float) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from ..models import value_and_error

    console = Console(highlight=False)
    console.print(f"\nCompared with {models} genuine models ({seconds:.1f} s)", style="bold")
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
            row += [
                value_and_error(a, error)[0],
                value_and_error(b, error)[0],
                "" if math.isnan(a) else "=" if math.isnan(z[block]) else f"{z[block]:.1f}",
            ]
        out.add_row(*row)
    console.print()
    console.print(out)
    console.print()
    _print(console, _verdict(agreement))


def _verdict(agreement: "Agreement") -> str:
    if not agreement.count:
        return "All values are equal, and none of them is random."
    name, block = agreement.largest
    where = "at the input" if block == 0 else f"after block {block}"
    found = f"The largest of {agreement.count} |z| is {abs(agreement.z[name][block]):.1f} ({name} {where})"
    p = agreement.p
    if p >= 0.01:
        return f"{found}: chance alone gives one as large with probability {p:.2g} (Bonferroni), so no difference is found."
    return f"{found}: chance alone gives one as large with probability {p:.1g} (Bonferroni), so law and models differ."


def _plain(found: Inspection) -> dict[str, Any]:
    """All results with their inputs, as JSON can hold them."""
    subject, t = found.subject, found.trajectory
    return {
        "model": subject.title,
        "config": {**subject.config},
        "width": t.width,
        "blocks": t.blocks,
        "tokens": t.tokens,
        **({"ids": subject.tokens} if isinstance(subject.tokens, list) else {}),
        "samples": t.samples,
        "seed": found.seed,
        "seconds": round(found.seconds, 3),
        "table": [
            {
                "block": block,
                **{name: _estimate(value[block], error[block]) for name, (value, error) in t.summary().items()},
            }
            for block in range(t.blocks + 1)
        ],
        "observations": found.observations,
    }


def _plain_check(agreement: "Agreement", models: int, seconds: float) -> dict[str, Any]:
    from importlib.metadata import version

    name, block = agreement.largest
    blocks = len(agreement.z[name])
    return {
        "models": models,
        "torch": version("torch"),
        "transformers": version("transformers"),
        "seconds": round(seconds, 3),
        "table": [
            {
                "block": b,
                **{
                    name: {
                        "law": _estimate(*(part[b] for part in agreement.first[name])),
                        "genuine": _estimate(*(part[b] for part in agreement.second[name])),
                        "z": _finite(z[b]),
                    }
                    for name, z in agreement.z.items()
                },
            }
            for b in range(blocks)
        ],
        "largest": {"quantity": name, "block": block, "z": _finite(agreement.z[name][block])},
        "count": agreement.count,
        "p": agreement.p,
    }


def _estimate(value: float, error: float) -> dict[str, float] | None:
    return None if math.isnan(value) else {"value": float(value), "stderr": float(error)}


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None

"""`limitlaw inspect`: a model at initialisation, block by block."""

import json
import math
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from .models._inspection import Agreement
    from .networks import Network, Trajectory

_TOKENS = "8"
_LEAST_DRAWS, _MOST_DRAWS = 64, 4096  # unless told
_LONG = 60.0  # seconds from which a word of warning is due
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
class Subject:
    """A model to inspect: what it is called, its configuration, its tokens, and these in words."""

    title: str
    config: Mapping[str, Any]
    tokens: Any
    tokens_in_words: str

    @classmethod
    def of(cls, model: str, tokens: str, seed: int) -> "Subject":
        """From a name or a path, and a number of tokens or their ids."""
        title, config = _configured(model)
        numbers = _numbers(tokens)
        if config.get("model_type") == "vit":
            return cls(title, *_image(config, numbers, tokens, seed))
        ids = numbers if len(numbers) > 1 else _ids(config, numbers[0])
        shown = " ".join(map(str, ids[:12])) + (" ..." if len(ids) > 12 else "")
        return cls(title, config, ids, f"{_counted(len(ids), 'token')} (ids {shown})")


@dataclass(frozen=True)
class Inspection:
    """What was asked, the network that it means, what was found, and how."""

    subject: Subject
    network: "Network"
    trajectory: "Trajectory"
    observations: list[str]
    seed: int
    seconds: float


def inspect(
    model: Annotated[
        str, typer.Argument(help="gpt2, bert, llama or vit; or a config.json, or its folder.", show_default=False)
    ],
    tokens: Annotated[
        str, typer.Option(help="How many tokens (patches of a vit), or their ids, such as '3 17 5 3'.")
    ] = _TOKENS,
    depth: Annotated[int | None, typer.Option(help="What if it had so many blocks?", show_default=False)] = None,
    width: Annotated[int | None, typer.Option(help="What if it were so wide?", show_default=False)] = None,
    samples: Annotated[
        int | None, typer.Option(help="Draws of the whole network (what takes seconds).", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draws, and of a vit's image.")] = 0,
    check: Annotated[
        int | None, typer.Option(help="Compare with so many genuine models (torch, transformers).", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the observables to this file (PDF, PNG, SVG).", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """What an initialisation does to signal, rank and attention, block by block, before anyone trains it."""
    from . import _arguments
    from ._question import check_picture
    from .models import from_config
    from .models._inspection import compared, genuine, observations, require_genuine

    start = time.perf_counter()
    _arguments.seed(seed)
    if plot is not None:
        check_picture(plot)
    if check is not None and check < 2:
        raise ValueError(f"--check {check}: a standard error takes at least two models; give 2 or more.")
    subject = Subject.of(model, tokens, seed)
    net = from_config(subject.config, subject.tokens, width=width, depth=depth)
    if check is not None:
        require_genuine(subject.config, width, depth)
    draws = _draws(net, samples)
    with _saying(f"compiling, then drawing {draws} networks", _expected(net, draws)):
        t = net.trajectory(draws, seed=seed)
    found = Inspection(subject, net, t, observations(t, net), seed, time.perf_counter() - start)
    agreement, check_seconds = None, 0.0
    if check is not None:
        start = time.perf_counter()
        models = genuine(subject.config, subject.tokens, check, width=width, depth=depth, seed=seed, progress=_counting)
        agreement, check_seconds = compared(t, models), time.perf_counter() - start
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


def _configured(model: str) -> tuple[str, Mapping[str, Any]]:
    """Title and configuration of a model, from its name or its file."""
    from .models._config import _loaded
    from .models._family import nearest
    from .models._presets import PRESETS

    if model in PRESETS:
        return PRESETS[model].title, PRESETS[model].config
    if not Path(model).exists():
        raise ValueError(
            f"model={model!r}: is neither a model that is known here{nearest(model, PRESETS)} nor a file; use one of "
            f"{', '.join(PRESETS)}, or the path of a config.json or of its folder."
        )
    try:
        config = _loaded(model)
    except FileNotFoundError as error:  # a folder without the file
        raise ValueError(str(error)) from None
    return f"{model} ({config.get('model_type')})", config


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        numbers = []
    if not numbers or (len(numbers) == 1 and numbers[0] < 1):
        raise ValueError(
            f"--tokens {text!r}: must be how many tokens there are, such as 8, or their ids, such as '3 17 5 3'."
        )
    _check_count(numbers[0] if len(numbers) == 1 else len(numbers))
    return numbers


def _check_count(tokens: int) -> None:
    """Refuse more tokens than one draw has memory for."""
    from .numerics import DEFAULT_MEMORY

    most = math.isqrt(DEFAULT_MEMORY // 256)  # 64 matrices of float32
    if tokens > most:
        raise ValueError(
            f"--tokens {tokens}: one draw of them takes more than {DEFAULT_MEMORY // 2**30} GiB; give {most} or fewer."
        )


def _ids(config: Mapping[str, Any], count: int) -> list[int]:
    """Distinct ids, none of them padding, but for one in the middle that is that of the first token."""
    from .models._config import _family

    settings = _family(config).settings(config)
    vocabulary = settings.whole("vocab_size")
    padding = settings.padding(vocabulary) if "pad_token_id" in settings.values else None
    usable = [i for i in range(1, min(vocabulary, count + 2)) if i != padding] or [0]
    ids = [usable[i % len(usable)] for i in range(count)]
    if count > 2:
        ids[(count + 1) // 2] = ids[0]
    return ids


def _image(config: Mapping[str, Any], numbers: list[int], text: str, seed: int) -> tuple[Mapping[str, Any], Any, str]:
    """A configuration for an image of so many patches, the image, standard normal, and these in words."""
    import numpy as np

    from .models._config import _family
    from .models._vit import _sides

    if len(numbers) > 1:
        raise ValueError(
            f"--tokens {text!r}: a vit has no token ids; give the number of patches of its image, such as 8."
        )
    (count,) = numbers
    settings = _family(config).settings(config)
    (high, wide), channels = _sides(settings, "patch_size"), settings.whole("num_channels")
    rows = max(k for k in range(1, math.isqrt(count) + 1) if count % k == 0)
    sides = [rows * high, count // rows * wide]
    image = np.random.default_rng(seed).standard_normal((channels, *sides)).astype(np.float32)
    words = f"class token + {_counted(count, 'patch', 'patches')} ({rows} x {count // rows}) of a standard normal image"
    own = _sides(settings, "image_size")
    if tuple(sides) != own:
        words += f" of {sides[0]} x {sides[1]} pixels instead of {own[0]} x {own[1]}"
    return {**config, "image_size": sides}, image, words


def _draws(net: "Network", samples: int | None) -> int:
    """How many draws: a block of them, unless told; refused if they do not fit the memory."""
    from .networks import Attention, blocks_of
    from .networks._gram import block_size, memory
    from .numerics import DEFAULT_MEMORY

    size = block_size(net, net.width)
    draws = min(max(size, _LEAST_DRAWS), _MOST_DRAWS) if samples is None else samples
    blocks, heads = blocks_of(net), max(part.heads for part in _parts(net) if isinstance(part, Attention))
    numbers = (blocks + 1) * net.tokens**2 + blocks * heads * net.tokens
    needed = 4 * (draws + size) * numbers + memory(net, net.width, size)
    if needed > DEFAULT_MEMORY:
        raise ValueError(
            f"depth={blocks}, tokens={net.tokens}, samples={draws}: so many draws take {needed / 2**30:.3g} GiB, more than the "
            f"{DEFAULT_MEMORY / 2**30:.3g} allowed; make --depth, --tokens or --samples smaller."
        )
    return draws


def _parts(net: "Network") -> list[Any]:
    return [part for layer in net.layers for part, _ in layer.walk()]


def _expected(net: "Network", draws: int) -> float:
    """Seconds that the draws will take, roughly."""
    from .networks._gram import block_size, seconds_of_a_draw
    from .numerics import available_cores

    size = block_size(net, net.width)
    blocks = -(-draws // size)
    one_by_one = 1 + -(-(blocks - 1) // available_cores())  # the first runs alone, since it compiles
    return seconds_of_a_draw(net, net.width) * size * one_by_one


@contextmanager
def _saying(text: str, expected: float) -> Iterator[None]:
    """A line on a terminal while something runs, and a warning if it will take long."""
    if expected > _LONG:
        long = f"{expected / 60:.0f} minutes" if expected < 5400 else f"{expected / 3600:.0f} hours"
        typer.echo(f"this will take about {long}; fewer --samples, --tokens or blocks take less", err=True)
    terminal = sys.stderr.isatty()
    if terminal:
        sys.stderr.write(f"{text} ...")
        sys.stderr.flush()
    try:
        yield
    finally:
        if terminal:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def _counting(models: Sequence[int]) -> Iterator[int]:
    """Go through models, with a bar on a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return iter(track(models, "genuine models", console=console, transient=True, disable=not console.is_terminal))


def _counted(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _show(found: Inspection) -> None:
    from rich.console import Console

    from .networks import Attention

    console, t = Console(highlight=False), found.trajectory
    heads = next(part.heads for part in _parts(found.network) if isinstance(part, Attention))
    _print(
        console,
        f"{found.subject.title} at initialisation: {_counted(t.blocks, 'block')}, width {t.width}, {_counted(int(heads), 'head')}",
    )
    _print(console, found.subject.tokens_in_words)
    _print(
        console,
        f"{t.samples} exact draws of the whole network, seed {found.seed}, {found.seconds:.1f} s; ± is a standard error",
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
        "Variance and excess kurtosis are those of the last token, cosines between all pairs; entropy of attention (nats), "
        "the mean over heads and tokens."
        if fits
        else "Variance and excess kurtosis are those of the last token, cosines between all pairs; 'of uniform' is the entropy of "
        "attention over the largest it could have.",
        style="dim",
    )
    console.print("\nWhat stands out", style="bold")
    for sentence in found.observations or ["Nothing does."]:
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
    """Rows for the input and each block; the middle of a deep network is left out."""
    from rich import box
    from rich.table import Table

    from .models._inspection import short

    rows, table = _rows(t.blocks), t.summary()
    out = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    out.add_column("block", justify="right", min_width=5)
    columns = []
    for name in names:
        out.add_column(_COLUMNS[name], no_wrap=True)
        value, error = table[name]
        if name == "uniformity":
            value, error = 100 * value, (100 * error).clip(min=0.01)  # as many digits as anyone needs
        columns.append(_aligned([None if b is None else short(value[b], error[b]) for b in rows], between))
    for i, block in enumerate(rows):
        out.add_row(
            "..." if block is None else "input" if block == 0 else str(block), *(column[i] for column in columns)
        )
    return out


def _rows(blocks: int) -> list[int | None]:
    """Blocks to show, None for those left out."""
    every: list[int | None] = list(range(blocks + 1))
    half = _MOST_ROWS // 2
    return every if len(every) <= _MOST_ROWS else [*every[:half], None, *every[-half:]]


def _aligned(cells: Sequence[tuple[str, str] | None], between: str) -> list[Any]:
    """Values to the right, errors to the left of where they meet."""
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

    from .models._inspection import short

    console = Console(highlight=False)
    console.print(f"\nBeside {models} genuine models ({seconds:.1f} s)", style="bold")
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
                (values[block], errors[block]) for values, errors in (side[name] for side in _sides(agreement))
            )
            row += [
                short(a, error)[0],
                short(b, error)[0],
                "" if math.isnan(a) else "=" if math.isnan(z[block]) else f"{z[block]:.1f}",
            ]
        out.add_row(*row)
    console.print()
    console.print(out)
    console.print()
    _print(console, _verdict(agreement))


def _sides(agreement: "Agreement") -> tuple[Any, Any]:
    return agreement.first, agreement.second


def _verdict(agreement: "Agreement") -> str:
    if not agreement.count:
        return "Everything is equal, and nothing random."
    name, block = agreement.largest
    where = "at the input" if block == 0 else f"after block {block}"
    found = f"The largest of {agreement.count} |z| is {abs(agreement.z[name][block]):.1f} ({name} {where})"
    p = agreement.p
    if p >= 0.01:
        return f"{found}: chance alone brings one as large with probability {p:.2g} (Bonferroni), so no difference is seen."
    return f"{found}: chance alone brings one as large with probability {p:.1g} (Bonferroni), so law and models differ."


def _plain(found: Inspection) -> dict[str, Any]:
    """Everything that is shown, and what it was made from."""
    subject, t = found.subject, found.trajectory
    is_image = subject.config["model_type"] == "vit"
    return {
        "model": subject.title,
        "config": {**subject.config},
        "width": t.width,
        "blocks": t.blocks,
        "tokens": t.tokens,
        **({} if is_image else {"ids": list(subject.tokens)}),
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

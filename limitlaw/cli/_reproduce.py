"""`limitlaw reproduce`: the figures of both papers, and those beyond them."""

import contextlib
import time
from pathlib import Path
from typing import Annotated

import typer

from ._sweep import ClusterWords, ProfileFile, cluster_of


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
    cluster: ClusterWords = None,
    profile: ProfileFile = None,
    load: Annotated[
        list[Path] | None,
        typer.Option(
            "--load", help="Load a Python file that is a figure of your own (repeatable).", show_default=False
        ),
    ] = None,
) -> None:
    """Regenerate every figure of the papers, with data, exact values and a report."""
    start = time.perf_counter()
    from rich.console import Console

    from .. import _checks
    from ..figures import FIGURES, GROUPS, Reproduction, Settings, load_figure
    from ..numerics.batches import available_cores

    settings = (Settings.quick() if quick else Settings()).override(
        trials=trials, samples=samples, seed=seed, tokens=tokens
    )
    if only is not None:
        _checks.one_of("--only", only, ("data", "figures", "report"))
    own = {figure.name: figure for figure in map(load_figure, load or ())}
    known = {**FIGURES, **own}
    requested = figures or list(own) or list(GROUPS)
    for name in requested:
        _checks.one_of("figure", name, (*GROUPS, *known))
    names = dict.fromkeys(figure for name in requested for figure in GROUPS.get(name, (name,)))
    console = Console()
    place = cluster_of(cluster, profile, workers)
    work = Reproduction(out, settings, [known[name] for name in names], only)
    with contextlib.nullcontext() if place is None else place.client() as client:
        work.execute(
            workers=workers or available_cores(),
            client=client,
            console=console,
            waiting=lambda: console.print(f"waiting for another run in {out} to end", highlight=False),
        )
    if work.costs is not None:
        console.print(work.costs)
    last = work.written[-1] if work.written else out
    console.print(
        f"{'wrote ' if work.written else 'nothing to do in '}{last} in {time.perf_counter() - start:.1f} s",
        highlight=False,
        soft_wrap=True,
    )

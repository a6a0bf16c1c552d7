"""`limitlaw sweep`, `status` and `export`: a study in a folder, anywhere it runs."""

import contextlib
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import _progress
from .._checks import ArgumentError
from .._load import load_modules
from ._options import LoadedFiles, check_output_file

OutFolder = Annotated[Path, typer.Option("--out", help="Folder for results.", show_default=False)]
ClusterWords = Annotated[
    str | None,
    typer.Option(help="Where to compute: local:N, tcp://host:port, or slurm (this process).", show_default=False),
]
ProfileFile = Annotated[
    Path | None, typer.Option(help="With slurm: a TOML file of cores, memory, jobs, queue, ...", show_default=False)
]


def sweep(
    study: Annotated[Path, typer.Argument(help=r"A study as TOML: \[network] or \[problem], \[axes], measure.")],
    out: OutFolder,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of processes (one for each core).", show_default=False)
    ] = None,
    cluster: ClusterWords = None,
    profile: ProfileFile = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the cost (and the job script), and compute nothing.")
    ] = False,
    load: LoadedFiles = None,
) -> None:
    """Run a study file. Finished results are kept; only missing ones are computed."""
    from rich.console import Console

    from .._format import format_bytes
    from ..experiments import Sweep, duration, read, write_study_page
    from ..numerics.batches import available_cores

    start, console = time.perf_counter(), Console()
    load_modules(load)
    with _progress.task("Reading the study"):
        requested = Sweep(read(study), out)
        place = cluster_of(cluster, profile, workers)
        count = available_cores() if workers is None else workers
        at_once = place.workers if place is not None and place.workers else count
        needed = requested.check_room(at_once)
    if not needed.left:
        time_needed = "nothing left to compute"
    elif needed.seconds is None:
        time_needed = "time not yet measured on this machine"
    else:
        time_needed = f"about {duration(needed.seconds)} on {at_once} at once"
    console.print(
        f"{requested.study.name}: {len(requested.study.points)} points, {needed.tasks} tasks, "
        f"{needed.tasks - needed.left} of them done; {time_needed}, {format_bytes(needed.memory)} of memory each, "
        f"{format_bytes(needed.disk)} on disk",
        highlight=False,
        soft_wrap=True,
    )
    if dry_run:
        if place is not None and place.kind == "slurm":
            typer.echo(place.job_script())
        return
    with contextlib.nullcontext() if place is None or not needed.left else place.client() as client:
        requested.run(
            workers=count,
            client=client,
            console=console,
            waiting=lambda: console.print(f"waiting for another run in {out} to end", highlight=False),
        )
    written = write_study_page(requested)
    console.print(
        f"wrote {out / 'results.zarr'} and {written} in {time.perf_counter() - start:.1f} s",
        highlight=False,
        soft_wrap=True,
    )


def status(
    folder: Annotated[Path, typer.Argument(help="The folder of a sweep.")],
    load: LoadedFiles = None,
) -> None:
    """Report the progress of a sweep: tasks done and failed, with reasons, and the time left."""
    from ..experiments import Sweep, duration

    load_modules(load)
    sweep = Sweep.open(folder)
    found = sweep.status()
    left = "" if found.seconds_left is None else f", about {duration(found.seconds_left)} left"
    state = "complete" if found.done == found.total else "running" if found.running else "stopped"
    typer.echo(f"{sweep.study.name}: {state}, {found.done} of {found.total} tasks done{left}")
    for name, reason in found.failed.items():
        typer.echo(f"failed: {name}: {reason}")


def export(
    folder: Annotated[Path, typer.Argument(help="The folder of a sweep.")],
    csv: Annotated[Path, typer.Option(help="The file to write, a row for each number.", show_default=False)],
    load: LoadedFiles = None,
) -> None:
    """Write the results of a sweep as one table."""
    from ..experiments import Sweep

    check_output_file("csv", csv)
    load_modules(load)
    sweep = Sweep.open(folder)
    try:
        rows = sweep.write_csv(csv)
    except OSError as error:
        raise ArgumentError(
            "csv", f"--csv {csv} cannot be written: {error.strerror or error}. Choose another file."
        ) from None
    typer.echo(f"wrote {rows} rows to {csv}")


def cluster_of(words: str | None, profile: Path | None, workers: int | None) -> Any:
    """The cluster that was asked for, or None for this machine."""
    from ..experiments import Cluster

    if words is None:
        if profile is not None:
            raise ArgumentError("profile", f"--profile {profile} belongs to --cluster slurm. Give both, or neither.")
        return None
    if workers is not None:
        raise ArgumentError(
            "workers",
            f"--workers {workers} cannot be combined with --cluster {words}, which has its own. Leave one of them out.",
        )
    return Cluster.of(words, profile)

"""A run of the figures: compute what is missing, draw what is new, write the page."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from .._format import Table
from ..experiments import (
    Files,
    Job,
    Provenance,
    Run,
    Store,
    StoreError,
    code_version,
    mark_of,
    replacing,
    with_needs,
)
from ._figure import Figure
from ._listing import FIGURES
from ._pictures import KINDS, pictures
from ._report import Effort, Report, Shown
from ._settings import Settings


@dataclass
class Reproduction:
    """Figures in a folder: `store/` keeps results, `data/` the data behind each figure, with pictures and `report.html`.

    A result is computed once and kept under all that it depends on. A figure is drawn again only if its data or its
    code have changed.

    Args:
        out: The folder.
        settings: How much of everything.
        figures: The figures to make. The page has those of earlier runs in the folder too.
        only: "data" computes, "figures" draws what was computed, "report" writes the page of what was drawn.

    Attributes:
        written: The files that were written.
        costs: The table of costs, if the page was written.

    Example:
        >>> import tempfile, pathlib
        >>> from limitlaw.figures import FIGURES, Reproduction, Settings
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = Reproduction(pathlib.Path(folder, "out"), Settings(points=4), [FIGURES["slr_landscape"]], only="data")
        ...     made.execute()
        ...     print(sorted(path.name for path in made.written))
        ['slr_landscape.csv', 'slr_landscape.zarr']
    """

    out: Path
    settings: Settings
    figures: Sequence[Figure] = tuple(FIGURES.values())
    only: str | None = None
    written: list[Path] = field(default_factory=list, init=False)
    costs: Table | None = field(default=None, init=False)

    def execute(
        self,
        *,
        workers: int = 1,
        client: Any = None,
        console: Any = None,
        waiting: Callable[[], None] = lambda: None,
    ) -> None:
        """Do it; the arguments are those of `experiments.Run`."""
        start = time.perf_counter()
        if self.only in ("figures", "report") and mark_of(self.out) is None:
            raise StoreError(f"--only {self.only}: nothing has been computed in {self.out}. Run without --only first.")
        jobs = [job for figure in self.figures for job in self._jobs(figure)]
        run = Run(self.out, "limitlaw reproduce", [] if self.only == "report" else jobs)
        with run.opened(waiting) as store:
            if self.only == "figures":
                self._check_computed(store)
            run.compute(workers=workers, client=client, console=console)
            self.written += run.written
            if self.only in (None, "report"):
                self._write_page(store, start, run.computed)

    def _jobs(self, figure: Figure) -> Iterator[Job]:
        if self.only != "figures":
            code = code_version(figure.file, packages=("figures", "experiments"))
            yield Job(f"{figure.name}: data", figure.tasks(self.settings), partial(self._write_data, figure), code)
        if self.only != "data":
            yield self._drawn(figure)

    def _drawn(self, figure: Figure) -> Job:
        task = pictures(figure, self.settings)

        def write(store: Store, folder: Path) -> list[Path]:
            paths = {kind: folder / f"{figure.name}.{kind}" for kind in KINDS}
            for kind, content in store.load(task).items():
                with replacing(paths[kind]) as part:
                    part.write_bytes(content.tobytes())
            return list(paths.values())

        return Job(figure.name, [task], write)

    def _check_computed(self, store: Store) -> None:
        for figure in self.figures:
            missing = [task for task in with_needs(figure.tasks(self.settings)) if not store.has(task)]
            if missing:
                raise StoreError(
                    f"--only {self.only}: {figure.name} has not been computed with these settings in {self.out} "
                    f"({missing[0].name} is missing). Run without --only, or with --only data, first."
                )

    def _write_data(self, figure: Figure, store: Store, out: Path) -> list[Path]:
        folder = out / "data"
        paths = [folder / f"{figure.name}.zarr", folder / f"{figure.name}.csv"]
        folder.mkdir(exist_ok=True)
        data = figure.dataset(self.settings, store)
        table: Table = figure.numbers(data)["table"]
        about = {"figure": figure.name, "title": figure.title, "seed": self.settings.seed, "code": code_version()}
        with replacing(paths[0]) as part:
            _write_zarr(data, about, part)
        with replacing(paths[1]) as part:
            part.write_text(table.csv(), encoding="utf-8", newline="")
        return paths

    def _write_page(self, store: Store, start: float, computed: set[str]) -> None:
        """Write the page, with all figures that are in the folder as these settings make them."""
        shown, results = [], set()
        for figure in {**FIGURES, **{figure.name: figure for figure in self.figures}}.values():
            if not Files(store, self._drawn(figure)).hold(self.out):
                continue
            tasks = with_needs(figure.tasks(self.settings))
            words = figure.words(figure.dataset(self.settings, store))
            results |= {task.key for task in tasks}
            work = sum(store.seconds(task) for task in tasks)
            shown.append(Shown(figure, words, (self.out / f"{figure.name}.png").read_bytes(), tasks, work))
        missing = {figure.name for figure in self.figures} - {each.figure.name for each in shown}
        if missing:
            raise StoreError(
                f"--only report: {min(missing)} has not been drawn with these settings in {self.out}. "
                f"Run without --only first."
            )
        effort = Effort(time.perf_counter() - start, len(results), len(results - computed))
        report = Report(shown, self.settings, Provenance.here(), effort, store.seconds)
        self.costs = report.costs
        path = self.out / "report.html"
        with replacing(path) as part:
            part.write_text(report.html(), encoding="utf-8")
        self.written.append(path)


def _write_zarr(data: Any, about: dict[str, Any], path: Path) -> None:
    """Write a dataset, or a dictionary of datasets as groups."""
    import xarray as xr

    if isinstance(data, xr.Dataset):
        data = data.assign_attrs(about)
        large = [name for name in data.data_vars if data[name].size > 2**16]
        data.to_zarr(path, mode="w", zarr_format=2, encoding={name: {"compressors": None} for name in large})
    else:
        tree = xr.DataTree.from_dict(dict(data))
        tree.attrs.update(about)
        tree.to_zarr(path, mode="w", zarr_format=2)

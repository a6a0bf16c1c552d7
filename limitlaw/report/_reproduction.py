"""A run of the figures: compute what is missing, draw what is new, write the page."""

import csv
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ..experiments import Files, Job, Run, Store, StoreError, code_version, mark_of, replacing, with_needs
from ..figures import FIGURES, KINDS, Figure, Settings, Table, pictures
from ._costs import costs
from ._page import Effort, Section, Words, page
from ._provenance import Provenance


@dataclass
class Reproduction:
    """Figures in a folder: `store/` keeps results, `data/` the data behind each figure, beside them pictures and `report.html`.

    A result is computed once and kept under all that it depends on; a figure is drawn again only if its data or its code have changed.
    `only` limits the work: "data" computes, "figures" draws what was computed, "report" writes the page of what was drawn.

    Example:
        >>> import tempfile, pathlib
        >>> from limitlaw.figures import Settings
        >>> from limitlaw.report import Reproduction
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = Reproduction(pathlib.Path(folder), Settings(points=4), ("slr_landscape",), only="data")
        ...     made.execute()
        ...     print(sorted(path.name for path in made.written))
        ['slr_landscape.csv', 'slr_landscape.zarr']
    """

    out: Path
    settings: Settings
    names: tuple[str, ...] = tuple(FIGURES)
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
        jobs = [job for name in self.names for job in self._jobs(FIGURES[name])]
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
            code = code_version(packages=("figures", "experiments"))
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
        for name in self.names:
            missing = [task for task in with_needs(FIGURES[name].tasks(self.settings)) if not store.has(task)]
            if missing:
                raise StoreError(
                    f"--only {self.only}: {name} has not been computed with these settings in {self.out} "
                    f"({missing[0].name} is missing). Run without --only, or with --only data, first."
                )

    def _write_data(self, figure: Figure, store: Store, out: Path) -> list[Path]:
        folder = out / "data"
        paths = [folder / f"{figure.name}.zarr", folder / f"{figure.name}.csv"]
        folder.mkdir(exist_ok=True)
        data = figure.dataset(self.settings, store.load)
        table = figure.table(data)
        data = data.assign_attrs(figure=figure.name, title=figure.title, seed=self.settings.seed, code=code_version())
        with replacing(paths[0]) as part:
            _write_zarr(data, part)
        with replacing(paths[1]) as part, open(part, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(table.as_data())
        return paths

    def _write_page(self, store: Store, start: float, computed: set[str]) -> None:
        sections, results = [], set()
        for figure in FIGURES.values():
            if not Files(store, self._drawn(figure)).hold(self.out):
                continue
            tasks = with_needs(figure.tasks(self.settings))
            words = Words.of(figure, figure.dataset(self.settings, store.load))
            results |= {task.key for task in tasks}
            work = sum(store.seconds(task) for task in tasks)
            sections.append(Section(figure, words, (self.out / f"{figure.name}.png").read_bytes(), work))
        missing = set(self.names) - {section.figure.name for section in sections}
        if missing:
            raise StoreError(
                f"--only report: {sorted(missing)[0]} has not been drawn with these settings in {self.out}. "
                f"Run without --only first."
            )
        shown = tuple(section.figure.name for section in sections)
        effort = Effort(time.perf_counter() - start, len(results), len(results - computed))
        self.costs = costs(self.settings, shown, store.seconds, None if effort.kept else effort.seconds)
        path = self.out / "report.html"
        with replacing(path) as part:
            part.write_text(page(sections, self.settings, Provenance.here(), effort, self.costs), encoding="utf-8")
        self.written.append(path)


def _write_zarr(data: Any, path: Path) -> None:
    encoding: dict[Any, Any] = {name: {"compressors": None} for name in data.data_vars if data[name].size > 2**16}
    data.to_zarr(path, mode="w", zarr_format=2, encoding=encoding)

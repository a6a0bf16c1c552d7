"""A run of the figures: compute what is missing, draw what is new, write the page."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._format import Table
from ..experiments import (
    Progress,
    Provenance,
    Store,
    StoreError,
    Task,
    code_version,
    complete,
    remove_parts,
    replacing,
    with_needs,
)
from ._figure import Figure, Words
from ._listing import FIGURES
from ._pictures import KINDS, pictures
from ._report import Effort, Report, Shown
from ._settings import Settings


@dataclass
class Reproduction:
    """Figures in a folder: `store/` keeps results, `data/` the data behind each figure, beside them pictures and `report.html`.

    A result is computed once and kept under all that it depends on; a figure is drawn again only if its data or its code have changed.
    `only` limits the work: "data" computes, "figures" draws what was computed, "report" writes the page of what was drawn.

    Example:
        >>> import tempfile, pathlib
        >>> from rich.console import Console
        >>> from limitlaw.figures import Reproduction, Settings
        >>> from limitlaw.experiments import Progress
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = Reproduction(pathlib.Path(folder), Settings(points=4), ("slr_landscape",), only="data")
        ...     made.run(lambda jobs: Progress(jobs, Console(quiet=True)), waiting=lambda: None)
        ...     print(sorted(path.name for path in made.written))
        ['slr_landscape.csv', 'slr_landscape.zarr']
    """

    out: Path
    settings: Settings
    names: tuple[str, ...] = tuple(FIGURES)
    only: str | None = None
    workers: int = 1
    written: list[Path] = field(default_factory=list, init=False)
    costs: Table | None = field(default=None, init=False)
    _words: dict[str, Words] = field(default_factory=dict, init=False)
    _computed: set[str] = field(default_factory=set, init=False)  # keys

    def run(
        self,
        progress: Callable[[dict[str, list[Task]]], Progress],
        waiting: Callable[[], None],
        client: Any = None,
    ) -> None:
        """Do it, on a cluster if there is a `client` of one; `waiting` is called if another run is at work in the same folder."""
        self._refuse_foreign_files()
        store = Store(self.out / "store")
        with store.locked(waiting):
            start = time.perf_counter()
            remove_parts(self.out, self.out / "data", store.folder / "made")
            if self.only in (None, "data"):
                self._compute(store, progress, client)
            elif self.only == "figures":
                self._check_computed(store)
                for _ in complete(map(self._pictures, self.names), store, workers=self.workers, client=client):
                    pass
                for name in self.names:
                    self._write_pictures(FIGURES[name], store)
            if self.only in (None, "report"):
                self._write_page(store, start)

    def _refuse_foreign_files(self) -> None:
        """Nothing is overwritten that a run has not written: what it writes lies beside its store."""
        if (self.out / "store").exists() and not (self.out / "study.json").exists():
            return
        if self.only in ("figures", "report"):
            raise StoreError(f"--only {self.only}: nothing has been computed in {self.out}. Run without --only first.")
        pictures = (f"{name}.{kind}" for name in FIGURES for kind in KINDS)
        for name in ("report.html", "data", "study.json", *pictures):
            if (self.out / name).exists():
                raise StoreError(
                    f"{self.out / name} exists, and limitlaw reproduce did not make it. Choose another folder with --out."
                )

    def _compute(self, store: Store, progress: Callable[[dict[str, list[Task]]], Progress], client: Any) -> None:
        """Compute what is missing; as soon as a figure has all it needs, write its data and its pictures, on a thread beside."""
        jobs = {name: self._tasks(name) for name in self.names}
        waiting_for = {name: {task.key for task in with_needs(tasks)} for name, tasks in jobs.items()}
        stored = {task.key for tasks in jobs.values() for task in with_needs(tasks) if store.path(task.key).exists()}
        beside, figures = ThreadPoolExecutor(1), []
        with progress(jobs).showing() as shown:
            try:
                every = [task for tasks in jobs.values() for task in tasks]
                for task in complete(every, store, workers=self.workers, client=client):
                    new = task.key not in stored
                    if new:
                        self._computed.add(task.key)
                    shown.done(task, computed=new)
                    for name in [name for name, keys in waiting_for.items() if keys <= {task.key}]:
                        del waiting_for[name]
                        figures.append(beside.submit(self._make, FIGURES[name], store, shown))
                    for keys in waiting_for.values():
                        keys.discard(task.key)
                    for figure in figures:
                        if figure.done():
                            figure.result()  # a full disk ends the run at once
                for figure in figures:
                    figure.result()
            finally:
                beside.shutdown(wait=False, cancel_futures=True)

    def _tasks(self, name: str) -> list[Task]:
        return FIGURES[name].tasks(self.settings) if self.only == "data" else [self._pictures(name)]

    def _pictures(self, name: str) -> Task:
        return pictures(FIGURES[name], self.settings)

    def _make(self, figure: Figure, store: Store, shown: Progress) -> None:
        fresh = self._collect(figure, store)
        if self.only is None:
            fresh = self._write_pictures(figure, store) or fresh
        shown.say(f"{figure.name} {'done' if fresh else 'was done before'}")

    def _check_computed(self, store: Store) -> None:
        for name in self.names:
            missing = [task for task in with_needs(FIGURES[name].tasks(self.settings)) if not store.has(task)]
            if missing:
                raise StoreError(
                    f"--only {self.only}: {name} has not been computed with these settings in {self.out} "
                    f"({missing[0].name} is missing). Run without --only, or with --only data, first."
                )

    def _collect(self, figure: Figure, store: Store) -> bool:
        """Write the data behind a figure, unless it is there; says whether it was new."""
        folder = self.out / "data"
        paths = [folder / f"{figure.name}.zarr", folder / f"{figure.name}.csv"]
        record = Record(store, f"data-{figure.name}", self._key(figure), paths)
        if record.holds():
            return False
        folder.mkdir(exist_ok=True)
        data = figure.dataset(self.settings, store)
        self._words[figure.name] = figure.words(data)
        data = data.assign_attrs(figure=figure.name, title=figure.title, seed=self.settings.seed, code=code_version())
        with replacing(paths[0]) as part:
            _write_zarr(data, part)
        with replacing(paths[1]) as part:
            part.write_text(self._words[figure.name].table.csv(), encoding="utf-8", newline="")
        record.write()
        self.written += paths
        return True

    def _write_pictures(self, figure: Figure, store: Store) -> bool:
        """Write the pictures of a figure, unless they are there; says whether they were new."""
        paths = {kind: self.out / f"{figure.name}.{kind}" for kind in KINDS}
        record = Record(store, f"picture-{figure.name}", self._key(figure), paths.values())
        if record.holds():
            return False
        files = store.load(self._pictures(figure.name))
        for kind, path in paths.items():
            with replacing(path) as part:
                part.write_bytes(files[kind].tobytes())
        record.write()
        self.written += paths.values()
        return True

    def _write_page(self, store: Store, start: float) -> None:
        sections, results = [], set()
        for figure in FIGURES.values():
            picture = self.out / f"{figure.name}.png"
            if not Record(store, f"picture-{figure.name}", self._key(figure), [picture]).holds(exactly=False):
                continue
            tasks = with_needs(figure.tasks(self.settings))
            words = self._words.get(figure.name) or figure.words(figure.dataset(self.settings, store))
            results |= {task.key for task in tasks}
            work = sum(store.seconds(task) for task in tasks)
            sections.append(Shown(figure, words, picture.read_bytes(), tasks, work))
        missing = set(self.names) - {section.figure.name for section in sections}
        if missing:
            raise StoreError(
                f"--only report: {sorted(missing)[0]} has not been drawn with these settings in {self.out}. "
                f"Run without --only first."
            )
        effort = Effort(time.perf_counter() - start, len(results), len(results - self._computed))
        report = Report(sections, self.settings, Provenance.here(), effort, store.seconds)
        self.costs = report.costs
        path = self.out / "report.html"
        with replacing(path) as part:
            part.write_text(report.html(), encoding="utf-8")
        self.written.append(path)

    def _key(self, figure: Figure) -> str:
        """All that the data and the look of a figure depend on."""
        return self._pictures(figure.name).key


@dataclass(frozen=True)
class Record:
    """What a file was made from, kept in the store."""

    store: Store
    name: str
    key: str
    paths: Iterable[Path]

    @property
    def path(self) -> Path:
        return self.store.folder / "made" / f"{self.name}.json"

    def holds(self, *, exactly: bool = True) -> bool:
        """Whether the files are there, as they were made from this key."""
        try:
            found = json.loads(self.path.read_text())
            made_from, known = found["key"], dict(found["files"])
        except (OSError, ValueError, KeyError, TypeError):
            return False
        digests = {path.name: _digest(path) for path in self.paths}
        return made_from == self.key and (
            known == digests if exactly else all(known.get(name) == digest for name, digest in digests.items())
        )

    def write(self) -> None:
        self.path.parent.mkdir(exist_ok=True)
        files = {path.name: _digest(path) for path in self.paths}
        with replacing(self.path) as part:
            part.write_text(json.dumps({"key": self.key, "files": files}, indent=1, sort_keys=True) + "\n")


def _digest(path: Path) -> str:
    """Of a file, or of all files in a folder; empty if there is nothing."""
    digest = hashlib.sha256()
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file():
                digest.update(file.relative_to(path).as_posix().encode() + file.read_bytes())
    elif path.exists():
        digest.update(path.read_bytes())
    else:
        return ""
    return digest.hexdigest()


def _write_zarr(data: Any, path: Path) -> None:
    encoding: dict[Any, Any] = {name: {"compressors": None} for name in data.data_vars if data[name].size > 2**16}
    data.to_zarr(path, mode="w", zarr_format=2, encoding=encoding)

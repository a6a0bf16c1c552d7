"""The report of `limitlaw reproduce`: claims and verdicts, figures with their numbers, and reproducibility cards."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .._format import Column, Table
from ..experiments import Part, Picture, Provenance, Section, Summary, Task, page, with_needs
from ..networks import Attention, Inputs, Network
from ..numerics import clip
from . import _depth as deep
from ._figure import Figure, Words
from ._settings import Settings
from ._templates import texts_of

# CPU time of the authors' scripts in core-hours: measured per sample on one core, times the paper's counts. Figure 4 is
# not among them.
_PUBLISHED: dict[str, tuple[tuple[str, ...], float | str]] = {
    "figures 1 and 2b": (("fig1a", "fig1b", "fig2b", "heads_limit", "heads_gaussian"), 189.4),
    "figure 2a": (("fig2a",), 0.09),
    "figure 3": (("fig3a", "fig3b"), 20.7),
    "figure 4": (("fig4a", "fig4b"), "not published"),
    "figure 5": (("fig5a", "fig5b"), 66.0),
}
_OTHERS = {"slr": ("single-location regression", "not published"), "deep": ("depth", "not in the papers")}


@dataclass(frozen=True)
class Shown:
    """A figure with what is said about it, its picture (PNG), what it computed, and the seconds of work behind that."""

    figure: Figure
    words: Words
    picture: bytes
    tasks: Sequence[Task]
    seconds: float


@dataclass(frozen=True)
class Effort:
    """Wall time of a run, how many results its figures rest on, and how many of them were there before."""

    seconds: float
    results: int
    kept: int

    @property
    def share(self) -> str:
        """What was computed, in words."""
        if not self.kept:
            return f"all of its {self.results:,} results"
        if self.kept == self.results:
            return f"none of its {self.results:,} results, which were all there"
        return f"{self.results - self.kept:,} of its {self.results:,} results; the others were there"


@dataclass(frozen=True)
class Report:
    """The page of a run.

    Example:
        >>> from limitlaw.experiments import Provenance
        >>> from limitlaw.figures import Settings
        >>> from limitlaw.figures._report import Effort, Report
        >>> effort = Effort(seconds=2.0, results=40, kept=40)
        >>> html = Report([], Settings(seed=3), Provenance.here(), effort, lambda task: 1.0).html()
        >>> "10 trials of 50,000 (100,000 for ReLU) networks and seed 3" in html
        True
    """

    shown: Sequence[Shown]
    settings: Settings
    made: Provenance
    effort: Effort
    seconds: Callable[[Task], float]

    @cached_property
    def _given(self) -> dict[str, Any]:
        """What all templates may say."""
        stacks = {
            title: deep.network(kind, self.settings.depth, beta=1.0, correlation=deep.CORRELATION).layers[0]
            for kind, title in deep.TITLES.items()
        }
        return {
            "settings": self.settings,
            "made": self.made,
            "effort": self.effort,
            "versions": ", ".join(f"{name} {version}" for name, version in self.made.versions.items()),
            "program": Network(Inputs(2, clip(100.0)), Attention(heads=1)).program(),
            "stacks": stacks,
            "deep": {"tokens": deep.TOKENS, "heads": deep.HEADS, "correlation": deep.CORRELATION},
        }

    @cached_property
    def _groups(self) -> dict[str, list[Shown]]:
        found: dict[str, list[Shown]] = {}
        for shown in self.shown:
            found.setdefault(shown.figure.group, []).append(shown)
        return found

    def html(self) -> str:
        """The page."""
        said = texts_of("report.md.j2", {**self._given, "seconds": 0.0, "name": ""})
        verdicts = [
            (f"[{shown.figure.title}](#{shown.figure.name})", shown.figure.claim, shown.words.verdict)
            for shown in self.shown
        ]
        groups = {name: self._texts_of_group(name) for name in self._groups}
        sections = [
            Section("Claims and verdicts", [Summary(("Figure", "Claim", "Verdict"), verdicts)], "claims"),
            Section("What it costs", [said["costs"], self.costs], "costs"),
            *(self._section_of_group(name, texts) for name, texts in groups.items()),
            *(
                Section(f"Reproducibility card: {texts['paper']}", [texts["card"]], f"card-{name}", folded=True)
                for name, texts in groups.items()
                if "card" in texts
            ),
        ]
        return page(said["title"], [said["opening"], *sections])

    def _texts_of_group(self, name: str) -> dict[str, str]:
        if name not in ("attention", *_OTHERS):
            return {"title": name.capitalize(), "claimant": "Claim", "summary": ""}
        return texts_of(f"group_{name}.md.j2", self._given)

    def _section_of_group(self, name: str, texts: dict[str, str]) -> Section:
        parts: list[Part] = [
            texts["summary"],
            *(self._section(shown, texts["claimant"]) for shown in self._groups[name]),
        ]
        if "caveats" in texts:
            parts.append(Section(texts["caveats_title"], [texts["caveats"]], f"caveats-{name}"))
        return Section(texts["title"], parts, f"group-{name}")

    def _section(self, shown: Shown, claimant: str) -> Section:
        figure, words = shown.figure, shown.words
        given = {**self._given, "seconds": shown.seconds, "name": figure.name}
        below = texts_of("report.md.j2", given)["section"]
        parts: list[Part] = [
            Picture(shown.picture, figure.title),
            f"**{claimant}:** {figure.claim}",
            f"**We find:** {words.finding}",
            Section("Numbers and settings", [words.table, words.setup, below], folded=True),
        ]
        return Section(figure.title, parts, figure.name)

    @cached_property
    def costs(self) -> Table:
        """Seconds of work behind each experiment that is shown, beside the core-hours of the published scripts."""
        tasks = {shown.figure.name: shown.tasks for shown in self.shown}
        experiments = dict(_PUBLISHED)
        for name, group in self._groups.items():
            if name in _OTHERS:
                experiments[_OTHERS[name][0]] = tuple(s.figure.name for s in group), _OTHERS[name][1]
            elif name != "attention":
                experiments[name] = tuple(s.figure.name for s in group), ""
        rows: list[tuple[str, float | str, float]] = []
        for experiment, (figures, hours) in experiments.items():
            names = [name for name in figures if name in tasks]
            if names:
                part = "" if len(names) == len(figures) else f" (here: {', '.join(names)})"
                rows.append((experiment + part, hours, self._work([task for name in names for task in tasks[name]])))
        total = sum(hours for _, hours, _ in rows if isinstance(hours, float))
        rows.append(("all", total or "", self._work([task for some in tasks.values() for task in some])))
        columns = (
            Column("authors, core-hours", 3, one_quantity=False),
            Column("limitlaw, core-seconds", 3, one_quantity=False),
        )
        return Table(("experiment", *columns), rows)

    def _work(self, tasks: Sequence[Task]) -> float:
        """Seconds of work, each result counted once."""
        return sum(map(self.seconds, with_needs(tasks)))

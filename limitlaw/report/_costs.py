"""What the figures cost, here and in the published scripts."""

from collections.abc import Callable

from ..experiments import Task, with_needs
from ..figures import FIGURES, GROUPS, Settings, Table

# CPU time of the authors' scripts: measured per sample on one core, times the paper's counts. Figure 4 is not among them.
_EXPERIMENTS: dict[str, tuple[tuple[str, ...], float | str]] = {
    "figures 1 and 2b": (("fig1a", "fig1b", "fig2b", "heads_limit", "heads_gaussian"), 189.4),
    "figure 2a": (("fig2a",), 0.09),
    "figure 3": (("fig3a", "fig3b"), 20.7),
    "figure 4": (("fig4a", "fig4b"), "not published"),
    "figure 5": (("fig5a", "fig5b"), 66.0),
    "single-location regression": (GROUPS["slr"], "not published"),
    "depth": (GROUPS["deep"], "not in the papers"),
}


def costs(settings: Settings, names: tuple[str, ...], seconds: Callable[[Task], float], wall: float | None) -> Table:
    """Seconds of work behind each experiment of which figures are shown, beside the core-hours of the published scripts; `wall` is the time of a run that computed all."""
    rows, total, every = [], 0.0, []
    for experiment, (figures, hours) in _EXPERIMENTS.items():
        shown = [name for name in figures if name in names]
        if not shown:
            continue
        tasks = with_needs([task for name in shown for task in FIGURES[name].tasks(settings)])
        work = sum(map(seconds, tasks))
        every += tasks
        known = not isinstance(hours, str)
        total += hours if known else 0.0
        part = "" if len(shown) == len(figures) else f" (here: {', '.join(shown)})"
        rows.append((experiment + part, f"{hours:g} core-hours" if known else hours, f"{work:.1f} core-seconds"))
    work = sum(map(seconds, with_needs(every)))
    ours = f"{work:.1f} core-seconds" if wall is None else f"{wall:.0f} s of wall time"
    rows.append(("all", f"{total:.3g} core-hours" if total else "", ours))
    counts = "" if settings.at_full_counts else ", with fewer samples"
    return Table(("", "the authors' scripts", f"limitlaw reproduce{counts}"), tuple(rows))

"""The page of a study: a picture of every measure, the numbers, and where they come from."""

import io
import json
from pathlib import Path
from typing import Any

from .._format import Table
from ..numerics import Estimate
from ._draw import figure, label, mean_over_trials
from ._page import Part, Picture, Section, page
from ._provenance import Provenance
from ._store import replacing
from ._sweep import Sweep

_MOST_ROWS = 200


def write_study_page(sweep: Sweep) -> Path:
    """Write `report.html` into the folder of a sweep; says where it is.

    Example:
        >>> import tempfile
        >>> from limitlaw.experiments import Study, Sweep, write_study_page
        >>> table = {"problem": {"dim": 100, "tokens": 20}, "axes": {"mu": [0.0, 0.5, 1.0]}, "measure": ["risk"]}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sweep = Sweep(Study.from_plain(table), folder + "/sweep")
        ...     sweep.run()
        ...     page = write_study_page(sweep)
        ...     print(page.name, "3 points, 3 of 3 tasks done" in page.read_text(encoding="utf-8"))
        report.html True
    """
    study, data, made = sweep.study, sweep.dataset(), Provenance.here()
    versions = ", ".join(f"{name} {version}" for name, version in made.versions.items())
    done = sweep.status()
    opening = (
        f"{len(study.points)} points, {done.done} of {done.total} tasks done. The data are in `results.zarr`; "
        f"`limitlaw export` writes them as CSV.\n\n"
        f"{made.date}; {made.hardware}; {made.system}; {versions}; commit {made.commit}."
    )
    parts: list[Part] = [opening]
    for name in study.shown:
        picture = io.BytesIO()
        figure(data, name, study.dims).savefig(picture, format="png", dpi=200)
        parts.append(Section(label(data, name), [Picture(picture.getvalue(), label(data, name))], name))
    parts.append(Section("Numbers", [_numbers(sweep, data)], "numbers"))
    listing = f"```json\n{json.dumps(study.as_plain(), indent=1)}\n```"
    parts.append(Section("The study", [listing], "study", folded=True))
    path = sweep.path / "report.html"
    with replacing(path) as part:
        part.write_text(page(study.name, parts), encoding="utf-8")
    return path


def _numbers(sweep: Sweep, data: Any) -> Table:
    """What is one number at a point, with its standard error, point by point; the first of very many."""
    axes, study = tuple(sweep.study.axes), sweep.study
    single = {
        name: mean_over_trials(data, name) for name in study.shown if set(data[name].dims) <= {*study.dims, "trial"}
    }
    rows = []
    for point in sweep.study.points[:_MOST_ROWS]:
        row: list[Any] = [point.place[axis] for axis in axes]
        for value, error in single.values():
            found, stderr = float(value.values[point.index]), float(error.values[point.index])
            row.append(Estimate(found, stderr) if stderr > 0 else found)
        rows.append(tuple(row))
    return Table((*axes, *(label(data, name) for name in single)), tuple(rows))

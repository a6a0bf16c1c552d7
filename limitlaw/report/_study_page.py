"""The page of a study: a picture of every measure, the numbers, and where they come from."""

import base64
import io
import json
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from ..experiments import Sweep, replacing
from ..experiments._draw import figure, label, mean_over_trials
from ..figures import Table
from ..figures._style import style
from ..numerics import Estimate
from ._page import document, html_table
from ._provenance import Provenance

_MOST_ROWS = 200


def write_study_page(sweep: Sweep) -> Path:
    """Write `report.html` into the folder of a sweep; says where it is.

    Example:
        >>> import tempfile
        >>> from limitlaw.report import write_study_page
        >>> from limitlaw.experiments import Study, Sweep
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
    parts = [
        f"<h1>{escape(study.name)}</h1>",
        f"<p>{len(study.points)} points, {done.done} of {done.total} tasks done. The data are in <code>results.zarr</code>; "
        "<code>limitlaw export</code> writes them as CSV.</p>",
        f'<p class="small">{escape(made.date)}; {escape(made.hardware)}; {escape(made.system)}; {escape(versions)}; commit {escape(made.commit)}.</p>',
    ]
    with style():
        for name in study.shown:
            picture = io.BytesIO()
            figure(data, name, study.dims).savefig(picture, format="png", dpi=200)
            encoded = base64.b64encode(picture.getvalue()).decode()
            title = label(data, name)
            parts.append(f'<h2>{escape(title)}</h2>\n<img alt="{escape(title)}" src="data:image/png;base64,{encoded}">')
    parts.append(f"<h2>Numbers</h2>\n{html_table(_numbers(sweep, data))}")
    parts.append(f"<h2>The study</h2>\n<pre>{escape(json.dumps(study.as_plain(), indent=1))}</pre>")
    path = sweep.path / "report.html"
    with replacing(path) as part:
        part.write_text(document(study.name, parts), encoding="utf-8")
    return path


def _numbers(sweep: Sweep, data: Any) -> Table:
    """What is one number at a point, with its standard error, point by point; the first of very many."""
    axes, study = tuple(sweep.study.axes), sweep.study
    single = {
        name: mean_over_trials(data, name) for name in study.shown if set(data[name].dims) <= {*study.dims, "trial"}
    }
    rows = []
    for point in sweep.study.points[:_MOST_ROWS]:
        row = [str(point.place[axis]) for axis in axes]
        for value, error in single.values():
            found, stderr = float(value.values[point.index]), float(error.values[point.index])
            row.append("" if np.isnan(found) else str(Estimate(found, stderr)) if stderr else f"{found:.6g}")
        rows.append(tuple(row))
    return Table((*axes, *(label(data, name) for name in single)), tuple(rows))

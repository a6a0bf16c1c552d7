"""The pictures of a figure as a task: drawn wherever tasks are computed, and kept under all that they depend on."""

import sys
from dataclasses import asdict
from functools import cache
from itertools import islice
from typing import Any

import numpy as np

from ..experiments import NUMERICAL, Result, Task, dataset_from
from ._figure import Figure
from ._settings import Settings
from ._style import rendered

KINDS = ("pdf", "png")
"""The formats in which every figure is drawn."""


@cache
def pictures(figure: Figure, settings: Settings) -> Task:
    """The task that draws a figure.

    Example:
        >>> from limitlaw.figures import FIGURES, Settings, pictures
        >>> task = pictures(FIGURES["slr_phase"], Settings.quick())
        >>> task.name, [need.name for need in task.needs][:2]
        ('slr_phase: pictures', ['phases over alpha and gamma: phases', 'phases over alpha and beta: phases'])
    """
    return Task(
        f"{figure.name}: pictures",
        draw,
        {"figure": figure.name, "settings": asdict(settings)},
        needs=tuple(figure.tasks(settings)),
        kinds=() if figure.own is None else (figure.own,),
        packages=(*NUMERICAL, "slr", "figures"),
        cost=0.25,
    )


def draw(*results: Result, figure: str, settings: dict[str, Any]) -> Result:
    """The files of a figure, as bytes, from the results of its tasks."""
    from . import FIGURES

    # a figure of one's own has been loaded, as a module of its name
    drawn, chosen = FIGURES.get(figure) or Figure(sys.modules[figure]), Settings(**settings)
    left, found = iter(results), {}
    for name, study in drawn.studies(chosen).items():
        found[name] = dataset_from(study, islice(left, len(study.measurements)))
    picture, files = drawn.draw(drawn.gather(found, chosen)), {}
    for kind in KINDS:
        files[kind] = np.frombuffer(rendered(picture, kind), np.uint8)
        picture.set_layout_engine("none")  # the layout stays: to find it takes half of the time of drawing
    return files

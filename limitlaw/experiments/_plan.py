"""What a study computes: the tasks at its points, and where their results belong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._task import Task
from .measures import Measure, Trial

if TYPE_CHECKING:
    from ._study import Point, Study


@dataclass(frozen=True)
class Measurement:
    """A task of a study, and where its results belong.

    Attributes:
        task: The task.
        index: The index along the dimensions of the study, and the trial if it is measured in trials.
        measure: The names of the measures that it computes.
    """

    task: Task
    index: tuple[int, ...]
    measure: tuple[str, ...]


def measurements(study: Study) -> list[Measurement]:
    """The tasks of a study, point by point."""
    return [
        measurement
        for point in study.points
        for number in range(study.trials if study.has_trials else 1)
        for measurement in _of_trial(study, point, number)
    ]


def _of_trial(study: Study, point: Point, number: int) -> list[Measurement]:
    trial = Trial(study, point, number)
    together: dict[int, tuple[Task, list[Measure]]] = {}  # measures that share a task, by its identity
    for measure in study.measures:
        if measure.needs_trials or number == 0:
            task = measure.task(trial)
            together.setdefault(id(task), (task, []))[1].append(measure)
    return [
        Measurement(
            task,
            (*point.index, *((number,) if measures[0].needs_trials else ())),
            tuple(measure.name for measure in measures),
        )
        for task, measures in together.values()
    ]

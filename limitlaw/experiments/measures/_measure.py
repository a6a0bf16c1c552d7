"""What a measure is: one abstract class, which studies, datasets, pictures and documentation read."""

from __future__ import annotations

import abc
import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...networks.registry import own_kinds
from .._family import Member, program_of, toward
from .._task import Result, Task

if TYPE_CHECKING:
    from .._study import Point, Study

LIMIT_SAMPLES = 4
"""Samples of a limit for each one of a point: a limit serves many points, so its error should be the smaller one."""


@dataclasses.dataclass(frozen=True)
class Variable:
    """A variable of a dataset.

    Args:
        label: What a picture or a table calls it; empty for one that belongs to another, such as a standard error.
        dims: Its dimensions after those of the study and of trials.
        dtype: The type of its entries. Missing floats are NaN, and missing words are empty.

    Example:
        >>> from limitlaw.experiments import Variable
        >>> Variable("quantile", ("level",)).missing
        nan
    """

    label: str = ""
    dims: tuple[str, ...] = ()
    dtype: str = "float64"

    @property
    def missing(self) -> Any:
        """What stands where there is no result."""
        return np.nan if np.dtype(self.dtype).kind == "f" else np.zeros((), self.dtype)[()]


class Measure(abc.ABC):
    """Something that a study measures at each of its points.

    A measure is a frozen dataclass; its fields are its options. A study takes it as an object, as the `name` of one
    without options, or as a table `{"kind": "Descent", "steps": 600}`. To add one, write a subclass: it declares the
    class attributes below and gives `name`, `variables` and `task`. A module that defines measures has to be imported
    before a table that names them is read.

    Attributes:
        of: What it is measured of, "network" or "problem".
        needs_trials: Whether trials differ. The variables of a measure that does not need them have no dimension
            `trial`.

    Example:
        >>> from dataclasses import dataclass
        >>> import numpy as np
        >>> from limitlaw.experiments import Measure, Study, Variable
        >>> def strength(*, problem):
        ...     from limitlaw.slr import Problem
        ...     return {"strength": np.array(Problem(**problem).strength)}
        >>> @dataclass(frozen=True)
        ... class Strength(Measure):
        ...     of = "problem"
        ...     needs_trials = False
        ...     name = "strength"
        ...
        ...     def variables(self):
        ...         return {"strength": Variable("strength of the signal")}
        ...
        ...     def task(self, trial):
        ...         return trial.task(strength, {"problem": trial.settings["problem"]})
        >>> data = Study({"dim": 20, "tokens": 5}, axes={"gamma": [0.6, 0.8]}, measure=[Strength()]).dataset()
        >>> data.strength.dims, bool(data.strength[0] > data.strength[1])
        (('gamma',), True)
    """

    of: ClassVar[str] = "network"
    needs_trials: ClassVar[bool] = True

    name: str
    """What the measure is called: its variable in the dataset, or the beginning of their names."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        KINDS[cls.__name__] = cls

    @abc.abstractmethod
    def variables(self) -> Mapping[str, Variable]:
        """The variables of the dataset that it fills, the most important one first."""

    @abc.abstractmethod
    def task(self, trial: Trial) -> Task:
        """The task that computes it.

        The result has an array for each of its variables, with the shape of their own dimensions; an array that is
        shorter along one of them leaves the rest missing. Measures may return equal tasks: those are one.
        """

    def coordinates(self, study: Study) -> Mapping[str, np.ndarray]:
        """The labels of the dimensions that only this measure has."""
        return {}

    def check(self, member: Member) -> None:  # noqa: B027
        """Refuse a network or a problem of which it cannot be measured. It is called for every point, before any work.

        Raises:
            ArgumentError: If it cannot be measured.
        """

    def as_plain(self) -> str | dict[str, Any]:
        """The measure as JSON and TOML hold it: its name, or a table of the options that are not the default ones."""
        from . import MEASURES

        if MEASURES.get(self.name) == self:
            return self.name
        given = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)  # type: ignore[reportArgumentType]
            if getattr(self, field.name) != field.default
        }
        return {"kind": type(self).__name__, **json.loads(json.dumps(given))}


KINDS: dict[str, type[Measure]] = {}
"""The classes of measures by their names in tables."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """One trial at one point of a study, as a measure sees it.

    Attributes:
        study: The study.
        point: The point: `point.place` has the values of the axes.
        number: The number of the trial, from 0.

    Example:
        >>> from limitlaw.experiments import Study, Trial
        >>> study = Study({"dim": 20, "tokens": 5}, {"mu": [0.0, 0.5]}, ["risk"])
        >>> trial = Trial(study, study.points[1], 0)
        >>> trial.title, trial.settings["overlaps"]["mu"]
        ('mu = 0.5', 0.5)
    """

    study: Study
    point: Point
    number: int
    _tasks: dict[Any, Task] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Plain data: `network` and `width`, or `problem` and `overlaps`."""
        return self.point.member.settings

    @property
    def samples(self) -> int:
        """The number of samples at this point."""
        return self.point.place.get("samples", self.study.samples)

    @property
    def title(self) -> str:
        """What a task of this trial is called."""
        place = ", ".join(f"{name} = {value}" for name, value in self.point.place.items()) or self.study.name
        return f"{place}, trial {self.number + 1}" if self.study.has_trials else place

    def seed(self, **purpose: Any) -> int:
        """A seed that depends on the study's seed, the point, the trial and the purpose, and on nothing else."""
        return seed_of(self.study.seed, {**self.settings, **purpose}, self.number)

    def drawn(self) -> dict[str, Any]:
        """The settings with the number of samples and the seed."""
        return {**self.settings, "samples": self.samples, "seed": self.seed()}

    def measures(self, kind: type[Measure]) -> list[Measure]:
        """Those of the study that are of a kind, for a task that computes them together."""
        return [measure for measure in self.study.measure if isinstance(measure, kind)]

    def once(self, name: Any, make: Callable[[], Task]) -> Task:
        """A task that several measures share, made for the first of them."""
        if name not in self._tasks:
            self._tasks[name] = make()
        return self._tasks[name]

    def task(
        self,
        compute: Callable[..., Result],
        settings: Mapping[str, Any],
        *,
        needs: Sequence[Task] = (),
        name: str = "",
        cost: float | None = None,
        **how: Any,
    ) -> Task:
        """A task of this trial, with what is known of the network or the problem.

        Args:
            compute: A function of results and settings, at the top of a module.
            settings: Plain data.
            needs: The tasks whose results it takes.
            name: What is added to its name.
            cost: Seconds; by default those of `samples` draws of the network.
            **how: Further fields of the task.
        """
        member, title = self.point.member, f"{self.title}: {name}" if name else self.title
        if cost is None:
            cost = 0.02 + self.samples * (member.seconds + 4e-7)
        shared = {"kinds": own_kinds(settings), "program": member.program or compute.__name__}
        return Task(title, compute, settings, needs=tuple(needs), cost=cost, **{**shared, **how})

    def limit(self, target: str = "limit") -> Task:
        """The law at infinite width that the network is compared with. It serves many points and measures."""
        from ._law import limit

        network = toward(target, self.settings["network"], self.settings["width"])
        samples = LIMIT_SAMPLES * max(self.study.axes.get("samples", (self.study.samples,)))
        settings = {"network": network, "samples": samples, "token": self.study.token}
        others = {name: value for name, value in self.point.place.items() if name not in ("width", "samples")}
        where = "".join(f", {name} = {value}" for name, value in others.items())
        name = f"law at infinite width{where}" + ("" if target == "limit" else f", {target}")
        return Task(name, limit, settings, kinds=own_kinds(settings), cost=0.1, program=f"limit {program_of(network)}")


def seed_of(seed: int, settings: Mapping[str, Any], trial: int) -> int:
    """A seed for every use of a study's seed."""
    text = json.dumps([seed, settings, trial], sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def estimated(name: str, label: str) -> dict[str, Variable]:
    """A number with its standard error and the degrees of freedom of that."""
    return {name: Variable(label), f"{name}_stderr": Variable(), f"{name}_dof": Variable()}


def with_error(name: str, label: str, *dims: str) -> dict[str, Variable]:
    """An array with its standard errors."""
    return {name: Variable(label, dims), f"{name}_stderr": Variable("", dims)}

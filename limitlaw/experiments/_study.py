"""A study is data: what is varied, what is measured, how often."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _checks, _progress
from .._checks import ArgumentError, ArgumentTypeError
from .._format import Table
from ..networks import Network, as_plain
from ._family import Family, Member, NetworkFamily, ProblemFamily
from .measures import Density, Measure, Quantiles, Variable, measures_of

if TYPE_CHECKING:
    import xarray as xr

    from ..slr import Problem
    from ._plan import Measurement

_MOST_TASKS = 1_000_000
_MOST_CHECKED = 2_000  # points of which each is checked by itself, at about a millisecond
_SHOWN_EVERY = 100  # points: a bar that moves at each would take as long as the points


@dataclass(frozen=True)
class Point:
    """One combination of values.

    Attributes:
        place: The value of each axis.
        index: The index along each dimension.
        member: The network or problem there.
    """

    place: Mapping[str, Any]
    index: tuple[int, ...]
    member: Member


@dataclass(frozen=True)
class Study:
    """What is varied, what is measured, and how often. It is checked as a whole when it is made, before any work.

    Every combination of the values of `axes` is a point; axes that are `zipped` vary together. Measures are named, or
    given as objects or tables where they have options; `limitlaw.experiments.measures.MEASURES` lists the names:

    - of the output of `token`, from `samples` draws of its conditional variance and with a standard error: "variance",
      "kurtosis" (both: "moments"), "quantiles" at `levels`, "density" on a grid, and the distances to the limit, "kl",
      "tv", "ks", "wasserstein", "wasserstein_2", "energy" (all: "distances"). "kl_to_fixed_head_dim" is the distance to
      the limit of heads that keep the dimension they have, "kl_to_infinite_head_dim" to that of heads as wide as the
      model, "kl_to_infinite_heads" to the Gaussian of infinitely many; likewise for the others;
    - of samples of that output, without error: the `samples` "outputs" themselves, "kde_kl", the attention paper's
      kernel estimate of the divergence from a sample of the limit, and "kde_floor", the same estimate between two
      samples of the limit (these too with "_to_...");
    - along depth: "block_variance", "block_kurtosis", "block_cosine", "block_effective_rank", "block_entropy",
      "block_uniformity" (all: "trajectory"), "block_gap", "block_gap_cubed", and `ReadoutKurtosis`;
    - of a score of the last attention layer: "scores" and "score";
    - of a problem: "risk", "mean_field_risk", "refined_risk" (all: "risks") at `overlaps`, "baselines", and `Descent`,
      `Simulation`, `Landscape`, `StationaryPoints`, `Basins` and `Phases`.

    Every combination is checked, but for points beyond the first two thousand that differ from one which was checked in
    positive decimal numbers alone. Every point and trial has its own seed, made from `seed` and its values, so that another trial or axis value changes
    none of the others. A limit is computed once, from four times as many samples where it has to be drawn, and serves all
    trials. At infinite width they are one and the same.

    Args:
        of: The network, or the `slr.Problem`, that the study is about, as an object or as plain data.
        axes: For each name of an argument in it, the list of values to take. "samples" may be an axis too.
        measure: What is measured.
        name: The title of the study.
        seed: An integer.
        trials: Independent repetitions of each point.
        samples: Draws in a trial.
        token: The token whose output is measured.
        levels: Levels of the quantiles.
        reach: The density is taken from `-reach` to `reach`.
        points_of_density: The number of points of that grid.
        overlaps: Overlaps of a problem that are not varied, by name.
        zipped: Groups of axes of equal length whose values are taken together, the first with the first and so on. A
            group is one dimension of the dataset; its name is that of its axes, joined by "_".

    Raises:
        ArgumentError: If a name or a value is not known, or the network refuses it at some point.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.experiments import Study
        >>> net = ll.Network(ll.Inputs(tokens=4), ll.Attention(heads=2))
        >>> study = Study(net, axes={"width": [16, 64, "inf"], "heads": [1, 2]}, measure=["moments", "kl"], trials=3, samples=4096)
        >>> len(study.points), len(study.measurements)
        (6, 18)
        >>> together = Study(net, axes={"width": [64, 256], "heads": [1, 4]}, measure=["kl"], zipped=[["width", "heads"]])
        >>> together.dims, [dict(point.place) for point in together.points]
        (('width_heads',), [{'width': 64, 'heads': 1}, {'width': 256, 'heads': 4}])
    """

    of: Network | Problem | Mapping[str, Any]
    axes: Mapping[str, Sequence[Any]]
    measure: Sequence[Measure | str | Mapping[str, Any]]
    name: str = "study"
    seed: int = 0
    trials: int = 1
    samples: int = 2**16
    token: int = 0
    levels: Sequence[float] = Quantiles.levels
    reach: float = Density.reach
    points_of_density: int = Density.points
    overlaps: Mapping[str, float] = field(default_factory=dict)
    zipped: Sequence[Sequence[str]] = ()

    def __post_init__(self) -> None:
        _checks.seed(self.seed)
        if not isinstance(self.name, str):
            raise ArgumentTypeError("name", f"name={self.name!r} must be text.")
        for name, value, least in (("trials", self.trials, 1), ("samples", self.samples, 2)):
            if _checks.positive_integer(name, value) < least:
                raise ArgumentError(name, f"{name}={value} must be at least {least}.")
        object.__setattr__(self, "measure", self._checked_measures())
        object.__setattr__(self, "axes", self._checked_axes())
        object.__setattr__(self, "zipped", self._checked_groups())
        self._check_repetitions()
        if "samples" in self.axes:
            for value in self.axes["samples"]:
                if _checks.positive_integer("samples", value) < 2:
                    raise ArgumentError("samples", f"axes.samples lists {value}. Every value must be at least 2.")
        count = self.trials
        for size in self.sizes.values():
            count *= size
        if count > _MOST_TASKS:
            raise ArgumentError(
                "axes", f"axes and trials make {count:,} points, more than {_MOST_TASKS:,}. List fewer values."
            )
        _ = self.points
        _ = self.coordinates, self.variables

    def dataset(
        self, folder: str | Path | None = None, *, workers: int = 1, client: Any = None, progress: bool = True
    ) -> xr.Dataset:
        """Compute what is missing, and return all results with their labels.

        Args:
            folder: Where results are kept; what is there is not computed again. Without one they are not kept.
            workers: The number of processes; 1 is this process.
            client: A client of `dask.distributed`, whose workers compute.
            progress: Whether to show a progress bar, on a terminal or in a notebook.

        Returns:
            The dataset: a dimension for each axis and each group of zipped axes, `trial`, and those of the measures.

        Raises:
            TaskError: If something could not be computed; what could is kept in the folder.

        Example:
            >>> import limitlaw as ll
            >>> from limitlaw.experiments import Study
            >>> net = ll.Network(ll.Inputs(tokens=2), ll.Attention())
            >>> data = Study(net, axes={"width": [16, 64]}, measure=["variance"], samples=2**12).dataset()
            >>> dict(data.sizes)
            {'width': 2, 'trial': 1}
        """
        from ._sweep import Sweep

        with tempfile.TemporaryDirectory() as own:
            sweep = Sweep(self, Path(own, "sweep") if folder is None else folder)
            sweep.run(workers=workers, client=client, console=_progress.console() if progress else None)
            return sweep.dataset()

    def plot(self, measure: str | None = None, *, folder: str | Path | None = None) -> Any:
        """Compute the study, and plot a variable of it (the first unless given): a matplotlib figure.

        Args:
            measure: The name of the variable.
            folder: As for `dataset`.

        Example:
            >>> import limitlaw as ll
            >>> from limitlaw.experiments import Study
            >>> net = ll.Network(ll.Inputs(tokens=2), ll.Attention())
            >>> figure = Study(net, axes={"width": [16, 64]}, measure=["variance"], samples=2**12).plot()
            >>> figure.axes[0].get_xlabel()
            'width'
        """
        from ._draw import figure

        name = _checks.one_of("measure", self.shown[0] if measure is None else measure, self.shown)
        return figure(self.dataset(folder), name, self.dims)

    def _repr_html_(self) -> str:
        rows = [(name, ", ".join(map(str, values))) for name, values in self.axes.items()]
        rows.append(("measured", ", ".join(measure.name for measure in self.measures)))
        if self.has_trials:
            rows.append(("at each point", f"{self.trials} trials of {self.samples:,} samples"))
        return Table((self.name, f"{len(self.points)} points"), rows).html()

    @cached_property
    def family(self) -> Family:
        """What is varied, as plain data."""
        from ..slr import Problem

        if isinstance(self.of, Network):
            return NetworkFamily(as_plain(self.of))
        if isinstance(self.of, Problem):
            return ProblemFamily(_described(self.of), dict(self.overlaps))
        if not isinstance(self.of, Mapping):
            raise ArgumentTypeError(
                "of", f"of={self.of!r} must be a Network, an slr.Problem, or a table that describes one."
            )
        if "dim" in self.of:
            return ProblemFamily(dict(self.of), dict(self.overlaps))
        return NetworkFamily(dict(self.of))

    @property
    def of_problems(self) -> bool:
        """Whether it is about regression problems."""
        return isinstance(self.family, ProblemFamily)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures as objects."""
        return tuple(self.measure)  # type: ignore[reportReturnType]  # made so when the study was made

    @property
    def has_trials(self) -> bool:
        """Whether anything that it measures differs between trials."""
        return any(measure.needs_trials for measure in self.measures)

    @cached_property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The axes behind each dimension: several if they are zipped."""
        group_of = {name: tuple(group) for group in self.zipped for name in group}
        groups = dict.fromkeys(group_of.get(name, (name,)) for name in self.axes)
        return {"_".join(group): group for group in groups}

    @property
    def dims(self) -> tuple[str, ...]:
        """The dimensions that its axes span."""
        return tuple(self.groups)

    @property
    def sizes(self) -> dict[str, int]:
        """The number of values along each of them."""
        return {dim: len(self.axes[group[0]]) for dim, group in self.groups.items()}

    @cached_property
    def variables(self) -> dict[str, Variable]:
        """The variables of its dataset, with all their dimensions."""
        out: dict[str, Variable] = {}
        for measure in self.measures:
            shared = (*self.dims, *(("trial",) if measure.needs_trials else ()))
            for name, variable in measure.variables().items():
                if name in out:
                    raise ArgumentError("measure", f"measure has two variables {name!r}. Rename one of the measures.")
                out[name] = Variable(variable.label, (*shared, *variable.dims), variable.dtype)
        return out

    @property
    def shown(self) -> tuple[str, ...]:
        """The variables that pictures and tables show: no standard errors."""
        return tuple(name for name, variable in self.variables.items() if variable.label)

    @cached_property
    def coordinates(self) -> dict[str, Any]:
        """The labels of all dimensions."""
        out: dict[str, Any] = {
            name: (dim, _labels(tuple(self.axes[name]))) for dim, group in self.groups.items() for name in group
        }
        if self.has_trials:
            out["trial"] = "trial", np.arange(1, self.trials + 1)
        for measure in self.measures:
            for name, labels in measure.coordinates(self).items():
                if name in (*self.dims, *self.axes):
                    raise ArgumentError("axes", f"axes has {name!r}, which is a dimension of {measure.name!r}.")
                if name in out and not np.array_equal(out[name][1], labels):
                    raise ArgumentError(
                        "measure",
                        f"measure={measure.name!r} has other labels along {name!r} than another one. Make two studies.",
                    )
                out[name] = name, np.asarray(labels)
        return out

    def _checked_measures(self) -> tuple[Measure, ...]:
        """With the options that the study gives to quantiles and densities which are named."""
        from .measures import MEASURES

        quantiles, density = Quantiles(self.levels), Density(self.reach, self.points_of_density)
        found = measures_of(self.measure, "problem" if self.of_problems else "network")
        ours = {"quantiles": quantiles, "density": density}
        return tuple(ours.get(m.name, m) if m == MEASURES.get(m.name) else m for m in found)

    def _checked_axes(self) -> dict[str, tuple[Any, ...]]:
        if not isinstance(self.axes, Mapping):
            raise ArgumentTypeError("axes", f"axes={self.axes!r} must be a table of lists, such as width = [16, 64].")
        _checks.known_keys("axes", self.axes, self.family.names())
        axes = {}
        for name, values in self.axes.items():
            if isinstance(values, str) or not isinstance(values, Sequence) or not values:
                raise ArgumentError("axes", f"axes.{name}={values!r} must be a list of values, such as [1, 2, 4].")
            values = tuple("inf" if value == float("inf") else value for value in values)
            for value in values:
                if not isinstance(value, int | float | str) or value != value:
                    raise ArgumentTypeError(
                        "axes", f"axes.{name} lists {value!r}. Every value must be a number or a word."
                    )
            axes[name] = values
        return axes

    def _checked_groups(self) -> tuple[tuple[str, ...], ...]:
        if isinstance(self.zipped, str) or not isinstance(self.zipped, Sequence):
            raise ArgumentTypeError("zipped", f"zipped={self.zipped!r} must be a list such as [['width', 'heads']].")
        grouped: set[str] = set()
        for group in self.zipped:
            if isinstance(group, str) or not isinstance(group, Sequence) or len(group) < 2:
                raise ArgumentTypeError(
                    "zipped", f"zipped lists {group!r}. Every group must list two axes or more, as ['width', 'heads']."
                )
            for name in group:
                if name not in self.axes:
                    raise ArgumentError("zipped", f"zipped lists {name!r}, which is not an axis. Add it to axes.")
                if name in grouped:
                    raise ArgumentError("zipped", f"zipped lists {name!r} twice. An axis belongs to one group.")
                grouped.add(name)
            lengths = {name: len(self.axes[name]) for name in group}
            if len(set(lengths.values())) > 1:
                found = ", ".join(f"{name} has {length}" for name, length in lengths.items())
                raise ArgumentError(
                    "zipped", f"zipped={list(group)} must have equally many values, but {found}. Make them equal."
                )
        return tuple(map(tuple, self.zipped))

    def _check_repetitions(self) -> None:
        for group in self.groups.values():
            taken = set()
            for values in zip(*(self.axes[name] for name in group), strict=True):
                # True and 1 are equal, and not the same
                marked = tuple((type(value) is bool, value) for value in values)
                if marked in taken:
                    names, each = " and ".join(f"axes.{name}" for name in group), " with ".join(map(str, values))
                    raise ArgumentError("axes", f"{names} lists {each} twice. List each value once.")
                taken.add(marked)

    @cached_property
    def points(self) -> list[Point]:
        """Every combination of values, checked."""
        out: list[Point] = []
        choices = [
            list(enumerate(zip(*(self.axes[name] for name in group), strict=True))) for group in self.groups.values()
        ]
        names = [name for group in self.groups.values() for name in group]
        total = math.prod(map(len, choices))
        self._check_each_value(total)
        alike: dict[tuple[Any, ...], Member] = {}
        with _progress.task("Checking points", total) as bar:
            for done, chosen in enumerate(itertools.product(*choices), 1):
                values = dict(zip(names, (value for _, together in chosen for value in together), strict=True))
                place = {name: values[name] for name in self.axes}
                out.append(Point(place, tuple(i for i, _ in chosen), self._member(place, total, alike)))
                if done % _SHOWN_EVERY == 0:
                    bar.advance(_SHOWN_EVERY)
        return out

    def _check_each_value(self, total: int) -> None:
        """Of a large study every value, with the first ones of the other axes: a mistake is found at once."""
        if total > _MOST_CHECKED:
            first = {name: values[0] for name, values in self.axes.items()}
            for group in self.groups.values():
                for together in zip(*(self.axes[name] for name in group), strict=True):
                    self._checked_member({**first, **dict(zip(group, together, strict=True))})

    def _member(self, place: Mapping[str, Any], total: int, alike: dict[tuple[Any, ...], Member]) -> Member:
        """The member at a place. In a large study points that differ in positive decimals alone are checked once."""
        if total <= _MOST_CHECKED or not isinstance(self.family, NetworkFamily):
            return self._checked_member(place)
        kinds = tuple("decimal" if isinstance(v, float) and v > 0 else (type(v), v) for v in place.values())
        if kinds not in alike:
            alike[kinds] = self._checked_member(place)
            return alike[kinds]
        return self.family.similar(place, alike[kinds])

    def _checked_member(self, place: Mapping[str, Any]) -> Member:
        try:
            member = self.family.member(place)
            if not self.of_problems:
                _checks.index("token", self.token, member.tokens, "tokens")
            for measure in self.measures:
                measure.check(member)
        except (ValueError, TypeError) as error:
            where = ", ".join(f"{name} = {value}" for name, value in place.items())
            argument = error.argument if isinstance(error, ArgumentError) else "axes"
            raise ArgumentError(argument, f"{where}: {error}" if where else str(error)) from None
        return member

    @cached_property
    def measurements(self) -> list[Measurement]:
        """The tasks, point by point, and where their results belong."""
        from ._plan import measurements

        return measurements(self)

    def as_plain(self) -> dict[str, Any]:
        """The study as JSON and TOML hold it; `Study.from_plain` makes it again."""
        from ._plain import plain_study

        return plain_study(self)

    @classmethod
    def from_plain(cls, table: Mapping[str, Any]) -> Study:
        """The study that a table describes: `network` or `problem`, `axes`, `measure`, and how often.

        Example:
            >>> from limitlaw.experiments import Study
            >>> table = {"problem": {"dim": 100, "tokens": 20}, "axes": {"mu": [0.0, 0.5, 1.0]}, "measure": ["risk"]}
            >>> [point.place["mu"] for point in Study.from_plain(table).points]
            [0.0, 0.5, 1.0]
        """
        from ._plain import study_of

        return study_of(table)


def _described(problem: Problem) -> dict[str, Any]:
    """A problem as plain data."""
    counted = {"log_tokens": problem.log_tokens} if problem.tokens is None else {"tokens": problem.tokens}
    numbers = {name: getattr(problem, name) for name in ("dim", "gamma", "beta", "noise")}
    signal = {} if problem.default_signal else {"signal": problem.signal}  # a default one follows the dimension
    return {**numbers, "link": str(problem.link), **counted, **signal}


def _labels(values: tuple[Any, ...]) -> np.ndarray:
    """Numbers as numbers, infinity included; anything else as words."""
    numbers = [np.inf if value == "inf" else value for value in values]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in numbers):
        whole = all(isinstance(value, int) for value in numbers)
        return np.array(numbers, np.int64 if whole else np.float64)
    return np.array([str(value) for value in values])

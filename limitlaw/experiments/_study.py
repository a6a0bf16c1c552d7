"""A study is data: what is varied, what is measured, how often."""

from __future__ import annotations

import hashlib
import itertools
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _checks
from .._checks import ArgumentError, ArgumentTypeError
from .._format import Table
from ..distances import DISTANCES
from ..networks import Network, as_plain, from_plain, own_kinds
from . import _measure
from ._family import OVERLAPS, TARGETS, Family, Member, NetworkFamily, ProblemFamily, program_of, to_target, toward
from ._measure import Plain
from ._task import REGRESSION, Task

if TYPE_CHECKING:
    from ..slr import Problem


def _to_each(*measures: str) -> tuple[str, ...]:
    """What is measured between a law and a limit, for every limit there is."""
    return tuple(to_target(name, target) for target in TARGETS for name in measures)


_OF_THE_OUTPUT = ("variance", "kurtosis", "quantiles", "density", *_to_each(*DISTANCES))
OF_SAMPLES = ("outputs", *_to_each("kde_kl", "kde_floor"))
"""Measured from samples of the output alone; they come without an error."""

_OF_DEPTH = tuple(
    f"block_{name}" for name in ("variance", "kurtosis", "cosine", "effective_rank", "entropy", "uniformity")
)
_OF_RISK = ("risk", "mean_field_risk", "refined_risk")
_GROUPS = {
    "moments": ("variance", "kurtosis"),
    "distances": tuple(DISTANCES),
    "trajectory": _OF_DEPTH,
    "risks": _OF_RISK,
}
_SHARED = ("name", "measure", "axes", "seed")
_OF_NETWORKS = ("network", "trials", "samples", "token", "levels", "density")
_OF_PROBLEMS = ("problem", "overlaps")
_LIMIT_SAMPLES = 4  # for one of a point: a limit serves many of them
_MOST_TASKS = 1_000_000


@dataclass(frozen=True)
class Point:
    """One place in the product of the axes."""

    place: Mapping[str, Any]
    index: tuple[int, ...]
    member: Member


@dataclass(frozen=True)
class Measurement:
    """A task of a study, and where its results belong."""

    task: Task
    index: tuple[int, ...]  # along the axes, then the trial
    measure: tuple[str, ...]


@dataclass(frozen=True)
class Study:
    """What is varied, what is measured, and how often. It is checked as a whole when it is made, before any work.

    Every combination of the values of `axes` is a point. What is measured comes with a standard error, unless said
    otherwise:

    - of the output of `token`, from `samples` draws of its conditional variance: "variance", "kurtosis" (both:
      "moments"), "quantiles" at `levels`, "density" on a grid, and the distances to the limit, "kl", "tv", "ks",
      "wasserstein", "wasserstein_2", "energy" (all: "distances"). "kl_to_fixed_head_dim" is the distance to the limit of
      heads that keep the dimension they have, "kl_to_infinite_head_dim" to that of heads as wide as the model,
      "kl_to_infinite_heads" to the Gaussian of infinitely many; likewise for the others;
    - of samples of that output, without error: the `samples` "outputs" themselves, "kde_kl", the attention paper's kernel
      estimate of the divergence from a sample of the limit, and "kde_floor", the same estimate between two samples of the
      limit (these too with "_to_...");
    - along depth: "block_variance", "block_kurtosis", "block_cosine", "block_effective_rank", "block_entropy",
      "block_uniformity" (all: "trajectory");
    - of a problem, without error: "risk", "mean_field_risk", "refined_risk" (all: "risks") at `overlaps`.

    Every point and trial has its own seed, made from `seed` and its values, so that another trial or axis value changes
    none of the others. A limit is computed once, from four times as many samples where it has to be drawn, and serves all
    trials. At infinite width they are one and the same.

    Args:
        of: The network, or the `slr.Problem`, that the study is about, as an object or as plain data.
        axes: For each name of an argument in it, the list of values to take.
        measure: Names of what is measured.
        name: The title of the study.
        seed: An integer.
        trials: Independent repetitions of each point.
        samples: Draws in a trial.
        token: The token whose output is measured.
        levels: Levels of the quantiles.
        reach: The density is taken from `-reach` to `reach`.
        points_of_density: The number of points of that grid.
        overlaps: Overlaps of a problem that are not varied, by name.

    Raises:
        ArgumentError: If a name or a value is not known, or the network refuses it at some point.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.experiments import Study
        >>> net = ll.Network(ll.Inputs(tokens=4), ll.Attention(heads=2))
        >>> study = Study(net, axes={"width": [16, 64, "inf"], "heads": [1, 2]}, measure=["moments", "kl"], trials=3, samples=4096)
        >>> len(study.points), len(study.measurements)
        (6, 18)
    """

    of: Network | Problem | Mapping[str, Any]
    axes: Mapping[str, Sequence[Any]]
    measure: Sequence[str]
    name: str = "study"
    seed: int = 0
    trials: int = 1
    samples: int = 2**16
    token: int = 0
    levels: Sequence[float] = (0.9, 0.99, 0.999)
    reach: float = 4.0
    points_of_density: int = 201
    overlaps: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _checks.seed(self.seed)
        if not isinstance(self.name, str):
            raise ArgumentTypeError("name", f"name={self.name!r} must be text.")
        for name, value, least in (
            ("trials", self.trials, 1),
            ("samples", self.samples, 2),
            ("points", self.points_of_density, 2),
        ):
            if _checks.positive_integer(name, value) < least:
                raise ArgumentError(name, f"{name}={value} must be at least {least}.")
        levels = _checks.finite_array("levels", self.levels, 1)
        if not levels.size or levels.min() <= 0 or levels.max() >= 1:
            raise ArgumentError(
                "levels", f"levels={list(self.levels)} must lie between 0 and 1, such as [0.9, 0.99, 0.999]."
            )
        if not _checks.finite_number("reach", self.reach) > 0:
            raise ArgumentError("reach", f"reach={self.reach} must be positive, such as 4.0.")
        object.__setattr__(self, "measure", self._expanded())
        object.__setattr__(self, "axes", self._checked_axes())
        count = self.trials
        for values in self.axes.values():
            count *= len(values)
        if count > _MOST_TASKS:
            raise ArgumentError(
                "axes", f"axes and trials make {count:,} points, more than {_MOST_TASKS:,}. List fewer values."
            )
        _ = self.points

    def plot(self, measure: str | None = None, *, folder: str | Path | None = None) -> Any:
        """Compute the study, and draw a measure of it (the first unless given): a matplotlib figure.

        Results are kept in `folder`, where what is there is not computed again; without one they are gone with the picture.

        Example:
            >>> import limitlaw as ll
            >>> from limitlaw.experiments import Study
            >>> net = ll.Network(ll.Inputs(tokens=2), ll.Attention())
            >>> figure = Study(net, axes={"width": [16, 64]}, measure=["variance"], samples=2**12).plot()
            >>> figure.axes[0].get_xlabel()
            'width'
        """
        from ._sweep import Sweep

        _checks.one_of("measure", self.measure[0] if measure is None else measure, self.measure)
        with tempfile.TemporaryDirectory() as own:
            sweep = Sweep(self, Path(own, "sweep") if folder is None else folder)
            sweep.run()
            return sweep.plot(measure)

    def _repr_html_(self) -> str:
        rows = [(name, ", ".join(map(str, values))) for name, values in self.axes.items()]
        rows.append(("measured", ", ".join(self.measure)))
        if not self.of_problems:
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
        """Whether it is about regression problems, whose risks are exact."""
        return isinstance(self.family, ProblemFamily)

    def _expanded(self) -> tuple[str, ...]:
        known = _OF_RISK if self.of_problems else (*_OF_THE_OUTPUT, *OF_SAMPLES, *_OF_DEPTH)
        groups = {name: group for name, group in _GROUPS.items() if set(group) <= set(known)}
        if isinstance(self.measure, str) or not isinstance(self.measure, Sequence) or not self.measure:
            raise ArgumentError("measure", f"measure={self.measure!r} must be a list such as ['moments', 'kl'].")
        asked = {}
        for name in self.measure:
            _checks.known_keys("measure", {name: None}, (*groups, *known))
            asked |= dict.fromkeys(groups.get(name, (name,)))
        return tuple(asked)

    def _checked_axes(self) -> dict[str, tuple[Any, ...]]:
        if not isinstance(self.axes, Mapping):
            raise ArgumentTypeError("axes", f"axes={self.axes!r} must be a table of lists, such as width = [16, 64].")
        if not self.axes:
            raise ArgumentError("axes", "axes is empty. Name at least one, such as width = [16, 64].")
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
                if sum((type(v) is bool, v) == (type(value) is bool, value) for v in values) > 1:
                    raise ArgumentError("axes", f"axes.{name} lists {value} twice. List each value once.")
            axes[name] = values
        return axes

    @cached_property
    def points(self) -> list[Point]:
        """Every combination of values, each checked."""
        out = []
        for chosen in itertools.product(*(enumerate(values) for values in self.axes.values())):
            place = dict(zip(self.axes, (value for _, value in chosen), strict=True))
            try:
                member = self.family.member(place)
                if not self.of_problems:
                    _checks.index("token", self.token, member.tokens, "tokens")
                    self._check_blocks(member)
                    self._check_targets(member)
            except (ValueError, TypeError) as error:
                where = ", ".join(f"{name} = {value}" for name, value in place.items())
                argument = error.argument if isinstance(error, ArgumentError) else "axes"
                raise ArgumentError(argument, f"{where}: {error}" if where else str(error)) from None
            out.append(Point(place, tuple(i for i, _ in chosen), member))
        return out

    def _check_blocks(self, member: Member) -> None:
        along_depth = [name for name in self.measure if name in _OF_DEPTH]
        if along_depth and not member.blocks:
            raise ArgumentError(
                "measure",
                f"measure={along_depth[0]!r} is measured after each block, but the network has no layers. Add some.",
            )

    def _check_targets(self, member: Member) -> None:
        for target in {_target(name) for name in self.measure} - {"limit"}:
            from_plain(toward(target, **member.settings))

    @cached_property
    def measurements(self) -> list[Measurement]:
        """The tasks, point by point."""
        return [
            measurement
            for point in self.points
            for trial in range(1 if self.of_problems else self.trials)
            for measurement in self._of(point, trial)
        ]

    def _of(self, point: Point, trial: int) -> list[Measurement]:
        """What is to be computed at a point."""
        title = ", ".join(f"{name} = {value}" for name, value in point.place.items())
        if self.of_problems:
            what = {**point.member.settings, "measure": list(self.measure)}
            task = Task(title, _measure.regression, what, packages=REGRESSION, cost=0.01)
            return [Measurement(task, point.index, tuple(self.measure))]
        title += f", trial {trial + 1}"
        tasks = {**self._of_the_law(title, point, trial), **self._of_samples(title, point, trial)}
        return [Measurement(task, (*point.index, trial), measure) for measure, task in tasks.items()]

    def _of_the_law(self, title: str, point: Point, trial: int) -> dict[tuple[str, ...], Task]:
        """What one task measures of the output, and another one along depth."""
        settings, drawn = point.member.settings, self._drawn(point, trial)
        how: dict[str, Any] = {"cost": self._cost(point), "program": point.member.program, "kinds": own_kinds(settings)}
        out = {}
        of_output = tuple(name for name in self.measure if name in _OF_THE_OUTPUT)
        if of_output:
            targets = [_target(name) for name in of_output if name.startswith(tuple(DISTANCES))]
            if settings["width"] == "inf":
                targets = ["limit", *targets]
            against = list(dict.fromkeys(targets))
            what = {
                **drawn,
                "token": self.token,
                "measure": list(of_output),
                "against": against,
                "levels": list(self.levels),
            }
            shape = {"reach": self.reach, "points": self.points_of_density}
            needs = tuple(self._limit(settings, target) for target in against)
            out[of_output] = Task(title, _measure.output, {**what, **shape}, needs=needs, **how)
        of_depth = tuple(name for name in self.measure if name in _OF_DEPTH)
        if of_depth:
            out[of_depth] = Task(title, _measure.along_depth, {**drawn, "measure": list(of_depth)}, **how)
        return out

    def _of_samples(self, title: str, point: Point, trial: int) -> dict[tuple[str, ...], Task]:
        """What is measured from samples of the output."""
        drawn = {**self._drawn(point, trial), "token": self.token}
        outputs = Task(
            f"{title}: outputs",
            _measure.outputs,
            drawn,
            kinds=own_kinds(drawn),
            cost=self._cost(point),
            program=point.member.program,
        )
        estimates = [name for name in self.measure if name in OF_SAMPLES and name != "outputs"]
        return {
            **({("outputs",): outputs} if "outputs" in self.measure else {}),
            **{(name,): self._kernel(f"{title}: {name}", name, point, trial, outputs) for name in estimates},
        }

    def _kernel(self, title: str, name: str, point: Point, trial: int, outputs: Task) -> Task:
        """The kernel estimate, or its floor, which is the same at every point with this limit."""
        limit = self._limit(point.member.settings, _target(name))
        quantiles = Task(f"quantiles of the {limit.name}", _measure.quantiles, {}, needs=(limit,), cost=0.05)
        if name.startswith("kde_floor"):
            seed = self._seed({"floor": limit.settings["network"]}, trial)
            what = {"name": name, "samples": self.samples, "seed": seed}
            return Task(title, _measure.kernel_floor, what, needs=(quantiles,), cost=0.012)
        what = {"name": name, "seed": self._seed({"compared": name, **point.member.settings}, trial)}
        return Task(title, _measure.kernel_estimate, what, needs=(quantiles, outputs), cost=0.012)

    def _drawn(self, point: Point, trial: int) -> Plain:
        settings = point.member.settings
        return {**settings, "samples": self.samples, "seed": self._seed(settings, trial)}

    def _cost(self, point: Point) -> float:
        return 0.02 + self.samples * (point.member.seconds + 4e-7)

    def _limit(self, settings: Plain, target: str) -> Task:
        network = toward(target, **settings)
        what = {"network": network, "samples": _LIMIT_SAMPLES * self.samples, "token": self.token}
        name = _name_of_limit(json.dumps(network, sort_keys=True))
        return Task(name, _measure.limit, what, kinds=own_kinds(what), cost=0.1, program=program_of(network))

    def _seed(self, settings: Plain, trial: int) -> int:
        """A seed of its own for every network, width and trial."""
        text = json.dumps([self.seed, settings, trial], sort_keys=True)
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    def as_plain(self) -> dict[str, Any]:
        """The study as JSON and TOML hold it; `Study.from_plain` makes it again."""
        shared = {"name": self.name, "seed": self.seed, "measure": list(self.measure)}
        axes = {name: list(values) for name, values in self.axes.items()}
        family = self.family
        if isinstance(family, ProblemFamily):
            return {**shared, "problem": family.table, "overlaps": family.overlaps, "axes": axes}
        assert isinstance(family, NetworkFamily)
        return {
            **shared,
            "trials": self.trials,
            "samples": self.samples,
            "token": self.token,
            "levels": list(self.levels),
            "density": {"reach": self.reach, "points": self.points_of_density},
            "network": family.table,
            "axes": axes,
        }

    @classmethod
    def from_plain(cls, table: Mapping[str, Any]) -> Study:
        """The study that a table describes: `network` or `problem`, `axes`, `measure`, and how often.

        Example:
            >>> from limitlaw.experiments import Study
            >>> table = {"problem": {"dim": 100, "tokens": 20}, "axes": {"mu": [0.0, 0.5, 1.0]}, "measure": ["risk"]}
            >>> [point.place["mu"] for point in Study.from_plain(table).points]
            [0.0, 0.5, 1.0]
        """
        both = [name for name in ("network", "problem") if name in table]
        if len(both) != 1:
            found = "both [network] and [problem]" if both else "neither [network] nor [problem]"
            raise ArgumentError("network", f"A study has {found}. Describe one of the two.")
        _checks.known_keys("a study", table, (*_SHARED, *(_OF_PROBLEMS if both == ["problem"] else _OF_NETWORKS)))
        given = dict(table)
        of = given.pop(both[0])
        if not isinstance(of, Mapping):
            raise ArgumentTypeError(both[0], f"{both[0]}={of!r} must be a table.")
        if both == ["problem"]:
            _checks.known_keys("problem", of, [name for name in ProblemFamily({}, {}).names() if name not in OVERLAPS])
            if "dim" not in of and "dim" not in given.get("axes", {}):
                raise ArgumentError("problem", "problem has no 'dim'. Give it a value, or an axis.")
        elif not isinstance(of.get("layers", []), list):
            raise ArgumentError(
                "layers", f"network.layers={of['layers']!r} must be a list of tables, [[network.layers]] in TOML."
            )
        overlaps = given.get("overlaps", {})
        if not isinstance(overlaps, Mapping):
            raise ArgumentTypeError("overlaps", f"overlaps={overlaps!r} must be a table, such as mu = 0.5.")
        _checks.known_keys("overlaps", overlaps, OVERLAPS)
        density = given.pop("density", {})
        if not isinstance(density, Mapping):
            raise ArgumentTypeError("density", f"density={density!r} must be a table with reach and points.")
        _checks.known_keys("density", density, ("reach", "points"))
        if "points" in density:
            given["points_of_density"] = density["points"]
        if "reach" in density:
            given["reach"] = density["reach"]
        for name in ("axes", "measure"):
            if name not in given:
                example = "width = [16, 64]" if name == "axes" else "['moments']"
                raise ArgumentError(name, f"{name!r} is missing from the study. Give it, such as {example}.")
        if both == ["problem"] and "dim" not in of:
            of = {"dim": given["axes"]["dim"][0], **of}
        return cls(of, **given)


@cache
def _name_of_limit(network: str) -> str:
    """For people, of a network as JSON: many points and measures have the same."""
    return f"limit of {from_plain(json.loads(network))}"


def _target(measure: str) -> str:
    """The law that a distance is to."""
    return measure.partition("_to_")[2] or "limit"


def _described(problem: Problem) -> dict[str, Any]:
    """A problem as plain data."""
    counted = {"log_tokens": problem.log_tokens} if problem.tokens is None else {"tokens": problem.tokens}
    numbers = {name: getattr(problem, name) for name in ("dim", "gamma", "beta", "noise")}
    signal = {} if problem.default_signal else {"signal": problem.signal}  # a default one follows the dimension
    return {**numbers, "link": str(problem.link), **counted, **signal}


def read(file: str | Path) -> Study:
    """The study in a TOML file; refused, in one sentence, if it is not one.

    Example:
        >>> import tempfile, pathlib
        >>> from limitlaw import experiments
        >>> text = '''
        ... measure = ["moments"]
        ... [network]
        ... inputs = {kind = "Inputs", tokens = 4}
        ... layers = [{kind = "Attention", heads = 2}]
        ... [axes]
        ... width = [16, 64]
        ... '''
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "study.toml")
        ...     _ = path.write_text(text)
        ...     print(len(experiments.read(path).points))
        2
    """
    table = _checks.read_toml(file)
    try:
        return Study.from_plain(table)
    except RecursionError:
        raise ArgumentError("path", f"{file} nests its layers too deeply to be read.") from None
    except (ValueError, TypeError) as error:
        argument = error.argument if isinstance(error, ArgumentError) else "path"
        raise ArgumentError(argument, f"{file}: {error}") from None

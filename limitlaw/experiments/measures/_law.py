"""Measures of the law of an output: moments, quantiles, the density, and distances to limits."""

import abc
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isinf
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import _checks
from ..._checks import ArgumentError
from ...distances import DISTANCES
from ...laws import Atoms, Gaussian, Law, ScaleMixture
from ...networks import from_plain
from ...numerics import Estimate
from .._family import TARGETS, Member, to_target, toward
from .._task import Result, Task
from ._measure import Measure, Trial, Variable, estimated, with_error

if TYPE_CHECKING:
    from .._study import Study

Plain = dict[str, Any]

_TARGET_LABELS = {
    "limit": "to the limit",
    "fixed_head_dim": "to the limit with d kept",
    "infinite_head_dim": "to the limit n = d = ∞",
    "infinite_heads": "to the Gaussian of H = ∞",
}


def target_label(target: str) -> str:
    """What pictures call a law that outputs are compared with."""
    return _TARGET_LABELS[target]


class LawMeasure(Measure):
    """A measure of the law of the output of a token. All those of a study are computed from one law at each point."""

    @abc.abstractmethod
    def evaluate(self, law: Law, targets: Mapping[str, Law]) -> Result:
        """Its arrays, from the law and the limits that it is compared with."""

    @property
    def compared(self) -> str | None:
        """The name of the limit that it needs, if it needs one."""
        return None

    def check(self, member: Member) -> None:
        if self.compared is not None:
            from_plain(toward(self.compared, **member.settings)).check_width(inf)

    def task(self, trial: Trial) -> Task:
        return trial.once(LawMeasure, lambda: self._of_all(trial))

    @staticmethod
    def _of_all(trial: Trial) -> Task:
        measures = [measure for measure in trial.measures(LawMeasure) if isinstance(measure, LawMeasure)]
        targets = [measure.compared for measure in measures if measure.compared is not None]
        if trial.settings["width"] == "inf":
            targets = ["limit", *targets]  # the law itself
        against = list(dict.fromkeys(targets))
        settings = {
            **trial.drawn(),
            "token": trial.study.token,
            "measure": [measure.as_plain() for measure in measures],
            "against": against,
        }
        return trial.task(output, settings, needs=[trial.limit(target) for target in against])


@dataclass(frozen=True)
class Moment(LawMeasure):
    """A moment of the output.

    Args:
        name: "variance" or "kurtosis", the excess kurtosis.
    """

    name: str = "variance"

    def __post_init__(self) -> None:
        _checks.one_of("name", self.name, ("variance", "kurtosis"))

    def variables(self) -> Mapping[str, Variable]:
        return estimated(self.name, {"variance": "variance", "kurtosis": "excess kurtosis"}[self.name])

    def evaluate(self, law: Law, targets: Mapping[str, Law]) -> Result:
        return named(self.name, law.variance() if self.name == "variance" else law.kurtosis())


@dataclass(frozen=True)
class Quantiles(LawMeasure):
    """Quantiles of the output, along a dimension `level`.

    Args:
        levels: Their levels, between 0 and 1.

    Example:
        >>> from limitlaw.experiments import Quantiles
        >>> Quantiles([0.5, 0.9]).levels
        (0.5, 0.9)
    """

    levels: Sequence[float] = (0.9, 0.99, 0.999)
    name = "quantiles"

    def __post_init__(self) -> None:
        levels = _checks.finite_array("levels", self.levels, 1)
        if not levels.size or levels.min() <= 0 or levels.max() >= 1:
            raise ArgumentError(
                "levels", f"levels={list(self.levels)} must lie between 0 and 1, such as [0.9, 0.99, 0.999]."
            )
        object.__setattr__(self, "levels", tuple(self.levels))

    def variables(self) -> Mapping[str, Variable]:
        return with_error("quantiles", "quantile", "level")

    def coordinates(self, study: "Study") -> Mapping[str, np.ndarray]:
        return {"level": np.array(self.levels, float)}

    def evaluate(self, law: Law, targets: Mapping[str, Law]) -> Result:
        return _with_error(law, "quantiles", "icdf", np.array(self.levels))


@dataclass(frozen=True)
class Density(LawMeasure):
    """The density of the output on a grid, along a dimension `x`.

    Args:
        reach: The grid goes from `-reach` to `reach`.
        points: The number of its points.

    Example:
        >>> from limitlaw.experiments import Density
        >>> Density(reach=2.0, points=5).coordinates(None)["x"].tolist()
        [-2.0, -1.0, 0.0, 1.0, 2.0]
    """

    reach: float = 4.0
    points: int = 201
    name = "density"

    def __post_init__(self) -> None:
        if not _checks.finite_number("reach", self.reach) > 0:
            raise ArgumentError("reach", f"reach={self.reach} must be positive, such as 4.0.")
        if _checks.positive_integer("points", self.points) < 2:
            raise ArgumentError("points", f"points={self.points} must be at least 2.")

    def variables(self) -> Mapping[str, Variable]:
        return with_error("density", "density", "x")

    def coordinates(self, study: "Study") -> Mapping[str, np.ndarray]:
        return {"x": self._grid}

    @property
    def _grid(self) -> np.ndarray:
        return np.linspace(-self.reach, self.reach, self.points)

    def evaluate(self, law: Law, targets: Mapping[str, Law]) -> Result:
        return _with_error(law, "density", "pdf", self._grid)


@dataclass(frozen=True)
class DistanceTo(LawMeasure):
    """A distance from the output to a limit.

    Args:
        distance: The name of the distance, such as "kl".
        target: "limit", the limit of the network itself; "fixed_head_dim", with heads of the dimension that they have
            at the finite width; "infinite_head_dim", with heads as wide as the model; "infinite_heads", with infinitely
            many of those.

    Example:
        >>> from limitlaw.experiments import DistanceTo
        >>> DistanceTo("kl", "infinite_heads").name
        'kl_to_infinite_heads'
    """

    distance: str = "kl"
    target: str = "limit"

    def __post_init__(self) -> None:
        _checks.one_of("distance", self.distance, DISTANCES)
        _checks.one_of("target", self.target, TARGETS)

    @property
    def name(self) -> str:  # type: ignore[reportIncompatibleVariableOverride]
        """The name of the distance, and of the target if that is not the limit of the network itself."""
        return to_target(self.distance, self.target)

    @property
    def compared(self) -> str:
        return self.target

    def variables(self) -> Mapping[str, Variable]:
        return estimated(self.name, f"{DISTANCES[self.distance].long_label} {target_label(self.target)}")

    def evaluate(self, law: Law, targets: Mapping[str, Law]) -> Result:
        other = targets[self.target]
        zero = Estimate(0.0, 0.0)
        return named(self.name, zero if other is law else DISTANCES[self.distance].measure(law, other).estimate)


def width_of(width: int | str) -> int | float:
    """A width as JSON holds it."""
    return inf if width == "inf" else int(width)


def limit(*, network: Plain, samples: int, token: int = 0) -> Result:
    """The law of a token at infinite width: atoms of one head's variance, and the number of heads (0 for a Gaussian)."""
    law = from_plain(network).law(width=inf, token=token, samples=samples, progress=False)
    if isinstance(law, Gaussian):
        variance = law.variance()
        return {"variance": np.array([variance, variance.stderr, variance.dof]), "heads": np.array(0)}
    return {
        "values": law.atoms.values,
        "weights": law.atoms.weights,
        "leave_one_out": law.atoms.leave_one_out,
        "dof": np.array(law.atoms.dof),
        "heads": np.array(law.copies),
    }


def limit_law(result: Result) -> Law:
    """The law that `limit` found."""
    if not result["heads"]:
        return Gaussian(variance=Estimate(*result["variance"]), name="limit")
    values, weights, others = (np.array(result[name], np.float64) for name in ("values", "weights", "leave_one_out"))
    return _mixture(Atoms(values, weights, others, float(result["dof"])), int(result["heads"]))


@functools.lru_cache(maxsize=16)
def _mixture(atoms: Atoms, heads: int) -> ScaleMixture:
    """One object for one law: it keeps its quantiles and its Fourier transform, which every distance to it needs."""
    return ScaleMixture(atoms, copies=heads, name="limit")


def output(
    *limits: Result,
    network: Plain,
    width: int | str,
    token: int,
    samples: int,
    seed: int,
    measure: list[str | Plain],
    against: list[str],
) -> Result:
    """Measures of the law of a token's output at a width; `against` names the laws that `limits` are."""
    from . import measure_of

    at = width_of(width)
    targets = dict(zip(against, map(limit_law, limits), strict=True))
    if isinf(at) and "limit" in targets:
        law = targets["limit"]
    else:
        law = from_plain(network).law(width=at, token=token, samples=samples, seed=seed, progress=False)
    out: Result = {}
    for plain in measure:
        found = measure_of(plain)
        assert isinstance(found, LawMeasure)
        out |= found.evaluate(law, targets)
    return out


def _with_error(law: Law, name: str, method: str, at: np.ndarray) -> Result:
    return {name: np.asarray(getattr(law, method)(at)), f"{name}_stderr": np.asarray(law.error(method, at))}


def named(name: str, value: Estimate) -> Result:
    """An estimate as arrays: its value, its standard error, and the degrees of freedom of that.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.experiments import named
        >>> {name: float(value) for name, value in named("kl", ll.Estimate(0.5, 0.1, 9)).items()}
        {'kl': 0.5, 'kl_stderr': 0.1, 'kl_dof': 9.0}
    """
    return {name: np.array(float(value)), f"{name}_stderr": np.array(value.stderr), f"{name}_dof": np.array(value.dof)}

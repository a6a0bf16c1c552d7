"""Measures of samples of the output: the samples themselves, and the kernel estimate of the attention paper."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.interpolate import CubicSpline

from ... import _checks
from ...distances import kde_kl
from ...laws.normal_scores import quantiles_of_normal
from ...networks import from_plain
from .._family import TARGETS, Member, to_target, toward
from .._task import Result, Task
from ._law import Plain, limit_law, target_label, width_of
from ._measure import Measure, Trial, Variable, seed_of

if TYPE_CHECKING:
    from .._study import Study

_NORMAL = np.linspace(-9.0, 9.0, 512)
_SECONDS_OF_A_KERNEL_ESTIMATE = 2.5e-7  # for each sample


@dataclass(frozen=True)
class Outputs(Measure):
    """The outputs of a token in `samples` networks, along a dimension `draw`."""

    name = "outputs"

    def variables(self) -> Mapping[str, Variable]:
        return {"outputs": Variable("density of the output, sampled", ("draw",), "float32")}

    def coordinates(self, study: "Study") -> Mapping[str, np.ndarray]:
        return {"draw": np.arange(1, max(study.axes.get("samples", (study.samples,))) + 1)}

    def task(self, trial: Trial) -> Task:
        return _outputs_of(trial)


def _outputs_of(trial: Trial) -> Task:
    settings = {**trial.drawn(), "token": trial.study.token}
    return trial.once("outputs", lambda: trial.task(outputs, settings, name="outputs"))


def _quantiles_of(limit: Task) -> Task:
    return Task(f"quantiles of the {limit.name}", quantiles, {}, needs=(limit,), cost=0.05)


@dataclass(frozen=True)
class KernelEstimate(Measure):
    """The attention paper's estimate of KL(network || limit), from a sample of each.

    Args:
        target: The limit, as for `DistanceTo`.
    """

    target: str = "limit"

    def __post_init__(self) -> None:
        _checks.one_of("target", self.target, TARGETS)

    @property
    def name(self) -> str:  # type: ignore[reportIncompatibleVariableOverride]
        return to_target("kde_kl", self.target)

    def variables(self) -> Mapping[str, Variable]:
        return {self.name: Variable(f"kernel estimate of the KL {target_label(self.target)}")}

    def check(self, member: Member) -> None:
        from_plain(toward(self.target, **member.settings))

    def task(self, trial: Trial) -> Task:
        settings = {"name": self.name, "seed": trial.seed(compared=self.name)}
        needs = (_quantiles_of(trial.limit(self.target)), _outputs_of(trial))
        cost = _SECONDS_OF_A_KERNEL_ESTIMATE * trial.samples
        return trial.task(kernel_estimate, settings, needs=needs, name=self.name, cost=cost, program="")


@dataclass(frozen=True)
class KernelFloor(KernelEstimate):
    """The same estimate between two samples of the limit, where the truth is 0.

    It is the same at every point with this limit.

    Args:
        target: The limit, as for `DistanceTo`.
    """

    @property
    def name(self) -> str:
        return to_target("kde_floor", self.target)

    def variables(self) -> Mapping[str, Variable]:
        return {self.name: Variable(f"floor of the kernel estimate {target_label(self.target)}")}

    def task(self, trial: Trial) -> Task:
        limit = trial.limit(self.target)
        seed = seed_of(trial.study.seed, {"floor": limit.settings["network"]}, trial.number)
        settings = {"name": self.name, "samples": trial.samples, "seed": seed}
        cost = _SECONDS_OF_A_KERNEL_ESTIMATE * trial.samples
        needs = (_quantiles_of(limit),)
        return trial.task(kernel_floor, settings, needs=needs, name=self.name, cost=cost, program="")


def outputs(*, network: Plain, width: int | str, token: int, samples: int, seed: int) -> Result:
    """Outputs of a token in `samples` networks: Gaussian given their variance, which the Gram reading draws."""
    net = from_plain(network)
    variance = net.sample(samples, width=width_of(width), token=token, observe="covariance", seed=seed, progress=False)
    normal = np.random.default_rng([seed, 1]).standard_normal(samples, np.float32)
    return {"outputs": np.sqrt(variance) * normal}


def quantiles(limit: Result) -> Result:
    """Quantiles of a limit law at the places of `_NORMAL`, through which normals become samples of it."""
    return {"quantiles": quantiles_of_normal(limit_law(limit), _NORMAL)}


def _samples_of(limit: Result, count: int, seed: int, index: int) -> np.ndarray:
    """The `index`-th independent sample of the law with these quantiles."""
    normals = np.random.default_rng([seed, index]).standard_normal(count)
    return CubicSpline(_NORMAL, limit["quantiles"])(normals)


def kernel_estimate(limit: Result, drawn: Result, *, name: str, seed: int) -> Result:
    """The kernel estimate of KL(network || limit)."""
    y = drawn["outputs"].astype(np.float64)
    return {name: np.array(float(kde_kl(y, _samples_of(limit, y.size, seed, 0))))}


def kernel_floor(limit: Result, *, name: str, samples: int, seed: int) -> Result:
    """The kernel estimate between two samples of the limit."""
    first, second = (_samples_of(limit, samples, seed, index) for index in (0, 1))
    return {name: np.array(float(kde_kl(first, second)))}

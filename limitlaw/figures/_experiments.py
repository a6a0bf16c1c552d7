"""The experiments of the paper as data, and the tasks that carry them out.

Section 5 of Sakai, Karakida and Imaizumi (2025): tokens `phi(W_i h)`, all stds 1, the first coordinate of the first token.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import inf
from typing import Any

import numpy as np

from ..networks import Attention, Inputs, Network, as_plain
from ..numerics import Activation, activation, clip
from ..runs import Task
from . import _measure
from ._settings import Settings

_GRID = 401  # points of a density
_CLIP = clip(100.0)


@dataclass(frozen=True)
class Point:
    """One network of an experiment: `heads` of dimension `head_dim` (None: as wide as the model) at a finite `width`."""

    width: int
    heads: int
    tokens: int = 4
    activation: Activation = _CLIP
    head_dim: int | None = None

    @property
    def network(self) -> Network:
        return self._with(self.heads, self.head_dim)

    @property
    def limit(self) -> Network:
        """What the paper compares with: width and head dimension infinite."""
        return self._with(self.heads, None)

    @property
    def fixed_head_dim(self) -> Network:
        """The other limit: the width is infinite, the heads stay as they are."""
        return self._with(self.heads, self.head_dim or self.width)

    @property
    def infinite_heads(self) -> Network:
        return self._with(inf, None)

    @property
    def label(self) -> str:
        return f"n = {self.width}, H = {self.heads}" + (f", d = {self.head_dim}" if self.head_dim else "")

    @property
    def numbers(self) -> int:
        """Random numbers behind one draw of the conditional variance, about."""
        nonlinear = self.activation.identity_up_to < 36
        return self.tokens * (self.heads + 2 + (self.width if nonlinear else 0))

    @property
    def program(self) -> str:
        """What its draws compile: widths, heads and head dimensions are not part of it."""
        return f"{self.tokens} {self.activation}"

    def _with(self, heads: int | float, head_dim: int | None) -> Network:
        return Network(Inputs(self.tokens, self.activation), Attention(heads=heads, head_dim=head_dim))


@dataclass(frozen=True)
class Experiment:
    """Points, with the tasks that measure each."""

    name: str
    points: tuple[Point, ...]
    samples: int
    settings: Settings
    reach: float  # of the densities
    fixed: bool = False  # compare with the limit at fixed head dimension too
    gaussian: bool = False  # and with the Gaussian of infinitely many heads

    @cached_property
    def outputs(self) -> list[list[Task]]:
        """One task for every point and trial."""
        return [[self._outputs(point, trial) for trial in range(self.settings.trials)] for point in self.points]

    def _outputs(self, point: Point, trial: int) -> Task:
        return Task(
            f"{self.name}, {point.label}: trial {trial + 1}",
            _measure.outputs,
            {
                "network": as_plain(point.network),
                "width": point.width,
                "samples": self.samples,
                "seed": self._seed("outputs", point, trial),
            },
            cost=0.02 + self.samples * point.numbers * 4e-9,
            program=point.program,
        )

    @cached_property
    def kde(self) -> list[Task]:
        """The paper's estimator at every point, against the limit."""
        return [self._kde(i, point.limit) for i, point in enumerate(self.points)]

    @cached_property
    def kde_to_gaussian(self) -> list[Task]:
        """Likewise against the Gaussian of infinitely many heads."""
        return [self._kde(i, point.infinite_heads) for i, point in enumerate(self.points)]

    def _kde(self, index: int, limit: Network) -> Task:
        point = self.points[index]
        return Task(
            f"{self.name}, {point.label}: the paper's estimator",
            _measure.kde,
            {"seed": self._seed("theory", point, limit.layers[0])},
            needs=(self._quantiles(limit), *self.outputs[index]),
            cost=self.settings.trials * 0.02,
        )

    @cached_property
    def floor(self) -> list[Task]:
        """What that estimator says of two samples of one law, the limit of each point."""
        return [self._floor(point.limit) for point in self.points]

    @cached_property
    def floor_of_gaussian(self) -> list[Task]:
        """Likewise of two samples of the Gaussian of infinitely many heads."""
        return [self._floor(point.infinite_heads) for point in self.points]

    def _floor(self, limit: Network) -> Task:
        return Task(
            f"{self.name}, {limit.layers[0]}: floor of the paper's estimator",
            _measure.floor,
            {"samples": self.samples, "pairs": self.settings.trials, "seed": self._seed("floor", limit.layers[0])},
            needs=(self._quantiles(limit),),
            cost=self.settings.trials * 0.03,
        )

    @cached_property
    def exact(self) -> list[Task]:
        """The exact law at every point."""
        return [self._exact(point) for point in self.points]

    def _exact(self, point: Point) -> Task:
        references = {"limit": point.limit}
        if self.fixed:
            references["fixed"] = point.fixed_head_dim
        if self.gaussian:
            references["gaussian"] = point.infinite_heads
        draws = _draws(point, self.settings)
        return Task(
            f"{self.name}, {point.label}: exact law",
            _measure.exact,
            {
                "network": as_plain(point.network),
                "width": point.width,
                "samples": draws,
                "seed": self._seed("exact", point),
                "against": list(references),
                "reach": self.reach,
                "points": _GRID,
            },
            needs=tuple(map(self._limit, references.values())),
            cost=0.4 + draws * (1e-6 + 3e-9 * point.numbers),
            program=point.program,
        )

    @cached_property
    def limits(self) -> list[Task]:
        """Moments and density of the limit of every point."""
        return [self._shape(point.limit, *([point.infinite_heads] if self.gaussian else [])) for point in self.points]

    @cached_property
    def fixed_limits(self) -> list[Task]:
        """Likewise at fixed head dimension."""
        return [self._shape(point.fixed_head_dim) for point in self.points]

    def _shape(self, limit: Network, *other: Network) -> Task:
        return Task(
            f"{self.name}, {limit.layers[0]}: density of the limit",
            _measure.shape,
            {"reach": self.reach, "points": _GRID},
            needs=tuple(map(self._limit, (limit, *other))),
            cost=0.1,
        )

    def _quantiles(self, network: Network) -> Task:
        return Task(f"quantiles of {network}", _measure.quantiles, {}, needs=(self._limit(network),), cost=0.1)

    def _limit(self, network: Network) -> Task:
        cost = 0.1 if network.tokens <= 5 else 0.1 + self.settings.draws * 3e-6
        settings = {"network": as_plain(network), "samples": 4 * self.settings.draws}
        return Task(f"limit of {network}", _measure.limit, settings, cost=cost)

    def coordinates(self, points: Sequence[Point]) -> dict[str, Any]:
        """Labels of points, trials and estimates, for labelled arrays."""
        return {
            "point": [point.label for point in points],
            "width": ("point", [point.width for point in points]),
            "heads": ("point", [point.heads for point in points]),
            "tokens": ("point", [point.tokens for point in points]),
            "trial": np.arange(1, self.settings.trials + 1),
            "statistic": ["value", "stderr", "dof"],
        }

    @property
    def grid(self) -> np.ndarray:
        """Where densities are given."""
        return np.linspace(-self.reach, self.reach, _GRID)

    def _seed(self, *what: Any) -> int:
        return seed_for(self.settings, self.name, *what)


def seed_for(settings: Settings, *what: Any) -> int:
    """A seed of its own for every experiment, purpose, point and trial."""
    text = f"{settings.seed} {' '.join(map(str, what))}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


Design = Callable[[Settings], Experiment]
"""Settings make an experiment of it."""


def _draws(point: Point, settings: Settings) -> int:
    """Draws behind an exact law: as many as the settings allow, fewer where one is expensive."""
    affordable = max(2**24 // point.numbers, 2**16)
    return min(settings.draws, 2 ** int(np.log2(affordable)))


@cache
def clipped(settings: Settings) -> Experiment:
    """Figure 1: two heads, growing width."""
    points = tuple(Point(n, 2) for n in (16, 64, 256, 1024))
    return Experiment("clip", points, settings.samples or 50_000, settings, reach=3.5)


@cache
def heads(settings: Settings) -> Experiment:
    """Figure 2b and the authors' further plots: n = 256, growing number of heads."""
    points = tuple(Point(256, H) for H in (1, 4, 16, 64, 256))
    return Experiment("heads", points, settings.samples or 50_000, settings, reach=3.5, gaussian=True)


@cache
def low_rank(settings: Settings) -> Experiment:
    """Figure 3: heads of dimension 64, as many as make up the width."""
    points = tuple(Point(64 * H, H, head_dim=64) for H in (1, 4, 16))
    return Experiment("low rank", points, settings.samples or 50_000, settings, reach=3.5, fixed=True)


@cache
def long(settings: Settings) -> Experiment:
    """Figure 4: figure 1 with more tokens."""
    points = tuple(Point(n, 2, tokens=settings.tokens) for n in (16, 64, 256, 1024))
    name, reach = f"{settings.tokens} tokens", 3.5 * float(np.sqrt(4 / settings.tokens))
    return Experiment(name, points, settings.samples or 50_000, settings, reach, fixed=True)


@cache
def relu(settings: Settings) -> Experiment:
    """Figure 5: figure 1 with ReLU tokens and twice the samples."""
    points = tuple(Point(n, 2, activation=activation("relu")) for n in (16, 64, 256, 1024))
    return Experiment("relu", points, settings.samples or 100_000, settings, reach=3.0)

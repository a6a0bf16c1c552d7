"""The experiments of the paper as data, and the studies that carry them out.

Section 5 of Sakai, Karakida and Imaizumi (2025): tokens `phi(W_i h)`, all stds 1, the first coordinate of the first token.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from ..experiments import Study, Task, to_target, toward
from ..networks import Attention, Inputs, Network, as_plain, from_plain
from ..numerics import Activation, activation, clip
from ._figure import Load, as_stored
from ._settings import Settings

_GRID = 401  # points of a density
_SHAPE = ("variance", "kurtosis", "density")
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
        return Network(Inputs(self.tokens, self.activation), Attention(heads=self.heads, head_dim=self.head_dim))

    @property
    def targets(self) -> dict[str, str]:
        """What the figures compare with, as studies call it: the paper's limit is that of infinite width and head dimension."""
        limit, fixed = ("limit", "fixed_head_dim") if self.head_dim is None else ("infinite_head_dim", "limit")
        return {"limit": limit, "fixed": fixed, "gaussian": "infinite_heads"}

    @property
    def label(self) -> str:
        return f"n = {self.width}, H = {self.heads}" + (f", d = {self.head_dim}" if self.head_dim else "")

    @property
    def numbers(self) -> int:
        """Random numbers behind one draw of the conditional variance, about."""
        nonlinear = self.activation.identity_up_to < 36
        return self.tokens * (self.heads + 2 + (self.width if nonlinear else 0))


@dataclass(frozen=True)
class Experiment:
    """Points, with the studies that measure each."""

    name: str
    points: tuple[Point, ...]
    samples: int
    settings: Settings
    reach: float  # of the densities
    axis: str = "width"  # by what the points are laid out, or "heads"
    fixed: bool = False  # compare with the limit at fixed head dimension too
    gaussian: bool = False  # and with the Gaussian of infinitely many heads

    @property
    def compared(self) -> tuple[str, ...]:
        """What the points are compared with: "limit", and perhaps "fixed" and "gaussian"."""
        return ("limit", *(["fixed"] if self.fixed else []), *(["gaussian"] if self.gaussian else []))

    @cached_property
    def samplings(self) -> list[Study]:
        """The paper's side of every point: outputs in trials, and its kernel estimate of their divergence, with the floor of that."""
        compared = [name for name in self.compared if name != "fixed"]
        return [
            self._study("outputs", point, ["outputs", *self._distances(point, compared, "kde_kl", "kde_floor")],
                        trials=self.settings.trials, samples=self.samples)
            for point in self.points
        ]  # fmt: skip

    @cached_property
    def laws(self) -> list[Study]:
        """The exact law at every point."""
        return [
            self._study("exact", point, [*_SHAPE, *self._distances(point, self.compared, "kl")], samples=_draws(point, self.settings))
            for point in self.points
        ]  # fmt: skip

    @cached_property
    def limits(self) -> dict[str, list[Study]]:
        """What the points are compared with, by name: the law, and that of the limit has a divergence from the Gaussian as well if there is one."""
        gaussian = {"limit": ["kl_to_infinite_heads"]} if self.gaussian else {}
        return {
            name: [self._limit(name, point, [*_SHAPE, *gaussian.get(name, [])]) for point in self.points]
            for name in self.compared
            if name != "gaussian"
        }

    def _limit(self, name: str, point: Point, measure: list[str]) -> Study:
        return Study(
            from_plain(toward(point.targets[name], as_plain(point.network), point.width)),
            axes={"width": ["inf"]},
            measure=measure,
            name=f"{self.name}, {point.label}: {name}",
            samples=_draws(point, self.settings),
            **self._density,
        )

    @staticmethod
    def _distances(point: Point, compared: Sequence[str], *measures: str) -> list[str]:
        return [to_target(measure, point.targets[name]) for measure in measures for name in compared]

    def _study(self, what: str, point: Point, measure: list[str], **counts: int) -> Study:
        return Study(
            point.network,
            axes={"width": [point.width]},
            measure=measure,
            name=f"{self.name}, {point.label}: {what}",
            seed=seed_for(self.settings, self.name, what),
            **counts,
            **self._density,
        )

    @property
    def _density(self) -> dict[str, Any]:
        return {"reach": self.reach, "points_of_density": _GRID}

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


def tasks_of(*studies: Study) -> list[Task]:
    """What studies compute."""
    return [measurement.task for study in studies for measurement in study.measurements]


def measured(study: Study, load: Load, name: str) -> np.ndarray:
    """What a study of one point measured, trial by trial."""
    return np.stack([load(m.task)[name] for m in study.measurements if name.removesuffix("_stderr") in m.measure])


def estimated(study: Study, load: Load, name: str) -> np.ndarray:
    """What a study of one point and trial measured: value, standard error, degrees of freedom."""
    (result,) = (load(m.task) for m in study.measurements if name in m.measure)
    return as_stored(result, name)


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
    return Experiment("heads", points, settings.samples or 50_000, settings, reach=3.5, axis="heads", gaussian=True)


@cache
def low_rank(settings: Settings) -> Experiment:
    """Figure 3: heads of dimension 64, as many as make up the width."""
    points = tuple(Point(64 * H, H, head_dim=64) for H in (1, 4, 16))
    return Experiment("low rank", points, settings.samples or 50_000, settings, reach=3.5, axis="heads", fixed=True)


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

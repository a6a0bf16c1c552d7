"""Measures of a score of the last attention layer: samples of it, and its exact law."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ... import _checks
from ...networks import from_plain
from .._family import Member
from .._task import Result, Task
from ._law import Plain, named, width_of
from ._measure import Measure, Trial, Variable, estimated

if TYPE_CHECKING:
    from .._study import Study


@dataclass(frozen=True)
class Scores(Measure):
    """Scores of one query token with one key token in `samples` networks, in the first head, along `draw`.

    Args:
        query_token: The token that attends.
        key_token: The token that it attends to.

    Example:
        >>> from limitlaw.experiments import Scores
        >>> Scores().as_plain(), Scores(key_token=1).as_plain()
        ('scores', {'kind': 'Scores', 'key_token': 1})
    """

    query_token: int = 0
    key_token: int = 0
    name = "scores"

    def variables(self) -> Mapping[str, Variable]:
        return {"scores": Variable("density of the score, sampled", ("draw",), "float32")}

    def coordinates(self, study: "Study") -> Mapping[str, np.ndarray]:
        return {"draw": np.arange(1, max(study.axes.get("samples", (study.samples,))) + 1)}

    def check(self, member: Member) -> None:
        _check_tokens(self, member)

    def task(self, trial: Trial) -> Task:
        tokens = {"query_token": self.query_token, "key_token": self.key_token}
        return trial.task(scores, {**trial.drawn(), **tokens}, name="scores")


@dataclass(frozen=True)
class ScoreLaw(Measure):
    """The exact law of such a score: `score_variance`, `score_kurtosis`, and `score_density` at `score_x`.

    Args:
        query_token: The token that attends.
        key_token: The token that it attends to.
        draws: The draws behind the law at a finite width; by default the samples of the study.
        reach: The distance of the ends of the grid from 0, in standard deviations.
        points: The number of its points, along a dimension `place`.

    Example:
        >>> from limitlaw.experiments import ScoreLaw
        >>> list(ScoreLaw(points=5).variables())[-2:]
        ['score_density', 'score_x']
    """

    query_token: int = 0
    key_token: int = 0
    draws: int | None = None
    reach: float = 5.0
    points: int = 401
    name = "score"

    def __post_init__(self) -> None:
        for name in ("draws", "points"):
            if getattr(self, name) is not None:
                _checks.positive_integer(name, getattr(self, name))
        _checks.finite_number("reach", self.reach)

    def variables(self) -> Mapping[str, Variable]:
        return {
            **estimated("score_variance", "variance of the score"),
            **estimated("score_kurtosis", "excess kurtosis of the score"),
            "score_density": Variable("density of the score", ("place",)),
            "score_x": Variable("", ("place",)),
        }

    def coordinates(self, study: "Study") -> Mapping[str, np.ndarray]:
        return {"place": np.linspace(-self.reach, self.reach, self.points)}

    def check(self, member: Member) -> None:
        _check_tokens(self, member)

    def task(self, trial: Trial) -> Task:
        settings = {
            **trial.drawn(),
            "samples": self.draws or trial.samples,
            "query_token": self.query_token,
            "key_token": self.key_token,
            "reach": self.reach,
            "points": self.points,
        }
        return trial.task(score_law, settings, name="law of the score")


def _check_tokens(measure: "Scores | ScoreLaw", member: Member) -> None:
    for name in ("query_token", "key_token"):
        _checks.index(name, getattr(measure, name), member.tokens, "tokens")


def scores(*, network: Plain, width: int | str, samples: int, seed: int, query_token: int, key_token: int) -> Result:
    """Scores of two tokens in the first head."""
    drawn = from_plain(network).sample(
        samples, width=width_of(width), observe="scores", token=query_token, seed=seed, progress=False
    )
    return {"scores": drawn[:, 0, key_token]}


def score_law(
    *,
    network: Plain,
    width: int | str,
    samples: int,
    seed: int,
    query_token: int,
    key_token: int,
    reach: float,
    points: int,
) -> Result:
    """Moments of the law of a score, and its density on a grid."""
    law = from_plain(network).score_law(
        query_token, key_token, width=width_of(width), seed=seed, samples=samples, progress=False
    )
    grid = np.linspace(-reach, reach, points) * float(law.standard_deviation())
    moments = named("score_variance", law.variance()) | named("score_kurtosis", law.kurtosis())
    return {"score_x": grid, "score_density": np.asarray(law.pdf(grid)), **moments}

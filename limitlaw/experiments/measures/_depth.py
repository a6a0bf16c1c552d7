"""Measures along depth: what the Gram matrix of the stream says after the input and after every block."""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ... import _checks
from ..._checks import ArgumentError
from ...networks import Trajectory, excess_kurtosis, from_plain
from .._family import Member
from .._task import Result, Task
from ._law import Plain, width_of
from ._measure import Measure, Trial, Variable, with_error

if TYPE_CHECKING:
    from .._study import Study

_SUMMARIES = {
    "variance": "variance of the last token",
    "kurtosis": "excess kurtosis",
    "cosine": "cosine between tokens",
    "effective_rank": "effective rank",
    "entropy": "attention entropy (nats)",
    "uniformity": "entropy / that of uniform attention",
}


class DepthMeasure(Measure):
    """A measure after the input and after every block, along a dimension `block`.

    All those of a study are computed from one trajectory at each point.
    """

    label: str

    @abc.abstractmethod
    def evaluate(self, t: Trajectory) -> tuple[np.ndarray, np.ndarray]:
        """Its values and their standard errors, an entry for each block."""

    def variables(self) -> Mapping[str, Variable]:
        return with_error(self.name, self.label, "block")

    def coordinates(self, study: "Study") -> Mapping[str, np.ndarray]:
        return {"block": np.arange(1 + max(point.member.blocks for point in study.points))}

    def check(self, member: Member) -> None:
        if not member.blocks:
            raise ArgumentError(
                "measure",
                f"measure={self.name!r} is measured after each block, but the network has no layers. Add some.",
            )

    def task(self, trial: Trial) -> Task:
        measures = [measure.as_plain() for measure in trial.measures(DepthMeasure)]
        return trial.once(
            DepthMeasure,
            lambda: trial.task(
                along_depth,
                {**trial.drawn(), "measure": measures},
                name="along depth",
                program=f"depth {trial.point.member.program}",
            ),
        )


@dataclass(frozen=True)
class BlockSummary(DepthMeasure):
    """A number for each block, averaged over tokens and heads where there are several: `Trajectory.summary`.

    Args:
        of_block: "variance" and "kurtosis" of the last token, "cosine" of the tokens, "effective_rank", "entropy" of
            attention, or "uniformity", that over the entropy of uniform attention.
    """

    of_block: str = "variance"

    def __post_init__(self) -> None:
        _checks.one_of("of_block", self.of_block, _SUMMARIES)

    @property
    def name(self) -> str:  # type: ignore[reportIncompatibleVariableOverride]
        return f"block_{self.of_block}"

    @property
    def label(self) -> str:  # type: ignore[reportIncompatibleVariableOverride]
        return _SUMMARIES[self.of_block]

    def evaluate(self, t: Trajectory) -> tuple[np.ndarray, np.ndarray]:
        return t.summary()[self.of_block]


class _OfPairs(DepthMeasure):
    """A measure of pairs of tokens."""

    def check(self, member: Member) -> None:
        super().check(member)
        if member.tokens < 2:
            raise ArgumentError("measure", f"measure={self.name!r} is of pairs of tokens, but there is one token.")


@dataclass(frozen=True)
class BlockGap(_OfPairs):
    """`1 - cos`, averaged over pairs of tokens, without the rounding that a mean cosine close to 1 has."""

    name = "block_gap"
    label = "1 − cos, mean over pairs"

    def evaluate(self, t: Trajectory) -> tuple[np.ndarray, np.ndarray]:
        return _mean(pair_gap(t.gram.astype(np.float64)))


@dataclass(frozen=True)
class BlockGapCubed(_OfPairs):
    r"""The mean of `(1 - cos) |C K C|^2 / s^2` over draws, `C` the centring of the `s` tokens.

    Times the squared score scale it is what attention alone makes of `1 - cos` in the next block, while scores are
    small.
    """

    name = "block_gap_cubed"
    label = "(1 − cos) |CKC|² / s²"

    def evaluate(self, t: Trajectory) -> tuple[np.ndarray, np.ndarray]:
        K = t.gram.astype(np.float64)
        tokens = K.shape[-1]
        centring = np.eye(tokens) - 1 / tokens
        spread = ((centring @ K @ centring) ** 2).sum(axis=(2, 3))
        return _mean(pair_gap(K) * spread / tokens**2)


@dataclass(frozen=True)
class ReadoutKurtosis(DepthMeasure):
    """The excess kurtosis of a fresh read-out of a combination of tokens, such as `x_1 - x_2`.

    Args:
        coefficients: The coefficient of each token, the first ones if there are fewer than tokens.
        name: The variable.

    Example:
        >>> from limitlaw.experiments import ReadoutKurtosis
        >>> ReadoutKurtosis([1, -1], name="difference").as_plain()
        {'kind': 'ReadoutKurtosis', 'coefficients': [1.0, -1.0], 'name': 'difference'}
    """

    coefficients: Sequence[float] = (1.0,)
    name: str = "readout_kurtosis"
    label = "excess kurtosis of a read-out"

    def __post_init__(self) -> None:
        given = _checks.finite_array("coefficients", self.coefficients, 1)
        if not np.any(given):
            raise ArgumentError(
                "coefficients", f"coefficients={list(self.coefficients)} must not all be 0, such as [1, -1]."
            )
        object.__setattr__(self, "coefficients", tuple(float(c) for c in given))

    def check(self, member: Member) -> None:
        super().check(member)
        if len(self.coefficients) > member.tokens:
            raise ArgumentError(
                "coefficients",
                f"coefficients={list(self.coefficients)} has {len(self.coefficients)} entries, but there are "
                f"{member.tokens} tokens. Give one for each token.",
            )

    def evaluate(self, t: Trajectory) -> tuple[np.ndarray, np.ndarray]:
        K = t.gram.astype(np.float64)
        c = np.zeros(K.shape[-1])
        c[: len(self.coefficients)] = self.coefficients
        return excess_kurtosis(np.einsum("dbij,i,j->db", K, c, c))


def pair_gap(K: np.ndarray) -> np.ndarray:
    """`1 - cos`, averaged over pairs of tokens, of Gram matrices `(..., s, s)`; the cosine with a zero token is 0.

    Example:
        >>> import numpy as np
        >>> from limitlaw.experiments.measures import pair_gap
        >>> float(pair_gap(np.array([[4.0, 1.0], [1.0, 1.0]])))
        0.5
    """
    length = np.sqrt(np.diagonal(K, axis1=-2, axis2=-1))
    i, j = np.tril_indices(K.shape[-1], -1)
    sizes = length[..., i] * length[..., j]
    return (1 - np.divide(K[..., i, j], sizes, out=np.zeros_like(sizes), where=sizes != 0)).mean(axis=-1)


def _mean(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return draws.mean(axis=0), draws.std(axis=0, ddof=1) / np.sqrt(len(draws))


def along_depth(*, network: Plain, width: int | str, samples: int, seed: int, measure: list[str | Plain]) -> Result:
    """Measures along the depth of a network at a width, from one trajectory."""
    from . import measure_of

    t = from_plain(network).trajectory(samples, width=width_of(width), seed=seed, progress=False)
    out: Result = {}
    for plain in measure:
        found = measure_of(plain)
        assert isinstance(found, DepthMeasure)
        out[found.name], out[f"{found.name}_stderr"] = map(np.asarray, found.evaluate(t))
    return out

"""What a study measures: one class a kind of measure, and the one list of those without options."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from ... import _checks
from ..._checks import ArgumentError, ArgumentTypeError
from ...distances import DISTANCES
from .._family import TARGETS
from ._depth import (
    BlockGap as BlockGap,
    BlockGapCubed as BlockGapCubed,
    BlockSummary as BlockSummary,
    ReadoutKurtosis as ReadoutKurtosis,
    pair_gap as pair_gap,
)
from ._law import (
    Density as Density,
    DistanceTo as DistanceTo,
    Moment as Moment,
    Quantiles as Quantiles,
    named as named,
)
from ._measure import KINDS as KINDS, Measure as Measure, Trial as Trial, Variable as Variable
from ._regression import (
    Baselines as Baselines,
    Basins as Basins,
    Descent as Descent,
    Landscape as Landscape,
    Phases as Phases,
    Risk as Risk,
    Simulation as Simulation,
    StationaryPoints as StationaryPoints,
)
from ._samples import KernelEstimate as KernelEstimate, KernelFloor as KernelFloor, Outputs as Outputs
from ._scores import ScoreLaw as ScoreLaw, Scores as Scores

MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (
        Moment("variance"),
        Moment("kurtosis"),
        Quantiles(),
        Density(),
        *(DistanceTo(distance, target) for target in TARGETS for distance in DISTANCES),
        Outputs(),
        *(kind(target) for target in TARGETS for kind in (KernelEstimate, KernelFloor)),
        *map(BlockSummary, ("variance", "kurtosis", "cosine", "effective_rank", "entropy", "uniformity")),
        BlockGap(),
        BlockGapCubed(),
        Scores(),
        ScoreLaw(),
        Risk("risk"),
        Risk("mean_field_risk"),
        Risk("refined_risk"),
        Descent(),
        Simulation(),
        Landscape(),
        StationaryPoints(),
        Basins(),
        Baselines(),
    )
}
"""The measures that a study may name. They have their default options; those with others are objects or tables."""

GROUPS: dict[str, tuple[str, ...]] = {
    "moments": ("variance", "kurtosis"),
    "distances": tuple(DISTANCES),
    "trajectory": tuple(name for name, measure in MEASURES.items() if isinstance(measure, BlockSummary)),
    "risks": tuple(name for name, measure in MEASURES.items() if isinstance(measure, Risk)),
}
"""Names of several measures at once."""


def measure_of(plain: Any) -> Measure:
    """The measure that a name or a table describes.

    Example:
        >>> from limitlaw.experiments.measures import measure_of
        >>> measure_of("kl"), measure_of({"kind": "ReadoutKurtosis", "coefficients": [1, -1]}).coefficients
        (DistanceTo(distance='kl', target='limit'), (1.0, -1.0))
    """
    if isinstance(plain, Measure):
        return plain
    if isinstance(plain, str):
        return MEASURES[_known("measure", plain, MEASURES)]
    if not isinstance(plain, Mapping) or "kind" not in plain:
        raise ArgumentTypeError(
            "measure",
            f"measure lists {plain!r}. Every entry must be a name such as 'kl', a Measure, or a table with its kind.",
        )
    options = dict(plain)
    known = {name: kind for name, kind in KINDS.items() if not inspect.isabstract(kind)}
    kind = known[_known("kind", options.pop("kind"), known)]
    _checks.known_keys(kind.__name__, options, inspect.signature(kind).parameters)
    return kind(**options)


def measures_of(given: Any, of: str) -> tuple[Measure, ...]:
    """The measures that a study lists: groups are written out, and each stands once.

    Args:
        given: A list of names, measures and tables.
        of: What the study is about, "network" or "problem".

    Raises:
        ArgumentError: If one is not known, or is a measure of something else, or two have equal variables.
    """
    if isinstance(given, str | Mapping) or not isinstance(given, list | tuple) or not given:
        raise ArgumentError("measure", f"measure={given!r} must be a list such as ['moments', 'kl'].")
    named = [name for name, measure in MEASURES.items() if measure.of == of]
    groups = [name for name, members in GROUPS.items() if set(members) <= set(named)]
    found: dict[str, Measure] = {}
    for entry in given:
        if isinstance(entry, str):
            _known("measure", entry, (*groups, *named))
        for part in GROUPS[entry] if isinstance(entry, str) and entry in groups else (entry,):
            measure = measure_of(part)
            if measure.of != of:
                raise ArgumentError(
                    "measure", f"measure={measure.name!r} is of a {measure.of}, but the study is about a {of}."
                )
            if found.setdefault(measure.name, measure) != measure:
                raise ArgumentError(
                    "measure", f"measure lists two that are called {measure.name!r}. Give one of them another name."
                )
    return tuple(found.values())


def _known(argument: str, name: Any, known: Iterable[str]) -> str:
    """A name, refused if it is not known, with the nearest one that is: there are too many to list them all."""
    names = list(known)
    if name not in names:
        raise ArgumentError(argument, f"{argument}={name!r} is not known. {_checks.suggestion(name, names)}")
    return name

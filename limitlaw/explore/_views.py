"""The views of the explorer: what each is called, what it is asked, and what it shows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .._checks import ArgumentError
from . import _depth, _layer, _regression
from ._jobs import Report
from ._panels import Panel
from ._state import State, blaming


@dataclass(frozen=True)
class Part:
    """One figure or table of a view; a `sketch` of it comes sooner, where there is one: for some states there may be none."""

    title: str
    make: Callable[[Any, Report], Panel]
    sketch: Callable[[Any, Report], Panel | None] | None = None


@dataclass(frozen=True)
class View:
    """A page of the explorer: a state, and the parts that show it, in the order in which they are computed.

    Example:
        >>> from limitlaw.explore import VIEWS
        >>> view = VIEWS["layer"]
        >>> state = view.state.parse({"width": "inf", "heads": "1"})
        >>> [curve["name"] for curve in view.answer("density", state)["curves"]]
        ['limit', 'infinite heads', 'Gaussian, same variance']
    """

    title: str
    summary: str
    state: type[State]
    parts: Mapping[str, Part]
    code: Callable[[Any], str]
    compiles: bool = True  # whether a first answer waits for programs

    @property
    def sketched(self) -> tuple[str, ...]:
        """The parts that have a sketch."""
        return tuple(name for name, part in self.parts.items() if part.sketch)

    def answer(self, part: str, state: State, report: Report = lambda done: None) -> Panel:
        """What a part shows."""
        with blaming(state):
            return self.parts[part].make(state, report)

    def sketch(self, part: str, state: State, report: Report = lambda done: None) -> Panel | None:
        """What a part shows until its answer is there; None where the answer is as good as a sketch."""
        make = self.parts[part].sketch
        if make is None:
            raise ArgumentError("part", f"part={part!r} has no sketch. Use one of {self.sketched}.")
        with blaming(state):
            return make(state, report)

    def python(self, state: State) -> str:
        """The code that makes the numbers of a state."""
        with blaming(state):
            return self.code(state)


VIEWS: Mapping[str, View] = {
    "layer": View(
        "Layer",
        "The output of one attention layer over random weights: its law at a width, and in the limits.",
        _layer.Layer,
        {
            "density": Part("Density of the output", _layer.density, _layer.sketch),
            "mixing": Part("Mixing law of the variance", _layer.mixing),
            "comparison": Part("Moments, quantiles, distances", _layer.comparison),
            "scores": Part("Law of a score", _layer.scores),
            "convergence": Part("Convergence in width", _layer.study),
        },
        _layer.python,
    ),
    "depth": View(
        "Depth",
        "A deep network over random weights, block by block: an own block, or a known model before training.",
        _depth.Depth,
        {
            "variance": Part("Variance", _depth.variance, _depth.variance.sketch),
            "kurtosis": Part("Excess kurtosis", _depth.kurtosis, _depth.kurtosis.sketch),
            "cosine": Part("Cosine between tokens", _depth.cosine, _depth.cosine.sketch),
            "entropy": Part("Entropy of attention", _depth.entropy, _depth.entropy.sketch),
            "law": Part("Law after a block", _depth.law),
            "remarks": Part("What stands out", _depth.remarks),
        },
        _depth.python,
    ),
    "regression": View(
        "Single location",
        "One of L tokens carries the label, and softmax attention has to find it: exact risks beside the mean field.",
        _regression.Regression,
        {
            "landscape": Part("Risk over the overlaps", _regression.landscape, _regression.landscape_sketch),
            "descent": Part("Risk along descent", _regression.descent, _regression.descent_sketch),
            "phases": Part("Phase diagram", _regression.phases, _regression.phases_sketch),
            "baselines": Part("Baselines as L grows", _regression.baselines, _regression.baselines_sketch),
        },
        _regression.python,
        compiles=False,
    ),
}
"""Every view by its name in the URL."""

"""The views of the explorer: what each is called, what it asks for, and what it shows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import _depth, _layer, _regression
from ._panels import Panel
from ._state import State


@dataclass(frozen=True)
class Part:
    """One figure, table or text of a view.

    Args:
        title: Its heading.
        make: Computes what it shows, from a state.
        first: Computes something simpler that comes sooner, or None where the answer itself comes soon.
        logarithmic: Whether its y axis is logarithmic at first.
        wide: Whether it takes the whole width of the page.

    Example:
        >>> from limitlaw.explore import VIEWS
        >>> part = VIEWS["regression"].parts["descent"]
        >>> part.title, part.first is None
        ('Risk along gradient descent', True)
    """

    title: str
    make: Callable[[Any], Panel]
    first: Callable[[Any], Panel | None] | None = None
    logarithmic: bool = False
    wide: bool = False


@dataclass(frozen=True)
class View:
    """A page of the explorer.

    Args:
        title: Its name.
        summary: A sentence that says what it shows.
        state: The kind of its states.
        parts: The parts, in the order in which they are shown and computed.
        python: The code that makes the numbers of a state.
        presets: States worth a look, by their names.

    Example:
        >>> from limitlaw.explore import VIEWS
        >>> view = VIEWS["layer"]
        >>> state = view.state.parse({"width": "inf"})
        >>> [curve["name"] for curve in view.parts["density"].make(state)["curves"]]
        ['this layer (infinite width)', 'infinite width, ∞ heads', 'Gaussian, same variance']
    """

    title: str
    summary: str
    state: type[State]
    parts: Mapping[str, Part]
    python: Callable[[Any], str]
    presets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


VIEWS: Mapping[str, View] = {
    "layer": View(
        "Attention layer",
        "How is one output of an attention layer distributed over its random weights?",
        _layer.Layer,
        {
            "remarks": Part("What stands out", _layer.remarks, wide=True),
            "density": Part("Density of the output", _layer.density, _layer.limits, logarithmic=True),
            "mixing": Part("Variance given the scores", _layer.mixing),
            "scores": Part("Density of a score", _layer.scores),
            "convergence": Part("Distance from the limit, by width", _layer.study),
            "comparison": Part("Moments, quantiles and distances", _layer.comparison, wide=True),
        },
        _layer.python,
        {
            "single head": {},
            "many heads": {"heads": "64"},
            "causal first token": {"mask": "causal", "width": "64"},
            "narrow": {"width": "4"},
        },
    ),
    "depth": View(
        "Deep network",
        "What happens to variance, tails, tokens and attention from block to block, before training?",
        _depth.Depth,
        {
            "remarks": Part("What stands out", _depth.remarks, wide=True),
            "cosine": Part("Cosine between tokens", _depth.cosine, _depth.cosine.first),
            "variance": Part("Variance", _depth.variance, _depth.variance.first),
            "kurtosis": Part("Excess kurtosis", _depth.kurtosis, _depth.kurtosis.first),
            "entropy": Part("Entropy of attention", _depth.entropy, _depth.entropy.first),
            "law": Part("Density after a block", _depth.law, logarithmic=True, wide=True),
        },
        _depth.python,
        {
            "pre-norm": {},
            "attention alone": {"mlp": "none", "norm": "none", "skip": "0.0"},
            "post-norm": {"norm": "post"},
            "GPT-2": {"model": "gpt2", "width": "192"},
        },
    ),
    "regression": View(
        "Token retrieval",
        "Single-location regression: one of L tokens carries the label. Does softmax attention find it?",
        _regression.Regression,
        {
            "remarks": Part("What stands out", _regression.remarks, wide=True),
            "landscape": Part("Risk over the overlaps", _regression.landscape, _regression.coarse_landscape, wide=True),
            "descent": Part("Risk along gradient descent", _regression.descent),
            "phases": Part("Phase diagram", _regression.phases, _regression.coarse_phases),
            "baselines": Part(
                "Other predictors, by number of tokens", _regression.baselines, _regression.quick_baselines, wide=True
            ),
        },
        _regression.python,
        {
            "found": {},
            "plateau": {"mu": "0.05"},
            "many tokens": {"tokens": "100000"},
            "ReLU link": {"link": "relu"},
        },
    ),
}
"""Every view by its name in the address."""

"""Softmax attention beside other predictors of the linear link, all with the true directions: one table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import _arguments, _html
from . import _baselines
from ._links import Linear
from ._tables import MOST_SCALE

if TYPE_CHECKING:
    from ._problem import Problem

_HARD = 8000.0


@dataclass(frozen=True)
class Baselines(Mapping[str, float]):
    """Excess risks by name; `settings` says at which parameter an optimised one was reached.

    !!! Example

        >>> from limitlaw import slr
        >>> table = slr.Problem(dim=20, tokens=20, gamma=0.8).baselines()
        >>> round(table["zero"], 9), min(table, key=table.get)  # predicting zero misses gamma^2
        (0.64, 'bayes_full')
        >>> table["bayes_projections"] < table["softmax_best"] < table["softmax"]
        True
    """

    risks: dict[str, float]
    settings: dict[str, str]

    def __getitem__(self, name: str) -> float:
        return self.risks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.risks)

    def __len__(self) -> int:
        return len(self.risks)

    def __str__(self) -> str:
        width = max(map(len, ("predictor", *self.risks))) + 2
        rows = (
            f"{name:<{width}}{risk:<12.5g}{self.settings.get(name, '')}".rstrip() for name, risk in self.risks.items()
        )
        return "\n".join([f"{'predictor':<{width}}excess risk", *rows])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(name, f"{risk:.5g}", self.settings.get(name, "")) for name, risk in self.risks.items()]
        return _html.table(("predictor", "excess risk", ""), rows)


def compare_with_baselines(problem: Problem, names: tuple[str, ...]) -> Baselines:
    """Predictors at the oracle: those of these names, or all."""
    if not isinstance(problem.link, Linear):
        raise ValueError(f"link={problem.link.name!r}: the baselines are those of the linear link; use link='linear'.")
    gamma, signal, others = problem.gamma, problem.signal, problem.log_others
    # beyond this scale attention at the oracle is as hard as it gets, and tables are large
    hardest = min(MOST_SCALE, _HARD / (signal + 9 * gamma)) / math.sqrt(problem.dim)

    def softmax(beta: float) -> float:
        return problem.changed(beta=min(beta, hardest)).risk(1.0, 1.0)

    def at_best(symbol: str, risk: float, parameter: float) -> tuple[float, str]:
        return risk, f"{symbol} = {parameter:.4g}"

    predictors: dict[str, Callable[[], tuple[float, str]]] = {
        "zero": lambda: (_baselines.zero(gamma), ""),
        "linear": lambda: (_baselines.best_linear(gamma, others), ""),
        "linear_attention": lambda: (_baselines.linear_attention(gamma, signal, others), ""),
        "erf_best": lambda: at_best("lambda", *_baselines.erf_gate(gamma, signal, others)),
        "best_pointwise": lambda: (_baselines.best_pointwise_gate(gamma, signal, others), ""),
        "softmax": lambda: (problem.risk(1.0, 1.0), f"beta = {problem.beta:g}"),
        "softmax_best": lambda: at_best("beta", *_baselines.softmax_best(softmax)),
        "bayes_projections": lambda: (_baselines.bayes(gamma, signal, others, 2), ""),
        "bayes_full": lambda: (_baselines.bayes(gamma, signal, others, problem.dim), ""),
    }
    for name in names:
        _arguments.one_of("baseline", name, predictors)
    found = {name: predictors[name]() for name in names or predictors}
    risks = {name: risk for name, (risk, _) in found.items()}
    return Baselines(risks, {name: setting for name, (_, setting) in found.items() if setting})

"""Softmax attention and other predictors of the linear link, all with the true directions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .. import _progress
from .._checks import ArgumentError, ArgumentTypeError, boolean, one_of
from .._format import Column, Table
from . import _predictors
from ._links import Linear
from ._tables import MOST_SCALE
from ._tabular import Tabular

if TYPE_CHECKING:
    import pandas as pd

    from ._problem import Problem

_HARDEST = 8000.0  # score scale times the largest score: attention is an argmax there, and tables take 0.7 GiB

BASELINES = {
    "zero": "zero",
    "linear": "best linear",
    "linear_attention": "linear attention",
    "erf_best": "erf gate, best slope",
    "best_pointwise": "best pointwise gate",
    "softmax": "softmax",
    "softmax_best": "softmax, best beta",
    "bayes_projections": "Bayes, projections",
    "bayes_full": "Bayes, whole tokens",
}
"""The predictors by the names that `baselines` takes, as tables print them."""


@dataclass(frozen=True, repr=False)
class Baselines(Tabular, Mapping[str, float]):
    """Excess risks by the names in `BASELINES`.

    Attributes:
        risks: The excess risks.
        settings: The parameter at which an optimised predictor is best, and the one of softmax attention, as text.

    Example:
        >>> from limitlaw import slr
        >>> table = slr.baselines(slr.Problem(dim=20, tokens=20, gamma=0.8))
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

    def table(self) -> Table:
        """The predictors as people call them, their risks, and their settings."""
        rows = [(BASELINES[name], risk, self.settings.get(name)) for name, risk in self.risks.items()]
        return Table(("predictor", Column("excess risk", digits=5, one_quantity=False), ""), rows)

    def to_pandas(self) -> pd.DataFrame:
        """A row for each predictor, by its name."""
        import pandas as pd

        columns = {
            "predictor": [BASELINES[name] for name in self.risks],
            "risk": list(self.risks.values()),
            "setting": [self.settings.get(name, "") for name in self.risks],
        }
        return pd.DataFrame(columns, index=pd.Index(list(self.risks), name="name"))


def baselines(problem: Problem, *names: str, progress: bool = True) -> Baselines:
    """The excess risks of softmax attention and of other predictors of the linear link, all with the true directions.

    Args:
        problem: A problem with the linear link.
        *names: Names in `BASELINES`, by default all. "softmax_best", attention at its best temperature, takes most of
            the time.
        progress: Whether to show a progress bar, on a terminal or in a notebook, after two seconds.

    Returns:
        A table, which is a mapping from names to risks.

    Raises:
        ArgumentError: If the link is not linear, or a name is unknown.

    Example:
        >>> from limitlaw import slr
        >>> print(slr.baselines(slr.Problem(dim=20, tokens=20, gamma=0.8)))
        predictor              excess risk
        ────────────────────────────────────────────────────
        zero                       0.64000
        best linear                0.61914
        linear attention           0.50350
        erf gate, best slope       0.51869   lambda = 0.0626
        best pointwise gate        0.28631
        softmax                    0.22283   beta = 1
        softmax, best beta         0.20878   beta = 0.6063
        Bayes, projections         0.19468
        Bayes, whole tokens        0.13234
    """
    _check_linear(problem, "baselines")
    for name in names:
        one_of("baseline", name, BASELINES)
    gamma, signal, others = problem.gamma, problem.signal, problem.log_others
    # beyond this scale attention at the oracle is an argmax, and tables are large
    hardest = min(MOST_SCALE, _HARDEST / (signal + 9 * gamma)) / math.sqrt(problem.dim)

    def softmax(beta: float) -> float:
        return problem.changed(beta=min(beta, hardest)).risk(1.0, 1.0)

    def at_best(symbol: str, risk: float, parameter: float) -> tuple[float, str]:
        return risk, f"{symbol} = {parameter:.4g}"

    predictors: dict[str, Callable[[], tuple[float, str]]] = {
        "zero": lambda: (_predictors.zero(gamma), ""),
        "linear": lambda: (_predictors.best_linear(gamma, others), ""),
        "linear_attention": lambda: (_predictors.linear_attention(gamma, signal, others), ""),
        "erf_best": lambda: at_best("lambda", *_predictors.erf_gate(gamma, signal, others)),
        "best_pointwise": lambda: (_predictors.best_pointwise_gate(gamma, signal, others), ""),
        "softmax": lambda: (problem.risk(1.0, 1.0), f"beta = {problem.beta:g}"),
        "softmax_best": lambda: at_best("beta", *_predictors.softmax_best(softmax)),
        "bayes_projections": lambda: (_predictors.bayes(gamma, signal, others, 2), ""),
        "bayes_full": lambda: (_predictors.bayes(gamma, signal, others, problem.dim), ""),
    }
    chosen, found = names or tuple(predictors), {}
    with _progress.task("Comparing predictors", len(chosen), show=boolean("progress", progress)) as bar:
        for name in chosen:
            found[name] = predictors[name]()
            bar.advance()
    risks = {name: risk for name, (risk, _) in found.items()}
    return Baselines(risks, {name: setting for name, (_, setting) in found.items() if setting})


def gated_risk(
    problem: Problem,
    gate: Callable[[np.ndarray], np.ndarray],
    mu: float = 1.0,
    nu: float = 1.0,
    eta: float = 0.0,
    zeta: float = 0.0,
    rho: float = 0.0,
) -> float:
    """The excess risk of `f = sum_l gate(x_l . u) x_l . v` for the linear link: each token is gated by its own score.

    Args:
        problem: A problem with the linear link.
        gate: A function of an array of scores.
        mu: `u . u_*`, a number, as are all overlaps.
        nu: `v . v_*`.
        eta: `u . v_*`.
        zeta: `v . u_*`.
        rho: `u . v`.

    Returns:
        The excess risk.

    Raises:
        ArgumentError: If the link is not linear, or the overlaps are impossible or no numbers.

    Example:
        >>> from scipy.special import erf
        >>> from limitlaw import slr
        >>> problem = slr.Problem(dim=100, tokens=20, gamma=0.5)
        >>> round(slr.gated_risk(problem, lambda h: erf(0.1 * h)), 6), round(slr.baselines(problem)["erf_best"], 6)
        (0.249667, 0.133128)
    """
    _check_linear(problem, "gated_risk")
    if not callable(gate):
        raise ArgumentTypeError("gate", f"gate={gate!r} must be a function of an array.")
    overlaps = problem.overlaps(mu, nu, eta, zeta, rho)
    if overlaps.ndim > 1:
        raise ArgumentError("overlaps", f"overlaps have shape {overlaps.shape[:-1]}. gated_risk takes numbers.")
    return _predictors.gate_risk(gate, overlaps.tolist(), problem.gamma, problem.signal, problem.log_others)


def _check_linear(problem: Problem, function: str) -> None:
    if not isinstance(problem.link, Linear):
        raise ArgumentError(
            "link", f"link={problem.link.name!r} has no {function}, which need the linear link. Use link='linear'."
        )

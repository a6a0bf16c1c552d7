"""Which landscape a problem has."""

from __future__ import annotations

from math import isinf
from typing import TYPE_CHECKING

from ..._checks import ArgumentError, non_negative, one_of
from .._links import Linear
from .._tables import Setting
from ._base import Landscape
from ._closed import SingleToken, UniformAttention
from ._general import GeneralRisk
from ._linear import LinearRisk
from ._mean_field import MeanFieldRisk, Noise

if TYPE_CHECKING:
    from .._problem import Problem

_METHODS = ("exact", "mean-field")


def landscape(problem: Problem, method: str, alpha: float | None) -> Landscape:
    """The risk of a problem as a function of the overlaps, by a method that has a gradient."""
    one_of("method", method, _METHODS)
    if method == "mean-field":
        return mean_field_risk(problem, alpha)
    if alpha is not None:
        raise ArgumentError(
            "alpha",
            f"alpha={alpha!r} has no effect with method='exact', which uses the number of tokens. "
            f"Use method='mean-field', or leave alpha out.",
        )
    return exact_risk(problem)


def exact_risk(problem: Problem) -> Landscape:
    """The risk at the dimension and the number of tokens of the problem."""
    if isinf(problem.log_others):
        return SingleToken(problem.link, problem.signal, problem.gamma)
    if problem.beta == 0:
        return UniformAttention(problem.link, problem.signal, problem.gamma, problem.log_others)
    setting = setting_of(problem)
    return LinearRisk(setting) if isinstance(problem.link, Linear) else GeneralRisk(setting, problem.link)


def mean_field_risk(problem: Problem, alpha: float | None) -> MeanFieldRisk:
    """The paper's risk, at another `alpha` than `log L / d` if one is given."""
    noise = limiting_noise(problem, alpha)
    return MeanFieldRisk(problem.link, problem.dim, problem.signal, problem.scale, problem.gamma, noise)


def limiting_noise(problem: Problem, alpha: float | None) -> Noise:
    """The noise tokens as `d` tends to infinity."""
    if problem.beta == 0:
        raise ArgumentError(
            "beta", "beta=0 makes attention uniform, so there are no phases and no mean-field limit. Give beta > 0."
        )
    alpha = problem.alpha if alpha is None else non_negative("alpha", alpha)
    return Noise.limit(problem.beta, alpha, problem.dim)


def setting_of(problem: Problem) -> Setting:
    """The numbers that the tables of a problem depend on."""
    return Setting(problem.scale, problem.signal, problem.gamma, problem.log_others)

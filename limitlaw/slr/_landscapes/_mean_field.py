"""The mean field: a random energy model of the scores, the paper's risk, and the limit of the exact risk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, ndtr

from ..._checks import non_negative
from .._links import Link
from ._base import Landscape


def free_energy(beta: float, alpha: float) -> float:
    """The free energy of the noise tokens, a random energy model.

    `phi = lim log(sum of exp(beta sqrt(d) x . u) over e^(alpha d) noise tokens) / d`, which is `alpha + beta^2 / 2`, or
    `beta sqrt(2 alpha)` where the model is frozen, `beta > sqrt(2 alpha)`.

    Args:
        beta: The normalised inverse temperature, at least 0.
        alpha: `log(number of tokens) / d`, at least 0.

    Returns:
        `phi`.

    Raises:
        ArgumentError: If one of them is negative or not finite.

    Example:
        >>> from limitlaw import slr
        >>> slr.free_energy(1.0, alpha=0.02), slr.free_energy(0.1, alpha=0.02)
        (0.2, 0.025)
    """
    beta, alpha = non_negative("beta", beta), non_negative("alpha", alpha)
    critical = np.sqrt(2 * alpha)
    return float(alpha + beta**2 / 2 if beta <= critical else beta * critical)


def phase_of(level: ArrayLike, critical: ArrayLike) -> np.ndarray:
    """The names of phases.

    "retrieval" where `level = c mu - psi` is positive; else "frozen" where `critical = beta - sqrt(2 alpha)` is not
    negative, and "paramagnetic" where it is. One token, a few wrong ones, or many tokens carry the attention.
    """
    return np.where(np.asarray(level) > 0, "retrieval", np.where(np.asarray(critical) < 0, "paramagnetic", "frozen"))


@dataclass(frozen=True)
class Noise:
    """The noise tokens as a head that misses the signal attends to them.

    Attributes:
        psi: The level that a signal must exceed.
        field: The mean `r sqrt(d)` of `x . u` over the attended tokens.
        spread: The variance of `x . u` over the attended tokens.
        participation: `sum q^2`.
    """

    psi: float
    field: float
    spread: float
    participation: float

    @classmethod
    def limit(cls, beta: float, alpha: float, dim: int) -> Noise:
        """As `d` tends to infinity with `e^(alpha d)` tokens."""
        critical = float(np.sqrt(2 * alpha))
        r = min(beta, critical)
        return cls(free_energy(beta, alpha) / beta, r * float(np.sqrt(dim)), float(beta < critical), 1 - r / beta)


class MeanFieldRisk(Landscape):
    """The paper's Proposition 1 (Corollary 1 for the linear link).

    With `a = m zeta`, `k = sigma(rho r sqrt(d))` and `G_1, G_2` standard normals of correlation `nu`,

        R = p^2 E(sigma(a + gamma G_1) - k)^2 - 2 p E(sigma(a + gamma G_1) - k)(sigma(gamma G_2) - k)
            + E(sigma(gamma G) - k)^2,
        p = 1 / (1 + exp(-(c mu - psi) beta d)).
    """

    def __init__(self, link: Link, dim: int, signal: float, scale: float, gamma: float, noise: Noise) -> None:
        self._link, self._dim, self._signal, self._scale, self._gamma, self._noise = (
            link, dim, signal, scale, gamma, noise,
        )  # fmt: skip

    def logit(self, mu: np.ndarray) -> np.ndarray:
        """`(c mu - psi) beta d`, of which `p` is the logistic function."""
        return self._scale * (self._signal * mu - self._noise.psi * np.sqrt(self._dim))

    def inverse_logit(self, value: float) -> float:
        """The `mu` at which `logit` takes a value."""
        return (value / self._scale + self._noise.psi * float(np.sqrt(self._dim))) / self._signal

    def probabilities(self, mu: float) -> tuple[float, float, float]:
        """`p`, `1 - p` with its own digits, and `dp / dmu`."""
        x = float(self.logit(np.array(mu)))
        p, missed = float(expit(x)), float(expit(-x))
        return p, missed, p * missed * self._scale * self._signal

    def risk(self, overlaps: np.ndarray) -> np.ndarray:
        return self.risk_and_gradient(overlaps)[0]

    def risk_and_gradient(self, overlaps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mu, nu, _, zeta, rho = overlaps.T
        m, gamma, link = self._signal, self._gamma, self._link
        zero, v = np.zeros_like(mu), np.full_like(mu, gamma**2)
        p, missed = expit(self.logit(mu)), expit(-self.logit(mu))
        field = rho * self._noise.field
        k, slope = link(field), link.slope(field)
        first, second = link.mean(m * zeta, v), link.mean(zero, v)
        square, own = link.square(m * zeta, v), link.square(zero, v)
        both = link.product(m * zeta, v, zero, v, gamma**2 * nu)
        gap = link.gap(m * zeta, v, zero, v, gamma**2 * nu, both=both)[0]
        signal, rest = square[0] - 2 * k * first[0] + k**2, own[0] - 2 * k * second[0] + k**2
        shared = (signal + rest - gap) / 2
        risk = p * gap + missed * (rest - p * signal)  # the same, and nothing cancels where p is nearly 1
        by_k = 2 * (p**2 * (k - first[0]) - p * (2 * k - first[0] - second[0]) + k - second[0])
        gradient = np.stack(
            [
                2 * p * missed * self._scale * m * (p * signal - shared),
                -2 * p * gamma**2 * both[5],
                zero,
                m * (p**2 * (square[1] - 2 * k * first[1]) - 2 * p * (both[1] - k * first[1])),
                self._noise.field * slope * by_k,
            ],
            axis=1,
        )
        return risk, gradient


def refined_risk(link: Link, overlaps: np.ndarray, dim: int, signal: float, gamma: float, noise: Noise) -> np.ndarray:
    """The limit of the exact risk, a mixture over whether the head finds the signal.

    The signal's own score fluctuates, so that it is found with probability `P = Phi((m mu - psi sqrt(d)) / gamma)`. A
    head that misses it follows wrong tokens, a few of them when frozen, and has the risk

        E(sigma(gamma G) - n)^2 + Y Var sigma(V),   n = E sigma(V),

    where the value `V` of an attended token has mean `rho field` and variance `1 - rho^2 + rho^2 spread`.
    """
    mu, nu, _, zeta, rho = overlaps.T
    zero, v = np.zeros_like(mu), np.full_like(mu, gamma**2)
    found = ndtr((signal * mu - noise.psi * np.sqrt(dim)) / gamma)
    hit = link.gap(signal * zeta, v, zero, v, gamma**2 * nu)[0]
    value, square = (
        moment(rho * noise.field, 1 - rho**2 * (1 - noise.spread))[0] for moment in (link.mean, link.square)
    )
    own_mean, own_square = link.mean(zero, v)[0], link.square(zero, v)[0]
    miss = own_square - 2 * own_mean * value + value**2 + noise.participation * (square - value**2)
    return found * hit + (1 - found) * miss

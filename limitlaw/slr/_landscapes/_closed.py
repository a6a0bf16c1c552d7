"""Risks in closed form: one token, and uniform attention."""

import numpy as np

from .._links import Link
from ._base import Landscape

_MANY = 30.0  # log N from which N / L is 1 to rounding


class SingleToken(Landscape):
    """One token, which has all the attention: `R = E (sigma(A) - sigma(B))^2`, `A = x . v`, `B = x . v_*`."""

    def __init__(self, link: Link, signal: float, gamma: float) -> None:
        self._link, self._signal, self._gamma = link, signal, gamma

    def risk(self, overlaps: np.ndarray) -> np.ndarray:
        return self.risk_and_gradient(overlaps)[0]

    def risk_and_gradient(self, overlaps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        _, nu, _, zeta, _ = overlaps.T
        zero, v = np.zeros_like(nu), np.full_like(nu, self._gamma**2)
        gap = self._link.gap(self._signal * zeta, v, zero, v, self._gamma**2 * nu)
        gradient = np.stack([zero, self._gamma**2 * gap[5], zero, self._signal * gap[1], zero], axis=1)
        return gap[0], gradient


class UniformAttention(Landscape):
    """`beta = 0`: every token has weight `1/L`, and the error is `(sigma(A) + sum of N values) / L - sigma(B)`."""

    def __init__(self, link: Link, signal: float, gamma: float, log_others: float) -> None:
        self._link, self._signal, self._gamma = link, signal, gamma
        self._weight = float(np.exp(-np.logaddexp(log_others, 0.0)))  # 1 / L
        self._rest = 1 - self._weight if log_others < _MANY else 1.0  # N / L

    def risk(self, overlaps: np.ndarray) -> np.ndarray:
        return self.risk_and_gradient(overlaps)[0]

    def risk_and_gradient(self, overlaps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        _, nu, _, zeta, _ = overlaps.T
        w, rest, link = self._weight, self._rest, self._link
        zero, v = np.zeros_like(nu), np.full_like(nu, self._gamma**2)
        a = self._signal * zeta
        first, second, square, own = link.mean(a, v), link.mean(zero, v), link.square(a, v), link.square(zero, v)
        both = link.product(a, v, zero, v, self._gamma**2 * nu)
        value, value_square = link.mean(zero, zero + 1)[0], link.square(zero, zero + 1)[0]
        risk = (
            w**2 * square[0] - 2 * w * both[0] + own[0]
            + 2 * rest * value * (w * first[0] - second[0])
            + rest * w * (value_square - value**2) + (rest * value) ** 2
        )  # fmt: skip
        by_a = w**2 * square[1] - 2 * w * both[1] + 2 * rest * value * w * first[1]
        gradient = np.stack([zero, -2 * w * self._gamma**2 * both[5], zero, self._signal * by_a, zero], axis=1)
        return risk, gradient

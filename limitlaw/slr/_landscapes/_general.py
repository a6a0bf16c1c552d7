"""The exact risk of any link."""

import numpy as np

from .._links import Link
from .._tables import Setting, Tables, tables_of
from ._base import Landscape

_LEAST_WEIGHT = 1e-30  # of a grid point in the average over the signal's noise: all below together are rounding


class GeneralRisk(Landscape):
    """Risk and gradient for any link.

    With `p` the weight of the signal, `A = x_1 . v`, `B = x_1 . v_*` and `H = sum q sigma(x . v)` over the others, the
    error of the predictor is `p (sigma(A) - sigma(B)) + H - (1 - p) sigma(B)`. Given the signal's noise `g` along `u`,
    `A` and `B` are Gaussian and independent of the weights, so that

        R = E[ p^2 (sA - sB)^2 + 2 p H (sA - sB) - 2 p (1 - p) (sA - sB) sB + H^2 - 2 (1 - p) H sB + (1 - p)^2 sB^2 ]

    is a sum of products: a table in the signal's score for each product of weights, times a Gaussian moment of the
    link. Where the predictor is good every term is small by itself, so nothing cancels.
    """

    def __init__(self, setting: Setting, link: Link) -> None:
        self._setting, self._link = setting, link
        self._tables = tables_of(setting)

    def risk(self, overlaps: np.ndarray) -> np.ndarray:
        """Excess risk at overlaps `(count, 5)`."""
        return np.array([self._at(*map(float, point), gradient=False)[0] for point in overlaps])

    def risk_and_gradient(self, overlaps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The risk, `(count,)`, and its derivatives in the five overlaps, `(count, 5)`."""
        inside = self._resolved(overlaps)
        found = [self._at(*map(float, point), gradient=True) for point in inside]
        risks, slopes = np.array([value for value, _ in found]), np.array([slope for _, slope in found]).reshape(-1, 5)
        moved = np.any(inside != overlaps, axis=1)
        risks[moved] = self.risk(overlaps[moved])
        return risks, slopes

    def _resolved(self, overlaps: np.ndarray) -> np.ndarray:
        """Overlaps a little inside `|rho| = 1` and `|eta| = 1`, where the grid resolves slopes of a link that bends."""
        if not self._link.bends:
            return overlaps
        spacing = max(self._tables.s_step / self._setting.gamma, self._tables.h[1] - self._tables.h[0])
        most = np.sqrt(1 - min(spacing, 0.1) ** 2)
        inside = overlaps.copy()
        inside[:, [2, 4]] = np.clip(inside[:, [2, 4]], -most, most)
        return inside

    def _at(
        self, mu: float, nu: float, eta: float, zeta: float, rho: float, *, gradient: bool
    ) -> tuple[float, np.ndarray]:
        m, gamma, link = self._setting.signal, self._setting.gamma, self._link
        (g,), (weight,) = self._tables.normal(np.array([mu]))
        alive = np.flatnonzero(weight > _LEAST_WEIGHT)
        g, weight = g[alive], weight[alive]
        weights, weights_mu = (table[:, alive] for table in self._tables.derived(_tables_of_weights))
        values, values_mu, values_rho = (
            table[:, alive] for table in self._tables.derived(_tables_of_values, link, rho)
        )

        one = np.ones_like(g)
        m1, v1 = m * zeta + gamma * rho * g, gamma**2 * (1 - rho**2) * one
        m2, v2 = gamma * eta * g, gamma**2 * (1 - eta**2) * one
        c = gamma**2 * (nu - rho * eta) * one
        product = link.product(m1, v1, m2, v2, c)
        gap = link.gap(m1, v1, m2, v2, c, both=product)
        first, second, own = link.mean(m1, v1), link.mean(m2, v2), link.square(m2, v2)

        def total(weights: np.ndarray, values: np.ndarray) -> float:
            """The risk, for these tables."""
            p2, pq, q2 = weights
            ph, h2, qh = values
            return float(
                weight @ (p2 * gap[0] + 2 * ph * (first[0] - second[0]) - 2 * pq * (product[0] - own[0]))
                + weight @ (h2 - 2 * qh * second[0] + q2 * own[0])
            )

        value = total(weights, values)
        if not gradient:
            return value, np.empty(0)

        p2, pq, q2 = weight * weights
        ph, _, qh = weight * values
        # derivatives in mean and variance of A, of B, and in their covariance, still functions of g
        by_m1 = p2 * gap[1] + 2 * ph * first[1] - 2 * pq * product[1]
        by_v1 = p2 * gap[2] + 2 * ph * first[2] - 2 * pq * product[2]
        by_m2 = p2 * gap[3] - 2 * (ph + qh) * second[1] - 2 * pq * (product[3] - own[1]) + q2 * own[1]
        by_v2 = p2 * gap[4] - 2 * (ph + qh) * second[2] - 2 * pq * (product[4] - own[2]) + q2 * own[2]
        by_c = p2 * gap[5] - 2 * pq * product[5]
        return value, np.array(
            [
                m * total(weights_mu, values_mu),
                gamma**2 * by_c.sum(),
                gamma * (by_m2 @ g) - 2 * gamma**2 * eta * by_v2.sum() - gamma**2 * rho * by_c.sum(),
                m * by_m1.sum(),
                gamma * (by_m1 @ g)
                - 2 * gamma**2 * rho * by_v1.sum()
                - gamma**2 * eta * by_c.sum()
                + total(np.zeros_like(weights), values_rho),
            ]
        )


def _tables_of_weights(t: Tables) -> tuple[np.ndarray, np.ndarray]:
    """Tables of `p^2`, `p (1 - p)` and `(1 - p)^2`, which serve every link, and their slopes in the signal's score."""
    one, same = t.one_other(np.ones_like(t.h)), t.same_other(np.ones_like(t.h))
    alone, with_one, with_two = t.cdf_power(0), t.with_one_other(one), same + t.with_two_others(one, one)
    return (
        np.stack([t.against(2, alone), t.against(1, with_one), t.against(0, with_two)]),
        np.stack([t.slope_against(2, alone), t.slope_against(1, with_one), t.slope_against(0, with_two)]),
    )


def _tables_of_values(t: Tables, link: Link, rho: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tables of `p H`, `H^2` and `(1 - p) H`, their slopes in the signal's score, and their derivatives in `rho`."""
    # given its score h, the value x . v of another token is Gaussian with mean rho h and variance 1 - rho^2
    m, v = rho * t.h, np.full_like(t.h, 1 - rho**2)
    first, second = link.mean(m, v), link.square(m, v)
    by_rho = t.h * first[1] - 2 * rho * first[2], t.h * second[1] - 2 * rho * second[2]
    ones = t.one_other(np.ones_like(t.h))
    h, h_rho = t.one_other(np.stack([first[0], by_rho[0]]))
    h_same, h_same_rho, square, square_rho = t.same_other(np.stack([first[0], by_rho[0], second[0], by_rho[1]]))
    with_signal = t.with_one_other(np.stack([h, h_rho]))
    among_others = np.stack(
        [
            square + t.with_two_others(h, h),
            h_same + t.with_two_others(ones, h),
            square_rho + 2 * t.with_two_others(h, h_rho),
            h_same_rho + t.with_two_others(ones, h_rho),
        ]
    )
    ph, ph_rho = t.against(1, with_signal)
    h2, qh, h2_rho, qh_rho = t.against(0, among_others)
    slopes = t.slope_against(1, with_signal[0]), *t.slope_against(0, among_others[:2])
    return np.stack([ph, h2, qh]), np.stack(slopes), np.stack([ph_rho, h2_rho, qh_rho])

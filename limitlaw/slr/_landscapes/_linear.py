"""The exact risk of the linear link: a polynomial in the overlaps whose coefficients depend on `mu` alone."""

import numpy as np

from .._tables import Setting, Tables, tables_of
from ._base import Landscape

_CHUNK = 2**21  # weights at a time, 16 MiB: a grid of overlaps times the grid of scores would not fit into memory


class LinearRisk(Landscape):
    """Risk and gradient for the linear link.

    With `p` the weight of the signal, `q` those of the others, `H = sum q h`, `Q = sum q^2`, `D = (1 - p)^2`, and
    brackets for averages with powers of the signal's noise `g`,

        R = gamma^2 [D] + 2 gamma^2 (1 - nu) [p] + m^2 zeta^2 [p^2] + 2 gamma m rho zeta [g p^2]
            + gamma^2 rho^2 [(g^2 - 1) p^2] + rho^2 [H^2] + (1 - rho^2) [Q] + 2 rho (m zeta [p H] + gamma rho [g p H])
            - 2 gamma eta (m zeta [g p] + gamma rho [(g^2 - 1) p] + rho [g H]).
    """

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._tables = tables_of(setting)

    def moments(self, mu: np.ndarray) -> np.ndarray:
        """Averages of `g^k` times the columns: shape (len(mu), 4, 7), k from 0 to 3."""
        columns = self._tables.derived(_columns)
        out = np.empty((mu.size, 4, 7))
        size = max(_CHUNK // self._tables.s.size, 1)
        for start in range(0, mu.size, size):
            part = slice(start, start + size)
            g, weight = self._tables.normal(mu[part])
            for k in range(4):
                out[part, k] = weight @ columns
                weight = weight * g
        return out

    def risk(self, overlaps: np.ndarray) -> np.ndarray:
        """Excess risk at overlaps `(count, 5)`."""
        return self._polynomial(self.moments(overlaps[:, 0]), overlaps)

    def risk_and_gradient(self, overlaps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The risk, `(count,)`, and its derivatives in the five overlaps, `(count, 5)`."""
        m, gamma = self._setting.signal, self._setting.gamma
        _, _, eta, zeta, rho = overlaps.T
        moments = self.moments(overlaps[:, 0])
        p, p2, _, q, h, ph, h2 = moments.transpose(2, 1, 0)
        # d/dmu E[g^k F(m mu + gamma g)] = (m / gamma) E[(g^(k+1) - k g^(k-1)) F]
        slopes = np.zeros_like(moments)
        slopes[:, 0] = moments[:, 1]
        slopes[:, 1] = moments[:, 2] - moments[:, 0]
        slopes[:, 2] = moments[:, 3] - 2 * moments[:, 1]
        gradient = np.stack(
            [
                m / gamma * self._polynomial(slopes, overlaps),
                -2 * gamma**2 * p[0],
                -2 * gamma * (m * zeta * p[1] + gamma * rho * (p[2] - p[0]) + rho * h[1]),
                2 * m * (m * zeta * p2[0] + gamma * rho * p2[1] + rho * ph[0] - gamma * eta * p[1]),
                2 * gamma * m * zeta * p2[1]
                + 2 * gamma**2 * rho * (p2[2] - p2[0])
                + 2 * rho * (h2[0] - q[0])
                + 2 * (m * zeta * ph[0] + 2 * gamma * rho * ph[1])
                - 2 * gamma * eta * (gamma * (p[2] - p[0]) + h[1]),
            ],
            axis=1,
        )
        return self._polynomial(moments, overlaps), gradient

    def _polynomial(self, moments: np.ndarray, overlaps: np.ndarray) -> np.ndarray:
        m, gamma = self._setting.signal, self._setting.gamma
        _, nu, eta, zeta, rho = overlaps.T
        p, p2, d, q, h, ph, h2 = moments.transpose(2, 1, 0)
        return (
            gamma**2 * d[0]
            + 2 * gamma**2 * (1 - nu) * p[0]
            + m**2 * zeta**2 * p2[0]
            + 2 * gamma * m * rho * zeta * p2[1]
            + gamma**2 * rho**2 * (p2[2] - p2[0])
            + rho**2 * h2[0]
            + (1 - rho**2) * q[0]
            + 2 * rho * (m * zeta * ph[0] + gamma * rho * ph[1])
            - 2 * gamma * eta * (m * zeta * p[1] + gamma * rho * (p[2] - p[0]) + rho * h[1])
        )


def _columns(t: Tables) -> np.ndarray:
    """`p, p^2, D, Q, H, pH, H^2` as functions of the signal's score, one column each."""
    one, h = t.one_other(np.stack([np.ones_like(t.h), t.h]))
    same, same_h2 = t.same_other(np.stack([np.ones_like(t.h), t.h**2]))
    alone, field = t.cdf_power(0), t.with_one_other(h)
    d, q, h, h2 = t.against(
        0, np.stack([same + t.with_two_others(one, one), same, field, same_h2 + t.with_two_others(h, h)])
    )
    return np.stack([t.against(1, alone), t.against(2, alone), d, q, h, t.against(1, field), h2], axis=1)

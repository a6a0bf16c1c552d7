"""Excess risks of predictors of the linear link that know the true directions.

One token is `N(m u*, gamma^2 I)`, the other `N = L - 1` are `N(0, I)`, and the label is `x . v*` of the first; `u*` and
`v*` are known and orthogonal. Everywhere `signal` is `m` and `log_others` is `log N`: `-inf` where there is one token
only; risks are formed in log space wherever `N` does not cancel, so that it may be e^600. `0 < gamma <= 1`.
"""

import functools
import math
from collections.abc import Callable, Iterable

import numpy as np
from numpy.polynomial import Polynomial
from scipy.special import gammaln, hyp0f1, log_expit, logsumexp, ndtr, owens_t

_DEPTH = 45.0  # exp(-45) is below rounding
_LARGEST = 700.0  # log N whose exponential is finite; with more tokens the risks that use it are gamma^2 to every digit
_GATE_STEP = 2.0**-9  # in standard deviations: resolves gates that rise within a hundredth of one
_KINK_STEP = 0.2  # in units of the distance over which a gate rises; the poles are pi of them away
_SMALL_GATE = 1e-6  # argument of erf below which it is linear: the next term is its square, below rounding
_SCAN = 0.02  # step in the logarithm of the slope of erf
_BETAS = 2.0 ** np.arange(-5, 3.25, 0.25)  # softmax risks cost more the larger beta is
_BETA_LIMITS = 2.0**-20, 2.0**5  # how far the scan is widened: beyond, attention is even or hard
_Y_STEP = 0.25  # the integrand is analytic within pi / 2 of the real axis: the error is exp(-pi^2 / step)
_Y_SLACK = 6.0  # exp(-kappa) is 1 or 0 to rounding this far above or below; half of it suffices upwards
_BLOCK = 64  # values of y that share a band of levels
_PANEL_RISE = 4.0  # in log-likelihood ratio over one panel of 16 Gauss-Legendre nodes
_DEBYE_FROM = 60.0
_DEBYE_TERMS = 10

_Averages = tuple[
    np.ndarray, np.ndarray, np.ndarray, np.ndarray
]  # E' exp(-kappa); E_0 of exp(-kappa), kappa exp(-kappa), 1 - exp(-kappa)


def zero(gamma: float) -> float:
    """The risk of predicting 0: `gamma^2`."""
    return gamma**2


def best_linear(gamma: float, log_others: float) -> float:
    """The least risk of a multiple of the sum of `x . v*`, `gamma^2 N / (N + gamma^2)`."""
    others = math.exp(min(log_others, _LARGEST))
    return gamma**2 * (others / (others + gamma**2))


def linear_attention(gamma: float, signal: float, log_others: float) -> float:
    """The least risk of the gate `a + b x . u*`.

    The minimum of `gamma^2 ((a + b m - 1)^2 + gamma^2 b^2) + N (a^2 + b^2)` is
    `gamma^2 / (1 + gamma^2 (1/N + m^2 / (N + gamma^4)))`.
    """
    others = math.exp(min(log_others, _LARGEST))
    gain = gamma**2 * (1 + signal**2 * others / (others + gamma**4))
    return gamma**2 * (others / (others + gain))


def gate_risk(
    gate: Callable[[np.ndarray], np.ndarray],
    overlaps: Iterable[float],
    gamma: float,
    signal: float,
    log_others: float,
) -> float:
    """The risk of `sum_l theta(x_l . u) x_l . v` at the overlaps `(mu, nu, eta, zeta, rho)` of unit vectors `u`, `v`.

    With `s = m mu + gamma g`, `A = m zeta + gamma rho g`, `T = gamma eta g` and `e_1, e_2, e_3` the means of `h theta`,
    `theta^2`, `h^2 theta^2` over a standard normal `h`,

        R = E (theta(s) A - T)^2 + 2 rho N e_1 E (theta(s) A - T) + rho^2 (N e_3 + N (N - 1) e_1^2)
            + gamma^2 ((1 - rho^2) E theta(s)^2 - 2 (nu - rho eta) E theta(s) + 1 - eta^2) + (1 - rho^2) N e_2.

    The trapezoid rule is exact to rounding for smooth gates that do not rise within less than 0.01.
    """
    mu, nu, eta, zeta, rho = overlaps
    log_others_if_any = max(log_others, 0.0)
    h = _symmetric_grid(math.sqrt(2 * (log_others_if_any + _DEPTH)))
    # N times the density at once, so that a gate that passes the most extreme tokens alone does not overflow.
    density = np.exp(log_others - h**2 / 2) * (_GATE_STEP / math.sqrt(2 * math.pi))
    theta = gate(h)
    e1, e2, e3 = (float(density @ values) for values in (h * theta, theta**2, (h * theta) ** 2))
    noise = (1 - rho**2) * e2
    if rho:
        noise += rho**2 * (e3 + e1 * e1 * -math.expm1(-log_others_if_any))

    g = _symmetric_grid(math.sqrt(2 * _DEPTH))
    density = np.exp(-(g**2) / 2) * (_GATE_STEP / math.sqrt(2 * math.pi))
    theta = gate(signal * mu + gamma * g)
    along = theta * (signal * zeta + gamma * rho * g) - gamma * eta * g
    # a theta^2 - 2 b theta + c about theta = 1, where a good gate has it: at the oracle only the square is left.
    short, a, b, c = theta - 1, 1 - rho**2, nu - rho * eta, 1 - eta**2
    across = a * float(density @ short**2) + 2 * (a - b) * float(density @ short) + (a - 2 * b + c)
    shift = 2 * rho * e1 * float(density @ along) if rho else 0.0
    return float(density @ along**2) + shift + gamma**2 * across + noise


def erf_gate(gamma: float, signal: float, log_others: float) -> tuple[float, float]:
    """The least risk over `lambda` of the gate `erf(lambda x . u*)`, and that `lambda`, with the sign of the signal.

        R = gamma^2 E (1 - erf(lambda s))^2 + N (2 / pi) arcsin(2 lambda^2 / (1 + 2 lambda^2)),   s ~ N(m, gamma^2),

    the first term by Owen's function. It does not vanish with `N`: the amplitude is 1 and `s` may be negative.
    """
    others, mean = math.exp(min(log_others, _LARGEST)), abs(signal)
    stiffness = others + gamma**2 * (mean**2 + gamma**2)
    linear = math.sqrt(math.pi) / 2 * gamma**2 * mean / stiffness
    if linear * (mean + 1) < _SMALL_GATE:  # erf is linear to rounding where it matters
        return gamma**2 * (1 - gamma**2 * mean**2 / stiffness), math.copysign(linear, signal)

    def risk(log_slope: np.ndarray) -> np.ndarray:
        return _erf_risk(np.exp(log_slope), gamma, mean, others)

    # Without noise tokens the best slope is of order m / gamma^2; with them it is below, down to the straight line's.
    steepest = math.log(max(mean, 1.0) / gamma**2) + 4
    scan = np.arange(min(math.log(linear), -math.log(mean)) - 4, steepest, _SCAN)
    best = int(np.argmin(risk(scan)))
    value, log_slope = _refine(lambda x: float(risk(np.asarray(x))), scan, best)
    return value, math.copysign(math.exp(log_slope), signal)


def best_pointwise_gate(gamma: float, signal: float, log_others: float) -> float:
    """The least risk over all gates `theta(x . u*)`: the integral of `gamma^2 N p_1 p_0 / (gamma^2 p_1 + N p_0)`.

    `p_1 = N(m, gamma^2)` and `p_0 = N(0, 1)` are the densities of the score of the first and of another token.
    """
    if log_others == -math.inf:
        return 0.0
    mean = abs(signal)

    def log_integrand(h: np.ndarray) -> np.ndarray:
        log_signal = math.log(gamma) - ((h - mean) / gamma) ** 2 / 2
        return log_signal + log_expit(log_others - h**2 / 2 - log_signal)

    # It is at least gamma^2 p_1(0) / 2 at 0 and at most gamma^2 p_1: negligible beyond this many deviations of p_1.
    reach = math.hypot(mean / gamma, math.sqrt(2 * _DEPTH)) + 1
    coarse = np.linspace(mean - gamma * reach, mean + gamma * reach, 2 * math.ceil(4 * reach) + 1)
    logs = log_integrand(coarse)
    alive = np.flatnonzero(logs > logs.max() - _DEPTH)
    low, high = float(coarse[max(alive[0] - 1, 0)]), float(coarse[min(alive[-1] + 1, coarse.size - 1)])
    slope = max(abs((h - mean) / gamma**2 - h) for h in (low, high))
    h = np.arange(low, high, _KINK_STEP / max(1 / gamma, slope))
    return float(np.exp(logsumexp(log_integrand(h)))) * (h[1] - h[0]) / math.sqrt(2 * math.pi)


def bayes(gamma: float, signal: float, log_others: float, dimension: int) -> float:
    """The risk of the posterior mean given `dimension` coordinates of each token, those along `u*` and `v*` among them.

    With `dimension=2` it is the Bayes risk given the projections on `u*` and `v*`, with that of the tokens the one
    given whole tokens. The weights are proportional to `exp(Lambda)`, the likelihood ratio, and

        R = gamma^2 E' sum_{l > 1} w_l
          = gamma^2 int E'[exp(-kappa)] N E_0[kappa exp(-kappa)] E_0[exp(-kappa)]^(N - 1) dy

    with `kappa = exp(Lambda - y)`, `E_0` over a noise token and `E'` over the first, weighted by `(x . v*)^2`.
    """
    if log_others == -math.inf:
        return 0.0
    levels, noise, first = _likelihood_ratio(gamma, abs(signal), log_others, dimension)
    sums = _LevelSums(levels, noise, first)
    y = _relevant(sums, log_others)
    logs = [_log_integrand(*sums.at(y[i : i + _BLOCK]), log_others) for i in range(0, y.size, _BLOCK)]
    return gamma**2 * _Y_STEP * float(np.exp(logsumexp(np.concatenate(logs))))


def softmax_best(risk_at_beta: Callable[[float], float]) -> tuple[float, float]:
    """The least risk over inverse temperatures, and where it is.

    A scan of `log beta`, widened while the minimum is at an end, finds the deepest of several minima;
    `scipy.optimize.minimize_scalar` then refines it.
    """
    log_betas = [float(x) for x in np.log(_BETAS)]
    risks = [float(risk_at_beta(math.exp(x))) for x in log_betas]
    step, (low, high) = log_betas[1] - log_betas[0], np.log(_BETA_LIMITS)
    while (best := int(np.argmin(risks))) == 0 and log_betas[0] > low:
        log_betas.insert(0, log_betas[0] - step)
        risks.insert(0, float(risk_at_beta(math.exp(log_betas[0]))))
    while (best := int(np.argmin(risks))) == len(risks) - 1 and log_betas[-1] < high:
        log_betas.append(log_betas[-1] + step)
        risks.append(float(risk_at_beta(math.exp(log_betas[-1]))))
    value, log_beta = _refine(lambda x: float(risk_at_beta(math.exp(x))), np.array(log_betas), best)
    if risks[best] <= value:
        return risks[best], math.exp(log_betas[best])
    return value, math.exp(log_beta)


def _symmetric_grid(reach: float) -> np.ndarray:
    return _GATE_STEP * np.arange(-math.ceil(reach / _GATE_STEP), math.ceil(reach / _GATE_STEP) + 1)


def _erf_risk(slope: np.ndarray, gamma: float, mean: float, others: float) -> np.ndarray:
    """The risk of `erf(slope x . u*)`; `1 - erf(x) = 2 Phi(-sqrt(2) x)`, and Owen's function is the mean of `Phi^2`."""
    spread = 2 * (slope * gamma) ** 2
    h = math.sqrt(2) * mean * slope / np.sqrt(1 + spread)
    missed = 4 * (ndtr(-h) - 2 * owens_t(h, 1 / np.sqrt(1 + 2 * spread)))
    passed = (2 / math.pi) * np.arcsin(2 * slope**2 / (1 + 2 * slope**2))
    return gamma**2 * missed + others * passed


def _refine(function: Callable[[float], float], grid: np.ndarray, best: int) -> tuple[float, float]:
    """The minimum between the neighbours of the best point of a grid, and where it is."""
    from scipy.optimize import minimize_scalar  # slow to import

    bounds = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
    found = minimize_scalar(function, bounds=bounds, method="bounded", options={"xatol": 1e-9})
    return float(found.fun), float(found.x)  # type: ignore[reportAttributeAccessIssue]


def _likelihood_ratio(
    gamma: float, mean: float, log_others: float, dimension: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Levels of `Lambda`, increasing, and the logarithms of their weights in a noise token and in the first token.

    `Lambda` falls with the distance `r` from `x_0 = m u* / (1 - gamma^2)`. In `t = r - |x_0|`, which stays finite as
    `gamma` goes to 1, and with `k = gamma^-2 - 1`,

        Lambda = -m^2 / (2 gamma^2) - m t / gamma^2 - k t^2 / 2,

    and the density of `r` is `r^(D-1) exp(-t^2 / 2) exp(-r |x_0|) 0F1(D / 2, (r |x_0|)^2 / 4)` in noise; in the first
    token, weighted by `(x . v*)^2`, `t` is `(t + m) / gamma` in the exponent and `D` is larger by 2.
    """
    k = (1 - gamma) * (1 + gamma) / gamma**2
    centre = mean / (gamma**2 * k) if k else math.inf
    low = max(-centre, min(-math.sqrt(2 * (max(log_others, 0.0) + _DEPTH)), -mean - 10 * gamma))
    high = (dimension + 2) / (centre + math.hypot(centre, math.sqrt(dimension + 2))) + 10
    steepest = mean / gamma**2 + k * high
    panels = math.ceil((high - low) * max(1 / gamma, steepest / _PANEL_RISE))
    nodes, weights = np.polynomial.legendre.leggauss(16)
    half = (high - low) / (2 * panels)
    t = (low + half * (2 * np.arange(panels)[:, None] + 1 + nodes)).ravel()[::-1]
    log_width = np.log(np.tile(weights, panels))[::-1]
    noise = log_width - t**2 / 2 + _log_shape(t, centre, dimension)
    first = log_width - ((t + mean) / gamma) ** 2 / 2 + _log_shape(t, centre, dimension + 2)
    levels = -(mean**2) / (2 * gamma**2) - (mean / gamma**2) * t - k * t**2 / 2
    return levels, noise - logsumexp(noise), first - logsumexp(first)


def _log_shape(t: np.ndarray, centre: float, dimension: int) -> np.ndarray:
    """The logarithm of the density of the distance from a point over a Gaussian, up to a constant; 0 from infinity."""
    if math.isinf(centre):
        return np.zeros(t.shape)
    r = centre + t
    return (dimension - 1) * np.log(r) + _log_0f1(dimension / 2 - 1, centre * r)


def _log_0f1(order: float, z: np.ndarray) -> np.ndarray:
    """`log 0F1(order + 1, z^2 / 4) - z`, which is `log(exp(-z) I_order(z) Gamma(order + 1) (z / 2)^-order)`.

    Debye's expansion in powers of `1 / q`, `q = sqrt(order^2 + z^2)`, serves large orders and large arguments, where
    `scipy.special.hyp0f1` overflows and `ive` underflows (at order 500 and z = 10, say).
    """
    q = np.hypot(order, z)
    far = q > _DEBYE_FROM
    out = np.empty(z.shape)
    out[~far] = np.log(hyp0f1(order + 1, z[~far] ** 2 / 4)) - z[~far]
    q, z = q[far], z[far]
    series = sum(u((order / q) ** 2) / q**j for j, u in enumerate(_debye_polynomials()))
    out[far] = order**2 / (q + z) - order * np.log((order + q) / 2) + gammaln(order + 1)
    out[far] += np.log(series) - np.log(2 * math.pi * q) / 2
    return out


@functools.cache
def _debye_polynomials() -> tuple[Polynomial, ...]:
    """`u_j(p) / p^j` in `p^2`; `u_{j+1} = p^2 (1 - p^2) u_j' / 2 + int_0^p (1 - 5 t^2) u_j dt / 8`."""
    u, out = Polynomial([1.0]), []
    for j in range(_DEBYE_TERMS):
        out.append(Polynomial(u.coef[j::2]))
        u = Polynomial([0, 0, 0.5, 0, -0.5]) * u.deriv() + (Polynomial([1, 0, -5]) * u).integ() / 8
    return tuple(out)


class _LevelSums:
    """Averages over the levels of `Lambda` at a value of `y`, as logarithms: `log E' exp(-kappa)`, and for noise
    `log E_0 exp(-kappa)`, `log E_0 kappa exp(-kappa)` and `log E_0 (1 - exp(-kappa))`.

    More than `_DEPTH` below `y` these functions of a level are `kappa` or 1 to rounding, more than `_Y_SLACK` above it
    0 or 1, so that running sums serve. Only the band between is evaluated.
    """

    def __init__(self, levels: np.ndarray, noise: np.ndarray, first: np.ndarray) -> None:
        self.levels, self._noise, self._first = levels, noise, first
        self._first_below, self._noise_below = _running(first), _running(noise)
        self._tilted_below, self._noise_above = _running(noise + levels), _running(noise[::-1])[::-1]

    def stepped(self, y: np.ndarray) -> _Averages:
        """The averages as if the band had no width: off by a factor, and cheap."""
        here = np.searchsorted(self.levels, y, side="right")
        tilted = self._tilted_below[here] - y
        return (
            self._first_below[here],
            self._noise_below[here],
            tilted,
            np.minimum(np.logaddexp(tilted, self._noise_above[here]), 0.0),
        )

    def at(self, y: np.ndarray) -> _Averages:
        """The averages at increasing values of `y` near one another."""
        start, end = np.searchsorted(self.levels, (y[0] - _DEPTH, y[-1] + _Y_SLACK))
        if start == end:
            return self.stepped(y)
        band = slice(start, end)
        kappa = np.exp(self.levels[band] - y[:, None])
        decay = np.exp(-kappa)
        tilted = self._tilted_below[start] - y
        return (
            np.logaddexp(self._first_below[start], _log_mean(decay, self._first[band])),
            np.logaddexp(self._noise_below[start], _log_mean(decay, self._noise[band])),
            np.logaddexp(tilted, _log_mean(kappa * decay, self._noise[band])),
            np.logaddexp(np.logaddexp(tilted, self._noise_above[end]), _log_mean(-np.expm1(-kappa), self._noise[band])),
        )


def _running(logs: np.ndarray) -> np.ndarray:
    """Logarithms of the sums of the first 0, 1, 2, ... exponentials."""
    return np.concatenate([[-np.inf], np.logaddexp.accumulate(logs)])


def _log_mean(values: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
    largest = log_weights.max()
    with np.errstate(divide="ignore"):
        return largest + np.log(values @ np.exp(log_weights - largest))


def _log_integrand(
    log_first: np.ndarray, log_kept: np.ndarray, log_tilted: np.ndarray, log_missed: np.ndarray, log_others: float
) -> np.ndarray:
    """`log(E'[exp(-kappa)] N E_0[kappa exp(-kappa)] E_0[exp(-kappa)]^(N - 1))`."""
    with np.errstate(divide="ignore", over="ignore"):
        log_kept = np.where(log_missed < -0.7, np.log1p(-np.exp(np.minimum(log_missed, -0.1))), log_kept)
        # -log(1 - x) is x to rounding once x is below exp(-36), and may underflow later.
        log_hazard = np.where(log_missed < -36, log_missed, np.log(np.clip(-log_kept, 0.0, 1e300)))
        log_fewer = log_others + np.log1p(-np.exp(-log_others))  # log(N - 1)
        return log_first + log_others + log_tilted - np.exp(log_fewer + log_hazard)


def _relevant(sums: _LevelSums, log_others: float) -> np.ndarray:
    """The grid of `y` outside which the integrand is negligible; it varies by a factor of `e` per unit at most."""
    highest = sums.levels[-1]
    beyond = np.arange(highest, max(highest, log_others) + _DEPTH + _Y_SLACK)
    y = np.concatenate([sums.levels, beyond])
    logs = _log_integrand(*sums.stepped(y), log_others)
    alive = y[logs > np.max(logs) - _DEPTH - 5]
    return np.arange(alive[0] - _Y_SLACK, alive[-1] + _Y_SLACK, _Y_STEP)

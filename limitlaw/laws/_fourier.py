"""Densities and tails of `y = sqrt(v) z`, `v` an average of variances, from the Laplace transform of one of them."""

import functools

import numpy as np
from scipy.optimize import brentq

_DEPTH = 42.0  # depth at which parts of the integral are dropped: exp(-42) = 6e-19 is below rounding
_WINDOW = 1.5  # standard deviations of x that share a tilt: the integrand stays of order one within such a window
_LAST_WITH_IMAGES = 3  # index of the last window in which periodic images of the tail exceed rounding
_MOST_NODES = 600  # nodes above which averaging conditional Gaussians over the atoms is as fast
_AT_ONCE = 16  # nodes in one product of matrices; the series ends after twice as many negligible ones
_SADDLE = 1e-7  # relative tolerance of the tilt, which need not be exactly the saddle point
_FARTHEST = 1e12  # standard deviations from 0 at which a density is treated as 0
_TILTS = np.geomspace(0.05, 30.0, 40)  # additional tilts at which Chernoff's bound is tried, in units of 1/std
_LEAST = 1e-300  # floor of the arguments of logarithms, above the smallest normal double, 2e-308


class TiltedFourier:
    """Fourier inversion with exponential tilting, so that far tails keep their relative accuracy.

    With `Lambda(tau) = log E exp(tau y) = H log sum_j w_j exp(tau^2 v_j / 2H)`,

        f(x) = exp(Lambda(tau) - tau x) (1 / 2 pi) int exp(Lambda(tau + i t) - Lambda(tau) - i t x) dt

    for every `tau`, and the tail probability is the same integral with `1 / (tau + i t)` in it. At the saddle point,
    `Lambda'(tau) = x`, the integrand is of order one, so nothing cancels, however far out. One `tau` serves a window
    of `x` of 1.5 standard deviations. The trapezoid rule converges geometrically; its step is set by Chernoff's bound
    on the tilted law and its range by the decay of the integrand. The cost does not depend on the number of copies `H`.
    """

    def __init__(self, values: np.ndarray, rows: np.ndarray, copies: int) -> None:
        """The transform of one law, and of replicates of it.

        Args:
            values: The variances of one copy.
            rows: Weights on them, a row per law. All rows share the tilts of the first, so that their sums share all
                exponentials.
            copies: How many copies are averaged.
        """
        self._values, self._rows, self._copies = values, rows, copies
        self._std = float(np.sqrt(rows[0] @ values))
        self._log_weights = np.log(np.maximum(np.abs(rows[0]), _LEAST))
        self._windows: dict[float, tuple[float, np.ndarray, float]] = {}

    @functools.cached_property
    def converges(self) -> bool:
        """Whether a few hundred nodes reach rounding. They do not if small variances are likely and copies are few."""
        # The first window has the smallest tilt, so its transform decays most slowly.
        return self._window(1)[1].shape[1] <= _MOST_NODES

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """`log f` at non-negative `x`, for each row."""
        return self._evaluate(x, tail=False)

    def log_tail(self, x: np.ndarray) -> np.ndarray:
        """`log P(y > x)` at non-negative `x`, for each row."""
        return self._evaluate(x, tail=True)

    def _evaluate(self, x: np.ndarray, *, tail: bool) -> np.ndarray:
        out = np.full((len(self._rows), x.size), -np.inf)
        finite = np.flatnonzero(np.abs(x) < _FARTHEST * self._std)
        which = np.maximum(np.rint(x[finite] / (_WINDOW * self._std)), 1)
        for k in np.unique(which):
            here = finite[which == k]
            tau, transform, step = self._window(k)
            terms = transform
            # P(y > x) = int_x^inf f divides each exponential by its rate. The rate has the real part tau > 0, because
            # windows start at 1: at tau = 0 the integral over x would not converge.
            if tail:
                terms = terms / (tau + 1j * step * np.arange(terms.shape[1]))
            # The sum over nodes is a polynomial in exp(-i step x). Horner's rule needs no further exponentials.
            turn = np.exp(-1j * step * x[here])
            total = np.broadcast_to(terms[:, -1, None], (len(terms), here.size)).copy()
            for j in range(terms.shape[1] - 2, -1, -1):
                total *= turn
                total += terms[:, j, None]
            with np.errstate(divide="ignore"):
                integral = np.log(np.maximum(np.real(total) * step / np.pi, 0.0))
            # The factor in front of the integral holds all the decay, so it stays a logarithm.
            level = self._log_mgf(np.array([tau]))[:, :1] - tau * x[here]
            if tail and k <= _LAST_WITH_IMAGES:
                # The trapezoid rule adds the tilted tail at x less one period, two periods, ... (Poisson's summation).
                # There the tail probability is 1, so that the images are a geometric series, which is subtracted.
                images = np.exp(-level - 2 * np.pi * tau / step) / -np.expm1(-2 * np.pi * tau / step)
                integral = np.log(np.maximum(np.exp(integral) - images, _LEAST))
            out[:, here] = level + integral
        return out

    def _window(self, k: float) -> tuple[float, np.ndarray, float]:
        """The tilt of window `k`, the tilted transform at its nodes (the first halved) for each row, and the step."""
        if k not in self._windows:
            self._windows[k] = self._make_window(k)
        return self._windows[k]

    def _make_window(self, k: float) -> tuple[float, np.ndarray, float]:
        centre = _WINDOW * self._std * k
        tau = self._saddle(centre)
        here = self._log_mgf(np.array([tau]))[0, 0]
        # The step, 2 pi over the period, must be so small that the tilted law has no mass a period from the window.
        # Chernoff's bound with a further tilt eta says how far that mass reaches to the right and to the left; the best
        # of a few tilts is taken.
        eta = _TILTS / self._std
        right = (self._log_mgf(tau + eta)[0] - here + _DEPTH) / eta - centre
        left = (self._log_mgf(tau - eta)[0] - here + _DEPTH) / eta + centre
        step = 2 * np.pi / (max(right.min(), left.min()) + _WINDOW * self._std)
        transform = self._transform(tau, step)
        transform[:, 0] /= 2  # the end of the trapezoid rule on the half-line; the other half is the complex conjugate
        return tau, transform, step

    def _saddle(self, x: float) -> float:
        """The solution `tau` of `Lambda'(tau) = x`.

        `Lambda'` increases, but very unevenly if variances lie far apart. Newton's method then cycles, and bracketing
        does not.
        """
        low, high = 0.0, x / float(self._rows[0] @ self._values)  # exact for a normal law
        while self._mean(high) < x:
            low, high = high, 2 * high
        return float(brentq(lambda tau: self._mean(tau) - x, low, high, xtol=_SADDLE * high))  # type: ignore[arg-type]

    def _mean(self, tau: float) -> float:
        """The mean of the tilted law, `Lambda'(tau)`."""
        # Tilting one copy multiplies the weight of each variance by exp(tau^2 v / 2H); the mean of y is then tau E v.
        exponent = tau**2 * self._values / (2 * self._copies)
        weights = self._rows[0] * np.exp(exponent - (exponent + self._log_weights).max())
        return tau * float(weights @ self._values) / float(weights.sum())

    def _log_mgf(self, tau: np.ndarray) -> np.ndarray:
        """`Lambda`, for each row and each `tau`."""
        exponent = np.multiply.outer(self._values, tau**2 / (2 * self._copies))
        largest = (exponent + self._log_weights[:, None]).max(axis=0)
        return self._copies * (largest + np.log(np.maximum(self._rows @ np.exp(exponent - largest), _LEAST)))

    def _transform(self, tau: float, step: float) -> np.ndarray:
        """`exp(Lambda(tau + i t) - Lambda(tau))` at `t = 0, step, 2 step, ...` until it is negligible, `(rows, nodes)`.

        Each atom contributes `exp(scale (2 i tau t - t^2))`. The ratio of neighbouring nodes changes by a constant
        factor from node to node, so only the first node needs exponentials.
        """
        scale = self._values / (2 * self._copies)
        largest = (tau**2 * scale + self._log_weights).max()
        tilted = self._rows * np.exp(tau**2 * scale - largest)  # the largest term is 1, so that nothing overflows
        tilted /= tilted.sum(axis=1, keepdims=True)
        wave, turn = np.ones(scale.size, complex), np.exp(scale * (2j * tau * step - step**2))
        shrink = np.exp(-2 * scale * step**2)
        # The transform of one copy is raised to the power `copies` at the end, and its threshold with it.
        smallest = np.exp(-_DEPTH / self._copies)
        waves, nodes, large = np.empty((scale.size, _AT_ONCE), complex), [], 0
        while len(nodes) * _AT_ONCE < min(2 * _MOST_NODES, large + 2 * _AT_ONCE):
            for j in range(_AT_ONCE):
                waves[:, j] = wave
                wave *= turn
                turn *= shrink
            # One real product: `tilted` is real, and the real and imaginary parts of `waves` are adjacent columns.
            nodes.append((tilted @ waves.view(float)).view(complex))
            alive = np.flatnonzero(np.abs(nodes[-1][0]) > smallest)
            if alive.size:
                large = (len(nodes) - 1) * _AT_ONCE + int(alive[-1]) + 1
        return np.hstack(nodes)[:, :large] ** self._copies

"""Quantiles, and the increasing map between a standard normal variable and a law.

Unlike the quantile function, the map is smooth near probabilities 0 and 1, so a spline through a few of its values
serves many quantiles.
"""

import functools
from typing import TYPE_CHECKING

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.optimize import elementwise
from scipy.special import ndtr, ndtri_exp

if TYPE_CHECKING:
    from ._law import Law

_REACH = 9.0  # largest normal score of the spline: standard normal draws exceed it with probability 1e-19
_KNOTS = 512  # knots for an error of 1e-7 in the normal score; fewer quantiles are cheaper without the spline
_CLOSE = 1e-6  # half-width of the bracket around a value of the spline, in standard deviations
_ROUGH = 0.05  # half-width of the first bracket around the quantile of a normal law, in standard deviations
_PRECISION = 1e-15  # default tolerance of a quantile, in standard deviations
_HUGE = 1e300  # replaces infinity where a tail probability underflows, as root finders need finite numbers


def quantiles_of_normal(law: "Law", z: np.ndarray) -> np.ndarray:
    """The increasing map `T` such that `T(z)` has this law for a standard normal `z`.

    Example:
        >>> import numpy as np
        >>> from limitlaw.laws import Gaussian
        >>> from limitlaw.laws.normal_scores import quantiles_of_normal
        >>> quantiles_of_normal(Gaussian(mean=1.0, variance=4.0), np.array([-1.0, 0.0, 1.0])).tolist()
        [-1.0, 1.0, 3.0]
    """
    return law._from_normal(z)


def cdf_by_spline(law: "Law", x: np.ndarray) -> np.ndarray:
    """The cdf at many points to 1e-7, by a spline in normal scores if it is that accurate.

    Example:
        >>> import numpy as np
        >>> from limitlaw.laws import Gaussian
        >>> from limitlaw.laws.normal_scores import cdf_by_spline
        >>> print(cdf_by_spline(Gaussian(), np.array([0.0, 1.0])).round(6))
        [0.5      0.841345]
    """
    spline = law._normal_scores.to_normal
    between = (spline.x[:-1] + spline.x[1:])[::4] / 2
    if np.abs(ndtr(spline(between)) - law.cdf(between)).max() > 1e-7:
        return law.cdf(x)
    return ndtr(spline(np.clip(x, spline.x[0], spline.x[-1])))


class NormalScores:
    """Splines of the map from normal scores to a law and back."""

    def __init__(self, law: "Law") -> None:
        self._law = law

    @functools.cached_property
    def from_normal(self) -> CubicSpline:
        """From a normal score to the law."""
        z = np.linspace(-_REACH, _REACH, _KNOTS)
        return CubicSpline(z, self._law._from_normal(z))

    @functools.cached_property
    def to_normal(self) -> CubicSpline:
        """From the law to a normal score."""
        z = self.from_normal.x
        return CubicSpline(self.from_normal(z), z)


def solve_quantiles(law: "Law", log_tail: np.ndarray, right: np.ndarray, tolerance: float = _PRECISION) -> np.ndarray:
    """The points at which the left tail (the right one where `right`) has the given logarithms, at most `log(1/2)`.

    The equation is solved for the logarithm of the tail. That is nearly quadratic where the law resembles a normal law,
    so the interpolating root finder takes few steps, however far out.

    Args:
        law: The law.
        log_tail: Logarithms of tail probabilities, one-dimensional.
        right: For each of them, whether it belongs to the right tail.
        tolerance: The tolerance of the quantiles, in standard deviations.
    """
    if not log_tail.size:
        return np.empty(0)
    centre, scale = law._centre_and_scale
    tolerances = {"xatol": tolerance * scale, "xrtol": tolerance, "fatol": 0.0, "frtol": 0.0}
    scores = np.where(right, -1.0, 1.0) * ndtri_exp(log_tail)

    def excess(x: np.ndarray, log_tail: np.ndarray, right: np.ndarray) -> np.ndarray:
        """The difference from the requested level at `x`, with the sign that makes it increase with `x`."""
        value = np.empty(x.size)
        value[right], value[~right] = law._logccdf(x[right]), law._logcdf(x[~right])
        return np.clip(np.where(right, log_tail - value, value - log_tail), -_HUGE, _HUGE)

    if log_tail.size > _KNOTS:
        # A narrow bracket around a good guess needs no search, which saves two evaluations out of seven. The few
        # guesses outside are solved again from scratch, in parts small enough not to use the spline.
        guess = law._normal_scores.from_normal(np.clip(scores, -_REACH, _REACH))
        near = (guess - _CLOSE * scale, guess + _CLOSE * scale)
        root = elementwise.find_root(excess, near, args=(log_tail, right), tolerances=tolerances)
        x, missed = root.x, np.flatnonzero(~root.success)
        for part in np.array_split(missed, -(-missed.size // _KNOTS)) if missed.size else ():
            x[part] = solve_quantiles(law, log_tail[part], right[part], tolerance)
        return x
    guess = centre + scale * scores
    wide = (guess - _ROUGH * scale, guess + _ROUGH * scale)
    bracket = elementwise.bracket_root(excess, *wide, args=(log_tail, right)).bracket
    return elementwise.find_root(excess, bracket, args=(log_tail, right), tolerances=tolerances).x

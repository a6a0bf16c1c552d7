"""Link functions as Gaussian averages: means, squares, products, and their derivatives in the Gaussians."""

import abc
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pydoc import locate
from typing import Any

import jax
import numpy as np
from scipy.special import erf, ndtr, owens_t

from .._checks import ArgumentError, ArgumentTypeError, suggestion

_LEAST_VARIANCE = 1e-30  # below it a Gaussian is a point, on one side of any jump
_LEAST_SINE = 1e-8  # no correlation between it and 1 can be written in float64
_LEAST_SMOOTH = 1e-6  # variance, and one minus the size of a correlation, below which scores lose their digits
_ROOT_TWO_PI = np.sqrt(2 * np.pi)
_TRIED = np.linspace(-30.0, 30.0, 241)  # where a function is tried, beyond the outermost node of the largest rule
_CENTRES = np.linspace(-3.0, 3.0, 13)  # means of the Gaussians whose averages are tried
_NODES = (48, 96, 160)  # of Gauss-Hermite rules; an average over two Gaussians has 160^2 points at most
_AGREEMENT = 1e-5  # of two rules: a kink leaves 2e-3 at 160 nodes, tanh 1e-15

Moments = tuple[np.ndarray, np.ndarray, np.ndarray]
"""An expectation of one Gaussian, and its derivatives in the mean and in the variance."""
Products = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""An expectation of two Gaussians; its derivatives in mean and variance of either, and in their covariance."""


class Link(abc.ABC):
    """A link `sigma`: the label is `sigma(x_1 . v_*)`, a token's value `sigma(x . v)`.

    The exact risk needs `E sigma(A)`, `E sigma(A)^2` and `E sigma(A) sigma(B)` for Gaussian `A` and `B`, with
    derivatives in their means, variances and covariance. A subclass with closed forms is exact. Links are values: they
    compare and hash, which a subclass with parameters gets by being a frozen dataclass.

    Attributes:
        name: What problems and tables call the link.
        parity: 1 for even links, -1 for odd ones, 0 for others.
        bends: Whether it has a kink or a jump, which a grid may miss where a Gaussian is narrow.

    Example:
        >>> import numpy as np
        >>> from limitlaw import slr
        >>> link = slr.LINKS["quadratic"]
        >>> link(np.array([1.0, 2.0])), link.parity
        (array([1., 4.]), 1)
    """

    name: str = "link"
    parity: int = 0
    bends: bool = False

    @abc.abstractmethod
    def __call__(self, t: Any) -> Any:
        """`sigma(t)`, of numpy arrays and of traced jax arrays."""

    @abc.abstractmethod
    def slope(self, t: np.ndarray) -> np.ndarray:
        """`sigma'(t)`."""

    @abc.abstractmethod
    def mean(self, m: np.ndarray, v: np.ndarray) -> Moments:
        """`E sigma(A)`, `A` of mean `m` and variance `v`."""

    @abc.abstractmethod
    def square(self, m: np.ndarray, v: np.ndarray) -> Moments:
        """`E sigma(A)^2`."""

    @abc.abstractmethod
    def product(self, m1: np.ndarray, v1: np.ndarray, m2: np.ndarray, v2: np.ndarray, c: np.ndarray) -> Products:
        """`E sigma(A) sigma(B)`, `c` the covariance of `A` and `B`."""

    def gap(self, *pair: np.ndarray, both: Products | None = None) -> Products:
        """`E (sigma(A) - sigma(B))^2` for the arguments of `product`, whose result is `both` if it is known."""
        first, second, both = self.square(*pair[:2]), self.square(*pair[2:4]), both or self.product(*pair)
        return (
            np.maximum(first[0] - 2 * both[0] + second[0], 0.0),
            first[1] - 2 * both[1],
            first[2] - 2 * both[2],
            second[1] - 2 * both[3],
            second[2] - 2 * both[4],
            -2 * both[5],
        )

    def kernel(self, gamma: float, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The dual kernel `E sigma(gamma G_1) sigma(gamma G_2)` of standard normals at correlation `nu`.

        Args:
            gamma: Their standard deviation.
            nu: Their correlations.

        Returns:
            The kernel, and its derivative in `nu`.

        Example:
            >>> import numpy as np
            >>> from limitlaw import slr
            >>> slr.LINKS["quadratic"].kernel(1.0, np.array([0.0, 0.5, 1.0]))  # 1 + 2 nu^2
            (array([1. , 1.5, 3. ]), array([0., 2., 4.]))
        """
        zero, v = np.zeros_like(nu), np.full_like(nu, gamma**2)
        both = self.product(zero, v, zero, v, gamma**2 * nu)
        return both[0], gamma**2 * both[5]

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, repr=False)
class Linear(Link):
    """`sigma(t) = t`."""

    name, parity = "linear", -1

    def __call__(self, t: Any) -> Any:
        return t

    def slope(self, t: np.ndarray) -> np.ndarray:
        return np.ones_like(t)

    def mean(self, m: np.ndarray, v: np.ndarray) -> Moments:
        return m, np.ones_like(m), np.zeros_like(m)

    def square(self, m: np.ndarray, v: np.ndarray) -> Moments:
        return m**2 + v, 2 * m, np.ones_like(m)

    def product(self, m1: np.ndarray, v1: np.ndarray, m2: np.ndarray, v2: np.ndarray, c: np.ndarray) -> Products:
        zero = np.zeros_like(m1 * m2)
        return m1 * m2 + c, m2 + zero, zero, m1 + zero, zero, 1 + zero

    def gap(self, *pair: np.ndarray, both: Products | None = None) -> Products:
        """As for any link, but not as a difference of squares."""
        m1, v1, m2, v2, c = pair
        return (m1 - m2) ** 2 + (v1 + v2 - 2 * c), *super().gap(*pair, both=both)[1:]


@dataclass(frozen=True, repr=False)
class Quadratic(Link):
    """`sigma(t) = t^2`."""

    name, parity = "quadratic", 1

    def __call__(self, t: Any) -> Any:
        return t * t

    def slope(self, t: np.ndarray) -> np.ndarray:
        return 2 * t

    def mean(self, m: np.ndarray, v: np.ndarray) -> Moments:
        return m**2 + v, 2 * m, np.ones_like(m)

    def square(self, m: np.ndarray, v: np.ndarray) -> Moments:
        return m**4 + 6 * m**2 * v + 3 * v**2, 4 * m**3 + 12 * m * v, 6 * (m**2 + v)

    def product(self, m1: np.ndarray, v1: np.ndarray, m2: np.ndarray, v2: np.ndarray, c: np.ndarray) -> Products:
        first, second = m1**2 + v1, m2**2 + v2
        zero = np.zeros_like(m1 * m2)
        return (
            first * second + 4 * m1 * m2 * c + 2 * c**2,
            2 * m1 * second + 4 * m2 * c,
            second + zero,
            2 * m2 * first + 4 * m1 * c,
            first + zero,
            4 * m1 * m2 + 4 * c,
        )

    def gap(self, *pair: np.ndarray, both: Products | None = None) -> Products:
        """`E (A - B)^2 (A + B)^2`: nothing cancels where the two are nearly equal."""
        m1, v1, m2, v2, c = pair
        less, more, cov = m1 - m2, m1 + m2, v1 - v2
        value = (less**2 + v1 + v2 - 2 * c) * (more**2 + v1 + v2 + 2 * c) + 4 * less * more * cov + 2 * cov**2
        return value, *super().gap(*pair, both=both)[1:]


@dataclass(frozen=True, repr=False)
class ReLU(Link):
    """`sigma(t) = max(t, 0)`."""

    name, bends = "relu", True

    def __call__(self, t: Any) -> Any:
        return (t + abs(t)) / 2

    def slope(self, t: np.ndarray) -> np.ndarray:
        return np.heaviside(t, 0.5)

    def mean(self, m: np.ndarray, v: np.ndarray) -> Moments:
        s, _, below, density = _standard(m, v)
        return np.maximum(m * below + s * density, 0.0), below, density / (2 * s)

    def square(self, m: np.ndarray, v: np.ndarray) -> Moments:
        s, _, below, density = _standard(m, v)
        value = np.maximum((m**2 + v) * below + m * s * density, 0.0)  # far below zero the terms cancel
        return value, 2 * self.mean(m, v)[0], below

    def product(self, m1: np.ndarray, v1: np.ndarray, m2: np.ndarray, v2: np.ndarray, c: np.ndarray) -> Products:
        s1, h, _, density1 = _standard(m1, v1)
        s2, k, _, density2 = _standard(m2, v2)
        r, q = _correlation(c, s1, s2)
        both = _both_positive(h, k, r, q)
        edge1, edge2 = density1 * ndtr((k - r * h) / q), density2 * ndtr((h - r * k) / q)
        corner = s1 * s2 * q * density1 * np.exp(-(((k - r * h) / q) ** 2) / 2) / _ROOT_TWO_PI
        value = (m1 * m2 + c) * both + m1 * s2 * edge2 + m2 * s1 * edge1 + corner
        return (
            np.maximum(value, 0.0),
            m2 * both + s2 * (edge2 + r * edge1),
            density1 / (2 * s1) * self.mean(*_given_zero(m2, v2, m1, s1, c))[0],
            m1 * both + s1 * (edge1 + r * edge2),
            density2 / (2 * s2) * self.mean(*_given_zero(m1, v1, m2, s2, c))[0],
            both,
        )


@dataclass(frozen=True, repr=False)
class Sign(Link):
    """`sigma(t) = sign(t)`."""

    name, parity, bends = "sign", -1, True

    def __call__(self, t: Any) -> Any:
        return (t > 0) * 1.0 - (t < 0) * 1.0

    def slope(self, t: np.ndarray) -> np.ndarray:
        return np.zeros_like(t)

    def mean(self, m: np.ndarray, v: np.ndarray) -> Moments:
        s, t, _, density = _standard(m, v)
        return erf(t / np.sqrt(2)), 2 * density / s, -t * density / s**2

    def square(self, m: np.ndarray, v: np.ndarray) -> Moments:
        return np.ones_like(m), np.zeros_like(m), np.zeros_like(m)

    def product(self, m1: np.ndarray, v1: np.ndarray, m2: np.ndarray, v2: np.ndarray, c: np.ndarray) -> Products:
        s1, h, below1, density1 = _standard(m1, v1)
        s2, k, below2, density2 = _standard(m2, v2)
        r, q = _correlation(c, s1, s2)
        first, second = self.mean(*_given_zero(m2, v2, m1, s1, c)), self.mean(*_given_zero(m1, v1, m2, s2, c))
        corner = density1 * np.exp(-(((k - r * h) / q) ** 2) / 2) / (_ROOT_TWO_PI * q)
        return (
            4 * _both_positive(h, k, r, q) - 2 * below1 - 2 * below2 + 1,
            2 * density1 / s1 * first[0],
            -density1 / s1**2 * (h * first[0] + c / s1 * first[1]),
            2 * density2 / s2 * second[0],
            -density2 / s2**2 * (k * second[0] + c / s2 * second[1]),
            4 * corner / (s1 * s2),
        )


class Smooth(Link):
    """Any smooth function, by Gauss-Hermite quadrature; derivatives are moments with the scores of the Gaussians.

    A kink or a jump spoils the quadrature and is refused; write a `Link` with closed forms for those. Derivatives
    within 1e-6 of the bounds of the overlaps are those of slightly wider Gaussians.
    """

    def __init__(self, function: Callable[[Any], Any], name: str) -> None:
        self._function, self.name = function, name
        values = self(_TRIED)
        self.parity = next(
            (sign for sign in (1, -1) if np.allclose(values[::-1], sign * values, rtol=1e-12, atol=1e-12)), 0
        )
        self._x, self._w = self._enough_nodes()

    def _enough_nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """The first rule that agrees with one of half as many nodes again."""
        change = np.inf
        for count in _NODES:
            (x, w), finer = _gauss_hermite(count), _gauss_hermite(count + count // 2)
            coarse, fine = (self._averages(*rule) for rule in ((x, w), finer))
            change = np.max(np.abs(coarse - fine) / (1 + np.abs(fine)))
            if change < _AGREEMENT:
                return x, w
        raise ArgumentError(
            "link",
            f"link={self.name} has Gaussian averages that change by {change:.1g} beyond {_NODES[-1]} nodes. It seems "
            f"to have a kink or a jump. Use link='relu' or 'sign', or write a slr.Link with closed forms.",
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Smooth) and (self._function, self.name) == (other._function, other.name)

    def __hash__(self) -> int:
        return hash((self._function, self.name))

    def __reduce__(self) -> tuple[Callable[..., Link], tuple[Any, str]]:
        # pickle refuses what jax.jit returns, jnp.tanh for one, although it can be found by its name
        path = f"{getattr(self._function, '__module__', '')}.{getattr(self._function, '__qualname__', '')}"
        return (
            (_located, (path, self.name)) if locate(path) is self._function else (Smooth, (self._function, self.name))
        )

    def _averages(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Means and squares of the function of Gaussians of variance 1."""
        values = self(_CENTRES[:, None] + x)
        return np.stack([values @ w, values**2 @ w])

    def __call__(self, t: Any) -> Any:
        if not isinstance(t, np.ndarray | float):
            return self._function(t)
        with jax.enable_x64(True):  # a function from jax.numpy would round to float32
            return np.asarray(self._function(t), np.float64)

    def slope(self, t: np.ndarray) -> np.ndarray:
        step = 1e-5 * (1 + np.abs(t))
        return (self(t + step) - self(t - step)) / (2 * step)

    def mean(self, m: np.ndarray, v: np.ndarray) -> Moments:
        return self._moments(self, m, v)

    def square(self, m: np.ndarray, v: np.ndarray) -> Moments:
        return self._moments(lambda t: self(t) ** 2, m, v)

    def _moments(self, function: Callable[[Any], Any], m: np.ndarray, v: np.ndarray) -> Moments:
        m, v = np.broadcast_arrays(np.asarray(m, np.float64), v)
        x, w = self._x, self._w
        values = function(m[..., None] + np.sqrt(np.maximum(v, 0.0))[..., None] * x)
        s = np.sqrt(np.maximum(v, _LEAST_SMOOTH))
        wider = values if v.size and v.min() >= _LEAST_SMOOTH else function(m[..., None] + s[..., None] * x)
        return values @ w, (wider @ (w * x)) / s, (wider @ (w * (x**2 - 1))) / (2 * s**2)

    def product(self, m1: np.ndarray, v1: np.ndarray, m2: np.ndarray, v2: np.ndarray, c: np.ndarray) -> Products:
        return self._joint(lambda a, b: self(a) * self(b), m1, v1, m2, v2, c)

    def gap(self, *pair: np.ndarray, both: Products | None = None) -> Products:
        """Of the difference itself: nothing cancels where the two are nearly equal."""
        return self._joint(lambda a, b: (self(a) - self(b)) ** 2, *pair)

    def _joint(self, function: Callable[[Any, Any], np.ndarray], *gaussians: np.ndarray) -> Products:
        """`E function(A, B)` and its derivatives: by scores of the Gaussians, which need some width."""
        m1, v1, m2, v2, c = (np.asarray(a, np.float64)[..., None, None] for a in np.broadcast_arrays(*gaussians))
        x, y, w = self._x[:, None], self._x, self._w[:, None] * self._w

        def values(v1: np.ndarray, v2: np.ndarray, r: np.ndarray, q: np.ndarray) -> np.ndarray:
            return function(m1 + np.sqrt(v1) * x, m2 + np.sqrt(v2) * (r * x + q * y)) * w

        narrow1, narrow2 = np.maximum(v1, 0.0), np.maximum(v2, 0.0)
        true_r = np.clip(c / np.sqrt(np.maximum(narrow1 * narrow2, 1e-300)), -1, 1)
        exact = values(narrow1, narrow2, true_r, np.sqrt((1 - true_r) * (1 + true_r)))
        wide1, wide2 = np.maximum(v1, _LEAST_SMOOTH), np.maximum(v2, _LEAST_SMOOTH)
        s1, s2 = np.sqrt(wide1), np.sqrt(wide2)
        r = np.clip(c / (s1 * s2), -1 + _LEAST_SMOOTH, 1 - _LEAST_SMOOTH)
        q = np.sqrt((1 - r) * (1 + r))
        same = np.array_equal(wide1, v1) and np.array_equal(wide2, v2) and np.array_equal(r, true_r)
        wider = exact if same else values(wide1, wide2, r, q)
        score1, score2 = (x - r * y / q) / s1, y / (q * s2)

        def total(factor: Any) -> np.ndarray:
            return (wider * factor).sum(axis=(-2, -1))

        return (
            exact.sum(axis=(-2, -1)),
            total(score1),
            total(score1**2 - 1 / (q * s1) ** 2) / 2,
            total(score2),
            total(score2**2 - 1 / (q * s2) ** 2) / 2,
            total(score1 * score2 + r / (q**2 * s1 * s2)),
        )


def _located(path: str, name: str) -> Link:
    function: Any = locate(path)
    return Smooth(function, name)


LINKS: dict[str, Link] = {link.name: link for link in (Linear(), Quadratic(), ReLU(), Sign())}


def as_link(link: str | Link | Callable[[Any], Any]) -> Link:
    """A link by its name, a link itself, or a smooth function as a link, once it has been tried."""
    if isinstance(link, Link):
        if not isinstance(link, Hashable):  # tables and compiled programs are found by it
            raise ArgumentTypeError("link", f"link={link} cannot be hashed. Make its class a frozen dataclass.")
        return link
    if isinstance(link, str):
        if link not in LINKS:
            raise ArgumentError("link", f"link={link!r} is not known. {suggestion(link, LINKS)} Or give a function.")
        return LINKS[link]
    if not callable(link):
        raise ArgumentTypeError("link", f"link={link!r} must be a name, a function of an array, or a slr.Link.")
    name = getattr(link, "__name__", "link")
    t = _TRIED
    try:
        with np.errstate(all="ignore"):
            values = np.asarray(link(t), np.float64)
    except Exception as error:
        raise ArgumentError(
            "link", f"link={name} fails on an array of numbers ({error}). Write it with array functions."
        ) from error
    if values.shape != t.shape:
        raise ArgumentError(
            "link", f"link={name} maps shape {t.shape} to shape {values.shape}. It must act entry by entry."
        )
    if not np.isfinite(values).all():
        worst = t[~np.isfinite(values)][0]
        raise ArgumentError(
            "link", f"link={name} is {values[~np.isfinite(values)][0]} at {worst:g}. It must be finite everywhere."
        )
    return Smooth(link, name)


def _gauss_hermite(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for a standard normal."""
    x, w = np.polynomial.hermite_e.hermegauss(count)
    return x, w / w.sum()


def _standard(m: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Standard deviation, mean in units of it, probability to be positive, normal density there."""
    s = np.sqrt(np.maximum(v, _LEAST_VARIANCE))
    t = m / s
    return s, t, ndtr(t), np.exp(-np.minimum(t**2, 1e4) / 2) / _ROOT_TWO_PI


def _correlation(c: np.ndarray, s1: np.ndarray, s2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Correlation, and the sine that goes with it."""
    r = np.clip(c / (s1 * s2), -1, 1)
    return r, np.maximum(np.sqrt((1 - r) * (1 + r)), _LEAST_SINE)


def _given_zero(
    m: np.ndarray, v: np.ndarray, other: np.ndarray, s: np.ndarray, c: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance given that the other Gaussian, of mean `other` and standard deviation `s`, is 0."""
    return m - c / s**2 * other, np.maximum(v - (c / s) ** 2, 0.0)


def _both_positive(h: np.ndarray, k: np.ndarray, r: np.ndarray, q: np.ndarray) -> np.ndarray:
    """`P(Z_1 < h, Z_2 < k)` at correlation `r`, `q = sqrt(1 - r^2)`, by Owen's function.

    `scipy.stats.multivariate_normal.cdf` takes one correlation at a time, and has 1e-8 of accuracy; this has 1e-15.
    """
    h, k = (np.where(x == 0, 1e-300, x) for x in np.broadcast_arrays(h, k))
    with np.errstate(over="ignore"):
        first, second = owens_t(h, (k - r * h) / (h * q)), owens_t(k, (h - r * k) / (k * q))
    apart = np.where((h > 0) == (k > 0), 0.0, 0.5)
    return np.clip((ndtr(h) + ndtr(k)) / 2 - first - second - apart, 0.0, 1.0)

"""Coordinatewise functions that know their Gaussian moments."""

import functools
import numbers
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._expectation import gaussian_expectation
from ._mehler import mehler_kernel, rule_error

Dual = Callable[[Any, Any, Any], Any]
_KERNEL_ERROR = 2e-3  # kinks cost 4e-4


@dataclass(frozen=True)
class Activation:
    """A coordinatewise function with a name and, where one exists, a closed form of its dual.

    The dual is `kappa(a, b, c) = E phi(u) phi(v)` for `(u, v)` centred Gaussian with variances `a`, `b` and covariance
    `c`. `identity_up_to` is the largest `|x|` up to which the function is the identity.

    !!! Example

        >>> import limitlaw as ll
        >>> ll.activation("relu")
        relu
        >>> float(ll.clip(2.0)(5.0))
        2.0
    """

    name: str
    function: Callable[[Any], Any] = field(repr=False)
    dual: Dual | None = field(default=None, repr=False, compare=False)
    identity_up_to: float = field(default=0.0, repr=False)
    takes_arrays: bool = field(default=False, repr=False, compare=False)  # otherwise it may be written for one number

    def __call__(self, x: Any) -> jax.Array:
        x = jnp.asarray(x)
        if self.takes_arrays:
            return self.function(x)
        return jax.vmap(self.function)(x.ravel()).reshape(x.shape)

    def __repr__(self) -> str:
        return self.name

    @functools.cached_property
    def at_zero(self) -> float:
        """`phi(0)`.

        !!! Example

            >>> import limitlaw as ll
            >>> ll.activation("gelu").at_zero, ll.activation("sigmoid").at_zero
            (0.0, 0.5)
        """
        return float(jax.jit(self)(0.0))  # one program in place of one for every operation

    def kernel(self, covariance: Any) -> jax.Array:
        """`E phi(u_i) phi(u_j)`, `u ~ N(0, covariance)`, on the two leading axes; trailing axes are draws.

        In closed form where there is one. Otherwise by Mehler's series in the correlation, `sum_k c_k(a_i) c_k(a_j) rho^k`, with the
        Hermite coefficients `c_k(a)` of `phi(sqrt(a) z)` by quadrature; what the series leaves of `E phi(u_i)^2` is given to its next power, so that the
        diagonal is right and the matrix stays positive semi-definite. For tanh, silu, sigmoid and gelu_tanh up to a variance of 9 the error is below 1e-4
        of the diagonal, and 1e-6 up to a variance of 1.

        !!! Example

            >>> import jax.numpy as jnp, limitlaw as ll
            >>> print(ll.activation("relu").kernel(jnp.eye(2)).round(4))  # 1/2 and 1/(2 pi)
            [[0.5    0.1592]
             [0.1592 0.5   ]]
        """
        covariance = jnp.asarray(covariance)
        variance = jnp.einsum("ii...->i...", covariance)
        if self.dual is not None:
            return self.dual(variance[:, None], variance[None], covariance)
        return mehler_kernel(self, variance, covariance)

    def check_kernel(self) -> None:
        """Refuse a function whose averages quadrature does not find, as one with a jump.

        !!! Example

            >>> import jax.numpy as jnp, limitlaw as ll
            >>> ll.activation(jnp.sign).check_kernel()
            Traceback (most recent call last):
                ...
            ValueError: activation sign: its Gaussian averages are found to 5.1e-02 only, as those of a function with a jump; give the hidden layer a finite width.
        """
        if self.dual is None:
            error = _kernel_error(self)
            if not error < _KERNEL_ERROR:
                raise ValueError(
                    f"activation {self.name}: its Gaussian averages are found to {error:.1e} only, as those of a function with a jump; give the hidden layer a finite width."
                )

    def moments(self) -> tuple[float, float]:
        """`E phi(z)` and `E phi(z)^2` of a standard normal `z`.

        !!! Example

            >>> import limitlaw as ll
            >>> first, second = ll.activation("relu").moments()
            >>> print(f"{second:.7f} {first**2:.7f}")  # 1/2 and 1/(2 pi)
            0.5000000 0.1591549
        """

        return _moments(self)


@functools.cache
def _moments(phi: Activation) -> tuple[float, float]:
    def powers(xi: jax.Array) -> jax.Array:
        value = phi(xi[0])
        return jnp.stack([value, value**2])

    with jax.ensure_compile_time_eval():  # also while a rule is being traced
        first, second = gaussian_expectation(powers, 1)[0]
    return float(first), float(second)


def _relu_dual(a: Any, b: Any, c: Any) -> Any:
    xp = _namespace(a, b, c)
    size = xp.sqrt(a * b)
    alive = size > 0
    rho = xp.clip(xp.where(alive, c, 0.0) / xp.where(alive, size, 1.0), -1, 1)
    return size / (2 * np.pi) * (xp.sqrt(1 - rho**2) + (np.pi - xp.arccos(rho)) * rho)


def _erf_dual(a: Any, b: Any, c: Any) -> Any:
    xp = _namespace(a, b, c)
    return 2 / np.pi * xp.arcsin(xp.clip(2 * c / xp.sqrt((1 + 2 * a) * (1 + 2 * b)), -1, 1))


def _gelu_dual(a: Any, b: Any, c: Any) -> Any:
    xp = _namespace(a, b, c)
    size = (1 + a) * (1 + b)
    rest = 1 + a + b + xp.maximum(a * b - c**2, 0.0)  # size - c^2, without its cancellation
    return (
        c / 4
        + c / (2 * np.pi) * xp.arcsin(xp.clip(c / xp.sqrt(size), -1, 1))
        + (a * b / size * xp.sqrt(rest) + c**2 / size / xp.sqrt(rest)) / (2 * np.pi)
    )


def _namespace(*values: Any) -> Any:
    """jax.numpy for what jax holds, numpy (float64) for the rest."""
    return jnp if any(isinstance(value, jax.Array) for value in values) else np


_known = functools.partial(Activation, takes_arrays=True)
_NAMED = {
    "identity": _known("identity", lambda x: x, lambda a, b, c: c, inf),
    "relu": _known("relu", jax.nn.relu, _relu_dual),
    "tanh": _known("tanh", jnp.tanh),
    "erf": _known("erf", jax.scipy.special.erf, _erf_dual),
    "gelu": _known("gelu", lambda x: jax.nn.gelu(x, approximate=False), _gelu_dual),
    "gelu_tanh": _known("gelu_tanh", lambda x: jax.nn.gelu(x, approximate=True)),
    "silu": _known("silu", jax.nn.silu),
    "sigmoid": _known("sigmoid", jax.nn.sigmoid),
}
_BY_FUNCTION = {named.function: named for named in _NAMED.values()}


def clip(bound: Any) -> Activation:
    """`clip(x) = min(max(x, -bound), bound)`; the paper takes `bound = 100`.

    !!! Example

        >>> import limitlaw as ll
        >>> ll.clip(100.0)
        clip(100.0)
    """
    if isinstance(bound, bool) or not isinstance(bound, numbers.Real) or not float(bound) > 0:
        raise ValueError(f"bound={bound!r}: clip needs a positive number.")
    return _known(f"clip({float(bound)!r})", _Clip(float(bound)), identity_up_to=float(bound))


@dataclass(frozen=True)
class _Clip:
    bound: float

    def __call__(self, x: Any) -> Any:
        return jnp.clip(x, -self.bound, self.bound)


def activation(spec: Any) -> Activation:
    """An `Activation` from a name, an `Activation`, or any coordinatewise jax function.

    !!! Example

        >>> import jax.numpy as jnp, limitlaw as ll
        >>> ll.activation("gelu"), ll.activation(jnp.tanh), ll.activation("clip(100)"), ll.activation(lambda x: x**3)
        (gelu, tanh, clip(100.0), <lambda>)
    """
    if isinstance(spec, Activation):
        return spec
    if isinstance(spec, str):
        clipped = re.fullmatch(r"clip\((\d+\.?\d*(?:e[+-]?\d+)?)\)", spec)
        if clipped:
            return clip(float(clipped[1]))
        if spec not in _NAMED:
            known = ", ".join(map(repr, _NAMED))
            raise ValueError(
                f"activation={spec!r}: there is no such name; use one of {known}, 'clip(100)', or a function."
            )
        return _NAMED[spec]
    if not callable(spec):
        raise TypeError(f"activation={spec!r}: must be a name, a limitlaw activation, or a coordinatewise function.")
    try:
        known = _BY_FUNCTION.get(spec)
    except TypeError:
        raise TypeError(
            f"activation={spec!r}: a function must be hashable, so that what is compiled for it is found again."
        ) from None
    if known is not None:
        return known
    check_coordinatewise(spec, 1, f"activation={spec!r}")
    return Activation(getattr(spec, "__name__", type(spec).__name__), spec)


def check_coordinatewise(function: Callable[..., Any], arguments: int, what: str, *, scalar: bool = True) -> None:
    """Refuse a function that does not map `arguments` numbers to one (to anything, unless `scalar`).

    !!! Example

        >>> import jax.numpy as jnp
        >>> from limitlaw.numerics import check_coordinatewise
        >>> check_coordinatewise(jnp.tanh, 1, "tanh")
        >>> check_coordinatewise(lambda x: x * jnp.ones(2), 1, "pair")
        Traceback (most recent call last):
            ...
        ValueError: pair: maps numbers to ...; it must return one real number.
    """
    try:
        out = jax.eval_shape(function, *[jax.ShapeDtypeStruct((), jnp.float32)] * arguments)
    except Exception as error:  # whatever the user's function raises
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"{what}: fails on {arguments} numbers ({reason}); it must be a jax function of one coordinate."
        ) from error
    if scalar and (getattr(out, "shape", None) != () or not jnp.issubdtype(out.dtype, jnp.floating)):
        raise ValueError(f"{what}: maps numbers to {out}; it must return one real number.")


@functools.cache
def _kernel_error(phi: Activation) -> float:
    return rule_error(phi)

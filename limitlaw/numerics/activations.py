"""Activations: coordinatewise functions with their Gaussian moments."""

import functools
import numbers
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from math import inf
from operator import attrgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from .._checks import ArgumentError, ArgumentTypeError, suggestion
from .integrate import REACH, gaussian_expectation, hermite_mean, mehler_error, mehler_kernel

Dual = Callable[[Any, Any, Any], Any]
_KERNEL_ERROR = 2e-3  # largest error of a dual as a share of E phi^2: kinks give 4e-4 and pass, jumps give 5e-2
_MISSED = 1e-3  # largest share of E phi(z)^2 beyond REACH: x^9 has 2e-9, x^20 has 1e-4, exp(x^2 / 4) has 1/2
_NODES = 300  # points on each side of 0 at which a function is tested, up to twice REACH in steps of 0.06


@dataclass(frozen=True)
class Activation:
    """A coordinatewise function with a name and, where one exists, a closed form of its dual.

    Activations are values: they can be compared, hashed, copied and pickled. A function of your own is pickled by its
    name in a module, as usual.

    Args:
        name: The name of the activation.
        function: A JAX function of one number.
        dual: The function `kappa(a, b, c) = E phi(u) phi(v)` of centred Gaussians with variances `a`, `b` and
            covariance `c`, or None.
        identity_up_to: The largest `|x|` up to which the function is the identity.
        takes_arrays: Whether the function may be called on arrays; otherwise it is called on one number at a time.

    Example:
        >>> import limitlaw as ll
        >>> ll.activation("relu")
        relu
        >>> float(ll.clip(2.0)(5.0))
        2.0
    """

    name: str
    function: Callable[..., Any] = field(repr=False)
    dual: Dual | None = field(default=None, repr=False, compare=False)
    identity_up_to: float = field(default=0.0, repr=False)
    takes_arrays: bool = field(default=False, repr=False, compare=False)

    def __call__(self, x: ArrayLike) -> jax.Array:
        x = jnp.asarray(x)
        if self.takes_arrays:
            return self.function(x)
        return jax.vmap(self.function)(x.ravel()).reshape(x.shape)

    def __repr__(self) -> str:
        return self.name

    def __deepcopy__(self, memo: dict[int, Any]) -> "Activation":
        return self

    def __reduce__(self) -> tuple[Callable[..., "Activation"], tuple[Any, ...]]:
        if _NAMED.get(self.name) == self:
            return activation, (self.name,)
        functions = _reference(self.function), _reference(self.dual)
        return _restored, (self.name, *functions, self.identity_up_to, self.takes_arrays)

    @functools.cached_property
    def at_zero(self) -> float:
        """`phi(0)`.

        Example:
            >>> import limitlaw as ll
            >>> ll.activation("gelu").at_zero, ll.activation("sigmoid").at_zero
            (0.0, 0.5)
        """
        with jax.ensure_compile_time_eval():  # so that it is a number while a network is traced
            return float(jax.jit(self)(0.0))  # compiles one program instead of one for each operation

    def kernel(self, covariance: ArrayLike) -> jax.Array:
        """`E phi(u_i) phi(u_j)` for `u ~ N(0, covariance)`.

        The closed form is used if there is one. Otherwise it is Mehler's series in the correlation, `sum_k c_k(a_i)
        c_k(a_j) rho^k`, with the Hermite coefficients `c_k(a)` of `phi(sqrt(a) z)` by quadrature. The part of
        `E phi(u_i)^2` that the series misses is assigned to its next power, so the diagonal is right and the matrix is
        positive semi-definite. For tanh, silu, sigmoid and gelu_tanh up to a variance of 9 the error is below 1e-4 of
        the diagonal, and 1e-6 up to a variance of 1.

        Args:
            covariance: Covariance matrices `(s, s, *draws)`.

        Returns:
            The matrices of second moments, `(s, s, *draws)`.

        Example:
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

    def mean(self, variance: ArrayLike) -> jax.Array:
        """`E phi(u)` for `u ~ N(0, variance)`.

        Args:
            variance: Variances, of any shape.

        Returns:
            The means, from the dual up to their sign if there is one, otherwise by quadrature.

        Example:
            >>> import limitlaw as ll
            >>> print(ll.activation("relu").mean(1.0).round(6))  # 1 / sqrt(2 pi)
            0.398942
        """
        variance = jnp.asarray(variance)
        mean = hermite_mean(self, variance)
        if self.dual is None:
            return mean
        # The dual of independent Gaussians is the squared mean, without the 4e-4 that a kink costs quadrature.
        return jnp.sign(mean) * jnp.sqrt(jnp.maximum(self.dual(variance, variance, jnp.zeros_like(variance)), 0.0))

    def check_kernel(self) -> None:
        """Refuse a function whose Gaussian averages are inaccurate by quadrature, such as one with a jump.

        Raises:
            ArgumentError: If the averages are wrong by more than 0.2 %.

        Example:
            >>> import jax.numpy as jnp, limitlaw as ll
            >>> ll.activation(jnp.sign).check_kernel()
            Traceback (most recent call last):
                ...
            limitlaw._checks.ArgumentError: activation=sign has Gaussian averages that are accurate to 5.1e-02 only...
        """
        if self.dual is None:
            error = _kernel_error(self)
            if not error < _KERNEL_ERROR:
                raise ArgumentError(
                    "activation",
                    f"activation={self} has Gaussian averages that are accurate to {error:.1e} only, because it seems "
                    f"to be discontinuous. Give the hidden layer a finite width.",
                )

    def moments(self) -> tuple[float, float]:
        """`E phi(z)` and `E phi(z)^2` of a standard normal `z`.

        Returns:
            The first and the second moment.

        Example:
            >>> import limitlaw as ll
            >>> first, second = ll.activation("relu").moments()
            >>> print(f"{second:.7f} {first**2:.7f}")  # 1/2 and 1/(2 pi)
            0.5000000 0.1591549
        """

        return _moments(self)


def _reference(function: Callable[..., Any] | None) -> Any:
    """The module and name of a function if they lead back to it, otherwise the function, which is pickled as usual.

    Pickle refuses the results of `jax.jit`, such as `jnp.tanh`, although they can be found by name. A main module may
    differ between processes, so its names are not used.
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if module in (None, "__main__") or name is None or "<" in name:
        return function
    try:
        return (module, name) if attrgetter(name)(sys.modules[module]) is function else function
    except (AttributeError, KeyError):
        return function


def _found(reference: Any) -> Any:
    return attrgetter(reference[1])(import_module(reference[0])) if isinstance(reference, tuple) else reference


def _restored(name: str, function: Any, dual: Any, identity_up_to: float, takes_arrays: bool) -> Activation:
    return Activation(name, _found(function), _found(dual), identity_up_to, takes_arrays)


@functools.cache
def _moments(phi: Activation) -> tuple[float, float]:
    def powers(xi: jax.Array) -> jax.Array:
        value = phi(xi[0])
        return jnp.stack([value, value**2])

    with jax.ensure_compile_time_eval():  # so that they are numbers while a rule is traced
        first, second = gaussian_expectation(powers, 1)[0]
    return float(first), float(second)


def _relu_dual(a: Any, b: Any, c: Any) -> Any:
    xp = _namespace(a, b, c)
    alive = a * b > 0
    size = xp.where(alive, xp.sqrt(xp.where(alive, a * b, 1.0)), 0.0)
    rho = xp.clip(xp.where(alive, c, 0.0) / xp.where(alive, size, 1.0), -1, 1)
    # sqrt(1 - rho^2) has an infinite derivative at |rho| = 1, which would become NaN in gradients, so it is replaced
    # by a constant there.
    apart = rho**2 < 1
    sine = xp.where(apart, xp.sqrt(xp.where(apart, 1 - rho**2, 1.0)), 0.0)
    return size / (2 * np.pi) * (sine + (np.pi - xp.arctan2(sine, rho)) * rho)


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
    """`jax.numpy` if an argument is a JAX array, otherwise NumPy, which computes in float64."""
    return jnp if any(isinstance(value, jax.Array) for value in values) else np


def _identity(x: jax.Array) -> jax.Array:
    return x


def _identity_dual(a: Any, b: Any, c: Any) -> Any:
    return c


def _gelu(x: jax.Array) -> jax.Array:
    return jax.nn.gelu(x, approximate=False)


def _gelu_tanh(x: jax.Array) -> jax.Array:
    return jax.nn.gelu(x, approximate=True)


_NAMED = {
    known.name: known
    for known in (
        Activation("identity", _identity, _identity_dual, inf, takes_arrays=True),
        Activation("relu", jax.nn.relu, _relu_dual, takes_arrays=True),
        Activation("tanh", jnp.tanh, takes_arrays=True),
        Activation("erf", jax.scipy.special.erf, _erf_dual, takes_arrays=True),
        Activation("gelu", _gelu, _gelu_dual, takes_arrays=True),
        Activation("gelu_tanh", _gelu_tanh, takes_arrays=True),
        Activation("silu", jax.nn.silu, takes_arrays=True),
        Activation("sigmoid", jax.nn.sigmoid, takes_arrays=True),
    )
}
_BY_FUNCTION = {named.function: named for named in _NAMED.values()}
_ELSEWHERE = {  # names of other libraries
    "swish": "silu",
    "linear": "identity",
    "none": "identity",
    "logistic": "sigmoid",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python": "gelu",
}


def clip(bound: Any) -> Activation:
    """`clip(x) = min(max(x, -bound), bound)`.

    Args:
        bound: A positive number; the paper uses 100.

    Returns:
        The activation.

    Raises:
        ArgumentError: If the bound is not positive.
        ArgumentTypeError: If the bound is not a number.

    Example:
        >>> import limitlaw as ll
        >>> ll.clip(100.0)
        clip(100.0)
    """
    if isinstance(bound, bool) or not isinstance(bound, numbers.Real):
        raise ArgumentTypeError("bound", f"bound={bound!r} must be a positive number.")
    if not float(bound) > 0:
        raise ArgumentError("bound", f"bound={bound!r} must be positive.")
    bound = float(bound)
    return Activation(f"clip({bound!r})", _Clip(bound), identity_up_to=bound, takes_arrays=True)


@dataclass(frozen=True)
class _Clip:
    bound: float

    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.clip(x, -self.bound, self.bound)


def activation(spec: Any) -> Activation:
    """An `Activation` from a name, an `Activation`, or any coordinatewise JAX function.

    Args:
        spec: A name ("identity", "relu", "tanh", "erf", "gelu", "gelu_tanh", "silu", "sigmoid", "clip(100)"), an
            activation, or a function of one number. A function is tested on a few numbers, once.

    Returns:
        The activation.

    Raises:
        ArgumentError: If the name is unknown, the function does not map each coordinate separately to one real number,
            or `E phi(z)^2` of a standard normal `z` is not finite.
        ArgumentTypeError: If it is neither a name nor a function, or a function that cannot be hashed.

    Example:
        >>> import jax.numpy as jnp, limitlaw as ll
        >>> ll.activation("gelu"), ll.activation(jnp.tanh), ll.activation("clip(100)"), ll.activation(lambda x: x**3)
        (gelu, tanh, clip(100.0), <lambda>)
    """
    if isinstance(spec, str):
        return _of_name(spec)
    if not callable(spec):
        raise ArgumentTypeError(
            "activation", f"activation={spec!r} must be a name, a limitlaw.Activation, or a coordinatewise function."
        )
    try:
        hash(spec)
    except TypeError:
        raise ArgumentTypeError(
            "activation",
            f"activation={spec!r} must be hashable, because compiled programs are stored by it. Use a function.",
        ) from None
    if not isinstance(spec, Activation):
        return _BY_FUNCTION.get(spec) or _of_function(spec)
    if spec not in _NAMED.values() and not isinstance(spec.function, _Clip):
        _of_function(spec.function)
    return spec


def _of_name(name: str) -> Activation:
    clipped = re.fullmatch(r"clip\((\d+\.?\d*(?:e[+-]?\d+)?)\)", name)
    if clipped:
        return clip(float(clipped[1]))
    if name not in _NAMED:
        same = _ELSEWHERE.get(name.lower())
        remedy = f"Did you mean {same!r}?" if same else suggestion(name, [*_NAMED, "clip(100)"])
        raise ArgumentError("activation", f"activation={name!r} is not a known name. {remedy} Or give a function.")
    return _NAMED[name]


@functools.lru_cache(maxsize=256)  # each function is tested once
def _of_function(spec: Callable[..., Any]) -> Activation:
    phi = Activation(getattr(spec, "__name__", type(spec).__name__), spec)
    check_coordinatewise(spec, 1, f"activation={phi}", argument="activation")
    _check_values(phi)
    return phi


def check_coordinatewise(
    function: Callable[..., Any], arguments: int, what: str, *, scalar: bool = True, argument: str = "function"
) -> None:
    """Refuse a function that does not map numbers to a number.

    Args:
        function: The function.
        arguments: The number of numbers that it takes.
        what: The first words of the error, which name the function.
        scalar: Whether it must return one number; otherwise it may return any shape.
        argument: The name of the argument in the error.

    Raises:
        ArgumentError: If the function fails, or returns anything but one real number.

    Example:
        >>> import jax.numpy as jnp
        >>> from limitlaw.numerics.activations import check_coordinatewise
        >>> check_coordinatewise(jnp.tanh, 1, "tanh")
        >>> check_coordinatewise(lambda x: x * jnp.ones(2), 1, "pair")
        Traceback (most recent call last):
            ...
        limitlaw._checks.ArgumentError: pair maps numbers to ... It must return one real number.
    """
    try:
        out = jax.eval_shape(function, *[jax.ShapeDtypeStruct((), jnp.float32)] * arguments)
    except Exception as error:  # whatever the user's function raises
        reason = str(error).splitlines()[0]
        raise ArgumentError(
            argument,
            f"{what} fails on {arguments} number{'s' * (arguments > 1)} ({reason}). "
            f"Give a JAX function of single coordinates.",
        ) from error
    if scalar and (getattr(out, "shape", None) != () or not jnp.issubdtype(out.dtype, jnp.floating)):
        raise ArgumentError(argument, f"{what} maps numbers to {out}. It must return one real number.")


def _check_values(phi: Activation) -> None:
    """Refuse a function that mixes coordinates, is not finite, or has no second moment under a standard normal."""
    z = np.linspace(-2 * REACH, 2 * REACH, 2 * _NODES + 1)  # an odd number of points includes 0
    few = np.array([-1.7, -0.6, 0.3, 1.1, 2.4])  # not symmetric or centred, so a function that mixes them is noticed
    with jax.ensure_compile_time_eval(), jax.enable_x64(False):
        one_by_one = jax.jit(jax.vmap(phi.function))(np.concatenate([z, few]).astype(np.float32))
        values, alone = np.split(np.asarray(one_by_one, np.float64), [z.size])
        try:
            together = np.asarray(jax.jit(phi.function)(few.astype(np.float32)), np.float64)
        except Exception:  # a function that is written for one number may fail on several
            together = alone
    if np.isfinite(alone).all() and (
        together.shape not in ((), alone.shape) or not np.allclose(together, alone, 1e-3, 1e-3 * np.abs(alone).max())
    ):
        raise ArgumentError(
            "activation",
            f"activation={phi} mixes coordinates, because its values on several numbers differ from those on each "
            f"number. Use a function of one coordinate, or limitlaw.LayerNorm or limitlaw.RMSNorm to normalise tokens.",
        )
    strange = np.isnan(values) | (np.isinf(values) & (np.abs(z) <= 1))
    if strange.any():
        nearest = np.flatnonzero(strange)[np.abs(z[strange]).argmin()]
        raise ArgumentError(
            "activation",
            f"activation={phi} is {values[nearest]:g} at x={z[nearest]:g}. It must be finite at every number.",
        )
    # The integral of phi^2 between REACH and twice REACH is large if E phi(z)^2 is infinite, or if quadrature up to
    # REACH would miss part of it.
    with np.errstate(over="ignore", invalid="ignore"):
        squares = values**2 * np.exp(-(z**2) / 2)
        missed = squares[np.abs(z) > REACH].sum()
        finite = missed <= _MISSED * squares.sum() < inf
    if not finite:
        raise ArgumentError(
            "activation",
            f"activation={phi} grows so fast that E phi(z)^2 of a standard normal z is infinite, or depends on "
            f"values beyond {REACH:g} standard deviations. Use a function that grows more slowly than exp(x^2 / 4), or "
            f"clip it.",
        )


@functools.cache
def _kernel_error(phi: Activation) -> float:
    return mehler_error(phi)

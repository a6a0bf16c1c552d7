"""The input tokens of Sakai, Karakida and Imaizumi 2025."""

from math import isinf
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import _checks
from ...netsor import Program, Vector
from ...numerics import Activation, activation as resolve_activation, random
from ...numerics.chi import chi_square_mean
from ...numerics.linalg import psd_root
from .._layer import Context, Cost, InputLayer, Purpose
from .._rules import as_numbers, averaged_products
from ..layers._dense import USUAL_UNITS
from ..state import Isotropic, Stream, Tokens

_NORMAL_REACH = 9.0  # a standard normal exceeds it with probability 2e-19
_FLOAT32_REACH = 6.0  # no standard normal drawn in float32 is larger


class Inputs(InputLayer):
    """The inputs `x^i = phi(W_i h)`, `h ~ N(0, I_n)`, with a fresh `W_i` for each token.

    The tokens depend on each other only through the length of `h`, so at infinite width their Gram matrix has
    `E phi(z)^2` on the diagonal and `(E phi(z))^2` off it (Sakai, Karakida and Imaizumi 2025, section 5).

    Args:
        tokens: The number of tokens.
        activation: A name such as "relu", an `Activation`, or a coordinatewise jax function.

    Raises:
        ArgumentError: If the number of tokens is not a positive integer.

    Example:
        >>> import limitlaw as ll
        >>> ll.Inputs(tokens=4, activation="relu")
        Inputs(tokens=4, activation=relu)
    """

    tokens: int = eqx.field(converter=lambda tokens: int(_checks.positive_integer("tokens", tokens)))
    activation: Activation = eqx.field(default="identity", converter=resolve_activation)

    @property
    def size(self) -> int:
        return self.tokens

    @property
    def is_linear(self) -> bool:
        """Whether the activation is the identity wherever it is evaluated: on `r z` with `|r|, |z| <= 6` at width 1."""
        return self.activation.identity_up_to >= _FLOAT32_REACH**2

    def check_width(self, width: int | float, *, mean: bool = False) -> None:
        del mean
        if not self.is_linear:
            _checks.countable("width", width)

    def limit_gram(self) -> np.ndarray:
        across, own = self._limit_products()
        return np.full((self.tokens, self.tokens), across) + np.eye(self.tokens) * (own - across)

    def limit_mean(self) -> np.ndarray:
        linear = self.activation.identity_up_to >= _NORMAL_REACH
        return np.full(self.tokens, 0.0 if linear else self.activation.moments()[0])

    def zero_tokens(self, centred: bool = False) -> np.ndarray:
        del centred
        return np.full(self.tokens, self._limit_products()[1] <= 0)

    def _limit_products(self) -> tuple[float, float]:
        """`(E phi(z))^2` and `E phi(z)^2`, in closed form if there is one."""
        phi = self.activation
        if phi.identity_up_to >= _NORMAL_REACH:
            return 0.0, 1.0
        if phi.dual is not None:
            return float(phi.dual(1.0, 1.0, 0.0)), float(phi.dual(1.0, 1.0, 1.0))
        first, second = phi.moments()
        return first**2, second

    def tokens_at(self, width: int, context: Context) -> Float[Array, "s n"]:
        h = jax.random.normal(context.key("h"), (width,))

        def token(index: Array) -> Float[Array, "n"]:
            key = jax.random.fold_in(context.key("weights"), index)
            return self.activation(jax.random.normal(key, (width, width)) @ h / np.sqrt(width))

        return jax.lax.map(token, jnp.arange(self.tokens))

    def lower(self, program: Program) -> list[Vector]:
        h = program.initial("h")
        return [
            program.nonlin(self.activation, program.matrix(f"W{i}") @ h, name=f"x{i}")
            for i in range(1, self.tokens + 1)
        ]

    def cost(self, width: int | float) -> Cost:
        if self.is_linear:
            return Cost(matrices=1.0)
        units = 0.0 if isinf(width) else float(width)
        return Cost(matrices=1.0, units=units, usual_units=max(units, USUAL_UNITS))

    def bind(self, width: int | float, purpose: Purpose) -> "IsotropicStart | CoordinateStart":
        if self.is_linear:
            return IsotropicStart()
        limit, mean = as_numbers((self.limit_gram(), self.limit_mean()))
        return CoordinateStart(self.tokens, self.activation, limit, mean, purpose.static(width))


class IsotropicStart(eqx.Module):
    """Linear inputs: independent Gaussian tokens of one common random length."""

    def start(self, width: Float[Array, ""], context: Context, draws: int, tracks_mean: bool) -> Stream:
        """The first stream of a batch."""
        del tracks_mean
        return Isotropic(_length(width, context, draws), width, context.key("settle"), context.layout.size)


class CoordinateStart(eqx.Module):
    """Nonlinear inputs: given `r^2 = |h|^2 / n`, the drawn coordinates are `phi(r z)` with i.i.d. normal `z`."""

    tokens: int = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)
    limit: Any
    limit_mean: Any
    static_width: int | None = eqx.field(static=True)

    def start(self, width: Float[Array, ""], context: Context, draws: int, tracks_mean: bool) -> Stream:
        """The first stream of a batch."""
        length, size = _length(width, context, draws), self.tokens

        def coordinate(z: Float[Array, "s units draws"]) -> Float[Array, "rows units draws"]:
            x = self.activation(length * z)
            # The coordinate mean of a token is its product with the all-ones vector, over n.
            return jnp.concatenate([jnp.ones_like(x[:1]), x]) if tracks_mean else x

        key = context.key("coordinates")
        sampled = averaged_products(coordinate, size, size + tracks_mean, width, key, draws, self.static_width)
        limit = self.limit
        if tracks_mean:
            mean = self.limit_mean[None]
            limit = jnp.block([[jnp.ones((1, 1)), mean], [mean.T, limit]])
        products = jnp.where(jnp.isinf(width), limit[..., None], sampled)
        if not tracks_mean:
            return Tokens(psd_root(products), width, products)
        # The first row is the all-ones vector, so the first axis of the triangular root is its direction.
        return Tokens(psd_root(products)[1:], width)


def _length(width: Float[Array, ""], context: Context, draws: int) -> Float[Array, "draws"]:
    """`|h| / sqrt(n)` of a normal vector `h`."""
    return jnp.sqrt(chi_square_mean(random.normal(context.key("length"), (draws,)), width))

"""The plain layer of a perceptron."""

from math import isinf
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import _checks
from ...numerics import Activation, activation as resolve_activation
from ...numerics.linalg import multiply, psd_root
from .._layer import Context, Cost, Layer, Layout, Matrix, Purpose
from .._rules import LeafRule, as_numbers, averaged_products
from ..state import Frame, Stream, Tokens


class Dense(Layer):
    """`phi(X W + b)`, weights `N(0, std^2 / n)`, bias `N(0, bias_std^2)`: the plain layer of a perceptron.

    Its output is the new stream itself and not that of a fresh matrix, so it cannot be a residual branch; use `MLP`
    there, or put `Linear` after it. At infinite width the new Gram matrix is the dual activation of the old one (Cho
    and Saul 2009), so stacks of `Dense` are the networks of neural-network Gaussian processes.

    Args:
        activation: A name such as "relu", an `Activation`, or a coordinatewise jax function.
        std: The standard deviation of a weight times `sqrt(n)`.
        bias_std: The standard deviation of an entry of the bias.

    Example:
        >>> import numpy as np, limitlaw as ll
        >>> net = ll.Network(ll.GramInputs(np.eye(2)), ll.Dense("relu", std=2**0.5))
        >>> print(net.sample(1, observe="gram")[0].round(4))  # infinite width: 1 and 1/pi
        [[1.     0.3183]
         [0.3183 1.    ]]
    """

    activation: Activation = eqx.field(default="relu", converter=resolve_activation)
    std: float = eqx.field(default=1.0, converter=lambda std: _checks.standard_deviation("std", std))
    bias_std: float = eqx.field(default=0.0, converter=lambda std: _checks.standard_deviation("bias_std", std))

    def matrices(self, width: int | float, layout: Layout) -> dict[str, Matrix]:
        del layout
        return {"in": Matrix(width, self.std, self.bias_std)}

    def inner(self, u: dict[str, Array], context: Context) -> Array:
        del context
        return self.activation(u["in"])

    def check_width(self, width: int | float) -> None:
        if isinf(width):
            self.activation.check_kernel()
        _checks.countable("width", width)

    def is_deterministic(self, width: int | float) -> bool:
        return isinf(width)

    def zero_tokens(self, zero: np.ndarray, active: np.ndarray, layout: Layout) -> np.ndarray:
        del active, layout
        if self.activation.at_zero != 0 or not _checks.is_zero(self.bias_std):
            return np.zeros_like(zero)
        return zero | _checks.is_zero(self.std)

    def cost(self, width: int | float, layout: Layout) -> Cost:
        del layout
        units = 0.0 if isinf(width) else float(width)
        return Cost(matrices=4.0, units=units, usual_units=max(units, USUAL_UNITS))

    def contract(self, width: int | float, layout: Layout, purpose: Purpose) -> "ContractedDense | None":
        matrix = self.matrices(width, layout)["in"]
        return ContractedDense(
            as_numbers(matrix), as_numbers(width), self.activation, matrix.has_bias, purpose.static(width)
        )


USUAL_UNITS = 2**12  # up to this number of hidden units batches have one size, so the program is compiled once


class ContractedDense(LeafRule):
    """The rule of `Dense`: drawn coordinates at a finite width, the dual activation at infinite width."""

    matrix: Matrix
    width: Any
    activation: Activation = eqx.field(static=True)
    biased: bool = eqx.field(static=True)
    static_width: int | None = eqx.field(static=True)

    def step(
        self, tokens: Tokens, context: Context, frame: Frame, rows: tuple[int, ...] | None
    ) -> tuple[Stream, dict[str, Array]]:
        root = jnp.broadcast_to(tokens.factor, (*tokens.factor.shape[:2], frame.draws))
        factor = with_bias(self.matrix, root, self.biased)
        size, tracked = frame.layout.size, frame.tracks_mean

        def coordinate(z: Float[Array, "r units draws"]) -> Float[Array, "s units draws"]:
            x = self.activation(multiply(factor, z))
            # The coordinate mean of a token is its product with the all-ones vector, over n.
            return jnp.concatenate([jnp.ones_like(x[:1]), x]) if tracked else x

        def sampled(_: None) -> Float[Array, "t t draws"]:
            normals, key = factor.shape[1], context.key("units")
            return averaged_products(
                coordinate, normals, size + tracked, self.width, key, frame.draws, self.static_width
            )

        def limit(_: None) -> Float[Array, "t t draws"]:
            return self.limit(factor, tracked)

        products = jax.lax.cond(jnp.isinf(self.width), limit, sampled, None)
        if not tracked:
            return Tokens(psd_root(products), tokens.width, products), {}
        # The first row is the all-ones vector, so the first axis of the triangular root is its direction.
        return Tokens(psd_root(products)[1:], tokens.width), {}

    def limit(self, factor: Float[Array, "s r draws"], tracked: bool) -> Float[Array, "t t draws"]:
        """The Gram matrix at infinite width, with the all-ones vector as first row if the mean is tracked."""
        covariance = multiply(factor, jnp.swapaxes(factor, 0, 1))
        kernel = self.activation.kernel(covariance)
        if not tracked:
            return kernel
        mean = self.activation.mean(jnp.einsum("ii...->i...", covariance))
        ones = jnp.ones_like(mean[:1])
        return jnp.concatenate(
            [jnp.concatenate([ones, mean])[None], jnp.concatenate([mean[:, None], kernel], axis=1)], axis=0
        )


def with_bias(matrix: Matrix, root: Float[Array, "s r *draws"], biased: bool) -> Float[Array, "s q *draws"]:
    """A factor of the covariance of a coordinate of `X W + b`."""
    factor = matrix.std * root
    if not biased:
        return factor
    return jnp.concatenate([factor, jnp.broadcast_to(matrix.bias_std, factor[:, :1].shape)], axis=1)

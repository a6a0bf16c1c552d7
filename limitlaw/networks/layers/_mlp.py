"""A two-layer perceptron on every token."""

from math import inf, isinf
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import _checks
from ..._checks import ArgumentError
from ...numerics import Activation, activation as resolve_activation
from ...numerics.linalg import multiply
from .._layer import Context, Cost, Layer, Layout, Matrix, Purpose
from .._rules import ContractedRule, as_numbers, averaged_products
from ..state import Tokens
from ._dense import USUAL_UNITS, with_bias


def _std(name: str, default: float, *, kw_only: bool = True) -> Any:
    return eqx.field(default=default, kw_only=kw_only, converter=lambda value: _checks.standard_deviation(name, value))


class MLP(Layer):
    """A two-layer perceptron on every token: `phi(X W_in) W_out`, weights `N(0, std^2 / fan_in)`.

    With `gated=True` it is `(phi(X W_gate) * X W_in) W_out`, which is SwiGLU with "silu" and GeGLU with "gelu". Given
    the `m` hidden units `h` the output is Gaussian with covariance `out_std^2 phi(h) phi(h)^T / m`. Its limit at
    infinite hidden width is the dual activation (Cho and Saul 2009), in closed form or by a series in the correlation.
    The matrices are "in", "gate" (if gated) and "out".

    Args:
        activation: A name such as "relu", an `Activation`, or a coordinatewise jax function.
        ratio: The hidden width over the width of the model.
        width: The hidden width itself, a number or `inf`, in place of `ratio`.
        in_std: The standard deviation of an entry of `W_in` times the square root of its fan-in; `out_std` and
            `gate_std` likewise.
        gated: Whether the activation multiplies a second linear map.
        in_bias_std: The standard deviation of an entry of the hidden biases (both, if gated).
        out_bias_std: The standard deviation of an entry of the bias of the output.

    Raises:
        ArgumentError: If an argument is out of its range.

    Example:
        >>> import limitlaw as ll
        >>> ll.MLP("silu", gated=True, ratio=3.5)
        MLP(activation=silu, ratio=3.5, gated=True)
    """

    activation: Activation = eqx.field(default="relu", converter=resolve_activation)
    ratio: float = eqx.field(default=4.0, converter=lambda ratio: _checks.non_negative("ratio", ratio))
    width: int | float | None = eqx.field(
        default=None,
        converter=lambda width: None if width is None else _checks.positive_integer("width", width, infinite=True),
    )
    in_std: float = _std("in_std", 1.0, kw_only=False)
    out_std: float = _std("out_std", 1.0, kw_only=False)
    gated: bool = eqx.field(default=False, kw_only=True, converter=lambda gated: _checks.boolean("gated", gated))
    gate_std: float = _std("gate_std", 1.0)
    in_bias_std: float = _std("in_bias_std", 0.0)
    out_bias_std: float = _std("out_bias_std", 0.0)

    def __check_init__(self) -> None:
        if self.ratio == 0:
            raise ArgumentError("ratio", "ratio=0 leaves no hidden units. Give a positive ratio, such as 4.")

    def width_at(self, width: int | float) -> int | float:
        """The hidden width at this width of the model.

        Args:
            width: The width of the model, or `inf`.

        Returns:
            The number of hidden units, or `inf`.

        Example:
            >>> import limitlaw as ll
            >>> [ll.MLP(ratio=2.5).width_at(64), ll.MLP(width=100).width_at(64), ll.MLP().width_at(float("inf"))]
            [160, 100, inf]
        """
        if self.width is not None:
            return self.width
        return inf if isinf(width) else round(self.ratio * width)

    def matrices(self, width: int | float, layout: Layout) -> dict[str, Matrix]:
        del layout
        hidden = max(self.width_at(width), 1)
        gate = {"gate": Matrix(hidden, self.gate_std, self.in_bias_std)} if self.gated else {}
        out = Matrix(width, self.out_std, self.out_bias_std)
        return {"in": Matrix(hidden, self.in_std, self.in_bias_std), **gate, "out": out}

    def inner(self, u: dict[str, Array], context: Context) -> Array:
        del context
        return self.activation(u["gate"]) * u["in"] if self.gated else self.activation(u["in"])

    def check_width(self, width: int | float) -> None:
        units = self.ratio * width
        if self.width is None and not isinf(width) and (abs(units - round(units)) > 1e-6 or round(units) < 1):
            raise ArgumentError(
                "ratio",
                f"ratio={self.ratio:g} at width={width} gives {units:g} hidden units, which is not a positive whole "
                f"number. Give width=..., or another ratio.",
            )
        _checks.countable("width", self.width_at(width))
        if isinf(self.width_at(width)):
            self.activation.check_kernel()

    def is_deterministic(self, width: int | float) -> bool:
        return isinf(self.width_at(width))

    def zero_tokens(self, zero: np.ndarray, active: np.ndarray, layout: Layout) -> np.ndarray:
        del active, layout
        if not _checks.is_zero(self.out_bias_std):
            return np.zeros_like(zero)
        if _checks.is_zero(self.out_std):
            return np.ones_like(zero)
        keeps_zero = _checks.is_zero(self.in_bias_std) and (self.gated or self.activation.at_zero == 0)
        return zero & keeps_zero

    def cost(self, width: int | float, layout: Layout) -> Cost:
        del layout
        hidden = self.width_at(width)
        units = 0.0 if isinf(hidden) else float(hidden)
        return Cost(matrices=4.0, units=units, usual_units=max(units, USUAL_UNITS))

    def contract(self, width: int | float, layout: Layout, purpose: Purpose) -> "ContractedMLP":
        matrices = self.matrices(width, layout)
        hidden = self.width_at(width)
        return ContractedMLP(
            as_numbers(matrices),
            as_numbers(hidden),
            self.activation,
            self.gated,
            matrices["in"].has_bias,
            purpose.static(hidden),
        )


class ContractedMLP(ContractedRule):
    """The rule of `MLP`: drawn hidden units at a finite hidden width, the dual activation at infinite width."""

    matrices: dict[str, Matrix]
    hidden: Any
    activation: Activation = eqx.field(static=True)
    gated: bool = eqx.field(static=True)
    biased: bool = eqx.field(static=True)
    static_hidden: int | None = eqx.field(static=True)

    def covariance(
        self, tokens: Tokens, context: Context, draws: int, rows: tuple[int, ...] | None
    ) -> tuple[Float[Array, "s s draws"], dict[str, Array]]:
        # With K = root root^T the hidden units are `plain z` for standard normal z, at every width.
        root = jnp.broadcast_to(tokens.factor, (*tokens.factor.shape[:2], draws))
        plain = with_bias(self.matrices["in"], root, self.biased)
        gate = with_bias(self.matrices["gate"], root, self.biased) if self.gated else None
        axes = plain.shape[1]

        def limit(_: None) -> Float[Array, "s s draws"]:
            hidden = multiply(plain, jnp.swapaxes(plain, 0, 1))
            if gate is None:
                return self.activation.kernel(hidden)
            # Gate and input are independent, so the kernel of their product is the product of the two kernels.
            return self.activation.kernel(multiply(gate, jnp.swapaxes(gate, 0, 1))) * hidden

        def unit(z: Float[Array, "r units draws"]) -> Float[Array, "s units draws"]:
            if gate is None:
                return self.activation(multiply(plain, z))
            return self.activation(multiply(gate, z[:axes])) * multiply(plain, z[axes:])

        def sampled(_: None) -> Float[Array, "s s draws"]:
            normals = axes * (1 + self.gated)
            key, size = context.key("units"), root.shape[0]
            return averaged_products(unit, normals, size, self.hidden, key, draws, self.static_hidden)

        # The hidden width is traced: one program serves all widths, and the branch skips the draws at infinity.
        products = jax.lax.cond(jnp.isinf(self.hidden), limit, sampled, None)
        # The output is not drawn. Given the hidden units it is Gaussian, and only its covariance is returned.
        out = self.matrices["out"]
        return out.std**2 * products + out.bias_std**2, {}

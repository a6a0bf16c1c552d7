"""Token-wise normalisation."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import _checks
from ..._checks import ArgumentError, is_traced
from .._layer import Layout, RowMap


def _eps(default: float) -> Any:
    return eqx.field(default=default, converter=lambda eps: _checks.non_negative("eps", eps))


class RMSNorm(RowMap):
    """Scale every token to unit mean square, `x / sqrt(|x|^2 / n + eps)`, with gain 1 as at initialisation.

    Args:
        eps: Added to the mean square.

    Example:
        >>> import limitlaw as ll
        >>> ll.RMSNorm(eps=1e-6)
        RMSNorm(eps=1e-06)
    """

    eps: float = _eps(0.0)

    def rows(self, rows: Float[Array, "s r *draws"]) -> Float[Array, "s r *draws"]:
        return _normalised(rows, self.eps)

    def zero_tokens(self, zero: np.ndarray, active: np.ndarray, layout: Layout) -> np.ndarray:
        refuse_zero(self, zero & active)
        return zero


class LayerNorm(RowMap):
    """Centre and scale every token to mean 0 and variance 1 over its coordinates, `(x - m) / sqrt(v + eps)`.

    The gain is 1 and the bias 0, as at initialisation. The mean over coordinates is tracked, so inputs with a mean
    (`GramInputs(K, mean=...)`, sinusoidal positions) are treated exactly.

    Args:
        eps: Added to the variance.

    Example:
        >>> import numpy as np, limitlaw as ll
        >>> net = ll.Network(ll.GramInputs(np.eye(2), mean=[0.6, 0.0]), ll.LayerNorm(eps=0.0))
        >>> print(net.sample(1, width=8, observe="gram")[0].round(4))
        [[1. 0.]
         [0. 1.]]
    """

    eps: float = _eps(1e-5)

    @property
    def needs_mean(self) -> bool:
        return True

    @property
    def centres(self) -> bool:
        return True

    def rows(self, rows: Float[Array, "s r *draws"]) -> Float[Array, "s r *draws"]:
        centred = jnp.concatenate([jnp.zeros_like(rows[:, :1]), rows[:, 1:]], axis=1)  # the first axis is the mean
        return _normalised(centred, self.eps)

    def check_width(self, width: int | float) -> None:
        if width == 1:
            raise ArgumentError(
                "width",
                f"width=1 is too small for {self!r}, because a token with one coordinate is 0 after its mean is "
                "subtracted. Use a width of 2 or more, or RMSNorm.",
            )

    def zero_tokens(self, zero: np.ndarray, active: np.ndarray, layout: Layout) -> np.ndarray:
        refuse_zero(self, zero & active, "constant")
        return zero


def _normalised(rows: Float[Array, "s r *draws"], eps: Any) -> Float[Array, "s r *draws"]:
    """Rows scaled to length 1, with `eps` added to their squared lengths; a zero row stays zero."""
    square = jnp.sum(rows**2, axis=1) + eps
    # `square <= 0` and not its negation, so a NaN stays NaN and is noticed.
    dead = square <= 0
    return rows * jnp.where(dead, 0.0, jax.lax.rsqrt(jnp.where(dead, 1.0, square)))[:, None]


def refuse_zero(norm: RMSNorm | LayerNorm, zero: np.ndarray, what: str = "zero") -> None:
    """Raise if a norm without `eps` meets a token that is zero in every draw."""
    if not is_traced(norm.eps) and norm.eps == 0 and zero.any():
        raise ArgumentError(
            "eps",
            f"{norm!r} with eps=0 is not defined, because token {int(zero.argmax())} is {what}. Give eps > 0, or "
            f"inputs that are not {what}.",
        )

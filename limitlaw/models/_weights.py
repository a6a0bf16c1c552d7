"""Layers with weights `N(0, std^2)`, as the initialisers of transformers make them."""

from math import sqrt
from typing import Any

from ..networks import MLP, Attention


def self_attention(
    width: int, heads: int, std: float, out_std: float | None = None, *, mask: str | None = None, sharpness: float = 1.0
) -> Attention:
    """Heads that share the width.

    Args:
        width: The width of the stream.
        heads: The number of heads.
        std: The standard deviation of a weight.
        out_std: That of the output matrix, if it is another.
        mask: None or "causal".
        sharpness: A factor of the scores.

    Returns:
        The layer at this width.
    """
    scale = std * sqrt(width)
    return Attention(
        heads,
        head_dim="split",
        mask=mask,
        query_std=scale * sharpness,
        key_std=scale,
        value_std=scale,
        out_std=(std if out_std is None else out_std) * sqrt(width),
    )


def feed_forward(activation: Any, width: int, hidden: int, std: float, out_std: float | None = None) -> MLP:
    """A perceptron with `hidden` units.

    Args:
        activation: An activation of this library, or its name.
        width: The width of the stream.
        hidden: The number of hidden units.
        std: The standard deviation of a weight.
        out_std: That of the output matrix, if it is another.

    Returns:
        The layer at this width.
    """
    return MLP(
        activation,
        ratio=hidden / width,
        in_std=std * sqrt(width),
        out_std=(std if out_std is None else out_std) * sqrt(hidden),
    )

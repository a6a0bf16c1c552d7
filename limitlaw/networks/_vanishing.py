"""Which tokens are zero with certainty, layer by layer: a norm without `eps` cannot meet one."""

from typing import Any

import numpy as np

from ._attention import Attention
from ._described import InputLayer, Layer, Layout
from ._inputs import GramInputs
from ._layers import MLP, Only, Repeat, Residual
from ._norms import LayerNorm, RMSNorm

_PASSES = 3  # of a repetition: what vanishes has settled by then


def refuse_zero_tokens(inputs: InputLayer, layers: tuple[Layer, ...]) -> None:
    """Raise if a norm without `eps` meets a token that is zero with certainty."""
    zero = np.array(inputs.vanishing())
    active = np.ones(len(zero), bool)
    first = layers[0] if layers else None
    if isinstance(first, LayerNorm) and isinstance(inputs, GramInputs):
        _refuse(first, np.diagonal(inputs.centred) <= 1e-12 * np.abs(inputs.K).max(), "constant, or zero")
    _through(layers, zero, active, inputs.layout)


def _through(layers: tuple[Layer, ...], zero: np.ndarray, active: np.ndarray, layout: Layout) -> np.ndarray:
    """What is zero after layers that act on the active tokens."""
    for layer in layers:
        zero = np.where(active, _after(layer, zero, active, layout), zero)
    return zero


def _after(layer: Any, zero: np.ndarray, active: np.ndarray, layout: Layout) -> np.ndarray:
    if isinstance(layer, LayerNorm | RMSNorm):
        _refuse(layer, zero & active, "zero")
        return zero
    if isinstance(layer, Repeat):
        for _ in range(min(layer.count, _PASSES)):
            zero = _through(layer.layers, zero, active, layout)
        return zero
    if isinstance(layer, Only):
        return _through(layer.layers, zero, layout.sequence == layer.sequence, layout)
    if isinstance(layer, Residual):
        branch = _through(layer.layers, zero, active, layout)
        return branch & (zero | (layer.skip == 0))
    if isinstance(layer, MLP):
        return _after_perceptron(layer, zero)
    if isinstance(layer, Attention):
        return _after_attention(layer, zero, layout)
    return _through(layer.inner, zero, active, layout)


def _after_perceptron(layer: MLP, zero: np.ndarray) -> np.ndarray:
    if layer.out_bias_std:
        return np.zeros_like(zero)
    if not layer.out_std:
        return np.ones_like(zero)
    at_rest = bool(layer.in_bias_std == 0 and (layer.gated or layer.activation.at_zero == 0))
    return zero & at_rest


def _after_attention(layer: Attention, zero: np.ndarray, layout: Layout) -> np.ndarray:
    if layer.out_bias_std:
        return np.zeros_like(zero)
    if not layer.out_std:
        return np.ones_like(zero)
    values = zero if layer.value_std else np.ones_like(zero)
    if layer.value_bias_std:
        values = np.zeros_like(zero)
    seen = layer.allowed(layout)
    return np.array([values.all() if seen is None else values[seen[i]].all() for i in range(len(zero))])


def _refuse(norm: Any, zero: np.ndarray, what: str) -> None:
    if norm.eps == 0 and zero.any():
        raise ValueError(
            f"{norm!r}: token {int(zero.argmax())} is {what}, which eps=0 cannot normalise; give eps > 0, or see that the token is not {what}."
        )

"""Llama (Touvron et al. 2023), as transformers initialises it."""

from math import sqrt
from typing import Any

from ..._checks import ArgumentError
from ...networks import MLP, Attention, Embedding, Network, Readout, Repeat, Residual, RMSNorm
from .._family import Family, Ignored, Preset, Settings
from .._tokens import TokenIds
from ._rope import rotations

_TOKENS = TokenIds(longest="max_position_embeddings")


def _build(settings: Settings, tokens: Any) -> Network:
    """Blocks `x + f(norm(x))` with rotary positions, shared keys and values, and a gated perceptron; no biases."""
    width, hidden = settings.whole("hidden_size"), settings.whole("intermediate_size")
    heads, head_dim, groups = _heads(settings)
    std = settings.weight_std()
    scale = std * sqrt(width)
    norm = RMSNorm(settings.number("rms_norm_eps"))
    vocabulary = settings.whole("vocab_size")
    rope, stretch = rotations(settings, head_dim)
    attention = Attention(
        heads,
        head_dim="split" if heads * head_dim == width else head_dim,
        mask="causal",
        query_std=scale * stretch,
        key_std=scale * stretch,
        value_std=scale,
        out_std=std * sqrt(heads * head_dim),
        kv_heads=None if groups == heads else groups,
        rope=rope,
    )
    mlp = MLP(
        settings.activation("hidden_act"),
        ratio=hidden / width,
        in_std=scale,
        out_std=std * sqrt(hidden),
        gated=True,
        gate_std=scale,
    )
    return Network(
        Embedding(
            _TOKENS.read(settings, tokens),
            std=std,
            vocabulary=vocabulary,
            max_positions=settings.whole("max_position_embeddings"),
            padding=settings.padding(vocabulary),
        ),
        Repeat(settings.whole("num_hidden_layers"), Residual(norm, attention), Residual(norm, mlp)),
        Readout(norm),
        width=width,
    )


def _heads(settings: Settings) -> tuple[int, int, int]:
    """The number of heads, their dimension, and the number of heads of keys and values, which groups of heads share."""
    if settings["head_dim"] is None:
        heads = settings.heads("num_attention_heads", "hidden_size")
        head_dim = settings.whole("hidden_size") // heads
    else:
        heads, head_dim = settings.whole("num_attention_heads"), settings.whole("head_dim")
    if head_dim % 2:
        raise ArgumentError(
            "num_attention_heads",
            f"num_attention_heads={heads} gives heads of dimension {head_dim}, whose coordinates cannot be rotated in "
            f"pairs. Use an even head_dim, or a hidden_size that makes it even.",
        )
    groups = heads if settings["num_key_value_heads"] is None else settings.whole("num_key_value_heads")
    if heads % groups:
        raise ArgumentError(
            "num_key_value_heads",
            f"num_key_value_heads={groups} does not divide num_attention_heads={heads}. Use a divisor of {heads}.",
        )
    return heads, head_dim, groups


FAMILY = Family(
    model_type="llama",
    used={
        "head_dim": None,
        "hidden_act": "silu",
        "hidden_size": 4096,
        "initializer_range": 0.02,
        "intermediate_size": 11008,
        "max_position_embeddings": 2048,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "num_key_value_heads": None,
        "pad_token_id": None,
        "rms_norm_eps": 1e-6,
        "rope_parameters": None,
        "rope_scaling": None,
        "rope_theta": None,
        "vocab_size": 32000,
    },
    width="hidden_size",
    depth="num_hidden_layers",
    proportional=("intermediate_size", "head_dim"),
    tokens=_TOKENS,
    build=_build,
    transformers_class="LlamaModel",
    presets={"llama": Preset("Llama 7B")},
    fixed={"partial_rotary_factor": (None, 1.0)},
    ignored=Ignored.of(
        flags="attention_bias is_decoder mlp_bias",
        counts="max_sequence_length pretraining_tp",
        rates="attention_dropout",
    ),
)

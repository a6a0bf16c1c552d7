"""Llama (Touvron et al. 2023), as transformers initialises it."""

from math import sqrt
from typing import Any

from ..networks import MLP, Attention, Embedding, Network, Readout, Repeat, Residual, RMSNorm
from ._family import Family, Settings, keys, sequences
from ._rope import rotations


def _build(settings: Settings, tokens: Any) -> Network:
    """Blocks `x + f(norm(x))` with rotary positions, shared keys and values, and a gated perceptron; no biases."""
    width, hidden = settings.whole("hidden_size"), settings.whole("intermediate_size")
    heads, head_dim, groups = _heads(settings)
    std = settings.weight_std()
    scale = std * sqrt(width)
    norm = RMSNorm(settings.number("rms_norm_eps"))
    longest, vocabulary = settings.whole("max_position_embeddings"), settings.whole("vocab_size")
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
            sequences(tokens, vocabulary, longest, "max_position_embeddings"),
            std=std,
            vocabulary=vocabulary,
            max_positions=longest,
            padding=settings.padding(vocabulary),
        ),
        Repeat(settings.whole("num_hidden_layers"), Residual(norm, attention), Residual(norm, mlp)),
        Readout(norm),
        width=width,
    )


def _heads(settings: Settings) -> tuple[int, int, int]:
    """How many heads, of which dimension, in how many groups with keys and values of their own."""
    if settings["head_dim"] is None:
        heads = settings.heads("num_attention_heads", "hidden_size")
        head_dim = settings.whole("hidden_size") // heads
    else:
        heads, head_dim = settings.whole("num_attention_heads"), settings.whole("head_dim")
    if head_dim % 2:
        raise ValueError(
            f"num_attention_heads={heads}: heads of dimension {head_dim} cannot be rotated in pairs of coordinates; "
            f"use an even head_dim, or a hidden_size that makes it even."
        )
    groups = heads if settings["num_key_value_heads"] is None else settings.whole("num_key_value_heads")
    if heads % groups:
        raise ValueError(
            f"num_key_value_heads={groups}: num_attention_heads={heads} cannot be dealt out to that many; use a divisor."
        )
    return heads, head_dim, groups


LLAMA = Family(
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
    build=_build,
    fixed={"partial_rotary_factor": (None, 1.0)},
    irrelevant=keys("attention_bias attention_dropout is_decoder max_sequence_length mlp_bias pretraining_tp"),
)

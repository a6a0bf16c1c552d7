"""Models that can be named: the configuration of each family that its paper made known, and transformers' default."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Preset:
    """A configuration, and what people call it."""

    title: str
    config: Mapping[str, Any]


PRESETS: Mapping[str, Preset] = {
    "gpt2": Preset(
        "GPT-2 small",
        {
            "model_type": "gpt2",
            "n_embd": 768,
            "n_layer": 12,
            "n_head": 12,
            "n_positions": 1024,
            "vocab_size": 50257,
            "activation_function": "gelu_new",
            "layer_norm_epsilon": 1e-5,
            "initializer_range": 0.02,
        },
    ),
    "bert": Preset(
        "BERT base",
        {
            "model_type": "bert",
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
            "max_position_embeddings": 512,
            "vocab_size": 30522,
            "pad_token_id": 0,
            "hidden_act": "gelu",
            "layer_norm_eps": 1e-12,
            "initializer_range": 0.02,
        },
    ),
    "llama": Preset(
        "Llama 7B",
        {
            "model_type": "llama",
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "intermediate_size": 11008,
            "max_position_embeddings": 2048,
            "vocab_size": 32000,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "initializer_range": 0.02,
        },
    ),
    "vit": Preset(
        "ViT base",
        {
            "model_type": "vit",
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
            "image_size": 224,
            "patch_size": 16,
            "num_channels": 3,
            "hidden_act": "gelu",
            "layer_norm_eps": 1e-12,
            "initializer_range": 0.02,
        },
    ),
}

"""Writes `configs.json` beside itself: default configurations and rotary frequencies of transformers, for the tests to compare with.

    python tests/models/make_configs.py

It needs torch and transformers, which the library does not; the stored file serves where they are not installed.
"""

import json
from pathlib import Path

OUT = Path(__file__).with_name("configs.json")

_LENGTHS = {"max_position_embeddings": 2048, "hidden_size": 64, "num_attention_heads": 4}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}
_LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
ROPES = {
    "linear": {"rope_scaling": {"type": "linear", "factor": 4.0}},
    "dynamic": {"rope_scaling": {"type": "dynamic", "factor": 4.0}, "rope_theta": 500.0},
    "llama3": {"rope_scaling": _LLAMA3 | {"original_max_position_embeddings": 512}, "rope_theta": 500_000.0},
    "llama3 by length": {"rope_parameters": _LLAMA3 | {"rope_theta": 500_000.0}},
    "yarn": {"rope_scaling": _YARN},
    "yarn sharp": {"rope_scaling": _YARN | {"attention_factor": 1.5}},
    "yarn in full": {
        "rope_scaling": _YARN
        | {"factor": 40.0, "beta_fast": 16.0, "beta_slow": 2.0, "mscale": 0.7, "mscale_all_dim": 0.4, "truncate": False}
    },
    "yarn from four": {"rope_scaling": _YARN | {"factor": 2.0, "original_max_position_embeddings": 4}},
    "yarn of one": {"rope_scaling": _YARN | {"factor": 0.5}},
}


def main() -> None:
    """Write the file."""
    import torch
    import transformers
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    transformers.logging.set_verbosity_error()
    names = {"gpt2": "GPT2Config", "bert": "BertConfig", "llama": "LlamaConfig", "vit": "ViTConfig"}
    ropes = {}
    for name, options in ROPES.items():
        config = {**_LENGTHS, **options}
        rotary = LlamaRotaryEmbedding(transformers.LlamaConfig(**json.loads(json.dumps(config))))
        ropes[name] = {
            "config": config,
            "frequencies": rotary.inv_freq.tolist(),
            "attention_scaling": rotary.attention_scaling,
        }
    stored = {
        "provenance": {"transformers": transformers.__version__, "torch": torch.__version__},
        "defaults": {name: getattr(transformers, kind)().to_dict() for name, kind in names.items()},
        "ropes": ropes,
    }
    OUT.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Statistics of thousands of genuine, randomly initialised models, for the tests to compare exact laws with.

    python tests/data/make_genuine_models.py

writes `genuine_models.npz` beside itself, in about two minutes on one core. It needs torch and transformers, which the
library does not: they are imported only when a model is built, and the stored file serves where they are not installed.

The models are those of `CASES`: GPT-2, BERT, Llama and ViT of transformers, with the default `initializer_range` and with
one ten times as large, at which attention is far from uniform; and torch's encoder (norms after and before the branches),
multi-head attention and encoder-decoder. Weights are drawn by the model's own initialiser, all of them afresh for each
model; inputs are fixed. Dropout is off.

The file holds `provenance` (JSON: versions, date and, for each case, kind, configuration, seed, number of models, seconds)
and arrays named `case/name`. The inputs are `ids`, `image`, `x0` or `src` and `tgt`. Then, with n the width, s the number
of tokens, and blocks, heads, models counted as they are:

    gram       (blocks + 1, s, s)      X Xᵀ / n of the residual stream, before the blocks and after each
    final      (s, s)                  the same after the final norm, where there is one
    attention  (blocks, heads, s, s)   attention weights
    entropy    (blocks, heads, s)      their entropies, in nats, for each query

each as `_mean`, `_variance` (unbiased) and `_fourth` (central moment) over the models; and of every model, in float32,

    diagonal_samples  (models, blocks + 1)   gram[-1, -1]
    cosine_samples    (models, blocks + 1)   the cosine between the first and the last token
    entropy_samples   (models, blocks)       the entropy of head 0 for the last query

Activations are float32, what is computed from them float64. A BERT block ends with its norm; its input is what the norm of
the embeddings gives. The encoder-decoder has the arrays of its decoder, whose cross-attention is `cross_attention` and
`cross_entropy`, and those of its encoder with `encoder_` before the name.
"""

import datetime
import json
import platform
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

OUT = Path(__file__).with_name("genuine_models.npz")


@dataclass(frozen=True)
class Case:
    """A kind of model, its configuration and inputs, and how many models the stored file has, drawn from which seed."""

    kind: str
    config: dict[str, Any]
    inputs: dict[str, np.ndarray]
    models: int
    seed: int


def _normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


_IDS = {"ids": np.array([3, 17, 5, 3, 8, 21])}
_IMAGE = {"image": _normal(1, 3, 8, 8)}
_X0 = {"x0": _normal(2, 5, 64)}
_GPT2 = {"n_embd": 64, "n_head": 4, "n_layer": 3, "n_positions": 32, "vocab_size": 50}
_BERT = {
    "hidden_size": 60,
    "num_attention_heads": 6,
    "num_hidden_layers": 3,
    "intermediate_size": 120,
    "vocab_size": 50,
    "max_position_embeddings": 32,
}
_LLAMA = {
    "hidden_size": 48,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "intermediate_size": 96,
    "vocab_size": 50,
    "max_position_embeddings": 64,
}
_VIT = {
    "hidden_size": 48,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "intermediate_size": 96,
    "image_size": 8,
    "patch_size": 4,
    "num_channels": 3,
}
_LARGE = {"initializer_range": 0.2}
_ENCODER = {"d_model": 64, "nhead": 4, "dim_feedforward": 128, "num_layers": 3}
_TRANSFORMER = {
    "d_model": 48,
    "nhead": 4,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "dim_feedforward": 96,
    "activation": "relu",
    "norm_first": False,
}

CASES = {
    "gpt2": Case("gpt2", _GPT2, _IDS, 3000, 101),
    "bert": Case("bert", _BERT, _IDS, 3000, 102),
    "llama": Case("llama", _LLAMA, _IDS, 3000, 103),
    "vit": Case("vit", _VIT, _IMAGE, 3000, 104),
    "gpt2-large-init": Case("gpt2", _GPT2 | _LARGE, _IDS, 3000, 105),
    "bert-large-init": Case("bert", _BERT | _LARGE, _IDS, 3000, 106),
    "llama-large-init": Case("llama", _LLAMA | _LARGE, _IDS, 3000, 107),
    "vit-large-init": Case("vit", _VIT | _LARGE, _IMAGE, 3000, 108),
    "encoder-post": Case(
        "encoder", _ENCODER | {"activation": "relu", "norm_first": False, "final_norm": False}, _X0, 4000, 109
    ),
    "encoder-pre": Case(
        "encoder", _ENCODER | {"activation": "gelu", "norm_first": True, "final_norm": True}, _X0, 4000, 110
    ),
    "multihead": Case("multihead", {"embed_dim": 64, "num_heads": 4}, _X0, 4000, 111),
    "transformer": Case("transformer", _TRANSFORMER, {"src": _normal(3, 4, 48), "tgt": _normal(4, 3, 48)}, 4000, 112),
}


@dataclass(frozen=True)
class Stack:
    """The blocks along one residual stream: its attention modules by name, its final norm, a prefix for its arrays."""

    blocks: Sequence[Any]
    attentions: dict[str, Sequence[Any]]
    final: Any = None
    prefix: str = ""


@dataclass(frozen=True)
class Network:
    """A model, how to run it on its inputs, its streams, and its configuration with the defaults filled in."""

    model: Any
    run: Callable[[], Any]
    stacks: Sequence[Stack]
    full_config: dict[str, Any] = field(default_factory=dict)


def build(case: Case) -> Network:
    """The model of a case, as its constructor leaves it."""
    builders = {"encoder": _encoder, "multihead": _multihead, "transformer": _transformer}
    return builders.get(case.kind, _pretrained)(case)


def _pretrained(case):
    """A model of transformers; attention is `eager`, which returns its weights, and `eval` switches dropout off."""
    import torch
    import transformers

    class_name = {"gpt2": "GPT2", "bert": "Bert", "llama": "Llama", "vit": "ViT"}[case.kind]
    config = getattr(transformers, f"{class_name}Config")(**case.config, attn_implementation="eager")
    options = {"add_pooling_layer": False} if case.kind in ("bert", "vit") else {}
    model = getattr(transformers, f"{class_name}Model")(config, **options).eval()
    if case.kind == "gpt2":
        stack = Stack(model.h, {"attention": [block.attn for block in model.h]}, model.ln_f)
    elif case.kind == "bert":
        stack = Stack(model.encoder.layer, {"attention": [block.attention.self for block in model.encoder.layer]})
    elif case.kind == "llama":
        stack = Stack(model.layers, {"attention": [block.self_attn for block in model.layers]}, model.norm)
    else:
        stack = Stack(model.layers, {"attention": [block.attention for block in model.layers]}, model.layernorm)
    if case.kind == "vit":
        inputs = {"pixel_values": torch.tensor(case.inputs["image"])[None]}
    else:
        inputs = {"input_ids": torch.tensor(case.inputs["ids"])[None], "use_cache": False}
    return Network(model, lambda: model(**inputs), [stack], config.to_dict())


def _encoder(case):
    """torch's encoder. In training mode, without dropout: in evaluation mode a fused kernel would hide the attention."""
    import torch

    options = dict(case.config)
    layers, final_norm = options.pop("num_layers"), options.pop("final_norm")
    layer = torch.nn.TransformerEncoderLayer(**options, dropout=0.0, batch_first=True)
    norm = torch.nn.LayerNorm(options["d_model"]) if final_norm else None
    model = torch.nn.TransformerEncoder(layer, layers, norm, enable_nested_tensor=False)
    x0 = torch.tensor(case.inputs["x0"])[None]
    stack = Stack(model.layers, {"attention": [block.self_attn for block in model.layers]}, model.norm)
    return Network(model, lambda: model(x0), [stack])


def _multihead(case):
    """torch's multi-head attention on its own: one block without a residual connection."""
    import torch

    model = torch.nn.MultiheadAttention(**case.config, batch_first=True)
    x0 = torch.tensor(case.inputs["x0"])[None]
    return Network(model, lambda: model(x0, x0, x0), [Stack([model], {"attention": [model]})])


def _transformer(case):
    """torch's encoder-decoder, the decoder's self-attention causal."""
    import torch

    model = torch.nn.Transformer(**case.config, dropout=0.0, batch_first=True)
    src, tgt = torch.tensor(case.inputs["src"])[None], torch.tensor(case.inputs["tgt"])[None]
    causal = torch.nn.Transformer.generate_square_subsequent_mask(tgt.shape[1])
    encoder, decoder = model.encoder, model.decoder
    stacks = [
        Stack(encoder.layers, {"attention": [block.self_attn for block in encoder.layers]}, encoder.norm, "encoder_"),
        Stack(
            decoder.layers,
            {
                "attention": [block.self_attn for block in decoder.layers],
                "cross_attention": [block.multihead_attn for block in decoder.layers],
            },
            decoder.norm,
        ),
    ]
    return Network(model, lambda: model(src, tgt, tgt_mask=causal), stacks)


def redraw(model) -> None:
    """Draw all weights of a model afresh, with its own initialiser.

    A model of transformers marks its modules as initialised and then passes them over: the marks go first.

    torch's stacks are deep copies of one layer, equal in all weights. Here each layer gets weights of its own: every
    submodule is reset as its constructor does it, children before parents, as the parents have the last word (attention
    sets the bias of its output projection to zero, the encoder-decoder redraws every matrix). So the feed-forward biases
    differ too between the layers of an encoder-decoder, which its own initialiser would leave equal.
    """
    if hasattr(model, "init_weights"):
        for module in model.modules():
            module._is_hf_initialized = False
        model.init_weights()
    else:
        model.apply(_reset)


def _reset(module):
    for name in ("reset_parameters", "_reset_parameters"):
        if hasattr(module, name):
            getattr(module, name)()


def check_redraw(case: Case, seed: int, models: int = 30) -> None:
    """Raise unless redrawn weights have the moments of those of newly built models, and change with every redraw."""
    import torch

    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        built = [_weights(build(case).model) for _ in range(models)]
        model, redrawn = build(case).model, []
        for _ in range(models):
            redraw(model)
            redrawn.append(_weights(model))
    for name in built[0]:
        a, b = (np.stack([weights[name].ravel() for weights in each]) for each in (built, redrawn))
        if a.std() == 0:
            if not (b == a.flat[0]).all():
                raise RuntimeError(f"{name} is constant in a new model and not after a redraw")
            continue
        if (b[1:] == b[:-1]).all(axis=1).any():
            raise RuntimeError(f"a redraw left {name} as it was")
        for power in (1, 2):
            x, y = a**power, b**power
            error = np.sqrt(x.var() / x.size + y.var() / y.size)
            if abs(x.mean() - y.mean()) > 6 * error:
                raise RuntimeError(f"moment {power} of {name}: {x.mean():.3e} in new models, {y.mean():.3e} redrawn")


def _weights(model):
    return {name: weight.detach().double().numpy() for name, weight in model.named_parameters()}


def statistics(case: Case, models: int, seed: int) -> dict[str, np.ndarray]:
    """Draw `models` models of a case and return the arrays described at the top of this file, without the inputs."""
    import torch

    network = build(case)
    reading = defaultdict(list)
    for stack in network.stacks:
        _listen(stack, reading)
    draws = defaultdict(list)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for _ in range(models):
            redraw(network.model)
            reading.clear()
            network.run()
            for name, values in reading.items():
                draws[name].append(np.stack(values))

    result = {"models": np.array(models)}
    for stack in network.stacks:
        gram = np.stack(draws[f"{stack.prefix}gram"])
        result |= _moments(f"{stack.prefix}gram", gram)
        if stack.final is not None:
            result |= _moments(f"{stack.prefix}final", np.stack(draws[f"{stack.prefix}final"])[:, 0])
        first, last, both = gram[..., 0, 0], gram[..., -1, -1], gram[..., 0, -1]
        result[f"{stack.prefix}diagonal_samples"] = last.astype(np.float32)
        result[f"{stack.prefix}cosine_samples"] = (both / np.sqrt(first * last)).astype(np.float32)
        for name in stack.attentions:
            attention = np.stack(draws[stack.prefix + name])
            logarithms = np.log(attention, out=np.zeros_like(attention), where=attention > 0)
            entropy = -(attention * logarithms).sum(-1)
            entropy_name = stack.prefix + name.replace("attention", "entropy")
            result |= _moments(stack.prefix + name, attention) | _moments(entropy_name, entropy)
            result[f"{entropy_name}_samples"] = entropy[:, :, 0, -1].astype(np.float32)
    return result


def _listen(stack, reading):
    """Have the modules of a stack append, whenever they run, what they see to the lists of `reading`."""
    import torch

    def gram(x):
        x = x[0].double()
        return (x @ x.T / x.shape[1]).numpy()

    def record_input(module, args):
        reading[f"{stack.prefix}gram"].append(gram(args[0]))

    def record_output(module, args, output):
        reading[f"{stack.prefix}gram"].append(gram(output[0] if isinstance(output, tuple) else output))

    def record_final(module, args, output):
        reading[f"{stack.prefix}final"].append(gram(output))

    def ask_for_weights(module, args, kwargs):
        return args, kwargs | {"need_weights": True, "average_attn_weights": False}

    def record_attention(name):
        def record(module, args, output):
            reading[stack.prefix + name].append(output[1][0].double().numpy())

        return record

    stack.blocks[0].register_forward_pre_hook(record_input)
    for block in stack.blocks:
        block.register_forward_hook(record_output)
    if stack.final is not None:
        stack.final.register_forward_hook(record_final)
    for name, modules in stack.attentions.items():
        for module in modules:
            if isinstance(module, torch.nn.MultiheadAttention):
                module.register_forward_pre_hook(ask_for_weights, with_kwargs=True)
            module.register_forward_hook(record_attention(name))


def _moments(name, draws):
    mean = draws.mean(0)
    return {
        f"{name}_mean": mean,
        f"{name}_variance": draws.var(0, ddof=1),
        f"{name}_fourth": ((draws - mean) ** 4).mean(0),
    }


def main() -> None:
    """Write the file; print a line for each case."""
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()  # about the default end-of-text token, which a small vocabulary lacks
    arrays, cases = {}, {}
    for name, case in CASES.items():
        check_redraw(case, case.seed + 1000)
        start = time.perf_counter()
        found = statistics(case, case.models, case.seed)
        seconds = time.perf_counter() - start
        arrays |= {f"{name}/{key}": value for key, value in (case.inputs | found).items()}
        cases[name] = {
            "kind": case.kind,
            "config": case.config,
            "full_config": build(case).full_config,
            "seed": case.seed,
            "models": case.models,
            "seconds": round(seconds, 1),
        }
        print(f"{name:18} {case.models} models, {seconds:5.1f} s", flush=True)
    provenance = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
        "cases": cases,
    }
    np.savez_compressed(OUT, provenance=np.array(json.dumps(provenance)), **arrays)
    print(f"{OUT.name}: {OUT.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()

"""Networks from the modules of PyTorch."""

import importlib
from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

import equinox as eqx
import numpy as np

from ..networks import (
    MLP,
    Attention,
    GramInputs,
    InputLayer,
    Layer,
    LayerNorm,
    Network,
    Only,
    Readout,
    Repeat,
    Residual,
    RMSNorm,
)
from ..numerics import narrow_root
from ._family import floats

_SUPPORTED = "nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder, nn.Transformer"
_EXPECTED = "an array (tokens, width), or an input layer"
_LINEAR = 1 / 3  # nn.Linear: weights and biases uniform with variance 1 / (3 fan_in)


def from_torch(module: Any, inputs: Any, *, mask: Any = None) -> Network:
    """The network of a PyTorch module with the default initialisers of PyTorch.

    Modules: `nn.MultiheadAttention`, `nn.TransformerEncoderLayer`, `nn.TransformerEncoder`, `nn.Transformer`. They tell
    their structure; their weights are not looked at. The network's weights are Gaussian with the variances of PyTorch's
    uniform ones; the laws come to agree as the width grows. Every layer has weights of its own, while those of a new
    `nn.TransformerEncoder` are copies of one. Dropout is off.

    - `inputs` are fixed tokens `(tokens, width)`, several sequences `(sequences, tokens, width)` whatever `batch_first`
      says, or an input layer such as `GramInputs`. For `nn.Transformer` they are a tuple `(source, target)`, or an
      input layer with two sequences. For `nn.MultiheadAttention` a tuple `(query, context)` is cross attention.
    - `mask` is that of `Attention`: True where a query may look, unlike in PyTorch. For `nn.Transformer` it is None or
      "causal", and that of the target.

    The norm that ends a module is part of a `Readout`.

    !!! Example

        >>> import numpy as np, limitlaw as ll
        >>> ll.from_torch("encoder", np.eye(4))
        Traceback (most recent call last):
            ...
        TypeError: module='encoder': is not supported; give one of nn.MultiheadAttention, nn.TransformerEncoderLayer, ...
    """
    reader = _reader(module)
    if reader is None:
        raise TypeError(f"module={module!r}: is not supported; give one of {_SUPPORTED}.")
    return reader(module, inputs, mask)


def _reader(module: Any) -> Callable[[Any, Any, Any], Network] | None:
    """Of a module, by its class; None if there is none. Without torch there are no modules."""
    try:
        nn = importlib.import_module("torch.nn")
    except ImportError:
        return None
    readers = {
        nn.MultiheadAttention: _multihead,
        nn.TransformerEncoderLayer: _encoder_layer,
        nn.TransformerEncoder: _encoder,
        nn.Transformer: _transformer,
    }
    return next((reader for kind, reader in readers.items() if isinstance(module, kind)), None)


def _multihead(module: Any, inputs: Any, mask: Any) -> Network:
    width = module.embed_dim
    if not _is_pair(inputs):
        return Network(_tokens(inputs, width), _attention(module, mask=mask), width=width)
    if mask is not None:
        raise ValueError(
            f"mask={mask!r} with a pair of inputs: every query looks at all of the context; leave mask out."
        )
    queries, context = (
        _matrix(name, array, size)
        for name, array, size in zip(("query", "context"), inputs, (width, module.kdim), strict=True)
    )
    return Network(_stacked(queries, context), Only(0, _attention(module, context=1)), width=width)


def _encoder_layer(module: Any, inputs: Any, mask: Any) -> Network:
    width = module.self_attn.embed_dim
    return Network(_tokens(inputs, width), Repeat(1, *_encoder_block(module, mask)), width=width)


def _encoder(module: Any, inputs: Any, mask: Any) -> Network:
    layers = _stack(module, "TransformerEncoder")
    blocks = [_encoder_block(layer, mask) for layer in layers]
    width = layers[0].self_attn.embed_dim
    end = [] if module.norm is None else [Readout(_norm(module.norm))]
    return Network(_tokens(inputs, width), *_repeated(blocks), *end, width=width)


def _transformer(module: Any, inputs: Any, mask: Any) -> Network:
    if mask is not None and not (isinstance(mask, str) and mask == "causal"):
        raise ValueError(f"mask={mask!r}: must be None or 'causal' for nn.Transformer.")
    width = module.d_model
    if _is_pair(inputs):
        source, target = (_matrix(name, array, width) for name, array in zip(("source", "target"), inputs, strict=True))
        inputs = _stacked(source, target)
    elif not isinstance(inputs, InputLayer) or len(inputs.layout.lengths) != 2:
        raise TypeError(
            "inputs: nn.Transformer reads two sequences; give a pair (source, target), or an input layer with sequences=(a, b)."
        )
    encoder, decoder = module.encoder, module.decoder
    layers, targets = _stack(encoder, "TransformerEncoder"), _stack(decoder, "TransformerDecoder")
    encoded = _repeated([_encoder_block(layer, None, xavier=True) for layer in layers])
    decoded = _repeated([_decoder_block(layer, mask) for layer in targets])
    return Network(
        inputs,
        Only(0, *encoded, *([] if encoder.norm is None else [_norm(encoder.norm)])),
        Only(1, *decoded),
        *([] if decoder.norm is None else [Readout(Only(1, _norm(decoder.norm)))]),
        width=width,
    )


def _stack(module: Any, kind: str) -> list[Any]:
    """The layers of an encoder or decoder."""
    nn = importlib.import_module("torch.nn")
    layers = list(module.layers) if isinstance(module, getattr(nn, kind)) else []
    if not layers or not all(isinstance(layer, getattr(nn, f"{kind}Layer")) for layer in layers):
        raise TypeError(f"module={module!r}: must be an nn.{kind} of one nn.{kind}Layer or more.")
    return layers


def _encoder_block(layer: Any, mask: Any, *, xavier: bool = False) -> list[Layer]:
    return _block(
        layer,
        (layer.norm1, _attention(layer.self_attn, mask=mask, xavier=xavier)),
        (layer.norm2, _mlp(layer, xavier=xavier)),
    )


def _decoder_block(layer: Any, mask: Any) -> list[Layer]:
    return _block(
        layer,
        (layer.norm1, _attention(layer.self_attn, mask=mask, xavier=True)),
        (layer.norm2, _attention(layer.multihead_attn, context=0, xavier=True)),
        (layer.norm3, _mlp(layer, xavier=True)),
    )


def _block(layer: Any, *branches: tuple[Any, Layer]) -> list[Layer]:
    """Branches with their norms before them or after."""
    if layer.norm_first:
        return [Residual(_norm(norm), branch) for norm, branch in branches]
    return [part for norm, branch in branches for part in (Residual(branch), _norm(norm))]


def _repeated(blocks: Sequence[list[Layer]]) -> list[Layer]:
    """Blocks in a row: one `Repeat` if they are alike, as those of a new module are."""
    if all(eqx.tree_equal(block, blocks[0]) for block in blocks):
        return [Repeat(len(blocks), *blocks[0])]
    return [Repeat(1, *block) for block in blocks]


def _attention(module: Any, *, mask: Any = None, context: int | None = None, xavier: bool = False) -> Attention:
    """Biases are zero. Queries, keys and values come from one Xavier matrix, or three if they differ in width."""
    for name, given in (("add_bias_kv", module.bias_k is not None), ("add_zero_attn", module.add_zero_attn)):
        if given:
            raise ValueError(f"{name}=True: an added key and value are not supported; use {name}=False.")
    width = module.embed_dim
    if module.kdim == module.vdim == width:
        own = other = _xavier(width, 3 * width)
    elif context is None or module.kdim != module.vdim:
        raise ValueError(
            f"kdim={module.kdim}, vdim={module.vdim}: keys and values must come from the same tokens, as wide as the queries "
            f"({width}), or from a context of one width; give the pair inputs=(query, context), with kdim == vdim."
        )
    else:
        own, other = _xavier(width, width), _xavier(module.kdim, width)
    return Attention(
        module.num_heads,
        head_dim="split",
        mask=mask,
        query_std=own,
        key_std=other,
        value_std=other,
        out_std=_xavier(width, width) if xavier else sqrt(_LINEAR),
        context=context,
    )


def _mlp(layer: Any, *, xavier: bool) -> MLP:
    width, hidden = layer.linear1.in_features, layer.linear1.out_features
    return MLP(
        _activation(layer.activation),
        ratio=hidden / width,
        in_std=_xavier(width, hidden) if xavier else sqrt(_LINEAR),
        out_std=_xavier(hidden, width) if xavier else sqrt(_LINEAR),
        in_bias_std=0.0 if layer.linear1.bias is None else sqrt(_LINEAR / width),
        out_bias_std=0.0 if layer.linear2.bias is None else sqrt(_LINEAR / hidden),
    )


def _xavier(fan_in: int, fan_out: int) -> float:
    """The scale `sqrt(variance fan_in)` of a Xavier-uniform matrix, whose variance is `2 / (fan_in + fan_out)`."""
    return sqrt(2 * fan_in / (fan_in + fan_out))


def _norm(module: Any) -> Layer:
    torch = importlib.import_module("torch")
    if isinstance(module, torch.nn.LayerNorm):
        return LayerNorm(module.eps)
    if isinstance(module, torch.nn.RMSNorm):
        return RMSNorm(torch.finfo(torch.get_default_dtype()).eps if module.eps is None else module.eps)
    raise TypeError(f"norm={module!r}: is not supported; use nn.LayerNorm or nn.RMSNorm.")


def _activation(given: Any) -> str:
    """The name of an activation that PyTorch gives as a function or as a module."""
    torch = importlib.import_module("torch")
    nn, functional = torch.nn, torch.nn.functional
    if isinstance(given, nn.GELU):
        return "gelu" if given.approximate == "none" else "gelu_tanh"
    modules = {nn.ReLU: "relu", nn.SiLU: "silu", nn.Tanh: "tanh", nn.Sigmoid: "sigmoid", nn.Identity: "identity"}
    functions = {
        functional.relu: "relu",
        functional.gelu: "gelu",
        functional.silu: "silu",
        functional.tanh: "tanh",
        functional.sigmoid: "sigmoid",
        torch.relu: "relu",
        torch.tanh: "tanh",
        torch.sigmoid: "sigmoid",
    }
    name = modules.get(type(given)) or functions.get(given)
    if name is None:
        raise ValueError(
            f"activation={given!r}: is not supported; use relu, gelu, silu, tanh or sigmoid of torch.nn.functional, or their modules."
        )
    return name


def _tokens(inputs: Any, width: int) -> InputLayer:
    """An input layer, or fixed tokens as one: all that matters are their Gram matrix and coordinate mean."""
    if isinstance(inputs, InputLayer):
        return inputs
    array = floats("inputs", inputs, _EXPECTED)
    if array.ndim not in (2, 3) or array.shape[-1] != width or not array.size:
        raise ValueError(
            f"inputs has shape {array.shape}: it must be (tokens, {width}), or (sequences, tokens, {width}), or an input layer."
        )
    lengths = None if array.ndim == 2 else [array.shape[1]] * len(array)
    flat = array.reshape(-1, width)
    return GramInputs(flat @ flat.T / width, flat.mean(axis=1), sequences=lengths)


def _is_pair(inputs: Any) -> bool:
    if isinstance(inputs, tuple) and len(inputs) != 2:
        raise ValueError(
            f"inputs is a tuple of {len(inputs)}: give tokens, or a pair (query, context), whose context has the keys and the values."
        )
    return isinstance(inputs, tuple)


def _matrix(name: str, value: Any, width: int) -> np.ndarray:
    array = floats(name, value, _EXPECTED)
    if array.ndim != 2 or array.shape[1] != width or not array.size:
        raise ValueError(f"inputs: the {name} has shape {array.shape}; it must be (tokens, {width}).")
    return array


def _stacked(first: np.ndarray, second: np.ndarray) -> GramInputs:
    """Two sequences of tokens. If their widths differ, only the Gram matrix of each matters: their products are those of a joint set of as few dimensions as hold both."""
    a, b = first.shape[1], second.shape[1]
    lengths = [len(first), len(second)]
    if a == b:
        both = np.concatenate([first, second])
        return GramInputs(both @ both.T / a, both.mean(axis=1), sequences=lengths)
    roots = [narrow_root(tokens @ tokens.T / tokens.shape[1]) for tokens in (first, second)]
    rank = max(root.shape[1] for root in roots)
    both = np.concatenate([np.pad(root, ((0, 0), (0, rank - root.shape[1]))) for root in roots])
    return GramInputs(both @ both.T, sequences=lengths)

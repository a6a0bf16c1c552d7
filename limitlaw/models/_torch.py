"""Networks from the modules of PyTorch."""

import importlib
from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

import equinox as eqx
import numpy as np

from .._checks import ArgumentError, ArgumentTypeError
from ..networks import (
    MLP,
    Attention,
    GramInputs,
    InputLayer,
    LayerNorm,
    Network,
    Node,
    OnSequence,
    Readout,
    Repeat,
    Residual,
    RMSNorm,
)
from ..numerics.linalg import narrow_root
from ._tokens import floats, shown

_SUPPORTED = "nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder, nn.Transformer"
_EXPECTED = "an array (tokens, width), or an input layer"
_LINEAR = 1 / 3  # nn.Linear: weights and biases uniform with variance 1 / (3 fan_in)


def from_torch(module: Any, inputs: Any, *, mask: Any = None) -> Network:
    """The network of a PyTorch module with the default initialisers of PyTorch.

    Only the structure of the module is read, not its weights. The network's weights are Gaussian with the variances of
    PyTorch's uniform ones; the laws agree as the width grows. Every layer has separate weights, while those of a new
    `nn.TransformerEncoder` are copies of one. Dropout is off. The norm that ends a module is part of a `Readout`.

    Args:
        module: An `nn.MultiheadAttention`, `nn.TransformerEncoderLayer`, `nn.TransformerEncoder` or `nn.Transformer`.
        inputs: Fixed tokens `(tokens, width)`, several sequences `(sequences, tokens, width)` whatever `batch_first`
            says, or an input layer such as `GramInputs`. For `nn.Transformer`, a tuple `(source, target)`, or an input
            layer with two sequences. For `nn.MultiheadAttention`, a tuple `(query, context)` is cross attention.
        mask: The mask of `Attention`: True where a query may look, unlike in PyTorch. For `nn.Transformer` it is None
            or "causal", and that of the target.

    Returns:
        The network, with the width of the module.

    Raises:
        ArgumentError: If the module or the inputs are not supported.

    Example:
        >>> import numpy as np, limitlaw as ll
        >>> ll.from_torch("encoder", np.eye(4))
        Traceback (most recent call last):
            ...
        limitlaw._checks.ArgumentTypeError: module='encoder' is not supported. Give one of nn.MultiheadAttention, ...
    """
    reader = _reader(module)
    if reader is None:
        raise ArgumentTypeError("module", f"{shown('module', module)} is not supported. Give one of {_SUPPORTED}.")
    return reader(module, inputs, mask)


def _reader(module: Any) -> Callable[[Any, Any, Any], Network] | None:
    """The function that reads a module, by its class; None if there is none. Without torch there are no modules."""
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
        raise ArgumentError(
            "mask",
            f"mask={mask!r} is not supported with a pair of inputs: every query sees the whole context. Leave mask "
            f"out.",
        )
    queries, context = (
        _matrix(name, array, size)
        for name, array, size in zip(("query", "context"), inputs, (width, module.kdim), strict=True)
    )
    return Network(_stacked(queries, context), OnSequence(0, _attention(module, context=1)), width=width)


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
        raise ArgumentError("mask", f"{shown('mask', mask)} must be None or 'causal' for nn.Transformer.")
    width = module.d_model
    if _is_pair(inputs):
        source, target = (_matrix(name, array, width) for name, array in zip(("source", "target"), inputs, strict=True))
        inputs = _stacked(source, target)
    elif not isinstance(inputs, InputLayer) or len(inputs.layout.lengths) != 2:
        raise ArgumentTypeError(
            "inputs",
            "inputs must be two sequences for nn.Transformer. Give a pair (source, target), or an input layer with "
            "sequences=(a, b).",
        )
    encoder, decoder = module.encoder, module.decoder
    layers, targets = _stack(encoder, "TransformerEncoder"), _stack(decoder, "TransformerDecoder")
    encoded = _repeated([_encoder_block(layer, None, xavier=True) for layer in layers])
    decoded = _repeated([_decoder_block(layer, mask) for layer in targets])
    return Network(
        inputs,
        OnSequence(0, *encoded, *([] if encoder.norm is None else [_norm(encoder.norm)])),
        OnSequence(1, *decoded),
        *([] if decoder.norm is None else [Readout(OnSequence(1, _norm(decoder.norm)))]),
        width=width,
    )


def _stack(module: Any, kind: str) -> list[Any]:
    """The layers of an encoder or decoder."""
    nn = importlib.import_module("torch.nn")
    layers = list(module.layers) if isinstance(module, getattr(nn, kind)) else []
    if not layers or not all(isinstance(layer, getattr(nn, f"{kind}Layer")) for layer in layers):
        raise ArgumentTypeError(
            "module", f"{shown('module', module)} must be an nn.{kind} of one nn.{kind}Layer or more."
        )
    return layers


def _encoder_block(layer: Any, mask: Any, *, xavier: bool = False) -> list[Node]:
    return _block(
        layer,
        (layer.norm1, _attention(layer.self_attn, mask=mask, xavier=xavier)),
        (layer.norm2, _mlp(layer, xavier=xavier)),
    )


def _decoder_block(layer: Any, mask: Any) -> list[Node]:
    return _block(
        layer,
        (layer.norm1, _attention(layer.self_attn, mask=mask, xavier=True)),
        (layer.norm2, _attention(layer.multihead_attn, context=0, xavier=True)),
        (layer.norm3, _mlp(layer, xavier=True)),
    )


def _block(layer: Any, *branches: tuple[Any, Node]) -> list[Node]:
    """Branches with their norms before them or after."""
    if layer.norm_first:
        return [Residual(_norm(norm), branch) for norm, branch in branches]
    return [part for norm, branch in branches for part in (Residual(branch), _norm(norm))]


def _repeated(blocks: Sequence[list[Node]]) -> list[Node]:
    """Blocks in a row: one `Repeat` if they are alike, as those of a new module are."""
    if all(eqx.tree_equal(block, blocks[0]) for block in blocks):
        return [Repeat(len(blocks), *blocks[0])]
    return [Repeat(1, *block) for block in blocks]


def _attention(module: Any, *, mask: Any = None, context: int | None = None, xavier: bool = False) -> Attention:
    """Biases are zero. Queries, keys and values come from one Xavier matrix, or three if they differ in width."""
    for name, given in (("add_bias_kv", module.bias_k is not None), ("add_zero_attn", module.add_zero_attn)):
        if given:
            raise ArgumentError(name, f"{name}=True is not supported. Use a module with {name}=False.")
    width = module.embed_dim
    if module.kdim == module.vdim == width:
        own = other = _xavier(width, 3 * width)
    elif context is None or module.kdim != module.vdim:
        raise ArgumentError(
            "inputs",
            f"kdim={module.kdim} and vdim={module.vdim} are not supported here. Keys and values must come from the "
            f"same tokens, as wide as the queries ({width}), or from a context of one width: give the pair "
            f"inputs=(query, context), with kdim == vdim.",
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


def _norm(module: Any) -> Node:
    torch = importlib.import_module("torch")
    if isinstance(module, torch.nn.LayerNorm):
        return LayerNorm(module.eps)
    if isinstance(module, torch.nn.RMSNorm):
        return RMSNorm(torch.finfo(torch.get_default_dtype()).eps if module.eps is None else module.eps)
    raise ArgumentTypeError("norm", f"{shown('norm', module)} is not supported. Use nn.LayerNorm or nn.RMSNorm.")


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
        raise ArgumentError(
            "activation",
            f"activation={given!r} is not supported. Use relu, gelu, silu, tanh or sigmoid of torch.nn.functional, or "
            f"their modules.",
        )
    return name


def _tokens(inputs: Any, width: int) -> InputLayer:
    """An input layer, or fixed tokens as one: all that matters are their Gram matrix and coordinate mean."""
    if isinstance(inputs, InputLayer):
        return inputs
    array = floats("inputs", inputs, _EXPECTED)
    if array.ndim not in (2, 3) or array.shape[-1] != width or not array.size:
        raise ArgumentError(
            "inputs",
            f"inputs has shape {array.shape}. It must be (tokens, {width}), or (sequences, tokens, {width}), or an "
            f"input layer.",
        )
    lengths = None if array.ndim == 2 else [array.shape[1]] * len(array)
    flat = array.reshape(-1, width)
    return GramInputs(flat @ flat.T / width, flat.mean(axis=1), sequences=lengths)


def _is_pair(inputs: Any) -> bool:
    if isinstance(inputs, tuple) and len(inputs) != 2:
        raise ArgumentError(
            "inputs",
            f"inputs is a tuple of {len(inputs)}. Give tokens, or a pair (query, context), whose context has the keys "
            f"and the values.",
        )
    return isinstance(inputs, tuple)


def _matrix(name: str, value: Any, width: int) -> np.ndarray:
    array = floats(name, value, _EXPECTED)
    if array.ndim != 2 or array.shape[1] != width or not array.size:
        raise ArgumentError("inputs", f"inputs has a {name} of shape {array.shape}. It must be (tokens, {width}).")
    return array


def _stacked(first: np.ndarray, second: np.ndarray) -> GramInputs:
    """Two sequences of tokens as one input layer."""
    a, b = first.shape[1], second.shape[1]
    lengths = [len(first), len(second)]
    if a == b:
        both = np.concatenate([first, second])
        return GramInputs(both @ both.T / a, both.mean(axis=1), sequences=lengths)
    # Tokens of different widths are never multiplied with each other, so any joint Gram matrix with these diagonal
    # blocks will do. This one has the smallest rank, which every width from there on has room for.
    roots = [narrow_root(tokens @ tokens.T / tokens.shape[1]) for tokens in (first, second)]
    rank = max(root.shape[1] for root in roots)
    both = np.concatenate([np.pad(root, ((0, 0), (0, rank - root.shape[1]))) for root in roots])
    return GramInputs(both @ both.T, sequences=lengths)

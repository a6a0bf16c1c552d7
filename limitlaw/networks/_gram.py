"""The Gram reading: exact at every width, infinity included, without a single weight matrix.

Given the tokens `X`, the columns of `X W` are i.i.d. `N(0, sigma^2 K)`, `K = X X^T / n`; so a layer sees its input through
`K` alone (and a LayerNorm through the mean over coordinates), and Gaussian vectors seen only through inner products are rows of a Bartlett factor.
Widths, head dimensions and stds are traced scalars: one compilation serves n = 1 ... inf.

A rule is written for one sample: `rule(layer, stream, context)`; trailing axes of its arrays are more of them.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..numerics import (
    DEFAULT_MEMORY,
    Activation,
    Block,
    Streams,
    calls_lapack,
    chi_square_mean,
    largest_power_of_two,
    multiply,
    psd_root,
    random,
)
from ._attention import Attention
from ._described import Layer, Layout
from ._gram_attention import EXPECTATION_AT_ONCE, AttentionAt, attend, draws_coordinates, scores
from ._inputs import Embedding, GaussianInputs, GramInputs, Inputs
from ._layers import MLP, Only, Readout, Repeat, Residual
from ._norms import LayerNorm, RMSNorm
from ._reading import Reading
from ._state import Context, Fresh, Isotropic, Stream, Tokens, add_branch

gram = Reading("gram")

_NORMAL_REACH = 6.0  # no float32 normal is larger
_BLOCKS_FOR_A_CORE = 256  # that make up one for an accelerator
_COORDINATES_AT_ONCE = 4  # coordinates of nonlinear inputs, or hidden units, computed side by side
_FEW_TOKENS = 8  # up to here they are computed one by one, as vectors over the draws; above, as matrices
_UNITS_AT_ONCE = 64
_MANY_TOKENS, _MANY_NUMBERS = 256, 2**22  # from here on as many units as make products large
_USUAL_UNITS = 2**12
_MATRIX_NUMBERS_A_SECOND, _UNITS_A_SECOND = 8e7, 4e8
_WORKING_MATRICES = 64  # token matrices alive at once while a block is computed, an upper bound


@gram.rule(GramInputs)
def _(inputs: GramInputs, width: Float[Array, ""], context: Context) -> Stream:
    mean = jnp.zeros(inputs.size) if inputs.mean is None else jnp.asarray(inputs.mean)
    return _fixed(jnp.asarray(inputs.K), mean, width, context)


def _fixed(K: Float[Array, "s s"], mean: Float[Array, "s"], width: Float[Array, ""], context: Context) -> Tokens:
    """Tokens that are the same in every draw."""
    if not context.tracks_mean:
        return Tokens(psd_root(K[..., None]), width, K[..., None])
    centred = psd_root((K - mean[:, None] * mean)[..., None])
    return Tokens(jnp.concatenate([mean[:, None, None], centred], axis=1), width)


@gram.rule(GaussianInputs)
def _(inputs: GaussianInputs, width: Float[Array, ""], context: Context) -> Stream:
    del context
    return Fresh(jnp.asarray(inputs.K)[..., None], width)


@gram.rule(Inputs)
def _(inputs: Inputs, width: Float[Array, ""], context: Context) -> Stream:
    """Given `r^2 = |h|^2 / n`, the coordinates are `phi(r z)`, `z` i.i.d. normal."""
    for_length, for_coordinates = context.split(2)
    length, size = _length(width, for_length.key, context.draws), inputs.tokens
    if is_linear(inputs):
        return Isotropic(length, width, size)
    tracked = context.tracks_mean

    def coordinate(z: Float[Array, "s *units draws"]) -> Float[Array, "rows *units draws"]:
        return _with_one(inputs.activation(length * z), tracked)

    sampled = averaged_products(coordinate, size, size + tracked, width, for_coordinates)
    limit = jnp.asarray(inputs.limit_gram(), sampled.dtype)
    if tracked:
        mean = jnp.full((1, size), inputs.activation.moments()[0], sampled.dtype)
        limit = jnp.block([[jnp.ones((1, 1)), mean], [mean.T, limit]])
    products = jnp.where(jnp.isinf(width), limit[..., None], sampled)
    if not tracked:
        return Tokens(psd_root(products), width, products)
    # the first row is the all-ones vector, and the first axis its direction
    return Tokens(psd_root(products)[1:], width)


@functools.partial(jax.jit, static_argnums=2)
def _length(width: Float[Array, ""], key: PRNGKeyArray, draws: int) -> Float[Array, "draws"]:
    """`|h| / sqrt(n)` of a normal vector `h`."""
    return jnp.sqrt(chi_square_mean(random.normal(key, (draws,)), width))


def _with_one(x: Float[Array, "s *units draws"], wanted: bool) -> Float[Array, "rows *units draws"]:
    """The coordinate of the all-ones vector before those of the tokens, where their mean is wanted."""
    return jnp.concatenate([jnp.ones_like(x[:1]), x]) if wanted else x


class EmbeddedAt(eqx.Module):
    """An embedding at a width: the covariance of its random tables, the fixed part of the tokens, and its norm."""

    table: Any
    fixed: Any
    mean: Any
    norm: Any
    has_fixed: bool = eqx.field(static=True)

    @classmethod
    def of(cls, inputs: Embedding, width: int | float) -> "EmbeddedAt":
        if inputs.positions != "sinusoidal":
            return cls(inputs.table_gram, None, None, inputs.norm, False)
        x = inputs.sinusoids(width)
        return cls(inputs.table_gram, x @ x.T / x.shape[1], x.mean(axis=1), inputs.norm, True)


@gram.rule(EmbeddedAt)
def _(inputs: EmbeddedAt, width: Float[Array, ""], context: Context) -> Stream:
    for_tables, for_norm = context.split(2)
    stream: Stream = Fresh(jnp.asarray(inputs.table)[..., None], width)
    if inputs.has_fixed:
        fixed = _fixed(inputs.fixed, inputs.mean, width, for_tables)
        stream = add_branch(fixed, stream.covariance, 1.0, for_tables)
    return stream if inputs.norm is None else apply((inputs.norm,), stream, for_norm)


def averaged_products(
    coordinate: Callable[[Array], Array], normals: int, size: int, count: Float[Array, ""], context: Context
) -> Float[Array, "s s draws"]:
    """The average of `x x^T` over `count` coordinates `x = coordinate(z)` of normals `z`: the only cost that grows with a width; 0 if there is no end of them.

    The inner loop keeps the normals apart from the products: XLA would compute them again for every product they enter.
    """
    draws, at_once = context.draws, _COORDINATES_AT_ONCE
    finite = jnp.where(jnp.isinf(count), 0.0, count)
    if size <= _FEW_TOKENS + 1:
        lanes = (normals, draws)

        def one(streams: Streams, index: Array) -> tuple[Streams, Float[Array, "s draws"]]:
            after, z = streams.normals()
            return after, jnp.where(index.astype(finite.dtype) < finite, coordinate(z), 0.0)

        def add(i: Array, carry: tuple[Streams, Array]) -> tuple[Streams, Array]:
            streams, total = carry
            streams, x = jax.lax.scan(one, streams, i * at_once + jnp.arange(at_once), unroll=2)
            return streams, total + sum(x[c][:, None] * x[c][None] for c in range(at_once))
    else:
        at_once = _UNITS_AT_ONCE if size < _MANY_TOKENS else largest_power_of_two(_MANY_NUMBERS / (normals * draws))
        lanes = (normals, at_once, draws)

        def add(i: Array, carry: tuple[Streams, Array]) -> tuple[Streams, Array]:
            streams, total = carry
            streams, z = streams.normals()
            exists = (i * at_once + jnp.arange(at_once)).astype(finite.dtype) < finite
            x = jnp.where(exists[:, None], coordinate(z), 0.0)
            return streams, total + multiply(x, jnp.swapaxes(x, 0, 1))

    steps = jnp.ceil(finite / at_once).astype(jnp.int32)
    start = Streams.start(context.key, lanes), jnp.zeros((size, size, draws), jnp.float32)
    return jax.lax.fori_loop(0, steps, add, start)[1] / jnp.maximum(finite, 1.0)


@gram.rule(AttentionAt)
def _(layer: AttentionAt, stream: Stream, context: Context, rows: tuple[int, ...] | None = None) -> Stream:
    return attend(layer, stream, context, rows)


@gram.rule(RMSNorm)
def _(layer: RMSNorm, stream: Stream, context: Context) -> Stream:
    tokens = stream.settle(context)
    return Tokens(_where_active(_normalised(tokens.root, layer.eps), tokens.root, context), tokens.width)


@gram.rule(LayerNorm)
def _(layer: LayerNorm, stream: Stream, context: Context) -> Stream:
    """The first column is the mean, which goes; the others are the tokens less their mean."""
    tokens = stream.settle(context)
    centred = jnp.concatenate([jnp.zeros_like(tokens.root[:, :1]), tokens.root[:, 1:]], axis=1)
    normal = _where_active(_normalised(centred, layer.eps), tokens.root, context)
    return Tokens(normal, tokens.width, centred=context.active is None)


def _normalised(root: Float[Array, "s r *draws"], eps: Any) -> Float[Array, "s r *draws"]:
    """Rows of length 1 (with `eps` added to their squares); zero stays zero."""
    square = jnp.sum(root**2, axis=1) + eps
    alive = square > 0
    return root * jnp.where(alive, jax.lax.rsqrt(jnp.where(alive, square, 1.0)), 0.0)[:, None]


def _where_active(new: Array, old: Array, context: Context) -> Array:
    if context.active is None:
        return new
    return jnp.where(np.array(context.active).reshape(-1, *[1] * (new.ndim - 1)), new, old)


class MLPAt(eqx.Module):
    """A perceptron at a width: its hidden width a traced number, infinity included."""

    width: Any
    in_std: Any
    out_std: Any
    gate_std: Any
    in_bias_std: Any
    out_bias_std: Any
    activation: Activation = eqx.field(static=True)
    gated: bool = eqx.field(static=True)
    biased: bool = eqx.field(static=True)
    ends_fresh = True

    @classmethod
    def of(cls, layer: MLP, width: int | float) -> "MLPAt":
        return cls(
            width=layer.width_at(width),
            in_std=layer.in_std,
            out_std=layer.out_std,
            gate_std=layer.gate_std,
            in_bias_std=layer.in_bias_std,
            out_bias_std=layer.out_bias_std,
            activation=layer.activation,
            gated=layer.gated,
            biased=bool(layer.in_bias_std),
        )


@gram.rule(MLPAt)
def _(layer: MLPAt, stream: Stream, context: Context) -> Stream:
    """`out_std^2 phi(h) phi(h)^T / m`, the hidden units drawn one by one, or the dual activation where there is no end of them."""
    for_tokens, for_units = context.split(2)
    tokens = stream.settle(for_tokens)
    root = jnp.broadcast_to(tokens.factor, (*tokens.factor.shape[:2], context.draws))

    def factor(std: Any, root: Array) -> Float[Array, "s r draws"]:
        if not layer.biased:
            return std * root
        return jnp.concatenate([std * root, jnp.full_like(root[:, :1], layer.in_bias_std)], axis=1)

    def limit(root: Array) -> Float[Array, "s s draws"]:
        plain = factor(layer.in_std, root)
        hidden = multiply(plain, jnp.swapaxes(plain, 0, 1))
        if not layer.gated:
            return layer.activation.kernel(hidden)
        gate = factor(layer.gate_std, root)
        return layer.activation.kernel(multiply(gate, jnp.swapaxes(gate, 0, 1))) * hidden

    def sampled(root: Array) -> Float[Array, "s s draws"]:
        plain, gate = factor(layer.in_std, root), factor(layer.gate_std, root)
        axes = plain.shape[1]

        def unit(z: Float[Array, "r *units draws"]) -> Float[Array, "s *units draws"]:
            if not layer.gated:
                return layer.activation(_product(plain, z))
            return layer.activation(_product(gate, z[:axes])) * _product(plain, z[axes:])

        return averaged_products(unit, axes * (1 + layer.gated), root.shape[0], layer.width, for_units)

    products = jax.lax.cond(jnp.isinf(layer.width), limit, sampled, root)
    return Fresh(layer.out_std**2 * products + layer.out_bias_std**2, tokens.width)


def _product(factor: Float[Array, "s r draws"], z: Float[Array, "r *units draws"]) -> Float[Array, "s *units draws"]:
    return multiply(factor, z[:, None])[:, 0] if z.ndim == 2 else multiply(factor, z)


@gram.rule(Residual)
def _(layer: Residual, stream: Stream, context: Context) -> Stream:
    for_tokens, *_ = context.split(3)
    tokens = stream.settle(for_tokens)
    return joined(tokens, branch_of(layer, tokens, context).covariance, layer.skip, context)


def branch_of(layer: Residual, tokens: Tokens, context: Context) -> Stream:
    """What a residual layer adds to its tokens."""
    _, for_branch, _ = context.split(3)
    return apply(layer.layers, tokens, for_branch)


def joined(tokens: Tokens, covariance: Float[Array, "s s *draws"], skip: Any, context: Context) -> Tokens:
    """The tokens after a residual layer that adds a branch with this covariance."""
    *_, for_sum = context.split(3)
    return _joined(tokens, covariance, skip, for_sum)


def _joined(tokens: Tokens, covariance: Float[Array, "s s *draws"], skip: Any, context: Context) -> Tokens:
    """`skip X + Y` for the active tokens; the others stay."""
    if context.active is None:
        return add_branch(tokens, covariance, skip, context)
    active = np.array(context.active)
    covariance = jnp.where((active[:, None] & active)[..., None], covariance, 0.0)
    return add_branch(tokens, covariance, jnp.where(active, skip, 1.0), context)


@gram.rule(Only)
def _(layer: Only, stream: Stream, context: Context) -> Stream:
    for_tokens, for_layers = context.split(2)
    active = tuple(bool(x) for x in context.layout.sequence == layer.sequence)
    return apply_settled(layer.layers, stream.settle(for_tokens), replace(for_layers, active=active))


def apply(layers: tuple[Any, ...], stream: Stream, context: Context) -> Stream:
    """Layers in turn; the last may leave a fresh matrix behind, which is settled by whoever looks at it."""
    *most, last = context.split(len(layers))
    for layer, own in zip(layers[:-1], most, strict=True):
        stream = apply_settled((layer,), stream, own) if own.active is not None else gram(layer, stream, own)
    return gram(layers[-1], stream, last)


def apply_settled(layers: tuple[Any, ...], stream: Stream, context: Context) -> Tokens:
    """Layers in turn, each result settled; tokens that are not active stay."""
    for layer, own in zip(layers, context.split(len(layers)), strict=True):
        stream = settled(layer, stream, own)
    assert isinstance(stream, Tokens)
    return stream


def settled(layer: Any, stream: Stream, context: Context) -> Tokens:
    """A layer, its result settled; tokens that are not active stay."""
    for_before, for_layer, for_after = context.split(3)
    tokens = stream.settle(for_before)
    after = gram(layer, tokens, for_layer)
    if isinstance(after, Tokens):
        return after
    if context.active is None:
        return after.settle(for_after)
    return _joined(tokens, after.covariance, 0.0, for_after)


@gram.rule(Repeat)
def _(layer: Repeat, stream: Stream, context: Context) -> Stream:
    """A scan over repetitions. Where they end in a fresh matrix, the last is left to be settled by whoever looks at it."""
    for_tokens, for_first, for_last = context.split(3)
    tokens = stream.settle(for_tokens)
    count = layer.count - layer.ends_fresh
    if count:
        tokens, seen = _repeated(layer, count, tokens, for_first)
        if context.watch is not None:
            context.watch.extend(part[i] for i in range(count) for part in seen)
    return tokens if count == layer.count else apply(layer.layers, tokens, for_last)


def _repeated(layer: Repeat, count: int, tokens: Tokens, context: Context) -> tuple[Tokens, Any]:
    """`count` repetitions, and for each, if someone watches, the attention entropies."""
    full = Tokens(jnp.broadcast_to(tokens.root, (*tokens.root.shape[:2], context.draws)), tokens.width)

    def body(carry: Tokens, key: PRNGKeyArray) -> tuple[Tokens, Any]:
        watch = None if context.watch is None else []
        after = apply_settled(layer.layers, carry, replace(context, key=key, watch=watch))
        return Tokens(after.root, after.width), watch

    return jax.lax.scan(body, full, random.fold_in(context.key, np.arange(count)))


@gram.rule(Readout)
def _(layer: Readout, stream: Stream, context: Context) -> Stream:
    tokens = read(layer, stream, context)
    return Fresh(layer.std**2 * tokens.gram + layer.bias_std**2, tokens.width)


def read(layer: Readout, stream: Stream, context: Context) -> Tokens:
    """What the matrix of a read-out reads."""
    for_tokens, for_layers = context.split(2)
    return apply_settled(layer.layers, stream.settle(for_tokens), for_layers)


def sampler(net: Any, width: int | float, observe: str, rows: tuple[int, ...] | None) -> Block:
    """Draws of a network's observable, in blocks that one compilation serves at every width."""
    layers = layers_behind(net.layers, observe)
    last = layers[-1] if layers else None
    observed = observe == "scores"
    heads = last.heads if observed and isinstance(last, Attention) else 0
    size = block_size(net, width, heads)
    tracks_mean = needs_mean(net.inputs, layers)
    inputs, *parts = (at_width(part, width, net.layout, observed=observed) for part in (net.inputs, *layers))
    draw = functools.partial(
        _draw,
        inputs,
        tuple(parts),
        jax.device_put(np.float32(width)),
        observe=observe,
        rows=rows,
        scope=Scope(size, net.layout, tracks_mean),
        shortcut=isinstance(last, Attention) and last.is_plain and not tracks_mean,
    )
    return Block(draw, size, memory(net, width, size, heads), alone=calls_lapack(net.tokens))


def at_width(part: Any, width: int | float, layout: Layout, *, observed: bool) -> Any:
    """Inputs or a layer, with all within it, in the form that most networks share: what can be a traced number is one."""

    def convert(node: Any) -> Any:
        if isinstance(node, Attention):
            return AttentionAt.of(node, width, layout, observed=observed)
        if isinstance(node, MLP):
            return MLPAt.of(node, width)
        return EmbeddedAt.of(node, width) if isinstance(node, Embedding) else node

    converted = jax.tree.map(convert, part, is_leaf=lambda node: isinstance(node, Attention | MLP | Embedding))
    return jax.tree.map(_as_traced, converted)


def needs_mean(inputs: Any, layers: tuple[Layer, ...]) -> bool:
    """Whether someone looks at the coordinate mean of a token."""
    norm = inputs.norm if isinstance(inputs, Embedding) else None
    return any(layer.needs_mean for layer in (*layers, *([norm] if norm is not None else [])))


def layers_behind(layers: tuple[Layer, ...], observe: str) -> tuple[Layer, ...]:
    """The layers that an observable depends on: for scores, those up to the last attention layer; for a Gram matrix, all but the matrix of a read-out."""
    if observe == "scores":
        return until_last_attention(layers)
    if observe == "gram" and layers and isinstance(layers[-1], Readout):
        return (*layers[:-1], *layers[-1].layers)
    return layers


def until_last_attention(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """The layers up to the last attention layer, which then is the last of them: what its scores depend on."""
    last = max(i for i, layer in enumerate(layers) if _has_attention(layer))
    before, layer = layers[:last], layers[last]
    if isinstance(layer, Attention):
        return (*before, layer)
    *inner, attention = until_last_attention(layer.inner)
    if isinstance(layer, Only) and inner:
        inner = [Only(layer.sequence, *inner)]
    earlier = [Repeat(layer.times - 1, *layer.inner)] if layer.times > 1 else []
    return (*before, *earlier, *inner, attention)


def _has_attention(layer: Layer) -> bool:
    return any(isinstance(part, Attention) for part, _ in layer.walk())


def _as_traced(leaf: Any) -> Any:
    """Numbers become arrays, so that they are traced rather than compiled in; by way of numpy, which takes no program to make them."""
    array = np.asarray(leaf)
    return jax.device_put(array if array.dtype == bool else array.astype(np.float32))


def block_size(net: Any, width: int | float, scores_of: int | float = 0, most: int | float = inf) -> int:
    """Draws in a block: as many as keep a few token matrices of it in a core's cache and its work below a second or so, `most` at the most.

    It depends on the width only where hidden layers are wider than most, so that it is compiled once.

    !!! Example

        >>> import limitlaw as ll
        >>> from limitlaw.networks import block_size
        >>> short, long = (ll.Network(ll.Inputs(tokens=s), ll.Attention(heads=2)) for s in (4, 64))
        >>> block_size(short, 64) == block_size(short, 1024) > block_size(long, 64)
        True
    """
    s = net.tokens
    if _has_infinite_heads(net):
        return largest_power_of_two(min(16, 2**16 / s**2))
    matrices, _ = _work(net, width)
    _, units = _work(net, width, least=_USUAL_UNITS)
    limits = [most, 2**16 / max(s, 8), 2**18 / s**2, 2**26 / (s * matrices * max(s / 8, 1))]
    if scores_of:
        limits.append(2**22 / (s**2 * scores_of))
    if units:
        limits.append(2**28 / (s * units))
    coordinates = _coordinates(net, width)
    if coordinates:
        limits.append(2**24 / coordinates)
    size = largest_power_of_two(min(limits))
    return size if jax.default_backend() == "cpu" else _filling_an_accelerator(net, width, size, scores_of)


def _filling_an_accelerator(net: Any, width: int | float, size: int, scores_of: int | float) -> int:
    """A block large enough to be worth starting there: as much work as a few hundred blocks for a core, in a quarter of the memory that draws may take unless told, or an eighth of the device's."""
    device = (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit", jnp.inf)
    fits = min(DEFAULT_MEMORY / 4, device / 8) / memory(net, width, 1, scores_of)
    return max(size, largest_power_of_two(min(_BLOCKS_FOR_A_CORE * size, fits)))


def numbers_of_a_draw(net: Any, width: int | float) -> float:
    """Random numbers behind one draw of a network, roughly.

    !!! Example

        >>> import limitlaw as ll
        >>> from limitlaw.networks import numbers_of_a_draw
        >>> two, four = (ll.Network(ll.Inputs(tokens=4), ll.Attention(heads=h)) for h in (2, 4))
        >>> numbers_of_a_draw(four, 64) - numbers_of_a_draw(two, 64)  # two heads of four tokens more
        8.0
    """
    matrices, units = _work(net, width)
    return net.tokens * (matrices * max(net.tokens / 8, 1) + units)


def seconds_of_a_draw(net: Any, width: int | float) -> float:
    """Seconds that a core takes for one draw of a network, roughly: hidden units, and coordinates of nonlinear inputs, are cheaper than the rest.

    !!! Example

        >>> import limitlaw as ll
        >>> from limitlaw.networks import seconds_of_a_draw
        >>> net = ll.Network(ll.Inputs(tokens=4, activation="relu"), ll.Attention(heads=2))
        >>> seconds_of_a_draw(net, 64) < seconds_of_a_draw(net, 1024) < 1e-4
        True
    """
    s = net.tokens
    matrices, units = _work(net, width)
    return s * matrices * max(s / 8, 1) / _MATRIX_NUMBERS_A_SECOND + s * units * max(s / 4, 1) / _UNITS_A_SECOND


def _work(net: Any, width: int | float, least: int = 0) -> tuple[float, float]:
    """Token matrices that a draw computes with, and the coordinates of nonlinear inputs and hidden layers that it draws, counting each at `least` so often."""
    parts = [(layer, count) for top in net.layers for layer, count in top.walk()]
    heads = sum(layer.heads * count for layer, count in parts if isinstance(layer, Attention) and layer.heads < jnp.inf)
    matrices = heads + 4 * sum(count for layer, count in parts if not layer.inner) + 1
    units = [(layer.width_at(width), count) for layer, count in parts if isinstance(layer, MLP)]
    if isinstance(net.inputs, Inputs) and not is_linear(net.inputs):
        units.append((width, 1))
    return float(matrices), float(sum(count * max(unit if unit < jnp.inf else 0, least) for unit, count in units))


def _has_infinite_heads(net: Any) -> bool:
    parts = [layer for top in net.layers for layer, _ in top.walk()]
    return any(isinstance(layer, Attention) and layer.heads == jnp.inf for layer in parts)


def memory(net: Any, width: int | float, draws: int, scores_of: int | float = 0) -> int:
    """Bytes that a block of draws takes while it is computed, an upper bound."""
    at_once = EXPECTATION_AT_ONCE if _has_infinite_heads(net) else 1
    coordinates = _coordinates(net, width)
    return int(4 * draws * (net.tokens**2 * (_WORKING_MATRICES * at_once + scores_of) + coordinates))


def _coordinates(net: Any, width: int | float) -> float:
    """Numbers behind a draw where queries, keys and values of a layer are drawn in coordinates, with room to work; 0 if none are."""
    drawn = [
        net.tokens * layer.head_dim_at(width) * (3 * layer.heads + 4 * layer.groups)
        for top in net.layers
        for layer, _ in top.walk()
        if isinstance(layer, Attention) and draws_coordinates(layer, width, net.tokens)
    ]
    return float(max(drawn, default=0))


def working_memory(net: Any, width: int | float) -> int:
    """Bytes that drawing a network takes, whatever the number of draws.

    !!! Example

        >>> import limitlaw as ll
        >>> from limitlaw.networks import working_memory
        >>> working_memory(ll.Network(ll.Inputs(tokens=4), ll.Attention(heads=2)), 64) < 2**30
        True
    """
    return memory(net, width, block_size(net, width))


def is_linear(inputs: Inputs) -> bool:
    """Whether the activation is the identity on every number it can meet: `r <= 6` and `|z| <= 6`, even at n = 1."""
    return inputs.activation.identity_up_to >= _NORMAL_REACH**2


@dataclass(frozen=True)
class Scope:
    """What all stages of a block share: its number of draws, where the tokens stand, and whether their mean is tracked."""

    draws: int
    layout: Layout
    tracks_mean: bool

    def context(self, key: PRNGKeyArray) -> Context:
        return Context(key, self.draws, self.layout, self.tracks_mean)


def _draw(
    inputs: Any,
    layers: tuple[Any, ...],
    width: Float[Array, ""],
    key: PRNGKeyArray,
    *,
    observe: str,
    rows: tuple[int, ...] | None,
    scope: Scope,
    shortcut: bool,
) -> Float[Array, "draws ..."]:
    """A block of draws, in stages that are compiled one by one: less to compile than the whole, and shared between networks.

    `shortcut` says that the last layer can compute the wanted rows alone.
    """
    key_inputs, key_last, key_output, *keys = random.split(key, 3 + 2 * len(layers))
    stream = _start(inputs, width, key_inputs, scope)
    last = len(layers) - 1
    for i, layer in enumerate(layers):
        answering = rows if i == last and observe != "gram" and shortcut else None
        reordered = answering is not None and answering != tuple(range(len(answering)))
        tokens = _settled(stream, keys[2 * i], scope, reordered)
        if observe == "scores" and i == last:
            return _scores(layer, tokens, keys[2 * i + 1], scope, answering, None if shortcut else rows)
        stream = _applied(layer, tokens, keys[2 * i + 1], scope, answering)
    picked = None if shortcut and observe != "gram" else rows
    if observe == "gram" or not layers:  # inputs alone are observed through a read-out
        stream = _settled(stream, key_last, scope, True)
    return _emitted(stream, key_output, scope, picked, observe == "output")


def _start(inputs: Any, width: Float[Array, ""], key: PRNGKeyArray, scope: Scope) -> Stream:
    if isinstance(inputs, Inputs) and is_linear(inputs):  # by their rule, in a program that all numbers of them share
        for_length, _ = random.split(key)
        return Isotropic(_length(width, for_length, scope.draws), width, inputs.tokens)
    return _of_inputs(inputs, width, key, scope)


@functools.partial(jax.jit, static_argnums=3)
def _of_inputs(inputs: Any, width: Float[Array, ""], key: PRNGKeyArray, scope: Scope) -> Stream:
    return gram(inputs, width, scope.context(key))


@functools.partial(jax.jit, static_argnums=(2, 3))
def _settled(stream: Stream, key: PRNGKeyArray, scope: Scope, keep_gram: bool) -> Tokens:
    """Without the Gram matrix, if nobody will look at it: then all kinds of inputs share what follows."""
    tokens = stream.settle(scope.context(key))
    return tokens if keep_gram else Tokens(tokens.root, tokens.width, centred=tokens.centred)


@functools.partial(jax.jit, static_argnums=(3, 4))
def _applied(layer: Any, tokens: Tokens, key: PRNGKeyArray, scope: Scope, rows: tuple[int, ...] | None) -> Stream:
    if rows is None:
        return gram(layer, tokens, scope.context(key))
    return gram(layer, tokens, scope.context(key), rows)


@functools.partial(jax.jit, static_argnums=(3, 4, 5))
def _scores(
    layer: AttentionAt,
    tokens: Tokens,
    key: PRNGKeyArray,
    scope: Scope,
    rows: tuple[int, ...] | None,
    picked: tuple[int, ...] | None,
) -> Float[Array, "draws heads k s"]:
    """Of `rows` alone, or of those `picked` from all."""
    by_head = scores(layer, tokens, scope.context(key), rows)
    return jnp.moveaxis(by_head if picked is None else by_head[:, np.array(picked)], -1, 0)


@functools.partial(jax.jit, static_argnums=(2, 3, 4))
def _emitted(
    stream: Stream, key: PRNGKeyArray, scope: Scope, rows: tuple[int, ...] | None, output: bool
) -> Float[Array, "draws ..."]:
    """What is observed in the end: a covariance (or Gram matrix), or a normal that has it; of `rows`, if they are given."""
    matrix = stream.covariance
    matrix = matrix if rows is None else matrix[np.array(rows)][:, np.array(rows)]
    if output:
        normals = random.normal(key, (matrix.shape[0], 1, scope.draws))
        return multiply(psd_root(matrix), normals)[:, 0].T
    return jnp.moveaxis(jnp.broadcast_to(matrix, (*matrix.shape[:2], scope.draws)), -1, 0)

"""The dense reading: draw every matrix. Slow and obvious; it is the definition that every other reading is tested against."""

import functools
from math import sqrt
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..numerics import Block, largest_power_of_two, narrow_root
from ._attention import Attention
from ._described import Layout
from ._frozen import Frozen
from ._gram import layers_behind
from ._inputs import Embedding, GaussianInputs, GramInputs, Inputs
from ._layers import MLP, Only, Readout, Repeat, Residual
from ._norms import LayerNorm, RMSNorm
from ._reading import Reading

dense = Reading("dense")

_BLOCK_FLOATS = 2**24  # numbers that one block holds at a time
_BLOCK_NORMALS = 2**25  # numbers that one block draws: a fraction of a second, so that an interrupt is answered
_WORKING_MATRICES = 8  # weight matrices alive at once, an upper bound


class Activity(eqx.Module):
    """One sample's tokens after a layer, with what observers ask for.

    !!! Example

        >>> import jax.numpy as jnp, limitlaw as ll
        >>> from limitlaw.networks import Activity, Layout, dense
        >>> from limitlaw.numerics import seed_key
        >>> tokens = jnp.array([[2.0, 4.0]])
        >>> x = Activity(tokens, tokens @ tokens.T / 2, Layout((1,)))
        >>> dense(ll.LayerNorm(eps=0.0), x, seed_key(0)).tokens.tolist()
        [[-1.0, 1.0]]
    """

    tokens: Float[Array, "s n"]
    covariance: Float[Array, "s s"]  # of the output, given all that came before the last matrix (or a fresh read-out)
    layout: Layout = eqx.field(static=True)
    scores: Float[Array, "*heads s s"] | None = None
    fresh: bool = eqx.field(static=True, default=False)  # whether the tokens end in a fresh matrix, so need no read-out


def read_out(tokens: Float[Array, "s n"], layout: Layout) -> Activity:
    """Tokens that are observed through a fresh read-out: its covariance is their Gram matrix."""
    return Activity(tokens, tokens @ tokens.T / tokens.shape[1], layout)


@dense.rule(Inputs)
def _(inputs: Inputs, width: int, key: PRNGKeyArray) -> Activity:
    key_h, *keys = jax.random.split(key, inputs.tokens + 1)
    h = jax.random.normal(key_h, (width,))

    def token(key: PRNGKeyArray) -> Float[Array, "n"]:
        return inputs.activation(_matrix(key, width, width, 1.0) @ h)

    return read_out(jax.lax.map(token, jnp.stack(keys)), inputs.layout)


class FixedTokens(eqx.Module):
    """Tokens that are the same in every draw."""

    tokens: Float[np.ndarray, "s n"]
    layout: Layout = eqx.field(static=True)


@dense.rule(FixedTokens)
def _(inputs: FixedTokens, width: int, key: PRNGKeyArray) -> Activity:
    del width, key
    return read_out(jnp.asarray(inputs.tokens), inputs.layout)


def tokens_with_gram(inputs: GramInputs, width: int) -> np.ndarray:
    """`X` with `X X^T / n = K` and `X 1 / n = mean`, in the cosine basis, whose first vector is the constant one."""
    factor = narrow_root(inputs.centred)
    rank = factor.shape[1]
    # A full set of tokens takes the constant direction too: only possible where no mean was asked for.
    frequencies = np.arange(rank) + (rank < width)
    basis = np.sqrt(2) * np.cos(np.pi * np.outer(frequencies, np.arange(width) + 0.5) / width)
    basis[frequencies == 0] = 1.0
    x = factor @ basis
    return x if inputs.mean is None else x + inputs.mean[:, None]


@dense.rule(GaussianInputs)
def _(inputs: GaussianInputs, width: int, key: PRNGKeyArray) -> Activity:
    values, vectors = jnp.linalg.eigh(jnp.asarray(inputs.K, jnp.float32))
    root = vectors * jnp.sqrt(jnp.maximum(values, 0.0))
    return read_out(root @ jax.random.normal(key, (inputs.size, width)), inputs.layout)


@dense.rule(Embedding)
def _(inputs: Embedding, width: int, key: PRNGKeyArray) -> Activity:
    """A row of a table for every id that occurs, every position, every type."""
    key_ids, key_positions, key_types, key_norm = jax.random.split(key, 4)

    def rows(key: PRNGKeyArray, which: np.ndarray, std: Any) -> Float[Array, "s n"]:
        distinct, index = np.unique(which, return_inverse=True)
        return (std * jax.random.normal(key, (len(distinct), width)))[index]

    ids = np.concatenate(inputs.ids)
    x = jnp.where((ids != inputs.padding)[:, None], rows(key_ids, ids, inputs.std), 0.0)
    if inputs.positions == "learned":
        x = x + rows(key_positions, inputs.layout.position, inputs.position_std)
    elif inputs.positions == "sinusoidal":
        x = x + jnp.asarray(inputs.sinusoids(width), jnp.float32)
    if inputs.types is not None:
        x = x + rows(key_types, np.concatenate(inputs.types), inputs.type_std)
    start = read_out(x, inputs.layout)
    return start if inputs.norm is None else dense(inputs.norm, start, key_norm)


@dense.rule(Attention)
def _(layer: Attention, x: Activity, key: PRNGKeyArray) -> Activity:
    tokens, heads = x.tokens, int(layer.heads)
    size, width = tokens.shape
    head_dim = layer.head_dim_at(width)
    allowed, added = layer.allowed(x.layout), layer.added(x.layout)
    key_groups, key_heads, key_bias = jax.random.split(key, 3)
    out_std = layer.out_std / sqrt(heads)

    def turned(vectors: Float[Array, "s d"]) -> Float[Array, "s d"]:
        if layer.rope is None:
            return vectors
        angle = jnp.asarray(np.outer(x.layout.position, layer.frequencies(head_dim, size)[0]), vectors.dtype)
        first, second = jnp.split(vectors, 2, axis=1)
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        return jnp.concatenate([first * cos - second * sin, first * sin + second * cos], axis=1)

    def head(index: Array) -> tuple[Array, Array, Array]:
        shared = jax.random.fold_in(key_groups, index // (heads // layer.groups))
        key_k, key_v = jax.random.split(shared)
        key_q, key_o = jax.random.split(jax.random.fold_in(key_heads, index))
        queries = _linear(key_k if layer.tie_qk else key_q, tokens, head_dim, layer.query_std, layer.query_bias_std)
        keys = _linear(key_k, tokens, head_dim, layer.key_std, layer.key_bias_std)
        values = _linear(key_v, tokens, head_dim, layer.value_std, layer.value_bias_std)
        scores = turned(queries) @ turned(keys).T / (head_dim if layer.scale == "linear" else sqrt(head_dim))
        if added is not None:
            scores = scores + jnp.asarray(added, jnp.float32)[jnp.minimum(index, len(added) - 1)]
        logits = scores if allowed is None else jnp.where(allowed, scores, -jnp.inf)
        mixed = jax.nn.softmax(logits, axis=1) @ values
        return mixed @ _matrix(key_o, head_dim, width, out_std), out_std**2 * mixed @ mixed.T / head_dim, scores

    outputs, covariances, scores = jax.lax.map(head, jnp.arange(heads))
    bias = layer.out_bias_std * jax.random.normal(key_bias, (width,))
    covariance = covariances.sum(axis=0) + layer.out_bias_std**2
    return Activity(outputs.sum(axis=0) + bias, covariance, x.layout, scores, fresh=True)


@dense.rule(RMSNorm)
def _(layer: RMSNorm, x: Activity, key: PRNGKeyArray) -> Activity:
    del key
    square = jnp.mean(x.tokens**2, axis=1, keepdims=True)
    return read_out(x.tokens / jnp.sqrt(square + layer.eps), x.layout)


@dense.rule(LayerNorm)
def _(layer: LayerNorm, x: Activity, key: PRNGKeyArray) -> Activity:
    del key
    centred = x.tokens - jnp.mean(x.tokens, axis=1, keepdims=True)
    return read_out(centred / jnp.sqrt(jnp.mean(centred**2, axis=1, keepdims=True) + layer.eps), x.layout)


@dense.rule(MLP)
def _(layer: MLP, x: Activity, key: PRNGKeyArray) -> Activity:
    width = x.tokens.shape[1]
    hidden_width = int(layer.width_at(width))
    key_in, key_gate, key_out, key_bias = jax.random.split(key, 4)
    hidden = _linear(key_in, x.tokens, hidden_width, layer.in_std, layer.in_bias_std)
    if layer.gated:
        gate = _linear(key_gate, x.tokens, hidden_width, layer.gate_std, layer.in_bias_std)
        hidden = layer.activation(gate) * hidden
    else:
        hidden = layer.activation(hidden)
    bias = layer.out_bias_std * jax.random.normal(key_bias, (width,))
    covariance = layer.out_std**2 * hidden @ hidden.T / hidden_width + layer.out_bias_std**2
    return Activity(
        hidden @ _matrix(key_out, hidden_width, width, layer.out_std) + bias, covariance, x.layout, fresh=True
    )


@dense.rule(Residual)
def _(layer: Residual, x: Activity, key: PRNGKeyArray) -> Activity:
    return read_out(layer.skip * x.tokens + _in_turn(layer.layers, x, key).tokens, x.layout)


@dense.rule(Repeat)
def _(layer: Repeat, x: Activity, key: PRNGKeyArray) -> Activity:
    for own in jax.random.split(key, layer.count):
        x = _in_turn(layer.layers, x, own)
    return x


@dense.rule(Only)
def _(layer: Only, x: Activity, key: PRNGKeyArray) -> Activity:
    """Layers see all tokens; those of other sequences are put back after each."""
    return _in_turn(layer.layers, x, key, (x.layout.sequence == layer.sequence)[:, None])


def _in_turn(layers: tuple[Any, ...], x: Activity, key: PRNGKeyArray, active: Any = None) -> Activity:
    """Layers in turn; where `active` says that a token takes no part, it stays, also within the layers of a layer."""
    for layer, own in zip(layers, jax.random.split(key, len(layers)), strict=True):
        if active is None:
            x = dense(layer, x, own)
        elif isinstance(layer, Repeat):
            for again in jax.random.split(own, layer.count):
                x = _in_turn(layer.layers, x, again, active)
        elif isinstance(layer, Residual):
            branch = _in_turn(layer.layers, x, own, active)
            x = read_out(jnp.where(active, layer.skip * x.tokens + branch.tokens, x.tokens), x.layout)
        else:
            x = read_out(jnp.where(active, dense(layer, x, own).tokens, x.tokens), x.layout)
    return x


@dense.rule(Readout)
def _(layer: Readout, x: Activity, key: PRNGKeyArray) -> Activity:
    key_layers, key_matrix, key_bias = jax.random.split(key, 3)
    read = _in_turn(layer.layers, x, key_layers)
    width = read.tokens.shape[1]
    outputs = read.tokens @ _matrix(key_matrix, width, width, layer.std)
    bias = layer.bias_std * jax.random.normal(key_bias, (width,))
    covariance = layer.std**2 * read.tokens @ read.tokens.T / width + layer.bias_std**2
    return Activity(outputs + bias, covariance, x.layout, fresh=True)


def _linear(key: PRNGKeyArray, tokens: Array, outputs: int, std: Any, bias_std: Any) -> Float[Array, "s outputs"]:
    """A fresh linear map with a Gaussian bias."""
    key_matrix, key_bias = jax.random.split(key)
    bias = bias_std * jax.random.normal(key_bias, (outputs,))
    return tokens @ _matrix(key_matrix, tokens.shape[1], outputs, std) + bias


def _matrix(key: PRNGKeyArray, fan_in: int, fan_out: int, std: Any) -> Float[Array, "fan_in fan_out"]:
    return std / sqrt(fan_in) * jax.random.normal(key, (fan_in, fan_out))


def sampler(net: Any, width: int, observe: str, rows: tuple[int, ...] | None) -> Block:
    """Draws of a network's observable, every matrix of every draw drawn in full."""
    layers = layers_behind(net.layers, observe)
    parts = [(layer, count) for top in layers for layer, count in top.walk()]
    attentions = [(int(a.heads), a.head_dim_at(width), count) for a, count in parts if isinstance(a, Attention)]
    hidden = [(layer.width_at(width), count) for layer, count in parts if isinstance(layer, MLP)]
    largest = width * max([width, *[dim for _, dim, _ in attentions], *[units for units, _ in hidden]])
    floats = _WORKING_MATRICES * largest + 2 * net.tokens**2 * max([heads for heads, _, _ in attentions], default=1)
    normals = net.tokens * width**2 + sum(4 * heads * width * dim * count for heads, dim, count in attentions)
    normals += sum(3 * width * units * count for units, count in hidden)
    size = largest_power_of_two(min(_BLOCK_FLOATS / floats, _BLOCK_NORMALS / normals, 1024))
    inputs = net.inputs
    if isinstance(inputs, GramInputs):
        inputs = FixedTokens(tokens_with_gram(inputs, width).astype(np.float32), inputs.layout)
    return Block(
        functools.partial(_draw, Frozen((inputs, layers)), width, observe, rows, size),
        size,
        4 * size * floats,
    )


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _draw(
    parts: Frozen, width: int, observe: str, rows: tuple[int, ...] | None, draws: int, key: PRNGKeyArray
) -> Float[Array, "draws ..."]:
    inputs, layers = parts.tree

    def one(key: PRNGKeyArray) -> Array:
        key_inputs, key_read_out, *keys = jax.random.split(key, 2 + len(layers))
        x = dense(inputs, width, key_inputs)
        scores = None
        for layer, key_layer in zip(layers, keys, strict=True):
            x = dense(layer, x, key_layer)
            scores = x.scores if isinstance(layer, Attention) else scores
        picked = np.arange(x.tokens.shape[0]) if rows is None else np.array(rows)
        if observe == "scores":
            assert scores is not None
            return scores[:, picked]
        if observe == "gram":
            return x.tokens @ x.tokens.T / width
        if observe == "covariance":
            return x.covariance[picked][:, picked]
        if x.fresh:
            return x.tokens[picked, 0]
        return x.tokens[picked] @ jax.random.normal(key_read_out, (width,)) / sqrt(width)

    return jax.vmap(one)(jax.random.split(key, draws))

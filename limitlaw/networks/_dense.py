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
from ._layers import Attention, GaussianInputs, GramInputs, Inputs
from ._reading import Reading

dense = Reading("dense")

_BLOCK_FLOATS = 2**24  # numbers that one block holds at a time
_BLOCK_NORMALS = 2**25  # numbers that one block draws: a fraction of a second, so that an interrupt is answered
_WORKING_MATRICES = 8  # weight matrices alive at once, an upper bound


class Activity(eqx.Module):
    """One sample's tokens after a layer, with what observers ask for."""

    tokens: Float[Array, "s n"]
    covariance: Float[Array, "s s"]  # of the output, given all that came before the last matrix (or a fresh read-out)
    scores: Float[Array, "*heads s s"] | None = None
    fresh: bool = eqx.field(static=True, default=False)  # whether the tokens end in a fresh matrix, so need no read-out


def read_out(tokens: Float[Array, "s n"], scores: Any = None) -> Activity:
    """Tokens that are observed through a fresh read-out: its covariance is their Gram matrix."""
    return Activity(tokens, tokens @ tokens.T / tokens.shape[1], scores)


@dense.rule(Inputs)
def _(inputs: Inputs, width: int, key: PRNGKeyArray) -> Activity:
    key_h, *keys = jax.random.split(key, inputs.tokens + 1)
    h = jax.random.normal(key_h, (width,))

    def token(key: PRNGKeyArray) -> Float[Array, "n"]:
        return inputs.activation(_matrix(key, width, width, 1.0) @ h)

    return read_out(jax.lax.map(token, jnp.stack(keys)))


class FixedTokens(eqx.Module):
    """Tokens that are the same in every draw."""

    tokens: Float[Array, "s n"]


@dense.rule(FixedTokens)
def _(inputs: FixedTokens, width: int, key: PRNGKeyArray) -> Activity:
    del width, key
    return read_out(inputs.tokens)


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
    return read_out(root @ jax.random.normal(key, (inputs.size, width)))


@dense.rule(Attention)
def _(layer: Attention, x: Activity, key: PRNGKeyArray) -> Activity:
    tokens, heads = x.tokens, int(layer.heads)
    size, width = tokens.shape
    head_dim = layer.head_dim_at(width)
    allowed = layer.allowed(size)

    def head(key: PRNGKeyArray) -> Activity:
        key_q, key_k, key_v, key_o = jax.random.split(key, 4)
        queries = tokens @ _matrix(key_q, width, head_dim, layer.query_std)
        keys = tokens @ _matrix(key_q if layer.tie_qk else key_k, width, head_dim, layer.key_std)
        values = tokens @ _matrix(key_v, width, head_dim, layer.value_std)
        scores = queries @ keys.T / (head_dim if layer.scale == "linear" else sqrt(head_dim))
        logits = scores if allowed is None else jnp.where(allowed, scores, -jnp.inf)
        mixed = jax.nn.softmax(logits, axis=1) @ values
        out_std = layer.out_std / sqrt(heads)
        return Activity(
            mixed @ _matrix(key_o, head_dim, width, out_std), out_std**2 * mixed @ mixed.T / head_dim, scores
        )

    each = jax.lax.map(head, jax.random.split(key, heads))
    return Activity(each.tokens.sum(axis=0), each.covariance.sum(axis=0), each.scores, fresh=True)


def _matrix(key: PRNGKeyArray, fan_in: int, fan_out: int, std: Any) -> Float[Array, "fan_in fan_out"]:
    return std / sqrt(fan_in) * jax.random.normal(key, (fan_in, fan_out))


def sampler(net: Any, width: int, observe: str, rows: tuple[int, ...] | None) -> Block:
    """Draws of a network's observable, every matrix of every draw drawn in full."""
    attentions = [(int(layer.heads), layer.head_dim_at(width)) for layer in net.layers if isinstance(layer, Attention)]
    largest = width * max([width, *[dim for _, dim in attentions]])
    floats = _WORKING_MATRICES * largest + 2 * net.tokens**2 * max([heads for heads, _ in attentions], default=1)
    normals = net.tokens * width**2 + sum(4 * heads * width * dim for heads, dim in attentions)
    size = largest_power_of_two(min(_BLOCK_FLOATS / floats, _BLOCK_NORMALS / normals, 1024))
    inputs = net.inputs
    if isinstance(inputs, GramInputs):
        inputs = FixedTokens(jnp.asarray(tokens_with_gram(inputs, width), jnp.float32))
    return Block(
        functools.partial(_draw, inputs, net.layers, width, observe=observe, rows=rows, draws=size),
        size,
        4 * size * floats,
    )


@eqx.filter_jit
def _draw(
    inputs: Any,
    layers: tuple[Any, ...],
    width: int,
    key: PRNGKeyArray,
    *,
    observe: str,
    rows: tuple[int, ...] | None,
    draws: int,
) -> Float[Array, "draws ..."]:
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

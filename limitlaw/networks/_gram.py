"""The Gram reading: exact at every width, infinity included, without a single weight matrix.

Given the tokens `X`, the columns of `X W` are i.i.d. `N(0, sigma^2 K)`, `K = X X^T / n`; so a layer sees its input through
`K` alone, and Gaussian vectors seen only through inner products are rows of a Bartlett factor. Widths, head dimensions and
stds are traced scalars: one compilation serves n = 1 ... inf.

Arrays are `(rows, columns, *draws)`: rules are written for one sample, and trailing axes are more of them.
"""

import functools
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..numerics import (
    Block,
    Streams,
    bartlett,
    bartlett_normals,
    chi_square_mean,
    gram as gram_of,
    largest_power_of_two,
    multiply,
    psd_root,
    sobol_uniforms,
    transpose,
)
from ._layers import Attention, GaussianInputs, GramInputs, Inputs
from ._reading import Reading

gram = Reading("gram")

_NORMAL_REACH = 6.0  # no float32 normal is larger
_COORDINATES_AT_ONCE = 4  # coordinates of nonlinear inputs computed side by side
_EXPECTATION_POINTS = 4096  # shifted Sobol points behind E[P K P^T] at heads = inf
_EXPECTATION_AT_ONCE = 16
_SOBOL_DIMENSIONS = 1024  # above, independent points: no lattice helps there, and the table would be large
_WORKING_MATRICES = 64  # token matrices alive at once while a block is computed, an upper bound


class Tokens(eqx.Module):
    """Tokens known through a lower-triangular root of their Gram matrix `K`, and `K` itself where it was at hand."""

    root: Float[Array, "s s *draws"]
    width: Float[Array, ""]
    known_gram: Float[Array, "s s *draws"] | None = None

    @property
    def gram(self) -> Float[Array, "s s *draws"]:
        return gram_of(self.root) if self.known_gram is None else self.known_gram

    @property
    def covariance(self) -> Float[Array, "s s *draws"]:
        """Of a fresh read-out `X w`, `w ~ N(0, I/n)`."""
        return self.gram

    def settle(self, key: PRNGKeyArray, draws: int) -> "Tokens":
        del key, draws
        return self

    def reordered(self, order: tuple[int, ...]) -> "Tokens":
        """The same tokens in another order."""
        if order == tuple(range(len(order))):
            return self
        index = np.array(order)
        gram = self.gram[index][:, index]
        return Tokens(psd_root(gram), self.width, gram)


class Fresh(eqx.Module):
    """The rows of a fresh Gaussian matrix: coordinates i.i.d. `N(0, covariance)` across the width."""

    covariance: Float[Array, "s s *draws"]
    width: Float[Array, ""]

    def settle(self, key: PRNGKeyArray, draws: int) -> Tokens:
        """Their Gram matrix at this width: a Wishart with this covariance; the covariance itself at infinity."""
        return Tokens(multiply(psd_root(self.covariance), _wishart_root(self, key, draws)), self.width)


class Isotropic(eqx.Module):
    """A fresh Gaussian matrix with independent rows: coordinates i.i.d. `N(0, length^2)`."""

    length: Float[Array, "*draws"]
    width: Float[Array, ""]
    tokens: int = eqx.field(static=True)

    @property
    def covariance(self) -> Float[Array, "s s *draws"]:
        return jnp.eye(self.tokens)[..., None] * self.length**2

    def settle(self, key: PRNGKeyArray, draws: int) -> Tokens:
        return Tokens(self.length * _wishart_root(self, key, draws), self.width)


def _wishart_root(fresh: "Fresh | Isotropic", key: PRNGKeyArray, draws: int) -> Float[Array, "s s draws"]:
    s = fresh.tokens if isinstance(fresh, Isotropic) else fresh.covariance.shape[0]
    return bartlett(jax.random.normal(key, (bartlett_normals(s, s), draws)), s, s, fresh.width)


Stream = Tokens | Fresh | Isotropic


@gram.rule(GramInputs)
def _(inputs: GramInputs, width: Float[Array, ""], key: PRNGKeyArray, draws: int) -> Stream:
    del key, draws
    fixed = jnp.asarray(inputs.K)[..., None]
    return Tokens(psd_root(fixed), width, fixed)


@gram.rule(GaussianInputs)
def _(inputs: GaussianInputs, width: Float[Array, ""], key: PRNGKeyArray, draws: int) -> Stream:
    del key, draws
    return Fresh(jnp.asarray(inputs.K)[..., None], width)


@gram.rule(Inputs)
def _(inputs: Inputs, width: Float[Array, ""], key: PRNGKeyArray, draws: int) -> Stream:
    """Given `r^2 = |h|^2 / n`, the coordinates are `phi(r z)`, `z` i.i.d. normal."""
    key_length, key_coordinates = jax.random.split(key)
    squared_length = chi_square_mean(jax.random.normal(key_length, (draws,)), width)
    if is_linear(inputs):
        return Isotropic(jnp.sqrt(squared_length), width, inputs.tokens)
    sampled = _coordinate_gram(inputs, jnp.sqrt(squared_length), width, key_coordinates)
    limit = jnp.asarray(inputs.limit_gram(), sampled.dtype)[..., None]
    gram = jnp.where(jnp.isinf(width), limit, sampled)
    return Tokens(psd_root(gram), width, gram)


def _coordinate_gram(
    inputs: Inputs, length: Float[Array, "draws"], width: Float[Array, ""], key: PRNGKeyArray
) -> Float[Array, "s s draws"]:
    """`X X^T / n`, accumulated over coordinates: the only cost in the library that grows with the width.

    The inner loop keeps the normals apart from the products: XLA would compute them again for every product they enter.
    """
    s, draws, at_once = inputs.tokens, length.shape[0], _COORDINATES_AT_ONCE
    finite = jnp.where(jnp.isinf(width), 0.0, width)

    def coordinate(streams: Streams, index: Array) -> tuple[Streams, Float[Array, "s draws"]]:
        after, z = streams.normals()
        exists = index.astype(finite.dtype) < finite
        return after, jnp.where(exists, inputs.activation(length * z), 0.0)

    def add(i: Array, carry: tuple[Streams, Float[Array, "s s draws"]]) -> tuple[Streams, Float[Array, "s s draws"]]:
        streams, total = carry
        streams, x = jax.lax.scan(coordinate, streams, i * at_once + jnp.arange(at_once), unroll=2)
        return streams, total + sum(x[c][:, None] * x[c][None] for c in range(at_once))

    steps = jnp.ceil(finite / at_once).astype(jnp.int32)
    start = Streams.start(key, (s, draws)), jnp.zeros((s, s, draws), length.dtype)
    return jax.lax.fori_loop(0, steps, add, start)[1] / jnp.maximum(finite, 1.0)


@gram.rule(Attention)
def _(layer: Attention, stream: Stream, key: PRNGKeyArray, draws: int, rows: tuple[int, ...] | None = None) -> Stream:
    """Scores from the tokens' Gram, values through the same Gram; only `rows` of the output if that is all that is wanted."""
    return _attend(layer, layer.heads, stream, key, draws, rows)


class ManyHeads(eqx.Module):
    """Attention with `heads` heads like the one of `layer`: a traced number, so that one compilation serves them all."""

    layer: Attention
    heads: Any


@gram.rule(ManyHeads)
def _(many: ManyHeads, stream: Stream, key: PRNGKeyArray, draws: int, rows: tuple[int, ...] | None = None) -> Stream:
    return _attend(many.layer, many.heads, stream, key, draws, rows)


def _attend(
    layer: Attention, heads: Any, stream: Stream, key: PRNGKeyArray, draws: int, rows: tuple[int, ...] | None
) -> Stream:
    key_tokens, key_heads = jax.random.split(key)
    tokens = stream.settle(key_tokens, draws)
    view = _View.of(layer, tokens, rows)
    if layer.heads == jnp.inf:
        mixed = _expected_mixing(view, key_heads, draws)
    else:
        mixed = _average_over_heads(view, heads, key_heads, draws)
    return Fresh((layer.value_std * layer.out_std) ** 2 * mixed, tokens.width)


def scores(
    layer: Attention, stream: Stream, key: PRNGKeyArray, draws: int, rows: tuple[int, ...] | None = None
) -> Float[Array, "heads k s draws"]:
    """The scores of `rows`, before the mask, in the order of the tokens."""
    key_tokens, key_heads = jax.random.split(key)
    view = _View.of(layer, stream.settle(key_tokens, draws), rows)

    def one_head(key: PRNGKeyArray) -> Float[Array, "k s draws"]:
        return view.scores(jax.random.normal(key, (view.score_normals, draws)))

    by_head = jax.lax.map(one_head, jax.random.split(key_heads, int(layer.heads)))
    return by_head[:, :, np.argsort(view.order)]


class _View(eqx.Module):
    """What an attention layer sees of its tokens when only the first `wanted` of them, in this order, must answer."""

    layer: Attention
    tokens: Tokens
    head_dim: Float[Array, ""]
    allowed: Bool[Array, "k s"] | None
    order: tuple[int, ...] = eqx.field(static=True)
    wanted: int = eqx.field(static=True)

    @classmethod
    def of(cls, layer: Attention, tokens: Tokens, rows: tuple[int, ...] | None) -> "_View":
        size = tokens.gram.shape[0]
        first = tuple(range(size)) if rows is None else rows
        order = first + tuple(t for t in range(size) if t not in first)
        allowed = layer.allowed(size)
        if allowed is not None:
            allowed = jnp.asarray(allowed)[np.array(order)][:, np.array(order)][: len(first)]
        head_dim = jnp.asarray(layer.head_dim_at(tokens.width), tokens.root.dtype)
        return cls(layer, tokens.reordered(order), head_dim, allowed, order, len(first))

    @property
    def score_normals(self) -> int:
        """How many normals `scores` takes."""
        size = len(self.order)
        if self.layer.tie_qk:
            return bartlett_normals(size, self.wanted)
        return size * self.wanted + bartlett_normals(self.wanted, self.wanted)

    def scores(self, normals: Float[Array, "m *draws"]) -> Float[Array, "k s *draws"]:
        """`X W_Q (X W_K)^T`, scaled, for the wanted rows.

        The wanted queries span `k` axes of the head's space, where they are a Bartlett factor, and a key has normal
        coordinates there; tied keys are the queries' own vectors, continued to the other tokens.
        """
        layer, k, size = self.layer, self.wanted, len(self.order)
        root = _insert_axes(self.tokens.root, normals.ndim - 1)
        if layer.tie_qk:
            keys = bartlett(normals, size, k, self.head_dim)
            queries = keys[:k]
        else:
            keys = normals[: size * k].reshape(size, k, *normals.shape[1:])
            queries = bartlett(normals[size * k :], k, k, self.head_dim)
            if layer.scale == "linear":
                keys = keys / jnp.sqrt(self.head_dim)
        scale = layer.query_std * layer.key_std
        return scale * multiply(multiply(root[:k, :k], queries), transpose(multiply(root, keys)))

    def mixing(self, normals: Float[Array, "m *draws"]) -> Float[Array, "k k *draws"]:
        """`P K P^T` for the wanted rows of `P = softmax(scores)`."""
        logits = self.scores(normals)
        if self.allowed is not None:
            logits = jnp.where(_insert_axes(self.allowed, logits.ndim - 2), logits, -jnp.inf)
        weights = jax.nn.softmax(logits, axis=1)
        return gram_of(multiply(weights, _insert_axes(self.tokens.root, logits.ndim - 2)))


def _insert_axes(a: Array, trailing: int) -> Array:
    """Axes of length one after the two of the matrix, so that `a` has `trailing` axes of draws."""
    return a.reshape(*a.shape[:2], *[1] * (trailing - (a.ndim - 2)), *a.shape[2:])


def _average_over_heads(view: _View, heads: Any, key: PRNGKeyArray, draws: int) -> Float[Array, "k k draws"]:
    """One head after the other, so that neither memory nor compilation grows with their number."""

    def add(i: Array, total: Float[Array, "k k draws"]) -> Float[Array, "k k draws"]:
        return total + _head_covariance(view, jax.random.fold_in(key, i), draws)

    zero = jnp.zeros((view.wanted, view.wanted, draws), jnp.float32)
    total = jax.lax.fori_loop(0, jnp.asarray(heads).astype(jnp.int32), add, zero)
    return total / jnp.asarray(heads).astype(jnp.float32)


def _head_covariance(view: _View, key: PRNGKeyArray, draws: int) -> Float[Array, "k k draws"]:
    """`P L (C C^T / d) L^T P^T`, `C` the values' Bartlett factor, as rows of a fresh Gaussian given their covariance."""
    value_normals = bartlett_normals(view.wanted, view.wanted)
    normals = jax.random.normal(key, (view.score_normals + value_normals, draws))
    mixing = view.mixing(normals[: view.score_normals])
    values = bartlett(normals[view.score_normals :], view.wanted, view.wanted, view.head_dim)
    return gram_of(multiply(psd_root(mixing), values))


def _expected_mixing(view: _View, key: PRNGKeyArray, draws: int) -> Float[Array, "k k draws"]:
    """`E[P K P^T]` given the tokens: Sobol points with a random shift for every draw, so unbiased, with the spread over
    draws as its error (about 1e-4 of the value for one token in four)."""
    dimension, steps = view.score_normals, _EXPECTATION_POINTS // _EXPECTATION_AT_ONCE
    if dimension <= _SOBOL_DIMENSIONS:
        points = jnp.asarray(sobol_uniforms(dimension, _EXPECTATION_POINTS, seed=0), jnp.float32)
        chunks = jnp.moveaxis(points.reshape(dimension, steps, _EXPECTATION_AT_ONCE), 1, 0)
        shift = jax.random.uniform(key, (dimension, 1, draws))

        def normals(chunk: Array) -> Float[Array, "m q draws"]:
            shifted = jnp.mod(chunk[..., None] + shift, 1.0)
            return jax.scipy.special.ndtri(jnp.clip(shifted, 2.0**-24, 1 - 2.0**-24))
    else:
        chunks = jax.random.split(key, steps)

        def normals(chunk: Array) -> Float[Array, "m q draws"]:
            return jax.random.normal(chunk, (dimension, _EXPECTATION_AT_ONCE, draws))

    def add(total: Array, chunk: Array) -> tuple[Array, None]:
        return total + view.mixing(normals(chunk)).sum(axis=2), None

    zero = jnp.zeros((view.wanted, view.wanted, draws), jnp.float32)
    return jax.lax.scan(add, zero, chunks)[0] / _EXPECTATION_POINTS


def sampler(net: Any, width: int | float, observe: str, rows: tuple[int, ...] | None) -> Block:
    """Draws of a network's observable, in blocks that one compilation serves at every width."""
    size = _block_size(net, width, observe)
    at_once = _EXPECTATION_AT_ONCE if any(_has_infinite_heads(layer) for layer in net.layers) else 1
    floats = net.tokens**2 * (_WORKING_MATRICES * at_once + (_last_heads(net) if observe == "scores" else 0))
    layers = tuple(_shared(layer, width, net.tokens, keep_heads=observe == "scores") for layer in net.layers)
    traced = jax.tree.map(_as_traced, (net.inputs, layers))
    draw = functools.partial(_draw, *traced, jnp.asarray(width, jnp.float32), observe=observe, rows=rows, draws=size)
    return Block(draw, size, 4 * size * floats)


def _shared(layer: Any, width: int | float, tokens: int, *, keep_heads: bool) -> Any:
    """The layer in the form that most networks share: its head dimension and its heads traced numbers."""
    if not isinstance(layer, Attention):
        return layer
    at_width = replace(layer, head_dim=layer.head_dim_at(width), mask=layer.allowed(tokens))
    if layer.heads == jnp.inf or keep_heads:
        return at_width
    return ManyHeads(replace(at_width, heads=1), layer.heads)


def _as_traced(leaf: Any) -> Any:
    """Numbers become arrays, so that they are traced rather than compiled in."""
    array = np.asarray(leaf)
    return jnp.asarray(array, array.dtype if array.dtype == bool else jnp.float32)


def _block_size(net: Any, width: int | float, observe: str) -> int:
    """Draws in a block: as many as keep a few token matrices of it in a core's cache and its work below a second or so.

    It depends on the width only where the work does (nonlinear inputs wider than 2^14), so that it is compiled once.
    """
    s = net.tokens
    heads = [layer.heads for layer in net.layers if isinstance(layer, Attention)]
    if jnp.inf in heads:
        return largest_power_of_two(min(16, 2**16 / s**2))
    limits = [2**16 / max(s, 8), 2**18 / s**2, 2**24 / (s * sum(heads, 1))]
    if observe == "scores":
        limits.append(2**22 / (s**2 * heads[-1]))
    if isinstance(net.inputs, Inputs) and not is_linear(net.inputs) and width < jnp.inf:
        limits.append(2**28 / (s * width))
    return largest_power_of_two(min(limits))


def is_linear(inputs: Inputs) -> bool:
    """Whether the activation is the identity on every number it can meet: `r <= 6` and `|z| <= 6`, even at n = 1."""
    return inputs.activation.identity_up_to >= _NORMAL_REACH**2


def _has_infinite_heads(layer: Any) -> bool:
    return isinstance(layer, Attention) and layer.heads == jnp.inf


def _last_heads(net: Any) -> int:
    return int(net.layers[last_attention(net.layers)].heads)


def last_attention(layers: tuple[Any, ...]) -> int:
    """Where the last attention layer stands."""
    return max(i for i, layer in enumerate(layers) if isinstance(layer, Attention))


def _draw(
    inputs: Any,
    layers: tuple[Any, ...],
    width: Float[Array, ""],
    key: PRNGKeyArray,
    *,
    observe: str,
    rows: tuple[int, ...] | None,
    draws: int,
) -> Float[Array, "draws ..."]:
    """A block of draws, in stages that are compiled one by one: less to compile than the whole, and shared between networks."""
    key_inputs, key_last, key_output, *keys = _split(key, 3 + 2 * len(layers))
    stream = _start(inputs, width, key_inputs, draws)
    last = len(layers) - 1 if observe != "scores" else last_attention(layers)
    for i, layer in enumerate(layers[: last + 1]):
        answering = rows if i == last and observe != "gram" else None
        reordered = answering is not None and answering != tuple(range(len(answering)))
        tokens = _settled(stream, keys[2 * i], draws, reordered)
        if observe == "scores" and i == last:
            return _scores(layer, tokens, keys[2 * i + 1], draws, rows)
        stream = _applied(layer, tokens, keys[2 * i + 1], draws, answering)
    if observe == "gram" or not layers:  # inputs alone are observed through a read-out
        return _emitted(_settled(stream, key_last, draws, True), key_output, draws, rows, observe == "output")
    return _emitted(stream, key_output, draws, None, observe == "output")


@functools.partial(jax.jit, static_argnums=1)
def _split(key: PRNGKeyArray, count: int) -> tuple[PRNGKeyArray, ...]:
    return tuple(jax.random.split(key, count))


@functools.partial(jax.jit, static_argnums=3)
def _start(inputs: Any, width: Float[Array, ""], key: PRNGKeyArray, draws: int) -> Stream:
    return gram(inputs, width, key, draws)


@functools.partial(jax.jit, static_argnums=(2, 3))
def _settled(stream: Stream, key: PRNGKeyArray, draws: int, keep_gram: bool) -> Tokens:
    """Without the Gram matrix, if nobody will look at it: then all kinds of inputs share what follows."""
    tokens = stream.settle(key, draws)
    return tokens if keep_gram else Tokens(tokens.root, tokens.width)


@functools.partial(jax.jit, static_argnums=(3, 4))
def _applied(layer: Any, tokens: Tokens, key: PRNGKeyArray, draws: int, rows: tuple[int, ...] | None) -> Stream:
    return gram(layer, tokens, key, draws, rows)


@functools.partial(jax.jit, static_argnums=(3, 4))
def _scores(
    layer: Attention, tokens: Tokens, key: PRNGKeyArray, draws: int, rows: tuple[int, ...] | None
) -> Float[Array, "draws heads k s"]:
    return jnp.moveaxis(scores(layer, tokens, key, draws, rows), -1, 0)


@functools.partial(jax.jit, static_argnums=(2, 3, 4))
def _emitted(
    stream: Stream, key: PRNGKeyArray, draws: int, rows: tuple[int, ...] | None, output: bool
) -> Float[Array, "draws ..."]:
    """What is observed in the end: a covariance (or Gram matrix), or a normal that has it; of `rows`, if they are given."""
    matrix = stream.covariance
    matrix = matrix if rows is None else matrix[np.array(rows)][:, np.array(rows)]
    if output:
        normals = jax.random.normal(key, (matrix.shape[0], 1, draws))
        return multiply(psd_root(matrix), normals)[:, 0].T
    return jnp.moveaxis(jnp.broadcast_to(matrix, (*matrix.shape[:2], draws)), -1, 0)

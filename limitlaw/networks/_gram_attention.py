"""Attention in the Gram reading: scores from the tokens' Gram matrix, values through the same Gram matrix.

A head's queries are `F_Q A`, its keys `F_K B`, with `F F^T` the tokens' covariance under the map and `A`, `B` normal. They are
seen through inner products alone, so that one of them may be put into its own frame, a Bartlett factor: nothing depends on the head
dimension, which may be infinite. Rotations by position act on coordinates, so there they are drawn.
"""

from math import isinf, sqrt
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..numerics import (
    bartlett,
    bartlett_normals,
    gram as gram_of,
    multiply,
    psd_root,
    random,
    sobol_uniforms,
    transpose,
)
from ._attention import Attention
from ._described import Layout
from ._state import Context, Fresh, Stream, Tokens

EXPECTATION_AT_ONCE = 16
_EXPECTATION_POINTS = 4096  # shifted Sobol points behind E[P K P^T] at heads = inf
_MANY_TOKENS = 256
_SMALL_PRODUCTS, _LARGE_PRODUCTS = 2**20, 2**25  # scores computed at once, of few and of many tokens
_SHARED = 2**20  # the number of the key of what is not a head's own
_SOBOL_DIMENSIONS = 1024  # above, independent points: no lattice helps there, and the table would be large


_FEW_TOKENS = 32  # up to here a Bartlett factor costs no more than coordinates, and serves all head dimensions


class AttentionAt(eqx.Module):
    """An attention layer at a width: numbers that are traced, so that one compilation serves them all, and the structure.

    `heads` is traced where every head has keys and values of its own (`groups` is None). `coordinates` is the head dimension where the coordinates of a
    head are drawn one by one: for rotations, and for heads of fewer dimensions than there are tokens.
    """

    heads: Any
    head_dim: Any
    query_std: Any
    key_std: Any
    value_std: Any
    out_std: Any
    query_bias_std: Any
    key_bias_std: Any
    value_bias_std: Any
    out_bias_std: Any
    allowed: Any
    added: Any
    frequencies: Any
    frequency_weights: Any
    damping: Any  # of scores that are already divided by the root of the head dimension
    tied: bool = eqx.field(static=True)
    infinite_heads: bool = eqx.field(static=True)
    group_size: int = eqx.field(static=True)
    coordinates: int | None = eqx.field(static=True)
    biased: tuple[bool, bool, bool] = eqx.field(static=True)  # queries, keys, values
    known_heads: int | None = eqx.field(static=True)  # where each is observed, or several are computed at once
    ends_fresh = True

    @classmethod
    def of(cls, layer: Attention, width: int | float, layout: Layout, *, observed: bool) -> "AttentionAt":
        head_dim = layer.head_dim_at(width)
        frequencies, weights = (None, None) if layer.rope is None else layer.frequencies(head_dim, layout.size)
        drawn = draws_coordinates(layer, width, layout.size)
        return cls(
            heads=layer.heads,
            head_dim=head_dim,
            query_std=layer.query_std,
            key_std=layer.key_std,
            value_std=layer.value_std,
            out_std=layer.out_std,
            query_bias_std=layer.query_bias_std,
            key_bias_std=layer.key_bias_std,
            value_bias_std=layer.value_bias_std,
            out_bias_std=layer.out_bias_std,
            allowed=layer.allowed(layout),
            added=layer.added(layout),
            frequencies=frequencies,
            frequency_weights=weights,
            damping=1.0 / sqrt(head_dim) if layer.scale == "linear" else 1.0,
            tied=layer.tie_qk,
            infinite_heads=isinf(layer.heads),
            group_size=1 if isinf(layer.heads) else int(layer.heads) // layer.groups,
            coordinates=int(head_dim) if drawn else None,
            biased=(bool(layer.query_bias_std), bool(layer.key_bias_std), bool(layer.value_bias_std)),
            known_heads=int(layer.heads) if (observed or drawn) and not isinf(layer.heads) else None,
        )


def draws_coordinates(layer: Attention, width: int | float, tokens: int) -> bool:
    """Whether queries, keys and values are drawn in coordinates: if these are turned, or fewer than many tokens."""
    head_dim = layer.head_dim_at(width)
    return not isinf(head_dim) and not layer.tie_qk and (layer.rope is not None or head_dim < tokens > _FEW_TOKENS)


def attend(layer: AttentionAt, stream: Stream, context: Context, rows: tuple[int, ...] | None = None) -> Fresh:
    """The rows of a fresh Gaussian matrix given their covariance; only `rows` of them, if that is all that is wanted."""
    for_tokens, for_heads = context.split(2)
    tokens = stream.settle(for_tokens)
    view = View.of(layer, tokens, context.layout, rows)
    if layer.infinite_heads:
        mixed = _expected_mixing(view, for_heads)
    elif view.draws_coordinates:
        mixed = _average_in_coordinates(view, for_heads)
    else:
        mixed = _average_over_heads(view, for_heads)
    return Fresh(layer.out_std**2 * mixed + layer.out_bias_std**2, tokens.width)


def scores(
    layer: AttentionAt, stream: Stream, context: Context, rows: tuple[int, ...] | None = None
) -> Float[Array, "heads k s draws"]:
    """The scores of `rows`, before the mask, in the order of the tokens."""
    heads = layer.known_heads
    assert heads is not None
    for_tokens, for_heads = context.split(2)
    view = View.of(layer, stream.settle(for_tokens), context.layout, rows)

    def group(key: PRNGKeyArray) -> Float[Array, "heads k s draws"]:
        keys, _ = view.shared(random.fold_in(key, _SHARED), context.draws)
        return jax.lax.map(
            lambda i: view.scores(keys, random.fold_in(key, i), context.draws), jnp.arange(layer.group_size)
        )

    shape = heads, view.wanted, len(view.order), context.draws
    if view.draws_coordinates:
        by_group, _ = _coordinate_scores(view, for_heads.key, heads // layer.group_size, context.draws)
        by_head = jnp.moveaxis(by_group, (2, 3), (0, 1)).reshape(shape)
    else:
        by_head = jax.lax.map(group, random.fold_in(for_heads.key, np.arange(heads // layer.group_size))).reshape(shape)
    by_head = by_head[:, :, np.argsort(view.order)]
    if layer.added is None:
        return by_head
    added = jnp.broadcast_to(layer.added, (heads, *layer.added.shape[1:]))
    return by_head + added[:, np.array(view.order[: view.wanted]), :, None]


class View(eqx.Module):
    """What an attention layer sees of its tokens when only the first `wanted` of them, in this order, must answer."""

    layer: AttentionAt
    tokens: Tokens
    allowed: Bool[Array, "k s"] | None
    order: tuple[int, ...] = eqx.field(static=True)
    wanted: int = eqx.field(static=True)
    position: tuple[int, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, layer: AttentionAt, tokens: Tokens, layout: Layout, rows: tuple[int, ...] | None) -> "View":
        size = layout.size
        first = tuple(range(size)) if rows is None else rows
        order = first + tuple(t for t in range(size) if t not in first)
        allowed = layer.allowed
        if allowed is not None:
            allowed = jnp.asarray(allowed)[np.array(order)][:, np.array(order)][: len(first)]
        position = tuple(int(layout.position[t]) for t in order)
        return cls(layer, tokens.reordered(order), allowed, order, len(first), position)

    @property
    def few(self) -> bool:
        """Whether fewer tokens answer than there are: then the answering queries are put into their frame, not the keys."""
        return self.wanted < len(self.order)

    @property
    def draws_coordinates(self) -> bool:
        """Whether queries, keys and values are drawn in coordinates."""
        return self.layer.coordinates is not None and not self.few

    def factor(self, which: int) -> Float[Array, "s r *draws"]:
        """`F` with `F F^T` the covariance of a coordinate of the queries (0), keys (1) or values (2) of all tokens."""
        layer = self.layer
        std = (layer.query_std, layer.key_std, layer.value_std)[which]
        factor = std * self.tokens.factor
        if layer.biased[which]:
            bias = (layer.query_bias_std, layer.key_bias_std, layer.value_bias_std)[which]
            column = jnp.broadcast_to(bias, (factor.shape[0], 1, *factor.shape[2:]))
            factor = jnp.concatenate([factor, column], axis=1)
        return factor

    def shared(self, key: PRNGKeyArray, draws: int) -> tuple[Array, Array]:
        """What the heads of a group share: keys and values, each in a frame of its own.

        Where few tokens answer, or queries are tied to keys, each head finds its own; Gaussian scores need no keys.
        """
        layer, keys_factor, axes = self.layer, self.factor(1), self.factor(2).shape[1]
        nothing = jnp.zeros(())
        if self.few:
            return nothing, nothing
        needs_keys = not layer.tied and layer.frequencies is None
        vectors = keys_factor.shape[1] * needs_keys
        split = bartlett_normals(vectors, vectors)
        normals = random.normal(key, (split + bartlett_normals(axes, axes), draws))
        values = bartlett(normals[split:], axes, axes, layer.head_dim)
        if not needs_keys:
            return nothing, values
        return multiply(keys_factor, bartlett(normals[:split], vectors, vectors, layer.head_dim)), values

    def scores(self, keys: Array, key: PRNGKeyArray, draws: int) -> Float[Array, "k s draws"]:
        """`X W_Q (X W_K)^T`, scaled, of a head for the wanted rows."""
        layer = self.layer
        if self.few or layer.tied:
            return self.scores_of(random.normal(key, (self.score_normals, draws)))
        factor = self.factor(0)
        if layer.frequencies is not None:
            return self._limit_of_rotated(key, draws)
        queries = multiply(factor, random.normal(key, (factor.shape[1], keys.shape[1], draws)))
        return layer.damping * multiply(queries, transpose(keys))

    @property
    def score_normals(self) -> int:
        """How many normals `scores_of` takes."""
        axes = self._query_axes
        if self.layer.tied:
            return bartlett_normals(self.factor(1).shape[1], axes)
        return self.factor(1).shape[1] * axes + bartlett_normals(axes, axes)

    @property
    def _query_axes(self) -> int:
        return self.wanted if self.few else self.factor(0).shape[1]

    def scores_of(self, normals: Float[Array, "m *draws"]) -> Float[Array, "k s *draws"]:
        """The same as a function of standard normals, for heads with keys of their own.

        The wanted queries span axes of the head's space, where they are a Bartlett factor, and a key has normal
        coordinates there; tied keys are the queries' own vectors, continued to the other tokens.
        """
        layer, axes = self.layer, self._query_axes
        trailing = normals.ndim - 1
        queries_factor, keys_factor = _insert_axes(self.factor(0), trailing), _insert_axes(self.factor(1), trailing)
        if self.few:
            queries_factor = queries_factor[: self.wanted, : self.wanted]
        vectors = keys_factor.shape[1]
        if layer.tied:
            keys = bartlett(normals, vectors, axes, layer.head_dim)
            queries = keys[:axes]
        else:
            keys = normals[: vectors * axes].reshape(vectors, axes, *normals.shape[1:])
            queries = bartlett(normals[vectors * axes :], axes, axes, layer.head_dim)
            keys_factor = layer.damping * keys_factor
        return multiply(multiply(queries_factor, queries), transpose(multiply(keys_factor, keys)))

    def weights(self, logits: Float[Array, "k s *draws"], head: Any) -> Float[Array, "k s *draws"]:
        """The softmax over the keys in sight."""
        trailing = logits.ndim - 2
        if self.layer.added is not None:
            added = self.layer.added[jnp.minimum(head, self.layer.added.shape[0] - 1)]
            added = jnp.moveaxis(added, (-2, -1), (0, 1))  # one for each of several heads
            added = added[np.array(self.order[: self.wanted])][:, np.array(self.order)]
            logits = logits + added.reshape(*added.shape, *[1] * (logits.ndim - added.ndim))
        if self.allowed is not None:
            logits = jnp.where(_insert_axes(self.allowed, trailing), logits, -jnp.inf)
        return jax.nn.softmax(logits, axis=1)

    def attended(self, weights: Float[Array, "k s *draws"]) -> Float[Array, "k r *draws"]:
        """`P F_V`: a factor of the covariance of a coordinate of what the wanted tokens receive."""
        return multiply(weights, _insert_axes(self.factor(2), weights.ndim - 2))

    def rotated(self, vectors: Float[Array, "s d *draws"]) -> Float[Array, "s d *draws"]:
        """Pairs of coordinates turned by the angle `position x frequency` (RoPE), if they are."""
        if self.layer.frequencies is None:
            return vectors
        angle = jnp.asarray(self.position, vectors.dtype)[:, None] * self.layer.frequencies
        angle = _insert_axes(angle, vectors.ndim - 2)
        first, second = jnp.split(vectors, 2, axis=1)
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        return jnp.concatenate([first * cos - second * sin, first * sin + second * cos], axis=1)

    def _limit_of_rotated(self, key: PRNGKeyArray, draws: int) -> Float[Array, "k s draws"]:
        """At infinite head dimension rotated scores are Gaussian, an average over frequencies of `cos` and `sin` times independent ones."""
        layer = self.layer
        queries, keys = self.factor(0), self.factor(1)
        position = jnp.asarray(self.position, queries.dtype)
        turn = position[: self.wanted, None] - position

        def add(total: Array, node: tuple[Array, Array, Array]) -> tuple[Array, None]:
            frequency, weight, key = node
            normals = random.normal(key, (2, queries.shape[1], keys.shape[1], draws))
            for wave, z in zip((jnp.cos, jnp.sin), normals, strict=True):
                amplitude = jnp.sqrt(weight) * wave(frequency * turn)
                total = total + amplitude[..., None] * multiply(multiply(queries, z), transpose(keys))
            return total, None

        zero = jnp.zeros((self.wanted, len(self.order), draws), queries.dtype)
        nodes = layer.frequencies, layer.frequency_weights, random.fold_in(key, np.arange(layer.frequencies.shape[0]))
        total = jax.lax.scan(add, zero, nodes)[0]
        return layer.damping * total


def _insert_axes(a: Array, trailing: int) -> Array:
    """Axes of length one after the two of the matrix, so that `a` has `trailing` axes of draws."""
    return a.reshape(*a.shape[:2], *[1] * (trailing - (a.ndim - 2)), *a.shape[2:])


def _average_over_heads(view: View, context: Context) -> Float[Array, "k k draws"]:
    """One head after the other, so that neither memory nor compilation grows with their number."""
    layer, draws = view.layer, context.draws
    zero = jnp.zeros((view.wanted, view.wanted, draws), jnp.float32)

    def group(total: Array, index: Array) -> tuple[Array, Array]:
        key = random.fold_in(context.key, index)
        keys, values = view.shared(random.fold_in(key, _SHARED), draws)

        def head(total: Array, i: Array) -> tuple[Array, Array]:
            own = random.fold_in(key, i)
            weights = view.weights(view.scores(keys, own, draws), index * layer.group_size + i)
            return total + _head_covariance(view, weights, values, own, draws), entropy(weights)

        if layer.group_size == 1:
            return head(total, jnp.zeros((), jnp.int32))
        return jax.lax.scan(head, total, jnp.arange(layer.group_size))

    if context.watch is None:
        groups = jnp.asarray(layer.heads).astype(jnp.int32) // layer.group_size
        total = jax.lax.fori_loop(0, groups, lambda i, total: group(total, i)[0], zero)
    else:
        total, entropies = jax.lax.scan(group, zero, jnp.arange((layer.known_heads or 1) // layer.group_size))
        context.watch.append(entropies.reshape(-1, view.wanted, draws))
    return total / jnp.asarray(layer.heads).astype(jnp.float32)


def _average_in_coordinates(view: View, context: Context) -> Float[Array, "s s draws"]:
    """Several groups of heads at once, as many as fit, so that the products are large."""
    layer, draws = view.layer, context.draws
    assert layer.known_heads is not None
    size, groups = len(view.order), layer.known_heads // layer.group_size
    at_once = (_LARGE_PRODUCTS if size >= _MANY_TOKENS else _SMALL_PRODUCTS) / (size**2 * layer.group_size * draws)
    at_once = max(g for g in range(1, groups + 1) if groups % g == 0 and (g == 1 or g <= at_once))

    def chunk(total: Array, index: Array) -> tuple[Array, Array]:
        logits, values = _coordinate_scores(view, random.fold_in(context.key, index), at_once, draws)
        heads = index * at_once * layer.group_size + jnp.arange(at_once * layer.group_size)
        weights = view.weights(logits, heads.reshape(at_once, layer.group_size))
        received = jnp.einsum("ijgqn,jdgn->idgqn", weights, values, precision="highest")
        products = jnp.einsum("idgqn,kdgqn->ikn", received, received, precision="highest")
        return total + products / layer.head_dim, jnp.moveaxis(entropy(weights), 0, 2)

    zero = jnp.zeros((size, size, draws), jnp.float32)
    total, entropies = jax.lax.scan(chunk, zero, jnp.arange(groups // at_once))
    if context.watch is not None:
        context.watch.append(entropies.reshape(layer.known_heads, size, draws))
    return total / jnp.asarray(layer.heads).astype(jnp.float32)


def _coordinate_scores(
    view: View, key: PRNGKeyArray, groups: int, draws: int
) -> tuple[Float[Array, "s s g q draws"], Float[Array, "s d g draws"]]:
    """Scores of `groups` groups of heads, and their values, from coordinates of queries, keys and values."""
    layer = view.layer
    dim = layer.coordinates
    assert dim is not None
    heads = groups * layer.group_size

    def drawn(which: int, key: PRNGKeyArray, copies: int) -> Float[Array, "s d copies draws"]:
        factor = view.factor(which)
        normals = random.normal(key, (factor.shape[1], dim * copies, draws))
        return multiply(factor, normals).reshape(factor.shape[0], dim, copies, draws)

    key_q, key_k, key_v = random.split(key, 3)
    queries = view.rotated(drawn(0, key_q, heads)).reshape(-1, dim, groups, layer.group_size, draws)
    keys = view.rotated(drawn(1, key_k, groups))
    scale = layer.damping / jnp.sqrt(layer.head_dim)
    logits = jnp.einsum("idgqn,jdgn->ijgqn", queries, keys, precision="highest")
    return scale * logits, drawn(2, key_v, groups)


def entropy(weights: Float[Array, "k s *draws"]) -> Float[Array, "k *draws"]:
    """`-sum p log p` of attention weights, in nats."""
    return -jnp.sum(jax.scipy.special.xlogy(weights, weights), axis=1)


def _head_covariance(
    view: View, weights: Array, values: Array, key: PRNGKeyArray, draws: int
) -> Float[Array, "k k draws"]:
    """`P F (C C^T / d) F^T P^T`, `C` the values' Bartlett factor, as rows of a fresh Gaussian given their covariance."""
    attended = view.attended(weights)
    if not view.few:
        return gram_of(multiply(attended, values))
    k = view.wanted
    normals = random.normal(random.fold_in(key, _SHARED), (bartlett_normals(k, k), draws))
    return gram_of(multiply(psd_root(gram_of(attended)), bartlett(normals, k, k, view.layer.head_dim)))


def _expected_mixing(view: View, context: Context) -> Float[Array, "k k draws"]:
    """`E[P K P^T]` given the tokens: Sobol points with a random shift for every draw, so unbiased, with the spread over
    draws as its error (about 1e-4 of the value for one token in four)."""
    dimension, steps, draws = view.score_normals, _EXPECTATION_POINTS // EXPECTATION_AT_ONCE, context.draws
    if dimension <= _SOBOL_DIMENSIONS:
        points = jnp.asarray(sobol_uniforms(dimension, _EXPECTATION_POINTS, seed=0), jnp.float32)
        chunks = jnp.moveaxis(points.reshape(dimension, steps, EXPECTATION_AT_ONCE), 1, 0)
        shift = jax.random.uniform(context.key, (dimension, 1, draws))

        def normals(chunk: Array) -> Float[Array, "m q draws"]:
            shifted = jnp.mod(chunk[..., None] + shift, 1.0)
            return jax.scipy.special.ndtri(jnp.clip(shifted, 2.0**-24, 1 - 2.0**-24))
    else:
        chunks = random.fold_in(context.key, np.arange(steps))

        def normals(chunk: Array) -> Float[Array, "m q draws"]:
            return random.normal(chunk, (dimension, EXPECTATION_AT_ONCE, draws))

    def add(total: Array, chunk: Array) -> tuple[Array, None]:
        weights = view.weights(view.scores_of(normals(chunk)), 0)
        return total + gram_of(view.attended(weights)).sum(axis=2), None

    zero = jnp.zeros((view.wanted, view.wanted, draws), jnp.float32)
    return jax.lax.scan(add, zero, chunks)[0] / _EXPECTATION_POINTS

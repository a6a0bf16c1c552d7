"""Attention in the Gram reading: scores and values from the Gram matrix of the tokens.

The queries of a head are `F_Q A` and its keys `F_K B`, where `F F^T` is the covariance of a coordinate and `A`, `B` are
standard normal with `d` columns, the head dimension. Only the inner products `A B^T` matter, so `B` may be expressed in
the orthonormal frame of its rows, where it is a Bartlett factor (the Cholesky root of a Wishart matrix) and `A` is
again standard normal. The cost then does not depend on `d`, which may be infinite. Rotary positions act on coordinates,
so with them, and where there are more tokens than coordinates, the coordinates are drawn.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ....numerics import random
from ....numerics.bartlett import bartlett, bartlett_normals
from ....numerics.integrate import sobol_uniforms
from ....numerics.linalg import gram as gram_of, multiply, psd_root, transpose
from ..._layer import Context, Layout, Matrix
from ..._rules import ContractedRule
from ...state import Tokens

_EXPECTATION_POINTS = 4096  # shifted Sobol points for E[P K P^T] at heads=inf, with an error of 1e-4 for four tokens
EXPECTATION_AT_ONCE = 16  # Sobol points in one step, so memory stays that of a few heads
_MANY_TOKENS = 256  # tokens from which batches have few draws, so products are large only with many heads in a step
_SMALL_PRODUCTS, _LARGE_PRODUCTS = 2**20, 2**25  # scores in one step, 4 MiB for few and 128 MiB for many tokens
_SOBOL_DIMENSIONS = 1024  # above, independent points: Sobol points are no better there, and the table would be large
_LARGEST_LOGIT = 1e30  # the difference of two logits of this size is finite in float32


class ContractedAttention(ContractedRule):
    """The contracted rule of attention at one width.

    Numbers are leaves, so one compiled program serves all their values. Fields that change the program are static.

    Attributes:
        matrices: The matrices, by name.
        heads: The number of heads, traced.
        head_dim: The head dimension, traced; it may be `inf`.
        factor: The factor of scores that are already divided by `sqrt(head_dim)`, or by `head_dim` if `tied`.
        allowed: The mask `(query, key)`, True where a query may attend; None for no mask.
        added: The score bias, `(heads or 1, query, key)`, or None.
        frequencies: The frequencies of rotary positions, or None.
        frequency_weights: Their weights in the average over frequencies, which sum to one.
        tied: Whether queries and keys share one matrix.
        infinite_heads: Whether there are infinitely many heads.
        group_size: The number of heads that share keys and values.
        coordinates: The head dimension, if coordinates are drawn; otherwise None.
        biased: The names of the matrices with a bias.
        known_heads: The number of heads, if the program must know it; None if the loop over heads is traced.
        observed: The names of the requested observables.
    """

    matrices: dict[str, Matrix]
    heads: Any
    head_dim: Any
    factor: Any
    allowed: Any
    added: Any
    frequencies: Any
    frequency_weights: Any
    tied: bool = eqx.field(static=True)
    infinite_heads: bool = eqx.field(static=True)
    group_size: int = eqx.field(static=True)
    coordinates: int | None = eqx.field(static=True)
    biased: frozenset[str] = eqx.field(static=True)
    known_heads: int | None = eqx.field(static=True)
    observed: frozenset[str] = eqx.field(static=True)

    @property
    def answers_rows(self) -> bool:
        """Whether some of the tokens can be computed alone: without score biases, rotations and shared keys."""
        plain = not self.biased & {"query", "key", "value"} and self.group_size == 1
        return plain and self.added is None and self.frequencies is None

    def covariance(
        self, tokens: Tokens, context: Context, draws: int, rows: tuple[int, ...] | None
    ) -> tuple[Float[Array, "k k *draws"], dict[str, Array]]:
        """The covariance of the output, an average over heads, and the observed arrays; see `ContractedRule`."""
        view = View.of(self, tokens, context.layout, rows)
        if self.infinite_heads:
            mixed, observed = _expected_mixing(view, context, draws), {}
        elif view.draws_coordinates:
            mixed, observed = _average_in_coordinates(view, context, draws)
        else:
            mixed, observed = _average_over_heads(view, context, draws)
        out = self.matrices["out"]
        return out.std**2 * mixed + out.bias_std**2, observed


class View(eqx.Module):
    """An attention layer on reordered tokens, of which only the first `wanted` need an output.

    Attributes:
        layer: The rule of the layer.
        tokens: The tokens in the new order.
        allowed: The mask in the new order, for the first `wanted` queries.
        order: The old number of each token.
        wanted: The number of tokens that need an output.
        position: The position of each token in its sequence.
    """

    layer: ContractedAttention
    tokens: Tokens
    allowed: Bool[Array, "k s"] | None
    order: tuple[int, ...] = eqx.field(static=True)
    wanted: int = eqx.field(static=True)
    position: tuple[int, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, layer: ContractedAttention, tokens: Tokens, layout: Layout, rows: tuple[int, ...] | None) -> "View":
        """The view in which the tokens `rows` come first, or the tokens in their own order if `rows` is None."""
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
        """Whether only some tokens need an output. Then their queries, and not the keys, define the frame of a head."""
        return self.wanted < len(self.order)

    @property
    def draws_coordinates(self) -> bool:
        """Whether the coordinates of queries, keys and values are drawn."""
        return self.layer.coordinates is not None and not self.few

    def factor(self, name: str) -> Float[Array, "s r *draws"]:
        """`F` with `F F^T` the covariance of a coordinate of the queries, keys or values of all tokens."""
        matrix = self.layer.matrices[name]
        factor = matrix.std * self.tokens.factor
        if name in self.layer.biased:  # the bias is one more normal that all tokens share
            column = jnp.broadcast_to(matrix.bias_std, (factor.shape[0], 1, *factor.shape[2:]))
            factor = jnp.concatenate([factor, column], axis=1)
        return factor

    def shared(self, key: PRNGKeyArray, draws: int) -> tuple[Array, Array]:
        """The keys and values that the heads of a group share, each in its own orthonormal frame.

        Placeholders are returned where they are not shared: each head draws its own for few queries and for tied
        matrices, and the Gaussian scores of rotary positions at infinite head dimension need no keys.

        Args:
            key: The key of the random numbers of the group.
            draws: The number of draws.

        Returns:
            The keys, `(s, r, draws)`, and the Bartlett factor of the values, `(r, r, draws)`.
        """
        layer, keys_factor, axes = self.layer, self.factor("key"), self.factor("value").shape[1]
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
        """The scaled scores of a head for the wanted queries, given the shared keys."""
        layer = self.layer
        if self.few or layer.tied:
            return self.scores_of(random.normal(key, (self.score_normals, draws)))
        factor = self.factor("query")
        if layer.frequencies is not None:
            return self._limit_of_rotated(key, draws)
        # Queries are independent of the keys, so they are standard normal in the frame of the keys. Heads of a group
        # thus share keys exactly.
        queries = multiply(factor, random.normal(key, (factor.shape[1], keys.shape[1], draws)))
        return layer.factor * multiply(queries, transpose(keys))

    @property
    def score_normals(self) -> int:
        """The number of normals that `scores_of` needs."""
        axes = self._query_axes
        if self.layer.tied:
            return bartlett_normals(self.factor("key").shape[1], axes)
        return self.factor("key").shape[1] * axes + bartlett_normals(axes, axes)

    @property
    def _query_axes(self) -> int:
        return self.wanted if self.few else self.factor("query").shape[1]

    def scores_of(self, normals: Float[Array, "m *draws"]) -> Float[Array, "k s *draws"]:
        """The scaled scores of a head for the wanted queries, as a function of standard normals.

        Each head has its own keys. The wanted queries define the frame: they are a Bartlett factor in it, and a key has
        standard normal coordinates along its axes. Coordinates off the frame do not affect the scores. Tied keys
        continue the Bartlett factor of the queries to the other tokens.

        Args:
            normals: Standard normals, `(score_normals, *draws)`.

        Returns:
            The scores, `(wanted, s, *draws)`.
        """
        layer, axes = self.layer, self._query_axes
        trailing = normals.ndim - 1
        queries_factor = _insert_axes(self.factor("query"), trailing)
        keys_factor = _insert_axes(self.factor("key"), trailing)
        if self.few:  # the wanted tokens come first and the factor is lower triangular, so its corner is their factor
            queries_factor = queries_factor[: self.wanted, : self.wanted]
        vectors = keys_factor.shape[1]
        if layer.tied:
            keys = bartlett(normals, vectors, axes, layer.head_dim)
            queries = keys[:axes]
        else:
            keys = normals[: vectors * axes].reshape(vectors, axes, *normals.shape[1:])
            queries = bartlett(normals[vectors * axes :], axes, axes, layer.head_dim)
        keys_factor = layer.factor * keys_factor
        return multiply(multiply(queries_factor, queries), transpose(multiply(keys_factor, keys)))

    def weights(self, logits: Float[Array, "k s *draws"], head: Any) -> Float[Array, "k s *draws"]:
        """The softmax over the keys that the mask allows."""
        trailing = logits.ndim - 2
        # Scores beyond float32 must give a softmax that selects one key, and not NaN from a difference of infinities.
        logits = jnp.clip(self.with_bias(logits, head), -_LARGEST_LOGIT, _LARGEST_LOGIT)
        if self.allowed is not None:
            logits = jnp.where(_insert_axes(self.allowed, trailing), logits, -jnp.inf)
        return jax.nn.softmax(logits, axis=1)

    def with_bias(self, logits: Float[Array, "k s *draws"], head: Any) -> Float[Array, "k s *draws"]:
        """The scores plus the score bias of a head, or of several heads."""
        if self.layer.added is None:
            return logits
        added = self.layer.added[jnp.minimum(head, self.layer.added.shape[0] - 1)]
        added = jnp.moveaxis(added, (-2, -1), (0, 1))
        added = added[np.array(self.order[: self.wanted])][:, np.array(self.order)]
        return logits + added.reshape(*added.shape, *[1] * (logits.ndim - added.ndim))

    def attended(self, weights: Float[Array, "k s *draws"]) -> Float[Array, "k r *draws"]:
        """`P F_V`, a factor of the covariance of a coordinate of the attended values of the wanted tokens."""
        return multiply(weights, _insert_axes(self.factor("value"), weights.ndim - 2))

    def rotated(self, vectors: Float[Array, "s d *draws"]) -> Float[Array, "s d *draws"]:
        """Vectors after rotary positions: each pair of coordinates rotated by the angle `position x frequency`."""
        if self.layer.frequencies is None:
            return vectors
        angle = jnp.asarray(self.position, vectors.dtype)[:, None] * self.layer.frequencies
        angle = _insert_axes(angle, vectors.ndim - 2)
        first, second = jnp.split(vectors, 2, axis=1)
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        return jnp.concatenate([first * cos - second * sin, first * sin + second * cos], axis=1)

    def observe(self, logits: Array, weights: Array, head: Any) -> dict[str, Array]:
        """The requested observables of a head: scores before the mask, keys in their old order, and entropies."""
        observed: dict[str, Array] = {}
        if "scores" in self.layer.observed:
            observed["scores"] = self.with_bias(logits, head)[:, np.argsort(self.order)]
        if "entropy" in self.layer.observed:
            observed["entropy"] = entropy(weights)
        return observed

    def _limit_of_rotated(self, key: PRNGKeyArray, draws: int) -> Float[Array, "k s draws"]:
        """Scores with rotary positions at infinite head dimension, where they are Gaussian.

        A pair of coordinates at frequency `w` contributes `cos(w t)` times `q.k` and `sin(w t)` times the product of
        `q` with the key rotated by a right angle, where `t` is the distance of the positions. By the central limit
        theorem both sums over pairs become independent Gaussian matrices, so the scores are an average over
        frequencies, here a quadrature rule, of `cos` and `sin` times these matrices.
        """
        layer = self.layer
        queries, keys = self.factor("query"), self.factor("key")
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
        return layer.factor * jax.lax.scan(add, zero, nodes)[0]


def _insert_axes(a: Array, trailing: int) -> Array:
    """The matrix `a` with axes of length one inserted after its first two, up to `trailing` axes of draws."""
    return a.reshape(*a.shape[:2], *[1] * (trailing - (a.ndim - 2)), *a.shape[2:])


def _average_over_heads(view: View, context: Context, draws: int) -> tuple[Float[Array, "k k draws"], dict[str, Array]]:
    """The average over heads, computed one head at a time: neither memory nor the program grows with their number."""
    layer = view.layer
    zero = jnp.zeros((view.wanted, view.wanted, draws), jnp.float32)
    for_groups, for_scores, for_values = (context.key(name) for name in ("groups", "scores", "values"))

    def group(total: Array, index: Array) -> tuple[Array, dict[str, Array]]:
        keys, values = view.shared(random.fold_in(for_groups, index), draws)

        def head(total: Array, i: Array) -> tuple[Array, dict[str, Array]]:
            number = index * layer.group_size + i
            # A key for each head, so that head i is the same however many heads there are.
            logits = view.scores(keys, random.fold_in(for_scores, number), draws)
            weights = view.weights(logits, number)
            total = total + _head_covariance(view, weights, values, random.fold_in(for_values, number), draws)
            return total, view.observe(logits, weights, number)

        if layer.group_size == 1:
            return head(total, jnp.zeros((), jnp.int32))
        return jax.lax.scan(head, total, jnp.arange(layer.group_size))

    observed: dict[str, Array] = {}
    if layer.known_heads is None:
        groups = jnp.asarray(layer.heads).astype(jnp.int32) // layer.group_size
        total = jax.lax.fori_loop(0, groups, lambda i, total: group(total, i)[0], zero)
    else:
        total, seen = jax.lax.scan(group, zero, jnp.arange(layer.known_heads // layer.group_size))
        inner = 2 if layer.group_size > 1 else 1
        observed = {name: x.reshape(layer.known_heads, *x.shape[inner:]) for name, x in seen.items()}
    return total / jnp.asarray(layer.heads).astype(jnp.float32), observed


def _average_in_coordinates(
    view: View, context: Context, draws: int
) -> tuple[Float[Array, "s s draws"], dict[str, Array]]:
    """The average over heads from coordinates, with several groups of heads in one step for large matrix products."""
    layer = view.layer
    assert layer.known_heads is not None
    size, groups = len(view.order), layer.known_heads // layer.group_size
    at_once = (_LARGE_PRODUCTS if size >= _MANY_TOKENS else _SMALL_PRODUCTS) / (size**2 * layer.group_size * draws)
    # The scan needs equal steps, so take the largest divisor of the number of groups that fits.
    at_once = max(g for g in range(1, groups + 1) if groups % g == 0 and (g == 1 or g <= at_once))
    key = context.key("coordinates")

    def chunk(total: Array, index: Array) -> tuple[Array, dict[str, Array]]:
        logits, values = _coordinate_scores(view, random.fold_in(key, index), at_once, draws)
        heads = index * at_once * layer.group_size + jnp.arange(at_once * layer.group_size)
        heads = heads.reshape(at_once, layer.group_size)
        weights = view.weights(logits, heads)
        received = jnp.einsum("ijgqn,jdgn->idgqn", weights, values, precision="highest")
        products = jnp.einsum("idgqn,kdgqn->ikn", received, received, precision="highest")
        observed = view.observe(logits, weights, heads)
        # From (tokens, [keys,] groups, heads of a group, draws) to heads first.
        first = {name: jnp.moveaxis(x, (-3, -2), (0, 1)) for name, x in observed.items()}
        return total + products / layer.head_dim, first

    zero = jnp.zeros((size, size, draws), jnp.float32)
    total, seen = jax.lax.scan(chunk, zero, jnp.arange(groups // at_once))
    observed = {name: x.reshape(layer.known_heads, *x.shape[3:]) for name, x in seen.items()}
    return total / jnp.asarray(layer.heads).astype(jnp.float32), observed


def _coordinate_scores(
    view: View, key: PRNGKeyArray, groups: int, draws: int
) -> tuple[Float[Array, "s s g q draws"], Float[Array, "s d g draws"]]:
    """The scores of some groups of heads, and their values, from coordinates of queries, keys and values."""
    layer = view.layer
    dim = layer.coordinates
    assert dim is not None
    heads = groups * layer.group_size

    def drawn(name: str, key: PRNGKeyArray, copies: int) -> Float[Array, "s d copies draws"]:
        factor = view.factor(name)
        normals = random.normal(key, (factor.shape[1], dim * copies, draws))
        return multiply(factor, normals).reshape(factor.shape[0], dim, copies, draws)

    key_q, key_k, key_v = random.split(key, 3)
    queries = view.rotated(drawn("query", key_q, heads)).reshape(-1, dim, groups, layer.group_size, draws)
    keys = view.rotated(drawn("key", key_k, groups))
    scale = layer.factor / jnp.sqrt(layer.head_dim)
    logits = jnp.einsum("idgqn,jdgn->ijgqn", queries, keys, precision="highest")
    return scale * logits, drawn("value", key_v, groups)


def entropy(weights: Float[Array, "k s *draws"]) -> Float[Array, "k *draws"]:
    """`-sum p log p` of attention weights, in nats."""
    return -jnp.sum(jax.scipy.special.xlogy(weights, weights), axis=1)


def _head_covariance(
    view: View, weights: Array, values: Array, key: PRNGKeyArray, draws: int
) -> Float[Array, "k k draws"]:
    """The covariance of the output of one head, `P F (C C^T / d) F^T P^T`, with the Bartlett factor `C` of the values.

    The values enter through the Wishart matrix `C C^T / d`, because the fresh matrix `W_O` sees only inner products.
    """
    attended = view.attended(weights)
    if not view.few:
        return gram_of(multiply(attended, values))
    # For few tokens the k x k result is itself Wishart given the weights: k^2 / 2 normals in place of s^2 / 2.
    k = view.wanted
    normals = random.normal(key, (bartlett_normals(k, k), draws))
    return gram_of(multiply(psd_root(gram_of(attended)), bartlett(normals, k, k, view.layer.head_dim)))


def _expected_mixing(view: View, context: Context, draws: int) -> Float[Array, "k k draws"]:
    """`E[P K P^T]` given the tokens, the average over infinitely many heads, by Sobol points.

    Each draw has its own random shift of the points (Cranley and Patterson 1976), so it is unbiased, and the spread
    over draws is its error (about 1e-4 of the value for one token of four).
    """
    dimension, steps = view.score_normals, _EXPECTATION_POINTS // EXPECTATION_AT_ONCE
    key = context.key("expectation")
    if dimension <= _SOBOL_DIMENSIONS:
        points = jnp.asarray(sobol_uniforms(dimension, _EXPECTATION_POINTS, 0), jnp.float32)
        chunks = jnp.moveaxis(points.reshape(dimension, steps, EXPECTATION_AT_ONCE), 1, 0)
        shift = jax.random.uniform(key, (dimension, 1, draws))

        def normals(chunk: Array) -> Float[Array, "m q draws"]:
            shifted = jnp.mod(chunk[..., None] + shift, 1.0)
            # A float32 uniform may be 0, which would be an infinite normal.
            return jax.scipy.special.ndtri(jnp.clip(shifted, 2.0**-24, 1 - 2.0**-24))
    else:
        chunks = random.fold_in(key, np.arange(steps))

        def normals(chunk: Array) -> Float[Array, "m q draws"]:
            return random.normal(chunk, (dimension, EXPECTATION_AT_ONCE, draws))

    def add(total: Array, chunk: Array) -> tuple[Array, None]:
        weights = view.weights(view.scores_of(normals(chunk)), 0)
        return total + gram_of(view.attended(weights)).sum(axis=2), None

    zero = jnp.zeros((view.wanted, view.wanted, draws), jnp.float32)
    return jax.lax.scan(add, zero, chunks)[0] / _EXPECTATION_POINTS

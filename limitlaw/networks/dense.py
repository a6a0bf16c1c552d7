"""The dense reading, which draws every matrix. It is slow and simple: the definition that other readings must match."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray

from .._checks import ArgumentError, known_keys
from ..numerics.batches import largest_power_of_two
from ._layer import Context, InputLayer, Layer, Layout, NetworkParts, Node, RowMap
from ._rules import bias_stream, checked_matrices, inner_of, latents_of, matrix_stream
from .described import Traced
from .state import LARGEST_VARIANCE, SMALLEST_VARIANCE, Frame, Scope, Weights, in_turn

_BATCH_FLOATS = 2**24  # numbers that one batch holds at a time: 64 MiB
_BATCH_NORMALS = 2**25  # numbers that one batch draws: a fraction of a second, so an interrupt takes effect soon
_WORKING_MATRICES = 8  # upper bound of the copies of a layer's matrices in memory at once


class Activity(eqx.Module):
    """The tokens of one draw in the dense reading, with their observables.

    Attributes:
        tokens: The tokens with all their coordinates, `(tokens, width)`.
        fresh_covariance: The covariance of the output given everything before its last matrix, if there is one.
        seen: The observed arrays of the last layer, by name.

    Example:
        >>> import jax.numpy as jnp
        >>> from limitlaw.networks.dense import Activity
        >>> x = Activity(jnp.array([[2.0, 4.0]]))
        >>> x.covariance.tolist()
        [[10.0]]
    """

    tokens: Float[Array, "s n"]
    fresh_covariance: Float[Array, "s s"] | None = None
    seen: dict[str, Array] = eqx.field(default_factory=dict)

    @property
    def covariance(self) -> Float[Array, "s s"]:
        """The covariance of a coordinate of the output, or of a fresh read-out of the tokens."""
        if self.fresh_covariance is not None:
            return self.fresh_covariance
        return self.tokens @ self.tokens.T / self.tokens.shape[1]

    def settle(self, scope: Scope, keep_gram: bool = False) -> "Activity":
        """The tokens, without observables."""
        del scope, keep_gram
        return Activity(self.tokens)

    def carried(self, scope: Scope) -> "Activity":
        """The tokens, without observables."""
        return self.settle(scope)

    def add(self, branch: "Activity", skip: Any, scope: Scope, end: Traced | None = None) -> "Activity":
        """The sum `skip X + Y`, or `skip X + end(Y)`, for the active tokens; the others stay as they are."""
        added = branch.tokens if end is None else end.value.on_tokens(branch.tokens)
        return Activity(_where_active(skip * self.tokens + added, self.tokens, scope))

    def put(self, new: "Activity", scope: Scope) -> "Activity":
        """The new stream for the active tokens, and this one for the others."""
        return Activity(_where_active(new.tokens, self.tokens, scope))


def _where_active(new: Array, old: Array, scope: Scope) -> Array:
    active = scope.frame.active
    return new if active is None else jnp.where(np.array(active)[:, None], new, old)


@dataclass(frozen=True)
class DenseRule:
    """A node in the dense reading."""

    node: Node

    @property
    def traced(self) -> "DenseRule":
        """The rule itself."""
        return self

    def apply(self, stream: Activity, scope: Scope) -> Activity:
        """The stream after the node."""
        return self.node.apply_dense(_within_range(stream), scope)


def _within_range(x: Activity) -> Activity:
    """NaN where the variance of a token has left the accepted range, as `_state.within_range` in the Gram reading."""
    variance = jnp.mean(x.tokens**2, axis=1)
    lost = jnp.any((variance != 0) & ~((variance > SMALLEST_VARIANCE) & (variance < LARGEST_VARIANCE)))
    return eqx.tree_at(lambda x: x.tokens, x, jnp.where(lost, jnp.nan, x.tokens))


def apply_rows(node: RowMap, x: Activity, scope: Scope) -> Activity:
    """Apply a row map to tokens with all their coordinates."""
    return Activity(_where_active(node.on_tokens(x.tokens), x.tokens, scope))


def apply_layer(layer: Layer, x: Activity, scope: Scope) -> Activity:
    """Draw the matrices of a layer, and apply its inner map."""
    width, layout = x.tokens.shape[1], scope.frame.layout
    matrices = checked_matrices(layer, width, layout)
    columns = {name: matrix.columns for name, matrix in matrices.items()}
    context = Context(scope.named("layer")(), scope.network_key, layout, columns)

    def product(name: str, read: Float[Array, "s rows"]) -> Float[Array, "s columns"]:
        matrix = matrices[name]
        shape = read.shape[1], int(matrix.columns)

        def weight() -> Array:
            fan_in = shape[0] if matrix.fan_in is None else matrix.fan_in
            return (
                matrix.std
                / jnp.sqrt(fan_in)
                * jax.random.normal(context.key(matrix_stream(matrix.same_as or name)), shape)
            )

        def bias() -> Array:
            return matrix.bias_std * jax.random.normal(context.key(bias_stream(name)), shape[1:])

        out = read @ _kept(scope, f"{scope.label}.{name}", weight)
        return out + _kept(scope, f"{scope.label}.{name}.bias", bias) if matrix.has_bias else out

    u = {name: product(name, x.tokens) for name, m in matrices.items() if m.reads == "stream" and name != "out"}
    latents = latents_of(layer, matrices, u, context)
    u |= {name: product(name, latents[m.reads]) for name, m in matrices.items() if m.reads in latents}
    Z, seen = inner_of(layer, u, context) if list(matrices) != ["out"] else (x.tokens, {})
    if "out" not in matrices:
        return Activity(Z, None, seen)
    last = matrices["out"]
    fan_in = Z.shape[1] if last.fan_in is None else last.fan_in
    covariance = last.std**2 * Z @ Z.T / fan_in + last.bias_std**2
    return Activity(product("out", Z), covariance, seen)


def _kept(scope: Scope, path: str, draw: Callable[[], Array]) -> Array:
    """An array of weights, drawn or given, and recorded where weights are."""
    return draw() if scope.weights is None else scope.weights(path, draw)


def first_tokens(inputs: InputLayer, width: int, scope: Scope) -> Activity:
    """A draw of the input tokens."""
    context = Context(scope.named("inputs")(), scope.network_key, inputs.layout)
    return Activity(inputs.tokens_at(width, context))


def through(layers: tuple[Node, ...], x: Activity, scope: Scope) -> Activity:
    """Apply layers one after the other."""
    return in_turn(tuple(map(DenseRule, layers)), x, scope, settle_last=False)


def batch_of(net: NetworkParts, width: int, layers: tuple[Node, ...]) -> tuple[int, int]:
    """The number of draws in a batch, and the bytes that it takes."""
    s, largest, normals, matrices = net.tokens, width**2, float(net.tokens * width**2), 1.0
    for layer in layers:
        for node, count in layer.walk():
            if isinstance(node, Layer):
                columns = sum(int(m.columns) for m in node.matrices(width, net.layout).values())
                largest = max(largest, columns * (width + s))
                normals += float(columns * width * count)
                matrices = max(matrices, node.cost(width, net.layout).matrices)
    floats = _WORKING_MATRICES * largest + 2 * s**2 * matrices
    draws = largest_power_of_two(min(_BATCH_FLOATS / floats, _BATCH_NORMALS / normals, 1024))
    return draws, int(4 * draws * floats)


# Numbers of the layers are compiled in: column counts may depend on them, and the definition need not be fast.
@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3, 4, 5))
def draw_batch(
    inputs: InputLayer,
    layers: tuple[Node, ...],
    width: int,
    observe: str,
    rows: tuple[int, ...] | None,
    draws: int,
    key: PRNGKeyArray,
) -> Float[Array, "draws ..."]:
    """A batch of draws of an observable of a network."""

    def one(key: PRNGKeyArray) -> Array:
        own, shared, read_out = jax.random.split(key, 3)
        scope = Scope(own, shared, Frame(1, inputs.layout))
        x = through(layers, first_tokens(inputs, width, scope), scope)
        picked = np.arange(x.tokens.shape[0]) if rows is None else np.array(rows)
        if observe == "gram":
            return x.tokens @ x.tokens.T / width
        if observe == "covariance":
            return x.covariance[picked][:, picked]
        if observe != "output":
            return x.seen[observe] if rows is None else x.seen[observe][:, picked]
        if x.fresh_covariance is not None:
            return x.tokens[picked, 0]
        return x.tokens[picked] @ jax.random.normal(read_out, (width,)) / sqrt(width)

    return jax.vmap(one)(jax.random.split(key, draws))


@dataclass(frozen=True, repr=False, eq=False)
class Realisation:
    """One drawn network: its weights by path, and the function of the tokens that they define.

    Attributes:
        layers: The layers of the network.
        layout: The lengths of the sequences.
        key: The key of the draw.
        weights: The weight matrices and biases, which include their standard deviations, by paths such as
            "0.3.1.query": layer 0 (a `Repeat`), repetition 3, part 1, matrix "query".
        tokens: The input tokens, `(tokens, width)`.

    Example:
        >>> import numpy as np, limitlaw as ll
        >>> net = ll.Network(ll.GramInputs(np.eye(2)), ll.Attention(head_dim=4))
        >>> one = net.realise(width=8, seed=0)
        >>> sorted(one.weights), one.weights["0.query"].shape, one().shape
        (['0.key', '0.out', '0.query', '0.value'], (8, 4), (2, 8))
    """

    layers: tuple[Node, ...]
    layout: Layout
    key: PRNGKeyArray
    weights: dict[str, Array]
    tokens: Float[Array, "s n"]

    def __call__(
        self, tokens: ArrayLike | None = None, weights: Mapping[str, ArrayLike] | None = None
    ) -> Float[Array, "s n"]:
        """The last stream, as a pure JAX function of tokens and weights.

        Args:
            tokens: The input tokens, by default those of the realisation.
            weights: Weights by path, by default those of the realisation. Paths may be missing.

        Returns:
            The tokens after the last layer, `(tokens, width)`.
        """
        given = {path: jnp.asarray(weight, jnp.float32) for path, weight in (weights or {}).items()}
        known_keys("the weights", given, self.weights)
        for path, weight in given.items():
            if weight.shape != self.weights[path].shape:
                raise ArgumentError(
                    "weights",
                    f"weights[{path!r}] has shape {weight.shape}. It must have shape {self.weights[path].shape}.",
                )
        x = Activity(self.tokens if tokens is None else jnp.asarray(tokens, jnp.float32))
        if x.tokens.shape != self.tokens.shape:
            raise ArgumentError(
                "tokens", f"tokens has shape {x.tokens.shape}. It must have shape {self.tokens.shape}: (tokens, width)."
            )
        scope = _scope(self.layout, self.key, {**self.weights, **given})
        return through(self.layers, x, scope).tokens

    def __repr__(self) -> str:
        size = sum(weight.size for weight in self.weights.values())
        return f"Realisation of {self.tokens.shape[0]} tokens of width {self.tokens.shape[1]} with {size:,} weights"


def _scope(layout: Layout, key: PRNGKeyArray, weights: dict[str, Array]) -> Scope:
    own, shared = jax.random.split(key)
    return Scope(own, shared, Frame(1, layout), weights=Weights(weights))


def realise(inputs: InputLayer, layers: tuple[Node, ...], width: int, key: PRNGKeyArray) -> Realisation:
    """Draw one network with all its weights."""
    scope = _scope(inputs.layout, key, {})
    start = first_tokens(inputs, width, scope)
    through(layers, start, scope)
    assert scope.weights is not None
    return Realisation(layers, inputs.layout, key, scope.weights.drawn, start.tokens)

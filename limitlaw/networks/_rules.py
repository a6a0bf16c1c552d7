"""Nodes in the Gram reading: derived and contracted rules of layers, row maps, combinators, and inputs."""

import abc
import functools
from collections.abc import Callable
from dataclasses import dataclass
from math import isinf
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._checks import ArgumentError, is_traced
from ..numerics import random
from ..numerics.batches import largest_power_of_two
from ..numerics.linalg import multiply, psd_root
from ._layer import BY_TOKEN, Combinator, Context, InputLayer, Layer, Layout, Matrix, Purpose, RowMap
from .described import Traced
from .state import (
    Frame,
    Fresh,
    NamedKey,
    Rule,
    Scope,
    Stream,
    Tokens,
    within_range,
)

# How many coordinates of nonlinear inputs, or hidden units, one step of a loop draws.
_FEW_TOKENS = 8  # tokens up to which products of vectors over the draws replace matrix products, which would be tiny
_COORDINATES_AT_ONCE = 4  # for few tokens: the sum over them is unrolled, so more would make programs longer
_UNITS_AT_ONCE = 64  # for more tokens: the inner dimension of a matrix product
_MANY_TOKENS = 256  # tokens from which batches are small, so a product is large only if many units enter it
_MANY_NUMBERS = 2**22  # normals in a step for many tokens, 16 MiB


def as_numbers(tree: Any) -> Any:
    """The leaves of a tree as JAX arrays, float32 but for booleans, so they are traced and not compiled in."""

    def convert(leaf: Any) -> Any:
        if is_traced(leaf):
            return leaf.astype(jnp.float32)
        array = np.asarray(leaf)
        return jax.device_put(array if array.dtype == bool else array.astype(np.float32))

    return jax.tree.map(convert, tree)


class LeafRule(eqx.Module):
    """The rule of a node without parts, as a pytree: one compiled program takes its numbers as arguments."""

    @abc.abstractmethod
    def step(
        self, tokens: Tokens, context: Context, frame: Frame, rows: tuple[int, ...] | None
    ) -> tuple[Stream, dict[str, Array]]:
        """Apply the node to a batch of draws, within a compiled program.

        Args:
            tokens: The tokens before the node. Their root may have one draw that stands for the whole batch.
            context: The keys of random numbers, and the layout.
            frame: The number of draws, the active tokens, and whether the mean is tracked.
            rows: The tokens to compute, if not all; None unless `answers_rows`.

        Returns:
            The stream after the node, and the observed arrays by name, draws last.
        """

    @property
    def answers_rows(self) -> bool:
        """Whether `step` can compute some of the tokens only, at a lower cost."""
        return False

    @property
    def traced(self) -> "LeafRule":
        """The rule itself."""
        return self

    def apply(self, stream: Stream, scope: Scope, rows: tuple[int, ...] | None = None) -> Stream:
        """The stream after the node, or after the node for some of the tokens only.

        Args:
            stream: The stream before the node.
            scope: The place of the node in the network.
            rows: The tokens to compute, if not all.

        Returns:
            The stream after the node.
        """
        after, observed = self._stepped(stream, scope, rows, observed_only=False)
        if scope.recorder is not None:
            scope.recorder.see(observed, scope.frame.active)
        assert after is not None
        return after

    def observe(self, stream: Stream, scope: Scope, rows: tuple[int, ...] | None) -> dict[str, Array]:
        """The observed arrays only; the compiler removes the computation of all else.

        Args:
            stream: The stream before the node.
            scope: The place of the node in the network.
            rows: The tokens to compute, if not all.

        Returns:
            The arrays by name, draws last.
        """
        return self._stepped(stream, scope, rows, observed_only=True)[1]

    def _stepped(
        self, stream: Stream, scope: Scope, rows: tuple[int, ...] | None, *, observed_only: bool
    ) -> tuple[Stream | None, dict[str, Array]]:
        in_order = rows is None or rows == tuple(range(len(rows)))
        tokens = stream.settle(scope, keep_gram=not in_order)
        if in_order:  # without the Gram matrix, where only the root is needed, one program serves all streams
            tokens = Tokens(tokens.root, tokens.width, centred=tokens.centred)
        return _stepped(self, tokens, scope.named("layer"), scope.network_key, scope.frame, rows, observed_only)


@functools.partial(jax.jit, static_argnums=(4, 5, 6))
def _stepped(
    rule: LeafRule,
    tokens: Tokens,
    key: NamedKey,
    network_key: PRNGKeyArray,
    frame: Frame,
    rows: tuple[int, ...] | None,
    observed_only: bool,
) -> tuple[Stream | None, dict[str, Array]]:
    after, observed = rule.step(within_range(tokens), Context(key(), network_key, frame.layout), frame, rows)
    return (None if observed_only else after), observed


class ContractedRule(LeafRule):
    """The rule of a layer that needs Gram matrices only: a subclass defines the covariance of the layer's output."""

    @abc.abstractmethod
    def covariance(
        self, tokens: Tokens, context: Context, draws: int, rows: tuple[int, ...] | None
    ) -> tuple[Float[Array, "k k *draws"], dict[str, Array]]:
        """The covariance of a coordinate of the output, given the tokens and the random numbers of the layer.

        Args:
            tokens: The tokens before the layer.
            context: The keys of random numbers of the batch, and the layout.
            draws: The number of draws.
            rows: The tokens of which the covariance is needed, in this order; None for all.

        Returns:
            The covariance, `(k, k, *draws)` for `k` tokens, and the observed arrays by name, draws last.
        """

    def step(
        self, tokens: Tokens, context: Context, frame: Frame, rows: tuple[int, ...] | None
    ) -> tuple[Stream, dict[str, Array]]:
        covariance, observed = self.covariance(tokens, context, frame.draws, rows)
        return Fresh(covariance, tokens.width, context.key("settle")), observed


class DerivedRule(LeafRule):
    """The rule that follows from a layer's matrices and inner map.

    Given the Gram matrix `K = R R^T` of the tokens, `X W` has the law of `std R G` with a standard normal `G` of as
    many rows as `R` has columns, so no weight matrix is drawn. The inner map acts on these products, and its result `Z`
    gives the covariance of `Z W_out` without a draw of `W_out`.
    """

    layer: Traced
    matrices: dict[str, Matrix]
    columns: tuple[tuple[str, int], ...] = eqx.field(static=True)
    biased: frozenset[str] = eqx.field(static=True)
    observed: frozenset[str] = eqx.field(static=True)

    def step(
        self, tokens: Tokens, context: Context, frame: Frame, rows: tuple[int, ...] | None
    ) -> tuple[Stream, dict[str, Array]]:
        root = jnp.broadcast_to(tokens.factor, (*tokens.factor.shape[:2], frame.draws))
        # `inner` is written for one draw, so each draw has its own key, split from that of the batch.
        keys = jax.random.split(context.root, frame.draws)
        shared = jax.random.split(context.network_root, frame.draws)

        def one(root: Array, key: PRNGKeyArray, network_key: PRNGKeyArray) -> tuple[Array, Array, dict[str, Array]]:
            own = Context(key, network_key, frame.layout, dict(self.columns))
            Z, seen = self.inner(root, own)
            return *self.read(Z, root), {name: seen[name] for name in self.observed if name in seen}

        second, mean, seen = jax.vmap(one, in_axes=(-1, 0, 0), out_axes=-1)(root, keys, shared)
        if "out" in self.matrices:
            return Fresh(second, tokens.width, context.key("settle")), seen
        if not frame.tracks_mean:
            return Tokens(psd_root(second), tokens.width, second), seen
        # The frame starts with the all-ones vector, along which the coordinates are the mean.
        centred = psd_root(second - mean[:, None] * mean[None])
        return Tokens(jnp.concatenate([mean[:, None], centred], axis=1), tokens.width), seen

    def inner(self, root: Float[Array, "s r"], context: Context) -> tuple[Any, Any]:
        """`Z` and the observed arrays of one draw, from drawn products of the tokens and the matrices."""
        layer: Layer = self.layer.value
        u = {name: self.drawn(name, root, context) for name in self.names("stream")}
        latents = latents_of(layer, self.matrices, u, context)
        for name, latent in latents.items():
            # Given a latent C, the columns of C W are N(0, std^2 C C^T / rank): the same rule with another Gram matrix.
            latent_root = psd_root(multiply(latent, latent.T) / latent.shape[1])
            u |= {own: self.drawn(own, latent_root, context, latent.shape[1]) for own in self.names(name)}
        return inner_of(layer, u, context)

    def names(self, reads: str) -> list[str]:
        """The matrices that read an array, "stream" or the name of a latent."""
        return [name for name, matrix in self.matrices.items() if matrix.reads == reads and name != "out"]

    def drawn(self, name: str, root: Array, context: Context, rows: int | None = None) -> Float[Array, "s columns"]:
        """A draw of `X W`, plus the bias, given a root of `X X^T / rows`.

        Args:
            name: The name of the matrix.
            root: The root, `(tokens, axes)`.
            context: The keys of random numbers.
            rows: The number of rows of the matrix, needed only if it has its own `fan_in`.

        Returns:
            The product, `(tokens, columns)`.
        """
        matrix = self.matrices[name]
        # Tied matrices share their standard normals: the same key gives the same numbers, scaled by each one's std.
        normals = random.normal(
            context.key(matrix_stream(matrix.same_as or name)), (root.shape[1], dict(self.columns)[name])
        )
        product = matrix.std * jnp.matmul(root, normals, precision="highest")
        if matrix.fan_in is not None and rows is not None:
            product = product * jnp.sqrt(rows / matrix.fan_in)
        if name in self.biased:
            product = product + matrix.bias_std * random.normal(context.key(bias_stream(name)), normals.shape[1:])
        return product

    def read(self, Z: Float[Array, "s m"], root: Float[Array, "s r"]) -> tuple[Array, Array]:
        """The covariance of the output given `Z`, or the Gram matrix of `Z` if that is the stream; and its mean."""
        gram = jnp.matmul(Z, Z.T, precision="highest")
        if "out" not in self.matrices:
            return gram / Z.shape[1], Z.mean(axis=1)
        out = self.matrices["out"]
        fan_in = Z.shape[1] if out.fan_in is None else out.fan_in
        return out.std**2 * gram / fan_in + out.bias_std**2, jnp.zeros(len(Z))


def latents_of(layer: Layer, matrices: dict[str, Matrix], u: dict[str, Array], context: Context) -> dict[str, Array]:
    """The latents of a layer, if some matrix reads one.

    Raises:
        ArgumentError: If a matrix reads a latent that the layer does not have.
    """
    reading = {name: matrix.reads for name, matrix in matrices.items() if matrix.reads != "stream"}
    if not reading:
        return {}
    latents = layer.latents(u, context)
    for name, reads in reading.items():
        if reads not in latents:
            kind = type(layer).__name__
            raise ArgumentError(
                "matrices",
                f"{kind}.matrices: the matrix {name!r} has reads={reads!r}, which {kind}.latents does not return. "
                f"Known: 'stream'{''.join(f', {known!r}' for known in latents)}.",
            )
    return latents


def matrix_stream(name: str) -> str:
    """The name of the stream of a matrix. Its slash sets it apart from the names that a layer may choose."""
    return f"/matrix/{name}"


def bias_stream(name: str) -> str:
    """The name of the stream of a bias."""
    return f"/bias/{name}"


def inner_of(layer: Layer, u: dict[str, Array], context: Context) -> tuple[Any, Any]:
    """`Z` and the observed arrays of one draw."""
    out = layer.inner(u, context)
    return out if isinstance(out, tuple) else (out, {})


def derived_rule(layer: Layer, width: int | float, layout: Layout, purpose: Purpose) -> LeafRule:
    """The derived rule of a layer. Its matrices and inner map are checked here, before any work.

    Args:
        layer: The layer.
        width: The width of the stream.
        layout: The lengths of the sequences.
        purpose: The observables and derivatives that are needed.

    Returns:
        The rule.

    Raises:
        ArgumentError: If the matrices or the inner map break the contract of `Layer`.
    """
    matrices = checked_matrices(layer, width, layout)
    is_linear = list(matrices) == ["out"]
    for name, matrix in matrices.items():
        if matrix.reads == "stream" and (is_linear or name != "out"):
            matrices[name] = _per_row(matrix, layer, name, width)
    if is_linear:
        return LinearRule(as_numbers(matrices["out"]))
    _check_countable(layer, matrices, width)
    columns = tuple((name, int(matrix.columns)) for name, matrix in matrices.items() if name != "out")
    rule = DerivedRule(
        Traced.of(layer),
        {name: as_numbers(_without_columns(matrix)) for name, matrix in matrices.items()},
        columns,
        frozenset(name for name, matrix in matrices.items() if matrix.has_bias),
        purpose.observed,
    )
    _check_inner(rule, layer, width, layout)
    return rule


def check_declared(layer: Layer, width: int | float, layout: Layout) -> None:
    """Refuse a layer whose matrices admit no derived rule at this width.

    Args:
        layer: The layer.
        width: The width of the stream.
        layout: The lengths of the sequences.

    Raises:
        ArgumentError: If its matrices are not compatible, or one has infinitely many columns.
    """
    _check_countable(layer, checked_matrices(layer, width, layout), width)


def _check_countable(layer: Layer, matrices: dict[str, Matrix], width: int | float) -> None:
    """Refuse a matrix with infinitely many columns, which cannot be drawn."""
    kind = type(layer).__name__
    for name, matrix in matrices.items():
        if isinf(matrix.columns) and name != "out":
            raise ArgumentError(
                "matrices",
                f"The matrix {name!r} of {layer!r} has infinitely many columns at width={width}, which only a "
                f"contracted rule can handle, and {kind} has none for this width. Give {kind} a method "
                f"contract(width, layout, purpose), or use a finite number of columns.",
            )


def _per_row(matrix: Matrix, layer: Layer, name: str, width: int | float) -> Matrix:
    """A matrix that reads the stream, with its `fan_in` absorbed into `std`: the rule itself divides by the width."""
    if matrix.fan_in is None:
        return matrix
    if isinf(width):
        raise ArgumentError(
            "matrices",
            f"The matrix {name!r} of {layer!r} has fan_in={matrix.fan_in} and reads the stream, whose infinite width "
            f"has no ratio to it. Leave fan_in out and give std=..., or use a finite width.",
        )
    std = matrix.std * (width / matrix.fan_in) ** 0.5
    return eqx.tree_at(lambda m: (m.std, m.fan_in), matrix, (std, None), is_leaf=lambda leaf: leaf is None)


def _without_columns(matrix: Matrix) -> Matrix:
    """A matrix without its column count, which the rule holds as a static number."""
    return eqx.tree_at(lambda m: m.columns, matrix, None)


def checked_matrices(layer: Layer, width: int | float, layout: Layout) -> dict[str, Matrix]:
    """The matrices of a layer at one width, checked.

    Args:
        layer: The layer.
        width: The width of the stream.
        layout: The lengths of the sequences.

    Returns:
        The matrices by name.

    Raises:
        ArgumentError: If they are not a dictionary of compatible matrices.
    """
    kind = type(layer).__name__
    try:
        matrices = layer.matrices(width, layout)
    except ArgumentError as error:
        raise ArgumentError(
            "matrices", f"{kind}.matrices(width={width}, layout) declares an impossible matrix: {error}"
        ) from None
    if not isinstance(matrices, dict) or not all(isinstance(m, Matrix) for m in matrices.values()) or not matrices:
        raise ArgumentError(
            "matrices",
            f"{kind}.matrices(width, layout) returned {matrices!r}. It must return a dictionary of ll.Matrix objects "
            f"by name, such as {{'in': ll.Matrix(width), 'out': ll.Matrix(width)}}.",
        )
    if "out" in matrices and matrices["out"].columns != width:
        raise ArgumentError(
            "matrices",
            f"{kind}.matrices(width={width}, layout): the matrix 'out' has {matrices['out'].columns} columns, but it "
            f"writes the stream. Give it `width` columns.",
        )
    for name, matrix in matrices.items():
        other = matrices.get(matrix.same_as or name)
        # The numbers of "out" are never drawn in the Gram reading, and of a chain each would follow another stream.
        tied_out = matrix.same_as is not None and "out" in (name, matrix.same_as)
        chained = matrix.same_as is not None and other is not None and other.same_as is not None
        differs = other is None or (other.columns, other.reads) != (matrix.columns, matrix.reads)
        if differs or tied_out or chained:
            raise ArgumentError(
                "matrices",
                f"{kind}.matrices(width, layout): the matrix {name!r} has same_as={matrix.same_as!r}. It must name "
                f"another matrix of the layer with equal `reads` and `columns`, neither 'out' nor tied itself.",
            )
    return matrices


def _check_inner(rule: DerivedRule, layer: Layer, width: int | float, layout: Layout) -> None:
    """Trace the inner map once, on shapes only, and refuse a wrong result before any work."""
    kind, size = type(layer).__name__, layout.size
    root = jax.ShapeDtypeStruct((size, size), jnp.float32)
    key = jax.eval_shape(lambda: jax.random.key(0))
    try:
        # The rule is an argument, so that its numbers are traced here, as they are when it is compiled.
        Z, seen = jax.eval_shape(
            lambda rule, root, key: rule.inner(root, Context(key, key, layout, dict(rule.columns))), rule, root, key
        )
    except KeyError as error:
        raise ArgumentError(
            "inner",
            f"{kind}.inner asks for {error}, which does not exist. u has {', '.join(map(repr, dict(rule.columns)))}.",
        ) from error
    except jax.errors.TracerArrayConversionError as error:
        raise ArgumentError(
            "inner", f"{kind}.inner applies a NumPy function to an array that JAX traces. Use jax.numpy."
        ) from error
    except jax.errors.ConcretizationTypeError as error:
        raise ArgumentError(
            "inner",
            f"{kind}.inner branches on a number that JAX traces ({str(error).splitlines()[0]}). Numbers of fields that "
            f"are annotated with float are traced: use jnp.where, or annotate a switch as bool, int or str.",
        ) from error
    if not isinstance(Z, jax.ShapeDtypeStruct) or len(Z.shape) != 2 or Z.shape[0] != size:
        raise ArgumentError(
            "inner",
            f"{kind}.inner returned {_shape(Z)}. It must return an array of shape (tokens, m) = ({size}, m), or that "
            f"and a dictionary of observed arrays.",
        )
    if not isinstance(seen, dict):
        raise ArgumentError(
            "inner",
            f"{kind}.inner returned an object of type {type(seen).__name__} with its array. Observed arrays must be "
            f"a dictionary by name.",
        )
    for name in layer.observables:
        shape = seen[name].shape if name in seen else None
        if shape is None:
            raise ArgumentError(
                "inner",
                f"{kind}.observables names {name!r}, but {kind}.inner does not return it. Add it to the dictionary.",
            )
        if name in BY_TOKEN and (len(shape) < 2 or shape[1] != size):
            raise ArgumentError(
                "inner",
                f"{kind}.inner returns {name!r} with shape {shape}. It must have shape (heads, tokens, ...) = "
                f"(any, {size}, ...). Under another name it may have any shape.",
            )
    if "out" not in rule.matrices and Z.shape[1] != width:
        raise ArgumentError(
            "inner",
            f"{kind}.inner returned {_shape(Z)}, and {kind} has no matrix 'out', so this is the new stream. It must "
            f"have shape (tokens, width) = ({size}, {width}), or give {kind} a matrix 'out'.",
        )


def _shape(value: Any) -> str:
    return f"an array of shape {value.shape}" if isinstance(value, jax.ShapeDtypeStruct) else repr(value)


class LinearRule(ContractedRule):
    """The rule of a layer whose only matrix is "out", which reads the stream."""

    out: Matrix

    def covariance(
        self, tokens: Tokens, context: Context, draws: int, rows: tuple[int, ...] | None
    ) -> tuple[Float[Array, "k k *draws"], dict[str, Array]]:
        return self.out.std**2 * tokens.gram + self.out.bias_std**2, {}


class BoundRows(LeafRule):
    """The rule of a row map."""

    node: Traced
    centres: bool = eqx.field(static=True)

    def step(
        self, tokens: Tokens, context: Context, frame: Frame, rows: tuple[int, ...] | None
    ) -> tuple[Stream, dict[str, Array]]:
        node: RowMap = self.node.value
        new = node.rows(tokens.root)
        if frame.active is not None:
            new = jnp.where(np.array(frame.active).reshape(-1, *[1] * (new.ndim - 1)), new, tokens.root)
        return Tokens(new, tokens.width, centred=self.centres and frame.active is None), {}


def bound_rows(node: RowMap) -> LeafRule:
    """The rule of a row map in the Gram reading."""
    return BoundRows(Traced.of(node), node.centres)


@dataclass(frozen=True)
class BoundCombinator:
    """The rule of a combinator, applied on the host: each part runs its own compiled program."""

    node: Combinator
    parts: tuple[Rule, ...]
    traced: "TracedCombinator"

    @classmethod
    def of(cls, node: Combinator, width: int | float, layout: Layout, purpose: Purpose) -> "BoundCombinator":
        """The rule of a combinator, with the rules of its parts."""
        parts = tuple(part.bind(width, layout, purpose) for part in node.parts)
        return cls(node, parts, TracedCombinator(Traced.of(node), tuple(part.traced for part in parts)))

    def apply(self, stream: Any, scope: Scope) -> Any:
        """The stream after the node."""
        return self.node.apply(self.parts, stream, scope)


class TracedCombinator(eqx.Module):
    """The rule of a combinator within a compiled program: a pytree whose leaves are its numbers."""

    node: Traced
    parts: tuple[Any, ...]

    @property
    def traced(self) -> "TracedCombinator":
        """The rule itself."""
        return self

    def apply(self, stream: Any, scope: Scope) -> Any:
        """The stream after the node."""
        node: Combinator = self.node.value
        return node.apply(self.parts, stream, scope)


class DrawnInputs(eqx.Module):
    """Inputs whose coordinates are all drawn, to compute their Gram matrix; at infinite width its limit is used."""

    inputs: Traced
    limit: Any
    limit_mean: Any
    width: int | None = eqx.field(static=True)

    def start(self, width: Array, context: Context, draws: int, tracks_mean: bool) -> Stream:
        """The first stream of a batch."""
        if self.width is None:
            return fixed(self.limit, self.limit_mean, width, tracks_mean)
        inputs: InputLayer = self.inputs.value
        count = self.width

        def one(key: PRNGKeyArray, network_key: PRNGKeyArray) -> tuple[Array, Array]:
            x = inputs.tokens_at(count, Context(key, network_key, context.layout))
            return jnp.matmul(x, x.T, precision="highest") / count, x.mean(axis=1)

        keys, shared = (jax.random.split(key, draws) for key in (context.root, context.network_root))
        gram, mean = jax.vmap(one, out_axes=-1)(keys, shared)
        if not tracks_mean:
            return Tokens(psd_root(gram), width, gram)
        return Tokens(jnp.concatenate([mean[:, None], psd_root(gram - mean[:, None] * mean[None])], axis=1), width)


def drawn_inputs(inputs: InputLayer, width: int | float) -> DrawnInputs:
    """The Gram reading of inputs that is derived from `tokens_at`."""
    limit, mean = as_numbers((inputs.limit_gram(), inputs.limit_mean()))
    return DrawnInputs(Traced.of(inputs), limit, mean, None if isinf(width) else int(width))


def fixed(K: Float[Array, "s s"], mean: Float[Array, "s"], width: Array, tracks_mean: bool) -> Tokens:
    """Tokens with a fixed Gram matrix and coordinate mean; one draw stands for all of them."""
    if not tracks_mean:
        return Tokens(psd_root(K[..., None]), width, K[..., None])
    centred = psd_root((K - mean[:, None] * mean)[..., None])
    return Tokens(jnp.concatenate([mean[:, None, None], centred], axis=1), width)


def units_at_once(size: int, normals: int, draws: int) -> int:
    """The number of coordinates drawn in one step, for `size` rows and `normals` normals for each coordinate."""
    if size <= _FEW_TOKENS + 1:
        return _COORDINATES_AT_ONCE
    return _UNITS_AT_ONCE if size < _MANY_TOKENS else largest_power_of_two(_MANY_NUMBERS / (normals * draws))


def averaged_products(
    coordinate: Callable[[Array], Array],
    normals: int,
    size: int,
    count: Float[Array, ""],
    key: PRNGKeyArray,
    draws: int,
    static_count: int | None = None,
) -> Float[Array, "s s draws"]:
    """The average of `x x^T` over `count` coordinates `x = coordinate(z)` of normals `z`; 0 if `count` is infinite.

    This is the only cost that grows with a width, so the loop has a traced number of steps: one program serves every
    width, and memory does not depend on it.

    Args:
        coordinate: A function of normals `(normals, units, draws)` that returns `(size, units, draws)`.
        normals: The number of normals for each coordinate.
        size: The number of rows of the result.
        count: The number of coordinates, traced.
        key: The key of the normals.
        draws: The number of draws.
        static_count: The same number, untraced, if the loop is differentiated in reverse mode.

    Returns:
        The products, (size, size, draws).
    """
    # The normals of a few coordinates are drawn at a time, before the products: XLA would otherwise fuse the generator
    # into every product and compute the normals again for each.
    at_once = units_at_once(size, normals, draws)
    finite = jnp.where(jnp.isinf(count), 0.0, count)

    def add(i: Array, total: Array) -> Array:
        z = random.normal(random.fold_in(key, i), (normals, at_once, draws))
        # The last step may reach beyond the count. Surplus coordinates are zeroed after the map: phi(0) may not be 0.
        exists = (i * at_once + jnp.arange(at_once)).astype(finite.dtype) < finite
        x = jnp.where(exists[:, None], coordinate(z), 0.0)
        if size <= _FEW_TOKENS + 1:
            return total + sum(x[:, None, c] * x[None, :, c] for c in range(at_once))
        return total + multiply(x, jnp.swapaxes(x, 0, 1))

    zero = jnp.zeros((size, size, draws), jnp.float32)
    if static_count is None:
        steps = jnp.ceil(finite / at_once).astype(jnp.int32)
        total = jax.lax.fori_loop(0, steps, add, zero)
    else:  # checkpointing recomputes a step in the backward pass, so memory does not grow with the count
        step = jax.checkpoint(lambda total, i: (add(i, total), None))
        total = jax.lax.scan(step, zero, jnp.arange(-(-static_count // at_once)))[0]
    return total / jnp.maximum(finite, 1.0)

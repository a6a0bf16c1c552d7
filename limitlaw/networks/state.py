"""The state of a stream of tokens in the Gram reading, and the operations that combinators apply to it.

Arrays of the Gram reading are `(rows, columns, *draws)`. Functions are written for one draw; trailing axes hold further
draws.
"""

import abc
import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._checks import is_traced
from ..numerics import random
from ..numerics.bartlett import bartlett, bartlett_normals
from ..numerics.linalg import gram as gram_of, multiply, psd_root
from ._layer import Layout, RowMap, digest

# Variances outside this range are refused. It ends eight orders of magnitude before float32 does (1.2e-38 and 3.4e38),
# so one more layer can neither overflow nor underflow unnoticed.
SMALLEST_VARIANCE, LARGEST_VARIANCE = 1e-30, 1e30


@dataclass(frozen=True)
class Frame:
    """The static settings that the compiled stages of a batch share.

    Attributes:
        draws: The number of draws in the batch.
        layout: The lengths of the sequences.
        tracks_mean: Whether the coordinate mean of every token is tracked.
        active: The tokens that layers act on; None for all.
    """

    draws: int
    layout: Layout
    tracks_mean: bool = False
    active: tuple[bool, ...] | None = None


class NamedKey(NamedTuple):
    """A key yet to be derived. Compiled programs derive it themselves, which saves a dispatch from the host."""

    root: PRNGKeyArray
    name: np.uint32

    def __call__(self) -> PRNGKeyArray:
        """The key."""
        return random.fold_in(self.root, self.name)


@jax.jit
def _of_repetition(key: NamedKey, index: Any) -> PRNGKeyArray:
    return random.fold_in(key(), index)


@dataclass(frozen=True)
class Scope:
    """The place in the network where a node is applied, with the keys of its random numbers.

    Random numbers depend only on the path of a node, the repetitions around it, and a name, so a sample and a
    trajectory with the same seed have the same draws.
    """

    key: PRNGKeyArray
    network_key: PRNGKeyArray
    frame: Frame
    path: str = ""  # from the innermost repetition, whose number is folded into the key
    in_branch: bool = False  # within a branch that is added to the stream
    label: str = ""  # the whole path, as weights are named: "3.11.0.1"
    recorder: "Recorder | None" = None
    weights: "Weights | None" = None  # in the dense reading, if weights are recorded or given
    at_top: bool = True  # outside all repetitions and branches, where ends of layers are boundaries of a trajectory

    def part(self, index: int, *, at_top: bool = False) -> "Scope":
        """The scope of a part of the node."""
        path, label = (f"{p}.{index}" if p else str(index) for p in (self.path, self.label))
        return replace(self, path=path, label=label, at_top=at_top)

    def named(self, name: str) -> "NamedKey":
        """The key of a named stream of random numbers of the node."""
        return NamedKey(self.key, digest(f"{self.path}/{name}"))

    def repetition(self, index: Any) -> "Scope":
        """The scope of one repetition of the node's parts. The index may be traced."""
        key = _of_repetition(self.named("repetition"), index)
        return replace(self, key=key, path="", label=f"{self.label}.{index}")

    def on(self, active: tuple[bool, ...]) -> "Scope":
        """The same scope where layers act on some of the tokens only."""
        return replace(self, frame=replace(self.frame, active=active))

    @property
    def is_traced(self) -> bool:
        """Whether the node is applied inside a function that JAX traces."""
        return is_traced(self.key)

    @property
    def marks_repetitions(self) -> bool:
        """Whether the stream after every repetition is recorded."""
        recorder = self.recorder
        return recorder is not None and recorder.wants_streams and not recorder.by_block and self.at_top


@dataclass
class Weights:
    """The weight matrices and biases of one network by path, both given ones and drawn ones."""

    given: dict[str, Array]
    drawn: dict[str, Array] = field(default_factory=dict)

    def __call__(self, path: str, draw: Callable[[], Array]) -> Array:
        """The given array of this path, or a fresh draw; either way it is recorded."""
        self.drawn[path] = self.given[path] if path in self.given else draw()
        return self.drawn[path]


@dataclass
class Recorder:
    """A record of a batch of draws: the streams at the boundaries of blocks, and the observables of layers.

    Attributes:
        by_block: Whether the network has `Block` nodes, whose ends are then the only boundaries.
        wants_streams: Whether to keep the Gram matrix at every boundary, and not just whether it is sound.
        observed: The names of the observables to keep.
        grams: The Gram matrices at the boundaries, draws first.
        sound: For each run of boundaries, the number of blocks between two of them, the number of boundaries, and the
            number of leading boundaries at which every variance is within the range of float32.
        seen: For each layer with observables, the number of its block, the observed arrays, and the active tokens.
        start: The first stream.
    """

    by_block: bool = False
    wants_streams: bool = False
    observed: frozenset[str] = frozenset()
    grams: list[Array] = field(default_factory=list)
    sound: list[tuple[int, int, Array]] = field(default_factory=list)
    seen: list[tuple[int, dict[str, Array], tuple[bool, ...] | None]] = field(default_factory=list)
    start: Any = None

    def mark(self, stream: Any, scope: Scope, blocks: int = 1) -> Any:
        """Record the stream at a boundary, `blocks` after the last one; return it, settled if it is kept."""
        if not self.wants_streams:
            self.sound.append((blocks, 1, is_sound(stream)))
            return stream
        stream = stream.settle(scope)
        gram, sound = _whole_gram(stream, scope.frame.draws)
        self.grams.append(gram)
        self.sound.append((blocks, 1, sound))
        return stream

    def mark_block(self, stream: Any, scope: Scope) -> Any:
        """Record the stream at the end of a `Block`, and return it."""
        return self.mark(stream, scope) if self.by_block else stream

    def mark_end(self, stream: Any, scope: Scope) -> Any:
        """Record the stream at the end of a layer or repetition, if that is a boundary, and return it."""
        return self.mark(stream, scope) if scope.at_top and not self.by_block else stream

    def see(self, observed: dict[str, Array], active: tuple[bool, ...] | None) -> None:
        """Keep the requested observables of a layer."""
        wanted = {name: value for name, value in observed.items() if name in self.observed}
        if wanted:
            self.seen.append((len(self.grams), wanted, active))


@runtime_checkable
class State(Protocol):
    """The methods of a stream that combinators use, the same in every reading."""

    def settle(self, scope: Scope, keep_gram: bool = False) -> "State":
        """The stream as tokens with a known Gram matrix, which `add` and `put` need.

        Args:
            scope: The place in the network.
            keep_gram: Whether the Gram matrix itself is needed soon, besides its root.

        Returns:
            The settled stream. A stream that ends in a fresh matrix is drawn at the width; others are returned as they
            are.
        """
        ...

    def add(self, branch: "State", skip: Any, scope: Scope, end: Any = None) -> "State":
        """The sum `skip X + Y`, or `skip X + end(Y)`, for the active tokens; the others stay as they are.

        Args:
            branch: The branch `Y`, whose last step is a fresh matrix.
            skip: The factor of this stream `X`, a number.
            scope: The place in the network.
            end: A `RowMap` as `Traced`, applied to the branch before it is added; None for none.

        Returns:
            The sum, settled.
        """
        ...

    def put(self, new: "State", scope: Scope) -> "State":
        """The new stream for the active tokens, and this one for the others.

        Args:
            new: The new stream.
            scope: The place in the network, with the active tokens.

        Returns:
            The combined stream, settled.
        """
        ...

    def carried(self, scope: Scope) -> "State":
        """The stream in the one form (type and shapes) that a loop can carry from one repetition to the next.

        Args:
            scope: The place in the network.

        Returns:
            The stream, settled.
        """
        ...


@runtime_checkable
class Rule(Protocol):
    """A node in one reading."""

    @property
    def traced(self) -> Any:
        """The same rule as a pytree whose numbers are leaves, to pass into a compiled program."""
        ...

    def apply(self, stream: Any, scope: Scope) -> Any:
        """Apply the node.

        Args:
            stream: The stream before the node, a `State`.
            scope: The place of the node in the network.

        Returns:
            The stream after the node.
        """
        ...


def in_turn(
    parts: tuple[Rule, ...], stream: Any, scope: Scope, *, settle_last: bool, marks: tuple[bool, ...] | None = None
) -> Any:
    """Apply the parts of a node, one after the other.

    Args:
        parts: A rule for each part.
        stream: The stream before them.
        scope: The scope of the node.
        settle_last: Whether to settle the result. Otherwise it is left as a fresh matrix if the last part ends in one.
        marks: For parts at the top of a network, whether the end of each is a boundary of a trajectory.

    Returns:
        The stream after the parts.
    """
    for i, part in enumerate(parts):
        own = scope.part(i, at_top=scope.at_top and marks is not None)
        new = part.apply(stream, own)
        last = i == len(parts) - 1
        # Inactive tokens are put back after every part, since the next part may read them. The last part may leave a
        # fresh matrix unsettled: a residual sum or a read-out needs its covariance only. A sum masks inactive tokens.
        if scope.frame.active is not None and (settle_last or not last):
            new = stream.put(new, own)
        elif settle_last and last:
            new = new.settle(own)
        if marks is not None and marks[i] and scope.recorder is not None:
            new = scope.recorder.mark_end(new, own)
        stream = new
    return stream


def fused(parts: tuple[Rule, ...], stream: Any, scope: Scope) -> Any:
    """Apply the parts of a node as one compiled program; the last part may leave a fresh matrix unsettled.

    One program serves every place in the network, because the key of the place is an argument and paths within it are
    relative.
    """
    key, recorder = scope.named("branch"), scope.recorder
    if scope.weights is not None or scope.is_traced or not isinstance(stream, Tokens):
        # Weights are recorded on the host; a traced caller and the dense reading are compiled as a whole anyway.
        return in_turn(parts, stream, replace(scope, key=key(), path="", in_branch=True), settle_last=False)
    observed = frozenset() if recorder is None else recorder.observed
    programs = tuple(part.traced for part in parts)
    tokens = Tokens(stream.root, stream.width, centred=stream.centred)
    after, seen = _fused(programs, tokens, key, scope.network_key, scope.frame, observed)
    if recorder is not None:
        for own in seen:
            recorder.see(own, scope.frame.active)
    return after


@functools.partial(jax.jit, static_argnums=(4, 5))
def _fused(
    parts: tuple[Rule, ...],
    tokens: "Tokens",
    key: NamedKey,
    network_key: PRNGKeyArray,
    frame: Frame,
    observed: frozenset[str],
) -> "tuple[Stream, list[dict[str, Array]]]":
    recorder = Recorder(observed=observed)
    scope = Scope(key(), network_key, frame, recorder=recorder, at_top=False, in_branch=True)
    after = in_turn(parts, tokens, scope, settle_last=False)
    return after, [seen for _, seen, _ in recorder.seen]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Tokens:
    """Tokens known through a factor of their Gram matrix, `K = root root^T`, and through `K` where it was computed.

    The columns of the root are the axes of an orthonormal frame. Where the coordinate mean `m = X 1 / n` is tracked,
    the first axis is the all-ones vector: the first column is `m`, and the others are a root of `K - m m^T`. Otherwise
    the root is lower triangular.

    Attributes:
        root: The tokens `X / sqrt(n)` in the frame, `(tokens, axes, *draws)`.
        width: The width, traced, `inf` at infinite width.
        known_gram: `K`, if it was computed.
        centred: Whether the mean is tracked and known to be zero.

    Example:
        >>> import jax.numpy as jnp
        >>> from limitlaw.networks.state import Tokens
        >>> tokens = Tokens(jnp.array([[2.0, 0.0], [1.0, 1.0]]), jnp.float32(64))
        >>> tokens.gram.tolist()
        [[4.0, 2.0], [2.0, 2.0]]
    """

    root: Float[Array, "s r *draws"]
    width: Float[Array, ""]
    known_gram: Float[Array, "s s *draws"] | None = None
    centred: bool = field(default=False, metadata={"static": True})

    @property
    def factor(self) -> Float[Array, "s r *draws"]:
        """A factor of the Gram matrix, without a column that is known to be zero."""
        return self.root[:, 1:] if self.centred else self.root

    @property
    def gram(self) -> Float[Array, "s s *draws"]:
        """`K = X X^T / n`."""
        return gram_of(self.factor) if self.known_gram is None else self.known_gram

    @property
    def covariance(self) -> Float[Array, "s s *draws"]:
        """The covariance of a fresh read-out `X w`, `w ~ N(0, I/n)`, which is `K`."""
        return self.gram

    def settle(self, scope: Scope, keep_gram: bool = False) -> "Tokens":
        """The tokens themselves, since their Gram matrix is known."""
        del scope, keep_gram
        return self

    def carried(self, scope: Scope) -> "Tokens":
        """The tokens by their root only, with an axis of draws."""
        return Tokens(jnp.broadcast_to(self.root, (*self.root.shape[:2], scope.frame.draws)), self.width)

    def reordered(self, order: tuple[int, ...]) -> "Tokens":
        """The same tokens in another order (where no mean is tracked)."""
        if order == tuple(range(len(order))):
            return self
        index = np.array(order)
        gram = self.gram[index][:, index]
        return Tokens(psd_root(gram), self.width, gram)

    def add(self, branch: "Stream", skip: Any, scope: Scope, end: Any = None) -> "Tokens":
        """The sum `skip X + Y`, or `skip X + end(Y)`, for the active tokens; the others stay as they are."""
        covariance = branch.covariance
        tokens = Tokens(self.root, self.width)  # without the Gram matrix, so one program serves all streams
        return _sum(tokens, covariance, as_scalar(skip), end, scope.named("sum"), scope.frame)

    def put(self, new: "Stream", scope: Scope) -> "Tokens":
        """The new stream, settled, for the active tokens, and this one for the others."""
        if isinstance(new, Tokens):  # a sum or a row map, which has kept the inactive tokens itself
            return new
        return Tokens(self.root, self.width).add(new, 0.0, scope)


class _Unsettled(abc.ABC):
    """A stream that is known by its covariance; its Gram matrix is drawn when it is settled."""

    def settle(self, scope: Scope, keep_gram: bool = False) -> Tokens:
        """Tokens with a Wishart Gram matrix of this covariance, which at infinite width is the covariance itself."""
        return _settled(self, scope.frame, keep_gram)

    def carried(self, scope: Scope) -> Tokens:
        """The settled tokens by their root only, with an axis of draws."""
        return self.settle(scope).carried(scope)

    @abc.abstractmethod
    def tokens(self, frame: Frame) -> Tokens:
        """The tokens at this width, within a compiled program."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Fresh(_Unsettled):
    """A stream that a fresh Gaussian matrix writes: coordinates i.i.d. `N(0, covariance)` across the width.

    It carries the key of the random numbers that settle it, so they do not depend on which node settles it.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from limitlaw.networks.state import Fresh
        >>> Fresh(jnp.ones((1, 1, 1)), jnp.float32(8), jax.random.key(0)).covariance.shape
        (1, 1, 1)
    """

    covariance: Float[Array, "s s *draws"]
    width: Float[Array, ""]
    key: PRNGKeyArray

    def tokens(self, frame: Frame) -> Tokens:
        return Tokens(multiply(psd_root(self.covariance), _wishart_root(self.key, self.width, frame)), self.width)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Isotropic(_Unsettled):
    """A stream with the covariance `length^2 I`, whose root needs no factorisation."""

    length: Float[Array, "*draws"]
    width: Float[Array, ""]
    key: PRNGKeyArray
    size: int = field(metadata={"static": True})

    @property
    def covariance(self) -> Float[Array, "s s *draws"]:
        return jnp.eye(self.size)[..., None] * self.length**2

    def tokens(self, frame: Frame) -> Tokens:
        return Tokens(self.length * _wishart_root(self.key, self.width, frame), self.width)


Stream = Tokens | Fresh | Isotropic


def as_scalar(value: Any) -> Any:
    """A number as a float32 array, so one compiled program serves all values."""
    return value if isinstance(value, jax.Array) else jax.device_put(np.float32(value))


@functools.partial(jax.jit, static_argnums=(1, 2))
def _settled(stream: _Unsettled, frame: Frame, keep_gram: bool) -> Tokens:
    """The settled tokens, with their Gram matrix only if it is needed: without it, one program serves all streams."""
    tokens = stream.tokens(frame)
    return Tokens(tokens.root, tokens.width, tokens.gram) if keep_gram else tokens


@functools.partial(jax.jit, static_argnums=1)
def _whole_gram(tokens: Tokens, draws: int) -> tuple[Float[Array, "draws s s"], Bool[Array, ""]]:
    gram = tokens.gram
    return jnp.moveaxis(jnp.broadcast_to(gram, (*gram.shape[:2], draws)), -1, 0), is_sound(tokens)


def within_range(tokens: Tokens) -> Tokens:
    """The tokens, with NaN in the draws in which a variance has left the range that single precision carries safely.

    Every step starts with this, so that a later one cannot underflow to exact zeros, or overflow, unnoticed.
    """
    variance = jnp.sum(tokens.root**2, axis=1)
    lost = jnp.any((variance != 0) & ~((variance > SMALLEST_VARIANCE) & (variance < LARGEST_VARIANCE)), axis=0)
    return replace(tokens, root=jnp.where(lost, jnp.nan, tokens.root))


@jax.jit
def is_sound(stream: Tokens | Fresh | Isotropic) -> Bool[Array, ""]:
    """Whether every variance of a batch is exactly zero or within the accepted range (NaN is not)."""
    if isinstance(stream, Tokens):
        variance = jnp.sum(stream.root**2, axis=1)
    elif isinstance(stream, Isotropic):
        variance = stream.length**2
    else:
        variance = jnp.einsum("ii...->i...", stream.covariance)
    return jnp.all((variance == 0) | ((variance > SMALLEST_VARIANCE) & (variance < LARGEST_VARIANCE)))


def _wishart_root(key: PRNGKeyArray, width: Float[Array, ""], frame: Frame) -> Float[Array, "s r draws"]:
    """A root of a Wishart matrix `W(n, I) / n`, as the rows of a normal matrix in an orthonormal frame.

    Where the mean is tracked, the frame starts with the all-ones vector. The part of a normal vector along a fixed axis
    is an independent normal, so the rest is a Wishart matrix with one degree of freedom less.
    """
    s = frame.layout.size
    if not frame.tracks_mean:
        normals = random.normal(key, (bartlett_normals(s, s), frame.draws))
        return bartlett(normals, s, s, width)
    normals = random.normal(key, (s + bartlett_normals(s, s), frame.draws))
    along = normals[:s, None] / jnp.sqrt(width)
    return jnp.concatenate([along, _wishart_share(normals[s:], s, width, 1)], axis=1)


def _wishart_share(normals: Float[Array, "m draws"], size: int, width: Float[Array, ""], used: int) -> Array:
    """A root of `W(n - used, I) / n`, the part of a Wishart matrix off `used` fixed axes; the identity for n = inf."""
    # All branches of a traced width are computed, so each must stay finite: no degrees of freedom and inf / inf are
    # replaced by 1 before they are used.
    left = jnp.maximum(width - used, 0.0)
    root = bartlett(normals, size, size, jnp.maximum(left, 1.0))
    return root * jnp.sqrt(jnp.where(jnp.isinf(width), 1.0, left / jnp.where(jnp.isinf(width), 1.0, width)))


def reveal(
    tokens: Tokens, covariance: Float[Array, "s s *draws"], key: PRNGKeyArray, draws: int
) -> Float[Array, "s q draws"]:
    """Draw a branch `Y`, whose columns are i.i.d. `N(0, covariance)` given the tokens `X`, jointly with `X`.

    Let `X = root U^T sqrt(n)` with an orthonormal frame `U`, and `Y = R Z` with `R R^T = covariance` and `Z` standard
    normal. The part `Z_1` of `Z` along `U` is normal, and the Gram matrix of the rest is Wishart with a root `T`. So
    `[R Z_1 / sqrt(n), R T]` are the coordinates of `Y / sqrt(n)` along `U` and off it, exactly, at every width.

    Args:
        tokens: The tokens `X`.
        covariance: The covariance of a column of `Y` given `X`, `(tokens, tokens, *draws)`.
        key: The key of the random numbers.
        draws: The number of draws.

    Returns:
        `(tokens, axes + tokens, draws)`: first the coordinates along the axes of the frame of `X`, then those off it.
    """
    size, axes = tokens.root.shape[:2]
    normals = random.normal(key, (size * axes + bartlett_normals(size, size), draws))
    # A width below the number of axes has fewer axes than the frame. Normals along the others would add variance.
    along = normals[: size * axes].reshape(size, axes, draws) * _existing_axes(tokens.root, tokens.width)
    branch = psd_root(covariance)
    within = multiply(branch, along) / jnp.sqrt(tokens.width)
    beyond = multiply(branch, _wishart_share(normals[size * axes :], size, tokens.width, axes))
    return jnp.concatenate([within, beyond], axis=1)


def add_rows(tokens: Tokens, rows: Float[Array, "s q draws"], skip: Any, tracks_mean: bool) -> Tokens:
    """The sum `skip X + Y` for a branch `Y` from `reveal`.

    Args:
        tokens: The tokens `X`.
        rows: The coordinates of `Y`, first along the axes of the frame of `X`, then off it.
        skip: The factor of `X`, a number or one for each token.
        tracks_mean: Whether the first axis is the all-ones vector, which must stay the first axis.

    Returns:
        The sum. It has a new frame of as many axes as before, since only inner products of the coordinates matter.
    """
    axes = tokens.root.shape[1]
    skip = jnp.asarray(skip, tokens.root.dtype).reshape(-1, 1, *[1] * (tokens.root.ndim - 2))
    # The cross terms of X and Y lie within the frame; off it there is Y alone. Taking a new root keeps the number of
    # axes fixed at any depth; appending the axes of every branch would not.
    within, beyond = skip * tokens.root + rows[:, :axes], gram_of(rows[:, axes:])
    if not tracks_mean:
        return Tokens(psd_root(gram_of(within) + beyond), tokens.width)
    centred = psd_root(gram_of(within[:, 1:]) + beyond)  # the first column is the mean
    return Tokens(jnp.concatenate([within[:, :1], centred], axis=1), tokens.width)


@functools.partial(jax.jit, static_argnums=5)
def _sum(tokens: Tokens, covariance: Array, skip: Array, end: Any, key: NamedKey, frame: Frame) -> Tokens:
    active = None if frame.active is None else np.array(frame.active)
    if active is not None:  # an inactive token gets a zero branch and skip 1, so it stays as it is
        covariance = jnp.where((active[:, None] & active)[..., None], covariance, 0.0)
        skip = jnp.where(active, skip, 1.0)
    rows = reveal(tokens, covariance, key(), frame.draws)
    if end is not None:
        norm: RowMap = end.value
        normed = norm.rows(rows)
        rows = normed if active is None else jnp.where(active[:, None, None], normed, rows)
    return add_rows(tokens, rows, skip, frame.tracks_mean)


def _existing_axes(root: Float[Array, "s r *draws"], width: Float[Array, ""]) -> Float[Array, "r *draws"]:
    """1 for the axes of the frame that exist at this width, 0 for the others.

    There are at most `width` orthonormal axes. Spurious axes contain only rounding error, so keep the `width` axes of
    largest norm. The all-ones axis is always kept.
    """
    axes, tracks_mean = root.shape[1], root.shape[1] > root.shape[0]

    def largest(root: Array) -> Array:
        length = jnp.sum(root**2, axis=0)
        if tracks_mean:
            length = jnp.concatenate([jnp.full_like(length[:1], jnp.inf), length[1:]])
        # An axis is kept if fewer than `width` axes are larger; of equal ones the earlier counts as larger.
        before = np.tri(axes, k=-1, dtype=bool).reshape(axes, axes, *[1] * (length.ndim - 1))
        larger = (length[None] > length[:, None]) | ((length[None] == length[:, None]) & before)
        return jnp.where(jnp.sum(larger.astype(width.dtype), axis=1) < width, 1.0, 0.0).astype(root.dtype)

    return jax.lax.cond(width >= axes, lambda root: jnp.ones_like(root[0]), largest, root)


def repeated(parts: tuple[Rule, ...], count: int, stream: Any, scope: Scope, blocks: int) -> Any:
    """`count` repetitions of parts, each settled.

    Where streams are recorded, or weights kept, repetitions run one by one on the host, in programs that all of them
    share. A batch of draws runs in a loop whose length is traced, so no depth is compiled anew. Within a function that
    JAX traces they are a scan, which has derivatives in reverse mode. The random numbers are the same.

    Args:
        parts: The parts of one repetition, in a reading.
        count: The number of repetitions.
        stream: The settled stream before them.
        scope: The scope of the node.
        blocks: The number of boundaries of a trajectory in one repetition.

    Returns:
        The stream after the last repetition.
    """
    recorder = scope.recorder
    if scope.weights is not None or (recorder is not None and recorder.wants_streams):
        for i in range(count):
            own = scope.repetition(i)
            stream = in_turn(parts, stream, own, settle_last=True)
            stream = stream if recorder is None else recorder.mark_end(stream, own)
        return stream
    if not count:
        return stream
    programs = tuple(part.traced for part in parts)
    traced = scope.is_traced or any(map(is_traced, jax.tree.leaves((programs, stream))))
    if not traced and isinstance(stream, Tokens):
        key = scope.named("repetition")
        stream, passed = _looped(programs, stream.carried(scope), key, scope.network_key, np.int32(count), scope.frame)
        if recorder is not None:
            recorder.sound.append((blocks, count, passed))
        return stream

    def step(carry: Any, index: Array) -> tuple[Any, list[dict[str, Array]]]:
        # Observed arrays must leave the scan as outputs: tracers that a recorder outside kept would be invalid.
        inner = None if recorder is None else Recorder(observed=recorder.observed)
        own = replace(scope.repetition(index), recorder=inner, at_top=False)
        after = in_turn(parts, carry, own, settle_last=True).carried(own)
        return after, [] if inner is None else [seen for _, seen, _ in inner.seen]

    stream, seen = jax.lax.scan(step, stream.carried(scope), jnp.arange(count))
    for i in range(count):
        for own in seen:
            assert recorder is not None
            recorder.see({name: value[i] for name, value in own.items()}, scope.frame.active)
    return stream


@functools.partial(jax.jit, static_argnums=5)
def _looped(
    parts: tuple[Rule, ...],
    tokens: Tokens,
    key: NamedKey,
    network_key: PRNGKeyArray,
    count: Array,
    frame: Frame,
) -> tuple[Tokens, Array]:
    """The tokens after `count` repetitions, and the number of leading repetitions after which they are sound."""

    def body(index: Array, carry: tuple[Tokens, Array]) -> tuple[Tokens, Array]:
        tokens, passed = carry
        own = Scope(random.fold_in(key(), index), network_key, frame, at_top=False)
        after = in_turn(parts, tokens, own, settle_last=True).carried(own)
        return after, passed + (is_sound(after) & (passed == index)).astype(jnp.int32)

    return jax.lax.fori_loop(0, count, body, (tokens, jnp.int32(0)))

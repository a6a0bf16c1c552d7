"""Sequences of layers, applied once as a block or repeated."""

import numpy as np

from ... import _checks
from ..._checks import ArgumentError
from .._layer import Combinator, Layout, Node, call_repr, checked_layers, unrolled, zero_after
from ..state import Rule, Scope, State, in_turn, repeated

_MOST_REPETITIONS = 1_000_000  # more would take hours, and is likely a mistake
_MOST_UNROLLED = 1_000  # repetitions that are unrolled for an exact limit, which takes a fraction of a second
_PASSES = 3  # passes over the layers of a repetition after which the set of zero tokens no longer changes


class Block(Combinator):
    """Layers that form one block of a trajectory. Its end is a boundary, and the ends of other layers are not.

    Args:
        *layers: The layers, in order.

    Example:
        >>> import numpy as np, limitlaw as ll
        >>> block = ll.Block(ll.Residual(ll.RMSNorm(), ll.Attention()), ll.Residual(ll.RMSNorm(), ll.MLP()))
        >>> net = ll.Network(ll.GramInputs(np.eye(2)), ll.Repeat(3, block))
        >>> net.trajectory(10, width=16).blocks
        3
    """

    layers: tuple[Node, ...]

    def __init__(self, *layers: Node):
        self.layers = checked_layers("Block", layers)
        if any(part.is_block for layer in self.layers for part, _ in layer.walk()):
            raise ArgumentError("layers", "Block(...) contains a Block. Put one after the other.")

    def __repr__(self) -> str:
        return call_repr("Block", *self.layers)

    @property
    def is_block(self) -> bool:
        return True

    @property
    def unrolled(self) -> tuple[Node, ...]:
        return unrolled(self.layers)

    @property
    def ends_fresh(self) -> bool:
        return self.layers[-1].ends_fresh

    def cut(self, index: int, inner: tuple[Node, ...]) -> tuple[Node, ...]:
        return (*self.layers[:index], *inner)

    def apply(self, parts: tuple[Rule, ...], stream: State, scope: Scope) -> State:
        after = in_turn(parts, stream, scope, settle_last=scope.frame.active is not None)
        return after if scope.recorder is None else scope.recorder.mark_block(after, scope)


class Repeat(Combinator):
    """The same layers `count` times, with fresh weights in each repetition.

    They are compiled once, whatever the number of repetitions.

    Args:
        count: The number of repetitions.
        *layers: The layers of one repetition, in order.

    Raises:
        ArgumentError: If the count is not a positive integer, or exceeds 1,000,000.

    Example:
        >>> import limitlaw as ll
        >>> ll.Repeat(12, ll.Residual(ll.LayerNorm(), ll.MLP("gelu")))
        Repeat(12, Residual(LayerNorm(), MLP(activation=gelu)))
    """

    count: int
    layers: tuple[Node, ...]

    def __init__(self, count: int, *layers: Node):
        self.count = int(_checks.positive_integer("count", count))
        if self.count > _MOST_REPETITIONS:
            raise ArgumentError("count", f"count={count} exceeds the limit of {_MOST_REPETITIONS:,} repetitions.")
        self.layers = checked_layers("Repeat", layers)

    def __repr__(self) -> str:
        return call_repr("Repeat", self.count, *self.layers)

    @property
    def times(self) -> int:
        return self.count

    @property
    def unrolled(self) -> tuple[Node, ...]:
        return unrolled(self.layers) * self.count if self.count <= _MOST_UNROLLED else (self,)

    @property
    def ends_fresh(self) -> bool:
        return self.layers[-1].ends_fresh

    @property
    def boundaries(self) -> int | None:
        return self.count

    def zero_tokens(self, zero: np.ndarray, active: np.ndarray, layout: Layout) -> np.ndarray:
        for _ in range(min(self.count, _PASSES)):
            zero = zero_after(self.layers, zero, active, layout)
        return zero

    def cut(self, index: int, inner: tuple[Node, ...]) -> tuple[Node, ...]:
        earlier = (Repeat(self.count - 1, *self.layers),) if self.count > 1 else ()
        return (*earlier, *self.layers[:index], *inner)

    def apply(self, parts: tuple[Rule, ...], stream: State, scope: Scope) -> State:
        # The last repetition may leave a fresh matrix unsettled, so its covariance can be used without a draw.
        whole = scope.frame.active is None or scope.in_branch  # no inactive tokens are put back into the stream
        last_apart = self.ends_fresh and whole and not scope.marks_repetitions
        within = sum(count for layer in self.layers for node, count in layer.walk() if node.is_block)
        stream = repeated(parts, self.count - last_apart, stream.settle(scope), scope, max(within, 1))
        if not last_apart:
            return stream
        return in_turn(parts, stream, scope.repetition(self.count - 1), settle_last=False)

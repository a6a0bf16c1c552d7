"""Layers that act on one of several sequences."""

import numpy as np

from ... import _checks
from ..._checks import ArgumentError
from .._layer import Combinator, Layout, Node, call_repr, checked_layers, zero_after
from ..state import Rule, Scope, State, in_turn


class OnSequence(Combinator):
    """Layers that act on the tokens of one sequence and leave those of other sequences as they are.

    With two sequences, source and target, it builds encoders and decoders. The layers can attend to tokens of another
    sequence through `Attention(context=...)`.

    Args:
        sequence: The index of the sequence, from 0.
        *layers: The layers, in order.

    Raises:
        ArgumentError: If the layers cannot act on some of the tokens only.

    Example:
        >>> import limitlaw as ll
        >>> ll.OnSequence(1, ll.Residual(ll.Attention(heads=2, context=0)))
        OnSequence(1, Residual(Attention(heads=2, context=0)))
    """

    sequence: int
    layers: tuple[Node, ...]

    def __init__(self, sequence: int, *layers: Node):
        self.sequence = _checks.natural("sequence", sequence)
        self.layers = checked_layers("OnSequence", layers)
        parts = [part for layer in self.layers for part, _ in layer.walk()]
        if any(part.acts_on_sequence for part in parts):
            raise ArgumentError("layers", f"{self!r} contains an OnSequence. Put one OnSequence after the other.")
        for part in parts:
            if part.replaces_stream:
                raise ArgumentError(
                    "layers",
                    f"{self!r} contains {part!r}, which returns the new stream itself. Its inner products with the "
                    f"other tokens are unknown. Use a layer with a matrix 'out', such as MLP or Linear.",
                )

    def __repr__(self) -> str:
        return call_repr("OnSequence", self.sequence, *self.layers)

    @property
    def acts_on_sequence(self) -> bool:
        return True

    @property
    def boundaries(self) -> int | None:
        return sum(1 if layer.boundaries is None else layer.boundaries for layer in self.layers)

    def check_layout(self, layout: Layout) -> None:
        if self.sequence >= len(layout.lengths):
            raise ArgumentError(
                "sequence",
                f"OnSequence({self.sequence}, ...), but the inputs have {len(layout.lengths)} sequences. "
                f"Give them more with sequences=..., or use a smaller number.",
            )
        super().check_layout(layout)

    def zero_tokens(self, zero: np.ndarray, active: np.ndarray, layout: Layout) -> np.ndarray:
        return zero_after(self.layers, zero, layout.sequence == self.sequence, layout)

    def cut(self, index: int, inner: tuple[Node, ...]) -> tuple[Node, ...]:
        *before, last = (*self.layers[:index], *inner)
        return (*([OnSequence(self.sequence, *before)] if before else []), last)

    def apply(self, parts: tuple[Rule, ...], stream: State, scope: Scope) -> State:
        active = tuple(bool(x) for x in scope.frame.layout.sequence == self.sequence)
        marks = tuple(layer.boundaries is None for layer in self.layers)
        return in_turn(parts, stream.settle(scope), scope.on(active), settle_last=True, marks=marks)

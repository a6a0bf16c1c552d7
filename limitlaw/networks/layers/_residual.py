"""A skip connection."""

import numpy as np

from ... import _checks
from ..._checks import ArgumentError, ArgumentTypeError
from .._layer import Combinator, Layout, Node, RowMap, call_repr, checked_layers, zero_after
from ..described import Traced
from ..state import Rule, Scope, State, fused


class Residual(Combinator):
    """A skip connection around layers, `skip x + f(x)`, or `skip x + end(f(x))` with a norm at the end of the branch.

    Args:
        *layers: The layers of the branch, in order. The last must end in a fresh matrix.
        skip: The factor of the stream.
        end: A norm that is applied to the branch before it is added, as in Gemma 2 and OLMo 2; None for none.

    Raises:
        ArgumentError: If the branch does not end in a fresh matrix.

    Example:
        >>> import limitlaw as ll
        >>> ll.Residual(ll.LayerNorm(), ll.Attention(heads=2), skip=0.5)
        Residual(LayerNorm(), Attention(heads=2), skip=0.5)
    """

    layers: tuple[Node, ...]
    skip: float = 1.0
    end: RowMap | None = None

    def __init__(self, *layers: Node, skip: float = 1.0, end: RowMap | None = None):
        self.layers = checked_layers("Residual", layers)
        if not self.layers[-1].ends_fresh:
            raise ArgumentError(
                "layers",
                f"Residual(..., {layers[-1]!r}) does not end in a fresh matrix, which makes a branch Gaussian given "
                f"its input. Attention, MLP and Linear end in one. Move the last layer out of the branch, or give a "
                "norm as end=.",
            )
        if any(part.is_block for layer in self.layers for part, _ in layer.walk()):
            raise ArgumentError("layers", "Residual(...) contains a Block. A Block acts on the stream; put it outside.")
        self.skip = _checks.finite_number("skip", skip)
        if end is not None and not isinstance(end, RowMap):
            raise ArgumentTypeError("end", f"end={end!r} must be a norm, such as RMSNorm(), or None.")
        self.end = end

    def __repr__(self) -> str:
        options = {"skip": self.skip} if _checks.is_traced(self.skip) or self.skip != 1.0 else {}
        return call_repr("Residual", *self.layers, **options, **({} if self.end is None else {"end": self.end}))

    @property
    def keeps_stream(self) -> bool:
        return not _checks.is_traced(self.skip) and self.skip == 1

    @property
    def needs_mean(self) -> bool:
        return any(part.needs_mean for part in self.parts) or (self.end is not None and self.end.needs_mean)

    def check_width(self, width: int | float) -> None:
        for part in self.parts:
            part.check_width(width)
        if self.end is not None:
            self.end.check_width(width)

    def zero_tokens(self, zero: np.ndarray, active: np.ndarray, layout: Layout) -> np.ndarray:
        branch = zero_after(self.layers, zero, active, layout)
        if self.end is not None:
            branch = self.end.zero_tokens(branch, active, layout)
        return branch & (zero | _checks.is_zero(self.skip))

    def apply(self, parts: tuple[Rule, ...], stream: State, scope: Scope) -> State:
        tokens = stream.settle(scope)
        branch = fused(parts, tokens, scope)
        return tokens.add(branch, self.skip, scope, None if self.end is None else Traced.of(self.end))

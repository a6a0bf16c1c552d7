"""The read-out at the end of a network."""

from ... import _checks
from .._layer import Combinator, Node, call_repr, checked_layers, unrolled
from ..state import Rule, Scope, State, in_turn
from ._linear import Linear


class Readout(Combinator):
    """The end of a network, `f(X) W + b`: optional layers `f`, such as a final norm, and then a fresh matrix.

    The entries of the matrix are `N(0, std^2 / n)` and those of the bias `N(0, bias_std^2)`. A read-out is not a block
    of a trajectory, and `observe="gram"` returns the Gram matrix before the fresh matrix.

    Args:
        *layers: Layers before the matrix; there may be none.
        std: The standard deviation of an entry of the matrix times `sqrt(n)`.
        bias_std: The standard deviation of an entry of the bias.

    Example:
        >>> import limitlaw as ll
        >>> ll.Readout(ll.LayerNorm(), std=0.5)
        Readout(LayerNorm(), std=0.5)
    """

    layers: tuple[Node, ...]
    std: float = 1.0
    bias_std: float = 0.0

    def __init__(self, *layers: Node, std: float = 1.0, bias_std: float = 0.0):
        self.layers = checked_layers("Readout", layers, least=0)
        self.std = _checks.standard_deviation("std", std)
        self.bias_std = _checks.standard_deviation("bias_std", bias_std)

    def __repr__(self) -> str:
        given = {"std": self.std, "bias_std": self.bias_std}
        usual = {"std": 1.0, "bias_std": 0.0}
        return call_repr(
            "Readout",
            *self.layers,
            **{name: value for name, value in given.items() if _checks.is_traced(value) or value != usual[name]},
        )

    @property
    def parts(self) -> tuple[Node, ...]:
        return (*self.layers, Linear(self.std, self.bias_std))

    @property
    def unrolled(self) -> tuple[Node, ...]:
        return unrolled(self.parts)

    @property
    def ends_network(self) -> bool:
        return True

    @property
    def ends_fresh(self) -> bool:
        return True

    @property
    def boundaries(self) -> int | None:
        return 0

    def apply(self, parts: tuple[Rule, ...], stream: State, scope: Scope) -> State:
        return in_turn(parts, stream, scope, settle_last=False)

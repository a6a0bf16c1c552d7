"""The Gram reading with derived rules only, against which contracted rules are tested."""

from dataclasses import replace

import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ..numerics.batches import Batch, draw_batches, largest_power_of_two
from ._gram import BoundNetwork, draw_batch, needed_layers
from ._layer import Layer, NetworkParts, Purpose
from ._rules import derived_rule

_NUMBERS = 2**24  # coordinates that one batch holds: 64 MiB


def draw_derived(
    net: NetworkParts, samples: int, *, width: int | float, observe: str = "gram", seed: int = 0
) -> np.ndarray:
    """Draws of a network whose layers use derived rules, which follow from their matrices and inner maps.

    Layers within combinators keep their usual rules.

    Args:
        net: The network.
        samples: The number of draws.
        width: The width.
        observe: As for `Network.sample`.
        seed: An integer.

    Returns:
        The draws, an array whose first axis is that of draws.

    Raises:
        ArgumentError: If a layer has no derived rule at this width because a matrix has infinitely many columns.

    Example:
        >>> import numpy as np, limitlaw as ll
        >>> from limitlaw.networks.derived import draw_derived
        >>> net = ll.Network(ll.GramInputs(np.eye(2)), ll.MLP(ratio=2))
        >>> draw_derived(net, 5, width=8).shape
        (5, 2, 2)
    """
    purpose = Purpose(frozenset({observe}))
    layers = needed_layers(net.layers, observe)
    bound = BoundNetwork.of(net, layers, width, purpose)
    rules = tuple(
        derived_rule(layer, width, net.layout, purpose) if isinstance(layer, Layer) else rule
        for layer, rule in zip(layers, bound.rules, strict=True)
    )
    bound = replace(bound, rules=rules)
    columns = [
        sum(matrix.columns for name, matrix in layer.matrices(width, net.layout).items() if name != "out")
        for layer in layers
        if isinstance(layer, Layer)
    ]
    size = largest_power_of_two(_NUMBERS / (net.tokens * max([1.0, *columns])))

    def draw(key: PRNGKeyArray) -> Array:
        return draw_batch(bound, size, key, observe=observe, rows=None, recorder=None)

    return draw_batches(Batch(draw, size, 4 * _NUMBERS), samples=samples, seed=seed, progress=False)

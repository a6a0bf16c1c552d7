"""The cost of drawing a network: work, seconds, memory, and the number of draws in a batch."""

from math import inf

import jax
import jax.numpy as jnp

from ..numerics.batches import DEFAULT_MEMORY, largest_power_of_two
from ._layer import Cost, NetworkParts

_BATCHES_OF_A_CORE = 256  # CPU batches in one batch for an accelerator, to amortise its start
_MATRIX_NUMBERS_A_SECOND, _UNITS_A_SECOND = 8e7, 4e8  # on one core, measured by benchmarks/gram_against_dense.py
_WORKING_MATRICES = 64  # upper bound of the token matrices in memory at once while a batch is computed
_SHALLOW = 2  # number of layers above which batches are smaller, so that a first result comes soon
_DRAWS_OF_DEEP = 512  # largest batch above that depth: smaller ones are slower per draw


def cost_of(net: NetworkParts, width: int | float) -> Cost:
    """The cost of one draw of a network.

    Args:
        net: The network.
        width: The width.

    Returns:
        The cost of its inputs and layers together.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.networks.cost import cost_of
        >>> two, four = (ll.Network(ll.Inputs(tokens=4), ll.Attention(heads=h)) for h in (2, 4))
        >>> cost_of(four, 64).matrices - cost_of(two, 64).matrices
        2.0
    """
    total = net.inputs.cost(width)
    for layer in net.layers:
        total = total + layer.cost(width, net.layout)
    return total


def batch_size(net: NetworkParts, width: int | float, observed_heads: int = 0) -> int:
    """The number of draws in a batch.

    It keeps a few token matrices of the batch in the cache of a core, and its work below about a second. It depends on
    the width only for large widths, so that one compilation serves most.

    Args:
        net: The network.
        width: The width.
        observed_heads: The number of token matrices that each draw returns.

    Returns:
        The number, a power of two.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.networks.cost import batch_size
        >>> short, long = (ll.Network(ll.Inputs(tokens=s), ll.Attention(heads=2)) for s in (4, 64))
        >>> batch_size(short, 64) == batch_size(short, 1024) > batch_size(long, 64)
        True
    """
    s, cost, most = net.tokens, cost_of(net, width), inf
    if cost.copies > 1:
        return largest_power_of_two(min(16, 2**16 / s**2))
    if sum(count for layer in net.layers for node, count in layer.walk() if not node.parts) > _SHALLOW:
        most = _DRAWS_OF_DEEP
    # In this order: elements per core for vectors, cache for matrices, and the work of matrices, observables and units.
    limits = [most, 2**16 / max(s, 8), 2**18 / s**2, 2**26 / (s * cost.matrices * max(s / 8, 1))]
    if observed_heads:
        limits.append(2**22 / (s**2 * observed_heads))
    if cost.usual_units:
        limits.append(2**28 / (s * cost.usual_units))
    if cost.held:
        limits.append(2**24 / cost.held)
    size = largest_power_of_two(min(limits))
    return size if jax.default_backend() == "cpu" else _filling_an_accelerator(net, width, size, observed_heads)


def _filling_an_accelerator(net: NetworkParts, width: int | float, size: int, observed_heads: int) -> int:
    """The number of draws in a batch for an accelerator: the work of a few hundred batches for a core.

    Memory limits it to a quarter of what draws may take by default, and to an eighth of what the device has.
    """
    device = (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit", jnp.inf)
    fits = min(DEFAULT_MEMORY / 4, device / 8) / memory(net, width, 1, observed_heads)
    return max(size, largest_power_of_two(min(_BATCHES_OF_A_CORE * size, fits)))


def seconds_of_a_draw(net: NetworkParts, width: int | float) -> float:
    """A rough estimate of the seconds that one core needs for one draw of a network.

    Args:
        net: The network.
        width: The width.

    Returns:
        The number of seconds.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.networks.cost import seconds_of_a_draw
        >>> net = ll.Network(ll.Inputs(tokens=4, activation="relu"), ll.Attention(heads=2))
        >>> seconds_of_a_draw(net, 64) < seconds_of_a_draw(net, 1024) < 1e-4
        True
    """
    s, cost = net.tokens, cost_of(net, width)
    return (
        s * cost.matrices * max(s / 8, 1) / _MATRIX_NUMBERS_A_SECOND + s * cost.units * max(s / 4, 1) / _UNITS_A_SECOND
    )


def memory(net: NetworkParts, width: int | float, draws: int, observed_heads: int = 0) -> int:
    """An upper bound of the bytes that a batch of draws takes while it is computed."""
    cost = cost_of(net, width)
    return int(4 * draws * (net.tokens**2 * (_WORKING_MATRICES * cost.copies + observed_heads) + cost.held))


def working_memory(net: NetworkParts, width: int | float) -> int:
    """The bytes that the computation of draws takes, apart from the draws themselves.

    Args:
        net: The network.
        width: The width.

    Returns:
        The number of bytes.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.networks.cost import working_memory
        >>> working_memory(ll.Network(ll.Inputs(tokens=4), ll.Attention(heads=2)), 64) < 2**30
        True
    """
    return memory(net, width, batch_size(net, width))

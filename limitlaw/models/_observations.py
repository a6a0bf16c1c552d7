"""What stands out along the depth of a network, in sentences."""

from math import isinf

import numpy as np

from ..networks import Layer, Network, Node, RowMap, Trajectory
from ._numbers import multiple, percent, three_digits, with_error

# Thresholds of what is worth a sentence. They are conventions: nothing but the choice of words depends on them.
_COLLAPSED = 0.99  # mean cosine above which the tokens count as one
_MOVED = 0.1  # least change of the mean cosine
_UNIFORM = 0.97  # share of the maximal entropy above which attention averages
_SELECTIVE = 0.8  # share below which it prefers some keys
_ONE_HOT = 0.3  # share below which it picks one
_GROWN = 1.5  # least factor of the variance
_FIRST_BLOCK = 4.0  # factor of the variance in block 1 from which on the input is a small part of the stream
_UNEQUAL = 10.0  # least ratio of the variances of two tokens at the input
_FITS = 0.99  # least coefficient of determination of a law of growth
_FEWEST_BLOCKS = 4  # for a law of growth: a line through fewer points fits anything
_TAILS = 2.0  # multiple of 6/n, the excess kurtosis of the squared length of n Gaussian coordinates
_ENOUGH_DRAWS = 50  # draws that should decide an average
_ROUNDING = 1e-3  # relative spread of variances that a norm makes equal, up to its eps
_NOT_GAUSSIAN = 0.01  # least excess kurtosis at infinite width


def observations(trajectory: Trajectory, net: Network) -> list[str]:
    """What stands out along the depth of a network: collapse, attention, growth of the variance, tails.

    Args:
        trajectory: Draws of the network.
        net: The network.

    Returns:
        A sentence or two for each finding; an empty list if nothing stands out.

    Example:
        >>> import numpy as np, limitlaw as ll
        >>> from limitlaw.models import observations
        >>> net = ll.Network(ll.GramInputs(np.eye(3)), ll.Repeat(6, ll.Attention()))
        >>> print(observations(net.trajectory(500, width=64), net)[0])
        Rank collapse: the mean cosine between tokens exceeds 0.99 from block 2 on (effective rank 1.00 of 3 at the end).
    """
    lost = ~np.isfinite(trajectory.gram).all(axis=(0, 2, 3))
    if lost.any():
        block = int(np.argmax(lost))
        return [
            f"The variance exceeds the range of single precision in block {block}, so later blocks are unknown. Add a "
            f"norm, or make the skip or the gains smaller."
        ]
    dominated = _few_networks(trajectory)
    found = [
        _collapse(trajectory),
        _attention(trajectory),
        dominated or _variance(trajectory, net),
        _unequal_tokens(trajectory),
        None if dominated else _tails(trajectory, net),
        None if dominated else _self_attention(trajectory, net),
    ]
    return [sentence for sentence in found if sentence]


def _collapse(t: Trajectory) -> str | None:
    """Whether the tokens become alike."""
    if t.tokens == 1:
        return None
    cosine, rank = t.summary()["cosine"][0], t.effective_rank
    if cosine[-1] > _COLLAPSED:
        start = _last_run(cosine > _COLLAPSED)
        text = f"the mean cosine between tokens exceeds {_COLLAPSED}"
        where = f"T{text[1:]} from the input on" if start == 0 else f"Rank collapse: {text} from block {start} on"
        return f"{where} (effective rank {rank[-1]:.2f} of {t.tokens} at the end)."
    if abs(cosine[-1] - cosine[0]) < _MOVED:
        return None
    half = int(np.argmax(np.abs(cosine - cosine[0]) >= abs(cosine[-1] - cosine[0]) / 2))
    more, rises = ("more", "rises") if cosine[-1] > cosine[0] else ("less", "falls")
    return (
        f"Tokens become {more} similar: the mean cosine {rises} from {cosine[0]:z.2f} at the input to {cosine[-1]:z.2f} "
        f"at the end, half of it by block {half}. The effective rank goes from {rank[0]:.1f} to {rank[-1]:.1f} (of "
        f"{t.tokens})."
    )


def _attention(t: Trajectory) -> str | None:
    """Whether heads average over keys, or attend to a few."""
    if not any((keys > 1).any() for keys in t.visible_keys):
        return None
    share = t.summary()["uniformity"][0]
    blocks = np.flatnonzero(~np.isnan(share))
    share = share[blocks]
    sharp = blocks[share < _ONE_HOT]
    if share.min() > _UNIFORM:
        return (
            f"Attention is uniform: its entropy is at least {np.floor(1000 * share.min()) / 10:.1f}% of the maximum in "
            f"every block, so heads average over all keys that they see."
        )
    if len(sharp):
        return (
            f"Attention is nearly one-hot in {_listed(sharp, t.blocks)}: its entropy falls to "
            f"{100 * share.min():.2g}% of the maximum, so a head passes on about one token."
        )
    if share[-1] > _UNIFORM:
        return (
            f"Attention becomes uniform: its entropy exceeds {100 * _UNIFORM:.0f}% of the maximum from block "
            f"{blocks[_last_run(share > _UNIFORM)]} on, so heads average over all keys that they see."
        )
    if share.min() < _SELECTIVE:
        # exp(entropy) is the number of keys among which a uniform head of this entropy would choose.
        attended, keys = np.exp(t.entropies[-1][:, :, -1].mean(dtype=np.float64)), t.visible_keys[-1][-1]
        return (
            f"Attention is selective: its entropy is {_range(100 * share, '.0f')}% of the maximum. In the last block the "
            f"last token attends to about {attended:.1f} of {keys} keys."
        )
    return None


def _few_networks(t: Trajectory) -> str | None:
    """Whether a few of the draws dominate the averages, which are then too uncertain to be described."""
    last = t.gram[:, -1, -1, -1].astype(np.float64)
    spread = np.log(last[last > 0]).std() if (last > 0).any() else 0.0
    # If log v is normal with variance s^2, the mean of v^2, which the kurtosis needs, comes from draws whose log v is
    # 2 s^2 above the mean: about one in exp(2 s^2).
    if np.expm1(2 * spread**2) < t.samples / _ENOUGH_DRAWS:
        return None
    return (
        f"A few networks dominate the averages: the variance of the last token varies between networks by factors of "
        f"about {three_digits(np.exp(spread))}, so {t.samples} draws tend to underestimate the variance, the kurtosis "
        f"and their errors. Use many more draws, or add a norm."
    )


def _variance(t: Trajectory, net: Network) -> str | None:
    """Whether the variance of the last token grows or falls, and by which law."""
    variance = t.variance[:, -1]
    if _is_fixed(t, net):
        return (
            f"Every block ends in a norm, which holds the variance of every token at {three_digits(variance[-1])}. A "
            f"read-out of one token is Gaussian at every depth; only the cosines change."
        )
    if variance[0] <= 0 or variance[-1] <= 0 or 1 / _GROWN < variance[-1] / variance[0] < _GROWN:
        return None
    law = _growth(variance[1:])
    if variance[-1] < variance[0]:
        return f"Variance falls to {percent(variance[-1] / variance[0])} of the input's{law}, so the signal fades."
    text = (
        f"Variance grows {multiple(variance[-1] / variance[0])}-fold, from {three_digits(variance[0])} to "
        f"{three_digits(variance[-1])}{law}."
    )
    if variance[1] / variance[0] < _FIRST_BLOCK or t.blocks == 1:
        return text
    text += f" Block 1 alone multiplies it by {multiple(variance[1] / variance[0])}"
    if not _keeps_input(net):
        return f"{text}."
    return (
        f"{text}, so the input makes up {percent(variance[0] / variance[1])} of the stream after block 1, and "
        f"{percent(variance[0] / variance[-1])} at the end."
    )


def _growth(variance: np.ndarray) -> str:
    """The law of growth that the variance follows from block 1 on, after a comma; empty if no law fits."""
    if len(variance) < _FEWEST_BLOCKS or variance.min() <= 0 or 1 / _GROWN < variance[-1] / variance[0] < _GROWN:
        return ""
    block = np.arange(len(variance))
    slope, rate = np.polyfit(block, variance, 1)[0], np.polyfit(block, np.log(variance), 1)[0]
    linear, exponential = (float(np.corrcoef(block, y)[0, 1] ** 2) for y in (variance, np.log(variance)))
    if max(linear, exponential) <= _FITS:
        return ""
    if linear >= exponential:
        return f", linearly in depth ({three_digits(slope, '+.3g')} per block)"
    return f", exponentially in depth (a factor of {three_digits(np.exp(rate))} per block)"


def _unequal_tokens(t: Trajectory) -> str | None:
    """Whether tokens enter with very different variances."""
    first, last = t.variance[0], t.variance[-1]
    small, large = int(first.argmin()), int(first.argmax())
    if first[large] < _UNEQUAL * first[small] or t.blocks == 0:
        return None
    return (
        f"Tokens enter with unequal variances, from {three_digits(first[small])} (token {small}) to "
        f"{three_digits(first[large])} (token {large}). At the end these two have {three_digits(last[small])} and "
        f"{three_digits(last[large])}."
    )


def _tails(t: Trajectory, net: Network) -> str | None:
    """How far the last token is from Gaussian, and whether its width explains it."""
    if _is_fixed(t, net):
        return None
    kurtosis, error = t.kurtosis[-1, -1], t.error("kurtosis")[-1, -1]
    after = " The final norm removes it from a single token." if _ends_in_norm(net) else ""
    if isinf(t.width):
        if kurtosis < _NOT_GAUSSIAN:
            return None
        return (
            f"Tails: at infinite width the excess kurtosis of the last token is {three_digits(kurtosis)} at the "
            f"end.{after}"
        )
    gaussian, layers = 6 / t.width, _random_layers(net)
    # The excess kurtosis of a product of Gaussian matrices without skips and norms. A layer has two matrices.
    product = 3 * ((1 + 2 / t.width) ** (2 * layers) - 1)
    found = f"the excess kurtosis of the last token is {with_error(kurtosis, error)} at the end"
    if kurtosis < _TAILS * gaussian:
        return (
            f"Close to Gaussian: {found}, {'less than' if kurtosis < gaussian / _TAILS else 'about'} the 6/n = "
            f"{three_digits(gaussian)} of any {t.width} Gaussian coordinates."
        )
    explained = f"{three_digits(product)} that {layers} layers of this width explain without attention"
    if kurtosis - 3 * error < product:
        return (
            f"Tails from finite width: {found}, {multiple(kurtosis / gaussian)} times 6/n, but within the "
            f"{explained}.{after}"
        )
    return f"Tails: {found}, more than the {explained}, so it comes from the randomness of attention.{after}"


def _random_layers(net: Network) -> int:
    """The number of layers with weights, without those of a read-out."""
    return sum(count for top in _blocks(net) for node, count in top.walk() if isinstance(node, Layer))


def _self_attention(t: Trajectory, net: Network) -> str | None:
    """Whether a token attends only to itself, as the first one of a causal model does."""
    if not t.visible_keys:
        return None
    alone = np.all([keys == 1 for keys in t.visible_keys], axis=0)
    if not alone.any() or alone.all():
        return None
    token = int(alone.argmax())
    text = f"Token {token} attends only to itself, so its law does not depend on attention scores."
    if _is_fixed(t, net):
        return text
    if isinf(t.width):
        return f"{text} Its variance is deterministic, and it is Gaussian at every depth."
    own, last = (with_error(t.kurtosis[-1, i], t.error("kurtosis")[-1, i]) for i in (token, -1))
    return f"{text} Its excess kurtosis at the end, {own}, is due to finite width alone (last token: {last})."


def _is_fixed(t: Trajectory, net: Network) -> bool:
    """Whether norms at the ends of the blocks hold every token at one variance."""
    if t.blocks == 0 or not all(isinstance(_last_node(block), RowMap) for block in _blocks(net)):
        return False
    # A row map need not be a norm, so the draws decide.
    variances = t.gram.diagonal(axis1=2, axis2=3)[:, 1:]
    return bool(np.ptp(variances) < _ROUNDING * t.variance[-1].max())


def _keeps_input(net: Network) -> bool:
    """Whether the stream is the input plus what branches add to it."""
    return all(block.keeps_stream for block in _blocks(net))


def _blocks(net: Network) -> list[Node]:
    """The layers of the network before its read-out."""
    return [layer for layer in net.layers if not layer.ends_network]


def _last_node(node: Node) -> Node:
    """The innermost node that acts last.

    In a residual connection that is a layer with weights, since its branch never ends in a row map.
    """
    while node.parts:
        node = node.parts[-1]
    return node


def _ends_in_norm(net: Network) -> bool:
    """Whether the read-out starts with a norm."""
    last = net.layers[-1] if net.layers else None
    if last is None or not last.ends_network:
        return False
    before_matrix = last.parts[:-1]
    return bool(before_matrix) and isinstance(before_matrix[-1], RowMap)


def _last_run(holds: np.ndarray) -> int:
    """The index from which on `holds` is true until the end."""
    return len(holds) - int(np.argmin(holds[::-1])) if not holds.all() else 0


def _listed(blocks: np.ndarray, count: int) -> str:
    """Some of `count` blocks in words."""
    if len(blocks) == count > 1:
        return "every block"
    if len(blocks) == 1:
        return f"block {blocks[0]}"
    if len(blocks) == blocks[-1] - blocks[0] + 1:
        return f"blocks {blocks[0]} to {blocks[-1]}"
    return f"{len(blocks)} of {count} blocks, {blocks[0]} the first"


def _range(values: np.ndarray, spec: str) -> str:
    """The smallest and the largest value as text, or one of them if both are printed alike."""
    low, high = f"{values.min():{spec}}", f"{values.max():{spec}}"
    return low if low == high else f"{low} to {high}"

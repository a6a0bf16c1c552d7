"""What stands out along the depth of a network, in sentences."""

from math import isinf

import numpy as np

from ..networks import Layer, Network, Node, RowMap, Trajectory
from ._numbers import multiple, percent, three_digits, with_error

# Thresholds of what is worth a sentence. They are conventions: nothing but the choice of words depends on them.
_COLLAPSED = 0.99  # mean cosine above which the tokens count as one
_MOVED = 0.1  # change of the mean cosine
_UNIFORM = 0.97  # share of the largest entropy above which attention averages
_SELECTIVE = 0.8  # share below which it prefers some keys
_ONE_HOT = 0.3  # share below which it picks one
_GROWN = 1.5  # factor of the variance
_FIRST_BLOCK = 4.0  # factor of the variance in block 1, above which the input is lost in the stream
_UNEQUAL = 10.0  # ratio of the variances of two tokens at the input
_FITS = 0.99  # coefficient of determination from which a law of growth is named
_FEWEST_BLOCKS = 4  # a line through fewer points fits anything
_TAILS = 2.0  # multiple of 6/n, the excess kurtosis of the squared length of n Gaussian coordinates
_ENOUGH_DRAWS = 50  # draws that an average should rest on
_NOT_GAUSSIAN = 0.01  # excess kurtosis at infinite width


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
        Rank collapse: from block 2 on the mean cosine between tokens is above 0.99 (effective rank 1.00 of 3 at the end).
    """
    lost = ~np.isfinite(trajectory.gram).all(axis=(0, 2, 3))
    if lost.any():
        block = int(np.argmax(lost))
        return [
            f"The variance exceeds the range of single precision in block {block}, and later blocks are unknown. Add a "
            f"norm, or make the skip or the gains smaller."
        ]
    dominated = _few_networks(trajectory)
    found = [
        _collapse(trajectory),
        _attention(trajectory),
        dominated or _variance(trajectory, net),
        _unequal_tokens(trajectory),
        None if dominated else _tails(trajectory, net),
        None if dominated else _alone(trajectory, net),
    ]
    return [sentence for sentence in found if sentence]


def _collapse(t: Trajectory) -> str | None:
    """Whether the tokens become alike."""
    if t.tokens == 1:
        return None
    cosine, rank = t.summary()["cosine"][0], t.effective_rank
    if cosine[-1] > _COLLAPSED:
        start = _last_run(cosine > _COLLAPSED)
        where = "From the input on" if start == 0 else f"Rank collapse: from block {start} on"
        return (
            f"{where} the mean cosine between tokens is above {_COLLAPSED} (effective rank {rank[-1]:.2f} of "
            f"{t.tokens} at the end)."
        )
    if abs(cosine[-1] - cosine[0]) < _MOVED:
        return None
    half = int(np.argmax(np.abs(cosine - cosine[0]) >= abs(cosine[-1] - cosine[0]) / 2))
    return (
        f"Tokens draw {'together' if cosine[-1] > cosine[0] else 'apart'}: mean cosine {cosine[0]:z.2f} at the "
        f"input, {cosine[-1]:z.2f} at the end, half of the way by block {half}; effective rank {rank[0]:.1f} to "
        f"{rank[-1]:.1f} of {t.tokens}."
    )


def _attention(t: Trajectory) -> str | None:
    """Whether heads average, pick, or something in between."""
    if not any((keys > 1).any() for keys in t.visible_keys):
        return None
    share = t.summary()["uniformity"][0]
    blocks = np.flatnonzero(~np.isnan(share))
    share = share[blocks]
    sharp = blocks[share < _ONE_HOT]
    if share.min() > _UNIFORM:
        return (
            f"Attention is uniform: its entropy is at least {np.floor(1000 * share.min()) / 10:.1f}% of the largest "
            f"in every block, so heads average over all they see and pick out nothing yet."
        )
    if len(sharp):
        return (
            f"Attention is nearly one-hot in {_listed(sharp, t.blocks)}: its entropy is down to "
            f"{100 * share.min():.2g}% of the largest, so a head passes on about one token."
        )
    if share[-1] > _UNIFORM:
        return (
            f"Attention becomes uniform: from block {blocks[_last_run(share > _UNIFORM)]} on its entropy is above "
            f"{100 * _UNIFORM:.0f}% of the largest, so heads average over all they see."
        )
    if share.min() < _SELECTIVE:
        visible, keys = np.exp(t.entropies[-1][:, :, -1].mean(dtype=np.float64)), t.visible_keys[-1][-1]
        return (
            f"Attention is selective: its entropy is {_range(100 * share, '.0f')}% of the largest; the last token "
            f"looks at about {visible:.1f} of {keys} keys in the last block."
        )
    return None


def _few_networks(t: Trajectory) -> str | None:
    """Whether a few of the draws decide the averages."""
    last = t.gram[:, -1, -1, -1].astype(np.float64)
    spread = np.log(last[last > 0]).std() if (last > 0).any() else 0.0
    # If log v is normal with variance s^2, the mean of v^2, which the kurtosis needs, comes from draws whose log v is
    # 2 s^2 above the mean: about one in exp(2 s^2).
    if np.expm1(2 * spread**2) < t.samples / _ENOUGH_DRAWS:
        return None
    return (
        f"Few networks decide the averages: from one to the next the variance of the last token differs by factors of "
        f"{three_digits(np.exp(spread))}, so that {t.samples} draws mostly show too small a variance and kurtosis, "
        f"with errors that are too small; draw many more, or add a norm."
    )


def _variance(t: Trajectory, net: Network) -> str | None:
    """Whether the variance of the last token grows or falls, and by which law."""
    variance = t.variance[:, -1]
    if _is_fixed(t, net):
        return (
            f"Every block ends in a norm, which holds the variance of every token at {three_digits(variance[-1])}: a "
            f"read-out of one token is Gaussian at every depth, so only the cosines change."
        )
    if variance[0] <= 0 or variance[-1] <= 0 or 1 / _GROWN < variance[-1] / variance[0] < _GROWN:
        return None
    law = _growth(variance[1:])
    if variance[-1] < variance[0]:
        text = f"Variance falls to {percent(variance[-1] / variance[0])} of the input's"
        return f"{text}{law and f', {law}'}: the signal fades."
    text = (
        f"Variance grows {multiple(variance[-1] / variance[0])}-fold, from {three_digits(variance[0])} to "
        f"{three_digits(variance[-1])}"
    )
    text += f", {law}" if law else ""
    if variance[1] / variance[0] < _FIRST_BLOCK or t.blocks == 1:
        return f"{text}."
    text += f"; block 1 alone makes it {multiple(variance[1] / variance[0])} times as large"
    if not _keeps_input(net):
        return f"{text}."
    return (
        f"{text}, so that the input is {percent(variance[0] / variance[1])} of the stream after it, "
        f"{percent(variance[0] / variance[-1])} at the end."
    )


def _growth(variance: np.ndarray) -> str:
    """A law that the variance follows from the first block on; empty if none fits, or none can be told."""
    if len(variance) < _FEWEST_BLOCKS or variance.min() <= 0 or 1 / _GROWN < variance[-1] / variance[0] < _GROWN:
        return ""
    block = np.arange(len(variance))
    slope, rate = np.polyfit(block, variance, 1)[0], np.polyfit(block, np.log(variance), 1)[0]
    fit = {
        f"linearly in depth ({three_digits(slope, '+.3g')} a block)": np.corrcoef(block, variance)[0, 1] ** 2,
        f"exponentially in depth (times {three_digits(np.exp(rate))} a block)": np.corrcoef(block, np.log(variance))[
            0, 1
        ]
        ** 2,
    }
    best = max(fit, key=lambda law: fit[law])
    return best if fit[best] > _FITS else ""


def _unequal_tokens(t: Trajectory) -> str | None:
    """Whether tokens enter with very different variances."""
    first, last = t.variance[0], t.variance[-1]
    small, large = int(first.argmin()), int(first.argmax())
    if first[large] < _UNEQUAL * first[small] or t.blocks == 0:
        return None
    return (
        f"Tokens enter with unequal variances: {three_digits(first[small])} (token {small}) to "
        f"{three_digits(first[large])} (token {large}); at the end they have {three_digits(last[small])} and "
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
            f"Tails: the excess kurtosis of the last token is {three_digits(kurtosis)} at the end, at infinite "
            f"width.{after}"
        )
    own, layers = 6 / t.width, _random_layers(net)
    # A product of Gaussian matrices without skips and norms has this excess kurtosis; a layer has two matrices.
    deep = 3 * ((1 + 2 / t.width) ** (2 * layers) - 1)
    found = f"the last token ends with an excess kurtosis of {with_error(kurtosis, error)}"
    if kurtosis < _TAILS * own:
        return (
            f"Close to Gaussian: {found}, {'less than' if kurtosis < own / _TAILS else 'about'} the 6/n = "
            f"{three_digits(own)} that any {t.width} Gaussian coordinates have."
        )
    if kurtosis - 3 * error < deep:
        return (
            f"Tails from finite width: {found}, {multiple(kurtosis / own)} times 6/n; {layers} layers at this width "
            f"can bring {three_digits(deep)} by themselves.{after}"
        )
    return (
        f"Tails: {found}, more than the {three_digits(deep)} that {layers} layers at this width can bring by "
        f"themselves, so the randomness of attention is seen.{after}"
    )


def _random_layers(net: Network) -> int:
    """The number of layers with weights, those of a read-out apart."""
    return sum(count for top in _blocks(net) for node, count in top.walk() if isinstance(node, Layer))


def _alone(t: Trajectory, net: Network) -> str | None:
    """Whether a token sees itself alone, as the first of a causal model does."""
    if not t.visible_keys:
        return None
    alone = np.all([keys == 1 for keys in t.visible_keys], axis=0)
    if not alone.any() or alone.all():
        return None
    token = int(alone.argmax())
    text = f"Token {token} sees only itself, so no attention score enters its law"
    if _is_fixed(t, net):
        return f"{text}."
    if isinf(t.width):
        return f"{text}: its variance is deterministic, and it is Gaussian at every depth."
    own, last = (with_error(t.kurtosis[-1, i], t.error("kurtosis")[-1, i]) for i in (token, -1))
    return f"{text}: its excess kurtosis at the end, {own}, is finite width alone (last token {last})."


def _is_fixed(t: Trajectory, net: Network) -> bool:
    """Whether norms at the ends of the blocks hold every token at one variance."""
    ends = all(isinstance(_last_node(block), RowMap) for block in _blocks(net))
    return (
        ends and t.blocks > 0 and bool(np.ptp(t.gram.diagonal(axis1=2, axis2=3)[:, 1:]) < 1e-3 * t.variance[-1].max())
    )


def _keeps_input(net: Network) -> bool:
    """Whether the stream is the input plus what branches add to it."""
    return all(block.keeps_stream for block in _blocks(net))


def _blocks(net: Network) -> list[Node]:
    """The layers of the network before its read-out."""
    return [layer for layer in net.layers if not layer.ends_network]


def _last_node(node: Node) -> Node:
    """The innermost node that acts last. A branch of a residual connection ends in a layer with weights, never in a row map."""
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
    """The index from which on something holds until the end."""
    return len(holds) - int(np.argmin(holds[::-1])) if not holds.all() else 0


def _listed(blocks: np.ndarray, count: int) -> str:
    """The blocks in words; `count` is the number of all."""
    if len(blocks) == count > 1:
        return "every block"
    if len(blocks) == 1:
        return f"block {blocks[0]}"
    if len(blocks) == blocks[-1] - blocks[0] + 1:
        return f"blocks {blocks[0]} to {blocks[-1]}"
    return f"{len(blocks)} of {count} blocks, {blocks[0]} the first"


def _range(values: np.ndarray, spec: str) -> str:
    """The smallest and the largest value as text; one of them if they print alike."""
    low, high = f"{values.min():{spec}}", f"{values.max():{spec}}"
    return low if low == high else f"{low} to {high}"

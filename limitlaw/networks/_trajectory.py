"""A network along its depth: Gram matrices and attention entropies after every block, and what is seen in them."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import isinf
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.special import ndtr, ndtri

from .. import _arguments, laws
from ..numerics import Block, bytes_in_words, calls_lapack, draw_blocks, interpreted, random
from ._attention import Attention
from ._described import Layout
from ._gram import Scope, at_width, block_size, branch_of, gram, joined, memory, needs_mean, settled
from ._layers import Only, Readout, Repeat, Residual
from ._state import Context, Tokens

_Draw = Callable[[PRNGKeyArray], Iterator[tuple[int, Any]]]  # parts of a block of draws, each with its first column
_BATCHES = 50  # behind the standard error of a kurtosis
_OBSERVABLES = ("variance", "kurtosis", "cosine", "effective_rank", "entropy", "quantile_ratio")
_BISECTIONS = 60
_DRAWS_AT_ONCE = 256  # of a network whose every block is seen: more are no faster, and a first look waits for them


@dataclass(frozen=True, repr=False)
class Trajectory:
    """Independent draws of a network, seen after the input and after every block.

    A block is a layer of the network, or one repetition of a `Repeat`; a final `Readout` is none. Observables are averages over the draws,
    blocks first; `error(name)` gives their standard errors.

    - `gram`: the draws, `(samples, blocks + 1, s, s)`; `entropies`: those of attention weights, a list of `(samples, heads, s)` with `attention_blocks`, the
      block of each;
    - `variance`: `E K_tt`, of a coordinate of token `t`, `(blocks + 1, s)`;
    - `kurtosis`: excess kurtosis `3 Var(K_tt) / (E K_tt)^2` of a read-out, `(blocks + 1, s)`;
    - `cosine`: between tokens, `(blocks + 1, s, s)`; all 1 is rank collapse;
    - `effective_rank`: `(tr C)^2 / tr C^2` of the matrix `C` of cosines, `(blocks + 1,)`;
    - `entropy`: of attention weights in nats, `(attention layers, heads, s)`;
    - `quantile_ratio(level)`: the quantile of a read-out over that of a Gaussian of equal variance, `(blocks + 1, s)`.

    !!! Example

        >>> import numpy as np, limitlaw as ll
        >>> block = ll.Residual(ll.LayerNorm(), ll.Attention(heads=2, head_dim="split")), ll.Residual(ll.LayerNorm(), ll.MLP("relu"))
        >>> t = ll.Network(ll.GramInputs(np.eye(3)), ll.Repeat(4, *block)).trajectory(1000, width=64)
        >>> t.gram.shape, t.entropy.shape
        ((1000, 5, 3, 3), (4, 2, 3))
        >>> bool(np.all(np.diff(t.variance[:, 0]) > 0)), bool(np.all(np.diff(t.cosine[:, 0, 1]) > 0))
        (True, True)
    """

    gram: np.ndarray
    entropies: tuple[np.ndarray, ...]
    attention_blocks: tuple[int, ...]
    width: int | float
    keys_in_sight: tuple[np.ndarray, ...] = field(default=())  # for each attention layer, how many keys each query sees

    @property
    def samples(self) -> int:
        """How many networks were drawn."""
        return len(self.gram)

    @property
    def blocks(self) -> int:
        """How many blocks the network has."""
        return self.gram.shape[1] - 1

    @property
    def tokens(self) -> int:
        """How many tokens."""
        return self.gram.shape[2]

    @property
    def variance(self) -> np.ndarray:
        """`E K_tt`, the variance of a coordinate of each token, `(blocks + 1, s)`."""
        return self._measured("variance")[0]

    @property
    def kurtosis(self) -> np.ndarray:
        """Excess kurtosis of a read-out of each token, `(blocks + 1, s)`; 0 if it is Gaussian."""
        return self._measured("kurtosis")[0]

    @property
    def cosine(self) -> np.ndarray:
        """Mean cosines between tokens, `(blocks + 1, s, s)`."""
        return self._measured("cosine")[0]

    @property
    def effective_rank(self) -> np.ndarray:
        """Mean effective rank of the tokens, `(blocks + 1,)`: from 1, all alike, to `s`, all orthogonal."""
        return self._measured("effective_rank")[0]

    @property
    def entropy(self) -> np.ndarray:
        """Mean entropy of attention weights in nats, `(attention layers, heads, s)`."""
        return self._measured("entropy")[0]

    def quantile_ratio(self, level: float = 0.999) -> np.ndarray:
        """The `level` quantile of a read-out over that of a Gaussian with its variance; 1 if it is Gaussian.

        !!! Example

            >>> import numpy as np, limitlaw as ll
            >>> t = ll.Network(ll.GramInputs(np.eye(2)), ll.Attention(head_dim=4)).trajectory(2000, width=8)
            >>> bool(np.all(t.quantile_ratio(0.999)[1] > 1.2))
            True
        """
        return self._measured("quantile_ratio", level)[0]

    def error(self, name: str, *arguments: Any) -> np.ndarray:
        """Standard errors of an observable, in its shape.

        !!! Example

            >>> import numpy as np, limitlaw as ll
            >>> t = ll.Network(ll.GramInputs(np.eye(2)), ll.Attention(head_dim=4)).trajectory(2000, width=8)
            >>> bool(np.allclose(t.error("variance")[1], t.gram[:, 1].diagonal(axis1=1, axis2=2).std(axis=0) / 2000**0.5, rtol=1e-2))
            True
        """
        _arguments.one_of("observable", name, _OBSERVABLES)
        return self._measured(name, *arguments)[1]

    def summary(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """One number after the input and after each block for each observable, with its standard error.

        `variance` and `kurtosis` of the last token; `cosine`, over pairs of tokens; `effective_rank`; `entropy` of attention, over heads and tokens; `uniformity`, the entropy
        over that of uniform attention, over the tokens that have a choice. NaN where a block has no attention, or no choice; of several attention layers in a block, the first.

        !!! Example

            >>> import numpy as np, limitlaw as ll
            >>> t = ll.Network(ll.GramInputs(np.eye(2)), ll.Repeat(3, ll.Residual(ll.Attention()))).trajectory(500, width=16)
            >>> cosine, error = t.summary()["cosine"]
            >>> bool(np.allclose(cosine, t.cosine[:, 0, 1])), bool(np.all(error[1:] < 0.02))
            (True, True)
        """
        i, j = np.tril_indices(self.tokens, -1)
        cosines = self._cosines[:, :, i, j].mean(axis=2) if len(i) else np.ones((self.samples, self.blocks + 1))
        entropies, shares = (np.full((self.samples, self.blocks + 1), np.nan) for _ in range(2))
        seen = zip(self.attention_blocks, self.entropies, self.keys_in_sight, strict=True)
        for block, entropy, keys in reversed(list(seen)):
            entropies[:, block] = entropy[:, :, keys > 0].mean(axis=(1, 2), dtype=np.float64)
            choice = keys > 1
            if choice.any():
                shares[:, block] = (entropy[:, :, choice] / np.log(keys[choice])).mean(axis=(1, 2))
        return {
            "variance": (self.variance[:, -1], self.error("variance")[:, -1]),
            "kurtosis": (self.kurtosis[:, -1], self.error("kurtosis")[:, -1]),
            "cosine": _mean(cosines),
            "effective_rank": (self.effective_rank, self.error("effective_rank")),
            "entropy": _mean(entropies),
            "uniformity": _mean(shares),
        }

    def law(self, block: int = -1, token: int = 0) -> laws.Law:
        """The law of a fresh read-out of a token after a block (0: after the input): a mixture over the draws.

        !!! Example

            >>> import numpy as np, limitlaw as ll
            >>> t = ll.Network(ll.GramInputs(np.eye(2)), ll.Repeat(3, ll.Attention())).trajectory(4000, width=16)
            >>> law = t.law(block=2)
            >>> bool(np.isclose(law.var(), t.variance[2, 0], rtol=1e-3))
            True
        """
        block = _arguments.index(
            "block", block, self.blocks + 1, "places in the network (the input, and after each block)"
        )
        token = _arguments.index("token", token, self.tokens, "tokens")
        variances = self.gram[:, block, token, token].astype(np.float64)
        if not np.isfinite(variances).all():
            raise ValueError(
                f"block={block}: the stream has grown beyond single precision there; look at an earlier block, or add a norm."
            )
        if variances.std() <= 1e-6 * variances.mean():
            return laws.Gaussian(var=variances.mean(), name=f"after block {block}")
        return laws.ScaleMixture(variances, name=f"after block {block}")

    def plot(self, *observables: str) -> Any:
        """A matplotlib figure with a panel for each observable (all of them by default), against depth, with error bars."""
        from ._trajectory_plot import plot

        names = observables or tuple(name for name in _OBSERVABLES if name != "entropy" or self.entropies)
        for name in names:
            _arguments.one_of("observable", name, _OBSERVABLES)
        return plot(self, names)

    def __repr__(self) -> str:
        from ._trajectory_table import table

        return table(self)

    def _repr_html_(self) -> str:
        from ._trajectory_table import html_table

        return html_table(self)

    @functools.cached_property
    def _diagonal(self) -> np.ndarray:
        return np.diagonal(self.gram, axis1=2, axis2=3).astype(np.float64)

    @functools.cached_property
    def _cosines(self) -> np.ndarray:
        length = np.sqrt(self._diagonal)
        size = length[..., :, None] * length[..., None, :]
        return np.divide(self.gram, size, out=np.zeros(self.gram.shape), where=size != 0)

    @functools.cached_property
    def _known(self) -> dict[Any, tuple[np.ndarray, np.ndarray]]:
        return {}

    def _measured(self, name: str, *arguments: Any) -> tuple[np.ndarray, np.ndarray]:
        """An observable and its standard error."""
        if (name, *arguments) not in self._known:
            measure: Callable[..., tuple[np.ndarray, np.ndarray]] = getattr(self, f"_{name}")
            self._known[name, *arguments] = measure(*arguments)
        return self._known[name, *arguments]

    def _variance(self) -> tuple[np.ndarray, np.ndarray]:
        return _mean(self._diagonal)

    def _kurtosis(self) -> tuple[np.ndarray, np.ndarray]:
        return excess_kurtosis(self._diagonal)

    def _cosine(self) -> tuple[np.ndarray, np.ndarray]:
        return _mean(self._cosines)

    def _effective_rank(self) -> tuple[np.ndarray, np.ndarray]:
        cosines = self._cosines
        squared, total = np.einsum("nbij,nbij->nb", cosines, cosines), np.einsum("nbii->nb", cosines)
        # dead units can leave nothing of a stream: its rank is 0
        return _mean(np.divide(total**2, squared, out=np.zeros_like(total), where=squared != 0))

    def _entropy(self) -> tuple[np.ndarray, np.ndarray]:
        if not self.entropies:
            raise ValueError("entropy: the network has no attention layer whose heads could be watched.")
        most = max(entropies.shape[1] for entropies in self.entropies)
        padded = [_mean(e.astype(np.float64)) for e in self.entropies]
        value, error = (
            np.stack([np.pad(p[k], ((0, most - len(p[k])), (0, 0)), constant_values=np.nan) for p in padded])
            for k in (0, 1)
        )
        return value, error

    def _quantile_ratio(self, level: float = 0.999) -> tuple[np.ndarray, np.ndarray]:
        if not 0.5 < _arguments.finite_number("level", level) < 1:
            raise ValueError(f"level={level!r}: must lie between 0.5 and 1.")
        std = np.sqrt(np.maximum(self._diagonal, 1e-300))
        gaussian = ndtri(level) * np.sqrt(np.mean(std**2, axis=0))
        low, high = np.zeros_like(gaussian), ndtri(level) * std.max(axis=0) * (1 + 1e-9)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            below = ndtr(middle / std).mean(axis=0) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        quantile = (low + high) / 2
        # the error of the cdf at the quantile over the density, and that of the Gaussian's scale, draw by draw
        density = np.mean(np.exp(-((quantile / std) ** 2) / 2) / std, axis=0) / np.sqrt(2 * np.pi)
        moved = (level - ndtr(quantile / std)) / density / quantile - (std**2 / np.mean(std**2, axis=0) - 1) / 2
        return quantile / gaussian, quantile / gaussian * moved.std(axis=0) / np.sqrt(self.samples)


def _mean(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return draws.mean(axis=0), draws.std(axis=0, ddof=1) / np.sqrt(len(draws))


def excess_kurtosis(variances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`3 Var(v) / (E v)^2` over the first axis: the excess kurtosis of a Gaussian with the random variance `v`, and its standard error, by the jackknife.

    !!! Example

        >>> import numpy as np
        >>> from limitlaw.networks import excess_kurtosis
        >>> v = np.random.default_rng(0).chisquare(6, 100_000) / 6
        >>> value, error = excess_kurtosis(v)
        >>> bool(abs(value - 1) < 4 * error), bool(error < 0.02)  # 6 / dof
        (True, True)
    """
    if len(variances) < 3:  # leaving one out of two leaves no spread
        return np.zeros(variances.shape[1:]), np.full(variances.shape[1:], np.inf)
    count = min(_BATCHES, len(variances))
    batches = np.array_split(variances, count)
    sizes = np.array([len(batch) for batch in batches]).reshape(-1, *[1] * (variances.ndim - 1))
    first = np.array([batch.sum(axis=0) for batch in batches])
    second = np.array([(batch**2).sum(axis=0) for batch in batches])

    def kurtosis(size: Any, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        mean = first / size
        alive = mean != 0
        spread = np.maximum(second / size - mean**2, 0.0) * size / np.maximum(size - 1, 1)
        return np.where(alive, 3 * spread / np.where(alive, mean, 1.0) ** 2, 0.0)

    value = kurtosis(len(variances), first.sum(axis=0), second.sum(axis=0))
    left = kurtosis(len(variances) - sizes, first.sum(axis=0) - first, second.sum(axis=0) - second)
    corrected = count * value - (count - 1) * left.mean(axis=0)
    error = np.sqrt((count - 1) / count * ((left - left.mean(axis=0)) ** 2).sum(axis=0))
    return np.maximum(corrected, 0.0), error


@dataclass(frozen=True)
class _Stage:
    """A layer of the network, or of an `Only` in it: one block, or as many as it has repetitions."""

    layer: Any
    active: tuple[bool, ...] | None = None

    @property
    def blocks(self) -> int:
        return self.layer.count if isinstance(self.layer, Repeat) else 1

    @property
    def body(self) -> tuple[Any, ...]:
        return self.layer.layers if isinstance(self.layer, Repeat) else (self.layer,)


def _stages(layers: tuple[Any, ...], layout: Layout, active: tuple[bool, ...] | None = None) -> list[_Stage]:
    stages: list[_Stage] = []
    for layer in layers:
        if isinstance(layer, Only):
            own = tuple(bool(x) for x in layout.sequence == layer.sequence)
            stages += _stages(layer.layers, layout, own)
        elif not isinstance(layer, Readout):
            stages.append(_Stage(layer, active))
    return stages


def blocks_of(net: Any) -> int:
    """How many blocks a trajectory of a network has.

    !!! Example

        >>> import numpy as np, limitlaw as ll
        >>> from limitlaw.networks import blocks_of
        >>> inputs = ll.GramInputs(np.eye(2), sequences=[1, 1])
        >>> blocks_of(ll.Network(inputs, ll.Only(0, ll.Repeat(3, ll.MLP()), ll.LayerNorm()), ll.Readout()))
        4
    """
    return sum(stage.blocks for stage in _stages(net.layers, net.layout))


def _watched_attentions(layer: Any) -> list[Attention]:
    """The attention layers within a layer, in the order in which they act; those with infinitely many heads cannot be watched."""
    if isinstance(layer, Attention):
        return [] if isinf(layer.heads) else [layer]
    return [attention for inner in layer.inner for attention in _watched_attentions(inner)] * layer.times


def trajectory(net: Any, samples: int, width: int | float, seed: int, max_memory: int, jit: bool) -> Trajectory:
    """Draws of a network along its depth, by the Gram reading; compiled or interpreted."""
    stages = _stages(net.layers, net.layout)
    tokens, blocks = net.tokens, blocks_of(net)
    size = block_size(net, width, most=_DRAWS_AT_ONCE)
    heads = sum(
        int(part.heads) * count
        for top in net.layers
        for part, count in top.walk()
        if isinstance(part, Attention) and not isinf(part.heads)
    )
    numbers = (blocks + 1) * tokens**2 + tokens * heads
    needed = 4 * (size + samples) * numbers + memory(net, width, size)
    if needed > max_memory:
        raise ValueError(
            f"samples={samples}: {blocks} blocks of {tokens} tokens take {bytes_in_words(needed)}, more than max_memory={max_memory} "
            f"({bytes_in_words(max_memory)}); take fewer samples, or raise max_memory."
        )
    seen = [
        (block, attention, stage.active)
        for block, stage in enumerate((stage for stage in stages for _ in range(stage.blocks)), 1)
        for layer in stage.body
        for attention in _watched_attentions(layer)
    ]
    scope = Scope(size, net.layout, needs_mean(net.inputs, net.layers))
    inputs, *parts = (
        at_width(part, width, net.layout, observed=True) for part in (net.inputs, *(stage.layer for stage in stages))
    )
    draw = functools.partial(
        _draw,
        inputs,
        tuple(parts),
        tuple(stage.active for stage in stages),
        jax.device_put(np.float32(width)),
        scope,
        (blocks + 1) * tokens**2,
    )
    block = Block(
        draw if jit else _without_compiler(draw),
        size,
        memory(net, width, size) + 4 * size * numbers,
        alone=calls_lapack(net.tokens) or not jit,
        columns=numbers,
    )
    flat = draw_blocks(block, samples=samples, seed=seed, max_memory=max_memory)
    ends = np.cumsum([(blocks + 1) * tokens**2, *(tokens * int(attention.heads) for _, attention, _ in seen)])
    grams, *entropies = (part.reshape(samples, -1, tokens) for part in np.split(flat, ends[:-1], axis=1))
    # repetitions see the same
    distinct = {(id(attention), active): (attention, active) for _, attention, active in seen}
    sights = {which: _keys_in_sight(*own, net.layout) for which, own in distinct.items()}
    for (_, _, active), entropy in zip(seen, entropies, strict=True):
        if active is not None:
            entropy[:, :, ~np.array(active)] = np.nan
    return Trajectory(
        grams.reshape(samples, blocks + 1, tokens, tokens),
        tuple(entropies),
        tuple(number for number, _, _ in seen),
        width,
        tuple(sights[id(attention), active] for _, attention, active in seen),
    )


def _keys_in_sight(attention: Attention, active: tuple[bool, ...] | None, layout: Layout) -> np.ndarray:
    """How many keys each query sees; none where it does not take part."""
    allowed = attention.allowed(layout)
    keys = np.full(layout.size, layout.size) if allowed is None else allowed.sum(axis=1)
    return keys if active is None else np.where(active, keys, 0)


def _draw(
    inputs: Any,
    layers: tuple[Any, ...],
    active: tuple[tuple[bool, ...] | None, ...],
    width: Float[Array, ""],
    scope: Scope,
    entropies_from: int,
    key: PRNGKeyArray,
) -> Iterator[tuple[int, Array]]:
    """Everything that is seen of a block of draws, in rows: the Gram matrices, then, from a column on, the entropies."""
    key_inputs, *keys = random.split(key, 1 + len(layers))
    tokens, seen = _begun(inputs, width, key_inputs, scope)
    yield 0, seen
    gram_at, entropy_at = seen.shape[1], entropies_from
    for layer, own, key_layer in zip(layers, active, keys, strict=True):
        # repetitions one by one: a scan would be compiled anew for every depth
        body, each = (layer,), [key_layer]
        if isinstance(layer, Repeat):
            body, each = layer.layers, random.split(key_layer, layer.count)
        for key_block in each:
            tokens, after, entropies = _watched(body, tokens, key_block, scope, own)
            yield gram_at, after
            gram_at += after.shape[1]
            for entropy in entropies:
                yield entropy_at, entropy
                entropy_at += entropy.shape[1]


def _without_compiler(draw: _Draw) -> _Draw:
    """The same block of draws, interpreted whole."""
    columns: list[int] = []  # known when it has been traced

    @interpreted
    def block(key: PRNGKeyArray) -> tuple[Array, ...]:
        columns[:], parts = zip(*draw(key), strict=True)
        return parts

    def run(key: PRNGKeyArray) -> Iterator[tuple[int, Array]]:
        parts = block(key)
        return zip(columns, parts, strict=True)

    return run


@functools.partial(jax.jit, static_argnums=3)
def _begun(inputs: Any, width: Float[Array, ""], key: PRNGKeyArray, scope: Scope) -> tuple[Tokens, Array]:
    key_inputs, key_settle = random.split(key)
    tokens = gram(inputs, width, scope.context(key_inputs)).settle(scope.context(key_settle))
    tokens = Tokens(jnp.broadcast_to(tokens.root, (*tokens.root.shape[:2], scope.draws)), tokens.width)
    return tokens, _flat(tokens.gram)


def _watched(
    layers: tuple[Any, ...], tokens: Tokens, key: PRNGKeyArray, scope: Scope, active: tuple[bool, ...] | None
) -> tuple[Tokens, Array, list[Array]]:
    """A block, with the Gram matrix after it and the entropies of each of its attention layers.

    Layer by layer: to add a branch, which is most of what there is to compile, is one program for all residual layers.
    """
    watched: list[Array] = []
    for layer, own in zip(layers, random.split(key, len(layers)), strict=True):
        if isinstance(layer, Residual):
            covariance, seen = _branch(layer, tokens, own, scope, active)
            tokens = _joined(Tokens(tokens.root, tokens.width), covariance, layer.skip, own, scope, active)
        else:
            tokens, seen = _applied(layer, tokens, own, scope, active)
        watched += seen
    return Tokens(tokens.root, tokens.width), _gram_of(tokens), watched


@functools.partial(jax.jit, static_argnums=(3, 4))
def _branch(
    layer: Residual, tokens: Tokens, key: PRNGKeyArray, scope: Scope, active: tuple[bool, ...] | None
) -> tuple[Array, list[Array]]:
    context = _within(key, scope, active)
    return branch_of(layer, tokens, context).covariance, _seen(context)


@functools.partial(jax.jit, static_argnums=(4, 5))
def _joined(
    tokens: Tokens, covariance: Array, skip: Any, key: PRNGKeyArray, scope: Scope, active: tuple[bool, ...] | None
) -> Tokens:
    return joined(tokens, covariance, skip, _within(key, scope, active))


@functools.partial(jax.jit, static_argnums=(3, 4))
def _applied(
    layer: Any, tokens: Tokens, key: PRNGKeyArray, scope: Scope, active: tuple[bool, ...] | None
) -> tuple[Tokens, list[Array]]:
    context = _context(key, scope, active)
    return settled(layer, tokens, context), _seen(context)


@jax.jit
def _gram_of(tokens: Tokens) -> Array:
    return _flat(tokens.gram)


def _context(key: PRNGKeyArray, scope: Scope, active: tuple[bool, ...] | None) -> Context:
    return replace(scope.context(key), active=active, watch=[])


def _within(key: PRNGKeyArray, scope: Scope, active: tuple[bool, ...] | None) -> Context:
    """What `settled` tells a layer."""
    _, for_layer, _ = _context(key, scope, active).split(3)
    return for_layer


def _seen(context: Context) -> list[Array]:
    """The entropies that were seen."""
    return [_flat(entropy) for entropy in context.watch or []]


def _flat(a: Float[Array, "... draws"]) -> Float[Array, "draws numbers"]:
    return a.reshape(-1, a.shape[-1]).T

"""Trajectories along depth: Gram matrices and attention entropies after every block, and their observables."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray
from scipy.optimize import elementwise
from scipy.special import ndtr, ndtri

from .. import _checks, laws
from .._checks import ArgumentError
from .._format import Table, format_bytes
from ..numerics import Estimate, random
from ..numerics.batches import Batch, draw_batches
from ..numerics.linalg import calls_lapack
from ._gram import BoundNetwork, boundaries, check_sound, has_blocks
from ._layer import Layer, Layout, NetworkParts, Node, Purpose
from .cost import batch_size, memory
from .state import Recorder, Scope

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

_BATCHES = 50  # batches of the jackknife, whose standard error is itself known to 1 / sqrt(2 * 50) = 10 %
_MOST_ROWS = 26  # rows of a table that fit on a screen
_ROUNDING = 1e-6  # relative precision of the Gram matrices
_OBSERVABLES = ("variance", "kurtosis", "cosine", "effective_rank", "entropy", "quantile_ratio")


@dataclass(frozen=True, repr=False, eq=False)
class Trajectory:
    """Independent draws of a network, observed after the input and after every block.

    The ends of blocks are the ends of `Block` nodes, if there are any. Otherwise each layer is a block, and each
    repetition of a `Repeat`. A final `Readout` is not a block. Observables are averages over the draws, with one entry
    for the input and one for each block along the first axis; `error(name)` returns their standard errors.

    Attributes:
        gram: The Gram matrices of all draws, `(samples, blocks + 1, s, s)`.
        entropies: The attention entropies of all draws in nats, an array `(samples, heads, s)` for each attention
            layer.
        attention_blocks: The block of each attention layer.
        width: The width of the network.
        visible_keys: The number of key tokens that each query token attends to, one array `(s,)` for each attention
            layer; 0 for tokens on which the layer does not act.

    Example:
        >>> import numpy as np, limitlaw as ll
        >>> attention = ll.Residual(ll.LayerNorm(), ll.Attention(heads=2, head_dim="split"))
        >>> block = attention, ll.Residual(ll.LayerNorm(), ll.MLP("relu"))
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
    visible_keys: tuple[np.ndarray, ...] = field(default=())

    @property
    def samples(self) -> int:
        """The number of draws."""
        return len(self.gram)

    @property
    def blocks(self) -> int:
        """The number of blocks of the network."""
        return self.gram.shape[1] - 1

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        return self.gram.shape[2]

    @property
    def variance(self) -> np.ndarray:
        """The variance of a coordinate of each token, `E K_tt`, `(blocks + 1, s)`."""
        return self._measured("variance")[0]

    @property
    def kurtosis(self) -> np.ndarray:
        """The excess kurtosis of a read-out, `3 Var(K_tt) / (E K_tt)^2`, `(blocks + 1, s)`; 0 if it is Gaussian."""
        return self._measured("kurtosis")[0]

    @property
    def cosine(self) -> np.ndarray:
        """The mean cosine of every two tokens, `(blocks + 1, s, s)`; 1 everywhere means rank collapse."""
        return self._measured("cosine")[0]

    @property
    def effective_rank(self) -> np.ndarray:
        """The mean effective rank of the tokens, `(blocks + 1,)`.

        It is `(tr C)^2 / tr C^2` of the matrix `C` of cosines: 1 if all tokens are parallel, `s` if all are orthogonal.
        """
        return self._measured("effective_rank")[0]

    @property
    def entropy(self) -> np.ndarray:
        """The mean attention entropy in nats, `(attention layers, heads, s)`."""
        return self._measured("entropy")[0]

    def quantile_ratio(self, level: float = 0.999) -> np.ndarray:
        """The quantile of a read-out over that of a Gaussian of equal variance; 1 if the read-out is Gaussian.

        Args:
            level: The probability below the quantile, between 0.5 and 1.

        Returns:
            The ratio, `(blocks + 1, s)`.

        Raises:
            ArgumentError: If `level` is out of range.

        Example:
            >>> import numpy as np, limitlaw as ll
            >>> t = ll.Network(ll.GramInputs(np.eye(2)), ll.Attention(head_dim=4)).trajectory(2000, width=8)
            >>> bool(np.all(t.quantile_ratio(0.999)[1] > 1.2))
            True
        """
        return self._measured("quantile_ratio", level)[0]

    def error(self, name: str, *arguments: Any) -> np.ndarray:
        """The standard error of an observable.

        Args:
            name: The name of the observable, such as "variance".
            *arguments: The arguments of the observable: the level of "quantile_ratio".

        Returns:
            The standard error, in the shape of the observable.

        Raises:
            ArgumentError: If there is no observable of this name.

        Example:
            >>> import numpy as np, limitlaw as ll
            >>> t = ll.Network(ll.GramInputs(np.eye(2)), ll.Attention(head_dim=4)).trajectory(2000, width=8)
            >>> variances = t.gram[:, 1].diagonal(axis1=1, axis2=2)
            >>> bool(np.allclose(t.error("variance")[1], variances.std(axis=0) / 2000**0.5, rtol=1e-2))
            True
        """
        _checks.one_of("observable", name, _OBSERVABLES)
        return self._measured(name, *arguments)[1]

    def summary(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """One number for the input and for each block, for each observable, with its standard error.

        Returns:
            For each name the values and their standard errors, each `(blocks + 1,)`:

            - "variance" and "kurtosis" of the last token;
            - "cosine", averaged over pairs of tokens;
            - "effective_rank";
            - "entropy" of attention, averaged over heads and tokens;
            - "uniformity", the attention entropy over that of uniform attention, averaged over heads and over the
              tokens that may attend to more than one token.

            Entropy and uniformity are those of the first attention layer of a block, and NaN if it has none.

        Example:
            >>> import numpy as np, limitlaw as ll
            >>> net = ll.Network(ll.GramInputs(np.eye(2)), ll.Repeat(3, ll.Residual(ll.Attention())))
            >>> t = net.trajectory(500, width=16)
            >>> cosine, error = t.summary()["cosine"]
            >>> bool(np.allclose(cosine, t.cosine[:, 0, 1])), bool(np.all(error[1:] < 0.02))
            (True, True)
        """
        i, j = np.tril_indices(self.tokens, -1)
        cosines = self._cosines[:, :, i, j].mean(axis=2) if len(i) else np.ones((self.samples, self.blocks + 1))
        entropies, shares = (np.full((self.samples, self.blocks + 1), np.nan) for _ in range(2))
        seen = zip(self.attention_blocks, self.entropies, self.visible_keys, strict=True)
        for block, entropy, keys in reversed(list(seen)):  # so that the first layer of a block is written last
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
        """The law of a fresh read-out of a token after a block, a Gaussian mixture over the draws.

        Args:
            block: The block, from 1; 0 for the input.
            token: The token.

        Returns:
            The law.

        Raises:
            ArgumentError: If there is no block or token of this number, or the variance overflows float32 there.

        Example:
            >>> import numpy as np, limitlaw as ll
            >>> t = ll.Network(ll.GramInputs(np.eye(2)), ll.Repeat(3, ll.Attention())).trajectory(4000, width=16)
            >>> law = t.law(block=2)
            >>> bool(np.isclose(law.variance(), t.variance[2, 0], rtol=1e-3))
            True
        """
        block = _checks.index(
            "block", block, self.blocks + 1, "places in the network (the input, and after each block)"
        )
        token = _checks.index("token", token, self.tokens, "tokens")
        variances = self.gram[:, block, token, token].astype(np.float64)
        if not np.isfinite(variances).all():
            raise ArgumentError(
                "block",
                f"block={block} has a variance beyond single precision. Use an earlier block, or add a norm.",
            )
        if variances.std() <= 1e-6 * variances.mean():
            return laws.Gaussian(variance=variances.mean(), name=f"after block {block}")
        return laws.ScaleMixture(variances, name=f"after block {block}")

    def plot(self, *observables: str, ax: Any = None) -> Any:
        """Plot observables against depth, with error bars.

        Args:
            *observables: The names of the observables, by default all.
            ax: Matplotlib axes for a single observable.

        Returns:
            The axes if they are given, else a figure with a panel for each observable.

        Raises:
            ArgumentError: If a name is not that of an observable, or `ax` is given for several observables.

        Example:
            >>> import matplotlib
            >>> matplotlib.use("agg")
            >>> import matplotlib.pyplot as plt, numpy as np, limitlaw as ll
            >>> t = ll.Network(ll.GramInputs(np.eye(2)), ll.Attention(head_dim=4)).trajectory(200, width=8)
            >>> t.plot("variance", ax=plt.gca()).get_ylabel()
            'variance of a coordinate'
        """
        from ._trajectory_plot import plot, plot_one

        names = observables or tuple(name for name in _OBSERVABLES if name != "entropy" or self.entropies)
        for name in names:
            _checks.one_of("observable", name, _OBSERVABLES)
        if ax is None:
            return plot(self, names)
        if len(names) != 1:
            raise ArgumentError("ax", f"ax=... takes one observable, not {len(names)}. Name one, or leave ax out.")
        plot_one(ax, self, names[0])
        return ax

    def to_xarray(self) -> "xr.Dataset":
        """The draws and the observables as a dataset.

        Returns:
            The dataset. It has `gram` (draw, block, token, other); `variance`, `kurtosis`, `cosine` and
            `effective_rank` with their standard errors `..._stderr`, by block and token; and `entropy` with its
            standard error, by attention layer, head and token.

        Example:
            >>> import numpy as np, limitlaw as ll
            >>> t = ll.Network(ll.GramInputs(np.eye(2)), ll.Attention(head_dim=4)).trajectory(200, width=8)
            >>> dict(t.to_xarray().sizes)
            {'draw': 200, 'block': 2, 'token': 2, 'other': 2, 'layer': 1, 'head': 1}
        """
        import xarray as xr

        axes = {
            "variance": ("block", "token"),
            "kurtosis": ("block", "token"),
            "cosine": ("block", "token", "other"),
            "effective_rank": ("block",),
        }
        variables: dict[str, Any] = {"gram": (("draw", "block", "token", "other"), self.gram)}
        if self.entropies:
            axes["entropy"] = ("layer", "head", "token")
        for name, dims in axes.items():
            value, error = self._measured(name)
            variables |= {name: (dims, value), f"{name}_stderr": (dims, error)}
        coordinates = {"block": np.arange(self.blocks + 1), "token": np.arange(self.tokens)}
        if self.entropies:
            coordinates |= {"block_of_layer": ("layer", np.array(self.attention_blocks))}
        attributes = {"width": float(self.width), "samples": self.samples}
        return xr.Dataset(variables, coordinates, attributes)

    def to_pandas(self) -> "pd.DataFrame":
        """The summary as a data frame.

        Returns:
            The data frame, with a row for the input and each block, and columns for observables and their errors.

        Example:
            >>> import numpy as np, limitlaw as ll
            >>> t = ll.Network(ll.GramInputs(np.eye(2)), ll.Attention(head_dim=4)).trajectory(200, width=8)
            >>> list(t.to_pandas().columns[:2])
            ['variance', 'variance_stderr']
        """
        import pandas as pd

        columns = {
            column: values
            for name, (value, error) in self.summary().items()
            for column, values in ((name, value), (f"{name}_stderr", error))
        }
        return pd.DataFrame(columns, index=pd.RangeIndex(self.blocks + 1, name="block"))

    def table(self) -> Table:
        """The summary as a table, without the middle blocks of a deep network.

        Returns:
            The table.
        """
        summary = self.summary()
        if not self.entropies:
            summary = {name: pair for name, pair in summary.items() if name not in ("entropy", "uniformity")}
        rows: list[list[Any]] = [
            [
                "input" if block == 0 else str(block),
                *(_cell(value[block], error[block]) for value, error in summary.values()),
            ]
            for block in range(self.blocks + 1)
        ]
        if len(rows) > _MOST_ROWS:
            half = _MOST_ROWS // 2
            rows = [*rows[:half], ["...", *[None] * len(summary)], *rows[-half:]]
        where = "infinite width" if np.isinf(self.width) else f"width {self.width}"
        title = f"{self.samples} draws at {where}, {self.tokens} tokens (variance and kurtosis of the last)"
        return Table(["block", *(name.replace("_", " ") for name in summary)], rows, title=title)

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.startswith("_")]

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
        """An observable and its standard error, computed once."""
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
        # A stream that is zero, as dead units can make it, has rank 0.
        return _mean(np.divide(total**2, squared, out=np.zeros_like(total), where=squared != 0))

    def _entropy(self) -> tuple[np.ndarray, np.ndarray]:
        if not self.entropies:
            raise ArgumentError(
                "observable", "entropy is not available: the network has no attention layer with finitely many heads."
            )
        most = max(entropies.shape[1] for entropies in self.entropies)
        padded = [_mean(e.astype(np.float64)) for e in self.entropies]
        value, error = (
            np.stack([np.pad(p[k], ((0, most - len(p[k])), (0, 0)), constant_values=np.nan) for p in padded])
            for k in (0, 1)
        )
        return value, error

    def _quantile_ratio(self, level: float = 0.999) -> tuple[np.ndarray, np.ndarray]:
        if not 0.5 < _checks.finite_number("level", level) < 1:
            raise ArgumentError("level", f"level={level!r} must lie between 0.5 and 1.")
        std = np.sqrt(np.maximum(self._diagonal, 1e-300))
        gaussian = ndtri(level) * np.sqrt(np.mean(std**2, axis=0))
        # The cdf of the mixture averages Gaussian ones, so its quantile lies below that of the widest component.
        largest = ndtri(level) * std.max(axis=0) * (1 + 1e-9)

        def excess(x: np.ndarray, place: np.ndarray) -> np.ndarray:
            flat = std.reshape(len(std), -1)[:, place.astype(int)]
            return ndtr(x / flat).mean(axis=0) - level

        places = np.arange(largest.size).reshape(largest.shape)
        quantile = elementwise.find_root(excess, (np.zeros_like(largest), largest), args=(places,)).x
        # Delta method: the relative change of the ratio caused by each draw. A draw moves the quantile by its error of
        # the cdf there over the density, and the scale of the Gaussian by half the relative error of its variance.
        density = np.mean(np.exp(-((quantile / std) ** 2) / 2) / std, axis=0) / np.sqrt(2 * np.pi)
        moved = (level - ndtr(quantile / std)) / density / quantile - (std**2 / np.mean(std**2, axis=0) - 1) / 2
        return quantile / gaussian, quantile / gaussian * moved.std(axis=0) / np.sqrt(self.samples)


def _cell(value: float, error: float) -> Any:
    """A number of the table, without an error where that is only the rounding of Gram matrices."""
    if np.isnan(value):
        return None
    return Estimate(float(value), 0.0 if error < _ROUNDING * abs(value) else float(error))


def _mean(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return draws.mean(axis=0), draws.std(axis=0, ddof=1) / np.sqrt(len(draws))


def excess_kurtosis(variances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The excess kurtosis `3 Var(v) / (E v)^2` of a Gaussian with a random variance `v`.

    Args:
        variances: Draws of `v` along the first axis.

    Returns:
        The excess kurtosis and its standard error, by a jackknife over batches of draws.

    Example:
        >>> import numpy as np
        >>> from limitlaw.networks.trajectory import excess_kurtosis
        >>> v = np.random.default_rng(0).chisquare(6, 100_000) / 6
        >>> value, error = excess_kurtosis(v)
        >>> bool(abs(value - 1) < 4 * error), bool(error < 0.02)  # 6 / dof
        (True, True)
    """
    if len(variances) < 3:  # without one of two draws there is no variance to compute
        return np.zeros(variances.shape[1:]), np.full(variances.shape[1:], np.inf)
    # Leave one batch out: the jackknife removes the bias of order 1 / draws that a ratio of moments has, and the spread
    # over batches gives the standard error. Batches need two sums each, however many draws there are.
    count = min(_BATCHES, len(variances))
    batches = np.array_split(variances, count)
    sizes = np.array([len(batch) for batch in batches]).reshape(-1, *[1] * (variances.ndim - 1))
    first = np.array([batch.sum(axis=0) for batch in batches])
    second = np.array([(batch**2).sum(axis=0) for batch in batches])

    def kurtosis(size: Any, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        mean = first / size
        alive = mean != 0  # a token that is zero in every draw gets the kurtosis 0
        spread = np.maximum(second / size - mean**2, 0.0) * size / np.maximum(size - 1, 1)
        return np.where(alive, 3 * spread / np.where(alive, mean, 1.0) ** 2, 0.0)

    value = kurtosis(len(variances), first.sum(axis=0), second.sum(axis=0))
    left = kurtosis(len(variances) - sizes, first.sum(axis=0) - first, second.sum(axis=0) - second)
    corrected = count * value - (count - 1) * left.mean(axis=0)
    error = np.sqrt((count - 1) / count * ((left - left.mean(axis=0)) ** 2).sum(axis=0))
    return np.maximum(corrected, 0.0), error


def blocks_of(net: NetworkParts) -> int:
    """The number of blocks in a trajectory of a network.

    Args:
        net: The network.

    Returns:
        The number of blocks, not counting the input.

    Example:
        >>> import numpy as np, limitlaw as ll
        >>> from limitlaw.networks.trajectory import blocks_of
        >>> inputs = ll.GramInputs(np.eye(2), sequences=[1, 1])
        >>> blocks_of(ll.Network(inputs, ll.OnSequence(0, ll.Repeat(3, ll.MLP()), ll.LayerNorm()), ll.Readout()))
        4
    """
    return boundaries(_before_readout(net.layers))


def _before_readout(layers: tuple[Node, ...]) -> tuple[Node, ...]:
    return layers[:-1] if layers and layers[-1].ends_network else layers


def trajectory(
    net: NetworkParts, samples: int, width: int | float, seed: int, max_memory: int, progress: bool
) -> Trajectory:
    """Draw a network along its depth, by the Gram reading.

    Args:
        net: The network.
        samples: The number of draws.
        width: The width.
        seed: An integer.
        max_memory: The number of bytes that the draws and the computation may take.
        progress: Whether to show a progress bar.

    Returns:
        The trajectory.

    Raises:
        ArgumentError: If the draws do not fit the memory, or a variance leaves the range of single precision.
    """
    layers = _before_readout(net.layers)
    blocks, by_block = boundaries(layers), has_blocks(layers)
    size = batch_size(net, width)
    # The Gram matrices of a batch at every boundary are held until it is copied.
    held = memory(net, width, size) + 4 * size * (blocks + 1) * net.tokens**2
    kept = 4 * samples * net.tokens * int((blocks + 1) * net.tokens + _observed_heads(layers, width, net.layout))
    if held + kept > max_memory:
        raise ArgumentError(
            "samples",
            f"samples={samples} of {blocks} blocks with {net.tokens} tokens need {format_bytes(held + kept)}, more "
            f"than max_memory={max_memory} ({format_bytes(max_memory)}). Draw fewer samples, or raise max_memory.",
        )
    bound = BoundNetwork.of(net, layers, width, Purpose(frozenset({"entropy"})))
    places: list[tuple[int, tuple[bool, ...] | None]] = []

    def draw(key: PRNGKeyArray) -> tuple[list[Array], list[Array]]:
        recorder = Recorder(by_block, wants_streams=True, observed=frozenset({"entropy"}))
        scope = Scope(random.fold_in(key, 0), random.fold_in(key, 1), bound.frame(size), recorder=recorder)
        bound.run(scope)
        places[:] = [(block, active) for block, _, active in recorder.seen]
        check_sound(recorder)
        return recorder.grams, [jnp.moveaxis(seen["entropy"], -1, 0) for _, seen, _ in recorder.seen]

    batch = Batch(draw, size, held, alone=calls_lapack(net.tokens))
    grams, entropies = draw_batches(batch, samples=samples, seed=seed, max_memory=max_memory, progress=progress)
    keys = _visible_keys(layers, net.layout)
    for (_, active), entropy in zip(places, entropies, strict=True):
        if active is not None:
            entropy[:, :, ~np.array(active)] = np.nan
    return Trajectory(
        np.stack(grams, axis=1),
        tuple(entropies),
        tuple(block for block, _ in places),
        width,
        tuple(
            keys if active is None else np.where(active, keys, 0)
            for keys, (_, active) in zip(keys, places, strict=True)
        ),
    )


def _observed_heads(layers: tuple[Node, ...], width: int | float, layout: Layout) -> float:
    """An upper bound of the number of heads whose entropies a trajectory keeps."""
    nodes = (pair for layer in layers for pair in layer.walk())
    return sum(count * node.cost(width, layout).matrices for node, count in nodes if "entropy" in node.observables)


def _visible_keys(layers: tuple[Node, ...], layout: Layout) -> list[np.ndarray]:
    """The number of keys of each query, for each layer with an observed entropy, in the order in which layers act."""
    found = []
    for layer in layers:
        if isinstance(layer, Layer):
            found += [layer.visible_keys(layout)] if "entropy" in layer.observables else []
        else:
            found += _visible_keys(layer.parts, layout) * layer.times
    return found

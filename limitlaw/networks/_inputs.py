"""Where networks start: laws of the first tokens, each a frozen description."""

from collections.abc import Callable, Sequence
from math import isinf
from typing import Any

import equinox as eqx
import numpy as np

from .. import _arguments
from ..numerics import Activation, activation as resolve_activation, narrow_root
from ._described import InputLayer, Layout
from ._norms import LayerNorm, RMSNorm

_NORMAL_REACH = 9.0  # a standard normal is beyond with probability 2e-19
_SINUSOID_BASE = 10_000.0
_SINUSOID_NODES = 4096  # of the limit of sinusoidal positions at infinite width, an integral over frequencies


class Inputs(InputLayer):
    """The paper's inputs: `x^i = phi(W_i h)`, `h ~ N(0, I_n)`, a fresh `W_i` for each token.

    The tokens share the length of `h` and nothing else, so at infinite width their Gram matrix has `E phi(z)^2` on the
    diagonal and `(E phi(z))^2` off it. (Sakai, Karakida, Imaizumi 2025, section 5.)

    !!! Example

        >>> import limitlaw as ll
        >>> ll.Inputs(tokens=4, activation="relu")
        Inputs(tokens=4, activation=relu)
    """

    tokens: int = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)

    def __init__(self, tokens: int, activation: str | Activation | Callable[[Any], Any] = "identity"):
        self.tokens = int(_arguments.positive_integer("tokens", tokens))
        self.activation = resolve_activation(activation)

    @property
    def size(self) -> int:
        return self.tokens

    def check_width(self, width: int | float, *, mean: bool = False) -> None:
        del mean
        if self.activation.identity_up_to < _NORMAL_REACH:
            _arguments.countable("width", width)

    def limit_gram(self) -> np.ndarray:
        across, own = self._limit_products()
        return np.full((self.tokens, self.tokens), across) + np.eye(self.tokens) * (own - across)

    def _limit_products(self) -> tuple[float, float]:
        """`(E phi(z))^2` and `E phi(z)^2`, in closed form where there is one."""
        phi = self.activation
        if phi.identity_up_to >= _NORMAL_REACH:
            return 0.0, 1.0
        if phi.dual is not None:
            return float(phi.dual(1.0, 1.0, 0.0)), float(phi.dual(1.0, 1.0, 1.0))
        first, second = phi.moments()
        return first**2, second


class _WithGram(InputLayer):
    """Inputs that are given by a matrix `K`, and the lengths of the sequences that its tokens form."""

    K: eqx.AbstractVar[np.ndarray]
    sequences: eqx.AbstractVar[tuple[int, ...] | None]

    @property
    def size(self) -> int:
        return len(self.K)

    @property
    def layout(self) -> Layout:
        return Layout(self.sequences or (self.size,))

    def limit_gram(self) -> np.ndarray:
        return self.K


class GramInputs(_WithGram):
    """Fixed tokens with Gram matrix `K = X X^T / n` and coordinate mean `mean = X 1 / n`, the same at every width.

    A finite width must have room for them: at least the rank of `K` (of `K - mean mean^T`, plus one, if a mean is given or a layer
    looks at it). `sequences` are the lengths of several sequences whose tokens are stacked; by default there is one.

    !!! Example

        >>> import limitlaw as ll
        >>> ll.GramInputs([[1.0, 0.3], [0.3, 1.0]])
        GramInputs(K=[[1. , 0.3], [0.3, 1. ]])
    """

    K: np.ndarray
    mean: np.ndarray | None = None
    sequences: tuple[int, ...] | None = eqx.field(static=True, default=None)

    def __init__(self, K: Any, mean: Any = None, *, sequences: Sequence[int] | None = None):
        self.K = _arguments.psd_matrix("K", K)
        self.sequences = _lengths(sequences, len(self.K))
        self.mean = None if mean is None else _arguments.finite_array("mean", mean, 1)
        if self.mean is not None:
            if self.mean.shape != (self.size,):
                raise ValueError(
                    f"mean has shape {self.mean.shape}: K has {self.size} tokens, so it must be ({self.size},)."
                )
            smallest = np.linalg.eigvalsh(self.centred)[0]
            if smallest < -1e-6 * np.abs(self.K).max():
                raise ValueError(
                    f"mean={self.mean}: no tokens with Gram matrix K have it, since K - mean mean^T has the eigenvalue "
                    f"{smallest:.6g}; shrink the mean."
                )

    @property
    def centred(self) -> np.ndarray:
        """`K - mean mean^T`: the Gram matrix of the tokens less their coordinate mean."""
        return self.K if self.mean is None else self.K - np.outer(self.mean, self.mean)

    def check_width(self, width: int | float, *, mean: bool = False) -> None:
        counted = mean or self.mean is not None
        rank = narrow_root(self.centred).shape[1] + counted
        if width < rank:
            raise ValueError(
                f"width={width}: GramInputs has tokens of rank {rank}{' (the mean counts for one)' * counted}, "
                f"which do not fit; use width >= {rank}, or GaussianInputs(K), which exists at every width."
            )


class GaussianInputs(_WithGram):
    """Random tokens whose coordinates are i.i.d. `N(0, K)` across the width; `sequences` as in `GramInputs`.

    !!! Example

        >>> import numpy as np, limitlaw as ll
        >>> ll.GaussianInputs(np.eye(2))
        GaussianInputs(K=[[1., 0.], [0., 1.]])
    """

    K: np.ndarray
    sequences: tuple[int, ...] | None = eqx.field(static=True, default=None)

    def __init__(self, K: Any, *, sequences: Sequence[int] | None = None):
        self.K = _arguments.psd_matrix("K", K)
        self.sequences = _lengths(sequences, len(self.K))


class Embedding(InputLayer):
    """Token ids through random tables: `x_t = E[id_t] + P[t] (+ T[type_t])`, entries `N(0, std^2)`, `N(0, position_std^2)`, `N(0, type_std^2)`.

    Equal ids are equal rows before positions are added. `ids` is a list, or a list of lists for several sequences through one
    network. `positions` is None, "learned" (a random table) or "sinusoidal" (Vaswani et al. 2017, `position_std` times sines and cosines
    of the position at frequencies `10000^(-2i/n)`). `types` names a row of a third table for each token. The row of the id
    `padding` is zero. `norm` acts on the sum, as in BERT. `vocabulary` and `max_positions` bound ids and positions.

    !!! Example

        >>> import limitlaw as ll
        >>> print(ll.Embedding([3, 17, 3], positions="learned", position_std=0.5).limit_gram())
        [[1.25 0.   1.  ]
         [0.   1.25 0.  ]
         [1.   0.   1.25]]
    """

    ids: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    std: Any = 1.0
    positions: str | None = eqx.field(static=True, default=None)
    position_std: Any = 1.0
    types: tuple[tuple[int, ...], ...] | None = eqx.field(static=True, default=None)
    type_std: Any = 1.0
    vocabulary: int | None = eqx.field(static=True, default=None)
    max_positions: int | None = eqx.field(static=True, default=None)
    padding: int | None = eqx.field(static=True, default=None)
    norm: LayerNorm | RMSNorm | None = None

    def __init__(
        self,
        ids: Any,
        *,
        std: float = 1.0,
        positions: str | None = None,
        position_std: float = 1.0,
        types: Any = None,
        type_std: float = 1.0,
        vocabulary: int | None = None,
        max_positions: int | None = None,
        padding: int | None = None,
        norm: LayerNorm | RMSNorm | None = None,
    ):
        self.vocabulary = None if vocabulary is None else int(_arguments.positive_integer("vocabulary", vocabulary))
        self.ids = _ids("ids", ids, self.vocabulary)
        self.std = _arguments.non_negative("std", std)
        self.positions = (
            None if positions is None else _arguments.one_of("positions", positions, ["learned", "sinusoidal"])
        )
        self.position_std = _arguments.non_negative("position_std", position_std)
        self.types = None if types is None else _ids("types", types, None)
        if self.types is not None and Layout(tuple(map(len, self.types))) != self.layout:
            raise ValueError(f"types={types!r}: there must be one for every id, in the same sequences.")
        self.type_std = _arguments.non_negative("type_std", type_std)
        self.max_positions = (
            None if max_positions is None else int(_arguments.positive_integer("max_positions", max_positions))
        )
        longest = max(self.layout.lengths)
        if self.max_positions is not None and longest > self.max_positions:
            raise ValueError(
                f"ids: a sequence has {longest} tokens, but max_positions={self.max_positions}; shorten it, or raise max_positions."
            )
        self.padding = None if padding is None else _arguments.natural("padding", padding)
        if self.padding is not None and self.vocabulary is not None and self.padding >= self.vocabulary:
            raise ValueError(f"padding={padding}: is out of range; it must lie in [0, {self.vocabulary - 1}].")
        if norm is not None and not isinstance(norm, LayerNorm | RMSNorm):
            raise TypeError(f"norm={norm!r}: must be None, LayerNorm(...) or RMSNorm(...).")
        self.norm = norm
        if norm is not None and norm.eps == 0 and self.vanishing().any():
            raise ValueError(
                f"norm={norm!r}: token {int(self.vanishing().argmax())} is zero, which eps=0 cannot normalise; give eps > 0."
            )

    @property
    def size(self) -> int:
        return self.layout.size

    @property
    def layout(self) -> Layout:
        return Layout(tuple(map(len, self.ids)))

    @property
    def table_gram(self) -> np.ndarray:
        """The covariance of a coordinate of what the random tables give."""
        ids = np.concatenate(self.ids)
        covariance = float(self.std) ** 2 * ((ids[:, None] == ids) & (ids != self.padding))
        if self.positions == "learned":
            position = self.layout.position
            covariance = covariance + float(self.position_std) ** 2 * (position[:, None] == position)
        if self.types is not None:
            types = np.concatenate(self.types)
            covariance = covariance + float(self.type_std) ** 2 * (types[:, None] == types)
        return covariance

    def sinusoids(self, width: int | float) -> np.ndarray:
        """The fixed part of the tokens, `(tokens, width)`: sines and cosines of the positions; at infinite width, on a fine grid of frequencies."""
        columns = 2 * _SINUSOID_NODES if isinf(width) else int(width)
        if self.positions != "sinusoidal":
            return np.zeros((self.size, columns))
        pairs = np.arange(0, columns, 2)
        shift = 1.0 if isinf(width) else 0.0  # a midpoint rule; at a finite width the table itself
        angles = np.outer(self.layout.position, _SINUSOID_BASE ** -((pairs + shift) / columns))
        table = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(self.size, -1)[:, :columns]
        return float(self.position_std) * table

    def summed_gram(self) -> np.ndarray:
        """The Gram matrix at infinite width before the norm."""
        fixed = self.sinusoids(np.inf)
        return self.table_gram + fixed @ fixed.T / fixed.shape[1]

    def limit_gram(self) -> np.ndarray:
        gram = self.summed_gram()
        if self.norm is None:
            return gram
        mean = self.sinusoids(np.inf).mean(axis=1) if self.norm.needs_mean else np.zeros(self.size)
        centred = gram - np.outer(mean, mean)
        scale = 1 / np.sqrt(np.diagonal(centred) + float(self.norm.eps))
        return centred * scale[:, None] * scale

    def vanishing(self) -> np.ndarray:
        return np.diagonal(self.summed_gram()) <= 0


def _ids(name: str, value: Any, vocabulary: int | None) -> tuple[tuple[int, ...], ...]:
    """Token ids as sequences of integers."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, Sequence) or isinstance(value, str) or not len(value):
        raise TypeError(f"{name}={value!r}: must be a list of integers, or a list of such lists.")
    nested = [isinstance(item, Sequence | np.ndarray) for item in value]
    rows = [list(row) for row in value] if all(nested) else [list(value)]
    for row in rows:
        for item in row:
            if isinstance(item, bool) or not isinstance(item, int | np.integer):
                raise TypeError(
                    f"{name}={value!r}: must be a list of integers, or a list of such lists; {item!r} is not one."
                )
            if item < 0 or (vocabulary is not None and item >= vocabulary):
                bound = f"[0, {vocabulary - 1}]" if vocabulary is not None else "[0, ...]"
                raise ValueError(f"{name}: {item} is out of range; it must lie in {bound}.")
        if not row:
            raise ValueError(f"{name}={value!r}: a sequence is empty; give it at least one token.")
    return tuple(tuple(int(item) for item in row) for row in rows)


def _lengths(sequences: Sequence[int] | None, tokens: int) -> tuple[int, ...] | None:
    """Lengths of stacked sequences, which must add up to the number of tokens."""
    if sequences is None:
        return None
    if not isinstance(sequences, Sequence | np.ndarray) or isinstance(sequences, str):
        raise TypeError(f"sequences={sequences!r}: must be a list of lengths, such as [{tokens}].")
    lengths = tuple(int(_arguments.positive_integer("sequences", length)) for length in sequences)
    if sum(lengths) != tokens:
        raise ValueError(f"sequences={lengths}: their lengths add up to {sum(lengths)}, but there are {tokens} tokens.")
    return lengths

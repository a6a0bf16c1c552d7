"""Multi-head softmax attention, in the variants people use."""

from math import isinf
from typing import Any

import equinox as eqx
import numpy as np

from .. import _arguments
from ._described import Layer, Layout

_ROPE_NODES = 32  # frequencies of rotary positions at infinite head dimension, at least


class Attention(Layer):
    """Multi-head softmax attention, `Y = H^{-1/2} sum_a softmax(S_a) X W_V^a W_O^a`, `S_a = X W_Q^a (X W_K^a)^T / sqrt(d)`.

    Weights are independent `N(0, std^2 / fan_in)`. `head_dim` is the `d` of each head: a number, `inf`, None (as wide as
    the model) or "split" (width / heads). `scale="linear"` divides the scores by `d` instead of `sqrt(d)`. `tie_qk=True`
    uses one standard normal matrix `G` for both, `W_Q = query_std G / sqrt(n)`, `W_K = key_std G / sqrt(n)`; it needs the
    linear scale. `mask` is None, "causal", or a boolean matrix `(query, key)`, True where a query may look.
    `heads=inf` is the Gaussian regime of Hron et al. 2020; it exists at infinite width alone.

    - `kv_heads`: heads share keys and values in this many groups (grouped-query attention; 1 is multi-query).
    - `rope`: rotary positions; the base of the frequencies `base^(-2i/d)`, or the frequencies themselves, one for each rotated pair.
    - `score_bias`: added to the scores; a matrix `(query, key)`, one for each head `(heads, query, key)`, or "alibi" (Press et al. 2022).
    - `query_bias_std`, `key_bias_std`, `value_bias_std`, `out_bias_std`: Gaussian biases of the four maps, entries `N(0, std^2)`.
    - `context=k`: keys and values come from sequence `k` of the inputs (cross attention); see `Only`.

    Tokens look at their own sequence alone (but for `context`).

    !!! Example

        >>> import limitlaw as ll
        >>> ll.Attention(heads=16, head_dim=64, mask="causal")
        Attention(heads=16, head_dim=64, mask='causal')
        >>> ll.Attention(heads=32, head_dim="split", kv_heads=8, rope=10_000.0, mask="causal")
        Attention(heads=32, head_dim='split', mask='causal', kv_heads=8, rope=10000.0)
    """

    heads: int | float = eqx.field(static=True)
    head_dim: Any = None
    mask: Any = None
    scale: str = eqx.field(static=True, default="sqrt")
    tie_qk: bool = eqx.field(static=True, default=False)
    query_std: Any = 1.0
    key_std: Any = 1.0
    value_std: Any = 1.0
    out_std: Any = 1.0
    kv_heads: int | None = eqx.field(static=True, default=None)
    rope: Any = None
    score_bias: Any = None
    query_bias_std: Any = 0.0
    key_bias_std: Any = 0.0
    value_bias_std: Any = 0.0
    out_bias_std: Any = 0.0
    context: int | None = eqx.field(static=True, default=None)

    def __init__(
        self,
        heads: int | float = 1,
        *,
        head_dim: int | float | str | None = None,
        mask: Any = None,
        scale: str = "sqrt",
        tie_qk: bool = False,
        query_std: float = 1.0,
        key_std: float = 1.0,
        value_std: float = 1.0,
        out_std: float = 1.0,
        kv_heads: int | None = None,
        rope: Any = None,
        score_bias: Any = None,
        query_bias_std: float = 0.0,
        key_bias_std: float = 0.0,
        value_bias_std: float = 0.0,
        out_bias_std: float = 0.0,
        context: int | None = None,
    ):
        self.heads = _arguments.positive_integer("heads", heads, infinite=True)
        if isinstance(head_dim, str):
            if head_dim != "split":
                raise ValueError(
                    f"head_dim={head_dim!r}: must be a positive integer, inf, None (as wide as the model) or 'split'."
                )
            if isinf(self.heads):
                raise ValueError(
                    "head_dim='split': the width cannot be split over heads=inf; give head_dim a number, or use finite heads."
                )
        elif head_dim is not None:
            head_dim = _arguments.positive_integer("head_dim", head_dim, infinite=True)
        self.head_dim = head_dim
        self.mask = _mask(mask)
        self.scale = _arguments.one_of("scale", scale, ["sqrt", "linear"])
        if not isinstance(tie_qk, bool):
            raise TypeError(f"tie_qk={tie_qk!r}: must be True or False.")
        self.tie_qk = tie_qk
        if self.tie_qk and self.scale == "sqrt":
            raise ValueError(
                "tie_qk=True with scale='sqrt': with one matrix for queries and keys the scores grow like sqrt(head_dim), "
                "so no limit exists; use scale='linear', or tie_qk=False."
            )
        self.query_std = _arguments.non_negative("query_std", query_std)
        self.key_std = _arguments.non_negative("key_std", key_std)
        self.value_std = _arguments.non_negative("value_std", value_std)
        self.out_std = _arguments.non_negative("out_std", out_std)
        self.query_bias_std = _arguments.non_negative("query_bias_std", query_bias_std)
        self.key_bias_std = _arguments.non_negative("key_bias_std", key_bias_std)
        self.value_bias_std = _arguments.non_negative("value_bias_std", value_bias_std)
        self.out_bias_std = _arguments.non_negative("out_bias_std", out_bias_std)
        self.kv_heads = None if kv_heads is None else int(_arguments.positive_integer("kv_heads", kv_heads))
        if self.kv_heads is not None and (isinf(self.heads) or self.heads % self.kv_heads):
            raise ValueError(
                f"kv_heads={self.kv_heads}: heads={self.heads} cannot be dealt out to that many groups; use a divisor of a finite number of heads."
            )
        self.rope = _rope(rope)
        self.score_bias = _score_bias(score_bias, self.heads)
        self.context = None if context is None else _arguments.natural("context", context)
        extras = {"kv_heads": self.kv_heads is not None, "rope": self.rope is not None}
        if self.tie_qk:
            extras |= {"query_bias_std": self.query_bias_std > 0, "key_bias_std": self.key_bias_std > 0}
            extras |= {"context": self.context is not None}
        if self.tie_qk or isinf(self.heads):
            why = "tie_qk=True" if self.tie_qk else "heads=inf"
            for name in (name for name, given in extras.items() if given):
                raise ValueError(
                    f"{name}={getattr(self, name)!r} with {why}: not supported together; leave one of them out."
                )

    def head_dim_at(self, width: Any) -> Any:
        """The dimension of a head at this width (which may be traced).

        !!! Example

            >>> import limitlaw as ll
            >>> [ll.Attention(heads=4, head_dim=d).head_dim_at(64) for d in (None, "split", 8)]
            [64, 16, 8]
        """
        if self.head_dim is None:
            return width
        if isinstance(self.head_dim, str):
            return width // self.heads if isinstance(width, int) else width / self.heads
        return self.head_dim

    @property
    def groups(self) -> int:
        """How many keys and values there are: one for each head, unless heads share them."""
        return int(self.kv_heads or self.heads)

    @property
    def is_plain(self) -> bool:
        """Whether the scores are all there is to it: no biases, shared keys, rotations, additions to scores or other sequences."""
        added = (self.query_bias_std, self.key_bias_std, self.value_bias_std, self.out_bias_std)
        shared = self.kv_heads is not None and self.kv_heads != self.heads
        given = (self.rope, self.score_bias, self.context)
        return not any(added) and not shared and all(option is None for option in given)

    @property
    def ends_fresh(self) -> bool:
        return True

    def allowed(self, layout: Layout) -> Any:
        """The mask as a boolean matrix `(query, key)`, or None where every query sees every key."""
        sequence, position = layout.sequence, layout.position
        if self.context is not None:
            seen = np.broadcast_to(sequence == self.context, (layout.size, layout.size))
        else:
            seen = sequence[:, None] == sequence
        if isinstance(self.mask, str):
            seen = seen & (position[:, None] >= position)
        elif self.mask is not None:
            seen = seen & self.mask
        return None if seen.all() else np.array(seen)

    def added(self, layout: Layout) -> np.ndarray | None:
        """What is added to the scores, `(heads or 1, query, key)`, float64."""
        if self.score_bias is None:
            return None
        if isinstance(self.score_bias, str):
            distance = np.abs(layout.position[:, None] - layout.position)
            return -alibi_slopes(int(self.heads))[:, None, None] * distance
        return self.score_bias if self.score_bias.ndim == 3 else self.score_bias[None]

    def frequencies(self, head_dim: int | float, tokens: int) -> tuple[np.ndarray, np.ndarray]:
        """Of the rotations of the pairs of coordinates of a head, with their weights, float64.

        At infinite dimension the nodes of Gauss's rule for the average over `base^-u`, `u` uniform.

        !!! Example

            >>> import limitlaw as ll
            >>> ll.Attention(rope=10_000.0).frequencies(8, 4)[0].round(6).tolist()
            [1.0, 0.1, 0.01, 0.001]
        """
        if isinf(head_dim) and not isinstance(self.rope, np.ndarray):
            nodes, weights = np.polynomial.legendre.leggauss(max(_ROPE_NODES, tokens))
            return self.rope ** -((nodes + 1) / 2), weights / 2
        if isinf(head_dim):
            frequencies = self.rope
        else:
            pairs = int(head_dim) // 2
            given = self.rope if isinstance(self.rope, np.ndarray) else self.rope ** -(np.arange(pairs) / pairs)
            frequencies = np.concatenate([given, np.zeros(pairs - len(given))])
        return frequencies, np.full(len(frequencies), 1 / len(frequencies))

    def check_layout(self, layout: Layout) -> None:
        if isinstance(self.mask, np.ndarray) and self.mask.shape != (layout.size, layout.size):
            raise ValueError(
                f"mask has shape {self.mask.shape}: the inputs have {layout.size} tokens, so it must be ({layout.size}, {layout.size})."
            )
        if isinstance(self.score_bias, np.ndarray) and self.score_bias.shape[-2:] != (layout.size, layout.size):
            raise ValueError(
                f"score_bias has shape {self.score_bias.shape}: the inputs have {layout.size} tokens, so it must end in ({layout.size}, {layout.size})."
            )
        if self.context is not None and self.context >= len(layout.lengths):
            raise ValueError(
                f"context={self.context}: the inputs have {len(layout.lengths)} sequences; give them more with sequences=..., or a smaller context."
            )
        allowed = self.allowed(layout)
        if allowed is not None and not allowed.any(axis=1).all():
            row = int(np.flatnonzero(~allowed.any(axis=1))[0])
            where = "its sequence" if self.context is None else f"sequence {self.context}"
            raise ValueError(
                f"mask: token {row} may look at no token of {where}; set an entry of mask[{row}] that does to True."
            )

    def check_width(self, width: int | float) -> None:
        _arguments.countable("heads", self.heads)
        if isinf(self.heads) and not isinf(width):
            raise ValueError(
                f"heads=inf at width={width}: infinitely many heads exist at infinite width alone; use width=inf, or finite heads."
            )
        if self.head_dim == "split" and not isinf(width) and width % self.heads:
            raise ValueError(
                f"width={width} is not divisible by heads={self.heads}, as head_dim='split' needs; "
                f"use a multiple of {self.heads}, or give head_dim a number."
            )

        head_dim = self.head_dim_at(width)
        if self.rope is not None and not isinf(head_dim):
            if head_dim % 2:
                raise ValueError(
                    f"rope={self.rope!r} with a head dimension of {head_dim}: rotations act on pairs of coordinates; use an even head_dim."
                )
            if isinstance(self.rope, np.ndarray) and 2 * len(self.rope) > head_dim:
                raise ValueError(
                    f"rope has {len(self.rope)} frequencies: a head of {head_dim} coordinates has {head_dim // 2} pairs; give at most as many."
                )

    def is_deterministic(self, width: int | float) -> bool:
        no_queries = self.query_std == 0 and self.query_bias_std == 0
        equal_keys = self.key_std == 0 and (
            self.key_bias_std == 0 or self.rope is None
        )  # a bias that is not turned shifts all scores
        still = self.scale == "linear" or no_queries or equal_keys
        return isinf(self.heads) or (isinf(self.head_dim_at(width)) and still)


def _mask(mask: Any) -> Any:
    if mask is None or (isinstance(mask, str) and mask == "causal"):
        return mask
    if isinstance(mask, str):
        raise ValueError(f"mask={mask!r}: must be None, 'causal', or a boolean matrix (query, key).")
    try:
        array = np.array(mask)  # a copy: what was checked stays as it was
    except ValueError:
        raise ValueError(
            f"mask={mask!r}: its rows have different lengths; it must be a square boolean matrix."
        ) from None
    if array.dtype != bool or array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise ValueError(
            f"mask is {array.dtype} of shape {array.shape}: it must be a square boolean matrix (query, key), True where a query may look."
        )
    empty = np.flatnonzero(~array.any(axis=1))
    if empty.size:
        raise ValueError(
            f"mask: row {empty[0]} is empty, so token {empty[0]} may look nowhere; set mask[{empty[0]}, {empty[0]}] = True."
        )
    return array


def _rope(rope: Any) -> Any:
    """A base as a float, or frequencies as an array."""
    if rope is None:
        return None
    if np.ndim(rope) == 0:
        base = _arguments.non_negative("rope", rope)
        if base <= 1:
            raise ValueError(f"rope={rope!r}: the base of the frequencies must be above 1, such as 10000.")
        return base
    frequencies = _arguments.finite_array("rope", rope, 1)
    if not frequencies.size:
        raise ValueError("rope=[]: has no frequencies; give some, or a base such as 10000, or leave it out.")
    return frequencies


def _score_bias(bias: Any, heads: int | float) -> Any:
    if bias is None:
        return None
    if isinstance(bias, str):
        _arguments.one_of("score_bias", bias, ["alibi"])
        if isinf(heads):
            raise ValueError(
                "score_bias='alibi' with heads=inf: its slopes belong to a finite number of heads; use finite heads."
            )
        return bias
    if np.isneginf(np.asarray(bias, float)).any():
        raise ValueError("score_bias has entries of -inf: what a query may not see belongs into mask; use mask=...")
    array = _arguments.finite_array("score_bias", bias, 3 if np.ndim(bias) == 3 else 2)
    if array.ndim == 3 and len(array) != heads:
        raise ValueError(
            f"score_bias has shape {array.shape}: there are heads={heads}; give one matrix for each, or one for all."
        )
    return array


def alibi_slopes(heads: int) -> np.ndarray:
    """The slopes of ALiBi (Press, Smith, Lewis 2022): `2^(-8i/H)` for a power of two, else those of the powers of two around it, interleaved.

    !!! Example

        >>> from limitlaw.networks._attention import alibi_slopes
        >>> print(alibi_slopes(4))
        [0.25       0.0625     0.015625   0.00390625]
    """
    whole = 2 ** int(np.log2(heads))
    slopes = 2.0 ** (-8.0 / whole * np.arange(1, whole + 1))
    between = 2.0 ** (-4.0 / whole * np.arange(1, 2 * (heads - whole), 2))
    return np.concatenate([slopes, between])

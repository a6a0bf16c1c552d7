"""Multi-head softmax attention and its variants: description, checks, matrices and inner map."""

from collections.abc import Mapping
from math import inf, isinf, sqrt
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .... import _checks
from ...._checks import ArgumentError, ArgumentTypeError, is_traced
from ..._layer import Context, Cost, Layer, Layout, Lowered, Matrix, Purpose
from ..._rules import as_numbers
from . import _exact, _lowering
from ._contracted import EXPECTATION_AT_ONCE, ContractedAttention

if TYPE_CHECKING:
    from ....laws import Atoms
    from ....netsor import Program, Vector

_ROPE_NODES = 32  # least number of quadrature nodes over rotary frequencies at infinite head dimension
_FEW_TOKENS = 32  # tokens up to which a Bartlett factor costs no more than coordinates; it serves every head_dim


def _std(name: str) -> Any:
    return eqx.field(default=1.0, kw_only=True, converter=lambda value: _checks.standard_deviation(name, value))


def _bias_std(name: str) -> Any:
    return eqx.field(default=0.0, kw_only=True, converter=lambda value: _checks.standard_deviation(name, value))


class Attention(Layer):
    """Multi-head softmax attention, `Y = H^{-1/2} sum_a softmax(S_a) X W_V^a W_O^a`.

    The scores of head `a` are `S_a = X W_Q^a (X W_K^a)^T / sqrt(d)`. Weights are independent `N(0, std^2 / fan_in)`.
    Tokens attend to their own sequence only, unless `context` is given. The matrices are "query", "key", "value" and
    "out"; `u["query"]` is `(tokens, heads * head_dim)`.

    Args:
        heads: The number of heads. `inf` is the Gaussian regime of Hron et al. 2020, defined only at infinite width.
        head_dim: The dimension `d` of a head: a number, `inf`, None (the width) or "split" (width / heads).
        mask: None, "causal", or a boolean matrix `(query, key)`, True where a query may attend.
        scale: "sqrt" divides `q.k` by `sqrt(d)`, "linear" by `d`; a number multiplies it.
        tie_qk: Whether queries and keys share one standard normal matrix `G`, so `W_Q = query_std G / sqrt(n)` and
            `W_K = key_std G / sqrt(n)`. This needs `scale="linear"` or a number.
        query_std: The standard deviation of an entry of `W_Q` times `sqrt(n)`; `key_std`, `value_std` and `out_std`
            likewise, each with the fan-in of its matrix.
        kv_heads: The number of groups of heads that share keys and values (grouped-query attention; 1 is multi-query).
        rope: Rotary positions: the base of the frequencies `base^(-2i/d)`, or the frequencies themselves, one for each
            rotated pair.
        score_bias: Numbers added to the scores: a matrix `(query, key)`, one for each head `(heads, query, key)`, or
            "alibi" (Press et al. 2022).
        query_bias_std: The standard deviation of an entry of the bias of the queries; `key_bias_std`, `value_bias_std`
            and `out_bias_std` likewise.
        context: The index of the sequence from which keys and values come (cross attention); see `OnSequence`.

    Raises:
        ArgumentError: If an argument is out of range, or two arguments are incompatible.

    Example:
        >>> import limitlaw as ll
        >>> ll.Attention(heads=16, head_dim=64, mask="causal")
        Attention(heads=16, head_dim=64, mask='causal')
        >>> ll.Attention(heads=32, head_dim="split", kv_heads=8, rope=10_000.0, mask="causal")
        Attention(heads=32, head_dim='split', mask='causal', kv_heads=8, rope=10000.0)
    """

    heads: int | float = eqx.field(
        default=1, converter=lambda heads: _checks.positive_integer("heads", heads, infinite=True)
    )
    head_dim: int | float | str | None = eqx.field(default=None, kw_only=True, converter=lambda d: _head_dim(d))
    mask: str | np.ndarray | None = eqx.field(default=None, kw_only=True, converter=lambda mask: _mask(mask))
    scale: float | str = eqx.field(default="sqrt", kw_only=True, converter=lambda scale: _scale(scale))
    tie_qk: bool = eqx.field(default=False, kw_only=True, converter=lambda value: _checks.boolean("tie_qk", value))
    query_std: float = _std("query_std")
    key_std: float = _std("key_std")
    value_std: float = _std("value_std")
    out_std: float = _std("out_std")
    kv_heads: int | None = eqx.field(
        default=None,
        kw_only=True,
        converter=lambda k: None if k is None else int(_checks.positive_integer("kv_heads", k)),
    )
    rope: float | np.ndarray | None = eqx.field(default=None, kw_only=True, converter=lambda rope: _rope(rope))
    score_bias: str | np.ndarray | None = eqx.field(default=None, kw_only=True, converter=lambda b: _score_bias(b))
    query_bias_std: float = _bias_std("query_bias_std")
    key_bias_std: float = _bias_std("key_bias_std")
    value_bias_std: float = _bias_std("value_bias_std")
    out_bias_std: float = _bias_std("out_bias_std")
    context: int | None = eqx.field(
        default=None, kw_only=True, converter=lambda k: None if k is None else _checks.natural("context", k)
    )

    def __check_init__(self) -> None:
        if self.head_dim == "split" and isinf(self.heads):
            raise ArgumentError(
                "head_dim",
                "head_dim='split' cannot split the width over heads=inf. Give head_dim a number, or use finite heads.",
            )
        if self.head_dim == inf and not isinstance(self.scale, str):
            raise ArgumentError(
                "scale",
                f"scale={self.scale!r} is not defined for head_dim=inf, because scores that are multiplied by a number "
                f"grow with the head dimension. Use scale='sqrt' or 'linear', or a finite head_dim.",
            )
        if self.tie_qk and self.scale == "sqrt":
            raise ArgumentError(
                "tie_qk",
                "tie_qk=True with scale='sqrt' has no limit, because with one matrix for queries and keys the scores "
                "grow like sqrt(head_dim). Use scale='linear', or tie_qk=False.",
            )
        if self.kv_heads is not None and (isinf(self.heads) or self.heads % self.kv_heads):
            raise ArgumentError(
                "kv_heads",
                f"kv_heads={self.kv_heads} does not divide heads={self.heads}. Use a divisor of a finite number of "
                "heads.",
            )
        if isinf(self.heads) and isinstance(self.score_bias, str):
            raise ArgumentError(
                "score_bias",
                "score_bias='alibi' is not defined for heads=inf, because each head has its own slope. Use finite "
                "heads.",
            )
        if isinstance(self.score_bias, np.ndarray) and self.score_bias.ndim == 3 and len(self.score_bias) != self.heads:
            raise ArgumentError(
                "score_bias",
                f"score_bias has shape {self.score_bias.shape}, but there are heads={self.heads}. "
                f"Give one matrix for each head, or one for all.",
            )
        extras = {"kv_heads": self.kv_heads is not None, "rope": self.rope is not None}
        if self.tie_qk:
            biased = {name: not _checks.is_zero(getattr(self, name)) for name in ("query_bias_std", "key_bias_std")}
            extras |= biased | {"context": self.context is not None}
        if self.tie_qk or isinf(self.heads):
            why = "tie_qk=True" if self.tie_qk else "heads=inf"
            for name in (name for name, given in extras.items() if given):
                raise ArgumentError(
                    name, f"{name}={getattr(self, name)!r} is not supported together with {why}. Leave one of them out."
                )

    @property
    def groups(self) -> int:
        """The number of sets of keys and values: one for each head, unless heads share them."""
        return int(self.kv_heads or self.heads)

    @property
    def observables(self) -> tuple[str, ...]:
        """The names of the observables: "scores" and "entropy" of each head, or none for infinitely many heads."""
        return () if isinf(self.heads) else ("scores", "entropy")

    def head_dim_at(self, width: int | float) -> int | float:
        """The dimension of a head at this width.

        Args:
            width: The width of the model, or `inf`.

        Returns:
            The dimension, a whole number or `inf`.

        Example:
            >>> import limitlaw as ll
            >>> [ll.Attention(heads=4, head_dim=d).head_dim_at(64) for d in (None, "split", 8)]
            [64, 16, 8]
        """
        if self.head_dim is None:
            return width
        if isinstance(self.head_dim, str):
            return width // int(self.heads) if isinstance(width, int) else width / self.heads
        return self.head_dim

    def matrices(self, width: int | float, layout: Layout) -> dict[str, Matrix]:
        del layout
        head_dim = self.head_dim_at(width)
        all_heads = self.heads * head_dim
        of_keys = head_dim * (self.heads if self.kv_heads is None else self.kv_heads)
        return {
            "query": Matrix(all_heads, self.query_std, self.query_bias_std),
            "key": Matrix(of_keys, self.key_std, self.key_bias_std, same_as="query" if self.tie_qk else None),
            "value": Matrix(of_keys, self.value_std, self.value_bias_std),
            "out": Matrix(width, self.out_std, self.out_bias_std),
        }

    def inner(self, u: dict[str, Array], context: Context) -> tuple[Array, dict[str, Array]]:
        """The attended values of all heads side by side, with the scores before the mask and the entropies."""
        heads, groups = int(self.heads), self.groups
        queries = self.rotate(_by_head(u["query"], heads), context.layout)
        keys = self.rotate(_by_head(u["key"], groups), context.layout)
        # Heads of a group share keys and values, which are copied here. The contracted rule never copies them.
        keys, values = (jnp.repeat(x, heads // groups, axis=0) for x in (keys, _by_head(u["value"], groups)))
        scores = self.scores(queries, keys, context.layout)
        weights = self.weights(scores, context.layout)
        mixed = jnp.einsum("hij,hjd->ihd", weights, values, precision="highest")
        entropy = -jnp.sum(jax.scipy.special.xlogy(weights, weights), axis=-1)
        return mixed.reshape(mixed.shape[0], -1), {"scores": scores, "entropy": entropy}

    def rotate(self, vectors: Float[Array, "h s d"], layout: Layout) -> Float[Array, "h s d"]:
        """Vectors after rotary positions: each pair of coordinates rotated by `position x frequency`, given `rope`."""
        if self.rope is None:
            return vectors
        frequencies = self.frequencies(vectors.shape[-1], layout.size)[0]
        angle = jnp.outer(jnp.asarray(layout.position, vectors.dtype), jnp.asarray(frequencies, vectors.dtype))
        first, second = jnp.split(vectors, 2, axis=-1)
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        return jnp.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)

    def scores(
        self, queries: Float[Array, "h s d"], keys: Float[Array, "h s d"], layout: Layout
    ) -> Float[Array, "h s s"]:
        """The scaled products `q k^T` plus the score bias, before the mask and the softmax."""
        scores = self.score_factor(queries.shape[-1]) * jnp.einsum("hid,hjd->hij", queries, keys, precision="highest")
        added = self.added(layout)
        return scores if added is None else scores + jnp.asarray(added, scores.dtype)

    def weights(self, scores: Float[Array, "h s s"], layout: Layout) -> Float[Array, "h s s"]:
        """The softmax over the keys that the mask allows."""
        allowed = self.allowed(layout)
        logits = scores if allowed is None else jnp.where(allowed, scores, -jnp.inf)
        return jax.nn.softmax(logits, axis=-1)

    def score_factor(self, head_dim: int | float) -> Any:
        """The factor of `q.k` in a score."""
        if isinstance(self.scale, str):
            return 1.0 / (head_dim if self.scale == "linear" else sqrt(head_dim))
        return self.scale

    def allowed(self, layout: Layout) -> np.ndarray | None:
        """The mask as a boolean matrix `(query, key)`; None if every query attends to every key."""
        if self.mask is None and self.context is None and len(layout.lengths) == 1:
            return None
        sequence, position = layout.sequence, layout.position
        if self.context is not None:
            allowed = np.broadcast_to(sequence == self.context, (layout.size, layout.size))
        else:
            allowed = sequence[:, None] == sequence
        if isinstance(self.mask, str):
            allowed = allowed & (position[:, None] >= position)
        elif self.mask is not None:
            allowed = allowed & self.mask
        return None if allowed.all() else np.array(allowed)

    def added(self, layout: Layout) -> Any:
        """The score bias, `(heads or 1, query, key)`, or None."""
        if self.score_bias is None:
            return None
        if isinstance(self.score_bias, str):
            distance = np.abs(layout.position[:, None] - layout.position)
            return -alibi_slopes(int(self.heads))[:, None, None] * distance
        return self.score_bias if self.score_bias.ndim == 3 else self.score_bias[None]

    def frequencies(self, head_dim: int | float, tokens: int) -> tuple[Any, np.ndarray]:
        """The frequencies at which the pairs of coordinates of a head rotate.

        At infinite dimension these are the nodes of the Gauss-Legendre rule for an average over `base^-u`, `u` uniform
        on [0, 1].

        Args:
            head_dim: The dimension of a head.
            tokens: The number of tokens. Longer distances oscillate faster and need more nodes.

        Returns:
            The frequencies and their weights, which sum to one.

        Example:
            >>> import limitlaw as ll
            >>> ll.Attention(rope=10_000.0).frequencies(8, 4)[0].round(6).tolist()
            [1.0, 0.1, 0.01, 0.001]
        """
        assert self.rope is not None
        listed = np.ndim(self.rope) == 1
        if isinf(head_dim) and not listed:
            nodes, weights = np.polynomial.legendre.leggauss(max(_ROPE_NODES, tokens))
            return self.rope ** -((nodes + 1) / 2), weights / 2
        frequencies: Any = self.rope
        if not isinf(head_dim):
            pairs = int(head_dim) // 2
            if listed:  # pairs without a frequency do not rotate
                xp = np if isinstance(frequencies, np.ndarray) else jnp
                frequencies = xp.pad(frequencies, (0, pairs - frequencies.shape[0]))
            else:
                frequencies = frequencies ** -(np.arange(pairs) / pairs)
        return frequencies, np.full(len(frequencies), 1 / len(frequencies))

    def check_layout(self, layout: Layout) -> None:
        if isinstance(self.mask, np.ndarray) and self.mask.shape != (layout.size, layout.size):
            raise ArgumentError(
                "mask",
                f"mask has shape {self.mask.shape}, but the inputs have {layout.size} tokens. "
                f"Give a matrix of shape ({layout.size}, {layout.size}).",
            )
        if isinstance(self.score_bias, np.ndarray) and self.score_bias.shape[-2:] != (layout.size, layout.size):
            raise ArgumentError(
                "score_bias",
                f"score_bias has shape {self.score_bias.shape}, but the inputs have {layout.size} tokens. "
                f"Its shape must end in ({layout.size}, {layout.size}).",
            )
        if self.context is not None and self.context >= len(layout.lengths):
            raise ArgumentError(
                "context",
                f"context={self.context}, but the inputs have {len(layout.lengths)} sequences. "
                f"Give them more with sequences=..., or use a smaller context.",
            )
        if not isinstance(self.mask, np.ndarray) and self.context is None:
            return  # every token attends to itself
        allowed = self.allowed(layout)
        if allowed is not None and not allowed.any(axis=1).all():
            row = int(np.flatnonzero(~allowed.any(axis=1))[0])
            where = "its sequence" if self.context is None else f"sequence {self.context}"
            raise ArgumentError(
                "mask",
                f"mask allows token {row} no token of {where}. Set an entry of mask[{row}] in {where} to True.",
            )

    def check_width(self, width: int | float) -> None:
        _checks.countable("heads", self.heads)
        if isinf(self.heads) and not isinf(width):
            raise ArgumentError(
                "heads",
                f"heads=inf is not defined at width={width}, only at infinite width. Use width=inf, or finite heads.",
            )
        if self.head_dim == "split" and not isinf(width) and width % self.heads:
            raise ArgumentError(
                "width",
                f"width={width} is not divisible by heads={self.heads}, as head_dim='split' requires. "
                f"Use a multiple of {self.heads}, or give head_dim a number.",
            )
        head_dim = self.head_dim_at(width)
        if isinf(head_dim) and not isinstance(self.scale, str):
            raise ArgumentError(
                "scale",
                f"scale={self.scale!r} is not defined at an infinite head dimension, because scores that are "
                f"multiplied by a number grow with it. Use scale='sqrt' or 'linear', or give head_dim a number.",
            )
        if self.rope is not None and not isinf(head_dim):
            if head_dim % 2:
                raise ArgumentError(
                    "rope",
                    f"rope={self.rope!r} needs an even head dimension, because rotations act on pairs of coordinates, "
                    f"but it is {head_dim}. Use an even head_dim.",
                )
            if isinstance(self.rope, np.ndarray) and 2 * len(self.rope) > head_dim:
                raise ArgumentError(
                    "rope",
                    f"rope has {len(self.rope)} frequencies, but a head of {head_dim} coordinates has "
                    f"{head_dim // 2} pairs. Give at most as many.",
                )

    def visible_keys(self, layout: Layout) -> np.ndarray:
        allowed = self.allowed(layout)
        return np.full(layout.size, layout.size) if allowed is None else allowed.sum(axis=1)

    def is_deterministic(self, width: int | float) -> bool:
        no_queries = _checks.is_zero(self.query_std) and _checks.is_zero(self.query_bias_std)
        # Equal keys shift all scores of a query alike, which the softmax ignores. A rotated bias differs between keys.
        turned = not _checks.is_zero(self.key_bias_std) and self.rope is not None
        equal_keys = _checks.is_zero(self.key_std) and not turned
        fixed = self.scale == "linear" or no_queries or equal_keys
        return isinf(self.heads) or (isinf(self.head_dim_at(width)) and fixed)

    def degrees_of_freedom(self, width: int | float) -> int | float:
        return (
            inf if not _checks.is_zero(self.out_bias_std) else (self.kv_heads or self.heads) * self.head_dim_at(width)
        )

    def zero_tokens(self, zero: np.ndarray, active: np.ndarray, layout: Layout) -> np.ndarray:
        del active
        if not _checks.is_zero(self.out_bias_std):
            return np.zeros_like(zero)
        if _checks.is_zero(self.out_std):
            return np.ones_like(zero)
        values = zero if not _checks.is_zero(self.value_std) else np.ones_like(zero)
        if not _checks.is_zero(self.value_bias_std):
            values = np.zeros_like(zero)
        if not values.any():
            return values
        # The output of a token is zero if all values that it may attend to are.
        allowed = self.allowed(layout)
        return np.array([values.all() if allowed is None else values[allowed[i]].all() for i in range(len(zero))])

    def contract(self, width: int | float, layout: Layout, purpose: Purpose) -> ContractedAttention:
        head_dim = self.head_dim_at(width)
        frequencies, weights = (None, None) if self.rope is None else self.frequencies(head_dim, layout.size)
        drawn = self.draws_coordinates(width, layout)
        matrices = self.matrices(width, layout)
        infinite = isinf(self.heads)
        observed = purpose.observed & set(self.observables)
        # Heads that are observed or computed together need a known number, and so does a loop that is differentiated.
        each = bool(observed) or drawn or purpose.differentiable
        return ContractedAttention(
            matrices=as_numbers(matrices),
            heads=as_numbers(self.heads),
            head_dim=as_numbers(head_dim),
            factor=as_numbers(self.relative_factor(head_dim)),
            allowed=self.allowed(layout),
            added=as_numbers(self.added(layout)),
            frequencies=as_numbers(frequencies),
            frequency_weights=as_numbers(weights),
            tied=self.tie_qk,
            infinite_heads=infinite,
            group_size=1 if infinite else int(self.heads) // self.groups,
            coordinates=int(head_dim) if drawn else None,
            biased=frozenset(name for name, matrix in matrices.items() if matrix.has_bias),
            known_heads=int(self.heads) if each and not infinite else None,
            observed=observed,
        )

    def relative_factor(self, head_dim: int | float) -> Any:
        """The factor of `q.k / sqrt(d)` in a score, or of `q.k / d` if queries and keys are tied."""
        if isinstance(self.scale, str):
            return 1.0 / sqrt(head_dim) if self.scale == "linear" and not self.tie_qk else 1.0
        return self.scale * (head_dim if self.tie_qk else sqrt(head_dim))

    def draws_coordinates(self, width: int | float, layout: Layout) -> bool:
        """Whether coordinates of queries, keys and values are drawn: for rotations, or many tokens and small heads."""
        head_dim = self.head_dim_at(width)
        # A Bartlett factor has one column for each token, so with fewer coordinates than tokens it wastes work.
        turned_or_fewer = self.rope is not None or head_dim < layout.size > _FEW_TOKENS
        return not isinf(head_dim) and not self.tie_qk and turned_or_fewer

    def cost(self, width: int | float, layout: Layout) -> Cost:
        if isinf(self.heads):
            return Cost(matrices=4.0, copies=EXPECTATION_AT_ONCE)
        held = 0.0
        # Queries, keys and values, before and after rotation, and the attended values.
        if self.draws_coordinates(width, layout):
            held = layout.size * self.head_dim_at(width) * (3 * self.heads + 4 * self.groups)
        return Cost(matrices=self.heads + 4.0, held=held)

    def limit_gram(self, gram: np.ndarray, layout: Layout) -> np.ndarray | None:
        return _exact.limit_gram(self, gram, layout)

    def limit_variance(
        self, gram: np.ndarray, token: int, layout: Layout, seed: int, samples: int | None, exact: bool
    ) -> "tuple[Atoms, int | float] | None":
        return _exact.limit_variance(self, gram, token, layout, seed, samples, exact)

    def score_scale(self, width: int | float) -> tuple[float, int | float] | None:
        return _exact.score_scale(self, width)

    def lower(self, program: "Program", tokens: "list[Vector]", number: int, layers: int, layout: Layout) -> Lowered:
        return _lowering.lower(self, program, tokens, number, layers, layout)


def is_plain(layer: Attention) -> bool:
    """Whether attention has no biases, shared keys, rotations, score biases or other sequences as context."""
    added = (layer.query_bias_std, layer.key_bias_std, layer.value_bias_std, layer.out_bias_std)
    shared = layer.kv_heads is not None and layer.kv_heads != layer.heads
    options: Mapping[str, Any] = {"rope": layer.rope, "score_bias": layer.score_bias, "context": layer.context}
    return all(map(_checks.is_zero, added)) and not shared and all(o is None for o in options.values())


def _by_head(u: Float[Array, "s columns"], heads: int) -> Float[Array, "heads s d"]:
    return jnp.moveaxis(u.reshape(u.shape[0], heads, -1), 1, 0)


def _head_dim(head_dim: Any) -> Any:
    if isinstance(head_dim, str):
        if head_dim != "split":
            raise ArgumentError(
                "head_dim",
                f"head_dim={head_dim!r} must be a positive integer, inf, None (as wide as the model) or 'split'.",
            )
        return head_dim
    return None if head_dim is None else _checks.positive_integer("head_dim", head_dim, infinite=True)


def _scale(scale: Any) -> Any:
    if isinstance(scale, str):
        if scale not in ("sqrt", "linear"):
            raise ArgumentError("scale", f"scale={scale!r} must be 'sqrt', 'linear' or a number.")
        return scale
    return _checks.finite_number("scale", scale)


def _mask(mask: Any) -> Any:
    if mask is None or (isinstance(mask, str) and mask == "causal"):
        return mask
    if isinstance(mask, str):
        raise ArgumentError("mask", f"mask={mask!r} must be None, 'causal', or a boolean matrix (query, key).")
    try:
        array = np.array(mask)  # a copy, so that later changes by the caller have no effect
    except ValueError:
        raise ArgumentError(
            "mask", f"mask={mask!r} has rows of different lengths. Give a square boolean matrix."
        ) from None
    if array.dtype != bool or array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise ArgumentTypeError(
            "mask",
            f"mask is {array.dtype} of shape {array.shape}. It must be a square boolean matrix (query, key), True "
            f"where a query may attend.",
        )
    empty = np.flatnonzero(~array.any(axis=1))
    if empty.size:
        raise ArgumentError(
            "mask",
            f"mask[{empty[0]}] has no True entry, so token {empty[0]} has no key. Set mask[{empty[0]}, {empty[0]}] = "
            f"True.",
        )
    return array


def _rope(rope: Any) -> Any:
    """A base as a float, or frequencies as an array."""
    if rope is None:
        return None
    if np.ndim(rope) == 0:
        base = _checks.non_negative("rope", rope)
        if not is_traced(base) and base <= 1:
            raise ArgumentError(
                "rope", f"rope={rope!r} must be a base above 1, such as 10000, or a list of frequencies."
            )
        return base
    frequencies = _checks.finite_array("rope", rope, 1)
    if not frequencies.size:
        raise ArgumentError("rope", "rope=[] has no frequencies. Give some, or a base such as 10000, or leave it out.")
    return frequencies


def _score_bias(bias: Any) -> Any:
    if bias is None:
        return None
    if isinstance(bias, str):
        return _checks.one_of("score_bias", bias, ["alibi"])
    if np.isneginf(np.asarray(bias, float)).any():
        raise ArgumentError("score_bias", "score_bias has entries of -inf. Use mask=... to hide keys.")
    return _checks.finite_array("score_bias", bias, 3 if np.ndim(bias) == 3 else 2)


def alibi_slopes(heads: int) -> np.ndarray:
    """The slopes of ALiBi (Press, Smith and Lewis 2022), `2^(-8i/H)` if the number of heads `H` is a power of two.

    For other numbers they are the slopes for the power of two below, followed by every other slope for the one above.

    Args:
        heads: The number of heads.

    Returns:
        One slope for each head.

    Example:
        >>> from limitlaw.networks.layers.attention import alibi_slopes
        >>> print(alibi_slopes(4))
        [0.25       0.0625     0.015625   0.00390625]
    """
    whole = 2 ** int(np.log2(heads))
    slopes = 2.0 ** (-8.0 / whole * np.arange(1, whole + 1))
    between = 2.0 ** (-4.0 / whole * np.arange(1, 2 * (heads - whole), 2))
    return np.concatenate([slopes, between])

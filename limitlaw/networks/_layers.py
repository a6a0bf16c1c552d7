"""What people write: inputs and layers, each a frozen description. Every occurrence draws fresh weights."""

import abc
import dataclasses
from collections.abc import Callable
from math import isinf
from typing import Any

import equinox as eqx
import numpy as np

from .. import _arguments
from ..numerics import Activation, activation as resolve_activation, narrow_root

_NORMAL_REACH = 9.0  # a standard normal is beyond with probability 2e-19


class Described(eqx.Module):
    """A module that prints as the call that makes it, defaults left out."""

    def __repr__(self) -> str:
        parts = [
            f"{f.name}={_show(getattr(self, f.name))}"
            for f in dataclasses.fields(self)
            if f.repr and not _is_default(getattr(self, f.name), f.default)
        ]
        return f"{type(self).__name__}({', '.join(parts)})"


def _show(value: Any) -> str:
    return (
        np.array2string(value, separator=", ", threshold=36).replace("\n", "")
        if isinstance(value, np.ndarray)
        else repr(value)
    )


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (not isinstance(value, np.ndarray) and value == default)


class InputLayer(Described):
    """Where a network starts: a family of laws of the token matrix `X` (tokens x width), one for each width.

    A subclass says how many tokens there are and what their Gram matrix tends to, and refuses widths at which it does not exist (`check_width`). A reading
    needs one rule for it: the dense reading makes `X`, the Gram reading makes what is known of `X X^T / n`.
    """

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """How many tokens."""

    @abc.abstractmethod
    def limit_gram(self) -> np.ndarray:
        """The Gram matrix at infinite width, float64."""

    def check_width(self, width: int | float) -> None:
        """Raise if no such tokens exist at this width."""


class Layer(Described):
    """A map from one stream of tokens to the next, with weights of its own.

    A subclass refuses token counts and widths at which it makes no sense. A reading needs one rule for it: the dense
    reading draws its weights, the Gram reading maps what is known of one stream to what is known of the next.
    """

    def check_tokens(self, tokens: int) -> None:
        """Raise if the layer cannot act on this many tokens."""

    def check_width(self, width: int | float) -> None:
        """Raise if the layer cannot act at this width."""

    def is_deterministic(self, width: int | float) -> bool:
        """Whether the covariance of the output is a fixed function of the Gram matrix of the input."""
        return False


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


class GramInputs(InputLayer):
    """Fixed tokens with Gram matrix `K = X X^T / n` and coordinate mean `mean = X 1 / n`, the same at every width.

    A finite width must have room for them: at least the rank of `K` (of `K - mean mean^T`, plus one, if a mean is given).

    !!! Example

        >>> import limitlaw as ll
        >>> ll.GramInputs([[1.0, 0.3], [0.3, 1.0]])
        GramInputs(K=[[1. , 0.3], [0.3, 1. ]])
    """

    K: np.ndarray
    mean: np.ndarray | None = None

    def __init__(self, K: Any, mean: Any = None):
        self.K = _arguments.psd_matrix("K", K)
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
    def size(self) -> int:
        return len(self.K)

    def limit_gram(self) -> np.ndarray:
        return self.K

    @property
    def centred(self) -> np.ndarray:
        """`K - mean mean^T`: the Gram matrix of the tokens less their coordinate mean."""
        return self.K if self.mean is None else self.K - np.outer(self.mean, self.mean)

    def check_width(self, width: int | float) -> None:
        rank = narrow_root(self.centred).shape[1] + (self.mean is not None)
        if width < rank:
            raise ValueError(
                f"width={width}: GramInputs has tokens of rank {rank}{' (the mean counts for one)' * (self.mean is not None)}, "
                f"which do not fit; use width >= {rank}, or GaussianInputs(K), which exists at every width."
            )


class GaussianInputs(InputLayer):
    """Random tokens whose coordinates are i.i.d. `N(0, K)` across the width.

    !!! Example

        >>> import numpy as np, limitlaw as ll
        >>> ll.GaussianInputs(np.eye(2))
        GaussianInputs(K=[[1., 0.], [0., 1.]])
    """

    K: np.ndarray

    def __init__(self, K: Any):
        self.K = _arguments.psd_matrix("K", K)

    @property
    def size(self) -> int:
        return len(self.K)

    def limit_gram(self) -> np.ndarray:
        return self.K


class Attention(Layer):
    """Multi-head softmax attention, `Y = H^{-1/2} sum_a softmax(S_a) X W_V^a W_O^a`, `S_a = X W_Q^a (X W_K^a)^T / sqrt(d)`.

    Weights are independent `N(0, std^2 / fan_in)`. `head_dim` is the `d` of each head: a number, `inf`, None (as wide as
    the model) or "split" (width / heads). `scale="linear"` divides the scores by `d` instead of `sqrt(d)`. `tie_qk=True`
    uses one standard normal matrix `G` for both, `W_Q = query_std G / sqrt(n)`, `W_K = key_std G / sqrt(n)`; it needs the
    linear scale. `mask` is None, "causal", or a boolean matrix `(query, key)`, True where a query may look.
    `heads=inf` is the Gaussian regime of Hron et al. 2020; it exists at infinite width alone.

    !!! Example

        >>> import limitlaw as ll
        >>> ll.Attention(heads=16, head_dim=64, mask="causal")
        Attention(heads=16, head_dim=64, mask='causal')
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

    def allowed(self, tokens: int) -> Any:
        """The mask as a boolean matrix `(query, key)`, or None where every query sees every key."""
        if isinstance(self.mask, str):
            return np.tril(np.ones((tokens, tokens), bool))
        return self.mask

    def check_tokens(self, tokens: int) -> None:
        if isinstance(self.mask, np.ndarray) and self.mask.shape != (tokens, tokens):
            raise ValueError(
                f"mask has shape {self.mask.shape}: the inputs have {tokens} tokens, so it must be ({tokens}, {tokens})."
            )

    def check_width(self, width: int | float) -> None:
        if isinf(self.heads) and not isinf(width):
            raise ValueError(
                f"heads=inf at width={width}: infinitely many heads exist at infinite width alone; use width=inf, or finite heads."
            )
        if self.head_dim == "split" and not isinf(width) and width % self.heads:
            raise ValueError(
                f"width={width} is not divisible by heads={self.heads}, as head_dim='split' needs; "
                f"use a multiple of {self.heads}, or give head_dim a number."
            )

    def is_deterministic(self, width: int | float) -> bool:
        still = self.scale == "linear" or self.query_std * self.key_std == 0
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

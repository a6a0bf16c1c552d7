"""Inputs defined by a matrix: fixed tokens, or Gaussian tokens."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import _checks
from ..._checks import ArgumentError, ArgumentTypeError
from ...netsor import Program, Vector
from ...numerics.linalg import narrow_root
from .._layer import Context, Cost, InputLayer, Layout, Purpose
from .._rules import as_numbers, fixed
from ..state import SMALLEST_VARIANCE, Fresh, Stream


class _Given(InputLayer):
    """Inputs that are given by a matrix `K` of their tokens, and the lengths of the sequences that these form."""

    K: eqx.AbstractVar[np.ndarray]
    sequences: eqx.AbstractVar[tuple[int, ...] | None]

    @property
    def size(self) -> int:
        return self.K.shape[0]

    @property
    def layout(self) -> Layout:
        return Layout(self.sequences or (self.size,))

    def limit_gram(self) -> np.ndarray:
        return self.K

    def cost(self, width: int | float) -> Cost:
        del width
        return Cost(matrices=1.0)


class GramInputs(_Given):
    """Fixed tokens with Gram matrix `K = X X^T / n` and coordinate mean `mean = X 1 / n`, the same at every width.

    A finite width must be at least the rank of `K`, or the rank of `K - mean mean^T` plus one if a mean is given or a
    layer reads it.

    Args:
        K: The Gram matrix, `(tokens, tokens)`.
        mean: The coordinate mean of each token, `(tokens,)`. If None, it is not specified, and 0 at infinite width.
        sequences: The lengths of several sequences whose tokens are stacked; by default there is one.

    Raises:
        ArgumentError: If no tokens have this Gram matrix and mean.

    Example:
        >>> import limitlaw as ll
        >>> ll.GramInputs([[1.0, 0.3], [0.3, 1.0]])
        GramInputs(K=[[1. , 0.3], [0.3, 1. ]])
    """

    K: np.ndarray
    mean: np.ndarray | None = None
    sequences: tuple[int, ...] | None = None

    def __init__(self, K: Any, mean: Any = None, *, sequences: Sequence[int] | None = None):
        self.K = _gram(K)
        self.sequences = _lengths(sequences, self.K.shape[0])
        self.mean = None if mean is None else _checks.finite_array("mean", mean, 1)
        if self.mean is not None and not _checks.is_traced(self.K) and not _checks.is_traced(self.mean):
            if self.mean.shape != (self.size,):
                raise ArgumentError(
                    "mean",
                    f"mean has shape {self.mean.shape}, but K has {self.size} tokens. Give shape ({self.size},).",
                )
            smallest = np.linalg.eigvalsh(self.centred)[0]
            if smallest < -1e-6 * np.abs(self.K).max():
                raise ArgumentError(
                    "mean",
                    f"mean={self.mean} is too large for the Gram matrix K, since K - mean mean^T has the eigenvalue "
                    f"{smallest:.6g}. Use a smaller mean.",
                )

    @classmethod
    def of(cls, X: Any, *, sequences: Sequence[int] | None = None) -> "GramInputs":
        """The inputs with the Gram matrix and the coordinate mean of data.

        Args:
            X: Data of shape (tokens, features): `K = X X^T / features`, `mean = X 1 / features`.
            sequences: As for `GramInputs`.

        Returns:
            The inputs, which exist at every width that is large enough.

        Raises:
            ArgumentError: If `X` is not a matrix of finite numbers.

        Example:
            >>> import limitlaw as ll
            >>> ll.GramInputs.of([[1.0, 1.0], [1.0, -1.0]])
            GramInputs(K=[[1., 0.], [0., 1.]], mean=[1., 0.])
        """
        data = _checks.finite_array("X", X, 2)
        if not data.size:
            raise ArgumentError("X", f"X has shape {data.shape}. Give at least one token and one feature.")
        return cls(data @ data.T / data.shape[1], data.mean(axis=1), sequences=sequences)

    def limit_mean(self) -> np.ndarray:
        return np.zeros(self.size) if self.mean is None else self.mean

    @property
    def centred(self) -> np.ndarray:
        """`K - mean mean^T`, the Gram matrix of the tokens minus their coordinate mean."""
        return self.K if self.mean is None else self.K - np.outer(self.mean, self.mean)

    def check_width(self, width: int | float, *, mean: bool = False) -> None:
        if _checks.is_traced(self.K):
            return
        counted = mean or self.mean is not None
        rank = narrow_root(self.centred).shape[1] + counted
        if width < rank:
            raise ArgumentError(
                "width",
                f"width={width} is too small for tokens of rank {rank}{' (the mean counts for one)' * counted}. Use "
                f"width >= {rank}, or GaussianInputs(K), which exists at every width.",
            )

    def zero_tokens(self, centred: bool = False) -> np.ndarray:
        if _checks.is_traced(self.K):
            return np.zeros(self.size, bool)
        if centred:
            return np.diagonal(self.centred) <= 1e-12 * np.abs(self.K).max()
        return np.diagonal(self.K) <= 0

    def tokens_at(self, width: int, context: Context) -> Float[Array, "s n"]:
        """`X` with `X X^T / n = K` and `X 1 / n = mean`, in the cosine basis, which contains the all-ones vector."""
        del context
        factor = narrow_root(self.centred)
        rank = factor.shape[1]
        # Frequency 0 is the all-ones vector. It is used only if every axis is needed, when no mean is specified.
        frequencies = np.arange(rank) + (rank < width)
        basis = np.sqrt(2) * np.cos(np.pi * np.outer(frequencies, np.arange(width) + 0.5) / width)
        basis[frequencies == 0] = 1.0
        x = factor @ basis
        return jnp.asarray(x if self.mean is None else x + self.mean[:, None], jnp.float32)

    def lower(self, program: Program) -> list[Vector]:
        raise ArgumentError(
            "reading",
            "GramInputs has no netsor program, because initial vectors must have i.i.d. coordinates and fixed tokens "
            "do not. Use GaussianInputs(K), or reading='gram' or 'dense'.",
        )

    def bind(self, width: int | float, purpose: Purpose) -> "FixedStart":
        del width, purpose
        return FixedStart(*as_numbers((self.K, self.limit_mean())))


class FixedStart(eqx.Module):
    """Fixed tokens in the Gram reading."""

    K: Any
    mean: Any

    def start(self, width: Float[Array, ""], context: Context, draws: int, tracks_mean: bool) -> Stream:
        """The first stream of a batch."""
        del context, draws
        return fixed(self.K, self.mean, width, tracks_mean)


class GaussianInputs(_Given):
    """Random tokens whose coordinates are i.i.d. `N(0, K)` across the width.

    Args:
        K: The covariance of a coordinate, `(tokens, tokens)`.
        sequences: The lengths of several sequences whose tokens are stacked; by default there is one.

    Raises:
        ArgumentError: If `K` is not a covariance matrix.

    Example:
        >>> import numpy as np, limitlaw as ll
        >>> ll.GaussianInputs(np.eye(2))
        GaussianInputs(K=[[1., 0.], [0., 1.]])
    """

    K: np.ndarray
    sequences: tuple[int, ...] | None = None

    def __init__(self, K: Any, *, sequences: Sequence[int] | None = None):
        self.K = _gram(K)
        self.sequences = _lengths(sequences, self.K.shape[0])

    def zero_tokens(self, centred: bool = False) -> np.ndarray:
        del centred
        return np.zeros(self.size, bool) if _checks.is_traced(self.K) else np.diagonal(self.K) <= 0

    def tokens_at(self, width: int, context: Context) -> Float[Array, "s n"]:
        values, vectors = jnp.linalg.eigh(jnp.asarray(self.K, jnp.float32))
        root = vectors * jnp.sqrt(jnp.maximum(values, 0.0))
        return root @ jax.random.normal(context.key("tokens"), (self.size, width))

    def lower(self, program: Program) -> list[Vector]:
        return list(program.initials([f"x{i}" for i in range(1, self.size + 1)], cov=self.K))

    def bind(self, width: int | float, purpose: Purpose) -> "GaussianStart":
        del width, purpose
        return GaussianStart(as_numbers(self.K))


class GaussianStart(eqx.Module):
    """Gaussian tokens in the Gram reading."""

    K: Any

    def start(self, width: Float[Array, ""], context: Context, draws: int, tracks_mean: bool) -> Stream:
        """The first stream of a batch."""
        del draws, tracks_mean
        return Fresh(self.K[..., None], width, context.key("settle"))


def _gram(K: Any) -> np.ndarray:
    """A Gram matrix, refused if it is not positive semi-definite or too small for single precision."""
    if _checks.is_traced(K):
        return K
    matrix = _checks.psd_matrix("K", K)
    diagonal = np.diagonal(matrix)
    small = (diagonal > 0) & (diagonal < SMALLEST_VARIANCE)
    if small.any():
        i = int(small.argmax())
        raise ArgumentError(
            "K",
            f"K[{i}, {i}]={diagonal[i]:g} is below {SMALLEST_VARIANCE:g} and would be lost in single precision. Use 0, "
            f"or rescale the tokens.",
        )
    return matrix


def _lengths(sequences: Sequence[int] | None, tokens: int) -> tuple[int, ...] | None:
    """The lengths of stacked sequences, refused if they do not add up to the number of tokens."""
    if sequences is None:
        return None
    if not isinstance(sequences, Sequence | np.ndarray) or isinstance(sequences, str):
        raise ArgumentTypeError("sequences", f"sequences={sequences!r} must be a list of lengths, such as [{tokens}].")
    lengths = tuple(int(_checks.positive_integer("sequences", length)) for length in sequences)
    if sum(lengths) != tokens:
        raise ArgumentError(
            "sequences",
            f"sequences={lengths} add up to {sum(lengths)}, but there are {tokens} tokens. Give lengths that add up to "
            f"{tokens}.",
        )
    return lengths

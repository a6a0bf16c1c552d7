"""What the Gram reading knows of a stream of tokens, and how a branch is added to it.

Arrays are `(rows, columns, *draws)`: everything is written for one sample, and trailing axes are more of them.
"""

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..numerics import bartlett, bartlett_normals, gram as gram_of, multiply, psd_root, random
from ._described import Layout


@dataclass(frozen=True)
class Context:
    """What a rule is told beside the layer and its stream: the key of its random numbers, and where it stands."""

    key: PRNGKeyArray
    draws: int
    layout: Layout
    tracks_mean: bool = False
    active: tuple[bool, ...] | None = None  # the tokens that layers act on, if not all
    watch: list[Array] | None = (
        None  # is given attention entropies, (heads, tokens, draws) for each attention layer in turn
    )

    def split(self, parts: int) -> list["Context"]:
        """Contexts with random numbers of their own."""
        return [replace(self, key=key) for key in random.split(self.key, parts)]

    def normals(self, *shape: int) -> Float[Array, "*shape draws"]:
        return random.normal(self.key, (*shape, self.draws))


class Tokens(eqx.Module):
    """Tokens known through a factor of their Gram matrix, `K = root root^T`, and `K` itself where it was at hand.

    The root is lower triangular. Where the mean over coordinates `m = X 1 / n` is tracked, it is the first column,
    and the others are the root of `K - m m^T`: the tokens in a frame that starts with the all-ones vector.

    !!! Example

        >>> import jax.numpy as jnp
        >>> from limitlaw.networks import Tokens
        >>> tokens = Tokens(jnp.array([[2.0, 0.0], [1.0, 1.0]]), jnp.float32(64))
        >>> tokens.gram.tolist()
        [[4.0, 2.0], [2.0, 2.0]]
    """

    root: Float[Array, "s r *draws"]
    width: Float[Array, ""]
    known_gram: Float[Array, "s s *draws"] | None = None
    centred: bool = eqx.field(static=True, default=False)  # whether the mean is tracked and known to be zero

    @property
    def factor(self) -> Float[Array, "s r *draws"]:
        """A factor of the Gram matrix, as narrow as is at hand."""
        return self.root[:, 1:] if self.centred else self.root

    @property
    def gram(self) -> Float[Array, "s s *draws"]:
        """`K = X X^T / n`."""
        return gram_of(self.factor) if self.known_gram is None else self.known_gram

    @property
    def covariance(self) -> Float[Array, "s s *draws"]:
        """Of a fresh read-out `X w`, `w ~ N(0, I/n)`."""
        return self.gram

    def settle(self, context: Context) -> "Tokens":
        """Themselves: their Gram matrix is known."""
        del context
        return self

    def reordered(self, order: tuple[int, ...]) -> "Tokens":
        """The same tokens in another order (where no mean is tracked)."""
        if order == tuple(range(len(order))):
            return self
        index = np.array(order)
        gram = self.gram[index][:, index]
        return Tokens(psd_root(gram), self.width, gram)


class Fresh(eqx.Module):
    """The rows of a fresh Gaussian matrix: coordinates i.i.d. `N(0, covariance)` across the width.

    !!! Example

        >>> import jax, jax.numpy as jnp
        >>> from limitlaw.networks import Fresh, Layout
        >>> from limitlaw.networks._state import Context
        >>> from limitlaw.numerics import seed_key
        >>> fresh = Fresh(jnp.ones((1, 1, 1)), jnp.float32(8))
        >>> gram = jax.jit(lambda key: fresh.settle(Context(key, 10_000, Layout((1,)))).gram)(seed_key(0))
        >>> bool(abs(gram.mean() - 1) < 0.03), bool(abs(gram.var() - 2 / 8) < 0.03)  # chi-square of 8 over 8
        (True, True)
    """

    covariance: Float[Array, "s s *draws"]
    width: Float[Array, ""]

    def settle(self, context: Context) -> Tokens:
        """Their Gram matrix at this width: a Wishart with this covariance; the covariance itself at infinity."""
        return Tokens(multiply(psd_root(self.covariance), _wishart_root(self, context)), self.width)


class Isotropic(eqx.Module):
    """A fresh Gaussian matrix with independent rows: coordinates i.i.d. `N(0, length^2)`."""

    length: Float[Array, "*draws"]
    width: Float[Array, ""]
    tokens: int = eqx.field(static=True)

    @property
    def covariance(self) -> Float[Array, "s s *draws"]:
        return jnp.eye(self.tokens)[..., None] * self.length**2

    def settle(self, context: Context) -> Tokens:
        return Tokens(self.length * _wishart_root(self, context), self.width)


def _wishart_root(fresh: "Fresh | Isotropic", context: Context) -> Float[Array, "s r draws"]:
    """Coordinates of `s` standard normal vectors over `sqrt(n)`, in a frame that starts with the all-ones vector where the mean is tracked."""
    s = fresh.tokens if isinstance(fresh, Isotropic) else fresh.covariance.shape[0]
    if not context.tracks_mean:
        return bartlett(context.normals(bartlett_normals(s, s)), s, s, fresh.width)
    normals = context.normals(s + bartlett_normals(s, s))
    along = normals[:s, None] / jnp.sqrt(fresh.width)
    return jnp.concatenate([along, _wishart_share(normals[s:], s, fresh.width, 1)], axis=1)


def _wishart_share(normals: Float[Array, "m draws"], size: int, width: Float[Array, ""], used: int) -> Array:
    """A root of `W(n - used, I) / n`: what `n` coordinates less `used` of them add to a Gram matrix; the identity at infinity."""
    left = jnp.maximum(width - used, 0.0)
    root = bartlett(normals, size, size, jnp.maximum(left, 1.0))
    return root * jnp.sqrt(jnp.where(jnp.isinf(width), 1.0, left / jnp.where(jnp.isinf(width), 1.0, width)))


Stream = Tokens | Fresh | Isotropic


def add_branch(tokens: Tokens, covariance: Float[Array, "s s *draws"], skip: Any, context: Context) -> Tokens:
    """`skip X + Y`, the columns of `Y` i.i.d. `N(0, covariance)` given `X`.

    With `X = root U^T sqrt(n)` and `Y = R Z`, the part of `Z` along the frame `U` is normal and the rest a Wishart matrix:
    the factor `[skip root + R Z_1 / sqrt(n), R T]` is exact at every width. `skip` may differ from token to token.
    """
    size, axes = tokens.root.shape[:2]
    skip = jnp.asarray(skip, tokens.root.dtype).reshape(-1, 1, *[1] * (tokens.root.ndim - 2))
    normals = context.normals(size * axes + bartlett_normals(size, size))
    along = normals[: size * axes].reshape(size, axes, context.draws) * _existing_axes(tokens.root, tokens.width)
    branch = psd_root(covariance)
    seen = skip * tokens.root + multiply(branch, along) / jnp.sqrt(tokens.width)
    beyond = gram_of(multiply(branch, _wishart_share(normals[size * axes :], size, tokens.width, axes)))
    if not context.tracks_mean:
        return Tokens(psd_root(gram_of(seen) + beyond), tokens.width)
    centred = psd_root(gram_of(seen[:, 1:]) + beyond)  # the first column is the mean
    return Tokens(jnp.concatenate([seen[:, :1], centred], axis=1), tokens.width)


def _existing_axes(root: Float[Array, "s r *draws"], width: Float[Array, ""]) -> Float[Array, "r *draws"]:
    """1 for the axes of the frame that exist: all, but where there are more than the width has; then those in which the tokens reach furthest.

    What rounding leaves in an axis that does not exist is smaller than what is in one that does. The all-ones vector exists always.
    """
    axes, tracks_mean = root.shape[1], root.shape[1] > root.shape[0]

    def furthest(root: Array) -> Array:
        reach = jnp.sum(root**2, axis=0)
        if tracks_mean:
            reach = jnp.concatenate([jnp.full_like(reach[:1], jnp.inf), reach[1:]])
        before = np.tri(axes, k=-1, dtype=bool).reshape(axes, axes, *[1] * (reach.ndim - 1))
        ahead = (reach[None] > reach[:, None]) | ((reach[None] == reach[:, None]) & before)
        return jnp.where(jnp.sum(ahead.astype(width.dtype), axis=1) < width, 1.0, 0.0).astype(root.dtype)

    return jax.lax.cond(width >= axes, lambda root: jnp.ones_like(root[0]), furthest, root)

"""Projected gradient descent on data, from many starts at once.

This is the paper's experiment: `n` labelled sequences, and descent on their empirical risk. Products with the data are
all the cost, and starts share them. Both directions of `S` starts are the `2S` columns of one product, and the
gradient is a second product back.

Tokens come before samples, `(L, n, d)`, so that the sums of the softmax run over a leading axis and samples fill
vectors.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .. import _progress
from .._checks import ArgumentError, positive_integer

LinkFunction = Callable[[Array], Array]
Samples = tuple[Array, Array]  # tokens before samples (l, n, d), and labels (n,)

_BATCH_NUMBERS = 2**21  # normals drawn at once, 8 MiB
_BATCH_PROJECTIONS = 2**21  # numbers `x . u` and `x . v` alive at once while a risk is evaluated: 8 MiB
_UNIT_TOLERANCE = 1e-4  # float32 rounds a norm to 1e-7; more is a vector that nobody normalised


@dataclass(frozen=True)
class Records:
    """Records of each start: overlaps in the order mu, nu, eta, zeta, rho, and the risk against fresh noisy labels."""

    steps: Int[np.ndarray, "records"]
    overlaps: Float[np.ndarray, "starts records 5"]
    test_risk: Float[np.ndarray, "starts records"]


def draw_data(
    key: PRNGKeyArray,
    count: int,
    *,
    tokens: int,
    signal: float,
    gamma: float,
    noise: float,
    directions: tuple[Array | np.ndarray, Array | np.ndarray],
    link: LinkFunction,
) -> tuple[Float[Array, "n l d"], Float[Array, "n"]]:
    """Draw `count` samples `(X, y)`.

    One token, at a uniform place, is `N(signal u*, gamma^2 I)`, the others are `N(0, I)`, and `y = link(x . v*) +
    noise xi` at that token. `directions` are `(u*, v*)`.
    """
    u_star, v_star = (jnp.asarray(direction, jnp.float32) for direction in directions)
    # in batches of one size, so that one compilation serves every count and every link
    size = max(_BATCH_NUMBERS // (tokens * u_star.shape[0]), 1)
    batches = [
        _draw(jax.random.fold_in(key, i), size, tokens, float(signal), float(gamma), u_star, v_star)
        for i in range(-(-count // size))
    ]
    X, seen, xi = (jnp.concatenate(parts)[:count] for parts in zip(*batches, strict=True))
    return X, link(seen) + jnp.float32(noise) * xi


@functools.partial(jax.jit, static_argnames=("count", "tokens"))
def _draw(
    key: PRNGKeyArray,
    count: int,
    tokens: int,
    signal: Float[Array, ""] | float,
    gamma: Float[Array, ""] | float,
    u_star: Float[Array, "d"],
    v_star: Float[Array, "d"],
) -> tuple[Float[Array, "n l d"], Float[Array, "n"], Float[Array, "n"]]:
    """Tokens, `x . v*` of the one with the signal, and standard normals for the noise of the labels."""
    key_place, key_tokens, key_label = jax.random.split(key, 3)
    place = jax.random.randint(key_place, (count,), 0, tokens)
    normals = jax.random.normal(key_tokens, (count, tokens, u_star.shape[0]), jnp.float32)
    informative = (jnp.arange(tokens) == place[:, None])[..., None]
    X = jnp.where(informative, signal * u_star + gamma * normals, normals)
    seen = jnp.take_along_axis(X, place[:, None, None], axis=1)[:, 0]
    clean = jnp.matmul(seen, v_star, precision="highest")
    return X, clean, jax.random.normal(key_label, (count,), jnp.float32)


def descend(
    X: Float[Array, "n l d"],
    y: Float[Array, "n"],
    X_test: Float[Array, "n_test l d"],
    y_test: Float[Array, "n_test"],
    starts: Array | np.ndarray,
    *,
    directions: tuple[Array | np.ndarray, Array | np.ndarray],
    scale: float,
    link: LinkFunction,
    steps: int,
    step_size: float,
    every: int,
    progress: bool = False,
) -> Records:
    """Riemannian gradient descent on `n^-1 sum (f - y)^2`, `f = sum_l softmax_l(scale x_l . u) link(x_l . v)`.

    It starts from each `(u, v)` in `starts`, of shape `(starts, 2, d)`. A step takes `u` and `v` at once: `w <- (w -
    step_size (I - w w^T) grad) / |...|`. Overlaps and risks are recorded at steps `0, every, 2 every, ..., steps`;
    between records control returns to Python, so that an interrupt is noticed.
    """
    check_schedule(steps, every)
    pairs = jnp.moveaxis(jnp.asarray(starts, jnp.float32), 1, 0)
    _check_unit("starts", pairs)
    u_star, v_star = (np.asarray(direction, np.float64) for direction in directions)
    test = list(_batches(X_test, y_test, len(starts)))
    samples = _tokens_first(X), jnp.asarray(y, jnp.float32)
    overlaps, test_risk = [], []
    with _progress.task("Simulating", steps // every + 1, compiles=True, show=progress) as bar:
        for step in range(0, steps + 1, every):
            if step > 0:
                pairs = _take_steps(pairs, *samples, every, float(step_size), float(scale), link)
            overlaps.append(_overlaps(np.asarray(pairs, np.float64), u_star, v_star))
            test_risk.append(_risk(pairs, test, float(scale), link))
            bar.advance()
    return Records(
        np.arange(0, steps + 1, every),
        np.stack(overlaps, axis=1),
        np.stack(test_risk, axis=1),
    )


def check_schedule(steps: int, every: int) -> None:
    """Refuse a last step that would not be recorded."""
    positive_integer("every", every)
    if steps < 0 or steps % every:
        raise ArgumentError("steps", f"steps={steps!r} must be a multiple of every={every}, and at least 0.")


def _check_unit(name: str, vectors: Float[Array, "*rows d"]) -> None:
    norms = np.linalg.norm(np.asarray(vectors, np.float64), axis=-1)
    if not np.all(np.abs(norms - 1) < _UNIT_TOLERANCE):
        raise ArgumentError(
            name, f"{name} must be unit vectors, and have norms from {norms.min():.6g} to {norms.max():.6g}."
        )


def _tokens_first(X: Array) -> Float[Array, "l n d"]:
    return jnp.moveaxis(jnp.asarray(X, jnp.float32), 1, 0)


def _batches(X: Array, y: Array, starts: int) -> Iterator[Samples]:
    """The samples in batches whose projections on all starts fit into memory and cache."""
    size = max(_BATCH_PROJECTIONS // (2 * starts * X.shape[1]), 1)
    for first in range(0, X.shape[0], size):
        batch = slice(first, first + size)
        yield _tokens_first(X[batch]), jnp.asarray(y[batch], jnp.float32)


def _overlaps(
    pairs: Float[np.ndarray, "2 starts d"], u_star: Float[np.ndarray, "d"], v_star: Float[np.ndarray, "d"]
) -> Float[np.ndarray, "starts 5"]:
    u, v = pairs
    return np.stack([u @ u_star, v @ v_star, u @ v_star, v @ u_star, (u * v).sum(axis=-1)], axis=-1)


@functools.partial(jax.jit, static_argnames="link")
def _take_steps(
    pairs: Float[Array, "2 starts d"],
    X: Float[Array, "l n d"],
    y: Float[Array, "n"],
    steps: Int[Array, ""] | int,
    step_size: Float[Array, ""] | float,
    scale: Float[Array, ""] | float,
    link: LinkFunction,
) -> Float[Array, "2 starts d"]:
    """`steps` steps; their number is traced, so that one compilation serves all schedules."""

    def step(_: Array, pairs: Float[Array, "2 starts d"]) -> Float[Array, "2 starts d"]:
        slope = gradient(pairs, X, y, scale, link)
        radial = (slope * pairs).sum(axis=-1, keepdims=True)
        moved = pairs - step_size * (slope - radial * pairs)
        return moved / jnp.linalg.norm(moved, axis=-1, keepdims=True)

    return jax.lax.fori_loop(0, steps, step, pairs)


def gradient(
    pairs: Float[Array, "2 starts d"],
    X: Float[Array, "l n d"],
    y: Float[Array, "n"],
    scale: Float[Array, ""] | float,
    link: LinkFunction,
) -> Float[Array, "2 starts d"]:
    """The gradient of `n^-1 sum (f - y)^2` in `u` and in `v`, before any projection.

    With `a` the softmax weights and `r = 2 (f - y) / n` it is

        sum r a_l scale (link(x_l . v) - f) x_l   and   sum r a_l link'(x_l . v) x_l.

    Automatic differentiation over starts would go through the data once for each of them.
    """
    weights, readouts = _attend(pairs, X, scale)
    values, slopes = jax.jvp(link, (readouts,), (jnp.ones_like(readouts),))
    output = (weights * values).sum(axis=1, keepdims=True)
    pull = (2 / y.shape[0]) * (output - y) * weights
    back = jnp.stack([scale * pull * (values - output), pull * slopes])
    rows = back.reshape(-1, y.shape[0] * X.shape[0])
    return jnp.matmul(rows, X.reshape(-1, X.shape[-1]), precision="highest").reshape(pairs.shape)


def _attend(
    pairs: Float[Array, "2 starts d"], X: Float[Array, "l n d"], scale: Float[Array, ""] | float
) -> tuple[Float[Array, "starts l n"], Float[Array, "starts l n"]]:
    """The softmax weights of the tokens, and their projections on `v`."""
    tokens, samples, d = X.shape
    # Two-dimensional, since XLA would transpose the data at every step for a product with more axes. Full precision,
    # since an accelerator's default (tf32) would change scores of size 30, and so the weights, in the second decimal.
    flat = jnp.matmul(pairs.reshape(-1, d), X.reshape(-1, d).T, precision="highest")
    scores, readouts = flat.reshape(2, -1, tokens, samples)
    return jax.nn.softmax(scale * scores, axis=1), readouts


def _risk(
    pairs: Float[Array, "2 starts d"], batches: list[Samples], scale: float, link: LinkFunction
) -> Float[np.ndarray, "starts"]:
    """The mean of `(f - y)^2`, over the batches one after the other and summed in double precision."""
    totals = [np.asarray(_squared_error(pairs, X, y, scale, link), np.float64) for X, y in batches]
    return np.sum(totals, axis=0) / sum(len(y) for _, y in batches)


@functools.partial(jax.jit, static_argnames="link")
def _squared_error(
    pairs: Float[Array, "2 starts d"],
    X: Float[Array, "l n d"],
    y: Float[Array, "n"],
    scale: Float[Array, ""] | float,
    link: LinkFunction,
) -> Float[Array, "starts"]:
    weights, readouts = _attend(pairs, X, scale)
    return (((weights * link(readouts)).sum(axis=1) - y) ** 2).sum(axis=-1)

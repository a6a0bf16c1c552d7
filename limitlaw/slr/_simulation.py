"""Simulations: data of a problem, and gradient descent on them in the space itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray
from numpy.typing import ArrayLike

from .._checks import ArgumentError, boolean, positive_integer, seed as checked_seed
from ..numerics.batches import seed_key
from ._arguments import check_recorded, number_of_steps, positive
from ._descent import Descent
from ._empirical import check_schedule, descend, draw_data
from ._links import Link, Sign
from ._overlaps import vectors
from ._start import as_start

if TYPE_CHECKING:
    from ._problem import Problem

_MOST_DATA = 2**31  # bytes of one data set
_MOST_WORK = 1e15  # products of two numbers: two cores take days, and nobody means that
_RECORDS = 25  # most steps between two records unless given, so that an interrupt is noticed soon


def sample(problem: Problem, count: int, *, seed: int = 0) -> tuple[Array, Array]:
    """Draw labelled sequences.

    Args:
        problem: The problem, with a whole number of tokens.
        count: The number of sequences.
        seed: The seed of the draw.

    Returns:
        `X` of shape (count, L, d) and `y` of shape (count,), as float32 jax arrays. `u_*` and `v_*` are the first two
        axes of the space.

    Raises:
        ArgumentError: If the data take more than 2 GiB, or the number of tokens is known by its logarithm only.

    Example:
        >>> from limitlaw import slr
        >>> X, y = slr.sample(slr.Problem(dim=5, tokens=3), 1000, seed=1)
        >>> X.shape, y.shape
        ((1000, 3, 5), (1000,))
    """
    count = int(positive_integer("count", count))
    tokens = _drawable_tokens(problem, "count", count)
    return _draw(problem, tokens, seed_key(checked_seed(seed)), count)


def simulate(
    problem: Problem,
    samples: int = 1000,
    steps: int = 2000,
    step_size: float = 0.01,
    seed: int = 0,
    *,
    start: ArrayLike | None = None,
    test_samples: int = 10_000,
    every: int | None = None,
    progress: bool = True,
) -> Descent:
    """Gradient descent in `R^d` on the empirical risk of labelled sequences.

    The risk is measured on fresh sequences, less `noise^2`. Several starts see the same data and run at once. The
    directions `u, v` have the overlaps of the start; by symmetry nothing else about them matters.

    Args:
        problem: The problem, in at least 4 dimensions and with a link that jax differentiates.
        samples: The number of sequences to learn from.
        steps: The number of steps.
        step_size: The length that multiplies the gradient.
        seed: The seed of the data.
        start: Overlaps `(5,)` or `(starts, 5)`; by default a uniform start with seed 0.
        test_samples: The number of fresh sequences.
        every: Which steps are recorded, a divisor of `steps`; by default the largest one up to 25.
        progress: Whether to show a progress bar, on a terminal or in a notebook, after two seconds.

    Returns:
        The overlaps and risks.

    Raises:
        ArgumentError: If an argument is out of its range, or the data, the records or the work are too large.

    Example:
        >>> from limitlaw import slr
        >>> problem = slr.Problem(dim=20, tokens=5)
        >>> first = slr.start(problem, "informed", mu=0.5, nu=0.5)
        >>> slr.simulate(problem, samples=200, steps=50, start=first, test_samples=500).risk.shape
        (3,)
    """
    if problem.dim < 4:
        raise ArgumentError(
            "dim", f"dim={problem.dim} is too small for u, v, u_* and v_* to move freely. Use dim=4 or more."
        )
    if isinstance(problem.link, Sign):
        raise ArgumentError(
            "link", "link='sign' has a slope of 0, so gradient descent on samples does not move v. Use slr.descent."
        )
    samples, test_samples = (
        int(positive_integer(name, value)) for name, value in (("samples", samples), ("test_samples", test_samples))
    )
    steps, size, show = number_of_steps(steps), positive("step_size", step_size), boolean("progress", progress)
    every = _largest_divisor(steps) if every is None else int(positive_integer("every", every))
    check_schedule(steps, every)
    tokens = _drawable_tokens(problem, "samples", samples)
    _drawable_tokens(problem, "test_samples", test_samples)
    first = as_start(problem, start)
    starts = first.size // 5
    check_recorded("every", every, steps // every + 1, starts, "Record fewer steps.")
    # data times directions, and residuals times data, for each of two directions
    work = 4.0 * steps * samples * tokens * problem.dim * starts
    if work > _MOST_WORK:
        raise ArgumentError(
            "steps",
            f"steps={steps} of {starts} starts on samples={samples} take {work:.1g} products, more than the limit of "
            f"{_MOST_WORK:.0e}. Use fewer steps, samples or starts.",
        )
    _check_differentiable(problem.link)
    keys = jax.random.split(seed_key(checked_seed(seed)))
    (X, y), (X_test, y_test) = (
        _draw(problem, tokens, key, count) for key, count in zip(keys, (samples, test_samples), strict=True)
    )
    run = descend(
        X, y, X_test, y_test, vectors(first.reshape(-1, 5), problem.dim), directions=_directions(problem.dim),
        scale=problem.scale, link=problem.link, steps=steps, step_size=size, every=every, progress=show,
    )  # fmt: skip
    overlaps, risk = np.asarray(run.overlaps, np.float64), np.asarray(run.test_risk, np.float64) - problem.noise**2
    one = first.ndim == 1
    return Descent(
        np.asarray(run.steps), overlaps[0] if one else overlaps, risk[0] if one else risk, "simulation", "step"
    )


def _draw(problem: Problem, tokens: int, key: PRNGKeyArray, count: int) -> tuple[Array, Array]:
    return draw_data(
        key, count, tokens=tokens, signal=problem.signal, gamma=problem.gamma, noise=problem.noise,
        directions=_directions(problem.dim), link=problem.link,
    )  # fmt: skip


def _directions(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """`u_*` and `v_*`."""
    first, second = np.eye(2, dim)
    return first, second


def _drawable_tokens(problem: Problem, name: str, count: int) -> int:
    """The number of tokens, refused if data cannot be drawn."""
    if problem.tokens is None:
        raise ArgumentError(
            "log_tokens",
            f"log_tokens={problem.log_tokens:.6g} is not enough to draw data. Give a whole number of tokens.",
        )
    if 4.0 * count * problem.tokens * problem.dim > _MOST_DATA:
        raise ArgumentError(
            name,
            f"{name}={count} with tokens={problem.tokens} at dim={problem.dim} are more than 2 GiB of data. Use fewer.",
        )
    return problem.tokens


def _check_differentiable(link: Link) -> None:
    try:
        jax.eval_shape(jax.grad(lambda t: link(t)), jax.ShapeDtypeStruct((), np.float32))
    except Exception as error:
        reason = str(error).splitlines()[0]
        raise ArgumentError(
            "link", f"link={link} cannot be differentiated by jax ({reason}). Write it with jax.numpy."
        ) from None


def _largest_divisor(steps: int) -> int:
    """The largest divisor of the number of steps up to 25."""
    return next(k for k in range(_RECORDS, 0, -1) if steps % k == 0)

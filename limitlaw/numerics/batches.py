"""Batches of draws, with their threads, memory and interrupts.

Draws are computed in batches of a fixed size. Batch `i` has the key `fold_in(seed, i)` and is computed completely, then
trimmed. So a draw depends only on the seed and its index, and not on the number of draws, threads or devices.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from .. import _progress
from .._checks import ArgumentError
from .._format import format_bytes
from . import random
from .compiled import release_compiled

DEFAULT_MEMORY = 2**30  # bytes that sampling may use by default


def seed_key(seed: int) -> PRNGKeyArray:
    """The threefry key of a 64-bit seed (`jax.random.key` keeps only 32 bits of it without x64).

    Args:
        seed: An integer in [0, 2^64).

    Returns:
        The key.

    Example:
        >>> import jax
        >>> from limitlaw.numerics.batches import seed_key
        >>> bool((seed_key(7) == jax.random.key(7)).all())
        True
    """
    return jax.random.wrap_key_data(
        jax.device_put(np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)), impl="threefry2x32"
    )


def largest_power_of_two(at_most: int | float) -> int:
    """The largest power of two not above `at_most`; 1 if there is none.

    Args:
        at_most: A number.

    Returns:
        The power.

    Example:
        >>> from limitlaw.numerics.batches import largest_power_of_two
        >>> largest_power_of_two(1000), largest_power_of_two(0.1)
        (512, 1)
    """
    return 2 ** max(int(np.floor(np.log2(max(at_most, 1)))), 0)


@dataclass(frozen=True)
class Batch:
    """A function that computes a batch of draws, with its size and cost.

    Args:
        draw: A function of a key that returns a pytree of arrays, each with the draws along its first axis.
        size: The number of draws that it returns.
        memory: The number of bytes that it uses, including its result.
        alone: Whether two batches must not run at the same time.

    Example:
        >>> import jax
        >>> from limitlaw.numerics.batches import Batch, draw_batches
        >>> def draw(key):
        ...     x = jax.random.normal(key, (64, 2))
        ...     return {"x": x, "squared": (x**2).sum(axis=1)}
        >>> draws = draw_batches(Batch(draw, size=64, memory=64 * 12), samples=100, seed=0)
        >>> draws["x"].shape, draws["squared"].shape
        ((100, 2), (100,))
    """

    draw: Callable[[PRNGKeyArray], PyTree[Any]]
    size: int
    memory: int
    alone: bool = False


def draw_batches(
    batch: Batch, *, samples: int, seed: int, max_memory: int = DEFAULT_MEMORY, progress: bool = True
) -> PyTree[np.ndarray]:
    """The first `samples` draws of a sequence that is computed in batches.

    There is one thread for each core, or fewer if `max_memory` does not hold their batches and the result. Batches are
    distributed over all local devices.

    Args:
        batch: The function that computes a batch.
        samples: The number of draws.
        seed: The seed of the sequence. The draw of an index depends on nothing else.
        max_memory: The number of bytes that the draws and the running batches may use.
        progress: Whether to show a progress bar on a terminal or in a notebook if it takes longer than two seconds.

    Returns:
        The pytree that `batch.draw` returns, of NumPy arrays with `samples` draws each.

    Raises:
        ArgumentError: If the draws or a batch do not fit `max_memory`. This is checked before any work.

    Example:
        >>> import jax
        >>> from limitlaw.numerics.batches import Batch, draw_batches
        >>> normals = Batch(lambda key: jax.random.normal(key, (4,)), size=4, memory=16)
        >>> ten = draw_batches(normals, samples=10, seed=0)
        >>> bool((ten[:6] == draw_batches(normals, samples=6, seed=0)).all())
        True
    """
    release_compiled()
    key = seed_key(seed)
    batches = -(-samples // batch.size)
    if batch.memory > max_memory:
        raise ArgumentError(
            "max_memory",
            f"max_memory={max_memory} ({format_bytes(max_memory)}) is too small for a batch, which has {batch.size} "
            f"draws and needs {format_bytes(batch.memory)}. Raise max_memory.",
        )
    kept = samples * _bytes_a_draw(batch, key) if batches > 1 else 0  # the memory of a single batch includes its draws
    if kept + batch.memory > max_memory:
        raise ArgumentError(
            "samples",
            f"samples={samples} needs too much memory. The draws need {format_bytes(kept)} and a batch of {batch.size} "
            f"needs {format_bytes(batch.memory)}, more than max_memory={max_memory} ({format_bytes(max_memory)}). "
            f"Draw fewer samples at a time, or raise max_memory.",
        )
    threads = min(1 if batch.alone else available_cores(), batches, (max_memory - kept) // max(batch.memory, 1))
    devices = jax.local_devices()
    out: list[np.ndarray] = []
    structure = None

    def compute(i: int) -> None:
        nonlocal structure
        with jax.enable_x64(False):  # draws do not depend on the precision that the caller has set
            own = random.fold_in(key, i)
            if len(devices) > 1:  # the computation runs on the device of its key
                own = jax.device_put(own, jax.sharding.SingleDeviceSharding(devices[i % len(devices)]))
            leaves, structure_of_draws = jax.tree.flatten(batch.draw(own))
        for leaf in leaves:
            if isinstance(leaf, jax.Array):
                leaf.copy_to_host_async()  # all copies start before the first one is waited for
        if i == 0:  # batch 0 runs alone before the others, so no lock is needed
            structure = structure_of_draws
            out.extend(np.empty((samples, *leaf.shape[1:]), leaf.dtype) for leaf in leaves)
        start = i * batch.size
        for whole, leaf in zip(out, leaves, strict=True):
            rows = whole[start : start + batch.size]
            rows[:] = np.asarray(leaf)[: len(rows)]

    with _progress.task("Drawing", batches, compiles=True, show=progress) as bar:
        for _ in _run_all(compute, batches, max(int(threads), 1)):
            bar.advance()
    assert structure is not None
    return jax.tree.unflatten(structure, out)


def _bytes_a_draw(batch: Batch, key: PRNGKeyArray) -> int:
    with jax.enable_x64(False):
        leaves = jax.tree.leaves(jax.eval_shape(batch.draw, key))
    return sum(int(np.prod(leaf.shape[1:], dtype=np.int64)) * leaf.dtype.itemsize for leaf in leaves)


def available_cores() -> int:
    """The number of cores that this process may use.

    Returns:
        The number of cores.

    Example:
        >>> from limitlaw.numerics.batches import available_cores
        >>> available_cores() >= 1
        True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run_all(compute: Callable[[int], None], count: int, threads: int) -> Iterator[None]:
    """Run `compute(0)` alone, because it compiles, and then the others. Yield after each of them.

    Even a single computation runs on another thread, because waiting can be interrupted and a computation cannot. An
    interrupt returns at once and cancels all computations that have not started.
    """
    pool = ThreadPoolExecutor(threads)
    try:
        yield pool.submit(compute, 0).result()
        # Twice as many computations as threads are queued, so threads are never idle and an error ends the call soon.
        waiting: deque[Future[None]] = deque()
        for i in range(1, count):
            waiting.append(pool.submit(compute, i))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)

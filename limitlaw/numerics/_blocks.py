"""Blocks of draws: the one place that knows about batches, threads, memory and interrupts.

Draws are made in blocks of a fixed size. Block `i` has the key `fold_in(seed, i)` and is computed whole, then trimmed,
so a draw depends on the seed and its index alone: not on how many are asked for, nor on how many threads and devices compute.
"""

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from . import random
from ._compiled import release_compiled

DEFAULT_MEMORY = 2**30  # bytes
_PATIENCE = 1.0  # seconds before a progress bar appears on a terminal


def seed_key(seed: int) -> PRNGKeyArray:
    """The threefry key of a 64-bit seed (`jax.random.key` keeps only 32 bits of it without x64).

    !!! Example

        >>> import jax
        >>> from limitlaw.numerics import seed_key
        >>> bool((seed_key(7) == jax.random.key(7)).all())
        True
    """
    return jax.random.wrap_key_data(
        jax.device_put(np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)), impl="threefry2x32"
    )


def largest_power_of_two(at_most: int | float) -> int:
    """The largest power of two not above `at_most`; 1 if there is none.

    !!! Example

        >>> from limitlaw.numerics import largest_power_of_two
        >>> largest_power_of_two(1000), largest_power_of_two(0.1)
        (512, 1)
    """
    return 2 ** max(int(np.floor(np.log2(max(at_most, 1)))), 0)


@dataclass(frozen=True)
class Block:
    """A block of draws: `draw(key)` returns `size` of them, draws first, within `memory` bytes; `alone` if two must not run at once.

    With a number of `columns`, `draw(key)` iterates over parts of rows of so many float32 numbers, each as `(its first column, part)`: a part is
    copied to its place while the next is computed.

    !!! Example

        >>> import jax.numpy as jnp
        >>> from limitlaw.numerics import Block, draw_blocks
        >>> def draw(key):  # two draws, column by column
        ...     yield from ((column, jnp.full((2, 1), float(column))) for column in range(3))
        >>> draw_blocks(Block(draw, size=2, memory=24, columns=3), samples=3, seed=0).tolist()
        [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [0.0, 1.0, 2.0]]
    """

    draw: Callable[[PRNGKeyArray], Any]
    size: int
    memory: int
    alone: bool = False
    columns: int | None = None


def draw_blocks(block: Block, *, samples: int, seed: int, max_memory: int = DEFAULT_MEMORY) -> np.ndarray:
    """The first `samples` draws of a sequence that is made in blocks.

    Blocks run on as many threads as there are cores and as fit `max_memory` bytes beside the result, and in turn on all local devices; a
    request that cannot fit is refused before any work.

    !!! Example

        >>> import jax
        >>> from limitlaw.numerics import Block, draw_blocks
        >>> normals = Block(lambda key: jax.random.normal(key, (4,)), size=4, memory=16)
        >>> ten = draw_blocks(normals, samples=10, seed=0)
        >>> bool((ten[:6] == draw_blocks(normals, samples=6, seed=0)).all())
        True
    """
    release_compiled()
    key = seed_key(seed)
    blocks = -(-samples // block.size)
    if block.memory > max_memory:
        raise ValueError(
            f"max_memory={max_memory} ({bytes_in_words(max_memory)}): computing a block of {block.size} draws takes "
            f"{bytes_in_words(block.memory)}, however few are asked for; raise max_memory."
        )
    kept = samples * _bytes_a_draw(block, key) if blocks > 1 else 0  # one block holds its draws itself
    if kept + block.memory > max_memory:
        raise ValueError(
            f"samples={samples}: the draws take {bytes_in_words(kept)} and computing a block of {block.size} takes "
            f"{bytes_in_words(block.memory)}, more than max_memory={max_memory} ({bytes_in_words(max_memory)}). "
            f"Draw fewer samples at a time, or raise max_memory."
        )
    threads = min(1 if block.alone else available_cores(), blocks, (max_memory - kept) // max(block.memory, 1))
    devices = jax.local_devices()
    out = np.empty(0)

    def compute(i: int) -> None:
        nonlocal out
        start = i * block.size
        with jax.enable_x64(False):  # draws are float32, and the same, whatever the caller's setting
            own = random.fold_in(key, i)
            if len(devices) > 1:  # what is computed from it stays where it is
                own = jax.device_put(own, jax.sharding.SingleDeviceSharding(devices[i % len(devices)]))
            draws = block.draw(own)
            whole = block.columns is None
            if i == 0:  # it runs first, alone
                shape, dtype = (draws.shape[1:], draws.dtype) if whole else ((block.columns,), np.float32)
                out = np.empty((samples, *shape), dtype)
            rows = out[start : start + block.size]
            if whole:
                rows[:] = np.asarray(draws)[: len(rows)]
            else:
                _fill_columns(rows, draws)

    progress = _Progress(blocks)
    try:
        for done in _run_all(compute, blocks, max(int(threads), 1)):
            progress.show(done)
    finally:
        progress.close()
    return out


def _bytes_a_draw(block: Block, key: PRNGKeyArray) -> int:
    if block.columns is not None:
        return 4 * block.columns
    with jax.enable_x64(False):
        shape = jax.eval_shape(block.draw, key)
    return int(np.prod(shape.shape[1:], dtype=np.int64)) * shape.dtype.itemsize


def _fill_columns(rows: np.ndarray, parts: Iterator[tuple[int, jax.Array | np.ndarray]]) -> None:
    """Parts, each with its first column, into the rows that are wanted, on a thread of its own: what a device has made is copied while it goes on."""

    def put(first: int, part: jax.Array | np.ndarray) -> None:
        rows[:, first : first + part.shape[1]] = np.asarray(part)[: len(rows)]

    with ThreadPoolExecutor(1) as beside:
        for done in [beside.submit(put, *part) for part in parts]:
            done.result()


def available_cores() -> int:
    """How many cores this process may use.

    !!! Example

        >>> from limitlaw.numerics import available_cores
        >>> available_cores() >= 1
        True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run_all(compute: Callable[[int], None], count: int, threads: int) -> Iterator[int]:
    """Run `compute(0)`, alone since it compiles, then the others; yields how many are done.

    The work is on other threads even if there is one: a wait can be interrupted, a computation cannot. An interrupt
    returns at once and drops all that has not started.
    """
    pool = ThreadPoolExecutor(threads)
    try:
        pool.submit(compute, 0).result()
        yield 1
        waiting: deque[Future[None]] = deque()
        for i in range(1, count):
            waiting.append(pool.submit(compute, i))
            if len(waiting) > 2 * threads:
                waiting.popleft().result()
                yield i + 1 - len(waiting)
        while waiting:
            waiting.popleft().result()
            yield count - len(waiting)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class _Progress:
    """A line on a terminal's standard error, once a second has passed."""

    def __init__(self, total: int) -> None:
        self.total, self.start, self.shown = total, time.monotonic(), False
        # on other threads it would write over the progress of whoever started them
        self.enabled = sys.stderr.isatty() and threading.current_thread() is threading.main_thread()

    def show(self, done: int) -> None:
        elapsed = time.monotonic() - self.start
        if self.enabled and elapsed > _PATIENCE:
            filled = "█" * (30 * done // self.total)
            left = elapsed * (self.total - done) / done
            sys.stderr.write(f"\r{filled:<30} {done}/{self.total} blocks, {left:.0f} s left ")
            sys.stderr.flush()
            self.shown = True

    def close(self) -> None:
        if self.shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def bytes_in_words(size: int | float) -> str:
    """A number of bytes for people.

    !!! Example

        >>> from limitlaw.numerics import bytes_in_words
        >>> bytes_in_words(3 * 2**30), bytes_in_words(512)
        ('3 GiB', '512 B')
    """
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} GiB"

import io
import os
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from rich.console import Console

from limitlaw import _progress
from limitlaw._checks import ArgumentError
from limitlaw.numerics.batches import Batch, draw_batches, seed_key

NORMALS = Batch(lambda key: jax.random.normal(key, (64, 3)), size=64, memory=64 * 3 * 4)


def test_a_draw_depends_on_seed_and_index_alone():
    many = draw_batches(NORMALS, samples=1000, seed=5)
    assert np.array_equal(many[:137], draw_batches(NORMALS, samples=137, seed=5))
    assert not np.array_equal(many[:137], draw_batches(NORMALS, samples=137, seed=6))
    assert len(np.unique(many)) == many.size


def test_threads_do_not_change_draws(monkeypatch):
    expected = draw_batches(NORMALS, samples=2000, seed=5)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert np.array_equal(draw_batches(NORMALS, samples=2000, seed=5), expected)
    # a bound with room for one batch beside the result
    tight = 2000 * 12 + NORMALS.memory
    assert np.array_equal(draw_batches(NORMALS, samples=2000, seed=5, max_memory=tight), expected)


def test_a_batch_may_be_any_tree_of_arrays():
    """As a dictionary, a tuple and NumPy arrays; every leaf has the draws of the same keys."""

    def draw(key):
        rows = NORMALS.draw(key)
        return {"rows": rows, "parts": (rows[:, 0] > 0, np.arange(64)), "nothing": None}

    tree = draw_batches(Batch(draw, size=64, memory=64 * 24), samples=150, seed=5)
    whole = draw_batches(NORMALS, samples=150, seed=5)
    assert np.array_equal(tree["rows"], whole)
    assert np.array_equal(tree["parts"][0], whole[:, 0] > 0)
    assert np.array_equal(tree["parts"][1], np.arange(150) % 64)
    assert tree["nothing"] is None
    assert all(type(leaf) is np.ndarray for leaf in jax.tree.leaves(tree))
    assert [leaf.dtype for leaf in jax.tree.leaves(tree)] == [np.bool_, np.int64, np.float32]


def test_all_leaves_count_as_memory():
    wide = Batch(lambda key: (NORMALS.draw(key),) * 3, size=64, memory=64 * 36)
    with pytest.raises(ArgumentError, match=r"^samples=2000 .*The draws need 70.3 KiB"):
        draw_batches(wide, samples=2000, seed=5, max_memory=60_000)


def test_refuses_what_does_not_fit():
    with pytest.raises(ArgumentError, match=r"^samples=2000 .* max_memory=10000 .*fewer samples") as refused:
        draw_batches(NORMALS, samples=2000, seed=5, max_memory=10_000)
    assert refused.value.argument == "samples"
    with pytest.raises(ArgumentError, match=r"^max_memory=10 \(10 B\) .*too small for a batch") as refused:
        draw_batches(NORMALS, samples=1, seed=5, max_memory=10)
    assert refused.value.argument == "max_memory"


def test_all_64_bits_of_a_seed_count():
    keys = {tuple(np.asarray(jax.random.key_data(seed_key(s)))) for s in (1, 2**32 + 1, 2**63 + 1)}
    assert len(keys) == 3


def test_an_error_in_a_batch_surfaces():
    def fails(key):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        draw_batches(Batch(fails, 4, 4), samples=8, seed=0)


def test_interrupt_returns_promptly():
    program = (
        "import limitlaw as ll\n"
        "net = ll.Network(ll.Inputs(tokens=4, activation='relu'), ll.Attention(heads=2))\n"
        "net.sample(10, width=1024)\n"
        "print('ready', flush=True)\n"
        "net.sample(10_000_000, width=1024)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(1.5)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert time.monotonic() - sent < 10
        assert "KeyboardInterrupt" in errors


def slowly(key):
    time.sleep(0.1)
    return NORMALS.draw(key)


def test_progress_counts_batches_and_says_that_the_first_one_compiles(monkeypatch):
    monkeypatch.setattr(_progress, "_PATIENCE", 0.02)
    terminal = Console(force_terminal=True, file=io.StringIO(), width=80)
    monkeypatch.setattr(_progress, "console", lambda: terminal)
    draw_batches(Batch(slowly, size=64, memory=64 * 12, alone=True), samples=6 * 64, seed=0)
    shown = terminal.file.getvalue()
    assert "compiling" in shown
    assert shown.index("compiling") < shown.index("2/6")
    before = len(shown)
    draw_batches(Batch(slowly, size=64, memory=64 * 12), samples=6 * 64, seed=0, progress=False)
    assert len(terminal.file.getvalue()) == before


SPREAD = """
import hashlib, sys
import jax
import numpy as np
import limitlaw as ll
from limitlaw.numerics.batches import Batch, draw_batches

seen = set()
def draw(key):
    if not isinstance(key, jax.core.Tracer):
        seen.add(next(iter(key.devices())))
    return jax.random.normal(key, (4,))
numbers = draw_batches(Batch(draw, size=4, memory=16), samples=64, seed=0)
net = ll.Network(ll.Inputs(3, "relu"), ll.Residual(ll.LayerNorm(), ll.Attention(heads=2, head_dim=4)))
gram = net.sample(20_000, width=16, observe="gram", seed=3)
t = ll.Network(ll.GramInputs(np.eye(3)), ll.Repeat(2, ll.Residual(ll.Attention()))).trajectory(20_000, width=16)
print(len(seen), hashlib.sha256(numbers.tobytes() + gram.tobytes() + t.gram.tobytes()).hexdigest())
"""


@pytest.mark.full
def test_draws_are_the_same_on_one_device_and_on_two():
    """Forced host devices: batches are computed on both, and in the same bits."""

    def on(count):
        flags = {**os.environ, "XLA_FLAGS": f"--xla_force_host_platform_device_count={count}"}
        flags["JAX_COMPILATION_CACHE_DIR"] = ""
        done = subprocess.run([sys.executable, "-c", SPREAD], capture_output=True, text=True, env=flags)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    (one, bits), (two, same_bits) = on(1), on(2)
    assert (one, two) == ("1", "2")
    assert bits == same_bits

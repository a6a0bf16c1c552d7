import os
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from limitlaw.numerics import Block, draw_blocks, seed_key

NORMALS = Block(lambda key: jax.random.normal(key, (64, 3)), size=64, memory=64 * 3 * 4)


def test_a_draw_depends_on_seed_and_index_alone():
    many = draw_blocks(NORMALS, samples=1000, seed=5)
    assert np.array_equal(many[:137], draw_blocks(NORMALS, samples=137, seed=5))
    assert not np.array_equal(many[:137], draw_blocks(NORMALS, samples=137, seed=6))
    assert len(np.unique(many)) == many.size


def test_threads_do_not_change_draws(monkeypatch):
    expected = draw_blocks(NORMALS, samples=2000, seed=5)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert np.array_equal(draw_blocks(NORMALS, samples=2000, seed=5), expected)
    # a bound with room for one block beside the result
    tight = 2000 * 12 + NORMALS.memory
    assert np.array_equal(draw_blocks(NORMALS, samples=2000, seed=5, max_memory=tight), expected)


def in_parts(key):
    """The rows of `NORMALS` twice over, last columns first."""
    rows = NORMALS.draw(key)
    yield 3, rows
    yield 2, rows[:, 2:]
    yield 0, rows[:, :2]


def test_rows_that_come_in_parts_are_put_together():
    parts = Block(in_parts, size=64, memory=64 * 6 * 4, columns=6)
    whole = draw_blocks(NORMALS, samples=150, seed=5)
    assert np.array_equal(draw_blocks(parts, samples=150, seed=5), np.concatenate([whole, whole], axis=1))


def test_an_error_between_parts_surfaces():
    def fails(key):
        yield 0, NORMALS.draw(key)
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        draw_blocks(Block(fails, 64, 4, columns=3), samples=8, seed=0)


def test_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match=r"samples=2000: .* max_memory=10000 .*fewer samples"):
        draw_blocks(NORMALS, samples=2000, seed=5, max_memory=10_000)
    with pytest.raises(ValueError, match=r"max_memory=10 \(10 B\): .*however few"):
        draw_blocks(NORMALS, samples=1, seed=5, max_memory=10)


def test_all_64_bits_of_a_seed_count():
    keys = {tuple(np.asarray(jax.random.key_data(seed_key(s)))) for s in (1, 2**32 + 1, 2**63 + 1)}
    assert len(keys) == 3


def test_an_error_in_a_block_surfaces():
    def fails(key):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        draw_blocks(Block(fails, 4, 4), samples=8, seed=0)


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


def test_progress_bar_on_a_terminal_only(monkeypatch, capsys):
    from limitlaw.numerics import _blocks

    monkeypatch.setattr(_blocks, "_PATIENCE", 0.0)
    draw_blocks(NORMALS, samples=1000, seed=0)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    draw_blocks(NORMALS, samples=1000, seed=0)
    assert "16/16 blocks" in capsys.readouterr().err


SPREAD = """
import hashlib, sys
import jax
import numpy as np
import limitlaw as ll
from limitlaw.numerics import Block, draw_blocks

seen = set()
def draw(key):
    if not isinstance(key, jax.core.Tracer):
        seen.add(next(iter(key.devices())))
    return jax.random.normal(key, (4,))
numbers = draw_blocks(Block(draw, size=4, memory=16), samples=64, seed=0)
net = ll.Network(ll.Inputs(3, "relu"), ll.Residual(ll.LayerNorm(), ll.Attention(heads=2, head_dim=4)))
gram = net.sample(20_000, width=16, observe="gram", seed=3)
t = ll.Network(ll.GramInputs(np.eye(3)), ll.Repeat(2, ll.Residual(ll.Attention()))).trajectory(20_000, width=16)
print(len(seen), hashlib.sha256(numbers.tobytes() + gram.tobytes() + t.gram.tobytes()).hexdigest())
"""


@pytest.mark.full
def test_draws_are_the_same_on_one_device_and_on_two():
    """Forced host devices: blocks are computed on both, and in the same bits."""

    def on(count):
        flags = {**os.environ, "XLA_FLAGS": f"--xla_force_host_platform_device_count={count}"}
        flags["JAX_COMPILATION_CACHE_DIR"] = ""
        done = subprocess.run([sys.executable, "-c", SPREAD], capture_output=True, text=True, env=flags)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    (one, bits), (two, same_bits) = on(1), on(2)
    assert (one, two) == ("1", "2")
    assert bits == same_bits

import subprocess
import sys
from pathlib import Path

import pytest

MANY_PROGRAMS = """
import mmap
import jax
import jax.numpy as jnp
from limitlaw.numerics.batches import Batch, draw_batches

allowed = int(open("/proc/sys/vm/max_map_count").read())
free = allowed - sum(1 for _ in open("/proc/self/maps"))
kinds = mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE  # neighbours of one kind would be one map
held = [mmap.mmap(-1, 4096, prot=kinds[i % 2]) for i in range(free - 2000)]

programs = []
for i in range(250):
    program = jax.jit(lambda key, i=i: jnp.sin(i * jax.random.uniform(key, (4,))))
    draw_batches(Batch(program, size=4, memory=64), samples=4, seed=0)
    programs.append(program)
print("alive")
"""


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/sys/vm/max_map_count").exists(), reason="memory maps are counted on Linux alone")
def test_a_process_near_its_limit_of_memory_maps_survives_more_programs_than_it_can_hold():
    done = subprocess.run([sys.executable, "-c", MANY_PROGRAMS], capture_output=True, text=True)
    assert done.stdout == "alive\n", done.stderr[-300:]

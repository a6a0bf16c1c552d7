"""An accelerator draws from the law that a CPU draws from; for machines that have one."""

import re
import subprocess
import sys
from pathlib import Path

import jax
import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "cpu_and_gpu.py"


@pytest.mark.full
@pytest.mark.skipif(jax.default_backend() == "cpu", reason="this machine has no accelerator")
def test_gram_matrices_agree_in_law():
    """Means of 60 entries and squares, 131,072 draws on each side: |z| < 5 fails by chance once in 30,000 runs."""
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=True)
    largest = [float(row[1]) for row in re.findall(r"\| (\d+) \| ([\d.]+) \| [\d.e+-]+ \|$", done.stdout, re.MULTILINE)]
    assert len(largest) == 3
    assert max(largest) < 5

"""CPU time of a draw by the version of limitlaw that Python imports: `PYTHONPATH=CHECKOUT python benchmarks/per_draw.py`.

Run it once for each of two checkouts, in turn, to compare them. CPU time hardly depends on what else the machine does,
and what is compiled first does not count. Prints the rows of a Markdown table, in microseconds.
"""

import time
from math import inf

import numpy as np
from machine import heading

import limitlaw as ll

BLOCK = (
    ll.Residual(ll.LayerNorm(), ll.Attention(heads=2)),
    ll.Residual(ll.LayerNorm(), ll.MLP("relu", ratio=2)),
)
DEEP = ll.Network(ll.GramInputs(np.eye(4)), ll.Repeat(8, *BLOCK))
SMALL_GPT2 = {"model_type": "gpt2", "n_embd": 96, "n_head": 4, "n_layer": 6}


def layer(activation, width, samples):
    net = ll.Network(ll.Inputs(4, activation), ll.Attention(heads=2))
    return samples, lambda: net.sample(samples, width=width, observe="covariance", token=0)


def deep(width, samples):
    return samples, lambda: DEEP.sample(samples, width=width, observe="gram")


def trajectory(config, tokens, samples):
    net = ll.from_config(config, tokens=list(range(tokens)))
    return samples, lambda: net.trajectory(samples)


CASES = {
    "one layer, clip, n = 256": lambda: layer(ll.clip(100.0), 256, 2**20),
    "one layer, ReLU tokens, n = 256": lambda: layer("relu", 256, 2**16),
    "8 blocks with ReLU, n = 256": lambda: deep(256, 2**12),
    "8 blocks with ReLU, n = inf": lambda: deep(inf, 2**14),
    "trajectory of GPT-2, 6 x 96, 16 tokens": lambda: trajectory(SMALL_GPT2, 16, 1024),
    "trajectory of GPT-2 small, 32 tokens": lambda: trajectory({"model_type": "gpt2"}, 32, 256),
}


def cpu_seconds(run):
    """The smallest of three, after one that compiles."""
    run()
    times = []
    for _ in range(3):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


if __name__ == "__main__":
    print(heading(), f"limitlaw {ll.__version__}")
    for name, case in CASES.items():
        samples, run = case()
        print(f"| {name} | {cpu_seconds(run) / samples * 1e6:.3g} |", flush=True)

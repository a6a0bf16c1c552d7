"""The Gram reading against the dense one, in one run on this machine: `make bench`, or `python benchmarks/gram_against_dense.py`.

Each row is measured in a process of its own, so that its peak memory is its own; both readings of a row run one after the
other. The floor is what drawing the random numbers of a sample takes by itself (jax.random.normal, the same threads).
Prints a Markdown table.
"""

import json
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from math import inf

from machine import heading

CASES = [
    # activation, width, heads, gram samples, dense samples, the ratio to reach
    ("clip", 64, 2, 2**22, 4096, None),
    ("clip", 256, 2, 2**22, 512, 5_000),
    ("clip", 1024, 2, 2**22, 32, 50_000),
    ("clip", 256, 256, 2**17, 16, 10_000),
    ("relu", 256, 2, 2**18, 512, 300),
    ("relu", 1024, 2, 2**17, 32, 1_500),
    ("clip", 10**6, 2, 2**22, 0, None),
    ("clip", inf, 2, 2**22, 0, None),
]


def network(activation, heads, **options):
    import limitlaw as ll

    inputs = ll.Inputs(4, ll.clip(100.0) if activation == "clip" else activation)
    return ll.Network(inputs, ll.Attention(heads=heads, **options))


def seconds_per_sample(net, samples, **options):
    net.sample(1, observe="covariance", token=0, **options)
    times = []
    for seed in range(3):
        start = time.perf_counter()
        net.sample(samples, observe="covariance", token=0, seed=seed, **options)
        times.append((time.perf_counter() - start) / samples)
    return sorted(times)[1]


def seconds_per_normal():
    import jax

    draw = jax.jit(lambda key: jax.random.normal(key, (2**18,)))
    keys = list(jax.random.split(jax.random.key(0), 200))
    draw(keys[0]).block_until_ready()
    start = time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda key: draw(key).block_until_ready(), keys))
    return (time.perf_counter() - start) / (200 * 2**18)


def random_numbers(activation, width, heads):
    """Per sample: the length of h, the input Gram, and per head 4 normals and 2 chi-squares; at infinity the normals alone."""
    if width == inf:
        return 4 * heads
    return 1 + (10 if activation == "clip" else 4 * width) + 6 * heads


def measure(index):
    activation, width, heads, samples, dense_samples, _ = CASES[index]
    net = network(activation, heads)
    gram = seconds_per_sample(net, samples, width=width)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    floor = random_numbers(activation, width, heads) * seconds_per_normal()
    dense = seconds_per_sample(net, dense_samples, width=width, reading="dense") if dense_samples else None
    return {"gram": gram, "dense": dense, "peak": peak, "floor": floor}


def in_a_process(*arguments):
    output = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=True).stdout
    return json.loads(output.splitlines()[-1])


def start_up():
    """Seconds to import, and to the first draws of the README's network, compilation included."""
    start = time.perf_counter()
    import limitlaw  # noqa: F401

    imported = time.perf_counter()
    network("clip", 2).sample(10_000, width=64)
    return {"import": imported - start, "first": time.perf_counter() - imported}


def lazy(width):
    """Seconds per sample of the lazy reading and the peak memory of the process."""
    net = network("relu", 2, head_dim=64)
    net.sample(1, width=width, reading="lazy")
    start = time.perf_counter()
    net.sample(64, width=width, reading="lazy")
    seconds = (time.perf_counter() - start) / 64
    return {"seconds": seconds, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def generators():
    """Nanoseconds for a float32 normal on all cores, by generator, and for each of the normals behind a ReLU network at n = 1024."""
    import jax
    import numpy as np

    from limitlaw.numerics import random

    count, rounds, cores = 2**18, 64, os.cpu_count()

    def on_all_cores(draw):
        draw(0)
        start = time.perf_counter()
        with ThreadPoolExecutor(cores) as pool:
            list(pool.map(draw, range(rounds)))
        return 1e9 * (time.perf_counter() - start) / (rounds * count)

    def bit_generator(kind):
        return lambda seed: np.random.Generator(kind(seed)).standard_normal(count, np.float32)

    threefry = jax.jit(lambda key: jax.random.normal(key, (count,)))
    own = jax.jit(lambda key: random.normal(key, (count // 2**11, 2**11)))
    found = {
        "jax.random.normal (threefry)": on_all_cores(lambda seed: threefry(jax.random.key(seed)).block_until_ready()),
        "numpy PCG64": on_all_cores(bit_generator(np.random.PCG64)),
        "numpy SFC64": on_all_cores(bit_generator(np.random.SFC64)),
        "limitlaw.numerics.random (threefry)": on_all_cores(lambda seed: own(jax.random.key(seed)).block_until_ready()),
    }
    network_seconds = seconds_per_sample(network("relu", 2), 2**16, width=1024)
    return {**found, "a ReLU network, n = 1024": 1e9 * network_seconds / (4 * 1024)}


def main():
    print(heading() + "\n")
    print("| inputs | n | H | dense, µs | gram, µs | ratio | to reach | gram, samples/s | floor, µs | peak, MiB |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for index, (activation, width, heads, _, _, reach) in enumerate(CASES):
        row = in_a_process("measure", str(index))
        dense = f"{1e6 * row['dense']:,.0f}" if row["dense"] else ""
        ratio = f"{row['dense'] / row['gram']:,.0f}" if row["dense"] else ""
        print(
            f"| {activation} | {width} | {heads} | {dense} | {1e6 * row['gram']:.2f} | {ratio} | {f'{reach:,}' if reach else ''} "
            f"| {1 / row['gram']:,.0f} | {1e6 * row['floor']:.2f} | {row['peak']:.0f} |",
            flush=True,
        )
    up = in_a_process("start_up")
    print(f"\nimport limitlaw: {up['import']:.2f} s; first 10,000 samples of the README example: {up['first']:.2f} s\n")
    print("| lazy reading, relu, H = 2, d = 64: n | ms per sample | peak, MiB |\n|---|---|---|")
    for width in (50_000, 100_000, 200_000):
        row = in_a_process("lazy", str(width))
        print(f"| {width:,} | {1e3 * row['seconds']:.0f} | {row['peak']:.0f} |", flush=True)
    *alone, (title, whole) = in_a_process("generators").items()
    print("\n| normals, float32, all cores | ns each |\n|---|---|")
    for name, nanoseconds in (*alone, (title, whole)):
        print(f"| {name} | {nanoseconds:.2f} |")
    print(f"\nThe network takes {whole / min(ns for _, ns in alone):.2f} times the fastest of them (2).")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        name, *rest = sys.argv[1:]
        print(
            json.dumps(
                {"measure": measure, "start_up": start_up, "lazy": lazy, "generators": generators}[name](
                    *map(int, rest)
                )
            )
        )

"""Exact laws and distances: values against references, and seconds. `make bench`, or `python benchmarks/laws_and_distances.py`.

A law is built three times (networks without Monte Carlo) or once; the time of the slowest is printed, compilation included
where something is compiled. Prints Markdown tables.
"""

import time
from math import inf

import numpy as np
from machine import heading

import limitlaw as ll

VARIANCE, KURTOSIS = 0.3919714436, 0.2433184252  # s = 4, K = I, tensor trapezoid rule of a separate implementation
# KL of the law at H heads from infinitely many. The separate implementation has 9.724181e-4 and 2.731795e-4: it stops at
# |y| = 5, which leaves out 7e-6 and 1e-6 of the value (tests/networks/test_exact_laws.py has a twin with the tails).
DIVERGENCES = {1: 9.724250e-4, 2: 2.731797e-4, 256: 1.88025e-8}


def paper(heads, tokens=4):
    return ll.Network(ll.Inputs(tokens, ll.clip(100.0)), ll.Attention(heads=heads))


def timed(make, repeats=1):
    """The value, and the slowest of a few runs."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        value = make()
        seconds.append(time.perf_counter() - start)
    return value, max(seconds)


def limits():
    print("| limit law | value | reference | seconds | to reach |\n|---|---|---|---|---|")
    gaussian = paper(inf).law()
    for heads, truth in DIVERGENCES.items():
        law, build = timed(paper(heads).law, 3)
        print(f"| H = {heads}: variance | {law.variance():.10f} | {VARIANCE:.10f} | {build:.2f} | 0.5 |")
        print(f"| H = {heads}: H × excess kurtosis | {heads * law.kurtosis():.10f} | {KURTOSIS:.10f} | | |")
        value, seconds = timed(lambda law=law: ll.kl(law, gaussian), 3)
        print(f"| H = {heads}: KL to the infinite-head Gaussian | {value:.6e} | {truth:.6e} | {seconds:.2f} | 0.3 |")
    x = np.linspace(-5, 5, 10_000)
    for heads in (1, 2):
        law = paper(heads).law()
        law.pdf(x[:10])
        _, seconds = timed(lambda law=law: law.pdf(x), 3)
        print(f"| H = {heads}: pdf on 10,000 points ({law.method}) | | | {seconds:.3f} | 0.050 |")
    law, build = timed(paper(2, tokens=64).law)
    print(f"| s = 64, H = 2: variance | {law.variance()} | | {build:.1f} | 10 |")
    law, build = timed(paper(2, tokens=5).law)
    print(f"| s = 5, H = 2: variance | {law.variance():.10f} | | {build:.2f} | |")


def finite_widths():
    print("\n| KL to the limit, H = 2 | value | reference | seconds | to reach |\n|---|---|---|---|---|")
    net = paper(2)
    references = {256: "1.5802e-4 ± 7e-7", 1024: "", 4096: "about 6.5e-7"}
    for width, goal in ((256, "stderr < 1e-6 in 15"), (1024, "10% in 60"), (4096, "10% in 60"), (16384, "")):
        value, seconds = timed(lambda width=width: ll.kl(net.law(width=width), net.law()))
        print(f"| n = {width} | {value} | {references.get(width, '')} | {seconds:.1f} | {goal} |", flush=True)
    study, seconds = timed(lambda: ll.convergence(net, 2 ** np.arange(6, 13)))
    fit = study.fit(exponent=2)
    print(f"| fit c n^-2 (1 + a/n + b/n²) over 64..4096: c | {fit.constant} | 10.9 ± 0.3 | {seconds:.0f} | |")
    print(f"| exponent, fitted | {study.exponent} | 2 | | |")
    print(f"\nlocal slopes: {', '.join(map(str, study.slopes))}")


def distances():
    net = paper(2)
    law, limit = net.law(width=256, samples=2**20), net.law()
    samples = limit.sample(50_000, rng=1)
    print("\n| distance, n = 256 (2^20 draws) | law, law | s | 50,000 samples, law | s |\n|---|---|---|---|---|")
    for name, metric, options in (
        ("kl", ll.kl, {"method": "knn"}),
        ("tv", ll.tv, {"method": "kde"}),
        ("ks", ll.ks, {}),
        ("wasserstein, p = 1", ll.wasserstein, {}),
        ("wasserstein, p = 2", lambda p, q: ll.wasserstein(p, q, p=2), {}),
        ("energy", ll.energy, {}),
    ):
        value, seconds = timed(lambda metric=metric: metric(law, limit))
        wide = 1.3 * samples
        other, sampled = timed(lambda metric=metric, options=options, wide=wide: metric(wide, limit, **options))
        print(f"| {name} | {value} | {seconds:.2f} | {other} | {sampled:.2f} |")
    other = limit.sample(50_000, rng=2)
    floor, seconds = timed(lambda: ll.kde_kl(other, samples))
    print(f"\nkde_kl of two samples of the limit, 50,000 each: {floor} in {seconds:.2f} s (the truth is 0)")


if __name__ == "__main__":
    print(heading() + "\n")
    limits()
    finite_widths()
    distances()

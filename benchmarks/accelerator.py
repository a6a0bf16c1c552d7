"""On a machine with an accelerator: `python benchmarks/accelerator.py`. Prints Markdown tables.

All draws of the attention paper at full counts, the Gram reading against the dense one on the same device, and what the precision of products does to a law.
"""

import time

from machine import heading


def timed(f):
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def experiments():
    """Every network of the paper's figures, with its samples and the draws behind its exact law."""
    from limitlaw.figures import FIGURES, Settings
    from limitlaw.networks import from_plain

    settings = Settings()
    for name in ("fig1a", "fig2b", "fig3a", "fig4a", "fig5a"):
        studies = FIGURES[name].studies(settings)
        outputs, laws = studies["outputs"], studies["network"]
        for sampled, exact in zip(outputs.points, laws.points, strict=True):
            net, width = from_plain(sampled.member.settings["network"]), sampled.member.settings["width"]
            yield name, net, width, settings.trials, outputs.samples, exact.place["samples"]


def whole_paper():
    total, rows = 0.0, {}
    for name, net, width, trials, samples, draws in experiments():
        what = {"width": width, "token": 0, "observe": "covariance"}
        net.sample(1, **what)

        def everything(net=net, what=what, trials=trials, samples=samples, draws=draws):
            for seed in range(trials):
                net.sample(samples, seed=seed, **what)
            net.sample(draws, seed=trials, **what)

        seconds = timed(everything)
        rows[name] = rows.get(name, 0.0) + seconds
        total += seconds
    print("| draws of the attention paper, full counts | s |")
    print("|:--|--:|")
    for name, seconds in rows.items():
        print(f"| {name} | {seconds:.2f} |")
    print(f"| all | {total:.2f} (5) |\n")


def against_dense():
    import limitlaw as ll

    net = ll.Network(ll.Inputs(4, ll.clip(100.0)), ll.Attention(heads=256))
    what = {"width": 256, "token": 0, "observe": "covariance"}
    count, dense_count = 2**20, 64
    net.sample(1, **what)
    net.sample(1, reading="dense", **what)
    fast = min(timed(lambda: net.sample(count, seed=1, **what)) for _ in range(3)) / count
    dense = min(timed(lambda: net.sample(dense_count, seed=1, reading="dense", **what)) for _ in range(3)) / dense_count
    print(
        f"n = 256, H = 256: dense {1e3 * dense:.2f} ms, gram {1e6 * fast:.2f} us a sample: {dense / fast:,.0f} x (3,000)\n"
    )


def precision():
    """Relative error of a product of Gram factors, against float64 on the CPU."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    rng = np.random.default_rng(0)
    root = np.linalg.cholesky(0.9 ** np.abs(np.subtract.outer(np.arange(64), np.arange(64))))
    a = rng.standard_normal((64, 64, 256)).astype(np.float32)
    truth = np.einsum("ik,kjn->ijn", root, a.astype(np.float64))
    print("| precision of products | largest error | mean error of a squared length |")
    print("|:--|--:|--:|")
    for name in ("default", "high", "highest"):
        product = jax.jit(lambda r, x, name=name: jnp.einsum("ik,kjn->ijn", r, x, precision=name))
        found = np.asarray(product(root.astype(np.float32), a), np.float64)
        scale = np.sqrt(np.mean(truth**2))
        lengths = np.abs((found**2).sum(axis=1) / (truth**2).sum(axis=1) - 1).mean()
        print(f"| {name} | {np.abs(found - truth).max() / scale:.1e} | {lengths:.1e} |")
    print()


if __name__ == "__main__":
    print(heading())
    import jax

    print(f"\n{', '.join(device.device_kind for device in jax.local_devices())}\n")
    precision()
    against_dense()
    whole_paper()

"""Whether an accelerator draws from the law that a CPU draws from: `python benchmarks/cpu_and_gpu.py`, on a machine with one."""

import sys

CASES = {
    "clip, n = 64, H = 2": lambda ll, np: (ll.Network(ll.Inputs(4, ll.clip(100.0)), ll.Attention(heads=2)), 64),
    "relu, n = 64, H = 2": lambda ll, np: (ll.Network(ll.Inputs(4, "relu"), ll.Attention(heads=2)), 64),
    "pre-LN, 4 blocks, n = 64": lambda ll, np: (
        ll.Network(
            ll.GramInputs(np.eye(4) + 0.3),
            ll.Repeat(
                4,
                ll.Residual(ll.LayerNorm(), ll.Attention(2, head_dim="split", rope=1e4)),
                ll.Residual(ll.LayerNorm(), ll.MLP("gelu")),
            ),
        ),
        64,
    ),
}


def measured(seed):
    """Means and standard errors of every entry of the Gram matrix and of its square, case by case."""
    import numpy as np

    import limitlaw as ll

    out = {}
    for name, make in CASES.items():
        net, width = make(ll, np)
        gram = net.sample(2**17, width=width, observe="gram", seed=seed).astype(np.float64)[:, *np.tril_indices(4)]
        values = np.concatenate([gram, gram**2], axis=1)
        out[name] = [values.mean(axis=0).tolist(), (values.std(axis=0) / len(values) ** 0.5).tolist()]
    return out


if __name__ == "__main__":
    import json
    import os
    import subprocess

    if len(sys.argv) > 1:
        print(json.dumps(measured(int(sys.argv[1]))))
        sys.exit()
    import numpy as np
    from machine import heading

    print(heading())
    sides = []
    for seed, where in enumerate(({"JAX_PLATFORMS": "cpu"}, {})):
        words = [sys.executable, __file__, str(seed)]
        done = subprocess.run(words, env={**os.environ, **where}, capture_output=True, text=True, check=True)
        sides.append(json.loads(done.stdout.splitlines()[-1]))
    print("\n| Gram matrices, 131,072 draws each | entries and squares | largest |z| | relative error of a mean |")
    print("|:--|--:|--:|--:|")
    for name in CASES:
        (a, e), (b, f) = (np.array(side[name]) for side in sides)
        z = (a - b) / np.hypot(e, f)
        print(
            f"| {name} | {len(z)} | {np.abs(z).max():.1f} | {np.max(np.hypot(e, f)[:10] / np.abs(a[:10]).max()):.1e} |"
        )

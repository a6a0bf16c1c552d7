"""Whole transformers: `make bench`, or `python benchmarks/deep.py`; `python benchmarks/deep.py accelerator` on a machine with one.

The chain on Gram matrices against genuine PyTorch layers (re-drawn and run, on one thread; the dense reading where torch is not installed), a first look without a compiler, GPT-2 small, compilation of a deep
network, and a model of GPT-3's shape. Prints Markdown tables.
"""

import functools
import sys
import time
from math import inf

from machine import heading

TOKENS, HEADS, LAYERS = 4, 2, 8


def stack(hidden):
    import numpy as np

    import limitlaw as ll

    block = [
        ll.Residual(ll.Attention(heads=HEADS, head_dim="split")),
        ll.LayerNorm(),
        ll.Residual(ll.MLP("relu", ratio=2, width=hidden)),
        ll.LayerNorm(),
    ]
    distance = np.abs(np.subtract.outer(np.arange(TOKENS), np.arange(TOKENS)))
    return ll.Network(ll.GramInputs(0.3**distance), ll.Repeat(LAYERS, *block))


def gpt(width, layers, heads, tokens):
    import limitlaw as ll

    config = {"model_type": "gpt2", "n_embd": width, "n_layer": layers, "n_head": heads, "n_positions": 2048}
    return ll.from_config(config, tokens=list(range(tokens)))


def timed(f):
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def chain_seconds(net, width, samples):
    """Per sample and layer, the best of three."""
    net.sample(2, width=width, observe="gram")
    runs = [timed(lambda seed=seed: net.sample(samples, width=width, observe="gram", seed=seed)) for seed in range(3)]
    return min(runs) / (samples * LAYERS)


def dense_seconds(width):
    """Per sample and layer: draw the Gaussian weights of a `TransformerEncoderLayer` and run it."""
    try:
        import torch
    except ImportError:
        net = stack(None)
        net.sample(1, width=width, observe="gram", reading="dense")
        return timed(lambda: net.sample(8, width=width, observe="gram", reading="dense")) / (
            8 * LAYERS
        ), "dense reading"
    torch.set_num_threads(1)
    layer = torch.nn.TransformerEncoderLayer(width, HEADS, 2 * width, dropout=0.0, batch_first=True)
    x = torch.randn(1, TOKENS, width)

    def once():
        with torch.no_grad():
            for parameter in layer.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(0.0, parameter.shape[1] ** -0.5)
            layer(x)

    once()
    count = 20 if width > 512 else 100
    return min(timed(lambda: [once() for _ in range(count)]) for _ in range(3)) / count, f"PyTorch {torch.__version__}"


def against_dense():
    print("| n | hidden | dense, ms | chain, us | ratio | to reach |")
    print("|--:|--:|--:|--:|--:|--:|")
    for width, hidden, samples, goal in ((256, None, 2**14, 50), (1024, None, 2**13, 250), (1024, inf, 2**17, 3000)):
        dense, how = dense_seconds(width)
        chain = chain_seconds(stack(hidden), width, samples)
        shown = "inf" if hidden == inf else 2 * width
        print(f"| {width} | {shown} | {1e3 * dense:.2f} | {1e6 * chain:.1f} | {dense / chain:,.0f} | {goal:,} |")
    print(f"\nPer sample and layer, {TOKENS} tokens, {HEADS} heads; dense: {how}, one thread; chain: all cores.\n")


def gpt2_small():
    net = gpt(768, 12, 12, 32)
    first = timed(lambda: net.trajectory(2))
    draws = timed(lambda: net.trajectory(1000))
    print(
        f"GPT-2 small (12 layers, n = 768, 12 heads), 32 tokens: 1,000 exact draws in {draws:.1f} s (60), compilation and one block {first:.1f} s.\n"
    )


def compilation():
    net = gpt(768, 96, 12, 8)
    first, again = (timed(lambda: net.trajectory(2)) for _ in range(2))
    print(f"96 layers, 8 tokens: compilation {first - again:.1f} s (10).\n")


def first_look():
    """A stack of which nothing is compiled yet, and again."""
    draw = functools.partial(stack(None).trajectory, 256, width=256)
    first, again = (timed(functools.partial(draw, seed=seed)) for seed in range(2))
    print(f"256 draws of 8 layers, n = 256: first call {first:.2f} s, again {again:.2f} s.\n")


def gpt3_shape():
    import jax
    import numpy as np

    net = gpt(12288, 96, 96, 1024)
    draw = functools.partial(net.trajectory, max_memory=2**37)
    first = timed(lambda: draw(2))
    in_pairs = [timed(lambda seed=seed: draw(2, seed=seed)) / 2 for seed in range(5)]
    in_eights = [timed(lambda seed=seed: draw(8, seed=seed)) / 8 for seed in range(2)]
    t = draw(2)
    assert np.isfinite(t.gram).all()
    print(
        f"GPT-3's shape (96 layers, n = 12288, 96 heads of 128), 1,024 tokens on {jax.devices()[0].device_kind}: one draw of all Gram matrices in "
        f"{in_seconds(in_pairs)} s of two (2), {in_seconds(in_eights)} s of eight, first call {first:.1f} s; variance of the last token "
        f"{t.variance[-1, -1]:.4f}, cosine of the last two {t.cosine[-1, -1, -2]:.4f}."
    )


def in_seconds(runs):
    return f"{min(runs):.2f} to {max(runs):.2f}"


if __name__ == "__main__":
    print(heading())
    if "accelerator" in sys.argv:
        gpt3_shape()
    else:
        first_look()  # before anything is compiled
        against_dense()
        gpt2_small()
        compilation()

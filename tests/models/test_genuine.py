"""Exact chains against thousands of genuine models, re-initialised by their own libraries.

`make test` compares with stored statistics (`tests/data/genuine_models.npz`, made by `make_genuine_models.py` beside it, which names versions, seeds and
counts); `make test-full` builds the models again. Every entry of every Gram matrix after every block is compared in mean and variance, and the samples
of variances, cosines and entropies as a whole. torch's uniform weights are not Gaussian: there the chain is exact up to O(1/n) of a variance.
"""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from same_law import FALSE_ALARM

import limitlaw as ll

DATA = Path(__file__).parents[1] / "data"
SAMPLES = 4000
QUICK = ("vit-large-init",)  # of all, the cheapest that sees a branch two per cent too large
CASES = (
    *QUICK,
    "bert-large-init",
    "gpt2-large-init",
    "llama-large-init",
    "transformer",
    "gpt2",
    "bert",
    "llama",
    "vit",
    "encoder-pre",
    "encoder-post",
    "multihead",
)


def stored(name):
    with np.load(DATA / "genuine_models.npz") as file:
        provenance = json.loads(str(file["provenance"]))
        found = {key.removeprefix(f"{name}/"): file[key] for key in file.files if key.startswith(f"{name}/")}
    return found, provenance["cases"][name]


def p_of_means(ours, mean, variance, count):
    """Two-sided p-values of the difference of two means; entries that are constant up to rounding must agree."""
    error = np.sqrt(ours.var(axis=0, ddof=1) / len(ours) + variance / count)
    constant = error < 2e-6 * np.abs(mean).max()
    assert np.allclose(ours.mean(axis=0)[constant], mean[constant], rtol=1e-3, atol=1e-5 * np.abs(mean).max())
    z = (ours.mean(axis=0) - mean)[~constant] / error[~constant]
    return 2 * scipy.stats.norm.sf(np.abs(z)).ravel()


def p_values(name, net, genuine, prefix="", rows=slice(None)):
    """One p-value for each entry of each Gram matrix (mean, variance), each entropy, and each sample as a whole."""
    t = net.trajectory(SAMPLES, seed=5)
    count = int(genuine["models"])
    blocks = len(genuine[f"{prefix}gram_mean"])
    grams = t.gram[:, rows][:, :blocks].astype(np.float64)
    tokens = genuine[f"{prefix}gram_mean"].shape[1]
    which = slice(0, tokens) if prefix == "encoder_" or tokens == t.tokens else slice(t.tokens - tokens, t.tokens)
    grams = grams[:, :, which, which]
    p = [p_of_means(grams, genuine[f"{prefix}gram_mean"], genuine[f"{prefix}gram_variance"], count)]
    squares = (grams - grams.mean(axis=0)) ** 2
    alive = genuine[f"{prefix}gram_variance"] > 1e-9 * genuine[f"{prefix}gram_mean"].max() ** 2
    spread = genuine[f"{prefix}gram_fourth"] - genuine[f"{prefix}gram_variance"] ** 2
    p.append(p_of_means(squares[:, alive], genuine[f"{prefix}gram_variance"][alive], spread[alive], count))
    diagonal, length = grams[:, :, -1, -1], np.sqrt(np.diagonal(grams, axis1=2, axis2=3))
    cosine = grams[:, :, 0, -1] / (length[:, :, 0] * length[:, :, -1])
    for ours, key in ((diagonal, "diagonal_samples"), (cosine, "cosine_samples")):
        theirs = genuine[f"{prefix}{key}"]
        for block in range(blocks):
            if theirs[:, block].std() > 1e-5 * np.abs(theirs[:, block]).mean():
                p.append([scipy.stats.ks_2samp(ours[:, block], theirs[:, block]).pvalue])
    return t, np.concatenate(p)


def p_of_entropies(t, genuine, layers, rows=slice(None), prefix=""):
    count, p = int(genuine["models"]), []
    for number, layer in enumerate(layers):
        ours = t.entropies[layer][:, :, rows].astype(np.float64)
        mean, variance = genuine[f"{prefix}entropy_mean"][number], genuine[f"{prefix}entropy_variance"][number]
        p.append(p_of_means(ours, mean, variance, count))
        theirs = genuine[f"{prefix}entropy_samples"][:, number]
        p.append([scipy.stats.ks_2samp(ours[:, 0, -1], theirs).pvalue])
    return np.concatenate(p)


def network(name, genuine, about):
    if about["kind"] in ("gpt2", "bert", "llama", "vit"):
        tokens = genuine["image"] if about["kind"] == "vit" else genuine["ids"].tolist()
        return ll.from_config({"model_type": about["kind"], **about["config"]}, tokens=tokens)
    return torch_network(name, genuine, about["config"])


def torch_network(name, genuine, config):
    """What `from_torch` builds, written out by hand: this runs without torch. Default initialisers: q, k, v share one xavier matrix (variance 1/2), out_proj 1/3
    (1 in nn.Transformer), the perceptron's matrices 1/3 (2 fan_in / (fan_in + fan_out)), its biases 1 / (3 fan_in)."""
    n, heads = config.get("d_model", config.get("embed_dim")), config.get("nhead", config.get("num_heads"))
    xavier = name == "transformer"
    m = config.get("dim_feedforward", 1)

    def attention(**options):
        out = 1.0 if xavier else 1 / 3
        return ll.Attention(
            heads,
            head_dim="split",
            query_std=0.5**0.5,
            key_std=0.5**0.5,
            value_std=0.5**0.5,
            out_std=out**0.5,
            **options,
        )

    first, second = (2 * n / (n + m), 2 * m / (n + m)) if xavier else (1 / 3, 1 / 3)
    mlp = ll.MLP(
        config.get("activation", "relu"),
        width=m,
        in_std=first**0.5,
        out_std=second**0.5,
        in_bias_std=(1 / (3 * n)) ** 0.5,
        out_bias_std=(1 / (3 * m)) ** 0.5,
    )

    def fixed(*arrays):
        x = np.concatenate(arrays).astype(np.float64)
        return ll.GramInputs(x @ x.T / n, mean=x.mean(axis=1), sequences=[len(a) for a in arrays])

    if name == "multihead":
        return ll.Network(fixed(genuine["x0"]), attention(), width=n)
    if name == "encoder-pre":
        block = ll.Residual(ll.LayerNorm(), attention()), ll.Residual(ll.LayerNorm(), mlp)
        return ll.Network(fixed(genuine["x0"]), ll.Repeat(3, *block), ll.Readout(ll.LayerNorm()), width=n)
    post = [ll.Residual(attention()), ll.LayerNorm(), ll.Residual(mlp), ll.LayerNorm()]
    if name == "encoder-post":
        return ll.Network(fixed(genuine["x0"]), ll.Repeat(3, *post), width=n)
    decoder = [ll.Residual(attention(mask="causal")), ll.LayerNorm(), ll.Residual(attention(context=0)), *post[1:]]
    return ll.Network(
        fixed(genuine["src"], genuine["tgt"]),
        ll.OnSequence(0, ll.Repeat(2, *post), ll.LayerNorm()),
        ll.OnSequence(1, ll.Repeat(2, *decoder), ll.LayerNorm()),
        width=n,
    )


def check(name, genuine, about):
    net = network(name, genuine, about)
    if name == "transformer":  # blocks: input, two encoder layers, its norm, two decoder layers, its norm
        t, p = p_values(name, net, genuine, rows=[0, 4, 5])
        _, other = p_values(name, net, genuine, "encoder_", rows=[0, 1, 2])
        entropies = [
            p_of_entropies(t, genuine, [0, 1], slice(0, 4), "encoder_"),
            p_of_entropies(t, genuine, [2, 4], slice(4, 7)),
            p_of_entropies(t, genuine, [3, 5], slice(4, 7), "cross_"),
        ]
        p = np.concatenate([p, other, *entropies])
    else:
        t, p = p_values(name, net, genuine)
        p = np.concatenate([p, p_of_entropies(t, genuine, range(len(t.entropies)))])
    if "final_mean" in genuine and name != "transformer":
        last = net.sample(SAMPLES, observe="gram", seed=6).astype(np.float64)
        p = np.concatenate(
            [p, p_of_means(last, genuine["final_mean"], genuine["final_variance"], int(genuine["models"]))]
        )
    assert p.min() * len(p) > FALSE_ALARM, (name, p.min(), len(p))
    # nor are the tests as a whole off: a loose bound, since entries are correlated and symmetric ones are counted twice
    assert np.mean(p < 0.01) < 0.15, (name, np.mean(p < 0.01))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.full]) for name in CASES]
)
def test_stored_statistics_of_genuine_models(name):
    check(name, *stored(name))


@pytest.mark.full
def test_a_wrong_initialiser_is_noticed():
    """GPT-2 without its residual scaling."""
    genuine, about = stored("gpt2-large-init")
    wrong = {**about, "config": {**about["config"], "n_layer": 3}}
    net = ll.from_config({"model_type": "gpt2", **wrong["config"]}, tokens=genuine["ids"].tolist())
    unscaled = ll.Network(
        net.inputs,
        ll.Repeat(
            3, *(ll.Residual(*block.layers[:-1], rescaled(block.layers[-1], 6**0.5)) for block in net.layers[0].layers)
        ),
        width=net.width,
    )
    _, p = p_values("gpt2-large-init", unscaled, genuine)
    assert p.min() * len(p) < FALSE_ALARM


def rescaled(layer, factor):
    import dataclasses

    return dataclasses.replace(layer, out_std=layer.out_std * factor)


def maker():
    spec = importlib.util.spec_from_file_location("make_genuine_models", DATA / "make_genuine_models.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_genuine_models_built_again(name):
    pytest.importorskip("torch")
    if name.split("-")[0] in ("gpt2", "bert", "llama", "vit"):
        pytest.importorskip("transformers")
    _, about = stored(name)
    made = maker()
    case = made.CASES[name]
    check(name, case.inputs | made.statistics(case, 2000, case.seed + 1000), about)


@pytest.mark.full
@pytest.mark.parametrize("name", ["multihead", "encoder-pre", "encoder-post", "transformer"])
def test_from_torch_is_what_was_compared(name):
    pytest.importorskip("torch")
    genuine, about = stored(name)
    made = maker()
    module = made.build(made.CASES[name]).model
    inputs = (genuine["src"], genuine["tgt"]) if name == "transformer" else genuine["x0"]
    net = ll.from_torch(module, inputs, **({"mask": "causal"} if name == "transformer" else {}))
    ours, theirs = (
        net.sample(4000, observe="gram", seed=1),
        network(name, genuine, about).sample(4000, observe="gram", seed=1),
    )
    assert np.allclose(ours.mean(axis=0), theirs.mean(axis=0), rtol=1e-4)

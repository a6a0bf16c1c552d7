"""Deep networks: what the figures draw against a separate simulation, genuine modules, and theory."""

import json
from math import inf
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import limitlaw as ll
from limitlaw._format import listing, percent, typeset
from limitlaw.experiments import Store
from limitlaw.experiments.measures import pair_gap
from limitlaw.figures import FIGURES, GROUPS, Settings, _depth as deep, deep_heads
from limitlaw.networks.trajectory import excess_kurtosis

REFERENCE = json.loads((Path(__file__).parent.parent / "data" / "deep_reference.json").read_text())


@pytest.fixture(scope="module")
def data(quick):
    return {name: xr.open_zarr(quick / "data" / f"{name}.zarr").load() for name in GROUPS["deep"]}


@pytest.fixture(scope="module")
def drawn(quick):
    store, settings = Store(quick / "store"), Settings.quick()
    return {name: FIGURES[name].draw(FIGURES[name].dataset(settings, store)) for name in GROUPS["deep"]}


def far(value, stderr, truth, error=0.0):
    """The distance in standard errors of both."""
    return np.max(np.abs(np.asarray(value) - truth) / np.hypot(stderr, error))


def test_one_layer_is_the_known_one(data):
    """By quadrature; the kurtosis goes like 1/H exactly, the variance does not know H."""
    heads = data["deep_heads"].attrs["heads"]
    for known in REFERENCE["layers"].values():
        if known["depth"] > 1:
            continue
        at = data["deep_heads"].sel(
            tokens="orthogonal" if known["correlation"] == 0 else "correlated", head_dim=known["head_dim"] or inf
        )
        variance, kurtosis = at["layer_variance"].values, at["layer_kurtosis"].values * heads / known["heads"]
        assert far(*variance, *known["variance"]) < 3.5
        assert far(*kurtosis, *known["kurtosis"]) < 3.5
    at = data["deep_heads"]["layer_variance"].sel(tokens="orthogonal")
    table = {float(dim): value for dim, value in REFERENCE["head_dim_variance"].items()}
    for dim in at["head_dim"].values:
        assert far(*at.sel(head_dim=dim).values, table[dim], REFERENCE["head_dim_variance_stderr"]) < 3.5


def test_the_closed_form_of_heads(data):
    """(3/H)[(1 + 2/d)(1 + cv^2) - 1], with cv^2 from draws of the attended variance itself."""
    at = data["deep_heads"].sel(tokens="correlated")
    rng, K = np.random.default_rng(0), deep._gram(deep.CORRELATION)
    root = np.linalg.cholesky(K)
    for dim in (4, 64):
        temperature = np.sqrt(rng.chisquare(dim, 400_000) / dim)
        scores = 2.0 * temperature * (root @ rng.standard_normal((4, 400_000)))
        weights = np.exp(scores)
        weights /= weights.sum(axis=0)
        attended = np.einsum("in,ij,jn->n", weights, K, weights)
        relative = attended.var() / attended.mean() ** 2
        closed = 3 / deep.HEADS * ((1 + 2 / dim) * (1 + relative) - 1)
        assert float(at["layer_kurtosis"].sel(head_dim=dim, statistic="value")) == pytest.approx(closed, rel=0.01)
        assert float(at["layer_variance"].sel(head_dim=dim, statistic="value")) == pytest.approx(
            attended.mean(), rel=0.002
        )


def test_lines_between_head_dimensions_are_right(data):
    exact = data["deep_heads"].sel(tokens="correlated", statistic="value")
    between = deep.layer(deep.CORRELATION, 2.0, {"head_dim": [8]}).dataset().isel(trial=0, head_dim=0)
    for name in ("variance", "kurtosis"):
        drawn = float(deep_heads._between(exact[f"layer_{name}"], np.array([8.0]))[0])
        assert drawn == pytest.approx(float(between[name]), rel=5e-4)


def test_draws_agree_with_what_is_exact(data):
    heads = data["deep_heads"]
    for name in ("variance", "kurtosis"):
        exact = heads[f"layer_{name}"].sel(tokens="correlated", statistic="value").values
        assert far(*heads[f"stack_{name}"].sel(layers=1).values.T, exact) < 4
    first = data["deep_kurtosis"]["kurtosis"].sel(stack="attention", beta=2.0, block=1).values
    assert far(*first, float(heads["layer_kurtosis"].sel(tokens="correlated", head_dim=inf)[0])) < 4
    orthogonal = data["deep_kurtosis"]["orthogonal"].sel(orthogonal_beta=1.0, block=1).values
    assert far(*orthogonal, float(heads["layer_kurtosis"].sel(tokens="orthogonal", head_dim=inf)[0])) < 4


def test_kurtosis_freezes_falls_or_sits_in_differences(data):
    at = data["deep_kurtosis"]
    attention, pre = (at["kurtosis"].sel(stack=kind, statistic="value") for kind in ("attention", "pre"))
    assert np.allclose(attention.isel(block=-1), attention.isel(block=4), rtol=0.02)
    assert float(attention.sel(beta=1.0)[-1]) < 0.5 * float(attention.sel(beta=1.0)[1])
    orthogonal = at["orthogonal"].sel(orthogonal_beta=8.0, statistic="value")
    assert float(orthogonal[-1]) > 1.2 * float(orthogonal[1])
    assert np.all(np.diff(pre[:, 1:]) < 0)
    slopes = deep.last_slopes(pre)
    assert np.all((slopes < -2 * deep.ETA) & (slopes > -2))
    for name in ("kurtosis", "finite_kurtosis"):
        assert float(at[name].sel(stack="post", statistic="value").max()) < 1e-9
    assert np.all(at["difference"].sel(stack="post", statistic="value")[:, 2:] > 0.01)


@pytest.mark.parametrize("kind, name, first, within", [("attention", "kurtosis", 1, 0.03), ("pre", "kurtosis", 2, 0.12), ("post", "difference", 6, 0.12)])  # fmt: skip
def test_finite_widths_are_as_predicted(data, kind, name, first, within):
    """Where tokens have had time to agree, to a few percent and the error of the draws."""
    at = data["deep_kurtosis"].sel(stack=kind, block=slice(first, None))
    limit = at[name].sel(beta=1.0, statistic="value").values
    for width in at["width"].values:
        value, error = at[f"finite_{name}"].sel(width=width).values.T
        predicted = deep.predicted_kurtosis(kind, limit, at["block"].values, width)
        assert np.all(np.abs(value - predicted) < within * predicted + 4 * error), width


def test_collapse_has_its_rates(data):
    gap = data["deep_collapse"]["gap"].sel(statistic="value")
    assert np.allclose(gap.sel(block=0), pair_gap(deep._gram(deep.CORRELATION)), rtol=1e-6)
    post = gap.sel(stack="post")
    assert np.allclose(post[:, -1] / post[:, -2], deep.CONTRACTION, atol=0.01)
    skip = gap.sel(stack="skip", beta=1.0)
    factors = (skip[1:].values / skip[:-1].values)[1:]
    assert np.all(np.diff(factors) < 0)  # towards 1/2 from above
    assert 0.5 < factors[-1] < 0.54
    assert np.allclose(deep.last_slopes(gap.sel(stack="pre")), -deep.ETA, atol=0.08)
    attention = data["deep_collapse"].sel(stack="attention", beta=2.0)
    for layer in (1, 2):
        predicted = attention["cubic"].sel(block=layer, statistic="value")
        value, error = attention["gap"].sel(block=layer + 1).values
        assert abs(value - predicted) < 0.3 * value + 4 * error


def test_entropy_follows_the_collapse(data):
    at = data["deep_entropy"].sel(statistic="value")
    predicted = deep.predicted_deficit(at["beta"] ** 2 * at["gap"].shift(block=1))
    small = at["deficit"] < 0.02
    assert int(small.sum()) >= 3
    assert float(abs(predicted / at["deficit"] - 1).where(small).max()) < 0.06
    assert np.all(np.diff(at["deficit"][..., 1:]) < 0)
    assert np.all(np.diff(at["deficit"].sel(stack="pre")[:, 1:], axis=0) > 0)  # more with the score scale


def test_figures_say_what_they_show(data, drawn):
    kurtosis, collapse, entropy, heads = (
        drawn[f"deep_{name}"].axes for name in ("kurtosis", "collapse", "entropy", "heads")
    )
    kinds = ["attention alone", "pre-LN", "post-LN"]
    for axes, kind in zip(kurtosis, kinds * 2, strict=True):
        assert kind in axes.get_title(loc="left")
        assert axes.get_xscale() == axes.get_yscale() == "log"
    assert legend_of(drawn["deep_kurtosis"]) >= {"orthogonal tokens", "slope −1", "$n = 64$", "predicted"}
    assert all(axes.get_xlabel() == "depth $L$" for axes in kurtosis[3:])
    limit = data["deep_kurtosis"]["difference"].sel(stack="post", beta=1.0, statistic="value")[1:]
    assert any(np.array_equal(line.get_ydata(), limit) for line in kurtosis[5].lines)  # the limit in every panel

    for axes, kind in zip(collapse, deep.TITLES.values(), strict=True):
        assert kind in axes.get_title(loc="left")
        assert all(np.all(~(line.get_ydata() <= deep.SMALLEST_GAP)) for line in axes.lines)
        floor = [text.get_text() for text in axes.texts]
        below = data["deep_collapse"]["gap"].sel(stack=kind_of(kind), statistic="value").min() < deep.SMALLEST_GAP
        assert floor == (["single precision ends here"] if below else [])
    labels = {rf"$n = \infty$, $\beta = {beta}$" for beta in (1, 2, 4)} | {r"$n = 64$, $\beta = 1$", "predicted"}
    assert legend_of(drawn["deep_collapse"]) == labels

    assert [axes.get_title(loc="left").split("  ")[1] for axes in entropy] == [
        "pre-LN",
        "post-LN",
        "pre-LN and post-LN",
    ]
    assert "first order in the variance of the scores" in legend_of(drawn["deep_entropy"])
    assert [axes.get_ylabel() for axes in heads] == ["variance of a read-out", "excess kurtosis of a read-out"]
    assert r"$d = \infty$" in legend_of(drawn["deep_heads"])


def kind_of(title):
    return next(kind for kind, text in deep.TITLES.items() if text == title)


def legend_of(figure):
    return {text.get_text() for legend in figure.legends for text in legend.get_texts()}


def test_findings_are_the_numbers_of_the_run(data):
    texts = {name: FIGURES[name].words(data[name]).finding for name in GROUPS["deep"]}
    at = data["deep_kurtosis"]
    one, last = (float(at["kurtosis"].sel(stack="pre", beta=2.0, statistic="value")[block]) for block in (1, -1))
    assert f"{typeset(one)} → {typeset(last)}" in texts["deep_kurtosis"]
    for words in ("stays a mixture of Gaussians", "freezes", "more Gaussian", "12 L/n", "15 L/n", "6/n"):
        assert words in texts["deep_kurtosis"], words
    gap = data["deep_collapse"]["gap"].sel(stack="post", statistic="value")
    assert listing((gap[:, -1] / gap[:, -2]).values.tolist()) in texts["deep_collapse"]
    deficit = data["deep_entropy"]["deficit"].sel(stack="pre", block=1, statistic="value")
    assert percent(float(deficit[0]), 3) in texts["deep_entropy"]
    kurtosis = data["deep_heads"]["layer_kurtosis"].sel(tokens="correlated", head_dim=64, statistic="value")
    assert typeset(float(kurtosis), 4) in texts["deep_heads"]


def attention_only(known, depth):
    attention = ll.Attention(heads=known["heads"], head_dim=known.get("head_dim") or "split", query_std=known["beta"])
    return ll.Network(ll.GramInputs(deep._gram(known["correlation"])), ll.Repeat(depth, attention))


@pytest.mark.full
@pytest.mark.parametrize("name", ["R2", "R6"])
def test_reference_values(name):
    known = REFERENCE["layers"][name]
    t = attention_only(known, known["depth"]).trajectory(2**17, seed=1)
    for observable in ("variance", "kurtosis"):
        value, error = getattr(t, observable)[-1, -1], t.error(observable)[-1, -1]
        assert far(value, error, *known[observable]) < 3.5, (observable, value, error)


@pytest.mark.full
def test_depth_over_width():
    known = REFERENCE["depth_and_width"]
    net = attention_only(known, known["depth"])
    limit = known["kurtosis"]["inf"]
    for width, truth in known["kurtosis"].items():
        t = net.trajectory(2**16, width=float(width) if width == "inf" else int(width), seed=2)
        assert abs(t.kurtosis[-1, -1] - truth) < 0.02 * truth + 4 * t.error("kurtosis")[-1, -1], width
        if width != "inf":
            predicted = deep.predicted_kurtosis("attention", limit, known["depth"], int(width))
            assert abs(t.kurtosis[-1, -1] - predicted) < 0.05 * predicted + 4 * t.error("kurtosis")[-1, -1], width


@pytest.mark.full
def test_no_skip_is_attention_alone():
    """The stack that is drawn leaves the skip in, with a factor of 0."""
    net = deep.network("attention", 4, beta=2.0, correlation=0.3)
    alone = attention_only({"heads": deep.HEADS, "beta": 2.0, "correlation": 0.3}, 4)
    for width in (16, inf):
        first, second = (n.trajectory(2**15, width=width, seed=seed) for n, seed in ((net, 3), (alone, 4)))
        for name in ("variance", "kurtosis", "entropy"):
            difference = getattr(first, name)[1:] - getattr(second, name)[1:]
            assert far(difference, np.hypot(first.error(name)[1:], second.error(name)[1:]) + 1e-12, 0.0) < 4.5, name


@pytest.mark.full
def test_genuine_modules():
    """torch modules with hidden layers of 2n units: post-LN, differences of tokens."""
    known = REFERENCE["dense"]["post"]
    attention, perceptron = ll.Attention(heads=known["heads"], head_dim="split"), ll.MLP("relu", 2, in_std=2**0.5)
    block = ll.Residual(attention), ll.LayerNorm(), ll.Residual(perceptron), ll.LayerNorm()
    net = ll.Network(ll.GramInputs(deep._gram(deep.CORRELATION)), ll.Repeat(max(known["depths"]), *block))
    K = net.trajectory(2**15, width=known["width"], seed=5).gram[:, known["depths"]].astype(np.float64)
    v = K[..., 0, 0] + K[..., 1, 1] - 2 * K[..., 0, 1]
    mean, error = v.mean(axis=0), v.std(axis=0) / np.sqrt(len(v))
    assert far(mean, error, *np.transpose(known["variance"])) < 4
    assert far(*excess_kurtosis(v), *np.transpose(known["kurtosis"])) < 4


@pytest.mark.full
def test_power_laws_of_pre_norm():
    half, whole = REFERENCE["rates"]["pre_between"]
    K = deep.network("pre", whole, beta=1.0, correlation=0.0).trajectory(2**11, seed=6).gram.astype(np.float64)
    gap = pair_gap(K).mean(axis=0)
    kurtosis, _ = excess_kurtosis(K[:, :, -1, -1])
    for values, name, theory in ((gap, "pre_gap_slope", -deep.ETA), (kurtosis, "pre_kurtosis_slope", -2 * deep.ETA)):
        slope = np.log2(values[whole] / values[half])
        assert slope == pytest.approx(REFERENCE["rates"][name], abs=0.02)
        assert slope == pytest.approx(theory, abs=0.05)

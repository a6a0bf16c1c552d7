"""The panels and the copied code have the numbers of the library."""

import json
from math import inf

import numpy as np
import pytest

import limitlaw as ll
from limitlaw import slr
from limitlaw._checks import ArgumentError
from limitlaw.explore import VIEWS

GRAM = [[1.0, 0.25, 0.1], [0.25, 2.0, -0.3], [0.1, -0.3, 0.5]]
OWN_GRAM = {
    "inputs": "fixed",
    "gram": "1 .25 .1; .25, 2, -.3; 0.1 -0.3 5e-1",
    "heads": "2",
    "width": "32",
    "token": "1",
    "key": "2",
    "head_dim": "split",
}
OWN_MASK = {"mask": "own", "own_mask": "1 0 1; 1,1,0; 0 1 1", "tokens": "3", "token": "1", "width": "32"}
SHALLOW = {"depth": "2", "width": "16", "mlp": "none", "heads": "2", "tokens": "2", "norm": "none"}
QUICK_DESCENT = {"steps": "20", "dim": "30", "mu": "-0.2", "nu": "0.4"}


def panel(view, part, query, first=False):
    """What a part shows, as the page receives it."""
    of = VIEWS[view].parts[part]
    made = (of.first if first else of.make)(VIEWS[view].state.parse(query))
    return json.loads(json.dumps(made, allow_nan=False))


def curves(shown):
    return {each["role"]: each for each in shown["curves"]}


def close(given, expected, rtol=1e-12):
    np.testing.assert_allclose(np.array(given, float), np.asarray(expected, float), rtol=rtol, atol=0)


@pytest.mark.parametrize(
    ("query", "inputs", "layer", "token"),
    [
        (OWN_GRAM, ll.GramInputs(GRAM), {"heads": 2, "head_dim": "split"}, 1),
        (OWN_MASK, ll.Inputs(3), {"mask": [[True, False, True], [True, True, False], [False, True, True]]}, 1),
        ({"width": "32", "mask": "own", "tokens": "2"}, ll.Inputs(2), {}, 0),  # an empty mask hides nothing
    ],
)
def test_densities_of_a_layer(query, inputs, layer, token):
    shown = curves(panel("layer", "density", query))
    net = ll.Network(inputs, ll.Attention(**layer))
    law, limit = (net.law(width=n, token=token, samples=2**15) for n in (32, inf))
    many = ll.Network(inputs, ll.Attention(heads=inf, mask=layer.get("mask"))).law(token=token, samples=2**15)
    gaussian = ll.laws.Gaussian(variance=law.variance())
    assert shown["finite"]["x"][-1] == pytest.approx(6 * law.standard_deviation(), rel=1e-12)
    for role, expected in {"finite": law, "limit": limit, "heads": many, "gaussian": gaussian}.items():
        close(shown[role]["y"], expected.pdf(np.array(shown[role]["x"])))


def test_a_first_look_has_the_limits_alone():
    first = curves(panel("layer", "density", {"heads": "2", "width": "32"}, first=True))
    limit = ll.Network(ll.Inputs(4), ll.Attention(heads=2)).law()
    assert set(first) == {"limit", "heads", "gaussian"}
    close(first["limit"]["y"], limit.pdf(np.array(first["limit"]["x"])))


def test_scores_and_table_of_a_layer():
    net = ll.Network(ll.GramInputs(GRAM), ll.Attention(heads=2, head_dim="split"))
    score = curves(panel("layer", "scores", OWN_GRAM))["finite"]
    close(score["y"], net.score_law(1, 2, width=32, samples=2**15).pdf(np.array(score["x"])))
    law, limit = (net.law(width=n, token=1, samples=2**15) for n in (32, inf))
    quantities, distances = panel("layer", "comparison", OWN_GRAM)["tables"]
    found = ll.compare(law, limit)
    assert quantities["rows"] == [list(row) for row in found.table().cells()]
    assert distances["rows"] == [list(row) for row in found.distance_table().cells()]


@pytest.mark.parametrize("query", [{"tokens": "2"}, {"tokens": "2", "width": "inf"}, {**OWN_MASK, "width": "64"}])
def test_the_law_of_the_variance_is_smooth_and_right(query):
    shown = curves(panel("layer", "mixing", query))
    state = VIEWS["layer"].state.parse(query)
    first = next(iter(shown.values()))
    x, y = np.array(first["x"]), np.array(first["y"])
    mixture = state.law.mixture
    below = np.array([mixture.weights[mixture.values <= v].sum() for v in x])
    assert np.abs(y - below).max() < 0.02 + np.diff(below, prepend=0.0).max() / 2  # through the middle of each step
    assert np.all(np.diff(y) >= 0)
    assert x.size > 200
    assert np.abs(np.diff(y, 2)).max() < 0.01  # no corner that an eye would see


def test_convergence_of_a_layer():
    shown = panel("layer", "convergence", {"tokens": "2"})
    study = ll.convergence(ll.Network(ll.Inputs(2), ll.Attention()), [2**k for k in range(4, 11)], samples=2**14)
    expected = {n: v for n, v in zip(study.widths, study.values, strict=True) if v > 2 * v.stderr}
    points = shown["curves"][0]
    assert points["x"] == list(expected)
    close(points["y"], list(expected.values()))
    close(points["error"], [v.stderr for v in expected.values()])


def test_remarks_say_whether_the_output_is_gaussian():
    tails, *others = panel("layer", "remarks", {})["notes"]
    assert "n = 16 this is not a Gaussian" in tails
    assert any("in the limit such an output is still 4.5 times as likely" in text for text in others)
    alone = panel("layer", "remarks", {"mask": "causal", "width": "64"})["notes"]
    assert any("this token sees itself alone" in text for text in alone)
    many = panel("layer", "remarks", {"heads": "inf", "width": "inf"})["notes"]
    assert "close to a Gaussian" in many[0]


def test_a_score_that_a_mask_hides_is_said_to_be_hidden():
    query = {"tokens": "2", "width": "inf", "mask": "causal", "key": "1"}
    assert "The mask hides key 1 from query 0, so this score is not used." in panel("layer", "scores", query)["notes"]
    assert len(panel("layer", "scores", {**query, "token": "1"})["notes"]) == 1


def test_scores_that_tend_to_a_constant_have_a_law_at_finite_width():
    shown = panel("layer", "scores", {"scale": "linear", "width": "32"})
    assert set(curves(shown)) == {"finite", "gaussian"}
    assert any("tend to a constant" in text for text in shown["notes"])
    law = ll.Network(ll.Inputs(4), ll.Attention(scale="linear")).score_law(width=32, samples=2**15)
    finite = curves(shown)["finite"]
    close(finite["y"], law.pdf(np.array(finite["x"])))


def test_a_score_that_is_always_zero_is_refused_alone():
    state = VIEWS["layer"].state.parse({"query_std": "0", "width": "inf"})
    with pytest.raises(ArgumentError, match="score is identically 0"):
        VIEWS["layer"].parts["scores"].make(state)
    assert curves(VIEWS["layer"].parts["density"].make(state))


def test_depth_is_the_trajectory_of_the_library():
    net = ll.Network(ll.GaussianInputs(np.eye(2)), ll.Repeat(2, ll.Residual(ll.Attention(heads=2, head_dim="split"))))
    state = VIEWS["depth"].state.parse(SHALLOW)
    laws = panel("depth", "law", SHALLOW)
    assert [frame["name"] for frame in laws["frames"]] == ["at the input", "after block 1", "after block 2"]
    for width, role in ((16, "finite"), (inf, "limit")):
        t = net.trajectory(state.draws(), width=width)
        for name in ("variance", "kurtosis", "cosine", "entropy"):
            shown = curves(panel("depth", name, SHALLOW))[role]
            value, error = t.summary()[name]
            close(shown["y"], value)
            close(shown["error"], error)
        for block in range(3):
            law = curves(laws["frames"][block])[role]
            close(law["y"], t.law(block, -1).pdf(np.array(law["x"])))


def test_along_depth_the_first_look_has_fewer_draws():
    query = {"depth": "2", "tokens": "2"}
    state = VIEWS["depth"].state.parse(query)
    first = panel("depth", "cosine", query, first=True)
    assert state.draws() > state.batch
    assert f"{state.batch} networks" in first["notes"][0]
    run = state.network.trajectory(state.batch, width=48)
    close(curves(first)["finite"]["y"], run.summary()["cosine"][0], rtol=1e-4)


@pytest.mark.parametrize(
    "model", ["gpt2", *(pytest.param(name, marks=pytest.mark.full) for name in ("bert", "llama", "vit"))]
)
def test_a_known_model_says_how_it_differs_from_the_original(model):
    query = {"model": model, "depth": "2", "tokens": "2", "width": "192"}
    state = VIEWS["depth"].state.parse(query)
    expected = state.network.trajectory(state.draws(), width=inf).summary()["cosine"][0]
    close(curves(panel("depth", "cosine", query))["limit"]["y"], expected)
    first = panel("depth", "remarks", query)["notes"][0]
    assert "2 blocks of width 192" in first
    assert "the original has" in first


def test_a_stream_that_overflows_is_refused_with_the_remedy():
    query = {"norm": "none", "depth": "48", "skip": "2", "width": "64", "heads": "1", "mlp": "relu"}
    for part in ("cosine", "remarks", "law"):
        with pytest.raises(ArgumentError, match=r"after block \d+ is beyond single precision.*Add a norm"):
            panel("depth", part, query)


def test_regression_is_that_of_the_library():
    p = slr.Problem(dim=30, tokens=20, gamma=0.7, beta=1.0)
    maps = panel("regression", "landscape", QUICK_DESCENT)["maps"]
    descents = panel("regression", "descent", QUICK_DESCENT)
    paths = descents["elsewhere"]
    assert paths["part"] == "landscape"
    for i, method in enumerate(("exact", "mean-field")):
        mu, nu = np.meshgrid(maps[i]["x"], maps[i]["y"])
        close(maps[i]["z"], p.risk(mu, nu, method=method))
        run = slr.descent(p, 20, start=[-0.2, 0.4, 0, 0, 0], method=method)
        close(paths["curves"][i]["x"], run.mu)
        close(paths["curves"][i]["y"], run.nu)
        close(descents["curves"][i]["y"], run.risk)
        assert paths["curves"][i]["on_map"] == i


def test_phases_have_names_and_boundaries():
    shown = panel("regression", "phases", QUICK_DESCENT)
    p = slr.Problem(dim=30, tokens=20, gamma=0.7, beta=1.0)
    (risk,) = shown["maps"]
    close(risk["z"], slr.phase_diagram(p, "mu", "beta", x_values=risk["x"], y_values=risk["y"]).risk)
    for label in shown["labels"]:
        assert slr.phase(p.changed(beta=label["y"]), label["x"]) == label["text"]
    assert {label["text"] for label in shown["labels"]} >= {"retrieval", "frozen"}
    # mu = psi / c, with psi = beta / 2 + alpha / beta, or sqrt(2 alpha) where beta is above that
    found = next(curve for curve in shown["curves"] if curve["name"].startswith("signal found"))
    mu, beta = np.array(found["x"]), np.array(found["y"])
    psi = np.where(beta < np.sqrt(2 * p.alpha), beta / 2 + p.alpha / beta, np.sqrt(2 * p.alpha))
    np.testing.assert_allclose(mu, psi / p.strength, atol=0.01)


def test_a_stuck_start_is_called_a_plateau():
    query = {"mu": "0.05"}
    shown = panel("regression", "descent", query)
    assert any("Mean-field descent is on a plateau" in text for text in shown["elsewhere"]["notes"])
    assert any("plateau" in text for text in panel("regression", "remarks", query)["notes"])
    assert not panel("regression", "descent", {"mu": "0.6", "nu": "0.6"})["notes"]


def test_other_predictors_grow_with_the_tokens_as_in_the_library():
    shown = panel("regression", "baselines", QUICK_DESCENT)
    found = slr.baselines(slr.Problem(dim=30, tokens=100, gamma=0.7, beta=1.0))
    first = curves(panel("regression", "baselines", QUICK_DESCENT, first=True))
    for curve in shown["curves"]:
        assert curve["y"][curve["x"].index(100)] == pytest.approx(found[curve["role"]], rel=1e-12)
        assert "_" not in curve["name"]
        assert curve["role"] not in first or first[curve["role"]] == curve
    assert set(curves(shown)) - set(first) == {"softmax_best"}


@pytest.mark.parametrize(
    ("view", "query", "field", "other"),
    [
        ("layer", {"width": "inf", "tokens": "2"}, "key", "1"),
        ("layer", {"width": "16", "tokens": "2"}, "width", "17"),
        ("depth", SHALLOW, "block", "1"),
        ("regression", QUICK_DESCENT, "mu", "0.5"),
        ("regression", QUICK_DESCENT, "diagram", "alpha, beta"),
    ],
)
def test_a_field_changes_the_parts_that_it_names_and_no_others(view, query, field, other):
    kind = VIEWS[view].state
    states = [kind.parse(given) for given in (query, {**query, field: other})]
    for part, of in VIEWS[view].parts.items():
        same_question = states[0].query_of(part) == states[1].query_of(part)
        before, after = (json.dumps(of.make(state)) for state in states)
        assert (before == after) == same_question, part


@pytest.fixture
def executed(capsys, tmp_path, monkeypatch):
    """Run what is copied, in a folder of its own, where it leaves pictures."""
    monkeypatch.chdir(tmp_path)

    def execute(view, query):
        names = {}
        code = VIEWS[view].python(VIEWS[view].state.parse(query))
        assert max(map(len, code.splitlines())) <= 110, code
        exec(code, names)
        capsys.readouterr()
        pictures = list(tmp_path.glob("*.png"))
        assert pictures
        assert all(picture.stat().st_size > 5000 for picture in pictures)
        return names

    return execute


@pytest.mark.filterwarnings("ignore::limitlaw.ResolutionWarning")
@pytest.mark.parametrize(
    "query",
    [
        OWN_GRAM,
        OWN_MASK,
        pytest.param(
            {"width": "inf", "mask": "causal", "token": "2", "head_dim": "8", "tokens": "3"}, marks=pytest.mark.full
        ),
        {"heads": "inf", "width": "inf", "activation": "relu"},
        pytest.param(
            {"scale": "linear", "head_dim": "4", "inputs": "gaussian", "rho": "0.1234567", "query_std": "0.3"},
            marks=pytest.mark.full,
        ),
    ],
)
def test_copied_python_makes_the_numbers_of_a_layer(query, executed):
    names = executed("layer", query)
    shown = curves(panel("layer", "density", query))
    roles = {"finite": "law", "limit": "limit", "heads": "gaussian_limit", "gaussian": "gaussian"}
    for role, curve in shown.items():
        close(curve["x"], names["x"])
        close(curve["y"], names[roles[role]].pdf(np.array(curve["x"])))
    score = next(iter(panel("layer", "scores", query)["curves"]))
    close(score["y"], names["score"].pdf(np.array(score["x"])))
    if "study" in names:
        points = panel("layer", "convergence", query)["curves"][0]
        known = dict(zip(names["study"].widths, names["study"].values, strict=True))
        close(points["y"], [known[n] for n in points["x"]])


def test_copied_python_uses_each_name_and_writes_a_matrix_once():
    code = VIEWS["layer"].python(
        VIEWS["layer"].state.parse({**OWN_GRAM, "mask": "own", "own_mask": "1 0 0; 1 1 0; 1 1 1"})
    )
    assert code.count("0.25, 2.0") == 1
    for view in VIEWS.values():
        code = view.python(view.state())
        for line in code.splitlines():
            name, equals, _ = line.partition(" = ")
            if equals and name.isidentifier():
                assert code.count(name) > 1, (name, code)


def test_copied_python_makes_the_numbers_along_depth(executed):
    names = executed("depth", {**SHALLOW, "rho": "0.25", "block": "1"})
    shown = panel("depth", "kurtosis", {**SHALLOW, "rho": "0.25"})
    close(curves(shown)["finite"]["y"], names["run"].summary()["kurtosis"][0])
    laws = curves(panel("depth", "law", {**SHALLOW, "rho": "0.25"})["frames"][1])
    for role, name in (("finite", "run"), ("limit", "limit")):
        close(laws[role]["y"], names[name].law(1, -1).pdf(np.array(laws[role]["x"])))


@pytest.mark.parametrize("model", ["gpt2", "bert", "llama", "vit"])
def test_copied_python_makes_the_network_of_a_known_model(model):
    state = VIEWS["depth"].state.parse({"model": model, "depth": "2", "width": "192"})
    names = {}
    exec(VIEWS["depth"].python(state).split("\nrun = ")[0], names)
    assert repr(names["net"]) == repr(state.network)


def test_copied_python_makes_the_numbers_of_a_regression(executed):
    query = {**QUICK_DESCENT, "link": "quadratic", "gamma": "0.6180339"}
    names = executed("regression", query)
    close(panel("regression", "landscape", query)["maps"][1]["z"], names["risk"])
    close(panel("regression", "descent", query)["curves"][1]["y"], names["run"].risk)
    close(panel("regression", "phases", query)["maps"][0]["z"], names["diagram"].risk, rtol=1e-5)

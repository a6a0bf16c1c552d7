"""The explorer's answers are the library's numbers, whatever is asked."""

import asyncio
import json
import re
import socket
import sys
import threading
from math import inf
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

pytest.importorskip("fastapi")
from starlette.testclient import TestClient

import limitlaw as ll
from limitlaw import explore, slr
from limitlaw.cli import _explore
from limitlaw.explore import VIEWS, Cancelled, FieldError, _depth
from limitlaw.explore._jobs import Jobs
from limitlaw.explore._server import create_app

GRAM = [[1.0, 0.25, 0.1], [0.25, 2.0, -0.3], [0.1, -0.3, 0.5]]
GRAM_TEXT = "1 .25 .1; .25, 2, -.3; 0.1 -0.3 5e-1"
OWN_GRAM = {
    "inputs": "fixed",
    "gram": GRAM_TEXT,
    "heads": "2",
    "width": "32",
    "token": "1",
    "key": "2",
    "head_dim": "split",
}
SHALLOW = {"depth": "2", "width": "16", "mlp": "none", "heads": "2", "tokens": "2", "norm": "none"}
QUICK_DESCENT = {"steps": "20", "dim": "30", "mu": "-0.2", "nu": "0.4"}


@pytest.fixture(scope="module")
def client():
    with TestClient(create_app(), base_url="http://127.0.0.1") as client:
        yield client


def ask(client, view, part, query):
    answer = client.get(f"/api/{view}/{part}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def curves(panel):
    return {each["role"]: each for each in panel["curves"]}


def close(given, expected, rtol=1e-12):
    np.testing.assert_allclose(np.array(given, float), np.asarray(expected, float), rtol=rtol, atol=0)


def test_a_typed_gram_gives_the_densities_of_the_library(client):
    drawn = curves(ask(client, "layer", "density", OWN_GRAM))
    net = ll.Network(ll.GramInputs(GRAM), ll.Attention(heads=2, head_dim="split"))
    law, limit = (net.law(width=n, token=1, samples=2**15) for n in (32, inf))
    many = ll.Network(ll.GramInputs(GRAM), ll.Attention(heads=inf)).law(token=1, samples=2**15)
    gaussian = ll.laws.Gaussian(variance=law.variance())
    assert drawn["finite"]["x"][-1] == pytest.approx(6 * law.standard_deviation(), rel=1e-12)
    for role, expected in {"finite": law, "limit": limit, "heads": many, "gaussian": gaussian}.items():
        close(drawn[role]["y"], expected.pdf(np.array(drawn[role]["x"])))


OWN_MASK = {"mask": "own", "own_mask": "1 0 1; 1,1,0; 0 1 1", "tokens": "3", "token": "1", "width": "32"}


def test_a_typed_mask_gives_the_densities_of_the_library(client):
    drawn = curves(ask(client, "layer", "density", OWN_MASK))
    mask = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1]], bool)
    law = ll.Network(ll.Inputs(3), ll.Attention(mask=mask)).law(width=32, token=1, samples=2**15)
    close(drawn["finite"]["y"], law.pdf(np.array(drawn["finite"]["x"])))


def test_a_sketch_has_the_limits_alone_until_the_answer_is_known(client):
    state = {"heads": "2", "width": "100000"}
    sketch = ask(client, "layer", "density/sketch", state)
    drawn = curves(sketch)
    limit = ll.Network(ll.Inputs(4), ll.Attention(heads=2)).law()
    assert set(drawn) == {"limit", "heads", "gaussian"}
    close(drawn["limit"]["y"], limit.pdf(np.array(drawn["limit"]["x"])))
    whole = ask(client, "layer", "density", state)
    assert (sketch["sketch"], whole["sketch"]) == (True, False)
    assert "finite" in curves(whole)
    assert ask(client, "layer", "density/sketch", state) == whole


@pytest.mark.parametrize(
    "query",
    [
        {**SHALLOW, "depth": "3"},
        {**SHALLOW, "mlp": "relu", "width": "inf"},
        {"model": "gpt2", "depth": "2", "width": "48"},
    ],
)
def test_along_depth_the_first_draws_are_a_sketch_of_all(client, query):
    """Both are what a compiled program draws, up to rounding."""
    state = VIEWS["depth"].state.parse(query)
    assert state.draws() > state.batch
    for suffix, samples in {"/sketch": state.batch, "": state.draws()}.items():
        drawn = {role: state.network().trajectory(samples, width=width) for role, width in state.widths.items()}
        for observable in ("variance", "cosine", "entropy"):
            panel = ask(client, "depth", observable + suffix, query)
            assert panel["sketch"] == (samples == state.batch)
            assert f"{samples} networks" in panel["notes"][0]
            for role, run in drawn.items():
                close(curves(panel)[role]["y"], run.summary()[observable][0], rtol=1e-4)


def test_where_one_batch_is_all_the_finite_width_comes_first(client, monkeypatch):
    query = {**SHALLOW, "depth": "3", "mask": "causal"}
    state = VIEWS["depth"].state.parse(query)
    monkeypatch.setattr(_depth, "_MOST_DRAWS", state.batch)
    assert state.draws() == state.batch
    sketch, whole = (ask(client, "depth", part, query) for part in ("cosine/sketch", "cosine"))
    assert (set(curves(sketch)), set(curves(whole))) == ({"finite"}, {"finite", "limit"})
    assert curves(sketch)["finite"] == curves(whole)["finite"]
    at_infinity = {**query, "width": "inf"}
    assert not ask(client, "depth", "cosine/sketch", at_infinity)["sketch"]


def test_scores_mixing_law_and_table_are_those_of_the_library(client):
    net = ll.Network(ll.GramInputs(GRAM), ll.Attention(heads=2, head_dim="split"))
    score = curves(ask(client, "layer", "scores", OWN_GRAM))["finite"]
    law = net.score_law(1, 2, width=32, samples=2**15)
    close(score["y"], law.pdf(np.array(score["x"])))
    law, limit = (net.law(width=n, token=1, samples=2**15) for n in (32, inf))
    table = ask(client, "layer", "comparison", OWN_GRAM)
    compared = [list(row) for row in ll.compare(law, limit).table().cells()]
    assert table["rows"][: len(compared)] == compared
    mixing = curves(ask(client, "layer", "mixing", OWN_GRAM))["finite"]
    below = np.array([law.mixture.weights[law.mixture.values <= v].sum() for v in mixing["x"]])
    close(mixing["y"], below)


def test_convergence_is_that_of_the_library(client):
    panel = ask(client, "layer", "convergence", {"tokens": "2"})
    net = ll.Network(ll.Inputs(2), ll.Attention())
    study = ll.convergence(net, [2**k for k in range(4, 11)], samples=2**14)
    expected = {n: v for n, v in zip(study.widths, study.values, strict=True) if v > 2 * v.stderr}
    drawn = panel["curves"][0]
    assert drawn["x"] == list(expected)
    close(drawn["y"], list(expected.values()))
    close(drawn["error"], [v.stderr for v in expected.values()])


def test_depth_is_the_trajectory_of_the_library(client):
    net = ll.Network(ll.GaussianInputs(np.eye(2)), ll.Repeat(2, ll.Residual(ll.Attention(heads=2, head_dim="split"))))
    draws = VIEWS["depth"].state.parse(SHALLOW).draws()
    for width, role in ((16, "finite"), (inf, "limit")):
        t = net.trajectory(draws, width=width)
        for name in ("variance", "kurtosis", "cosine", "entropy"):
            drawn = curves(ask(client, "depth", name, SHALLOW))[role]
            value, error = t.summary()[name]
            close(drawn["y"], value)
            close(drawn["error"], error)
        law = curves(ask(client, "depth", "law", {**SHALLOW, "block": "1"}))[role]
        close(law["y"], t.law(1, -1).pdf(np.array(law["x"])))


@pytest.mark.parametrize(
    "model", ["gpt2", *(pytest.param(name, marks=pytest.mark.full) for name in ("bert", "llama", "vit"))]
)
def test_a_known_model_is_seen_at_infinite_width_too(client, model):
    query = {"model": model, "depth": "2", "tokens": "2"}
    state = VIEWS["depth"].state.parse(query)
    expected = state.network().trajectory(state.draws(), width=inf).summary()["cosine"][0]
    close(curves(ask(client, "depth", "cosine", query))["limit"]["y"], expected)
    assert "scales that the weights have at width 192" in ask(client, "depth", "remarks", query)["notes"][-1]


def test_another_depth_of_the_same_block_compiles_nothing(client):
    events = []
    query = {**SHALLOW, "norm": "pre", "kind": "RMSNorm"}
    ask(client, "depth", "cosine", query)
    jax.monitoring.register_event_duration_secs_listener(listener := lambda name, *_, **__: events.append(name))
    try:
        ask(client, "depth", "cosine", {**query, "depth": "3", "query_std": "1.5", "rho": "0.5"})
    finally:
        jax.monitoring.unregister_event_duration_listener(listener)
    assert "/jax/core/compile/backend_compile_duration" not in events


def test_a_score_that_a_mask_hides_is_said_to_be_hidden(client):
    query = {"tokens": "2", "width": "inf", "mask": "causal", "key": "1"}
    assert ask(client, "layer", "scores", query)["notes"] == [
        "The mask hides key 1 from query 0: this score is not used."
    ]
    assert ask(client, "layer", "scores", {**query, "token": "1"})["notes"] == []
    empty = {"tokens": "2", "width": "inf", "mask": "own"}  # all are seen
    plain = ask(client, "layer", "density", {"tokens": "2", "width": "inf"})
    assert ask(client, "layer", "density", empty) == plain


def test_sketches_of_a_regression_are_what_comes_soon_of_its_answers(client):
    query = {**QUICK_DESCENT, "link": "relu"}
    p = slr.Problem(dim=30, tokens=20, gamma=0.7, beta=1.0, link="relu")
    panels = {part: ask(client, "regression", f"{part}/sketch", query) for part in ("landscape", "descent")}
    assert all(panel["sketch"] for panel in panels.values())
    grid = np.linspace(-1, 1, 21)
    close(panels["landscape"]["maps"][0]["x"], grid)
    close(panels["landscape"]["maps"][0]["z"], p.risk(grid[None, :], grid[:, None]))
    run = slr.descent(p, 20, start=[-0.2, 0.4, 0, 0, 0], method="mean-field")
    (path,) = panels["landscape"]["curves"]
    assert path["on_map"] == 1
    close(path["y"], run.nu)
    (risk,) = panels["descent"]["curves"]
    close(risk["y"], run.risk)
    assert not ask(client, "regression", "landscape/sketch", QUICK_DESCENT)["sketch"]  # soon enough

    soon = {c["name"]: c["y"] for c in ask(client, "regression", "baselines/sketch", QUICK_DESCENT)["curves"]}
    whole = {c["name"]: c["y"] for c in ask(client, "regression", "baselines", QUICK_DESCENT)["curves"]}
    assert list(whole) == [*soon, "softmax, best beta"]  # the colours stay
    assert all(whole[name] == y for name, y in soon.items())


@pytest.mark.parametrize("steps", [10, 47, 300, 512])
def test_a_descent_in_legs_is_one_descent(steps):
    state = VIEWS["regression"].state.parse({"steps": str(steps), "mu": "0.2", "dim": "31"})
    done = []
    panel = VIEWS["regression"].answer("descent", state, done.append)
    assert done == sorted(done)
    for method, drawn in zip(("exact", "mean-field"), panel["curves"], strict=True):
        run = slr.descent(state.problem(), steps, start=state.start, every=state.every, method=method)
        assert drawn["x"] == run.at.tolist()
        close(drawn["y"], run.risk, rtol=1e-9)


def test_a_descent_that_nobody_waits_for_ends_at_its_next_leg(monkeypatch):
    state = VIEWS["regression"].state.parse({"steps": "200", "link": "relu", "dim": "32"})
    reported, legs, own = [], [], slr.descent
    monkeypatch.setattr(slr, "descent", lambda *a, **k: legs.append(a) or own(*a, **k))

    def report(done):
        reported.append(done)
        if len(legs) == 3:
            raise Cancelled

    with pytest.raises(Cancelled):
        VIEWS["regression"].answer("descent", state, report)
    assert len(legs) == 3
    assert reported == pytest.approx([0, 0.05, 0.1, 0.15])  # of two descents


@pytest.mark.parametrize(
    ("view", "query", "field", "other"),
    [
        ("layer", {"width": "inf", "tokens": "2"}, "key", "1"),
        ("depth", SHALLOW, "block", "1"),
        ("regression", QUICK_DESCENT, "mu", "0.5"),
        ("regression", QUICK_DESCENT, "diagram", "alpha, beta"),
    ],
)
def test_a_field_changes_the_parts_that_it_names_and_no_others(client, view, query, field, other):
    named = VIEWS[view].state.controls()[field].parts
    for part in VIEWS[view].parts:
        before, after = (ask(client, view, part, given) for given in (query, {**query, field: other}))
        assert (before != after) == (part in named), part


def test_regression_is_that_of_the_library(client):
    p = slr.Problem(dim=30, tokens=20, gamma=0.7, beta=1.0)
    panel = ask(client, "regression", "landscape", QUICK_DESCENT)
    for method, drawn, path in zip(("exact", "mean-field"), panel["maps"], panel["curves"], strict=True):
        mu, nu = np.meshgrid(drawn["x"], drawn["y"])
        close(drawn["z"], p.risk(mu, nu, method=method))
        run = slr.descent(p, 20, start=[-0.2, 0.4, 0, 0, 0], method=method)
        close(path["x"], run.mu)
        close(path["y"], run.nu)
    panel = ask(client, "regression", "phases", QUICK_DESCENT)
    (phases,), (boundary,) = panel["maps"], panel["curves"]
    diagram = slr.phase_diagram(p, "mu", "beta", x_values=phases["x"], y_values=phases["y"])
    close(phases["z"], diagram.risk)
    # mu = psi / c, with psi = beta / 2 + alpha / beta, or sqrt(2 alpha) where beta is above that
    beta, alpha = np.array(boundary["y"]), p.alpha
    psi = np.where(beta < np.sqrt(2 * alpha), beta / 2 + alpha / beta, np.sqrt(2 * alpha))
    expected = np.where(psi / p.strength <= 1, psi / p.strength, np.nan)
    np.testing.assert_allclose(np.array(boundary["x"], float), expected, rtol=1e-6)


@pytest.mark.parametrize("query", [{"gamma": "1.0"}, {"gamma": "0.999", "dim": "4"}, {"gamma": "0.05", "dim": "4"}])
def test_the_ends_of_the_spread_have_baselines(client, query):
    drawn = {curve["name"]: curve for curve in ask(client, "regression", "baselines", query)["curves"]}
    bayes, linear = (np.array(drawn[name]["y"]) for name in ("Bayes, whole tokens", "softmax, best beta"))
    assert np.all(bayes <= linear * (1 + 1e-6))
    if query["gamma"] == "1.0":  # nothing tells the tokens apart
        close(bayes, 1 - 1 / np.array(drawn["Bayes, whole tokens"]["x"]), rtol=1e-9)


@pytest.mark.parametrize("host", ["evil.com", "evil.com:99999", "]", "127.0.0.1.evil.com", "localhost:1:2"])
def test_other_names_of_this_machine_are_refused(client, host):
    assert client.get("/api/views", headers={"host": host}).status_code == 403


def test_a_stream_that_overflows_is_refused_with_the_remedy(client):
    query = {"norm": "none", "depth": "48", "skip": "2", "width": "64", "heads": "1", "mlp": "relu"}
    for part in ("cosine", "remarks", "law"):
        refused = client.get(f"/api/depth/{part}", params=query)
        assert refused.status_code == 422
        assert re.search(r"after block \d+ is beyond single precision.*Add a norm", refused.json()["message"])


def test_scores_that_tend_to_a_constant_have_a_law_at_finite_width(client):
    panel = ask(client, "layer", "scores", {"scale": "linear", "width": "32"})
    assert set(curves(panel)) == {"finite", "gaussian"}
    assert "tend to a constant" in panel["notes"][0]
    law = ll.Network(ll.Inputs(4), ll.Attention(scale="linear")).score_law(width=32, samples=2**15)
    finite = curves(panel)["finite"]
    close(finite["y"], law.pdf(np.array(finite["x"])))


def test_a_token_of_one_port_is_no_cookie_of_another():
    with TestClient(create_app("secret"), base_url="http://box:8001") as client:
        assert client.get("/api/views", params={"access": "secret"}).status_code == 200
        assert client.get("/api/views").status_code == 200
        other = client.get("http://box:8002/api/views", headers={"cookie": "access-8001=secret"})
        assert other.status_code == 403


def test_tokens_cannot_all_point_apart(client):
    refused = client.get("/api/layer/density", params={"inputs": "gaussian", "rho": "-0.5", "tokens": "4"}).json()
    assert refused["field"] == "rho"
    assert "Give at least -0.3333" in refused["message"]


def test_baselines_grow_with_the_tokens_as_in_the_library(client):
    panel = ask(client, "regression", "baselines", QUICK_DESCENT)
    found = slr.baselines(slr.Problem(dim=30, tokens=100, gamma=0.7, beta=1.0))
    names = {label: name for name, label in slr.BASELINES.items()}
    for drawn in panel["curves"]:
        assert drawn["y"][drawn["x"].index(100)] == pytest.approx(found[names[drawn["name"]]], rel=1e-12)


@pytest.fixture
def executed(client, capsys, tmp_path, monkeypatch):
    """Run what is copied, in a folder of its own, where it leaves a picture."""
    monkeypatch.chdir(tmp_path)

    def execute(view, query):
        names = {}
        exec(client.get(f"/api/{view}/python", params=query).json()["code"], names)
        capsys.readouterr()
        assert (tmp_path / f"{view}.png").stat().st_size > 5000
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
            {
                "scale": "linear",
                "width": "inf",
                "head_dim": "4",
                "inputs": "gaussian",
                "rho": "0.1234567",
                "query_std": "0.3",
            },
            marks=pytest.mark.full,
        ),
    ],
)
def test_copied_python_makes_the_numbers_of_a_layer(client, query, executed):
    names = executed("layer", query)
    drawn = curves(ask(client, "layer", "density", query))
    roles = {"finite": "law", "limit": "limit", "heads": "infinite_heads", "gaussian": "gaussian"}
    assert set(names["densities"]) == {roles[role] for role in drawn}
    for role, curve in drawn.items():
        close(curve["x"], names["x"])
        close(curve["y"], names["densities"][roles[role]])
    score = next(iter(ask(client, "layer", "scores", query)["curves"]))
    close(score["y"], names["score"].pdf(np.array(score["x"])))
    if "study" in names:
        shown = ask(client, "layer", "convergence", query)["curves"][0]
        known = dict(zip(names["study"].widths, names["study"].values, strict=True))
        close(shown["y"], [known[n] for n in shown["x"]])


def test_copied_python_makes_the_numbers_along_depth(client, executed):
    names = executed("depth", SHALLOW)
    close(curves(ask(client, "depth", "kurtosis", SHALLOW))["finite"]["y"], names["t"].summary()["kurtosis"][0])
    laws = curves(ask(client, "depth", "law", SHALLOW))
    for role, name in (("finite", "law"), ("limit", "limit_law")):
        close(laws[role]["y"], names[name].pdf(np.array(laws[role]["x"])))


@pytest.mark.parametrize("model", ["gpt2", "bert", "llama", "vit"])
def test_copied_python_makes_the_network_of_a_known_model(client, model):
    state = VIEWS["depth"].state.parse({"model": model, "depth": "2"})
    code = client.get("/api/depth/python", params=state.query()).json()["code"]
    names = {}
    exec(code.split("\nt = ")[0], names)
    assert repr(names["net"]) == repr(state.network())


def test_copied_python_makes_the_numbers_of_a_regression(client, executed):
    query = {**QUICK_DESCENT, "link": "quadratic", "gamma": "0.6180339"}
    names = executed("regression", query)
    exact, mean_field = ask(client, "regression", "landscape", query)["maps"]
    close(exact["z"], names["exact"])
    close(mean_field["z"], names["mean_field"])
    close(ask(client, "regression", "descent", query)["curves"][0]["y"], names["run"].risk)
    close(ask(client, "regression", "phases", query)["maps"][0]["z"], names["diagram"].risk)


def value_of(control):
    options = [st.sampled_from(control.choices)] if control.choices else []
    if control.kind == "count":
        options.append(st.integers(int(control.low), int(control.high)))
    if control.kind == "number":
        options.append(st.floats(control.low, control.high))
    if control.kind == "text":
        options.append(st.sampled_from(["", "1 0.5; 0.5 1", "2 0; 0 1e-3"]))
    if control.infinite:
        options.append(st.just(inf))
    return st.one_of(options)


@pytest.mark.parametrize("name", VIEWS)
@settings(max_examples=60)
@given(data=st.data())
def test_a_state_survives_its_url(name, data):
    kind = VIEWS[name].state
    state = kind(**{field: data.draw(value_of(control)) for field, control in kind.controls().items()})
    for field, control in kind.controls().items():
        assert control.read(field, control.write(getattr(state, field))) == getattr(state, field)
    try:
        assert kind.parse(state.query()) == state
    except FieldError as error:  # values that do not go together
        assert_sentence({"field": error.field, "message": str(error)}, kind)


def assert_sentence(refusal, kind):
    assert refusal["field"] in {"", *kind.controls()}
    assert re.search(r"\w.*[.?]$", refusal["message"], re.DOTALL), refusal


@pytest.mark.parametrize(
    ("view", "query", "field"),
    [
        ("layer", {"width": "0"}, "width"),
        ("layer", {"width": "nan"}, "width"),
        ("layer", {"width": "1e400"}, "width"),
        ("layer", {"width": "-inf"}, "width"),
        ("layer", {"heads": "2.5"}, "heads"),
        ("layer", {"heads": "inf"}, "heads"),
        ("layer", {"tokens": "9"}, "tokens"),
        ("layer", {"token": "4"}, "token"),
        ("layer", {"inputs": "fixed", "rho": "-1"}, "rho"),
        ("layer", {"inputs": "fixed", "gram": "1 2; 2 1"}, "gram"),
        ("layer", {"inputs": "fixed", "gram": "1 2; 3"}, "gram"),
        ("layer", {"inputs": "fixed", "gram": "__import__('os')"}, "gram"),
        ("layer", {"inputs": "fixed", "gram": "nan"}, "gram"),
        ("layer", {"inputs": "fixed", "gram": "1 " * 3000}, "gram"),
        ("layer", {"inputs": "fixed", "gram": "1 0; 0 1", "width": "1"}, "width"),
        ("layer", {"mask": "own", "own_mask": "1 0; 1 1"}, "own_mask"),
        ("layer", {"mask": "own", "own_mask": "1 0; 1 2", "tokens": "2"}, "own_mask"),
        ("layer", {"mask": "own", "own_mask": "0 0; 1 1", "tokens": "2"}, "own_mask"),
        ("layer", {"mask": "own", "own_mask": "1 0; 1", "tokens": "2"}, "own_mask"),
        ("layer", {"mask": "own", "own_mask": "open('x')"}, "own_mask"),
        ("layer", {"head_dim": "split", "heads": "3"}, "width"),
        ("layer", {"activation": "relu", "width": "1000000"}, "width"),
        ("layer", {"activation": "exec"}, "activation"),
        ("layer", {"widht": "3"}, ""),
        ("layer", {"value_std": "0"}, ""),
        ("depth", {"width": "4096", "depth": "48"}, "width"),
        ("depth", {"heads": "64", "width": "100"}, "width"),
        ("depth", {"model": "gpt2", "width": "100"}, "width"),
        ("depth", {"model": "llama", "width": "96"}, "width"),
        ("depth", {"block": "first"}, "block"),
        ("regression", {"gamma": "0"}, "gamma"),
        ("regression", {"link": "lambda x: x"}, "link"),
    ],
)
def test_bad_values_are_explained_beside_their_field(client, view, query, field):
    answer = client.get(f"/api/{view}/{next(iter(VIEWS[view].parts))}", params=query)
    assert answer.status_code == 422
    assert answer.json()["field"] == field, answer.json()
    assert_sentence(answer.json(), VIEWS[view].state)


odd = st.one_of(
    st.sampled_from(
        ["", "inf", "-1", "0", "1e309", "nan", "٣", "1_0", "0x10", "'; drop", "\x00", "[]", "None", "2**9"]
    ),
    st.text(max_size=20),
    st.integers(-5, 70).map(str),
)


def fuzzed(client, data, path, operation, changed):
    """A request made of the schema's own parameters, most of them as they are by default."""
    names = [parameter["name"] for parameter in operation["parameters"]]
    picked = data.draw(st.lists(st.sampled_from([*names, "unheard of"]), max_size=changed, unique=True))
    answer = client.get(path, params={name: data.draw(odd) for name in picked})
    assert answer.status_code in (200, 422), answer.text
    if answer.status_code == 422:
        assert_sentence(answer.json(), VIEWS[path.split("/")[2]].state)
    else:
        json.loads(answer.text)


def routes(client):
    return {path: item["get"] for path, item in client.get("/openapi.json").json()["paths"].items()}


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_request_for_code_is_too_odd(client, data):
    path = data.draw(st.sampled_from([path for path in routes(client) if path.endswith("/python")]))
    fuzzed(client, data, path, routes(client)[path], 4)


@pytest.mark.full
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_request_is_too_odd(client, data):
    path = data.draw(st.sampled_from([path for path in routes(client) if "parameters" in routes(client)[path]]))
    fuzzed(client, data, path, routes(client)[path], 3)


@pytest.mark.parametrize(
    "path", ["/api/layer/none", "/api/none/density", "/static/../_server.py", "/static/%2e%2e/_server.py"]
)
def test_there_is_nothing_else(client, path):
    assert client.get(path).status_code == 404


def test_the_schema_knows_every_field(client):
    for name, view in VIEWS.items():
        for part in [*view.parts, "python"]:
            known = {p["name"] for p in routes(client)[f"/api/{name}/{part}"]["parameters"]}
            assert known == set(view.state.controls())


def test_a_token_is_asked_for_and_then_kept_in_a_cookie():
    with TestClient(create_app("s3cret"), base_url="http://somewhere") as client:
        for given in ({}, {"access": "wrong"}, {"access": "é"}):
            assert client.get("/api/views", params=given).status_code == 403
        assert client.get("/", params={"access": "s3cret"}).status_code == 200
        assert client.get("/api/layer/density", params={"width": "inf"}).status_code == 200


def test_without_a_token_no_other_name_is_answered(client):
    assert client.get("/api/views", headers={"host": "evil.example"}).status_code == 403
    assert client.get("/api/views", headers={"host": "localhost:8642"}).status_code == 200


def test_the_page_fetches_nothing_from_outside(client):
    for file in (Path(explore.__file__).parent / "static").iterdir():
        assert not re.search(r"https?://|[\"']//", file.read_text()), file.name
    assert client.get("/plotly.js").status_code == 200
    assert "default-src 'self'" in client.get("/").headers["content-security-policy"]


async def present():
    return False


def endless(started):
    def make(report):
        started.set()
        while True:
            report(0.5)

    return make


def test_a_newer_question_takes_the_place_of_an_older_one():
    async def story():
        jobs, started = Jobs(), threading.Event()
        older = asyncio.create_task(jobs.answer("tab", "older", endless(started), present))
        await asyncio.to_thread(started.wait, 10)
        assert jobs.progress("tab") == 0.5
        newer = await jobs.answer("tab", "newer", lambda report: b"new", present)
        with pytest.raises(Cancelled):
            await older
        assert jobs.progress("tab") is None
        assert jobs.known("older") is None
        jobs.close()
        return newer

    assert asyncio.run(story()) == b"new"


def test_who_leaves_is_not_computed_for():
    async def story():
        jobs, started = Jobs(), threading.Event()

        async def gone():
            return started.is_set()

        with pytest.raises(Cancelled):
            await jobs.answer("tab", "key", endless(started), gone)
        jobs.close()

    asyncio.run(story())


def test_only_so_many_bytes_are_remembered():
    async def story():
        jobs = Jobs(remembered=2)
        for key in ("a", "b", "a", "c"):
            await jobs.answer("", key, lambda report, key=key: key.encode(), present)
        jobs.close()
        return [jobs.known(key) for key in "abc"]

    assert asyncio.run(story()) == [b"a", None, b"c"]


def test_a_busy_port_is_refused_in_a_sentence():
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        with pytest.raises(ValueError, match=rf"--port {port} is in use\. .*\.$"):
            _explore.explore(port=port)


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(RuntimeError, match=r"uvicorn is not installed\. Run pip install '\.\[explore\]' in a checkout"):
        _explore.explore(port=0)

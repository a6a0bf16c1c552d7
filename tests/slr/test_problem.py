"""Problems are plain values: their tables live elsewhere, bad arguments are refused by name, and results are tables."""

import copy
import gc
import pickle
import weakref

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest

from limitlaw import slr
from limitlaw._checks import ArgumentError
from limitlaw.slr._tables import Setting, Tables, _Cache, tables_of

START = (0.3, 0.2, 0.1, 0.05, -0.1)


def public(thing):
    return {name for name in dir(thing) if not name.startswith("_")}


def living_tables():
    gc.collect()
    return sum(type(thing) is Tables for thing in gc.get_objects())  # other packages object to isinstance


@pytest.mark.parametrize("link", ["linear", "relu"])
def test_tables_are_released_while_their_problem_lives(link):
    slr.release_tables()
    p = slr.Problem(40, 9, link=link)
    before = p.risk(*START), p.gradient(*START), p.risk(*START, method="refined")
    assert living_tables() == 1
    slr.release_tables()
    assert living_tables() == 0
    after = p.risk(*START), p.gradient(*START), p.risk(*START, method="refined")
    for first, second in zip(before, after, strict=True):
        assert np.array_equal(first, second)


def test_tables_go_as_soon_as_they_are_released():
    """Without waiting for the garbage collector: nothing refers to itself."""
    gc.disable()
    try:
        p = slr.Problem(30, 9, link="quadratic")
        p.gradient(*START)
        tables = weakref.ref(tables_of(Setting(p.scale, p.signal, p.gamma, p.log_others)))
        assert tables() is not None
        slr.release_tables()
        assert tables() is None
    finally:
        gc.enable()


def test_the_tables_of_many_problems_are_bounded():
    settings = [Setting(b, 2.0, 0.7, 3.0) for b in (5.0, 6.0, 7.0, 8.0)]
    size = Tables(settings[-1]).bytes
    cache = _Cache(2.5 * size)
    tables = [cache.get(setting) for setting in settings]
    assert cache.get(settings[-1]) is tables[-1]
    assert cache.get(settings[-2]) is tables[-2]
    assert cache.get(settings[0]) is not tables[0]
    assert _Cache(0).get(settings[0]).bytes > 0  # those of one problem are always there


def test_derived_tables_are_bounded():
    slr.release_tables()
    p = slr.Problem(10, 5, link="relu")
    for rho in np.linspace(-0.5, 0.5, 100):
        p.risk(0.1, 0.1, 0.0, 0.0, rho)
    assert len(tables_of(Setting(p.scale, p.signal, p.gamma, p.log_others))._derived) == 64


@pytest.mark.parametrize(
    "problem",
    [
        slr.Problem(100, 20),
        slr.Problem(100, 20, 0.5, 2.0, 0.1, "relu"),
        slr.Problem(50, log_tokens=30.0, signal=4.0, link="sign"),
        slr.Problem.marion(50, 5, link=np.tanh),
        slr.Problem(50, 5, link=jnp.tanh),
    ],
    ids=repr,
)
def test_problems_are_values(problem):
    problem.risk(0.1, 0.1)
    for twin in (pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem), copy.copy(problem), problem.changed()):
        assert twin == problem
        assert hash(twin) == hash(problem)
        assert twin.risk(*START) == problem.risk(*START)
    for name, value in {"dim": 49, "tokens": 6, "gamma": 0.31, "beta": 0.9, "noise": 0.3, "link": "quadratic"}.items():
        assert problem.changed(**{name: value}) != problem
    assert len(pickle.dumps(problem)) < 10_000  # no tables in it


def test_a_given_signal_is_part_of_the_value():
    p = slr.Problem(100, 20)
    given = slr.Problem(100, 20, signal=p.signal)
    assert p != given
    assert p.changed(gamma=0.6).signal == 8.0
    assert given.changed(gamma=0.6).signal == p.signal


def test_the_repr_makes_the_problem():
    for p in (slr.Problem(9, 4), slr.Problem(9, log_tokens=30.0, link="relu"), slr.Problem.marion(9, 4, noise=0.1)):
        assert eval(repr(p), {"Problem": slr.Problem}) == p


def test_names_of_problems_and_results_are_those_for_users():
    p = slr.Problem(20, 5)
    fields = {"dim", "tokens", "gamma", "beta", "noise", "link", "log_tokens", "signal", "default_signal"}
    derived = {"scale", "alpha", "strength", "log_others"}
    assert public(p) == fields | derived | {"risk", "gradient", "overlaps", "changed", "marion"}
    overlaps = {"mu", "nu", "eta", "zeta", "rho"}
    table = {"table", "to_xarray", "to_pandas", "plot"}
    assert public(slr.descent(p, 3)) == {"at", "overlaps", "risk", "method", "unit"} | overlaps | table
    basins = slr.basins(p, [0.1], [0.2], steps=3)
    assert (
        public(basins)
        == {"mu", "nu", "learned_at", "final_risk", "level", "steps", "method", "learned_fraction"} | table
    )
    diagram = slr.phase_diagram(p, x_values=[0.1, 0.2], y_values=[0.3, 0.4])
    axes = {"problem", "x", "y", "x_name", "y_name", "x_label", "y_label"}
    assert public(diagram) == axes | {"risk", "level", "critical", "phase", "finer"} | table
    mapping = {"keys", "values", "items", "get"}
    assert public(slr.baselines(p, "zero")) == mapping | {"risks", "settings", "table", "to_pandas"}


def test_results_are_tables():
    p = slr.Problem(20, 5)
    runs = slr.descent(p, 4, start=slr.start(p, count=3), every=2)
    data, frame = runs.to_xarray(), runs.to_pandas()
    assert data["overlap"].sel(name="rho").shape == (3, 3)
    assert list(frame.columns) == ["start", "step", "risk", "mu", "nu", "eta", "zeta", "rho"]
    row = frame[(frame["start"] == 2) & (frame["step"] == 4)].iloc[0]
    assert row["risk"] == runs.risk[2, 2] == float(data["risk"][2, 2])
    assert row["zeta"] == runs.zeta[2, 2]
    assert len(slr.descent(p, 4).to_pandas()) == 5
    basins = slr.basins(p, [0.1, 0.4], [0.2], steps=3)
    assert basins.to_pandas()["final_risk"].tolist() == basins.final_risk.ravel().tolist()
    diagram = slr.phase_diagram(p, "mu", "beta", x_values=[0.1, 0.9], y_values=[0.3, 0.4])
    points = diagram.to_pandas().set_index(["beta", "mu"])
    assert points.loc[(0.4, 0.9), "risk"] == diagram.risk[1, 1]
    table = slr.baselines(p, "zero", "softmax").to_pandas()
    assert table.loc["softmax", "setting"] == "beta = 1"
    assert table.loc["zero", "risk"] == pytest.approx(0.5)


def test_plots_take_axes():
    p = slr.Problem(20, 5)
    results = (
        slr.descent(p, 4),
        slr.basins(p, [0.1, 0.4], [0.2, 0.3], steps=3),
        slr.phase_diagram(p, x_values=[0.1, 0.2], y_values=[0.3, 0.4]),
    )
    figure, axes = plt.subplots(1, 3)
    for result, ax in zip(results, axes, strict=True):
        assert result.plot(ax=ax) is ax
    assert len(figure.axes) == 5  # two have a colour bar


@pytest.mark.parametrize(
    ("call", "argument", "words"),
    [
        (lambda p: slr.descent(p, steps=10**12), "steps", "steps=1000000000000 exceeds the limit of 10,000,000 steps"),
        (
            lambda p: slr.descent(p, 10**6, start=np.zeros((100, 5))),
            "every",
            r"every=1 keeps 1,000,001 records of 100 starts, more than 2 GiB\. Record fewer steps",
        ),
        (lambda p: slr.basins(p, steps=10**12), "steps", "exceeds the limit"),
        (lambda p: slr.flow(p, points=10**12), "points", "more than 2 GiB"),
        (lambda p: slr.start(p, count=10**12), "count", "more than 2 GiB"),
        (lambda p: slr.simulate(p, 10, 10**9, 0.1, 0), "steps", "steps=1000000000 exceeds the limit"),
        (lambda p: slr.simulate(p, 10**6, 10**7, start=np.zeros((10, 5))), "steps", r"take 2e\+17 products"),
        (lambda p: p.changed(dims=5), "dims", "Did you mean 'dim'"),
        (lambda p: slr.Problem.marion(9, 4, bta=5), "bta", "Did you mean 'beta'"),
        (lambda p: p.changed(beta=0).risk(0, 0, method="mean-field"), "beta", "beta=0 makes attention uniform"),
        (lambda p: slr.phase(p.changed(beta=0)), "beta", r"Give beta > 0\."),
        (lambda p: slr.thresholds(p.changed(beta=0)), "beta", "no phases and no mean-field limit"),
        (lambda p: slr.start(p, "informed"), "kind", r"start\(kind='informed'\) needs mu, nu, or both\."),
        (lambda p: slr.start(p, mu=0.2), "mu", "has no effect on start"),
        (lambda p: slr.Problem(1, 5), "dim", "dim=1"),
        (lambda p: slr.Problem(9), "tokens", "exactly one"),
        (lambda p: slr.Problem(9, 4, gamma=2), "gamma", "gamma=2.0 must lie in"),
        (lambda p: slr.Problem(9, 4, link="rely"), "link", "Did you mean 'relu'"),
        (lambda p: p.risk(0.9, 0.0, 0.9), "overlaps", "not those of any four unit vectors"),
        (lambda p: p.risk("a", 0.0), "mu", "mu='a' must be a number"),
        (lambda p: p.risk(0.0, 0.0, alpha=0.1), "alpha", "has no effect with method='exact'"),
        (lambda p: slr.descent(p, start="uniform"), "start", "such as slr.start"),
        (lambda p: slr.simulate(p, 10, 10, every=3), "steps", "multiple of every=3"),
        (lambda p: slr.baselines(p, "bayes"), "baseline", "'bayes_full'"),
        (lambda p: slr.gated_risk(p, 3), "gate", "gate=3 must be a function"),
        (lambda p: slr.phase_diagram(p, x_values=[0.1, -0.2]), "alpha", "alpha=-0.2"),
        (lambda p: slr.phase_diagram(p, "mu", "beta", x_values=[0.1, 1.2]), "mu", "mu=1.2 is not an overlap"),
    ],
)
def test_bad_arguments_are_refused_by_name(call, argument, words):
    with pytest.raises(ArgumentError, match=words) as refused:
        call(slr.Problem(100, 5))
    assert refused.value.argument == argument


def test_a_diagram_is_refused_before_any_risk(monkeypatch):
    monkeypatch.setattr(slr.Problem, "risk", lambda *args, **kwargs: pytest.fail("it has begun to compute"))
    with pytest.raises(ArgumentError, match=r"gamma=1\.5"):
        slr.phase_diagram(slr.Problem(20, 5), x_values=[0.1, 0.2], y_values=[0.5, 1.5])


def test_long_calls_show_a_bar_unless_told_otherwise(monkeypatch):
    shown, own = [], slr._descent._progress.task

    def record(description, *args, show, **kwargs):
        shown.append((description, show))
        return own(description, *args, show=show, **kwargs)

    monkeypatch.setattr(slr._descent._progress, "task", record)
    p = slr.Problem(10, 3)
    axes = {"x_values": [0.1, 0.2], "y_values": [0.3, 0.4]}
    for progress in (True, False):
        slr.descent(p, 3, progress=progress)
        slr.flow(p, 0.1, points=2, progress=progress)
        slr.basins(p, [0.1], [0.2], steps=3, progress=progress)
        slr.phase_diagram(p, **axes, progress=progress)
        slr.baselines(p, "zero", progress=progress)
        slr.simulate(p, 5, 2, test_samples=5, progress=progress)
    calls = ["Descending", "Following the flow", "Descending", "Computing risks", "Comparing predictors", "Simulating"]
    assert shown == [(call, progress) for progress in (True, False) for call in calls]
    with pytest.raises(TypeError, match="progress=1"):
        slr.descent(p, 3, progress=1)

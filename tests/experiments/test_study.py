"""Studies: what they accept, what they refuse, and that their numbers are the library's own."""

import csv
import json
import tempfile

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import xarray as xr
from scipy.special import ndtr

import limitlaw as ll
from limitlaw import slr
from limitlaw.distances import DISTANCES
from limitlaw.experiments import Store, StoreError, Study, Sweep, TaskError, complete, read
from limitlaw.experiments._draw import mean_over_trials
from limitlaw.experiments._study import _OF_DEPTH, _OF_THE_OUTPUT, OF_SAMPLES
from limitlaw.figures import FIGURES, Settings, _experiments
from limitlaw.networks import as_plain

NET = ll.Network(ll.Inputs(tokens=3), ll.Attention(heads=2))
DEEP = ll.Network(
    ll.GramInputs(np.eye(3)),
    ll.Repeat(2, ll.Residual(ll.LayerNorm(), ll.Attention(heads=2, head_dim=4)), ll.Residual(ll.MLP("relu", width=8))),
)
TABLE = {
    "measure": ["moments"],
    "network": {"inputs": {"kind": "Inputs", "tokens": 3}, "layers": [{"kind": "Attention", "heads": 2}]},
    "axes": {"width": [8, 16]},
}

ALL_MEASURES = (*_OF_THE_OUTPUT, *OF_SAMPLES, *_OF_DEPTH)


def small(**changes):
    given = {"axes": {"width": [8, "inf"]}, "measure": ["variance"], "samples": 2048, **changes}
    return Study(given.pop("of", NET), **given)


def test_results_are_what_the_library_says(tmp_path):
    """Each with its own seed: the same law, asked for directly."""
    study = small(
        axes={"heads": [1, 2], "width": [8, "inf"]}, measure=["moments", "quantiles", "density", "kl"], trials=2
    )
    sweep = Sweep(study, tmp_path / "out")
    sweep.run()
    data = xr.open_zarr(tmp_path / "out" / "results.zarr").load()
    assert data.identical(sweep.dataset())
    for heads in (1, 2):
        net = ll.Network(ll.Inputs(tokens=3), ll.Attention(heads=heads))
        exact = net.law(samples=2048)
        at_infinity = data.sel(heads=heads, width=np.inf)
        assert np.all(at_infinity.variance == float(exact.variance()))
        assert np.all(at_infinity.kl == 0)
        assert np.allclose(at_infinity.density, exact.pdf(data.x.values), rtol=1e-12)
        assert np.allclose(at_infinity.quantiles, exact.icdf(data.level.values), rtol=1e-12)
        finite = data.sel(heads=heads, width=8)
        seeds = [m.task.settings["seed"] for m in study.measurements if m.index[:2] == ((1, 2).index(heads), 0)]
        for trial, seed in enumerate(seeds):
            law = net.law(width=8, samples=2048, seed=seed)
            assert finite.variance[trial] == float(law.variance())
            assert finite.kurtosis_stderr[trial] == law.kurtosis().stderr
            assert np.isclose(
                finite.kl[trial], float(ll.kl(law, exact)), rtol=1e-9, atol=0
            )  # sums on one thread or several
        large = net.law(width=8, samples=2**18)
        for name, truth in (
            ("variance", large.variance()),
            ("kurtosis", large.kurtosis()),
            ("kl", ll.kl(large, exact)),
        ):
            z = (finite[name] - float(truth)) / np.hypot(finite[f"{name}_stderr"], truth.stderr)
            assert np.abs(z).max() < 5, name
        assert finite.variance[0] != finite.variance[1]


def test_along_depth(tmp_path):
    study = small(
        of=DEEP, axes={"depth": [1, 3], "width": [16]}, measure=["block_cosine", "block_variance"], samples=512
    )
    sweep = Sweep(study, tmp_path / "out")
    sweep.run()
    data = sweep.dataset()
    assert data.sizes == {"depth": 2, "width": 1, "trial": 1, "block": 4}
    assert np.isnan(data.block_cosine.sel(depth=1)[..., 2:]).all()
    assert not np.isnan(data.block_cosine.sel(depth=3)).any()
    first = study.measurements[0].task.settings
    t = ll.Network(DEEP.inputs, ll.Repeat(1, *DEEP.layers[0].layers)).trajectory(512, width=16, seed=first["seed"])
    cosine, error = t.summary()["cosine"]
    assert np.array_equal(data.block_cosine.sel(depth=1).values.squeeze()[:2], cosine)
    assert np.array_equal(data.block_cosine_stderr.sel(depth=1).values.squeeze()[:2], error)


def test_blocks_are_those_of_the_trajectory(tmp_path):
    """A read-out is no block, and each layer within an OnSequence is one."""
    inputs = ll.GramInputs(np.eye(4), sequences=[2, 2])
    net = ll.Network(
        inputs, ll.OnSequence(0, ll.Repeat(2, ll.Residual(ll.MLP("relu", width=8))), ll.RMSNorm(1e-5)), ll.Readout()
    )
    sweep = Sweep(small(of=net, axes={"width": [16]}, measure=["block_variance"], samples=64), tmp_path / "out")
    sweep.run()
    assert sweep.dataset().sizes["block"] == net.trajectory(64, width=16).blocks + 1 == 4
    assert not sweep.dataset().block_variance.isnull().any()


def test_risks_of_problems(tmp_path):
    problem = slr.Problem(dim=50, tokens=10)
    study = Study(problem, axes={"mu": [0.0, 0.5, 1.0], "dim": [50, 100]}, measure=["risks"], overlaps={"nu": 0.5})
    sweep = Sweep(study, tmp_path / "out")
    sweep.run()
    data = sweep.dataset()
    assert data.risk.dims == ("mu", "dim")
    for dim in (50, 100):
        p = slr.Problem(dim=dim, tokens=10)
        assert np.array_equal(data.risk.sel(dim=dim), [p.risk(mu, 0.5) for mu in (0.0, 0.5, 1.0)])
        mean_field = [p.risk(mu, 0.5, method="mean-field") for mu in (0.0, 0.5, 1.0)]
        assert np.array_equal(data.mean_field_risk.sel(dim=dim), mean_field)


def test_another_trial_or_value_computes_only_what_is_new(tmp_path):
    def keys(study):
        return {measurement.task.key for measurement in study.measurements}

    one, more = small(), small(trials=2)
    assert keys(one) < keys(more)
    assert keys(one) < keys(small(axes={"width": [4, 8, "inf"]}))
    assert keys(one) == keys(small(axes={"width": ["inf", 8]}))
    assert not keys(one) & keys(small(seed=1))
    assert not keys(one) & keys(small(samples=4096))
    Sweep(one, tmp_path / "out").run()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.npz")}
    Sweep(more, tmp_path / "out").run()
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.npz")}
    assert len(before) == 3  # two points, and the limit that one of them is
    assert len(after) == 5
    assert before.items() <= after.items()


def test_a_study_is_written_down_and_read_again():
    for study in (
        small(trials=3),
        small(of=DEEP, measure=["trajectory"]),
        Study(slr.Problem(dim=9, tokens=4), {"mu": [0.5]}, ["risk"]),
    ):
        again = Study.from_plain(json.loads(json.dumps(study.as_plain())))
        assert [m.task.key for m in again.measurements] == [m.task.key for m in study.measurements]


def test_export(tmp_path):
    study = small(measure=["variance", "quantiles"], levels=[0.9, 0.99])
    sweep = Sweep(study, tmp_path / "out")
    sweep.run()
    assert sweep.write_csv(tmp_path / "out.csv") == 2 + 4
    with open(tmp_path / "out.csv") as file:
        rows = list(csv.DictReader(file))
    data = sweep.dataset()
    assert float(rows[0]["value"]) == float(data.variance.sel(width=8)[0])
    assert rows[-1]["measure"] == "quantiles"
    assert (rows[-1]["width"], rows[-1]["at"]) == ("inf", "0.99")
    assert float(rows[-1]["value"]) == float(data.quantiles.sel(width=np.inf, level=0.99)[0])


def test_status(tmp_path):
    sweep = Sweep(small(), tmp_path / "out")
    sweep.run()
    found = sweep.status()
    assert (found.done, found.total, found.failed, found.running) == (3, 3, {}, False)
    with sweep.store.locked():
        assert sweep.status().running
    sweep.store.path(sweep.tasks[0].key).unlink()
    assert sweep.status().done == 2


def test_a_point_that_fails_is_reported_and_stops_no_other(tmp_path):
    sweep = Sweep(small(axes={"out_std": [0.0, 1.0], "width": [8]}), tmp_path / "out")
    with pytest.raises(TaskError, match=r"out_std = 0.0, width = 8, trial 1 failed: The variance is 0.*'out_std': 0.0"):
        sweep.run()
    found = sweep.status()
    assert (found.done, found.total) == (1, 2)
    assert list(found.failed) == ["out_std = 0.0, width = 8, trial 1"]
    data = xr.open_zarr(tmp_path / "out" / "results.zarr").load()
    assert np.isnan(data.variance.sel(out_std=0.0)).all()
    assert not np.isnan(data.variance.sel(out_std=1.0)).any()


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"measur": []}, "'measur' is not a key of a study. Did you mean 'measure'?"),
        ({"network": None}, "neither [network] nor [problem]"),
        ({"problem": {"dim": 5}}, "both [network] and [problem]"),
        ({"measure": ["kurtosi"]}, "'kurtosi' is not a key of measure. Did you mean 'kurtosis'?"),
        ({"measure": ["risk"]}, "'risk' is not a key of measure"),
        ({"measure": "moments"}, "measure='moments' must be a list"),
        ({"axes": {"widht": [1]}}, "'widht' is not a key of axes. Did you mean 'width'?"),
        ({"axes": {}}, "axes is empty"),
        ({"axes": {"width": []}}, "axes.width=[] must be a list of values"),
        ({"axes": {"width": [8, 8]}}, "axes.width lists 8 twice. List each value once."),
        ({"axes": {"width": [0]}}, "width = 0: width=0 must be a positive integer or inf"),
        ({"axes": {"width": [16], "heads": ["inf"]}}, "width = 16, heads = inf: "),
        ({"axes": {"heads": [-1]}}, "heads = -1: "),
        ({"axes": {"depth": [2]}}, "'depth' is not a key of axes"),
        ({"axes": {"width": [[1]]}}, "axes.width lists [1]. Every value must be a number or a word"),
        ({"samples": 1}, "samples=1 must be at least 2"),
        ({"trials": 0}, "trials=0 must be a positive integer"),
        ({"token": 3}, "token=3 is out of range. With 3 tokens"),
        ({"levels": [2]}, "levels=[2] must lie between 0 and 1"),
        ({"density": {"reach": -1}}, "reach=-1 must be positive"),
        ({"density": {"width": 1}}, "'width' is not a key of density"),
        ({"network": {"inputs": {"kind": "Inputs"}}}, "Inputs in inputs needs 'tokens'"),
        (
            {"network": {"inputs": {"kind": "Input", "tokens": 2}}},
            "kind='Input' in inputs is not known. Did you mean 'Inputs'?",
        ),
        ({"seed": -1}, "seed=-1 must lie in [0, 2^64)"),
        ({"axes": {"width": list(range(1, 2000)), "heads": list(range(1, 2000))}}, "more than 1,000,000"),
    ],
)
def test_nonsense_is_refused_in_one_sentence(change, sentence):
    table = {name: value for name, value in {**TABLE, **change}.items() if value is not None}
    with pytest.raises((ValueError, TypeError)) as error:
        Study.from_plain(table)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_are_no_studies(tmp_path):
    for content, sentence in (
        (None, "No such file"),
        ("a = ", "is not valid TOML"),
        ("a = " + "[" * 5000, "nested too deeply"),
        ("a = 1", "neither"),
    ):
        path = tmp_path / "study.toml"
        if content is not None:
            path.write_text(content)
        with pytest.raises(ValueError, match=sentence) as error:
            read(path)
        assert str(path) in str(error.value)


_WORDS = st.sampled_from(
    ["width", "heads", "tokens", "layers", "kind", "Attention", "inf", "moments", "kl", "", "depth", "K", "none"]
)
_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 40) | st.floats(width=16) | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=3),
    max_leaves=6,
)
_KEYS = [
    "measure",
    "network",
    "axes",
    "samples",
    "trials",
    "seed",
    "token",
    "levels",
    "density",
    "name",
    "overlaps",
    "problem",
]


@hypothesis.settings(max_examples=300)
@hypothesis.given(st.dictionaries(st.sampled_from(_KEYS), _ANYTHING, min_size=1, max_size=3), st.booleans())
def test_any_table_is_a_study_or_refused_in_one_sentence(change, inside):
    table = json.loads(json.dumps(TABLE))
    if inside:  # nonsense deeper down
        for name, value in change.items():
            table["network"]["layers"][0][name] = value
    else:
        table |= change
    refused = None
    try:
        assert Study.from_plain(table).measurements
    except (ValueError, TypeError) as error:
        refused = str(error)
    assert refused is None or (refused and "\n" not in refused)


_VALUES = {
    "width": [1, 2, 5, 8, 64, "inf"],
    "heads": [0, 1, 2, 3, "inf"],
    "head_dim": [1, 2, 7, "split", "none", "inf"],
    "tokens": [1, 2, 3],
    "activation": ["relu", "tanh", "clip(2.0)", "nonsense"],
    "mask": ["causal", "none"],
    "scale": ["sqrt", "linear"],
    "query_std": [0.0, 0.5, 2],
    "depth": [0, 1, 3],
}
_NETWORKS = (NET, ll.Network(ll.Inputs(tokens=2, activation="relu"), ll.Attention(), ll.MLP("relu", width=3)), DEEP)


@st.composite
def likely_tables(draw):
    """Tables of which many can be run."""
    names = draw(st.lists(st.sampled_from(sorted(_VALUES)), min_size=1, max_size=2, unique=True))
    axes = {
        name: draw(st.lists(st.sampled_from(_VALUES[name]), min_size=1, max_size=2, unique_by=str)) for name in names
    }
    measure = draw(st.lists(st.sampled_from([*ALL_MEASURES, "risk"]), min_size=1, max_size=3, unique=True))
    network = draw(st.sampled_from(_NETWORKS))
    return {
        "network": as_plain(network),
        "axes": axes,
        "measure": measure,
        "samples": 64,
        "seed": draw(st.integers(0, 9)),
    }


def check_runs_or_is_refused(table):
    """Every point is computed, or one sentence says what cannot be: before any work, or of a law that has no such number."""
    sentences, sweep = [], None
    with tempfile.TemporaryDirectory() as folder:
        try:
            sweep = Sweep(Study.from_plain(table), folder + "/out")
            sweep.run()
        except TaskError as error:
            sentences = [str(reason) for _, reason in error.failures if isinstance(reason, ValueError)]
            assert len(sentences) == len(error.failures)  # noqa: PT017
        except (ValueError, TypeError) as error:
            sentences = [str(error)]
        assert all(sentence and "\n" not in sentence for sentence in sentences)
        if not sentences:
            assert sweep is not None
            assert sweep.status().done == sweep.status().total
            data = sweep.dataset()
            assert not any(data[name].isnull().all() for name in sweep.study.measure)


@hypothesis.settings(max_examples=3)
@hypothesis.given(likely_tables())
def test_a_likely_study_runs_or_is_refused(table):
    check_runs_or_is_refused(table)


@pytest.mark.full
@hypothesis.settings(max_examples=60)
@hypothesis.given(likely_tables())
def test_likely_studies_run_or_are_refused(table):
    check_runs_or_is_refused(table)


def test_distances_to_every_limit(tmp_path):
    """Limits in which heads keep their dimension, are as wide as the model, or are infinitely many."""
    of = ll.Network(ll.Inputs(tokens=3), ll.Attention(heads=2, head_dim="split"))
    measure = ["kl", "kl_to_fixed_head_dim", "kl_to_infinite_head_dim", "tv_to_infinite_heads"]
    study = small(of=of, axes={"width": [8, "inf"]}, measure=measure, samples=2**12)
    sweep = Sweep(study, tmp_path / "out")
    sweep.run()
    data = sweep.dataset().isel(trial=0)
    seed = next(m.task.settings["seed"] for m in study.measurements if m.index[0] == 0)
    law = of.law(width=8, samples=2**12, seed=seed)

    def limit(**arguments):
        return ll.Network(ll.Inputs(tokens=3), ll.Attention(**arguments)).law()

    expected = {
        "kl": ll.kl(law, of.law()),
        "kl_to_fixed_head_dim": ll.kl(law, limit(heads=2, head_dim=4)),
        "kl_to_infinite_head_dim": ll.kl(law, limit(heads=2)),
        "tv_to_infinite_heads": ll.tv(law, limit(heads=np.inf)),
    }
    for name, value in expected.items():
        assert np.isclose(data[name].sel(width=8), float(value), rtol=1e-8, atol=0), name
        assert np.isclose(data[f"{name}_stderr"].sel(width=8), value.stderr, rtol=1e-6, atol=0), name
    assert data.kl.sel(width=np.inf) == 0
    assert np.isclose(
        data.tv_to_infinite_heads.sel(width=np.inf), float(ll.tv(of.law(), limit(heads=np.inf))), rtol=1e-8
    )


def test_distances_are_those_of_the_one_list(tmp_path):
    study = small(axes={"width": [8]}, measure=["distances"], samples=2**12)
    assert "energy" in study.measure
    assert study.measure == tuple(DISTANCES)
    sweep = Sweep(study, tmp_path / "out")
    sweep.run()
    data = sweep.dataset().isel(trial=0, width=0)
    law = NET.law(width=8, samples=2**12, seed=study.measurements[0].task.settings["seed"])
    for name, distance in DISTANCES.items():
        estimate = distance(law, NET.law())
        assert np.isclose(data[name], float(estimate), rtol=1e-8, atol=0), name
        assert np.isclose(data[f"{name}_stderr"], estimate.stderr, rtol=1e-6, atol=0), name


def test_kernel_estimates_are_those_of_the_samples(tmp_path):
    """Of the stored outputs, against a sample of the limit that scipy's normals make through its quantiles."""
    study = small(axes={"width": [4, 8]}, measure=["outputs", "kde_kl", "kde_floor"], samples=500, trials=2)
    sweep = Sweep(study, tmp_path / "out")
    sweep.run()
    data, limit = sweep.dataset(), NET.law()
    assert np.unique(data.outputs.values).size == 2000
    theory = [m.task.settings["seed"] for m in study.measurements if m.measure == ("kde_kl",)]
    assert len(set(theory)) == 4  # no sample of the limit serves twice
    assert np.array_equal(data.kde_floor.sel(width=4), data.kde_floor.sel(width=8))  # one limit, one floor
    for m in study.measurements:
        seed = m.task.settings["seed"]
        samples = [limit.icdf(ndtr(np.random.default_rng([seed, i]).standard_normal(500))) for i in (0, 1)]
        width, trial = m.index
        if m.measure == ("kde_kl",):
            outputs = data.outputs.values[width, trial].astype(float)
            assert np.isclose(data.kde_kl.values[width, trial], float(ll.kde_kl(outputs, samples[0])), rtol=1e-5)
        elif m.measure == ("kde_floor",):
            assert np.isclose(data.kde_floor.values[width, trial], float(ll.kde_kl(*samples)), rtol=1e-5)


def test_trials_that_share_a_limit_keep_its_error(tmp_path):
    """Their spread is 0, the error of the limit that was drawn for all of them is not."""
    stack = ll.Network(ll.GramInputs(np.eye(3)), ll.Attention(), ll.Attention())
    sweep = Sweep(small(of=stack, axes={"width": [8, "inf"]}, samples=512, trials=3), tmp_path / "out")
    sweep.run()
    data = sweep.dataset()
    assert np.ptp(data.variance.sel(width=np.inf).values) == 0
    mean, error = mean_over_trials(data, "variance")
    drawn = stack.law(samples=4 * 512)
    assert float(mean.sel(width=np.inf)) == pytest.approx(float(drawn.variance()), rel=1e-12)
    assert float(error.sel(width=np.inf)) == pytest.approx(drawn.variance().stderr, rel=1e-10)
    assert float(error.sel(width=8)) == pytest.approx(np.std(data.variance.sel(width=8), ddof=1) / 3**0.5)


def test_figures_are_made_of_studies(tmp_path):
    """The numbers of a figure are those of sweeps over its studies."""
    settings = Settings(trials=2, samples=500, draws=1024)
    experiment, figure = _experiments.clipped(settings), FIGURES["fig1b"]
    store = Store(tmp_path / "store")
    list(complete(figure.tasks(settings), store))
    data = figure.dataset(settings, store.load)
    for i in (0, 3):
        for studies, names in ((experiment.samplings, ("kde_kl", "floor_kde_kl")), (experiment.laws, ("kl_limit",))):
            sweep = Sweep(studies[i], tmp_path / studies[i].name)
            sweep.run()
            found = sweep.dataset()
            for name in names:
                own = {"kde_kl": "kde_kl", "floor_kde_kl": "kde_floor", "kl_limit": "kl"}[name]
                shown = data[name].values[i] if name != "kl_limit" else data[name].values[i, :1]
                assert np.array_equal(shown, found[own].values.ravel())


@pytest.mark.parametrize("what", ["another", "foreign", "damaged"])
def test_a_folder_of_something_else_is_refused(tmp_path, what):
    folder = tmp_path / "out"
    folder.mkdir()
    if what == "another":
        Sweep(small(name="first"), folder).run()
    elif what == "foreign":
        (folder / "thesis.tex").write_text("")
    else:
        (folder / "study.json").write_text("{")
    with pytest.raises(
        StoreError,
        match={"another": "belongs to the study 'first'", "foreign": "not empty", "damaged": "damaged"}[what],
    ):
        Sweep(small(name="second"), folder).run()


def test_more_than_the_machine_has_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"samples=.*one task takes about"):
        Sweep(small(samples=2**40), tmp_path / "out").run()
    assert not (tmp_path / "out").exists()


def test_a_study_draws_what_its_sweep_has(tmp_path):
    """With a folder the results stay there; the picture is that of the sweep, point by point."""
    net = ll.Network(ll.Inputs(tokens=2), ll.Attention())
    study = Study(net, axes={"width": [16, 64, 256]}, measure=["variance", "kurtosis"], samples=2**12)
    drawn = study.plot("kurtosis", folder=tmp_path / "sweep")
    data = Sweep.open(tmp_path / "sweep").dataset()
    (line,) = [line for line in drawn.axes[0].get_lines() if len(line.get_xdata()) == 3][:1]
    np.testing.assert_allclose(line.get_ydata(), data["kurtosis"].mean("trial"))
    with pytest.raises(ValueError, match="measure='entropy'"):
        study.plot("entropy")

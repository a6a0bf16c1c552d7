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
from limitlaw.experiments import (
    MEASURES,
    Baselines,
    Basins,
    Density,
    Descent,
    Landscape,
    Phases,
    ReadoutKurtosis,
    ScoreLaw,
    Simulation,
    StationaryPoints,
    Store,
    StoreError,
    Study,
    Sweep,
    TaskError,
    complete,
    named,
    read,
)
from limitlaw.experiments._draw import figure, mean_over_trials
from limitlaw.figures import FIGURES, Settings
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

ALL_MEASURES = tuple(name for name, measure in MEASURES.items() if measure.of == "network")


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
        ({"measure": ["kurtosi"]}, "measure='kurtosi' is not known. Did you mean 'kurtosis'?"),
        ({"measure": ["risk"]}, "measure='risk' is not known"),
        ({"measure": [["kl"]]}, "measure lists ['kl']. Every entry must be a name"),
        ({"measure": [{"kind": "Descend"}]}, "kind='Descend' is not known. Did you mean 'Descent'?"),
        ({"measure": [{"kind": "Descent"}]}, "measure='descent' is of a problem, but the study is about a network"),
        ({"measure": [{"kind": "Density", "raech": 1}]}, "'raech' is not a key of Density. Did you mean 'reach'?"),
        ({"measure": [{"kind": "ReadoutKurtosis", "coefficients": [1, 1, 1, 1]}]}, "there are 3 tokens"),
        ({"measure": ["density", {"kind": "Density", "reach": 2.0}]}, "two that are called 'density'"),
        ({"zipped": "width"}, "zipped='width' must be a list such as"),
        ({"zipped": [["width"]]}, "Every group must list two axes or more"),
        ({"zipped": [["width", "heads"]]}, "zipped lists 'heads', which is not an axis"),
        (
            {"axes": {"width": [8, 16], "heads": [1]}, "zipped": [["width", "heads"]]},
            "must have equally many values, but width has 2, heads has 1",
        ),
        (
            {"axes": {"width": [8, 8], "heads": [1, 1]}, "zipped": [["width", "heads"]]},
            "axes.width and axes.heads lists 8 with 1 twice",
        ),
        ({"measure": "moments"}, "measure='moments' must be a list"),
        ({"axes": {"widht": [1]}}, "'widht' is not a key of axes. Did you mean 'width'?"),
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
    "zipped",
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
            assert not any(data[name].isnull().all() for name in sweep.study.shown if name != "block_uniformity")


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
    assert [measure.name for measure in study.measures] == list(DISTANCES)
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
    settings, figure = Settings(trials=2, samples=500, draws=1024), FIGURES["fig1b"]
    store = Store(tmp_path / "store")
    list(complete(figure.tasks(settings), store))
    data = figure.dataset(settings, store)
    for name, study in figure.studies(settings).items():
        sweep = Sweep(study, tmp_path / name)
        sweep.run()
        found = sweep.dataset()
        if name == "kernels":
            assert np.array_equal(data["kde_kl"], found["kde_kl"])
            assert np.array_equal(data["floor_kde_kl"], found["kde_floor"])
        else:
            assert np.array_equal(data["kl_limit"].values[:, 0], found["kl"].values[:, 0])


@pytest.mark.parametrize("what", ["another", "foreign", "damaged"])
def test_a_folder_of_something_else_is_refused(tmp_path, what):
    folder = tmp_path / "out"
    folder.mkdir()
    if what == "another":
        Sweep(small(name="first"), folder).run()
    elif what == "foreign":
        (folder / "thesis.tex").write_text("")
    else:
        (folder / "limitlaw.json").write_text("{")
    with pytest.raises(
        StoreError,
        match={"another": "belongs to the study 'first'", "foreign": "thesis.tex exists", "damaged": "damaged"}[what],
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


def test_zipped_axes_are_one_dimension(tmp_path):
    """The results are those of the points of the product that the group keeps."""
    axes = {"width": [8, 16], "heads": [1, 2], "out_std": [1.0, 2.0]}
    product = small(axes=axes, measure=["variance"]).dataset()
    study = small(axes=axes, measure=["variance"], zipped=[["width", "heads"]])
    again = Study.from_plain(json.loads(json.dumps(study.as_plain())))
    assert study.dims == again.dims == ("width_heads", "out_std")
    assert [m.task.key for m in again.measurements] == [m.task.key for m in study.measurements]
    sweep = Sweep(study, tmp_path / "out")
    sweep.run()
    data = xr.open_zarr(tmp_path / "out" / "results.zarr").load()
    assert data.variance.dims == ("width_heads", "out_std", "trial")
    assert data.width.dims == data.heads.dims == ("width_heads",)
    for i, (width, heads) in enumerate(zip(axes["width"], axes["heads"], strict=True)):
        assert (
            data.variance.isel(width_heads=i).values.tolist()
            == product.variance.sel(width=width, heads=heads).values.tolist()
        )
    assert sweep.write_csv(tmp_path / "out.csv") == 4
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "width,heads,out_std,trial,measure,at,value,stderr"
    drawn = figure(data, "variance", study.dims)
    assert {axis.get_xlabel() for axis in drawn.axes} >= {"width"}


def test_samples_may_vary():
    """Along an axis of their own, or with the width; a limit is drawn once, for the largest number."""
    stack = ll.Network(ll.GramInputs(np.eye(2)), ll.Attention(), ll.Attention())
    axes = {"width": [8, 16], "samples": [256, 512]}
    study = small(of=stack, axes=axes, measure=["outputs", "kl"], zipped=[["width", "samples"]])
    data = study.dataset()
    assert data.outputs.notnull().sum("draw").values.ravel().tolist() == [256, 512]
    laws = [m.task for m in study.measurements if m.measure == ("kl",)]
    assert [task.settings["samples"] for task in laws] == [256, 512]
    assert {need.settings["samples"] for task in laws for need in task.needs} == {4 * 512}


def test_every_measure_can_be_taken(tmp_path):
    """The one list: what it computes has the variables, dimensions and labels that it declares."""
    common = {"axes": {}, "samples": 64, "trials": 2}
    problem = {"dim": 20, "tokens": 5}
    deep = ll.Network(ll.GramInputs(np.eye(2)), ll.Repeat(2, ll.Residual(ll.Attention())))
    quick = {"descent": {"steps": 40}, "simulation": {"steps": 40}, "basins": {"steps": 40, "mu": [0.1], "nu": [0.5]}}
    for name, measure in MEASURES.items():
        if name.endswith("head_dim") or (name.startswith("kde") and "_to_" in name):
            continue  # as the ones without a target
        plain = {"kind": type(measure).__name__, **quick[name]} if name in quick else name
        study = Study(
            deep if measure.of == "network" else problem,
            measure=[plain],
            overlaps={"mu": 0.2, "nu": 0.1} if measure.of == "problem" else {},
            **common,
        )
        data = study.dataset(tmp_path / name)
        assert set(data.data_vars) == set(study.variables), name
        assert study.shown, name
        assert ("trial" in data.sizes) == measure.needs_trials, name
        for variable in study.shown:
            if data[variable].dtype.kind == "f" and variable != "basins_learned_at":
                assert np.isfinite(data[variable].values).any(), (name, variable)
            assert figure(data, variable, study.dims).axes
        assert xr.open_zarr(tmp_path / name / "results.zarr").load().identical(data), name


def test_measures_with_options(tmp_path):
    """What they compute is what the library's own functions say; a table means the same as the object."""
    p = slr.Problem(dim=30, tokens=6)
    start = [[0.3, 0.1, 0, 0, 0], [0.1, 0.2, 0, 0, 0]]
    grid = {"mu": [0.0, 0.4], "nu": [0.1, 0.5, 0.9]}
    measures = [
        Descent(steps=50, start=start, every=20),
        Descent(steps=50, start=start, every=20, method="mean-field", alpha=0.0, name="limit"),
        Simulation(steps=50, start=start, every=50, name="data"),
    ]
    with pytest.raises(ValueError, match="other labels along 'step'"):
        Study(p, {}, measures)
    measures[2] = Simulation(steps=50, start=start, every=25, name="data")
    study = Study(p, {"gamma": [0.5, 0.7]}, measures[:2])
    again = Study.from_plain(json.loads(json.dumps(study.as_plain())))
    assert again.measures == study.measures
    assert [m.task.key for m in again.measurements] == [m.task.key for m in study.measurements]
    data = study.dataset()
    for gamma in (0.5, 0.7):
        for name, how in (("descent", {}), ("limit", {"method": "mean-field", "alpha": 0.0})):
            run = slr.descent(p.changed(gamma=gamma), 50, 0.01, start, every=20, progress=False, **how)
            assert np.array_equal(data[f"{name}_risk"].sel(gamma=gamma), run.risk)
            assert np.array_equal(data[f"{name}_overlap"].sel(gamma=gamma), run.overlaps)
            assert np.array_equal(data.step, run.at)
    sizes = Study(p, {"samples": [50, 100]}, [measures[2]], trials=2)
    data = sizes.dataset()
    assert data.data_risk.dims == ("samples", "trial", "start", "step")
    seeds = [m.task.settings["seed"] for m in sizes.measurements]
    run = slr.simulate(p, 100, 50, 0.01, seeds[-1], start=start, every=25, progress=False)
    assert np.array_equal(data.data_risk[1, 1], run.risk)
    assert not np.array_equal(data.data_risk[0, 0], data.data_risk[0, 1])
    maps = Study(
        p,
        {},
        [
            Landscape(**grid),
            StationaryPoints(),
            Basins(**grid, steps=100),
            Phases(x_values=[0.1, 0.3], y_values=[0.3, 0.5]),
            Baselines(),
        ],
    ).dataset()
    assert np.array_equal(maps.landscape_risk, p.risk(*np.meshgrid(grid["mu"], grid["nu"])))
    found = slr.stationary_points(p)
    assert maps.stationary_kind.values[: len(found)].tolist() == [point.kind for point in found]
    assert np.array_equal(maps.basins_final_risk, slr.basins(p, **grid, steps=100).final_risk)
    assert np.array_equal(maps.phases_risk, slr.phase_diagram(p, x_values=[0.1, 0.3], y_values=[0.3, 0.5]).risk)
    assert maps.baselines.sel(predictor="softmax") == slr.baselines(p)["softmax"]


def test_measures_of_networks_with_options():
    of = ll.Network(
        ll.GramInputs(0.3 ** np.abs(np.subtract.outer(range(3), range(3)))), ll.Repeat(2, ll.Residual(ll.Attention()))
    )
    study = Study(
        of,
        {"width": [8]},
        [ReadoutKurtosis((1, -1)), "block_gap", "block_kurtosis", Density(2.0, 5), ScoreLaw(1, 2)],
        samples=500,
    )
    data = study.dataset().squeeze()
    seeds = {m.task.settings["seed"] for m in study.measurements}
    t = of.trajectory(500, width=8, seed=seeds.pop())
    K = t.gram.astype(float)
    v = K[:, :, 0, 0] + K[:, :, 1, 1] - 2 * K[:, :, 0, 1]
    assert np.allclose(data.readout_kurtosis[1:], ll.networks.trajectory.excess_kurtosis(v)[0][1:], rtol=1e-9)
    assert np.allclose(data.block_gap, 1 - t.summary()["cosine"][0], atol=1e-6)
    assert data.x.values.tolist() == [-2, -1, 0, 1, 2]
    law = of.score_law(1, 2, width=8, samples=500, seed=next(iter(m.task.settings["seed"] for m in study.measurements)))
    assert data.score_variance == float(law.variance())
    assert np.array_equal(data.score_density, law.pdf(data.score_x.values))
    assert named("a", law.variance())["a_dof"] == law.variance().dof


def test_what_results_depend_on_is_declared():
    """Every module of the library that computes a result is within the packages of its task (B3)."""
    import ast
    from pathlib import Path

    from limitlaw.experiments import NUMERICAL, REGRESSION

    package = Path(ll.__file__).parent
    for declared in (NUMERICAL, REGRESSION):
        assert "numerics" in declared
    inside = {"_format.py", "_progress.py", "_picture.py", "_html.py", "_load.py", "__init__.py"}  # what people see
    for declared, start in (
        (REGRESSION, "slr"),
        (NUMERICAL, "laws"),
        (NUMERICAL, "networks"),
        (NUMERICAL, "distances"),
    ):
        for path in (package / start).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and node.level:
                    base = path.parents[node.level - 1]
                    for target in (
                        [base / node.module.replace(".", "/")] if node.module else [base / a.name for a in node.names]
                    ):
                        found = target if target.is_dir() else target.with_suffix(".py")
                        if found.exists() and found.is_relative_to(package):
                            part = found.relative_to(package).parts[0] if found != package else "__init__.py"
                            assert part in declared or part in inside, (path, part)

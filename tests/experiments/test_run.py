"""Runs: folders that belong to somebody, files that are made once, and what a run is said to take."""

import contextlib
import json
import shutil
import sys

import numpy as np
import pytest
from cluster_tasks import fails, many

import limitlaw as ll
from limitlaw._load import load_module
from limitlaw.experiments import Cluster, Costs, Job, Progress, Run, StoreError, Study, Sweep, Task, TaskError, read

MINE = """
from dataclasses import dataclass
import numpy as np
from limitlaw.experiments import Measure, Variable
from limitlaw.slr import Problem

def strength(*, problem):
    return {"strength": np.array(Problem(**problem).strength)}

@dataclass(frozen=True)
class Strength(Measure):
    of = "problem"
    needs_trials = False
    name = "strength"

    def variables(self):
        return {"strength": Variable("strength")}

    def task(self, trial):
        return trial.task(strength, {"problem": trial.settings["problem"]})
"""
NET = ll.Network(ll.Inputs(tokens=3), ll.Attention(heads=2))


def plane(**changes):
    given = {"axes": {"mu": [0.0, 0.5]}, "measure": ["risk"], "overlaps": {"nu": 0.5}, **changes}
    return Study({"dim": 20, "tokens": 5}, **given)


def writing(log):
    def write(datasets, folder):
        log.append(sorted(datasets))
        path = folder / "risk.txt"
        path.write_text(str(float(datasets["plane"].risk[1])))
        return [path]

    return write


def run(folder, log, code="", study=None):
    made = Run(folder, "the test", [Job.of("risk", {"plane": study or plane()}, writing(log), code=code)])
    with made.opened():
        made.compute()
    return made


def test_files_are_written_again_only_if_something_changed(tmp_path):
    log, out = [], tmp_path / "out"
    first = run(out, log)
    assert len(first.computed) == 2
    assert [path.name for path in first.written] == ["risk.txt"]
    assert not run(out, log).written
    whole = (out / "risk.txt").read_bytes()
    (out / "risk.txt").write_text("spoilt")
    assert not run(out, log).computed
    assert (out / "risk.txt").read_bytes() == whole
    assert run(out, log, code="new").written
    assert len(run(out, log, study=plane(axes={"mu": [0.0, 0.25]})).computed) == 1
    assert len(log) == 4


def contents(folder):
    return {
        path.relative_to(folder): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("store", [True, False])
def test_a_folder_of_an_older_version_is_refused_untouched(tmp_path, store):
    """Version 0.1 left study.json and a store of format 2."""
    out = tmp_path / "out"
    (out / "store" / "results" / "ab").mkdir(parents=True)
    (out / "store" / "results" / "ab" / "x.npz.part-1").write_text("half")
    if store:
        (out / "store" / "limitlaw-store.json").write_text(json.dumps({"store": "limitlaw", "format": 2}))
    (out / "study.json").write_text("{}")
    before = contents(out)
    sentence = "was written by limitlaw 0.1, whose results this version cannot use. Choose another folder with --out"
    with pytest.raises(StoreError, match=sentence if store else "limitlaw did not make it"):
        Sweep(plane(), out).run()
    with pytest.raises(StoreError, match=sentence if store else "limitlaw did not make it"):
        run(out, [])
    with pytest.raises(StoreError, match=sentence if store else "does not hold a sweep"):
        Sweep.open(out)
    assert contents(out) == before


def test_a_run_that_was_killed_at_its_very_beginning(tmp_path):
    (tmp_path / "limitlaw.json.part-17").write_text("{")
    assert run(tmp_path, []).written


def test_a_folder_belongs_to_one_owner(tmp_path):
    run(tmp_path / "out", [])
    with pytest.raises(StoreError, match="belongs to the test, not to the study 'study'"):
        Sweep(plane(), tmp_path / "out").run()
    (tmp_path / "out" / "limitlaw.json").write_text("[]")
    with pytest.raises(StoreError, match=r"limitlaw\.json is damaged"):
        run(tmp_path / "out", [])


def test_results_that_were_missing_are_written_once_they_are_there(tmp_path):
    """What is written after a failure is written again after a run without one."""

    def write(store, folder):
        path = folder / "there.txt"
        path.write_text(str(sum(store.path(task.key).exists() for task in tasks)))
        return [path]

    often = Task("often", fails, {"times": 3, "folder": str(tmp_path), "name": "often"})
    tasks = [often, *many(2)]
    for there in ("2", "3"):
        made = Run(tmp_path / "out", "the test", [Job("count", tasks, write, partial=True)])
        with made.opened(), pytest.raises(TaskError) if there == "2" else contextlib.nullcontext():
            made.compute()
        assert (tmp_path / "out" / "there.txt").read_text() == there


def test_a_measure_of_a_loaded_file_runs_on_workers(tmp_path):
    """As of a figure that somebody has written, with `--load`."""
    file = tmp_path / "measures_of_mine.py"
    file.write_text(MINE)
    kind = load_module(file).Strength
    try:
        data = plane(measure=[kind(), "risk"]).dataset(workers=2)
    finally:
        del sys.modules["measures_of_mine"]
    assert data.strength.dims == ("mu",)
    assert np.all(data.strength > 0)


def test_an_error_while_files_are_written_ends_the_run(tmp_path):
    def full(datasets, folder):
        raise OSError(28, "No space left on device")

    made = Run(tmp_path / "out", "the test", [Job.of("risk", {"plane": plane()}, full)])
    with pytest.raises(OSError, match="No space left"), made.opened():
        made.compute()
    assert run(tmp_path / "out", []).written


def test_estimates_are_those_of_this_machine(tmp_path, monkeypatch):
    """Unknown at first; after a run, within a factor of two of the next one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    study = Study(NET, {"width": [8, 16, 32], "heads": [1, 2]}, ["moments", "kl"], samples=2**14)
    sweep = Sweep(study, tmp_path / "first")
    assert sweep.estimates().seconds is None
    sweep.run()
    taken = sum(sweep.store.record(task)["wall"] for task in sweep.tasks)
    again = Sweep(study, tmp_path / "second")
    estimate = again.estimates().seconds
    assert estimate is not None
    assert taken / 2 < estimate < 2 * taken
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache" / "limitlaw").mkdir(parents=True)
    (tmp_path / "cache" / "limitlaw" / "costs.json").write_text("[1]")
    assert again.estimates().seconds is None


def test_compilation_counts_once():
    def nothing():
        return {}

    costs = Costs()
    costs._kinds.clear()
    tasks = [Task("", nothing, {"n": n}, cost=1.0, program="p") for n in range(10)]
    assert costs.seconds(tasks) is None
    assert Progress({"all": tasks}, None, costs).note() == "0 of 10 tasks, measuring"
    costs.measured(tasks[0], 30.0, first=True)
    costs.measured(tasks[1], 2.0, first=False)
    assert costs.seconds(tasks) == 28 + 20
    assert costs.seconds(tasks, workers=4) == 28  # one worker compiles, the others wait for it
    unknown = Task("", nothing, {}, cost=1.0, program="q")
    assert costs.seconds([*tasks, unknown]) == pytest.approx(48 * 11 / 10)


def test_a_large_study_is_checked_at_once(monkeypatch):
    """Points that differ in decimals alone are checked once, and every value is (D6)."""
    from limitlaw.experiments import _family

    built = []
    original = _family.from_plain
    monkeypatch.setattr(_family, "from_plain", lambda table: built.append(1) or original(table))
    values = np.linspace(0.5, 1.5, 60).tolist()
    axes = {"query_std": values, "heads": [1, 2], "out_std": values}
    study = Study(NET, axes, ["variance"], samples=64)
    assert len(study.points) == 7200
    assert len(built) < 200
    point = study.points[4321]
    alone = Study(NET, {name: [value] for name, value in point.place.items()}, ["variance"], samples=64).points[0]
    assert point.member == alone.member
    with pytest.raises(ValueError, match=r"query_std = -1\.0"):
        Study(NET, {**axes, "query_std": [*values, -1.0]}, ["variance"], samples=64)


def test_words_that_are_no_cluster():
    with pytest.raises(TypeError, match="cluster=5 must be text"):
        Cluster.of(5)


@pytest.mark.parametrize(
    "line, sentence",
    [
        ('memory = "lots"', "memory='lots' is not the memory of a job"),
        ('memory = "8GB"\nwalltime = "long"', "walltime='long' is not the time limit of a job"),
    ],
)
def test_profiles_are_checked_by_key(tmp_path, line, sentence):
    file = tmp_path / "p.toml"
    file.write_text(f"cores = 4\n{line}\n")
    with pytest.raises(ValueError, match=sentence) as error:
        Cluster.of("slurm", file)
    assert str(file) in str(error.value)


def test_files_that_take_too_long_to_read(tmp_path):
    deep, large = tmp_path / "deep.toml", tmp_path / "large.toml"
    layer = '{kind = "Attention"}'
    for _ in range(300):
        layer = f'{{kind = "Residual", layers = [{layer}]}}'
    deep.write_text(f'measure = ["moments"]\n[network]\ninputs = {{kind = "Inputs", tokens = 2}}\nlayers = [{layer}]\n')
    large.write_text("a = [" + "1," * 3_000_000 + "]")
    for file, sentence in (
        (deep, "nested too deeply|nests its layers too deeply"),
        (large, "can be read in a reasonable time"),
    ):
        with pytest.raises(ValueError, match=sentence) as error:
            read(file)
        assert str(file) in str(error.value)

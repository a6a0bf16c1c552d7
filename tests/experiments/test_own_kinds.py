"""Studies of layers that users define: workers load them, and an edit computes their results anew."""

import sys

import pytest

import limitlaw as ll
from limitlaw._checks import ArgumentError
from limitlaw._load import load_module
from limitlaw.experiments import Store, Study, TaskError, complete
from limitlaw.networks.registry import own_kinds

FILE = """
import jax.numpy as jnp
import limitlaw as ll

class {name}(ll.Layer):
    gain: float = 1.0

    def matrices(self, width, layout):
        return {{"in": ll.Matrix(4), "out": ll.Matrix(width)}}

    def inner(self, u, context):
        return jnp.tanh(self.gain * u["in"])
"""


def study(kind):
    return Study.from_plain(
        {
            "name": "own",
            "measure": ["variance"],
            "samples": 256,
            "network": {"inputs": {"kind": "GramInputs", "K": [[1.0]]}, "layers": [{"kind": kind}]},
            "axes": {"width": [8], "gain": [0.5, 2.0]},
        }
    )


def tasks(kind):
    return [measurement.task for measurement in study(kind).measurements]


@pytest.fixture
def own_file(tmp_path):
    """A file that defines a layer, and the name of the layer."""
    file = tmp_path / "layers_of_a_study.py"
    file.write_text(FILE.format(name="OfAStudy"))
    load_module(file)
    yield file, "OfAStudy"
    del sys.modules["layers_of_a_study"]


def test_workers_load_what_a_study_names(own_file, tmp_path):
    _, name = own_file
    store = Store(tmp_path / "store")
    wanted = tasks(name)
    assert {task.key for task in complete(wanted, store, workers=2)} >= {task.key for task in wanted}
    small, large = (float(store.load(task)["variance"]) for task in wanted)
    assert 0 < small < large < 1


def test_an_edit_of_the_file_changes_the_keys(own_file):
    file, name = own_file
    before = [task.key for task in tasks(name)]
    assert [task.key for task in tasks(name)] == before
    file.write_text(FILE.format(name=name).replace("tanh(", "tanh(2 * "))
    assert not set(before) & {task.key for task in tasks(name)}


def test_a_class_without_a_file_is_refused_by_workers(tmp_path):
    """As in a notebook, whose classes belong to no file."""
    namespace = {"__name__": "__main__"}
    exec(FILE.format(name="OfANotebook"), namespace)
    (kind,) = own_kinds({"kind": "OfANotebook"})
    assert kind.file == ""
    with pytest.raises(TaskError, match="which workers cannot load"):
        list(complete(tasks("OfANotebook"), Store(tmp_path / "store"), workers=2))
    assert list(complete(tasks("OfANotebook")[:1], Store(tmp_path / "here")))


def test_an_unknown_kind_is_refused_before_its_axes():
    with pytest.raises(ArgumentError, match=r"kind='NeverDefined' in layers.0 is not known.*--load") as refusal:
        study("NeverDefined")
    assert refusal.value.argument == "kind"


class HalfTheWidth(ll.Layer):
    """Has no limit, since it has no contracted rule."""

    def matrices(self, width, layout):
        return {"in": ll.Matrix(0.5 * width), "out": ll.Matrix(width)}

    def inner(self, u, context):
        return u["in"]


def test_a_distance_to_a_limit_that_does_not_exist_is_refused_before_any_work():
    net = ll.Network(ll.GramInputs([[1.0]]), HalfTheWidth())
    assert Study(net, {"width": [8]}, ["variance"], samples=256).measurements
    with pytest.raises(ArgumentError, match="infinitely many columns at width=inf") as refusal:
        Study(net, {"width": [8]}, ["energy"])
    assert refusal.value.argument == "matrices"

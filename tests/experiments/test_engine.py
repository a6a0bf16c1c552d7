import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cluster_tasks import dies, many, together

from limitlaw.experiments import Store, StoreError, Task, TaskError, complete, replacing, with_needs


def numbers(*, count, seed=0):
    return {"numbers": np.random.default_rng(seed).normal(size=count)}


def total(*parts, power):
    return {"total": np.array(sum((part["numbers"] ** power).sum() for part in parts))}


def fails(*, how):
    raise {"value": ValueError, "disk": lambda text: OSError(28, text)}[how]("on purpose")


def chain(power=2, seeds=(0, 1)):
    needs = tuple(Task(f"numbers {seed}", numbers, {"count": 5, "seed": seed}) for seed in seeds)
    return Task("total", total, {"power": power}, needs=needs)


def test_a_key_is_all_that_a_result_depends_on():
    assert chain().key == chain().key
    others = [chain(power=3), chain(seeds=(0, 2)), chain(seeds=(1, 0)), Task("total", numbers, {"power": 2})]
    assert len({chain().key, *(task.key for task in others)}) == 5
    assert Task("another name", numbers, {"count": 5, "seed": 0}, cost=7).key == chain().needs[0].key


def test_a_key_changes_with_the_code(monkeypatch):
    from limitlaw.experiments import _task

    before = chain().key
    monkeypatch.setattr(_task, "code_version", lambda *paths, **packages: "other code")
    assert chain().key != before


def test_needs_come_first_and_once():
    one = chain()
    ordered = with_needs([one, one.needs[1], chain(power=3)])
    assert [task.name for task in ordered] == ["numbers 0", "numbers 1", "total", "total"]


def test_results_are_computed_once_and_in_order(tmp_path):
    store = Store(tmp_path / "store")
    names = [task.name for task in complete([chain()], store)]
    assert names == ["numbers 0", "numbers 1", "total"]
    truth = sum((np.random.default_rng(seed).normal(size=5) ** 2).sum() for seed in (0, 1))
    assert store.load(chain())["total"] == truth
    stamps = {path: path.stat().st_mtime_ns for path in store.results.rglob("*.npz")}
    assert [task.name for task in complete([chain()], store)] == names
    assert stamps == {path: path.stat().st_mtime_ns for path in store.results.rglob("*.npz")}
    assert len(stamps) == 3
    record = json.loads(store.path(chain().key).with_suffix(".json").read_text())
    assert record["settings"] == {"power": 2}
    assert record["needs"] == [task.key for task in chain().needs]


def test_a_failure_stops_what_needs_it_and_nothing_else(tmp_path):
    store = Store(tmp_path / "store")
    bad = Task("bad", fails, {"how": "value"})
    done = []
    with pytest.raises(TaskError, match=r"bad failed: on purpose \(settings: \{'how': 'value'\}\)"):
        done.extend(task.name for task in complete([Task("lost", total, {"power": 1}, needs=(bad,)), chain()], store))
    assert done == ["numbers 0", "numbers 1", "total"]


def test_a_full_disk_stops_everything(tmp_path):
    store = Store(tmp_path / "store")
    with pytest.raises(OSError, match="on purpose"):
        list(complete([Task("full", fails, {"how": "disk"}), chain()], store))
    assert not store.has(chain())


@pytest.mark.parametrize("harm", ["cut", "changed", "emptied"])
def test_a_damaged_result_is_refused_by_name(tmp_path, harm):
    store = Store(tmp_path / "store")
    list(complete([chain()], store))
    path = store.path(chain().needs[0].key)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle] ^= 0xFF
    path.write_bytes({"cut": content[:middle], "changed": content, "emptied": b""}[harm])
    with pytest.raises(StoreError, match=f"{path.name}.*numbers 0.*delete it"):
        list(complete([chain()], store))
    path.unlink()
    assert len(list(complete([chain()], store))) == 3


@pytest.mark.parametrize(
    "mark, reason",
    [
        (None, "is not a store of limitlaw"),
        ("{", "is damaged"),
        ('{"store": "limitlaw", "format": 99}', "has format 99"),
        ('{"other": 1}', "is damaged"),
    ],
)
def test_a_foreign_store_is_refused_and_left_alone(tmp_path, mark, reason):
    folder = tmp_path / "store"
    folder.mkdir()
    (folder / "precious.txt").write_text("mine")
    if mark is not None:
        (folder / "limitlaw-store.json").write_text(mark)
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(StoreError, match=reason):
        Store(folder)
    assert [(folder / name).exists() for name in before] == [True] * len(before)
    assert (folder / "precious.txt").read_text() == "mine"


def test_what_goes_wrong_while_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def write_half():
        with replacing(path) as part:
            part.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_parts_of_killed_runs_are_removed(tmp_path):
    store = Store(tmp_path / "store")
    left = store.results / "ab"
    left.mkdir()
    (left / "x.npz.part-123").write_text("half")
    with store.locked():
        assert not list(left.iterdir())


def test_one_run_at_a_time(tmp_path):
    """A second process gets the store when the first lets go of it, and says that it waits."""
    store = Store(tmp_path / "store")
    program = (
        f"from limitlaw.experiments import Store\n"
        f"with Store({str(store.folder)!r}).locked():\n"
        f"    print('held', flush=True)\n"
        f"    input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "held\n"
        waited = []

        def let_go():
            waited.append(other.poll())
            other.stdin.write("\n")
            other.stdin.flush()

        with store.locked(let_go):
            assert waited == [None]
            assert other.wait() == 0


def test_a_process_that_is_killed_is_replaced(tmp_path):
    """Its task is submitted again; one that kills its process every time is reported, and stops no other."""
    store, marks = Store(tmp_path / "store"), str(tmp_path)
    twice = Task("twice", dies, {"times": 2, "folder": marks, "name": "twice"})
    always = Task("always", dies, {"times": 99, "folder": marks, "name": "always"})
    others = many(6)
    needing = Task("needing", together, {"power": 2}, needs=(twice, others[0]))
    done = []
    with pytest.raises(TaskError, match="always failed: its process was killed, perhaps for lack of memory") as error:
        done.extend(task.name for task in complete([always, needing, *others], store, workers=2))
    assert sorted(done) == sorted(["twice", "needing", *(task.name for task in others)])
    assert [task.name for task, _ in error.value.failures] == ["always"]
    assert len(list(tmp_path.glob("always-*"))) == 3
    assert all(np.array_equal(store.load(task)["numbers"], task.run()["numbers"]) for task in others)


PARENT = """
import sys
sys.path[:0] = [{tests!r}]
from cluster_tasks import many
from limitlaw.experiments import Store, complete
for task in complete(many(8, seconds=60, trace={trace!r}), Store({folder!r}), workers=2):
    pass
"""


def started(tmp_path):
    """A process whose two workers are at work, and the numbers of those."""
    trace = tmp_path / "trace"
    text = PARENT.format(tests=str(Path(__file__).parent.parent), trace=str(trace), folder=str(tmp_path / "store"))
    parent = subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while not trace.exists() or len(trace.read_text().split()) < 2:
        assert time.monotonic() < deadline
        assert parent.poll() is None
        time.sleep(0.05)
    return parent, [int(number) for number in trace.read_text().split()]


def is_alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (OSError, IndexError):
        return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_their_parent(tmp_path, how):
    """Also in the middle of a computation, and if the parent cannot say that it ends."""
    parent, workers = started(tmp_path)
    os.kill(parent.pid, how)
    parent.communicate(timeout=20)
    deadline = time.monotonic() + 10
    while any(map(is_alive, workers)):
        assert time.monotonic() < deadline, "workers must end by themselves"
        time.sleep(0.05)


def test_an_interrupt_reaches_the_parent_alone(tmp_path):
    """As from a terminal, which sends it to all processes: one of them answers."""
    parent, workers = started(tmp_path)
    os.killpg(parent.pid, signal.SIGINT)
    _, errors = parent.communicate(timeout=20)
    assert errors.count("Traceback") <= 1
    assert errors.strip().splitlines()[-1] == "KeyboardInterrupt"
    assert not any(map(is_alive, workers))


def test_what_needs_a_failure_is_lost_with_it(tmp_path):
    bad = Task("bad", fails, {"how": "value"})
    lost = Task("lost", total, {"power": 1}, needs=(bad,))
    more = Task("lost too", total, {"power": 2}, needs=(lost,))
    good = chain()
    with pytest.raises(TaskError) as error:
        list(complete([more, good], Store(tmp_path / "store"), retries=0))
    assert [task.name for task, _ in error.value.failures] == ["bad"]

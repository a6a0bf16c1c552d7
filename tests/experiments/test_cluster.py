"""A real cluster of separate processes: workers that die, clients that are killed, tasks that fail, schedulers that go away.

All must end in the same bits as this process alone.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from cluster_tasks import fails, many, together

from limitlaw.experiments import Cluster, ClusterError, Store, Task, TaskError, complete

pytestmark = [
    pytest.mark.full,
    # dask's own processes end with sockets open
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

STUDY = """
name = "small"
measure = ["moments", "kl"]
trials = 3
samples = 200_000
[network]
inputs = { kind = "Inputs", tokens = 3 }
layers = [{ kind = "Attention", heads = 2 }]
[axes]
width = [4, 8, 16, 32, "inf"]
heads = [1, 2]
"""


@pytest.fixture(scope="module")
def client():
    pytest.importorskip("distributed")
    with Cluster.of("local:2").client() as client:
        yield client


def stored(store, tasks):
    return [store.load(task)["numbers"] for task in tasks]


def same(store, tasks):
    return all(np.array_equal(a, task.run()["numbers"]) for a, task in zip(stored(store, tasks), tasks, strict=True))


def test_everything_is_computed_once_with_few_on_the_way(client, tmp_path):
    store, tasks = Store(tmp_path / "store"), many(200)
    largest = 0
    for _ in complete(tasks, store, client=client):
        largest = max(largest, len(client.futures))
    assert largest <= 16
    assert same(store, tasks)
    stamps = [store.path(task.key).stat().st_mtime_ns for task in tasks]
    list(complete(tasks, store, client=client))
    assert stamps == [store.path(task.key).stat().st_mtime_ns for task in tasks]


def total(*parts, power):
    return {"numbers": sum(part["numbers"] ** power for part in parts)}


def test_needs_travel(client, tmp_path):
    import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    store, parts = Store(tmp_path / "store"), many(3)
    task = Task("total", total, {"power": 2}, needs=tuple(parts))
    assert [done.name for done in complete([task], store, client=client)][-1] == "total"
    assert np.array_equal(store.load(task)["numbers"], sum(part.run()["numbers"] ** 2 for part in parts))


def test_workers_that_are_killed(client, tmp_path):
    store, trace = Store(tmp_path / "store"), tmp_path / "trace"
    tasks = many(12, seconds=0.5, trace=str(trace))
    killed = []

    def kill():
        while len(killed) < 3:
            time.sleep(0.2)
            at_work = trace.read_text().split() if trace.exists() else []
            if at_work and int(at_work[-1]) not in killed:
                killed.append(int(at_work[-1]))
                os.kill(killed[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    done = [task.name for task in complete(tasks, store, client=client)]
    killer.join()
    assert sorted(done) == sorted(task.name for task in tasks)
    expected = [np.random.default_rng(seed).standard_normal(100) for seed in range(12)]
    assert np.array_equal(stored(store, tasks), expected)


def test_workers_that_are_killed_while_they_hold_what_tasks_need(tmp_path):
    """A result that lies on a worker dies with it; the scheduler then drops all tasks that need it (D1)."""
    store, trace = Store(tmp_path / "store"), tmp_path / "trace"
    parts = many(2, count=1000)
    tasks = [
        Task(f"power {k}", together, {"power": k, "seconds": 0.3, "trace": str(trace)}, needs=tuple(parts))
        for k in range(12)
    ]
    killed = []

    def kill():
        while len(killed) < 4:
            time.sleep(0.5)
            at_work = trace.read_text().split() if trace.exists() else []
            if at_work and int(at_work[-1]) not in killed:
                killed.append(int(at_work[-1]))
                os.kill(killed[-1], signal.SIGKILL)

    with Cluster.of("local:2").client() as client:
        killer = threading.Thread(target=kill)
        killer.start()
        done = [task.name for task in complete(tasks, store, client=client)]
        killer.join()
    assert sorted(done) == sorted(task.name for task in [*parts, *tasks])
    made = [part.run() for part in parts]
    assert all(np.array_equal(store.load(task)["numbers"], task.run(*made)["numbers"]) for task in tasks[:2])


def test_failing_tasks(client, tmp_path):
    store = Store(tmp_path / "store")
    where = {"folder": str(tmp_path)}
    twice = Task("twice", fails, {"times": 2, "name": "twice", **where})
    always = Task("always", fails, {"times": 99, "name": "always", **where})
    others = many(5)
    done = []
    with pytest.raises(
        TaskError, match=r"always failed: on purpose, for the 3th time \(settings: \{'times': 99"
    ) as error:
        done.extend(task.name for task in complete([always, twice, *others], store, client=client))
    assert sorted(done) == sorted(["twice", *(task.name for task in others)])
    assert [task.name for task, _ in error.value.failures] == ["always"]
    assert len(list(tmp_path.glob("always-*"))) == 3
    assert same(store, others)


def command(*args, cwd):
    return [sys.executable, "-c", "from limitlaw.cli import main; main()", *map(str, args)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The study, computed in one process."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "study.toml").write_text(STUDY)
    done = subprocess.run(
        command("sweep", folder / "study.toml", "--out", folder / "out", "--workers", 1, cwd=folder),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return xr.open_zarr(folder / "out" / "results.zarr").load()


def test_a_client_that_is_killed_and_another_at_the_same_time(alone, tmp_path):
    """Kill the client in the middle; then two more at once on the same folder: one waits for the other."""
    (tmp_path / "study.toml").write_text(STUDY)
    words = command("sweep", tmp_path / "study.toml", "--out", tmp_path / "out", "--cluster", "local:2", cwd=tmp_path)
    first = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(list((tmp_path / "out").rglob("*.npz"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    first.kill()
    first.wait()
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.npz")}
    assert 3 <= len(kept) < 30  # of 32
    two = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=300) for process in two]
    assert [process.returncode for process in two] == [0, 0], outputs
    assert any("waiting for another run" in output for output, _ in outputs) or all("wrote" in o for o, _ in outputs)
    assert kept.items() <= {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.npz")}.items()
    data = xr.open_zarr(tmp_path / "out" / "results.zarr").load()
    assert data.identical(alone)
    assert not data.isnull().any().to_array().any()


def test_figures_on_a_cluster(tmp_path):
    """`reproduce --cluster` gives the data that this process gives."""
    for name, extra in (("here", ["--workers", "1"]), ("there", ["--cluster", "local:2"])):
        words = ["reproduce", "fig2a", "--quick", "--only", "data", "--out", tmp_path / name, *extra]
        done = subprocess.run(command(*words, cwd=tmp_path), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    here, there = (xr.open_zarr(tmp_path / name / "data" / "fig2a.zarr").load() for name in ("here", "there"))
    assert here.equals(there)


def test_a_scheduler_that_goes_away(tmp_path):
    from distributed import LocalCluster

    store, tasks = Store(tmp_path / "store"), many(40, seconds=0.2)
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50)
    done = []

    def until_it_is_gone(client):
        for task in complete(tasks, store, client=client):
            done.append(task)
            if len(done) == 5:
                cluster.close()

    there = Cluster.of(cluster.scheduler_address).client()
    with there as client, pytest.raises(ClusterError, match="Finished results are saved"):
        until_it_is_gone(client)
    assert 5 <= len(done) < 40
    assert len(list(complete(tasks, store))) == 40
    assert same(store, tasks)


def test_a_cluster_without_workers_for_a_while(tmp_path):
    """As when all jobs have ended at their time limit and others wait in the queue."""
    from distributed import LocalCluster

    store, parts = Store(tmp_path / "store"), many(2)
    tasks = [Task(f"power {k}", together, {"power": k, "seconds": 0.3}, needs=tuple(parts)) for k in range(8)]
    options = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with LocalCluster(n_workers=1, **options) as cluster, Cluster.of(cluster.scheduler_address).client() as client:
        back = threading.Timer(4.0, cluster.scale, [1])
        done = []
        for task in complete(tasks, store, client=client):
            done.append(task.name)
            if len(done) == 4:
                cluster.scale(0)
                back.start()
        back.join()
    assert sorted(done) == sorted(task.name for task in [*parts, *tasks])


def test_no_scheduler_there():
    pytest.importorskip("distributed")
    with (
        pytest.raises(ClusterError, match=r"tcp://127.0.0.1:9: no scheduler answers there"),
        Cluster.of("tcp://127.0.0.1:9").client(),
    ):
        pass


def test_workers_with_another_version(client, tmp_path):
    client.run(pretend_another_version)
    try:
        with pytest.raises(TaskError, match="another version of limitlaw"):
            list(complete(many(1), Store(tmp_path / "store"), client=client))
        from limitlaw.experiments._dask import check_versions

        with pytest.raises(ClusterError, match="another version"):
            check_versions(client)
    finally:
        client.restart()


def pretend_another_version():
    from limitlaw.experiments import _dask, _task

    _task.code_version = _dask.code_version = lambda *extra, **packages: "other"


def test_the_job_script_is_shown(tmp_path):
    pytest.importorskip("dask_jobqueue")
    profile = tmp_path / "profile.toml"
    profile.write_text('cores = 4\nmemory = "8GB"\nqueue = "long"\nwalltime = "02:00:00"\njobs = 3\n')
    script = Cluster.of("slurm", profile).job_script()
    for line in ("#SBATCH -p long", "#SBATCH --cpus-per-task=4", "#SBATCH -t 02:00:00", "distributed.cli.dask_worker"):
        assert line in script


KILLED = """
import os, random, signal, sys, time
sys.path[:0] = [{tests!r}]
from cluster_tasks import many
from limitlaw.experiments import Store
store, tasks, chance = Store({folder!r}), many({tasks}, count={count}), random.Random(0)
tasks[0].key  # the code is read once, not after every fork
results = [task.run() for task in tasks]  # so that most of the time of a child is spent in writing
for _ in range(100):
    order = chance.sample(range(len(tasks)), len(tasks))
    begun, begins = os.pipe()
    child = os.fork()
    if child == 0:
        with store.locked():
            os.write(begins, b"!")
            while True:
                for i in order:
                    store.save(tasks[i], results[i], seconds=0.0)
    os.read(begun, 1)
    os.close(begun), os.close(begins)
    time.sleep(chance.uniform(0.0, 0.03))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print(len(list(store.results.rglob("*.part-*"))))
"""


def test_a_store_survives_a_hundred_kills(tmp_path):
    """While results are written, and written again over those that are there."""
    folder = str(tmp_path / "store")
    text = KILLED.format(tests=str(Path(__file__).parent.parent), folder=folder, tasks=300, count=20_000)
    done = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True)
    assert sum(map(int, done.stdout.split())) > 10  # so many were killed in the middle of a file
    store = Store(folder)
    with store.locked():
        pass
    kept = [task for task in many(300, count=20_000) if store.has(task)]
    assert len(kept) > 100
    assert same(store, kept)
    assert not list(store.results.rglob("*.part-*"))

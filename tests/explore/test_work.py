"""Computations in worker processes: who waits, who is dropped, and what happens when a worker dies."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import aclosing, suppress
from pathlib import Path

import pytest

from limitlaw._checks import ArgumentError
from limitlaw.explore._work import Workers


def nothing():
    """Prepare nothing."""


def count(emit, number, folder=None):
    for i in range(number):
        emit(i)
    if folder is not None:
        Path(folder, str(number)).touch()


def endless(emit, folder):
    Path(folder, str(os.getpid())).touch()
    emit("begun")
    while True:
        emit(None)
        time.sleep(0.01)


def dies(emit, folder, times):
    """End the process the first few times."""
    marks = list(Path(folder).iterdir())
    if len(marks) < times:
        Path(folder, str(len(marks))).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    emit("alive")


def refuses(emit):
    emit(1)
    raise ArgumentError("width", "width=0 must be positive. Use 1.")


def story(tell, workers=1):
    """Run a story with workers, and end them."""

    async def told():
        pool = Workers(nothing, count=workers)
        try:
            return await asyncio.wait_for(tell(pool), 60)
        finally:
            pool.close()

    return asyncio.run(told())


async def all_of(events):
    return [event async for event in events]


def test_events_come_in_order():
    async def tell(pool):
        return await all_of(pool.follow("key", count, 5))

    assert story(tell) == [0, 1, 2, 3, 4]


def test_errors_are_those_of_the_function():
    async def tell(pool):
        with pytest.raises(ArgumentError) as refused:
            await all_of(pool.follow("key", refuses))
        return refused.value.argument, await all_of(pool.follow("key", count, 2))

    assert story(tell) == ("width", [0, 1])


def test_who_leaves_is_not_computed_for(tmp_path):
    async def tell(pool):
        async with aclosing(pool.follow("first", endless, tmp_path)) as events:
            assert await anext(events) == "begun"
        return await all_of(pool.follow("second", count, 1))  # the only worker is free again

    assert story(tell) == [0]


def test_who_leaves_the_queue_takes_no_turn(tmp_path):
    async def tell(pool):
        async with aclosing(pool.follow("first", endless, tmp_path)) as events:
            await anext(events)
            waiting = [asyncio.create_task(all_of(pool.follow(i, count, i, tmp_path))) for i in range(1, 200)]
            await asyncio.sleep(0.05)
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
        await all_of(pool.follow("last", count, 1000, tmp_path))

    story(tell)
    numbers = {int(path.name) for path in tmp_path.iterdir()}
    assert numbers & set(range(1, 200)) == set()
    assert 1000 in numbers


def test_equal_questions_are_computed_once_until_the_last_one_leaves(tmp_path):
    async def tell(pool):
        async with aclosing(pool.follow("key", endless, tmp_path)) as one:
            await anext(one)
            async with aclosing(pool.follow("key", endless, tmp_path)) as other:
                assert await anext(other) == "begun"
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(one), 0.3)  # it still runs

    story(tell, workers=2)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_pool_whose_worker_died_is_replaced(tmp_path):
    async def tell(pool):
        found = await all_of(pool.follow("key", dies, tmp_path, 1))
        return found, await all_of(pool.follow("other", count, 1))

    assert story(tell) == (["alive"], [0])


def test_what_kills_its_worker_twice_is_refused_in_a_sentence(tmp_path):
    async def tell(pool):
        with pytest.raises(ArgumentError, match=r"perhaps for lack of memory\. Use smaller values\."):
            await all_of(pool.follow("key", dies, tmp_path, 5))
        return await all_of(pool.follow("other", count, 1))

    assert story(tell) == [0]


def test_another_job_survives_the_death_of_a_worker(tmp_path):
    folder = tmp_path / "deaths"
    folder.mkdir()

    async def tell(pool):
        async with aclosing(pool.follow("long", endless, tmp_path)) as events:
            assert await anext(events) == "begun"
            assert await all_of(pool.follow("key", dies, folder, 1)) == ["alive"]
            return await anext(events)  # from the start

    assert story(tell, workers=2) == "begun"


SERVER = """
import asyncio, sys, time
sys.path.insert(0, sys.argv[1])
from test_work import endless, nothing
from limitlaw.explore._work import Workers

async def main():
    async for event in Workers(nothing, count=1).follow("key", endless, sys.argv[2]):
        print(event, flush=True)

asyncio.run(main())
"""


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_no_worker_survives_its_server(tmp_path):
    command = [sys.executable, "-c", SERVER, str(Path(__file__).parent), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "begun\n"
        (worker,) = (int(path.name) for path in tmp_path.iterdir())
        server.kill()
        server.wait()
        try:
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline and Path(f"/proc/{worker}").exists():
                time.sleep(0.05)
            assert not Path(f"/proc/{worker}").exists()
        finally:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)

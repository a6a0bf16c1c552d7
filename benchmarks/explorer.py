"""The explorer: first picture, answers, throughput, memory. `python benchmarks/explorer.py`.

Prints a Markdown table: what was measured, beside what was asked for. The first picture needs Chromium and playwright; it is left out without them.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager

import httpx2
from machine import heading

JAX_ALONE = "import jax; jax.numpy.ones(3).block_until_ready(); print(open('/proc/self/status').read())"
PARTS = ("density", "mixing", "comparison", "scores", "convergence")
SAME_KIND = [{"width": "91"}, {"width": "512"}, {"query_std": "1.7"}, {"width": "inf"}, {"value_std": "0.5"}]
OTHER_KIND = [{"tokens": "3"}, {"heads": "8"}, {"mask": "causal"}, {"inputs": "gaussian", "rho": "0.3"}]
CACHED = 500


@contextmanager
def server(cache):
    """A running explorer that keeps what it compiles in a folder."""
    command = [sys.executable, "-m", "limitlaw.cli", "explore", "--no-open", "--port", "0"]
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        try:
            yield running, re.search(r"http\S+", running.stdout.readline())[0]
        finally:
            running.terminate()


def resident(status):
    """Resident memory in MB, from the text of /proc/PID/status."""
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1000


def memory_beyond_jax(pid):
    alone = subprocess.run([sys.executable, "-c", JAX_ALONE], capture_output=True, text=True, check=True).stdout
    with open(f"/proc/{pid}/status") as status:
        return resident(status.read()) - resident(alone)


def first_picture(address):
    """Seconds from opening the page to the first curves; None without a browser."""
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        return None
    if chromium is None:
        return None
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        start = time.perf_counter()
        page.goto(address)
        page.wait_for_selector("#panel-density .scatterlayer", timeout=60_000)
        took = time.perf_counter() - start
        browser.close()
    return took


def seconds(client, part, query):
    start = time.perf_counter()
    client.get(f"/api/layer/{part}", params=query).raise_for_status()
    return time.perf_counter() - start


def rows():
    with tempfile.TemporaryDirectory() as cache:
        with server(cache) as (running, address):
            yield "first picture, nothing compiled, s", first_picture(address), 2.0
            with httpx2.Client(base_url=address, timeout=600) as client:
                for part in PARTS:
                    seconds(client, part, {})
                for part in PARTS:
                    took = [seconds(client, part, query) for query in SAME_KIND]
                    yield f"new values, {part}, slowest of {len(took)}, s", max(took), 1.5
                took = [seconds(client, "density", query) for query in OTHER_KIND]
                yield f"another kind of network, density, slowest of {len(took)}, s", max(took), None
                yield "cached answer, slowest part, s", max(seconds(client, part, {}) for part in PARTS), 0.3
                os.sched_setaffinity(running.pid, {min(os.sched_getaffinity(0))})
                start = time.perf_counter()
                for _ in range(CACHED):
                    client.get("/api/layer/density").raise_for_status()
                yield "cached laws, requests a second, one core", CACHED / (time.perf_counter() - start), 50
            yield "memory beyond jax, all of this compiled and asked, MB", memory_beyond_jax(running.pid), 150
        with server(cache) as (running, address):
            yield "first picture, second start, s", first_picture(address), 2.0
            yield "first picture, server warm, s", first_picture(address), 2.0
            with httpx2.Client(base_url=address, timeout=600) as client:
                for part in PARTS:
                    seconds(client, part, {})
            yield "memory beyond jax, second start, MB", memory_beyond_jax(running.pid), 150


if __name__ == "__main__":
    print(heading() + "\n")
    print("| | measured | to reach |\n|---|---|---|")
    for name, value, goal in rows():
        shown = "no browser" if value is None else f"{value:.3g}"
        print(f"| {name} | {shown} | {'' if goal is None else f'{goal:g}'} |", flush=True)

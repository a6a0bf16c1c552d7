"""The explorer: first picture, answers, throughput, memory. `python benchmarks/explorer.py`.

Prints a Markdown table: what was measured, beside what was asked for. The first picture needs Chromium and playwright; it is left out without them.
Its time is from opening the page in a new browser until the curves are seen, and until plotly, which then is there, has drawn them.

Memory beyond jax is the resident memory of the server less that of a Python process that has imported jax and run one compiled program. It is
looked at after every answer, and the most of it is told.
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

JAX_ALONE = "import jax; jax.jit(lambda x: 2 * x)(1.0).block_until_ready(); print(open('/proc/self/status').read())"
PARTS = ("density", "mixing", "comparison", "scores", "convergence")
SAME_KIND = [{"width": "91"}, {"width": "512"}, {"query_std": "1.7"}, {"width": "inf"}, {"value_std": "0.5"}]
OTHER_KIND = [{"tokens": "3"}, {"heads": "8"}, {"mask": "causal"}, {"inputs": "gaussian", "rho": "0.3"}]
NOTING = """
  const note = (name, what) => document.querySelector(`#panel-density ${what}`) && requestAnimationFrame((at) => (window[name] ??= at));
  new MutationObserver(() => { note("seen", "svg :is(polyline, .js-line)"); note("drawn", ".scatterlayer"); })
    .observe(document, { childList: true, subtree: true });
"""  # when the frame is painted that first has them: a page that is busy cannot be asked
DEEP_OF_ANOTHER_KIND = [
    {"tokens": "5"},
    {"tokens": "2"},
    {"mask": "causal"},
    {"heads": "8"},
    {"norm": "post"},
    {"kind": "RMSNorm"},
    {"mlp": "relu"},
]
MODELS = [{"model": model} for model in ("gpt2", "bert", "llama", "vit")]
DEEP = [{"width": "384"}, {"depth": "7"}, {"query_std": "1.5"}, {"rho": "0.2"}]
REGRESSIONS = [{"gamma": "0.35"}, {"dim": "50"}, {"beta": "3"}, {"link": "relu"}, {"link": "sign"}]
REGRESSION_PARTS = ("landscape", "descent", "phases", "baselines")
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


class Memory:
    """What a process holds beyond jax, in MB: the most of it that was seen."""

    def __init__(self, pid):
        alone = subprocess.run([sys.executable, "-c", JAX_ALONE], capture_output=True, text=True, check=True).stdout
        self.status, self.alone, self.most = f"/proc/{pid}/status", resident(alone), 0.0

    def look(self):
        with open(self.status) as status:
            self.most = max(self.most, resident(status.read()) - self.alone)


def first_picture(address):
    """Seconds from opening the page until curves are seen, and until they are drawn by plotly; None without a browser."""
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        return None, None
    if chromium is None:
        return None, None
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.add_init_script(NOTING)
        page.goto(address)
        page.wait_for_selector("#panel-density .scatterlayer", timeout=60_000)
        times = page.evaluate("() => new Promise((resolve) => requestAnimationFrame(() => resolve([seen, drawn])))")
        browser.close()
    return [time / 1000 for time in times]


def seconds(client, memory, path, query):
    start = time.perf_counter()
    client.get(f"/api/{path}", params=query).raise_for_status()
    took = time.perf_counter() - start
    memory.look()
    return took


def seconds_to_sketch_and_all(client, memory, path, query):
    """As the page asks: until there is a sketch (of a density, its limits; along depth, fewer draws), and until all is there."""
    sketch = seconds(client, memory, f"{path}/sketch", query)
    return sketch, sketch + seconds(client, memory, path, query)


def rows():
    with tempfile.TemporaryDirectory() as cache:
        with server(cache) as (running, address):
            memory = Memory(running.pid)
            yield from pictures("nothing compiled", address)
            with httpx2.Client(base_url=address, timeout=600) as client:
                for part in PARTS:
                    seconds(client, memory, f"layer/{part}", {})
                slowest = dict.fromkeys(PARTS, 0.0)
                for query in SAME_KIND:  # as the page asks: part after part of one state
                    for part in PARTS:
                        slowest[part] = max(slowest[part], seconds(client, memory, f"layer/{part}", query))
                for part, took in slowest.items():
                    yield f"new values, {part}, slowest of {len(SAME_KIND)}, s", took, 1.5
                sketches, took = zip(
                    *(seconds_to_sketch_and_all(client, memory, "layer/density", query) for query in OTHER_KIND),
                    strict=True,
                )
                yield f"another kind of network, its limits, slowest of {len(took)}, s", max(sketches), 1.5
                yield f"another kind of network, finite width too, compiled, slowest of {len(took)}, s", max(took), None
                took = [seconds(client, memory, f"layer/{part}", {}) for part in PARTS]
                yield "cached answer, slowest part, s", max(took), 0.3
                os.sched_setaffinity(running.pid, {min(os.sched_getaffinity(0))})
                start = time.perf_counter()
                for _ in range(CACHED):
                    client.get("/api/layer/density").raise_for_status()
                yield "cached laws, requests a second, one core", CACHED / (time.perf_counter() - start), 50
            yield "memory beyond jax, layers, most after any of these answers, MB", memory.most, None
        with server(cache) as (running, address):
            memory = Memory(running.pid)
            yield from pictures("second start", address)
            yield from pictures("server warm", address)
            with httpx2.Client(base_url=address, timeout=600) as client:
                for part in PARTS:
                    seconds(client, memory, f"layer/{part}", {})
                yield "memory beyond jax, layers, second start, MB", memory.most, None
                took = seconds_to_sketch_and_all(client, memory, "depth/variance", {})
                yield "depth, first network of all: its sketch, s", took[0], 1.5
                yield "depth, first network of all: all, s", took[1], None
                took = [seconds(client, memory, "depth/variance", query) for query in DEEP]
                yield f"depth, new values, slowest of {len(took)}, s", max(took), 1.5
                asked = {"depth, another kind of network": ("depth/variance", DEEP_OF_ANOTHER_KIND)}
                asked["depth, a known model"] = "depth/variance", MODELS
                asked |= {f"regression, {part}": (f"regression/{part}", REGRESSIONS) for part in REGRESSION_PARTS}
                for what, (path, queries) in asked.items():
                    took = [seconds_to_sketch_and_all(client, memory, path, query) for query in queries]
                    for name, of, goal in (("its sketch", 0, 1.5), ("all", 1, None)):
                        slowest = max(range(len(took)), key=lambda i, of=of: took[i][of])
                        at = " ".join(*queries[slowest].items())
                        yield f"{what}, slowest of {len(took)} ({at}): {name}, s", took[slowest][of], goal
            yield "memory beyond jax, all views, most after any answer, MB", memory.most, None


def pictures(when, address):
    seen, drawn = first_picture(address)
    yield f"first picture, {when}, s", seen, 2.0
    yield f"first picture, {when}, drawn by plotly, s", drawn, None


if __name__ == "__main__":
    print(heading() + "\n")
    print("| | measured | to reach |\n|---|---|---|")
    for name, value, goal in rows():
        shown = "no browser" if value is None else f"{value:.3g}"
        print(f"| {name} | {shown} | {'' if goal is None else f'{goal:g}'} |", flush=True)

"""The explorer: first picture, answers, throughput. `python benchmarks/explorer.py`.

Prints a Markdown table: what was measured, beside what was asked for. The first picture needs Chromium and playwright, and is left out without
them. Its time is from opening the page in a new browser until curves are painted.
"""

import json
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

START = "from limitlaw.cli import main; main()"
SAME_KIND = [{"width": "91"}, {"width": "512"}, {"query_std": "1.7"}, {"width": "inf"}, {"value_std": "0.5"}]
OTHER_KIND = [{"tokens": "3"}, {"heads": "8"}, {"mask": "causal"}, {"inputs": "gaussian", "rho": "0.3"}]
DEEP = [{"width": "384"}, {"depth": "7"}, {"query_std": "1.5"}, {"rho": "0.2"}]
DEEP_OF_ANOTHER_KIND = [{"tokens": "5"}, {"mask": "causal"}, {"heads": "8"}, {"norm": "post"}, {"kind": "RMSNorm"}]
MODELS = [{"model": model, "width": "192"} for model in ("gpt2", "bert", "llama", "vit")]
REGRESSIONS = [{"gamma": "0.35"}, {"dim": "50"}, {"beta": "3"}, {"link": "relu"}, {"link": "sign"}]
NOTING = """
  const note = () => document.querySelector("#panel-density .js-line") && requestAnimationFrame((at) => (window.seen ??= at));
  new MutationObserver(note).observe(document, { childList: true, subtree: true });
"""  # when the frame is painted that first has them: a page that is busy cannot be asked
CACHED = 500


@contextmanager
def server(cache):
    """The address of a running explorer that keeps compiled programs in a folder."""
    command = [sys.executable, "-c", START, "explore", "--no-open", "--port", "0"]
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        try:
            yield re.search(r"http\S+", running.stdout.readline())[0]
        finally:
            running.terminate()


def first_picture(address):
    """Seconds from opening the page until curves are painted; None without a browser."""
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
        page.add_init_script(NOTING)
        page.goto(address)
        page.wait_for_selector("#panel-density .js-line", timeout=60_000)
        seen = page.evaluate("() => new Promise((resolve) => requestAnimationFrame(() => resolve(seen)))")
        browser.close()
    return seen / 1000


def answered(client, view, query):
    """Seconds until each part is there, as the page asks; under `first` until the first look at anything."""
    start, times = time.perf_counter(), {}
    with client.stream("GET", f"/api/{view}", params=query) as answer:
        for line in answer.iter_lines():
            event = json.loads(line)
            if event.get("first"):
                times.setdefault("first", time.perf_counter() - start)
            elif "panel" in event:
                times[event["part"]] = time.perf_counter() - start
    times["all"] = time.perf_counter() - start
    return times


def slowest(client, view, queries, *parts):
    """The slowest of several states, for each of these parts."""
    found = [answered(client, view, query) for query in queries]
    return [max(each[part] for each in found if part in each) for part in parts]


def rows():
    with tempfile.TemporaryDirectory() as cache:
        with server(cache) as address:
            yield "first picture, nothing compiled, s", first_picture(address), None
            with httpx2.Client(base_url=address, timeout=600) as client:
                answered(client, "layer", {})
                names = "remarks", "density", "mixing", "scores", "convergence", "all"
                for name, took in zip(names, slowest(client, "layer", SAME_KIND, *names), strict=True):
                    yield f"layer, new values until {name}, slowest of {len(SAME_KIND)}, s", took, None
                first, whole = slowest(client, "layer", OTHER_KIND, "first", "density")
                yield f"layer, another kind, first look, slowest of {len(OTHER_KIND)}, s", first, None
                yield f"layer, another kind, density, compiled, slowest of {len(OTHER_KIND)}, s", whole, None
                yield "cached answers of a whole view, s", answered(client, "layer", {})["all"], 0.3
                start = time.perf_counter()
                for _ in range(CACHED):
                    client.get("/api/layer/density").raise_for_status()
                yield "cached parts, requests a second", CACHED / (time.perf_counter() - start), 50
        with server(cache) as address:
            yield "first picture, second start, s", first_picture(address), 3
            yield "first picture, server warm, s", first_picture(address), 3
            with httpx2.Client(base_url=address, timeout=600) as client:
                times = answered(client, "depth", {})
                yield "depth, first network of all, first look, s", times["first"], None
                yield "depth, first network of all, all, s", times["all"], None
                first, variance, whole = slowest(client, "depth", DEEP, "first", "variance", "all")
                yield f"depth, new values, first look, slowest of {len(DEEP)}, s", first, None
                yield f"depth, new values, variance, slowest of {len(DEEP)}, s", variance, 1.2
                yield f"depth, new values, all, slowest of {len(DEEP)}, s", whole, None
                for name, queries in (("another kind", DEEP_OF_ANOTHER_KIND), ("a known model", MODELS)):
                    first, whole = slowest(client, "depth", queries, "first", "all")
                    yield f"depth, {name}, first look, slowest of {len(queries)}, s", first, None
                    yield f"depth, {name}, all, slowest of {len(queries)}, s", whole, None
                names = "first", "remarks", "landscape", "descent", "phases", "baselines"
                for name, took in zip(names, slowest(client, "regression", REGRESSIONS, *names), strict=True):
                    yield f"regression, until {name}, slowest of {len(REGRESSIONS)}, s", took, None


if __name__ == "__main__":
    print(heading() + "\n")
    print("| | measured | to reach |\n|---|---|---|")
    for name, value, goal in rows():
        shown = "no browser" if value is None else f"{value:.3g}"
        print(f"| {name} | {shown} | {'' if goal is None else f'{goal:g}'} |", flush=True)

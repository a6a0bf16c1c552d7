"""The explorer in a real browser: headless Chromium through Playwright."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest

import limitlaw as ll

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason=f"no browser: {CHROMIUM} does not exist; set CHROMIUM"),
]
playwright = pytest.importorskip("playwright.sync_api", reason="no browser driver: pip install playwright")

PATIENCE = 120_000  # ms: what is new is compiled first
playwright.expect.set_options(timeout=30_000)  # a machine may be busy with other tests


@pytest.fixture(scope="module")
def address():
    command = [sys.executable, "-m", "limitlaw.cli", "explore", "--no-open", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield re.search(r"http\S+", server.stdout.readline())[0]
        finally:
            server.terminate()
            server.wait(30)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser):
    context = browser.new_context(accept_downloads=True)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


def visit(page, url):
    page.goto(url)
    settle(page)


def settle(page):
    playwright.expect(page.locator("#status-text")).to_have_text("Up to date", timeout=PATIENCE)


def change(page, field, value):
    """Type a value, and wait for its answer."""
    with page.expect_response(lambda response: "/api/" in response.url and "progress" not in response.url):
        page.fill(f"#field-{field}", value)
    settle(page)


def traces(page, part):
    """What is drawn in a figure, by name."""
    drawn = page.locator(f"#panel-{part} .plot").evaluate(
        "plot => plot.data.map(t => ({name: t.name, y: Array.from(t.y), x: Array.from(t.x)}))"
    )
    return {trace["name"]: trace for trace in drawn if trace["name"]}


@pytest.mark.parametrize(
    ("view", "parts"),
    [
        ("layer", {"density": 4, "mixing": 3, "scores": 3, "convergence": 2}),
        ("depth", {"variance": 2, "kurtosis": 2, "cosine": 2, "entropy": 2, "law": 3}),
        ("regression", {"landscape": 4, "descent": 2, "phases": 2, "baselines": 6}),
    ],
)
def test_each_view_draws_all_its_figures(page, address, view, parts):
    visit(page, f"{address}?view={view}")
    for part, count in parts.items():
        drawn = traces(page, part)
        assert len(drawn) == count, (part, list(drawn))
    assert page.locator(".error:visible").count() == 0


def test_a_slider_changes_the_curve_that_it_should(page, address):
    visit(page, address)
    before = traces(page, "density")
    slider = page.locator("input[data-for=width]")
    slider.focus()
    with page.expect_response(re.compile("layer/density")):
        page.keyboard.press("ArrowRight")
    settle(page)
    after = traces(page, "density")
    assert "width 64" in before
    assert "width 91" in after
    at_zero = {name: trace["y"][len(trace["y"]) // 2] for name, trace in {**before, **after}.items()}
    assert at_zero["width 91"] < at_zero["width 64"]  # nearer to the limit, less peaked
    for name in ("limit", "infinite heads"):
        assert after[name]["y"][120] == pytest.approx(before[name]["y"][120], rel=1e-12)


def test_a_typed_gram_gives_the_numbers_of_the_library(page, address):
    root = np.random.default_rng(5).normal(size=(3, 3)).round(3)
    gram = root @ root.T
    visit(page, f"{address}?inputs=gaussian&heads=2")
    change(page, "gram", "; ".join(" ".join(map(repr, row)) for row in gram.tolist()))
    drawn = traces(page, "density")["width 64"]
    net = ll.Network(ll.GaussianInputs(gram), ll.Attention(heads=2))
    law = net.law(width=64, token=0, samples=2**15)
    np.testing.assert_allclose(drawn["y"], law.pdf(np.array(drawn["x"])), rtol=1e-12)
    shown = page.locator("#panel-comparison tr", has_text="variance").locator("td").nth(1).inner_text()
    assert shown == str(law.variance())


def test_a_typed_mask_is_explained_or_gives_the_numbers_of_the_library(page, address):
    visit(page, f"{address}?tokens=2&token=1")
    page.select_option("#field-mask", "own")
    page.fill("#field-own_mask", "1 0; 1 2")
    playwright.expect(page.locator("#field-own_mask-error")).to_contain_text("has an entry other than 0 and 1")
    change(page, "own_mask", "1 0; 0 1")
    drawn = traces(page, "density")["width 64"]
    net = ll.Network(ll.Inputs(2), ll.Attention(mask=[[True, False], [False, True]]))
    law = net.law(width=64, token=1, samples=2**15)
    np.testing.assert_allclose(drawn["y"], law.pdf(np.array(drawn["x"])), rtol=1e-12)
    assert dict(parse_qsl(urlsplit(page.url).query))["own_mask"] == "1 0; 0 1"


def test_the_law_of_a_block_is_seen_by_dragging_and_by_keys(page, address):
    visit(page, f"{address}?view=depth&depth=3&width=16&mlp=none&heads=2&tokens=2&norm=none")
    playwright.expect(page.locator("#panel-law .xtitle")).to_contain_text("after block 3")
    asked = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    marker = page.locator("#panel-kurtosis .marker")
    plot = page.locator("#panel-kurtosis .nsewdrag").bounding_box()
    box = marker.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    page.mouse.down()
    for at in (0.8, 0.5, 0.35):  # of the way from the input to block 3
        page.mouse.move(plot["x"] + at * plot["width"], box["y"] + 40)
    page.mouse.up()
    playwright.expect(marker).to_have_attribute("aria-valuenow", "1")
    playwright.expect(page.locator("#panel-law .xtitle")).to_contain_text("after block 1")
    page.locator("#panel-variance .marker").focus()
    page.keyboard.press("ArrowRight")
    playwright.expect(page.locator("#panel-law .xtitle")).to_contain_text("after block 2")
    page.keyboard.press("Home")
    playwright.expect(page.locator("#panel-law .xtitle")).to_contain_text("at the input")
    settle(page)
    assert dict(parse_qsl(urlsplit(page.url).query))["block"] == "0"
    assert set(asked) <= {"/api/depth/law", "/api/progress"}


def test_curves_are_seen_before_the_large_script_is_there(page, address):
    held = []
    page.route("**/plotly.js", lambda route: held.append(route))
    page.goto(f"{address}?width=inf&heads=2")
    preview = page.locator("#panel-density svg.preview")
    playwright.expect(preview.locator("polyline")).to_have_count(3)
    playwright.expect(preview).to_contain_text("Gaussian, same variance")
    for route in held:
        route.continue_()
    settle(page)
    assert len(traces(page, "density")) == 3
    assert preview.count() == 0


def test_limits_are_drawn_while_another_width_is_computed(page, address):
    visit(page, address)
    held = []
    page.route(re.compile(r"/api/layer/density\?"), lambda route: held.append(route))
    page.fill("#field-query_std", "1.9")
    playwright.expect(page.locator("#panel-density .plot")).not_to_have_attribute("aria-label", re.compile("width 64"))
    before = traces(page, "density")
    assert set(before) == {"limit", "infinite heads", "Gaussian, same variance"}
    assert page.locator("#panel-density.stale").count() == 0  # what it shows is right
    assert page.locator("#panel-mixing.stale").count() == 1
    for route in held:
        route.continue_()
    settle(page)
    after = traces(page, "density")
    assert set(after) == {*before, "width 64"}
    assert after["limit"]["y"][120] == pytest.approx(before["limit"]["y"][120], rel=0.2)  # on another axis


def test_all_sketches_of_depth_are_drawn_while_other_tokens_are_computed(page, address):
    visit(page, f"{address}?view=depth&depth=2&width=16&mlp=none&heads=2&tokens=2&norm=none")
    before = {part: traces(page, part)["width 16"]["y"] for part in ("variance", "entropy")}
    held = []
    page.route(re.compile(r"/api/depth/\w+\?"), lambda route: held.append(route), times=1)
    page.fill("#field-tokens", "3")
    playwright.expect(page.locator("#panel-entropy .note")).to_contain_text("256 networks")
    sketched = {part: traces(page, part)["width 16"]["y"] for part in before}
    assert all(sketched[part] != before[part] for part in before)
    assert page.locator("#panel-law.stale").count() == 1
    playwright.expect(page.locator("#panel-entropy .first")).to_have_text("first look")
    for panel in ("entropy", "law"):  # neither a sketch nor what belongs to another state is taken away
        playwright.expect(page.locator(f"#panel-{panel} button", has_text="CSV")).to_be_hidden()
    for route in held:
        route.continue_()
    settle(page)
    assert traces(page, "entropy")["width 16"]["y"][1:] == pytest.approx(sketched["entropy"][1:], rel=0.1)
    assert traces(page, "variance")["width 16"]["y"] != sketched["variance"]
    playwright.expect(page.locator("#panel-entropy .first")).to_be_hidden()
    playwright.expect(page.locator("#panel-entropy button", has_text="CSV")).to_be_visible()


def test_every_step_of_a_slider_is_another_value(page, address):
    visit(page, f"{address}?view=layer&width=inf&tokens=2")
    slider, seen = page.locator("[data-for=heads]"), ["1"]
    for _ in range(4):
        slider.press("ArrowRight")
        seen.append(page.input_value("#field-heads"))
    assert seen == ["1", "2", "3", "4", "6"]
    slider.press("End")
    assert page.input_value("#field-heads") == "inf"
    visit(page, f"{address}?view=regression&steps=10")
    page.locator("[data-for=dim]").press("End")
    assert page.input_value("#field-dim") == "1000"


def test_a_view_is_found_as_it_was_left(page, address):
    visit(page, f"{address}?view=layer&width=inf&tokens=2&heads=2")
    for link in ("Depth", "Layer"):
        page.get_by_role("link", name=link).click()
    settle(page)
    assert dict(parse_qsl(urlsplit(page.url).query)) == {"view": "layer", "width": "inf", "tokens": "2", "heads": "2"}
    assert page.input_value("#field-heads") == "2"


def test_a_part_that_is_refused_is_not_the_end_of_the_others(page, address):
    page.goto(f"{address}?view=depth&norm=none&skip=2&depth=40&width=48&mlp=relu&heads=2&tokens=2")
    playwright.expect(page.locator("#panel-remarks .note").first).to_contain_text("single precision", timeout=PATIENCE)
    playwright.expect(page.locator("#panel-law .error")).to_contain_text("single precision")


def test_the_url_is_the_state(page, address, browser):
    visit(page, address)
    page.select_option("#field-mask", "causal")
    change(page, "token", "1")
    page.locator("#panel-density button", has_text="log").click()
    state = dict(parse_qsl(urlsplit(page.url).query))
    assert state == {"view": "layer", "mask": "causal", "token": "1", "log": "density"}
    other = browser.new_page()
    visit(other, page.url)
    assert traces(other, "density") == traces(page, "density")
    assert other.input_value("#field-mask") == "causal"
    assert other.locator("#panel-density .plot").evaluate("plot => plot.layout.yaxis.type") == "log"
    other.close()
    page.click("text=Single location")
    settle(page)
    page.go_back()
    settle(page)
    assert page.input_value("#field-token") == "1"


def test_copied_python_runs_and_gives_what_is_drawn(page, address, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # it leaves a picture
    visit(page, f"{address}?width=32&tokens=2")
    page.click("#copy-python")
    playwright.expect(page.locator("#status-text")).to_have_text("Python code copied")
    names = {}
    exec(page.evaluate("navigator.clipboard.readText()"), names)
    np.testing.assert_allclose(traces(page, "density")["width 32"]["y"], names["densities"]["law"], rtol=1e-12)


def test_figures_and_data_can_be_downloaded(page, address, tmp_path):
    visit(page, f"{address}?width=inf")
    for button, start in (("SVG", b"<svg"), ("PNG", b"\x89PNG"), ("CSV", b"curve,output y,density")):
        with page.expect_download() as download:
            page.locator("#panel-density").get_by_text(button, exact=True).click()
        download.value.save_as(tmp_path / button)
        assert (tmp_path / button).read_bytes().startswith(start)
    rows = [line.split(",") for line in (tmp_path / "CSV").read_text().splitlines()]
    limit = [float(row[2]) for row in rows if row[0] == "limit"]
    np.testing.assert_array_equal(limit, traces(page, "density")["limit"]["y"])


def test_a_bad_value_is_explained_beside_its_field_and_mended(page, address):
    visit(page, f"{address}?width=inf")
    page.fill("#field-heads", "0")
    error = page.locator("#field-heads-error")
    playwright.expect(error).to_have_text("heads='0' must be a whole number from 1 to 1024 or inf.")
    assert page.get_attribute("#field-heads", "aria-invalid") == "true"
    change(page, "heads", "3")
    assert not error.is_visible()


def test_a_click_into_the_landscape_starts_descent_there(page, address):
    visit(page, f"{address}?view=regression&link=quadratic&dim=30&steps=20")
    before = traces(page, "landscape")["descent, exact"]
    box = page.locator("#panel-landscape .plot .nsewdrag").first.bounding_box()
    with page.expect_response(re.compile("regression/landscape")):
        page.mouse.click(box["x"] + 0.75 * box["width"], box["y"] + 0.25 * box["height"])
    settle(page)
    after = traces(page, "landscape")["descent, exact"]
    assert (before["x"][0], before["y"][0]) == (0.3, 0.1)
    assert after["x"][0] == pytest.approx(0.5, abs=0.06)
    assert after["y"][0] == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("name", ["toString", "__proto__", "nothing"])
def test_a_view_that_does_not_exist_is_the_first_one(page, address, name):
    visit(page, f"{address}?view={name}")
    assert page.title().startswith("Layer")


def test_a_field_that_is_hidden_does_not_count(page, address):
    visit(page, f"{address}?view=layer&inputs=gaussian&rho=0.5&tokens=2")
    page.fill("#field-rho", "7")
    playwright.expect(page.locator("#field-rho-error")).to_contain_text("from -1 to 1")
    page.select_option("#field-inputs", "paper")
    settle(page)
    assert "rho" not in dict(parse_qsl(urlsplit(page.url).query))


def test_every_stop_of_a_width_suits_the_known_models(page, address):
    visit(page, f"{address}?view=depth&depth=1&width=48&mlp=none&heads=2&tokens=2&norm=none")
    slider = page.locator("input[data-for=width]")
    last = int(slider.get_attribute("max"))
    seen = []
    for place in range(last):
        slider.evaluate("(slider, at) => { slider.value = at; slider.dispatchEvent(new Event('input')); }", place)
        assert slider.get_attribute("aria-valuetext") == page.input_value("#field-width")
        seen.append(int(page.input_value("#field-width")))
    assert seen[0] == 48
    assert all(n % 12 == 0 for n in seen)
    settle(page)


def test_two_tabs_do_not_disturb_each_other(browser, address):
    pages = [browser.new_page(), browser.new_page()]
    for page, heads in zip(pages, (2, 3), strict=True):
        page.goto(f"{address}?heads={heads}&width=48")
    for page, heads in zip(pages, (2, 3), strict=True):
        settle(page)
        law = ll.Network(ll.Inputs(4), ll.Attention(heads=heads)).law(width=48, samples=2**15)
        drawn = traces(page, "density")["width 48"]
        np.testing.assert_allclose(drawn["y"], law.pdf(np.array(drawn["x"])), rtol=1e-12)
        page.close()


def test_what_takes_long_shows_progress_and_can_be_cancelled(page, address):
    page.goto(f"{address}?view=regression&gamma=0.613")
    page.click("#cancel", timeout=PATIENCE)
    playwright.expect(page.locator("#status-text")).to_have_text(re.compile("^Cancelled"))
    assert page.locator("#progress").is_hidden()
    start = time.perf_counter()
    visit(page, f"{address}?view=layer&width=inf")
    assert time.perf_counter() - start < 30


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_the_page_fits_its_screen_and_scheme(browser, address, scheme, width):
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
    page = context.new_page()
    visit(page, f"{address}?width=inf")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    red = int(
        re.search(
            r"\d+", page.locator("#panel-density .main-svg").first.evaluate("e => getComputedStyle(e).background")
        )[0]
    )
    assert (red > 200) == (scheme == "light")
    context.close()


def test_fields_that_mean_nothing_are_not_shown(page, address):
    page.goto(f"{address}?view=depth")
    playwright.expect(page.locator("#field-norm")).to_be_visible()
    page.select_option("#field-model", "gpt2")
    playwright.expect(page.locator("#field-norm")).to_be_hidden()
    playwright.expect(page.get_by_role("group", name="Block")).to_be_hidden()


def test_every_control_has_a_label_and_takes_the_focus(page, address):
    visit(page, f"{address}?width=inf")
    named = page.locator("form input:visible, form select:visible, button:visible").evaluate_all(
        "all => all.map(e => [e.labels?.length > 0 || Boolean(e.getAttribute('aria-label') || e.textContent), e.tabIndex])"
    )
    assert len(named) > 20
    assert all(label and tab >= 0 for label, tab in named), json.dumps(named)

"""The explorer in a real browser: headless Chromium through Playwright."""

import json
import os
import re
import shutil
import subprocess
import sys
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

PATIENCE = 120_000  # ms: a new kind of network is compiled first
playwright.expect.set_options(timeout=30_000)  # a machine may be busy with other tests
EXPLORE = [sys.executable, "-c", "from limitlaw.cli import main; main()", "explore", "--no-open", "--port", "0"]
SHALLOW = "view=depth&depth=3&width=16&mlp=none&heads=2&tokens=2&norm=none"


@pytest.fixture(scope="module")
def address():
    with subprocess.Popen(EXPLORE, stdout=subprocess.PIPE, text=True) as server:
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
def opened(browser):
    """Opens pages, and finds no word of theirs on the console."""
    contexts, words = [], []

    def new_page(**options):
        context = browser.new_context(accept_downloads=True, **options)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: words.append(str(error)))
        page.on("console", lambda message: words.append(message.text) if message.type in ("error", "warning") else None)
        return page

    yield new_page
    for context in contexts:
        context.close()
    # The browser reports each refused request by itself.
    assert [word for word in words if "the server responded with a status of" not in word] == []


@pytest.fixture
def page(opened):
    return opened(viewport={"width": 1366, "height": 800})


def visit(page, url):
    page.goto(url)
    settle(page)


def settle(page):
    playwright.expect(page.locator("#status-text")).to_have_text("Up to date", timeout=PATIENCE)


def change(page, field, value):
    """Type a value, and wait for its answer."""
    with page.expect_response(lambda response: "/api/" in response.url):
        page.fill(f"#field-{field}", value)
    settle(page)


def traces(page, part):
    """The curves and maps of a figure, by name."""
    drawn = page.locator(f"#panel-{part} .plot").evaluate(
        "plot => plot.data.map(t => ({name: t.name, y: Array.from(t.y), x: Array.from(t.x), visible: t.visible}))"
    )
    return {trace["name"]: trace for trace in drawn if trace["name"]}


def query(page):
    return dict(parse_qsl(urlsplit(page.url).query))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1366, 375])
@pytest.mark.parametrize(
    ("view", "parts"),
    [
        ("layer", {"density": 4, "mixing": 3, "scores": 3, "convergence": 2}),
        ("depth", {"variance": 2, "kurtosis": 2, "cosine": 2, "entropy": 2, "law": 3}),
        ("regression", {"landscape": 4, "descent": 2, "phases": 3, "baselines": 6}),
    ],
)
def test_each_view_fits_its_screen_and_scheme(opened, address, view, parts, width, scheme):
    page = opened(viewport={"width": width, "height": 740}, color_scheme=scheme)
    visit(page, f"{address}?view={view}")
    for part, count in parts.items():
        drawn = traces(page, part)
        assert len(drawn) == count, (part, list(drawn))
    assert page.locator(".error:visible").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    first = page.locator("#panels section").first
    assert first.get_attribute("id") == "panel-remarks"
    for scrolled in page.locator(".scroll").all():  # no column of a table is cut off
        assert scrolled.evaluate("e => e.scrollWidth - e.clientWidth") <= 0
    background = first.evaluate("e => getComputedStyle(e).backgroundColor")
    assert (int(re.search(r"\d+", background)[0]) > 200) == (scheme == "light")


def test_settings_are_folded_on_a_small_screen_and_never_cover_a_figure(opened, address):
    page = opened(viewport={"width": 375, "height": 740}, has_touch=True)
    visit(page, f"{address}?width=inf")
    playwright.expect(page.locator("#field-heads")).to_be_hidden()
    page.locator("#settings summary").click()
    playwright.expect(page.locator("#field-heads")).to_be_visible()
    page.locator("#panel-density").scroll_into_view_if_needed()
    page.mouse.wheel(0, 1500)
    assert page.locator("#settings").evaluate("e => getComputedStyle(e).position") == "static"


def test_it_opens_on_a_picture_that_shows_the_point(page, address):
    visit(page, address)
    assert page.locator("#panel-density .plot").evaluate("plot => plot.layout.yaxis.type") == "log"
    drawn = traces(page, "density")
    edge = {name: trace["y"][10] for name, trace in drawn.items()}
    assert edge["this layer (n = 16)"] > 100 * edge["infinite width"] > 1000 * edge["infinite width, ∞ heads"]
    assert "is not a Gaussian" in page.locator("#panel-remarks li").first.inner_text()
    assert "softmax" in page.locator("#about").inner_text()
    assert query(page) == {}


def test_examples_are_a_click_away(page, address):
    visit(page, address)
    names = page.locator("#presets button").all_inner_texts()
    assert names == ["single head", "many heads", "causal first token", "narrow"]
    page.get_by_role("button", name="narrow").click()
    playwright.expect(page.locator("#field-width")).to_have_value("4")
    playwright.expect(page.locator("#panel-remarks li").first).to_contain_text("n = 4", timeout=PATIENCE)
    playwright.expect(page.get_by_role("button", name="narrow")).to_have_attribute("aria-pressed", "true")
    settle(page)
    assert query(page) == {"view": "layer", "width": "4"}


def test_a_slider_changes_the_curve_that_it_should(page, address):
    visit(page, address)
    before = traces(page, "density")
    page.locator("input[data-for=width]").focus()
    with page.expect_response(re.compile("api/layer")):
        page.keyboard.press("ArrowRight")
    settle(page)
    after = traces(page, "density")
    assert "this layer (n = 23)" in after
    at = 10  # in the tail
    assert after["this layer (n = 23)"]["y"][at] < before["this layer (n = 16)"]["y"][at]


def test_typed_matrices_give_the_numbers_of_the_library(page, address):
    root = np.random.default_rng(5).normal(size=(3, 3)).round(3)
    gram = root @ root.T
    visit(page, f"{address}?inputs=gaussian&heads=2")
    change(page, "gram", "; ".join(" ".join(map(repr, row)) for row in gram.tolist()))
    drawn = traces(page, "density")["this layer (n = 16)"]
    law = ll.Network(ll.GaussianInputs(gram), ll.Attention(heads=2)).law(width=16, token=0, samples=2**15)
    np.testing.assert_allclose(drawn["y"], law.pdf(np.array(drawn["x"])), rtol=1e-12)
    shown = page.locator("#panel-comparison tr", has_text="variance").locator("td").nth(1).inner_text()
    assert shown == str(law.variance())


def test_a_typed_mask_is_explained_or_used(page, address):
    visit(page, f"{address}?tokens=2&token=1&width=inf")
    page.select_option("#field-mask", "own")
    page.fill("#field-own_mask", "1 0; 1 2")
    playwright.expect(page.locator("#field-own_mask-error")).to_contain_text("has an entry other than 0 and 1")
    change(page, "own_mask", "1 0; 0 1")
    assert query(page)["own_mask"] == "1 0; 0 1"


def test_the_block_is_chosen_by_dragging_and_by_keys_and_asks_for_nothing(page, address):
    visit(page, f"{address}?{SHALLOW}")
    playwright.expect(page.locator("#panel-law .xtitle")).to_contain_text("after block 3")
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    marker = page.locator("#panel-kurtosis .marker")
    marker.scroll_into_view_if_needed()
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
    page.wait_for_url(re.compile("block=0"))
    assert asked == []


def test_pointing_at_a_block_shows_it_in_all_figures_along_depth(page, address):
    visit(page, f"{address}?{SHALLOW}")
    plot = page.locator("#panel-variance .nsewdrag")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + 0.33 * box["width"], box["y"] + box["height"] / 2)
    for part in ("variance", "cosine"):
        playwright.expect(page.locator(f"#panel-{part} .hoverlayer")).to_contain_text("infinite width")


def test_limits_are_drawn_while_the_width_is_computed(page, address):
    visit(page, address)
    page.fill("#field-value_std", "1.9")
    first = page.locator("#panel-density .first")
    playwright.expect(first).to_be_visible()
    settle(page)
    playwright.expect(first).to_be_hidden()
    assert "this layer (n = 16)" in traces(page, "density")


def test_a_newer_value_takes_the_place_of_an_older_one(page, address):
    visit(page, f"{address}?width=inf")
    for width in range(40, 60):
        page.fill("#field-width", str(width))
        page.wait_for_timeout(130)
    settle(page)
    assert "this layer (n = 59)" in traces(page, "density")
    assert query(page)["width"] == "59"


def test_a_curve_can_be_switched_off_and_on(page, address):
    visit(page, f"{address}?width=inf")
    key = page.locator("#panel-density .legend button", has_text="Gaussian")
    key.focus()
    page.keyboard.press("Enter")
    assert traces(page, "density")["Gaussian, same variance"]["visible"] is False
    playwright.expect(key).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("Enter")
    assert traces(page, "density")["Gaussian, same variance"]["visible"] is True


def test_every_step_of_a_slider_is_another_value(page, address):
    visit(page, f"{address}?view=layer&width=inf&tokens=2")
    slider, seen = page.locator("[data-for=heads]"), ["1"]
    for _ in range(4):
        slider.press("ArrowRight")
        seen.append(page.input_value("#field-heads"))
    assert seen == ["1", "2", "3", "4", "6"]
    slider.press("End")
    assert page.input_value("#field-heads") == "inf"


def test_every_stop_of_a_width_suits_the_known_models(page, address):
    visit(page, f"{address}?view=depth&depth=1&width=48&mlp=none&heads=2&tokens=2&norm=none")
    slider = page.locator("input[data-for=width]")
    seen = []
    for place in range(int(slider.get_attribute("max"))):
        slider.evaluate("(slider, at) => { slider.value = at; slider.dispatchEvent(new Event('input')); }", place)
        seen.append(int(page.input_value("#field-width")))
    assert seen[0] == 48
    assert all(n % 12 == 0 for n in seen)


def test_a_view_is_found_as_it_was_left(page, address):
    visit(page, f"{address}?view=layer&width=inf&tokens=2&heads=2")
    for link in ("Deep network", "Attention layer"):
        page.get_by_role("link", name=link).click()
    settle(page)
    assert query(page) == {"view": "layer", "width": "inf", "tokens": "2", "heads": "2"}
    assert page.input_value("#field-heads") == "2"


def test_the_address_is_the_state(page, address, opened):
    visit(page, f"{address}?width=inf")
    page.select_option("#field-mask", "causal")
    change(page, "token", "1")
    page.locator("#panel-density button", has_text="log").click()
    page.locator("#panel-scores button", has_text="log").click()
    expected = {"view": "layer", "width": "inf", "mask": "causal", "token": "1", "log": "scores"}
    assert query(page) == expected
    other = opened()
    visit(other, page.url)
    assert traces(other, "density") == traces(page, "density")
    assert other.input_value("#field-mask") == "causal"
    for part, kind in (("density", "linear"), ("scores", "log")):
        assert other.locator(f"#panel-{part} .plot").evaluate("plot => plot.layout.yaxis.type") == kind
    page.click("text=Token retrieval")
    settle(page)
    page.go_back()
    settle(page)
    assert page.input_value("#field-token") == "1"


def test_unknown_keys_of_a_link_are_ignored(page, address):
    visit(page, f"{address}?view=layer&width=inf&utm_source=twitter&fbclid=1")
    assert page.locator(".error:visible").count() == 0
    assert len(traces(page, "density")) == 3


@pytest.mark.parametrize("name", ["toString", "__proto__", "nothing"])
def test_a_view_that_does_not_exist_is_said_not_to(page, address, name):
    visit(page, f"{address}?view={name}")
    playwright.expect(page.locator("#notice")).to_have_text(f"There is no view “{name}”. This is “Attention layer”.")


def test_a_part_that_is_refused_is_not_the_end_of_the_others(page, address):
    page.goto(f"{address}?query_std=0&width=inf")
    playwright.expect(page.locator("#panel-scores .error")).to_contain_text("identically 0", timeout=PATIENCE)
    playwright.expect(page.locator("#status-text")).to_have_text("Some parts cannot be shown")
    assert len(traces(page, "density")) == 3


def test_a_bad_value_is_explained_beside_its_field_and_mended(page, address):
    visit(page, f"{address}?width=inf")
    page.fill("#field-heads", "0")
    error = page.locator("#field-heads-error")
    playwright.expect(error).to_have_text("heads='0' must be a whole number from 1 to 1024 or inf.")
    assert page.get_attribute("#field-heads", "aria-invalid") == "true"
    change(page, "heads", "3")
    assert not error.is_visible()


def test_fields_without_a_meaning_are_not_shown_and_do_not_count(page, address):
    visit(page, f"{address}?view=layer&inputs=gaussian&rho=0.5&tokens=2&width=inf")
    page.fill("#field-rho", "7")
    playwright.expect(page.locator("#field-rho-error")).to_contain_text("from -1 to 1")
    page.select_option("#field-inputs", "paper")
    settle(page)
    playwright.expect(page.locator("#field-rho")).to_be_hidden()
    assert "rho" not in query(page)


def test_copied_python_runs_and_gives_what_is_drawn(page, address, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # it leaves pictures
    visit(page, f"{address}?width=32&tokens=2")
    page.click("#copy-python")
    playwright.expect(page.locator("#code-status")).to_have_text("Code copied")
    code = page.evaluate("navigator.clipboard.readText()")
    assert page.locator("#code-text").inner_text() == code
    names = {}
    exec(code, names)
    drawn = traces(page, "density")["this layer (n = 32)"]
    np.testing.assert_allclose(drawn["y"], names["law"].pdf(np.array(drawn["x"])), rtol=1e-12)


def test_figures_and_data_can_be_downloaded(page, address, tmp_path):
    visit(page, f"{address}?width=inf")
    for button, start in (("SVG", b"<svg"), ("PNG", b"\x89PNG"), ("CSV", b"curve,output y of token 0,density")):
        with page.expect_download() as download:
            page.locator("#panel-density").get_by_text(button, exact=True).click()
        download.value.save_as(tmp_path / button)
        assert (tmp_path / button).read_bytes().startswith(start)
    assert "infinite width" in (tmp_path / "SVG").read_text(encoding="utf-8")  # it has a legend
    rows = [line.split(",") for line in (tmp_path / "CSV").read_text(encoding="utf-8").splitlines()]
    limit = [float(row[2]) for row in rows if row[0].startswith("this layer")]
    np.testing.assert_array_equal(limit, traces(page, "density")["this layer (infinite width)"]["y"])


def test_a_click_into_the_landscape_starts_descent_there(page, address):
    visit(page, f"{address}?view=regression&link=quadratic&dim=30&steps=20")
    before = traces(page, "landscape")["descent, exact"]
    plot = page.locator("#panel-landscape .plot .nsewdrag").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    with page.expect_response(re.compile("api/regression")):
        page.mouse.click(box["x"] + 0.75 * box["width"], box["y"] + 0.25 * box["height"])
    settle(page)
    after = traces(page, "landscape")["descent, exact"]
    assert (before["x"][0], before["y"][0]) == (0.3, 0.1)
    assert after["x"][0] == pytest.approx(0.5, abs=0.06)
    assert after["y"][0] == pytest.approx(0.5, abs=0.06)


def test_long_computations_show_progress_and_can_be_cancelled(page, address):
    page.goto(f"{address}?view=regression&link=sign&gamma=0.613")
    page.click("#cancel", timeout=PATIENCE)
    playwright.expect(page.locator("#status-text")).to_have_text(re.compile("^Cancelled"))
    assert page.locator("#progress").is_hidden()


def test_the_keyboard_alone_is_enough(page, address):
    visit(page, f"{address}?width=inf")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the figures"
    page.locator("#views a").nth(1).focus()
    page.keyboard.press("Enter")
    settle(page)
    assert page.title().startswith("Deep network")
    page.locator("#presets button").nth(1).focus()
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#presets button").nth(1)).to_have_attribute("aria-pressed", "true")
    settle(page)
    page.locator("#copy-python").focus()
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#code")).to_be_visible()
    page.keyboard.press("Escape")
    playwright.expect(page.locator("#code")).to_be_hidden()


def test_every_control_has_a_label_and_takes_the_focus(page, address):
    visit(page, f"{address}?width=inf")
    named = page.locator("form input:visible, form select:visible, button:visible").evaluate_all(
        "all => all.map(e => [e.labels?.length > 0 || Boolean(e.getAttribute('aria-label') || e.textContent), e.tabIndex])"
    )
    assert len(named) > 20
    assert all(label and tab >= 0 for label, tab in named), json.dumps(named)


def test_a_missing_page_is_a_page(page, address):
    page.goto(f"{address}nothing")
    page.get_by_role("link", name="Open the explorer").click()
    settle(page)

"""The figures from the command line: a quick run end to end, killed, resumed, repeated, shared, damaged."""

import base64
import csv
import html.parser
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.backends.backend_agg import FigureCanvasAgg
from typer.testing import CliRunner

from limitlaw import slr
from limitlaw._checks import ArgumentError
from limitlaw.cli import app
from limitlaw.experiments import Store
from limitlaw.figures import FIGURES, GROUPS, Settings, load_figure
from limitlaw.figures._style import style

SMALL = ["--quick", "--samples", "3000"]


def command(*arguments):
    return [sys.executable, "-c", "from limitlaw.cli import main; main()", "reproduce", *map(str, arguments)]


def run(*arguments):
    return subprocess.run(command(*arguments), capture_output=True, text=True)


@pytest.fixture
def finished(quick, tmp_path):
    """A copy of it."""
    return Path(shutil.copytree(quick, tmp_path / "finished"))


def contents(folder):
    """All that depends on the data alone."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if (path.is_file() and path.suffix in (".npz", ".png", ".pdf", ".csv"))
        or ("zarr" in str(path) and path.is_file())
    }


def results_in(folder):
    """How many results there are, apart from pictures."""
    names = [path.with_suffix(".json").read_text() for path in (folder / "store" / "results").rglob("*.npz")]
    return sum(': pictures"' not in name for name in names)


def test_everything_is_there(quick):
    for name in FIGURES:
        pdf = (quick / f"{name}.pdf").read_bytes()
        assert pdf.startswith(b"%PDF")
        png = (quick / f"{name}.png").read_bytes()
        assert png.startswith(b"\x89PNG")
        with open(quick / "data" / f"{name}.csv") as file:
            rows = list(csv.reader(file))
        assert len(rows) >= 3
        data = xr.open_zarr(quick / "data" / f"{name}.zarr")
        assert data.attrs["figure"] == name
        assert data.attrs["seed"] == 0


class Checker(html.parser.HTMLParser):
    """Tags are closed in the order they were opened; what is loaded is in the page."""

    void = ("meta", "img", "br", "hr", "link", "input")

    def __init__(self):
        super().__init__()
        self.open, self.images, self.links, self.ids, self.text = [], [], [], set(), []
        self.rows, self.table = {}, None  # cells of each row of the tables of a class

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag not in self.void:
            self.open.append(tag)
        if tag == "table":
            self.table = self.rows.setdefault(given.get("class", ""), [])
        if tag == "tr":
            self.table.append([])
        if tag in ("td", "th"):
            self.table[-1].append("")
        if tag == "img":
            self.images.append((given["src"], given["alt"]))
        if tag == "a":
            self.links.append(given["href"])
        self.ids.add(given.get("id"))
        assert tag not in ("script", "link", "iframe")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)
        if "td" in self.open:
            self.table[-1][-1] += data


def test_the_report_is_one_page_that_needs_nothing_else(quick):
    text = (quick / "report.html").read_text()
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    assert [alt for _, alt in checker.images] == [figure.title for figure in FIGURES.values()]
    for (source, _), name in zip(checker.images, FIGURES, strict=True):
        kind, data = source.split(",", 1)
        assert kind == "data:image/png;base64"
        assert base64.b64decode(data) == (quick / f"{name}.png").read_bytes()
    assert all(link.startswith("#") and link[1:] in checker.ids for link in checker.links)
    assert "http" not in re.sub(r"base64,[^\"]*", "", text)
    words = " ".join(" ".join(checker.text).split())
    assert f"of wall time and computed all of its {results_in(quick)} results." in words
    assert "<details" in text
    assert not re.search(r"(\b\d[\d,]*), \1, \1", words)  # equal numbers are listed once
    assert not re.search(r"\de[+-]?\d", words)  # powers of ten are typeset
    verdicts = {figure.title: row for figure, row in zip(FIGURES.values(), checker.rows["summary"][1:], strict=True)}
    for title, (linked, claim, verdict) in verdicts.items():
        assert linked == title
        assert claim
        assert verdict[0].isupper()
    for needed in (
        "jax 0.",
        "cores",
        "seed 0",
        "commit",
        "There is no data set",
        "matrices",
        "Reproducibility card",
        "The paper:",
        "Known or conjectured:",
        "Beyond the papers: depth",
        "We find:",
    ):
        assert needed in words, needed
    assert words.count("Reproducibility card:") == 6  # as sections, and in the contents


def test_the_data_of_the_regression_are_what_the_library_computes(quick):
    data = xr.open_zarr(quick / "data" / "slr_fig2.zarr")
    for link in data["link"].values:
        p = slr.Problem(100, 20, noise=0.1, link=str(link))
        last = data.isel(step=-1).sel(link=link, theory="exact")
        assert p.risk(*last["overlap"].values.T) == pytest.approx(last["risk"].values, rel=1e-9)
        # the test risk of the simulation is the exact risk of its overlaps, but for 10,000 test sequences
        simulated = data.isel(step=-1).sel(link=link, theory="simulation")
        exact = p.risk(*simulated["overlap"].values.T)
        assert np.abs(simulated["risk"].values - exact) == pytest.approx(0, abs=0.25 * float(exact.max()))
    data = xr.open_zarr(quick / "data" / "slr_baselines.zarr")
    for tokens in data["tokens"].values[:2]:
        found = slr.baselines(slr.Problem(20, None, 0.8, log_tokens=float(np.log(tokens))))
        at = data["risk"].sel(tokens=tokens)
        assert {name: float(at.sel(predictor=name)) for name in at["predictor"].values} == pytest.approx(
            {name: found[name] for name in at["predictor"].values}, rel=1e-9
        )
    data = xr.open_zarr(quick / "data" / "slr_phase.zarr")
    i, j = 2, 3
    alpha, beta = float(data["x"][1, j]), float(data["y"][1, i])
    assert float(data["risk"][1, i, j]) == pytest.approx(
        slr.Problem(40, None, 0.6, beta, log_tokens=40 * alpha).risk(1, 1)
    )
    data = xr.open_zarr(quick / "data" / "slr_landscape.zarr")
    corner = float(data["risk"].sel(theory="exact")[20, 0])  # the signal is lost: gamma^2 and the participation
    assert corner == pytest.approx(1.31727, abs=1e-5)
    assert sorted(map(str, data["kind"].values)) == ["saddle", "saddle", "sink", "source"]
    data = xr.open_zarr(quick / "data" / "slr_basins.zarr")
    assert np.isnan(data["learned_at"].sel(theory="exact").values[:, 0]).all()  # mu_0 = -0.9 never learns


def test_figures_of_the_regression_say_what_they_show(quick):
    store, settings = Store(quick / "store"), Settings.quick()
    for name in GROUPS["slr"]:
        figure = FIGURES[name]
        data = figure.dataset(settings, store)
        drawn = figure.draw(data)
        words = labels_of(drawn)
        assert words & {"step", "tokens $L$", r"$\mu = u \cdot u_*$", r"start $\mu_0$", r"$\alpha = \log L / d$"}, name
        assert any("risk" in text or "learned" in text for text in words), name
        assert all(axes.lines or axes.collections or axes.patches for axes in drawn.axes), name
        assert len(figure.words(data).finding) > 100, name
    drawn = FIGURES["slr_fig2"].draw(FIGURES["slr_fig2"].dataset(settings, store))
    assert {"simulation, $n = 1000$", "exact"} <= labels_of(drawn)
    assert [axes.get_title(loc="left").split("  ")[1] for axes in drawn.axes[:3]] == [
        "linear link",
        "quadratic link",
        "ReLU link",
    ]
    assert "predicting 0" in labels_of(FIGURES["slr_baselines"].draw(FIGURES["slr_baselines"].dataset(settings, store)))


def labels_of(drawn):
    """All that a figure says."""
    texts = [text.get_text() for legend in drawn.legends for text in legend.get_texts()]
    for axes in drawn.axes:
        texts += [axes.get_xlabel(), axes.get_ylabel(), axes.get_title(loc="left")]
    return {text for text in texts if text}


@pytest.mark.parametrize("name", FIGURES)
def test_labels_stay_inside_the_canvas_and_legends_off_the_panels(quick, name):
    """As drawn: nothing is cut off, and no legend lies over data."""
    drawn = FIGURES[name].draw(FIGURES[name].dataset(Settings.quick(), Store(quick / "store")))
    with style():
        FigureCanvasAgg(drawn).draw()
        boxes = [axes.get_tightbbox() for axes in drawn.axes]
        legends = [legend.get_window_extent() for legend in drawn.legends]
    width, height = drawn.canvas.get_width_height()
    for axes, box in zip(drawn.axes, boxes, strict=True):
        assert min(box.x0, box.y0) > -1, name
        assert box.x1 < width + 1, name
        assert box.y1 < height + 1, name
        assert axes.get_legend() is None
    for box in legends:
        assert box.x0 > -1, name
        assert box.x1 < width + 1, name
        assert not any(box.overlaps(axes.get_window_extent()) for axes in drawn.axes), name


def test_the_data_are_those_of_the_figures(quick):
    """Labelled arrays hold what the library computes; kernel estimates of stored outputs are made again by scipy."""
    data = xr.open_zarr(quick / "data" / "fig1a.zarr")
    assert data["output"].shape == (4, 3, 5000)
    assert data["width"].values.tolist() == [16, 64, 256, 1024]
    outputs = data["output"].values
    assert len({trial.tobytes() for trials in outputs for trial in trials}) == 12  # all independent
    spread = outputs.astype(float).var(axis=2).mean(axis=1)
    assert np.allclose(spread, data["network_variance"].values[:, 0], rtol=0.1)
    assert np.allclose(data["limit_variance"].values[:, 0], 0.3919714436, atol=1e-9)
    area = np.trapezoid(data["limit_density"].values[0], data["y"].values)
    assert area == pytest.approx(1, abs=1e-6)
    twin = xr.open_zarr(quick / "data" / "fig1b.zarr")
    assert twin["kde_kl"].shape == (4, 3)
    assert (twin["kde_kl"].values > 0).all()


def test_figures_say_what_they_show(quick):
    store, settings = Store(quick / "store"), Settings.quick()
    for name in GROUPS["attention"]:
        figure = FIGURES[name]
        data = figure.dataset(settings, store)
        drawn = figure.draw(data)
        for axes in drawn.axes:
            assert axes.get_xlabel()
            assert axes.get_ylabel()
            assert axes.lines or axes.patches or axes.collections
        labels = [text.get_text() for legend in drawn.legends for text in legend.get_texts()]
        assert labels
        assert len(set(labels)) == len(labels)
        if "kde_kl" in data:
            published, _ = drawn.axes
            assert published.get_xlabel().startswith(r"$\log_4")
            assert published.get_ylabel().startswith("log KL")
            bar = published.containers[0]
            means = np.log(data["kde_kl"].values).mean(axis=1)
            assert np.allclose(bar.lines[0].get_ydata(), means)
            assert any("floor" in label for label in labels)
            assert any("true KL" in label for label in labels)
            assert any("slope" in label for label in labels) == data.attrs["power_law"]
        assert len(figure.words(data).finding) > 100, name
    fig3b = FIGURES["fig3b"]
    assert "number of heads" in fig3b.draw(fig3b.dataset(settings, store)).axes[1].get_xlabel()


def test_a_slope_is_the_same_in_the_figure_and_in_the_text(quick):
    figure = FIGURES["fig1b"]
    data = figure.dataset(Settings.quick(), Store(quick / "store"))
    (label,) = (label for label in labels_of(figure.draw(data)) if "slope" in label)
    slope = label.split("slope ")[1]
    assert "±" in slope
    words = figure.words(data)
    assert slope in words.finding
    assert slope in words.verdict


def test_a_finished_run_is_not_repeated(finished):
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.is_file()}
    done = run("--quick", "--out", finished)
    assert done.returncode == 0
    after = {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.is_file()}
    changed = {path.name for path, stamp in after.items() if before.get(path) != stamp}
    assert changed <= {"report.html", "lock", "limitlaw.json", "status.json"}
    assert re.findall(r" s  (\w+) was done before", done.stdout) == list(FIGURES)
    page = (finished / "report.html").read_text()
    assert f"none of its {results_in(finished)} results" in page
    assert re.search(r">all</td><td[^>]*>276</td><td[^>]*>[0-9.]+</td>", page)  # of work, not of this run


def test_a_picture_that_was_spoilt_is_drawn_again(finished):
    picture = finished / "fig2a.png"
    whole = picture.read_bytes()
    picture.write_bytes(b"")
    for begun in (finished / "fig2a.png.part-1", finished / "data" / "fig2a.zarr.part-1" / "score"):
        begun.mkdir(parents=True)  # left by runs that were killed
    assert run("fig2a", "--quick", "--out", finished).returncode == 0
    assert picture.read_bytes() == whole
    assert not list(finished.rglob("*.part-*"))


@pytest.mark.full
def test_steps_can_be_taken_one_by_one(quick, tmp_path):
    shutil.copytree(quick / "store", tmp_path / "store")
    shutil.copy(quick / "limitlaw.json", tmp_path)
    shutil.rmtree(tmp_path / "store" / "made")
    missing = run("fig1b", "--quick", "--only", "report", "--out", tmp_path)
    assert missing.returncode == 2
    assert "fig1b has not been drawn" in missing.stderr
    assert run("fig1b", "--quick", "--only", "data", "--out", tmp_path).returncode == 0
    assert (tmp_path / "data" / "fig1b.csv").exists()
    assert not (tmp_path / "fig1b.png").exists()
    assert run("fig1b", "--quick", "--only", "figures", "--out", tmp_path).returncode == 0
    assert (tmp_path / "fig1b.png").read_bytes() == (quick / "fig1b.png").read_bytes()
    assert not (tmp_path / "report.html").exists()
    assert run("fig1b", "--quick", "--only", "report", "--out", tmp_path).returncode == 0
    assert (tmp_path / "report.html").read_text().count("<img") == 1
    other = run("fig1b", "--quick", "--seed", "1", "--only", "figures", "--out", tmp_path)
    assert other.returncode == 2
    assert "has not been computed with these settings" in other.stderr


@pytest.mark.parametrize("kills", [(5,), pytest.param((2, 9), marks=pytest.mark.full)], ids=str)
def test_killed_and_resumed_is_the_same_to_the_bit(tmp_path, kills):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert run("fig1b", *SMALL, "--out", whole, "--workers", "1").returncode == 0
    for how_many in kills:
        process = subprocess.Popen(
            command("fig1b", *SMALL, "--out", broken), stdout=subprocess.DEVNULL, start_new_session=True
        )
        results = broken / "store" / "results"
        while process.poll() is None and len(list(results.rglob("*.npz"))) < how_many:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        deadline = time.monotonic() + 20
        while subprocess.run(["pgrep", "-g", str(process.pid)], stdout=subprocess.DEVNULL).returncode == 0:
            assert time.monotonic() < deadline, "the workers must end by themselves"
            time.sleep(0.1)
        assert not (broken / "report.html").exists()
    kept = {path: path.stat().st_mtime_ns for path in results.rglob("*.npz")}
    assert kept
    assert run("fig1b", *SMALL, "--out", broken).returncode == 0
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in kept.items())
    assert contents(broken) == contents(whole)
    assert len(contents(whole)) > 20
    every = results_in(broken)
    page = (broken / "report.html").read_text()
    assert f"computed {every - len(kept)} of its {every} results" in page
    assert (
        page.count("Reproducibility card:") == 2
    )  # in the contents and as a section, of the paper whose figure is shown
    for needed in ("figures 1 and 2b (here: fig1b)", "This run has fewer samples."):
        assert needed in page


def test_an_interrupt_says_that_work_is_kept(tmp_path):
    process = subprocess.Popen(
        command("fig1b", *SMALL, "--out", tmp_path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    while process.poll() is None and not list((tmp_path / "store").rglob("*.npz")):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Finished results are saved" in text
    assert list((tmp_path / "store").rglob("*.npz"))


@pytest.mark.full
def test_two_runs_on_one_folder(tmp_path):
    both = [
        subprocess.Popen(command("fig2a", *SMALL, "--out", tmp_path), stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    texts = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum("waiting for another run" in text for text in texts) <= 1
    assert sum("fig2a was done before" in text for text in texts) == 1


def test_a_damaged_store_is_refused(finished):
    result = next((finished / "store" / "results").rglob("*.npz"))
    result.write_bytes(result.read_bytes()[:100])
    done = run("--quick", "--out", finished)
    assert done.returncode == 2
    assert result.name in done.stderr
    assert "is damaged" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_result_in_the_place_of_another_is_refused(finished):
    """Whole, with the right check sums, but not what the task computed."""
    one, other = sorted((finished / "store" / "results").rglob("*.npz"), key=lambda path: path.stat().st_size)[-2:]
    shutil.copy(one, other)
    done = run("--quick", "--out", finished)
    assert done.returncode == 2
    assert other.name in done.stderr
    assert "holds another result" in done.stderr


def test_records_that_are_no_records_are_made_again(finished):
    for folder in ("results", "made"):
        for record in (finished / "store" / folder).rglob("*.json"):
            record.write_text("[1]")
    done = run("fig2a", "--quick", "--out", finished)
    assert done.returncode == 0, done.stderr
    assert "fig2a done" in done.stdout


@pytest.mark.parametrize("name", ["report.html", "fig1b.png", "data/mine.csv", "study.json"])
def test_files_of_others_are_not_overwritten(tmp_path, name):
    mine = tmp_path / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    if name == "study.json":  # the folder of a sweep has a store, too
        Store(tmp_path / "store")
    done = run("fig2a", "--quick", "--out", tmp_path)
    assert done.returncode == 2
    assert ("limitlaw 0.1" if name == "study.json" else name.split("/")[0]) in done.stderr
    assert "Choose another folder with --out" in done.stderr
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("step", ["figures", "report"])
def test_a_step_without_the_one_before_makes_nothing(tmp_path, step):
    done = run("fig2a", "--quick", "--only", step, "--out", tmp_path / "new")
    assert done.returncode == 2
    assert "nothing has been computed" in done.stderr
    assert not (tmp_path / "new").exists()


def test_tables_are_written_as_data(quick):
    with open(quick / "data" / "fig1b.csv", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert len(set(header)) == len(header)
    truth, error = (header.index(name) for name in ("true KL to the limit", "true KL to the limit stderr"))
    data = xr.open_zarr(quick / "data" / "fig1b.zarr")
    for row, expected in zip(rows[:-1], data["kl_limit"].values, strict=True):  # the last is the floor
        assert [float(row[truth]), float(row[error])] == expected[:2].tolist()  # with all digits
    for table in (quick / "data").glob("*.csv"):
        with open(table, encoding="utf-8") as file:
            cells = [cell for row in csv.reader(file) for cell in row[1:]]
        assert not [cell for cell in cells if "±" in cell or "×" in cell or "%" in cell], table


OWN = '''
from limitlaw._format import Table
from limitlaw.experiments import Study

TITLE = "The risk along mu"
CLAIM = "It falls."
STUDY = Study({"dim": 20, "tokens": 5}, axes={"mu": [0.0, 0.5, 1.0]}, measure=["risk"], overlaps={"nu": 1.0})
TEMPLATE = """
{% set verdict %}**Holds.** It falls to {{ last | number }}.{% endset %}
{% set finding %}It falls.{% endset %}
{% set setup %}Linear link.{% endset %}
"""


def plot(data, axes):
    axes.plot(data["mu"], data["risk"])


def numbers(data):
    rows = list(zip(data["mu"].values.tolist(), data["risk"].values.tolist(), strict=True))
    return {"last": rows[-1][1], "table": Table(("mu", "risk"), rows)}
'''


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_figure_of_ones_own_is_made_like_the_others(tmp_path, workers):
    """Also in other processes, which have to load it."""
    (tmp_path / "my_figure.py").write_text(OWN)
    arguments = ["my_figure", "--load", tmp_path / "my_figure.py", "--quick", "--workers", workers]
    done = run(*arguments, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    with open(tmp_path / "out" / "data" / "my_figure.csv", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    risk = slr.Problem(20, 5).risk(1.0, 1.0)
    assert header == ["mu", "risk"]
    assert float(rows[-1][1]) == pytest.approx(float(risk), rel=1e-12)
    assert (tmp_path / "out" / "my_figure.pdf").read_bytes().startswith(b"%PDF")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<strong>Holds.</strong> It falls to" in page
    assert "was done before" in run(*arguments, "--out", tmp_path / "out").stdout
    with (tmp_path / "my_figure.py").open("a") as file:
        file.write("\nLINES = 1\n")
    assert "my_figure done" in run(*arguments, "--out", tmp_path / "out").stdout


@pytest.mark.parametrize(
    "name, text, hint", [("fig1a", OWN, "has the name of a figure"), ("mine", "TITLE = 'x'", "has no CLAIM")]
)
def test_a_file_that_is_no_figure_is_refused(tmp_path, name, text, hint):
    (tmp_path / f"{name}.py").write_text(text)
    with pytest.raises(ArgumentError, match=hint):
        load_figure(tmp_path / f"{name}.py")


def test_an_interrupt_at_the_start_is_no_traceback(tmp_path):
    for wait in (0.3, 0.7):
        process = subprocess.Popen(
            command("fig1b", *SMALL, "--out", tmp_path),
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        time.sleep(wait)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all processes
        _, said = process.communicate(timeout=30)
        assert b"forkserver" not in said, said.decode()


def test_a_foreign_store_is_refused(tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "thesis.tex").write_text("mine")
    done = run("fig2a", "--quick", "--out", tmp_path)
    assert done.returncode == 2
    assert f"{tmp_path / 'store'} exists, and limitlaw did not make it" in done.stderr


@pytest.mark.parametrize(
    "arguments, hint",
    [
        (["fig1z"], "figure='fig1z' is not known. Use one of 'attention', 'slr', 'deep', 'fig1a'"),
        (["--trials", "1"], "trials=1 must be at least 2"),
        (["--samples", "3"], "samples=3 must be at least 100"),
        (["--seed", "-1"], "seed=-1"),
        (["--tokens", "1"], "tokens=1"),
        (["--only", "plots"], "--only='plots'"),
        (["--out", "/proc/nowhere"], "/proc/nowhere: No such file or directory. Choose another folder"),
        (["--out", "/dev/null/x"], "Not a directory. Choose another folder"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(arguments, hint, capsys, monkeypatch):
    import limitlaw.cli

    monkeypatch.setattr(sys, "argv", ["limitlaw", "reproduce", *arguments])
    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit) as error:
        limitlaw.cli.main()
    assert error.value.code in (1, 2)
    text = capsys.readouterr().err
    assert hint in text
    assert len(text.strip().splitlines()) == 1


def test_a_full_disk_is_one_sentence(tmp_path, capsys, monkeypatch):
    import limitlaw.cli
    import limitlaw.experiments._store as store

    def full(file, **arrays):
        raise OSError(28, os.strerror(28), str(tmp_path))

    monkeypatch.setattr(store.np, "savez", full)
    monkeypatch.setattr(
        sys, "argv", ["limitlaw", "reproduce", "fig2a", *SMALL, "--out", str(tmp_path), "--workers", "1"]
    )
    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit):
        limitlaw.cli.main()
    assert "No space left on device. Free some space and run the same command again" in capsys.readouterr().err
    assert not list(Path(tmp_path).rglob("*.part-*"))


def test_help_names_the_steps():
    assert "--quick" in CliRunner().invoke(app, ["reproduce", "--help"], env={"COLUMNS": "200"}).output

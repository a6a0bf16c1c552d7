"""What objects show in a notebook: their own numbers, as HTML that is whole and safe."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from math import log

import matplotlib as mpl
import matplotlib.figure
import numpy as np
import pytest

import limitlaw as ll
from limitlaw import slr
from limitlaw.experiments import Study, Sweep

mpl.use("agg")
NET = ll.Network(ll.Inputs(tokens=3), ll.Attention(heads=2))


class Cells(HTMLParser):
    """The cells of all tables; every tag that is opened is closed, and none runs anything."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        assert tag in {"table", "tr", "th", "td", "p", "svg"}
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag, attributes):
        assert tag == "polyline"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("th", "td"):
            self.rows[-1][-1] += data
        elif self.open == ["p"]:
            self.text += data


def rows(shown):
    return {row[0]: row[1:] for row in Cells(shown._repr_html_()).rows}


def test_a_law_shows_its_moments_and_quantiles():
    law = NET.law()
    shown = rows(law)
    assert float(shown["variance"][0]) == pytest.approx(float(law.variance()), rel=1e-5)
    assert float(shown["excess kurtosis"][0]) == pytest.approx(float(law.kurtosis()), rel=1e-5)
    assert float(law.cdf(float(shown["quantile 0.99"][0]))) == pytest.approx(0.99, abs=1e-6)


def test_a_name_is_text():
    law = ll.laws.ScaleMixture([1.0, 2.0, 3.0], name="<script>alert(1)</script>")
    assert "<script>" not in law._repr_html_()
    assert "ScaleMixture: <script>alert(1)</script>" in rows(law)


def test_samples_and_joint_laws():
    samples = np.random.default_rng(0).standard_normal(1000)
    assert rows(ll.laws.Empirical(samples))["variance"] == [str(ll.laws.Empirical(samples).variance())]
    joint = NET.joint_law([0, 1], samples=2**10)
    assert float(rows(joint)["y_0"][1]) == pytest.approx(joint.cov()[0, 1], rel=1e-5)


def test_a_network_lists_its_parts():
    assert rows(NET)["layer 1"] == ["Attention(heads=2)"]


def test_a_trajectory_is_the_table_that_it_prints():
    t = NET.trajectory(100, width=8)
    table = Cells(t._repr_html_()).rows
    printed = repr(t)
    assert [row[0] for row in table] == ["block", "input", "1"]
    assert all(cell in printed for row in table for cell in row)


def test_a_comparison_is_drawn():
    comparison = ll.compare(NET.law(), ll.laws.Gaussian(variance=0.5), names=("limit", "Gaussian"))
    assert Cells(comparison._repr_html_()).rows[0] == ["", "limit", "Gaussian", "ratio"]
    figure = mpl.figure.Figure()
    axes = comparison.plot(figure.subplots())
    for line, law in zip(axes.lines, (NET.law(), ll.laws.Gaussian(variance=0.5)), strict=True):
        x, y = line.get_data()
        assert np.allclose(y, law.pdf(x), rtol=1e-9)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["limit", "Gaussian"]


def test_a_comparison_is_text_in_a_notebook_too(monkeypatch):
    comparison = ll.compare(ll.laws.Gaussian(variance=1.1), ll.laws.Gaussian(variance=1.0))
    told = str(comparison)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert "excess kurtosis" in told
    assert repr(comparison) == told


def test_a_network_draws_its_law():
    axes = NET.plot(mpl.figure.Figure().subplots(), token=1, kind="logpdf")
    x, y = axes.lines[0].get_data()
    assert np.allclose(y, NET.law(token=1).logpdf(x), rtol=1e-9)


def test_a_study_and_its_sweep(tmp_path):
    study = Study(NET, axes={"width": [4, 8]}, measure=["variance", "outputs"], samples=64, trials=2, name="<b>")
    assert rows(study)["width"] == ["4, 8"]
    assert "<b>" in rows(study)
    sweep = Sweep(study, tmp_path / "sweep")
    assert sweep._repr_html_().startswith("<p>0 of 8 tasks done</p>")
    sweep.run()
    assert sweep._repr_html_().startswith("<p>8 of 8 tasks done</p>")
    (panel,) = sweep.plot().axes
    assert np.allclose(panel.lines[0].get_ydata(), sweep.dataset().variance.mean("trial"))
    (panel,) = sweep.plot("outputs").axes
    heights, edges, _ = panel.patches[0].get_data()
    outputs = sweep.dataset().outputs.sel(width=4).values
    assert np.isclose(heights @ np.diff(edges), 1.0)
    assert np.isclose(heights[0] * np.diff(edges)[0], np.mean((outputs >= edges[0]) & (outputs < edges[1])), atol=0.01)
    with pytest.raises(ValueError, match="measure='kl' is not known"):
        sweep.plot("kl")


PROBLEM = slr.Problem(dim=100, tokens=20, gamma=0.6, beta=1.5, noise=0.25, link="quadratic")
START = [0.3, 0.1, 0.0, 0.0, 0.0]


def test_a_problem_shows_its_parameters_and_phase():
    shown = rows(PROBLEM)
    names = (
        "dimension d",
        "tokens L",
        "standard deviation γ of the token with the signal",
        "signal m",
        "inverse temperature β",
    )
    assert [shown[name] for name in names] == [["100"], ["20"], ["0.6"], ["8"], ["1.5"]]  # m^2 = (1 - 0.36) 100
    assert shown["noise of the label"] == ["0.25"]
    assert shown["link σ"] == ["quadratic"]
    assert float(shown["α = log L / d"][0]) == pytest.approx(log(20) / 100, rel=1e-5)
    assert shown["phase"] == ["retrieval"]


def test_a_problem_of_very_many_tokens_or_without_phases():
    frozen = rows(slr.Problem(dim=100, log_tokens=30.0))  # sqrt(0.6) is above c = 0.707, and below beta = 1
    assert frozen["tokens L"] == ["e^30"]
    assert frozen["phase"] == ["frozen"]
    assert rows(slr.Problem(dim=100, tokens=20, beta=0.0))["phase"][0].startswith("none")
    assert rows(slr.Problem(dim=100, tokens=1, beta=0.0))["phase"] == ["retrieval"]


def test_a_link_is_named_as_text():
    link = lambda t: 0.5 * t  # noqa: E731
    link.__name__ = "<b>"
    assert rows(slr.Problem(dim=10, tokens=3, link=link))["link σ"] == ["<b>"]


def test_a_descent_shows_risk_and_overlaps_from_its_first_to_its_last_step():
    run = slr.descent(PROBLEM, steps=300, start=START)
    header, *body = Cells(run._repr_html_()).rows
    assert header == ["step", "excess risk", "mu", "nu", "eta", "zeta", "rho"]
    assert [row[0] for row in (body[0], body[-1])] == ["0", "300"]
    assert 2 < len(body) < 12
    for row in body:
        overlaps = run.overlaps[int(row[0])]
        assert np.allclose([float(cell) for cell in row[2:]], overlaps, rtol=1e-3, atol=1e-12)
        assert float(row[1]) == pytest.approx(PROBLEM.risk(*overlaps), rel=1e-3)
    assert re.split(r"\s{2,}", repr(run).splitlines()[1]) == header
    assert len(repr(run).splitlines()) == len(body) + 3


def test_descents_from_several_starts_show_how_their_risks_spread():
    run = slr.flow(PROBLEM, 1.0, [START, [-0.5, 0.5, 0, 0, 0], [0.5, 0.5, 0, 0, 0]], points=3)
    found = Cells(run._repr_html_())
    assert "3 starts" in found.text
    assert found.rows[0][0] == "time"
    assert [float(row[0]) for row in found.rows[1:]] == [0.0, 0.5, 1.0]
    assert [float(cell) for cell in found.rows[-1][1:]] == pytest.approx(sorted(run.risk[:, -1]), rel=1e-3)


def test_baselines_are_a_table():
    found = slr.baselines(slr.Problem(dim=20, tokens=20, gamma=0.8))
    shown = rows(found)
    assert list(shown) == ["predictor", *(slr.BASELINES[name] for name in found)]
    assert shown["zero"] == ["0.64000", ""]  # gamma^2
    assert shown["softmax"][1] == "beta = 1"
    assert repr(found) == str(found)


def test_a_map_of_basins_counts_the_starts_that_learn():
    problem = slr.Problem(dim=100, tokens=20)
    basins = slr.basins(problem, [-0.5, 0.3, 0.5], [0.5], steps=400)
    found = Cells(basins._repr_html_())
    alone = [slr.descent(problem, steps=400, start=[mu, 0.5, 0, 0, 0], every=20) for mu in (-0.5, 0.3, 0.5)]
    first = sorted(int(run.at[np.argmax(run.risk < 0.01)]) for run in alone[1:])
    assert not (alone[0].risk < 0.01).any()
    assert "3 starts" in found.text
    assert "2 (66.7%)" in found.text
    shown = {row[0]: [float(cell) for cell in row[1:]] for row in found.rows[1:]}
    assert shown["step at which they learn"] == [first[0], sum(first) / 2, first[1]]
    assert shown["final risk of the others"] == pytest.approx([alone[0].risk[-1]] * 3, rel=1e-3)
    assert found.text in repr(basins)


def test_a_map_on_which_all_or_none_learn():
    problem = slr.Problem(dim=100, tokens=20)
    for mu, share, missing in ((-0.5, "0 (0.0%)", "their final risk"), (0.5, "1 (100.0%)", "final risk of the others")):
        basins = slr.basins(problem, [mu], [0.5], steps=400)
        assert share in Cells(basins._repr_html_()).text
        assert missing not in rows(basins)


def test_a_phase_diagram_counts_its_points():
    alphas, betas = [0.05, 0.3, 0.55], [0.5, 2.0]
    problem = slr.Problem(dim=50, tokens=5)
    diagram = slr.phase_diagram(problem, "alpha", "beta", x_values=alphas, y_values=betas)
    found = Cells(diagram._repr_html_())
    assert "α from 0.05 to 0.55, β from 0.5 to 2, γ = 0.7071; risks at d = 50" in found.text
    points = {"retrieval": [], "paramagnetic": [], "frozen": []}
    for alpha in alphas:
        for beta in betas:
            changed = problem.changed(alpha=alpha, beta=beta)
            points[slr.phase(changed)].append(changed.risk(1.0, 1.0))
    shown = {row[0]: row[1:] for row in found.rows[1:]}
    assert {name: int(row[0]) for name, row in shown.items()} == {name: len(risks) for name, risks in points.items()}
    assert all(points.values())
    for name, risks in points.items():
        assert [float(cell) for cell in shown[name][1:]] == pytest.approx([min(risks), max(risks)], rel=1e-3)
    assert rows(slr.phase_diagram(problem, "mu", "beta", x_values=[0.9, 1], y_values=[1, 2]))["paramagnetic"] == [
        "0",
        "",
        "",
    ]


def test_a_study_of_convergence_is_the_table_that_it_prints():
    values = tuple(ll.Estimate(11.0 / n**2, 0.01 / n**2) for n in (64, 128, 256, 512))
    study = ll.Convergence((64, 128, 256, 512), values, "<lambda>")
    found = Cells(study._repr_html_())
    assert found.rows[0] == ["width", "<lambda>", "local slope"]
    assert [row[0] for row in found.rows[1:]] == ["64", "128", "256", "512"]
    assert [float(row[1].split(" ±")[0]) for row in found.rows[1:]] == pytest.approx(
        [float(v) for v in values], rel=1e-2
    )
    assert found.rows[1][2] == ""
    assert all(row[2].startswith("-2.00") for row in found.rows[2:])
    assert found.text == str(study).splitlines()[-1]
    assert "fit: (11.0" in found.text
    assert "fit" not in ll.Convergence((64, 128), values[:2], "kl")._repr_html_()


def test_a_figure_is_a_picture_where_pyplot_has_not_drawn_yet():
    code = (
        "import sys, numpy as np, limitlaw as ll\n"
        "net = ll.Network(ll.GramInputs(np.eye(2)), ll.Attention())\n"
        "png = net.trajectory(16, width=4).plot('variance')._repr_png_()\n"
        "assert png.startswith(b'\\x89PNG')\n"
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

"""What objects show in a notebook: their own numbers, as HTML that is whole and safe."""

from html.parser import HTMLParser

import matplotlib as mpl
import matplotlib.figure
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.studies import Study, Sweep

mpl.use("agg")
NET = ll.Network(ll.Inputs(tokens=3), ll.Attention(heads=2))


class Cells(HTMLParser):
    """The cells of all tables; every tag that is opened is closed, and none runs anything."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows = [], []
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


def rows(shown):
    return {row[0]: row[1:] for row in Cells(shown._repr_html_()).rows}


def test_a_law_shows_its_moments_and_quantiles():
    law = NET.law()
    shown = rows(law)
    assert float(shown["variance"][0]) == pytest.approx(float(law.var()), rel=1e-5)
    assert float(shown["excess kurtosis"][0]) == pytest.approx(float(law.kurtosis()), rel=1e-5)
    assert float(law.cdf(float(shown["quantile 0.99"][0]))) == pytest.approx(0.99, abs=1e-6)


def test_a_name_is_text():
    law = ll.laws.ScaleMixture([1.0, 2.0, 3.0], name="<script>alert(1)</script>")
    assert "<script>" not in law._repr_html_()
    assert "ScaleMixture: <script>alert(1)</script>" in rows(law)


def test_samples_and_joint_laws():
    samples = np.random.default_rng(0).standard_normal(1000)
    assert rows(ll.laws.Empirical(samples))["variance"] == [str(ll.laws.Empirical(samples).var())]
    joint = NET.law(token=[0, 1], samples=2**10)
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
    comparison = ll.compare(NET.law(), ll.laws.Gaussian(var=0.5), names=("limit", "Gaussian"))
    assert Cells(comparison._repr_html_()).rows[0] == ["", "limit", "Gaussian", "ratio"]
    figure = mpl.figure.Figure()
    axes = comparison.plot(figure.subplots())
    for line, law in zip(axes.lines, (NET.law(), ll.laws.Gaussian(var=0.5)), strict=True):
        x, y = line.get_data()
        assert np.allclose(y, law.pdf(x), rtol=1e-9)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["limit", "Gaussian"]


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
    with pytest.raises(ValueError, match="measure='kl': there is no such measure"):
        sweep.plot("kl")

"""Convergence studies and comparisons."""

import io

import numpy as np
import pytest
from scipy.optimize import least_squares

import limitlaw as ll
from limitlaw.distances import Convergence
from limitlaw.laws import Gaussian, ScaleMixture

NET = ll.Network(ll.Inputs(4, ll.clip(100.0)), ll.Attention(heads=2))


def study(exponent, constant, a=0.0, b=0.0, noise=0.01, seed=0, widths=(64, 128, 256, 512, 1024)):
    n = np.array(widths, float)
    rng = np.random.default_rng(seed)
    truth = constant * n**-exponent * (1 + a / n + b / n**2)
    return Convergence(
        tuple(widths),
        tuple(
            ll.Estimate(t * (1 + noise * z), noise * t, 255)
            for t, z in zip(truth, rng.normal(size=n.size), strict=True)
        ),
        "kl",
    )


def test_the_fit_recovers_what_it_was_given():
    fit = study(1.7, 3.0, a=-5.0, b=20.0, noise=1e-9).fit()
    assert fit.exponent == pytest.approx(1.7, abs=1e-5)
    assert fit.constant == pytest.approx(3.0, rel=1e-4)
    assert fit.correction == pytest.approx(-5.0, rel=1e-2)
    assert fit.curvature == pytest.approx(20.0, rel=0.1)
    assert fit(64) == pytest.approx(3.0 * 64**-1.7 * (1 - 5 / 64 + 20 / 64**2), rel=1e-6)
    fixed = study(2.0, 11.0, a=-14.0, noise=1e-9).fit(exponent=2.0)
    assert (fixed.exponent, fixed.exponent.stderr) == (2.0, 0.0)
    assert fixed.constant == pytest.approx(11.0, rel=1e-6)


@pytest.mark.parametrize("exponent", [None, 2.0])
@pytest.mark.parametrize("widths", [(16, 64, 256), (16, 32, 64, 128), (16, 32, 64, 128, 256, 512)])
def test_the_fit_is_the_least_of_all_sums_of_squares(widths, exponent):
    rng = np.random.default_rng(len(widths))
    n = np.array(widths, float)
    y = 3 * n**-2 * (1 + 5 / n)
    errors = 0.01 * y
    y = y + errors * rng.standard_normal(n.size)
    fit = Convergence(widths, tuple(map(ll.Estimate, y, errors)), "kl").fit(exponent)
    found = [float(fit.constant), float(fit.correction), float(fit.curvature), float(fit.exponent)]
    free = [True, True, len(widths) >= 5, exponent is None]

    def residuals(free_ones):
        values = np.array(found)
        values[free] = free_ones
        c, a, b, k = values
        return (c * n**-k * (1 + a / n + b / n**2) - y) / errors

    start = np.array(found)[free]
    other = least_squares(residuals, start, x_scale=np.abs(start) + 1e-3, xtol=1e-15, ftol=1e-15, gtol=1e-15)
    np.testing.assert_allclose(other.x, start, rtol=1e-5)
    assert fit.chi_square == pytest.approx(2 * other.cost, rel=1e-6, abs=1e-10)
    inverse = np.linalg.inv(other.jac.T @ other.jac) * (max(fit.chi_square / fit.dof, 1) if fit.dof else 1)
    stated = np.array([fit.constant.stderr, fit.correction.stderr, fit.curvature.stderr, fit.exponent.stderr])[free]
    np.testing.assert_allclose(stated, np.sqrt(np.diagonal(inverse)), rtol=1e-3)


def test_the_errors_of_the_fit_are_those_of_its_values():
    z = [study(2.0, 11.0, a=-14.0, seed=seed).exponent.z(2.0) for seed in range(200)]
    assert abs(np.mean(z)) < 0.3
    assert 0.6 < np.std(z) < 1.2  # a poor fit widens the errors, a good one does not narrow them


def test_local_slopes():
    slopes = study(2.0, 11.0, a=-14.0, noise=1e-6).slopes
    truth = [-2 + np.log2((1 - 14 / (2 * n)) / (1 - 14 / n)) for n in (64, 128, 256, 512)]
    assert np.allclose(slopes, truth, atol=1e-4)
    assert all(slope > -2 for slope in slopes)
    assert "local slope" in str(study(2.0, 11.0))


def test_divergence_of_the_paper_falls_like_one_over_n_squared():
    """Reference: 2.1361e-3 at n = 64, 1.5802e-4 at n = 256, 4 million draws each of an independent implementation."""
    result = ll.convergence(NET, [64, 256], samples=2**18, seed=5)
    for value, (truth, error) in zip(result.values, [(0.0021361, 3e-6), (1.5802e-4, 7e-7)], strict=True):
        assert abs(value - truth) < 5 * np.hypot(value.stderr, error)
        assert value.stderr < 0.03 * value


@pytest.mark.full
@pytest.mark.parametrize("metric, exponent", [(ll.kl, 2.0), (ll.tv, 1.0), (ll.wasserstein, 1.0), (ll.energy, 1.0)])
def test_exponents(metric, exponent):
    result = ll.convergence(NET, 2 ** np.arange(6, 13), metric=metric, seed=11)
    assert result.exponent.covers(exponent, 0.999), result
    assert result.exponent.stderr < 0.03
    if metric is ll.kl:
        fit = result.fit(exponent=2.0)
        assert abs(fit.constant - 10.9) < 0.3
        assert result.values[-1].stderr < 0.1 * result.values[-1]
        assert all(slope > -2 - 3 * slope.stderr for slope in result.slopes)


def test_an_interrupt_keeps_the_widths_that_are_done():
    done = []

    def metric(p, q):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(p.name)
        return 0.5

    with pytest.warns(UserWarning, match="Interrupted: the result ends at width 16"):
        result = ll.convergence(NET, [8, 16, 32], metric=metric, samples=1000)
    assert result.widths == (8, 16)
    assert result.values == (0.5, 0.5)


def test_a_study_draws_itself():
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    study(2.0, 11.0).plot(axes)
    assert axes.get_xlabel() == "width n"
    assert axes.get_ylabel() == "kl to the limit"
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert any(label.startswith("fit, exponent -") for label in labels)
    assert "kl (± 2 s.e.)" in labels
    plt.close(figure)


@pytest.mark.parametrize(
    "bad, match",
    [
        (lambda: ll.convergence(NET, []), r"widths=\[\]"),
        (lambda: ll.convergence(NET, [64, float("inf")]), "must be finite widths"),
        (lambda: ll.convergence(NET, [64, 64]), "without repetition"),
        (lambda: ll.convergence(NET, [0]), "widths=0"),
        (lambda: ll.convergence(NET, 64), "widths=64 must be a list of widths"),
        (lambda: ll.convergence(3, [64]), "net=3 must be a limitlaw.Network"),
        (lambda: ll.convergence(NET, [64], metric="kl"), "metric='kl' must be a function"),
        (lambda: study(2.0, 1.0, widths=(64, 128)).fit(), "needs at least 3 widths"),
    ],
)
def test_refusals(bad, match):
    with pytest.raises((ValueError, TypeError), match=match):
        bad()


LEFT, RIGHT = ScaleMixture(np.random.default_rng(0).chisquare(6, 20_000) / 6, name="width 6"), Gaussian(name="limit")


def test_a_comparison_holds_what_its_methods_give():
    c = ll.compare(LEFT, RIGHT)
    assert c.names == ("width 6", "limit")
    assert c.rows["variance"] == (LEFT.variance(), RIGHT.variance())
    assert c.rows["excess kurtosis"][0].stderr == LEFT.kurtosis().stderr
    assert c.rows["quantile 0.99"][1] == pytest.approx(2.3263478740408408)
    assert c.rows["P(|y| > 3 sd)"][1] == pytest.approx(0.0026997960632601866)
    assert c.rows["P(|y| > 3 sd)"][0] == pytest.approx(2 * LEFT.ccdf(3.0))
    assert c.rows["P(|y| > 3 sd)"][0].stderr > 0
    assert c.distances["KL"] == ll.kl(LEFT, RIGHT)
    assert c.distances["reverse KL"] == ll.kl(RIGHT, LEFT)
    assert c.distances["W2"] == ll.wasserstein(LEFT, RIGHT, p=2)
    assert set(c.distances) == {"KL", "reverse KL", "TV", "KS", "W1", "W2", "energy"}
    assert not c.unresolved


def test_a_comparison_can_be_printed_everywhere():
    from rich.console import Console

    c = ll.compare(LEFT, RIGHT)
    for shown in (str(c), c._repr_html_()):
        assert "width 6" in shown
        assert str(c.distances["KL"]) in shown
        assert "excess kurtosis" in shown
    text = io.StringIO()
    Console(file=text, width=100).print(c)
    assert str(c.rows["variance"][0]) in text.getvalue()
    assert "<script>" not in ll.compare(LEFT, RIGHT, names=("<script>", "b"))._repr_html_()


def test_a_comparison_of_samples_leaves_out_what_has_no_density():
    x = np.random.default_rng(1).normal(size=3000)
    c = ll.compare(x, RIGHT)
    assert c.names == ("samples", "limit")
    assert set(c.distances) == {"KS", "W1", "W2", "energy"}
    assert "KS" in c.unresolved
    assert "not resolved by these draws" in str(c)
    assert ll.compare(x, x[::-1]).names == ("samples (p)", "samples (q)")


def test_names_come_in_pairs():
    with pytest.raises(ValueError, match="must be two names"):
        ll.compare(LEFT, RIGHT, names=("a",))


def test_a_comparison_leaves_as_pandas_and_xarray():
    c = ll.compare(LEFT, RIGHT)
    data, frame = c.to_xarray(), c.to_pandas()
    assert data.value.sel(quantity="variance", law="width 6") == LEFT.variance()
    assert data.stderr.sel(quantity="variance", law="width 6") == LEFT.variance().stderr
    assert data.distance_stderr.sel(metric="KL") == c["KL"].stderr
    assert data.resolved.all()
    assert tuple(frame.loc[("KL", "distance"), ["value", "stderr"]]) == (c["KL"], c["KL"].stderr)
    assert len(frame) == 2 * len(c.rows) + len(c.distances)
    assert c["variance"] == c.rows["variance"]
    with pytest.raises(KeyError, match="Did you mean 'variance'"):
        c["varianc"]


def test_a_convergence_leaves_as_pandas_and_xarray():
    c = study(2.0, 11.0)
    data, frame = c.to_xarray(), c.to_pandas()
    assert data.kl.values.tolist() == [float(value) for value in c.values]
    assert data.kl_stderr.sel(width=128) == c[128].stderr
    assert np.isnan(data.slope[0])
    assert frame.loc[256, "slope"] == c.slopes[1]
    with pytest.raises(KeyError, match="width 3 was not computed"):
        c[3]


def test_a_fit_says_only_what_is_known():
    text = str(study(2.0, 11.0, widths=(64, 128, 256)).fit())
    assert "as many numbers as widths" in text
    assert "chi-square" not in text
    text = str(study(2.0, 11.0, b=60.0).fit())
    assert "(not resolved)" in text
    assert "on 1 degree of freedom" in text
    assert "n^-2 (1 + a/n)" in str(study(2.0, 11.0, widths=(64, 128, 256)).fit(exponent=2))


def test_numbers_of_one_column_have_one_format():
    rows = [line.split()[1] for line in str(study(2.0, 11.0)).splitlines()[2:-1]]
    assert len(rows) == 5
    assert all("e-" in number for number in rows)  # 2.7e-3 beside 1.0e-5
    row = next(line for line in str(ll.compare(LEFT, RIGHT)).splitlines() if "> 4 sd" in line)
    assert "6.33425e-5" in row

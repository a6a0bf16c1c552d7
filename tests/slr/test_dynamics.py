"""Descent on the overlaps against descent in the space itself, the flow against small steps, and what the paper says of both."""

import numpy as np
import pytest

from limitlaw import slr
from limitlaw.slr._links import LINKS
from limitlaw.slr._overlaps import from_gram, gram, vectors

START = (0.3, 0.2, 0.1, 0.05, -0.1)


def in_the_space(problem, start, steps, size):
    """Riemannian descent on the population risk, with vectors: gradient, projection, step, renormalisation."""
    d = problem.dim
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((d, d)))[0]
    u_star, v_star = rotation[:2]
    u, v = vectors(np.array(start), d) @ rotation
    kept = []
    for _ in range(steps + 1):
        overlaps = u @ u_star, v @ v_star, u @ v_star, v @ u_star, u @ v
        kept.append(overlaps)
        by_mu, by_nu, by_eta, by_zeta, by_rho = problem.gradient(*overlaps)
        grad_u = by_mu * u_star + by_eta * v_star + by_rho * v
        grad_v = by_nu * v_star + by_zeta * u_star + by_rho * u
        new_u = u - size * (grad_u - (grad_u @ u) * u)
        new_v = v - size * (grad_v - (grad_v @ v) * v)
        u, v = new_u / np.linalg.norm(new_u), new_v / np.linalg.norm(new_v)
    return np.array(kept)


@pytest.mark.parametrize("name", LINKS)
def test_the_map_of_the_overlaps_closes(name):
    p = slr.Problem(7, 4, 0.6, 0.7, link=name)
    run = slr.descent(p, 60, 0.05, START)
    # at a jump, rounding in a correlation becomes its root
    closeness = 1e-7 if name == "sign" else 1e-10
    assert run.overlaps == pytest.approx(in_the_space(p, START, 60, 0.05), abs=closeness)
    assert run.risk[-1] == pytest.approx(p.risk(*run.overlaps[-1]), abs=1e-13)
    assert run.risk[-1] < run.risk[0]


def test_vectors_have_the_overlaps():
    overlaps = np.array(
        [START, (1, 1, 0, 0, 0), (0, 0, 0, 0, 0), (-0.6, 0.8, 0.8, 0.6, 0.28), (0.0, 0.0, 0.0, 0.0, 1.0)]
    )
    u, v = np.moveaxis(vectors(overlaps, 6), -2, 0)
    stacked = np.stack([u, v, *np.broadcast_to(np.eye(2, 6)[:, None], (2, 5, 6))], axis=1)
    assert stacked @ stacked.transpose(0, 2, 1) == pytest.approx(gram(overlaps), abs=1e-12)
    assert from_gram(gram(overlaps)) == pytest.approx(overlaps)


def test_the_flow_is_the_limit_of_small_steps():
    p = slr.Problem(30, 8, link="quadratic")
    flow = slr.flow(p, 0.5, START, points=2).overlaps[-1]
    errors = [np.abs(slr.descent(p, n, 0.5 / n, START, every=n).overlaps[-1] - flow).max() for n in (50, 200)]
    assert errors[1] == pytest.approx(errors[0] / 4, rel=0.15)  # first order
    assert errors[1] < 2e-3


@pytest.mark.parametrize(
    ("name", "invariant"), [("linear", True), ("quadratic", True), ("sign", True), ("relu", False)]
)
def test_the_plane_is_invariant_for_odd_and_even_links(name, invariant):
    p = slr.Problem(100, 20, link=name)
    run = slr.descent(p, 100, 0.01, (0.3, 0.2, 0, 0, 0), every=100)
    assert (np.abs(run.overlaps[-1, 2:]).max() < 1e-12) == invariant
    if not invariant:
        assert run.rho[-1] == pytest.approx(-0.19, abs=0.006)
        weight = 1 / (1 + np.exp(-p.scale * p.signal * 0.01))
        slope = 2 * weight * p.strength * p.gamma * np.sqrt(p.dim / (2 * np.pi)) * (weight - 0.6)
        assert p.gradient(0.01, 0.2, method="mean-field", alpha=0.0)[3] == pytest.approx(slope, rel=1e-10)


def test_starts():
    p = slr.Problem(50, 5)
    uniform = slr.start(p, count=4000, seed=3)
    # each overlap has mean 0 and variance 1/d; 4.5 standard errors
    assert np.abs(uniform.mean(axis=0)).max() < 4.5 / np.sqrt(50 * 4000)
    assert np.abs(50 * uniform.var(axis=0) - 1).max() < 4.5 * np.sqrt(2 / 4000)
    assert np.array_equal(slr.start(p, "manifold", 5, seed=3)[:, :2], slr.start(p, count=5, seed=3)[:, :2])
    assert not slr.start(p, "manifold", 5, seed=3)[:, 2:].any()
    informed = slr.start(p, "informed", 4000, mu=0.4, seed=3)
    assert informed[:, 0] == pytest.approx(0.4)
    assert 50 * informed[:, 2].var() == pytest.approx(1 - 0.16, rel=4.5 * np.sqrt(2 / 4000) + 0.03)
    for bad, words in (
        ({"kind": "random"}, "kind='random'"),
        ({"kind": "informed"}, "needs mu, nu, or both"),
        ({"mu": 0.2}, "Use kind='informed'"),
        ({"kind": "informed", "mu": 2.0}, "not an overlap"),
    ):
        with pytest.raises(ValueError, match=words):
            slr.start(p, **bad)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("linear", {(1, 1): "sink", (1, -1): "source", (-1, 1): "saddle", (-1, -1): "saddle"}),
        (
            "quadratic",
            {
                (1, 1): "sink",
                (1, -1): "sink",
                (-1, 1): "saddle",
                (-1, -1): "saddle",
                (1, 0): "source",
                (-1, 0): "source",
            },
        ),
        ("relu", {(1, 1): "sink", (-1, 1): "saddle", (1, -1): "degenerate", (-1, -1): "degenerate"}),
    ],
)
@pytest.mark.parametrize("gamma", [0.5, 2**-0.5])
def test_stationary_points(name, kinds, gamma):
    """Proposition 10, but for (-1, 0) of the quadratic link, a source and not a saddle."""
    points = slr.stationary_points(slr.Problem(100, 20, gamma, link=name))
    found = {(round(point.mu), round(point.nu)): point.kind for point in points if abs(point.mu) == 1}
    assert found == kinds
    inner = [point for point in points if abs(point.mu) < 1]
    assert len(inner) == (name == "quadratic")
    for point in inner:  # p = 1/3
        assert (point.kind, point.nu) == ("saddle", 0.0)
        assert point.mu == pytest.approx(-np.log(2) / (100 * np.sqrt(1 - gamma**2)), rel=1e-12)


@pytest.mark.parametrize("name", ["linear", "quadratic"])
def test_eigenvalues_are_those_of_the_flow(name):
    p = slr.Problem(4, 20, 0.6, 0.7, link=name)  # small, so that nothing is below rounding
    for point in slr.stationary_points(p):
        at = np.array([point.mu, point.nu, 0.0, 0.0, 0.0])
        steps = 1e-5 * np.array([-np.sign(point.mu) or 1.0, -np.sign(point.nu) or 1.0])
        for i, step in enumerate(steps):
            along = np.zeros(5)
            along[i] = step
            two = [slr.vector_field(p, *(at + k * along)[:2], method="mean-field", alpha=0.0)[i] for k in (1, 2)]
            assert (2 * two[0] - two[1] / 2) / step == pytest.approx(point.eigenvalues[i], rel=1e-3, abs=1e-6)
        rest = np.abs(slr.vector_field(p, point.mu, point.nu, method="mean-field", alpha=0.0)).max()
        assert rest < 1e-12


def test_the_linear_oracle_alone_is_stable():
    """Proposition 4, in the four-dimensional flow: of the corners the oracle alone attracts in every direction."""
    stable = [
        (point.mu, point.nu)
        for point in slr.stationary_points(slr.Problem(100, 20))
        if max(*point.eigenvalues, *(point.transverse or (0.0,))) < 0
    ]
    assert stable == [(1.0, 1.0)]


def test_mean_field_descent_learns_from_the_sub_exponential_start_alone():
    """psi = 0 puts the transition at mu = 0, psi = sqrt(2 log L / d) at 0.346: from mu near 0 the one learns, the other never moves."""
    p = slr.Problem(100, 20)
    start = (0.02, 0.1, 0.0, 0.0, 0.0)
    assert slr.descent(p, 500, start=start, method="mean-field", alpha=0.0).risk[-1] < 0.01
    still = slr.descent(p, 500, start=start, method="mean-field")
    assert np.abs(still.overlaps[-1] - start).max() < 1e-6


def test_exact_descent_stalls_on_a_plateau():
    """The headline claim, that no special start is needed, fails for the exact dynamics: some uniform starts lose the signal for good."""
    p = slr.Problem(100, 20)
    runs = slr.descent(p, 1000, start=slr.start(p, count=12, seed=0), every=1000)
    learned = runs.risk[:, -1] < 0.003
    assert 8 <= learned.sum() < 12
    stuck = runs.overlaps[:, -1][runs.risk[:, -1] > 1]
    assert len(stuck)
    assert np.all(stuck[:, 0] < 0)
    assert runs.risk[:, -1].max() == pytest.approx(p.gamma**2 + slr.participation(p), abs=0.02)
    assert slr.participation(p) == pytest.approx(0.817, abs=5e-4)


def test_basins_agree_with_descent_from_each_start():
    p = slr.Problem(100, 20)
    mu, nu = np.array([-0.6, 0.1, 0.5]), np.array([-0.2, 0.6])
    basins = slr.basins(p, mu, nu, steps=400, every=10)
    for i, j in np.ndindex(2, 3):
        risk = slr.descent(p, 400, start=(mu[j], nu[i], 0, 0, 0)).risk[::10]
        below = np.flatnonzero(risk < basins.level)
        assert np.array_equal(basins.learned_at[i, j], 10.0 * below[0] if below.size else np.nan, equal_nan=True)
    assert 0 < basins.learned_fraction < 1
    assert basins.to_xarray()["learned_at"].dims == ("nu", "mu")


def test_phase_diagram_boundaries():
    """alpha = (c mu)^2 / 2 where frozen; beta = c mu - sqrt((c mu)^2 - 2 alpha) below; the exact risk is small inside, large outside."""
    p = slr.Problem(60, 20, 0.6)
    diagram = slr.phase_diagram(p, "alpha", "beta", x_values=[0.05, 0.2, 0.3, 0.34], y_values=[0.02, 0.1, 0.6, 1.5])
    for i, beta in enumerate(diagram.y):
        for j, alpha in enumerate(diagram.x):
            found = alpha < (0.32 if beta >= np.sqrt(2 * alpha) else beta * 0.8 - beta**2 / 2)
            assert (diagram.phase[i, j] == "retrieval") == found
            assert diagram.risk[i, j] == p.changed(alpha=alpha, beta=beta).risk(1.0, 1.0)
    assert diagram.phase[0, 3] == "paramagnetic"
    assert diagram.phase[3, 3] == "frozen"
    assert diagram.risk[3, 0] < 1e-3 < 0.3 < diagram.risk[3, 3]
    with pytest.raises(ValueError, match="is not a diagram"):
        slr.phase_diagram(p, "beta", "alpha")


@pytest.mark.parametrize("axes", [("alpha", "gamma"), ("alpha", "beta"), ("mu", "beta")])
def test_names_of_phases_lie_within_them(axes):
    """Every corner of a name is a point of its phase, and no name is missing where there is room."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(3, 3))
    p = slr.Problem(40, log_tokens=2.0, gamma=0.6)
    diagram = slr.phase_diagram(p, *axes, x_values=np.linspace(0.02, 0.7, 3), y_values=np.linspace(0.1, 0.95, 3))
    diagram.plot(ax, colorbar=False)
    figure.canvas.draw()
    for text in ax.texts:
        corners = ax.transData.inverted().transform(text.get_window_extent().corners())
        for x, y in corners:
            values = dict(zip(axes, (float(x), float(y)), strict=True))
            mu = values.pop("mu", 1.0)
            assert slr.phase(p.changed(**values), mu) == text.get_text(), (text, x, y)
            assert diagram.x[0] < x < diagram.x[-1]
            assert diagram.y[0] < y < diagram.y[-1]
    large = {name for name in ("retrieval", "paramagnetic", "frozen") if (_phases_of(diagram) == name).mean() > 0.15}
    assert {text.get_text() for text in ax.texts} >= large
    (boundary, *_) = ax.collections[1:]
    for x, y in boundary.get_paths()[0].vertices:
        values = dict(zip(axes, (float(x), float(y)), strict=True))
        mu = values.pop("mu", 1.0)
        assert abs(slr.phase_margins(p.changed(**values), mu)[0]) < 2e-3


def _phases_of(diagram):
    _, _, level, critical = diagram.finer()
    return np.where(level > 0, "retrieval", np.where(critical < 0, "paramagnetic", "frozen"))


def test_thresholds():
    p = slr.Problem(100, 20, 0.6, 0.5)
    thresholds = slr.thresholds(p)
    assert thresholds["alpha_bayes"] == pytest.approx(np.log(1 / 0.6))
    for name, setting in (("mu", "mu"), ("beta", "beta"), ("alpha", "alpha")):
        value = thresholds[name]
        for factor in (0.999, 1.001):
            mu = value * factor if setting == "mu" else 1.0
            changed = p if setting == "mu" else p.changed(**{setting: value * factor})
            found = slr.phase(changed, mu) == "retrieval"
            assert found == ((factor < 1) == (setting == "alpha"))
    assert slr.phase(p) == "retrieval" != slr.phase(p.changed(alpha=0.5))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: slr.descent(p, steps=0), "steps=0"),
        (lambda p: slr.descent(p, step_size=0), "step_size=0 must be positive"),
        (lambda p: slr.descent(p, start=[0.1, 0.2]), "mu, nu, eta, zeta, rho"),
        (lambda p: slr.descent(p, method="refined"), "method='refined'"),
        (lambda p: slr.flow(p, time=-1), "time=-1"),
        (lambda p: slr.flow(p, 1.0, START, planar=True), "planar=True"),
        (lambda p: slr.descent(p.changed(beta=0.0), method="mean-field"), "beta=0"),
        (lambda p: slr.stationary_points(p.changed(gamma=1.0)), "signal=0"),
        (lambda p: slr.simulate(p.changed(dim=3)), "dim=3"),
        (lambda p: slr.simulate(p.changed(link="sign")), "link='sign'"),
        (lambda p: slr.simulate(p.changed(alpha=5.0)), "log_tokens=50 is not enough to draw data"),
        (
            lambda p: slr.simulate(p.changed(tokens=10**6)),
            "samples=1000 with tokens=1000000 at dim=10 are more than 2 GiB",
        ),
        (lambda p: slr.simulate(p, steps=10, every=3), "multiple of every=3"),
        (lambda p: p.changed(alpha=0.1, tokens=7), "Give one of them"),
        (lambda p: slr.phase(p, 5.0), "mu=5.0 is not an overlap"),
        (lambda p: slr.phase(p, float("nan")), "mu=nan"),
        (lambda p: slr.descent(p, start=np.zeros((0, 5))), r"start has shape \(0, 5\)"),
        (lambda p: slr.flow(p, points=1), "points=1"),
        (lambda p: slr.phase_diagram(p, "alpha", "beta", y_values=[0.0, 1.0]), "y_values holds beta=0"),
        (lambda p: slr.phase_diagram(p, x_values=[0.1]), "x_values has length 1"),
        (lambda p: slr.stationary_points(p.changed(link=lambda t: 0 * t)), "nothing to learn"),
        (lambda p: slr.Problem.marion(10, 5, signal=3.0), "signal=3.0"),
        (lambda p: slr.Problem.marion(-5, 5), "dim=-5"),
        (lambda p: slr.free_energy(1.0, -1.0), "alpha=-1.0"),
        (lambda p: p.risk(np.zeros(3), np.zeros(4)), "do not broadcast"),
        (lambda p: slr.gated_risk(p, np.tanh, [0.1, 0.2]), "takes numbers"),
        (lambda p: slr.gated_risk(p.changed(link="relu"), np.tanh), "link='relu'"),
        (lambda p: p.changed(signal=1e6).risk(0, 0), "needs tables of"),
        (lambda p: slr.descent(p, 5).plot(of="beta"), "of='beta'"),
        (lambda p: slr.baselines(p.changed(link="relu")), "link='relu'"),
        (lambda p: slr.basins(p, level=0), "level=0"),
    ],
)
def test_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call(slr.Problem(10, 5))


def test_types_are_refused_by_name():
    p = slr.Problem(10, 5)
    for call, words in (
        (lambda: slr.descent(p, start="uniform"), r"such as slr\.start\(problem, 'uniform'\)"),
        (lambda: slr.start(p, "informed", mu="a"), "mu='a'"),
        (lambda: slr.phase(p, "a"), "mu='a'"),
        (lambda: slr.Problem(10, 5, gamma="a"), "gamma='a'"),
    ):
        with pytest.raises(TypeError, match=words):
            call()


def test_one_token_cannot_be_missed():
    p = slr.Problem(100, 1)
    assert slr.phase(p, -0.1) == "retrieval"
    assert p.risk(-0.3, 0.2, method="refined") == p.risk(-0.3, 0.2)


def test_a_signal_that_was_given_stays():
    for dim in range(2, 60):
        assert slr.Problem.marion(dim, 5).changed(gamma=0.3).signal == np.sqrt(dim / 2)
        assert slr.Problem(dim, 5).changed(gamma=0.3).signal == np.sqrt((1 - 0.3**2) * dim)
    p = slr.Problem(50, None, log_tokens=8.0).changed(beta=2.0)
    assert (p.log_tokens, p.tokens, p.beta) == (8.0, None, 2.0)


def test_nothing_asked_is_nothing_answered():
    for link in ("linear", "relu"):
        p = slr.Problem(20, 5, link=link)
        assert p.risk([], []).shape == (0,)
        assert p.gradient([], []).shape == (0, 5)


def test_signs_agree_faster_than_any_number():
    points = {(point.mu, point.nu): point for point in slr.stationary_points(slr.Problem(100, 20, link="sign"))}
    assert points[1.0, 1.0].kind == "sink"
    assert points[1.0, 1.0].eigenvalues[1] == -np.inf

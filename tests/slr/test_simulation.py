from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from same_law import FALSE_ALARM, assert_mean

from limitlaw.slr import _empirical
from limitlaw.slr._empirical import descend, draw_data, gradient

LINKS = {"linear": lambda t: t, "quadratic": lambda t: t * t, "relu": jax.nn.relu}
VALUES = {"linear": lambda t: t, "quadratic": lambda t: t * t, "relu": lambda t: np.maximum(t, 0)}
SLOPES = {"linear": np.ones_like, "quadratic": lambda t: 2 * t, "relu": lambda t: (t > 0).astype(float)}
SCALE = 3.0
every_link = pytest.mark.parametrize("link", LINKS)


def orthonormal(d, seed=0):
    """Two directions that are not axes: an axis would hide a forgotten product."""
    return tuple(np.linalg.qr(np.random.default_rng(seed).normal(size=(d, 2)))[0].T)


def unit_pairs(starts, d, seed=1):
    pairs = np.random.default_rng(seed).normal(size=(starts, 2, d))
    return pairs / np.linalg.norm(pairs, axis=-1, keepdims=True)


def sample(link, count, *, d, tokens, seed=2, signal=2.0, gamma=0.6, noise=0.1):
    parameters = {"tokens": tokens, "signal": signal, "gamma": gamma, "noise": noise}
    return draw_data(jax.random.key(seed), count, **parameters, directions=orthonormal(d), link=LINKS[link])


def problem(link, *, n=40, d=6, tokens=4, starts=3):
    """Training data, test data and starts, as `descend` takes them. One shape for all: compiling is what takes time.

    Not from `draw_data`: the descent must be right on any data, and a fault of one must not hide behind the other.
    """
    rng = np.random.default_rng(2)
    X = rng.normal(size=(2, n, tokens, d)) + 2 * orthonormal(d)[0] * (np.arange(tokens) == 1)[:, None]
    y = VALUES[link](X[:, :, 1] @ orthonormal(d)[1]) + 0.3 * rng.normal(size=(2, n))
    (X, X_test), (y, y_test) = X.astype(np.float32), y.astype(np.float32)
    return *map(jnp.asarray, (X, y, X_test, y_test)), unit_pairs(starts, d)


def run(link, case, *, steps, every, step_size=0.05, scale=SCALE):
    settings = {"directions": orthonormal(case[0].shape[-1]), "scale": scale, "step_size": step_size}
    return descend(*case, **settings, link=LINKS[link], steps=steps, every=every)


class Reference:
    """The same algorithm in double precision, a sample and a start at a time, as one would write it first."""

    def __init__(self, link, X, y):
        self.link, self.slope = VALUES[link], SLOPES[link]
        self.X, self.y = np.asarray(X, np.float64), np.asarray(y, np.float64)

    def forward(self, x, u, v):
        attention = np.exp(SCALE * x @ u - np.max(SCALE * x @ u))
        attention /= attention.sum()
        values = self.link(x @ v)
        return attention, values, attention @ values

    def risk(self, u, v):
        return np.mean([(self.forward(x, u, v)[2] - label) ** 2 for x, label in zip(self.X, self.y, strict=True)])

    def gradient(self, u, v):
        in_u, in_v = np.zeros_like(u), np.zeros_like(v)
        for x, label in zip(self.X, self.y, strict=True):
            attention, values, output = self.forward(x, u, v)
            jacobian = np.diag(attention) - np.outer(attention, attention)  # of the softmax
            in_u += 2 * (output - label) * SCALE * x.T @ (jacobian @ values)
            in_v += 2 * (output - label) * x.T @ (attention * self.slope(x @ v))
        return in_u / len(self.y), in_v / len(self.y)

    def descend(self, u, v, *, steps, step_size):
        for _ in range(steps):
            in_u, in_v = self.gradient(u, v)
            u = u - step_size * (np.eye(len(u)) - np.outer(u, u)) @ in_u
            v = v - step_size * (np.eye(len(v)) - np.outer(v, v)) @ in_v
            u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
        return u, v


def overlaps(u, v):
    u_star, v_star = orthonormal(len(u))
    return np.array([u @ u_star, v @ v_star, u @ v_star, v @ u_star, u @ v])


@every_link
def test_gradient_is_that_of_automatic_differentiation(link):
    X, y, *_, starts = problem(link)

    def risk(pair):
        u, v = pair
        weights = jax.nn.softmax(SCALE * X @ u, axis=-1)
        return jnp.mean(((weights * LINKS[link](X @ v)).sum(axis=-1) - y) ** 2)

    pairs = jnp.moveaxis(jnp.asarray(starts, jnp.float32), 1, 0)
    compiled = jax.jit(gradient, static_argnums=4)
    by_hand = jnp.moveaxis(compiled(pairs, jnp.moveaxis(X, 1, 0), y, SCALE, LINKS[link]), 0, 1)
    automatic = jax.jit(jax.vmap(jax.grad(risk)))(jnp.asarray(starts, jnp.float32))
    assert float(jnp.abs(automatic).max()) > 0.1
    np.testing.assert_allclose(by_hand, automatic, atol=1e-5)


@every_link
@pytest.mark.parametrize("steps", [1, 200])
def test_agrees_with_the_descent_written_plainly(link, steps):
    X, y, X_test, y_test, starts = case = problem(link)
    found = run(link, case, steps=steps, every=steps)
    train, test = Reference(link, X, y), Reference(link, X_test, y_test)
    # A step rounds the gradient to a few 1e-7 of itself and the vector to 6e-8, and descent to a minimum forgets what went
    # before: 2e-7 were seen. An update of v that saw the new u, say, is off by 1e-3.
    for i, (u, v) in enumerate(starts):
        np.testing.assert_allclose(found.overlaps[i, 0], overlaps(u, v), atol=1e-6)
        u, v = train.descend(u, v, steps=steps, step_size=0.05)
        np.testing.assert_allclose(found.overlaps[i, 1], overlaps(u, v), atol=1e-6)
        np.testing.assert_allclose(found.test_risk[i, 1], test.risk(u, v), rtol=2e-6)
    assert np.abs(found.overlaps[:, 1] - found.overlaps[:, 0]).max() > 1e-3


def test_a_start_alone_goes_where_it_goes_in_company():
    *data, starts = problem("relu")
    together = run("relu", (*data, starts), steps=50, every=10)
    for i, start in enumerate(starts):
        alone = run("relu", (*data, start[None]), steps=50, every=10)
        for name in ("overlaps", "test_risk"):
            np.testing.assert_allclose(getattr(together, name)[i], getattr(alone, name)[0], atol=5e-6)


@every_link
def test_risk_decreases_under_small_steps(link):
    X, y, *_, starts = problem(link)
    found = run(link, (X, y, X, y, starts), steps=1000, every=20, step_size=0.002)
    assert (np.diff(found.test_risk, axis=1) < 1e-6).all()
    assert (found.test_risk[:, -1] < found.test_risk[:, 0] - 1e-3).all()


@every_link
def test_large_steps_stay_on_the_spheres(link):
    X, y, *_, starts = problem(link)
    pairs = jnp.moveaxis(jnp.asarray(starts, jnp.float32), 1, 0)
    after = _empirical._take_steps(pairs, jnp.moveaxis(X, 1, 0), y, 500, 0.5, SCALE, LINKS[link])
    assert float(jnp.abs(after - pairs).max()) > 0.1
    np.testing.assert_allclose(np.linalg.norm(np.asarray(after, np.float64), axis=-1), 1, atol=3e-7)


def test_records_are_the_same_whatever_the_schedule():
    case = problem("relu")
    often, seldom = run("relu", case, steps=60, every=5), run("relu", case, steps=60, every=20)
    assert often.steps.tolist() == list(range(0, 61, 5))
    assert often.overlaps.shape == (3, 13, 5)
    assert often.test_risk.shape == (3, 13)
    for name in ("overlaps", "test_risk"):
        np.testing.assert_allclose(getattr(often, name)[:, ::4], getattr(seldom, name), atol=1e-6)
    assert run("relu", case, steps=0, every=5).steps.tolist() == [0]


def test_blocks_do_not_change_a_risk(monkeypatch):
    case = problem("quadratic")
    whole = run("quadratic", case, steps=4, every=2)
    monkeypatch.setattr(_empirical, "_BATCH_PROJECTIONS", 2 * 3 * 4 * 16)  # starts, tokens, samples
    assert [len(y) for _, y in _empirical._batches(case[2], case[3], 3)] == [16, 16, 8]
    parts = run("quadratic", case, steps=4, every=2)
    np.testing.assert_allclose(parts.test_risk, whole.test_risk, rtol=1e-6)


def test_learns_from_an_informed_start():
    """At the end of the road: token found, value direction learnt, and little more risk than the noise."""
    X, y = sample("linear", 80, d=6, tokens=4, signal=4.0)
    u_star, v_star = orthonormal(6)
    third = np.linalg.svd(np.stack([u_star, v_star]))[2][2]  # orthogonal to both
    start = np.stack([0.6 * u_star + 0.8 * third, 0.6 * v_star - 0.8 * third])
    case = X[:40], y[:40], X[40:], y[40:], np.stack([start] * 3)
    found = run("linear", case, steps=2000, every=2000)
    assert (found.test_risk[:, 0] > 0.2).all()
    assert (found.test_risk[:, 1] < found.test_risk[:, 0] / 2).all()
    assert (found.overlaps[:, 1, 1] > 0.99).all()
    assert (found.overlaps[:, 1, 0] > 0.7).all()  # creeps on, but the token is found already


@pytest.mark.parametrize("steps, every", [(10, 3), (-3, 3), (10, 0)])
def test_schedules_that_do_not_end_on_a_record_are_refused(steps, every):
    with pytest.raises(ValueError, match=r"steps=|every="):
        run("linear", problem("linear"), steps=steps, every=every)


def test_starts_off_the_sphere_are_refused():
    *data, starts = problem("linear")
    with pytest.raises(ValueError, match="unit vectors"):
        run("linear", (*data, 1.1 * starts), steps=1, every=1)


def secret_places(X, u_star):
    """Where the signal token is, when the signal is so large that it cannot be missed."""
    projections = np.asarray(X) @ u_star.astype(np.float32)
    places = projections.argmax(axis=1)
    assert (np.sort(projections, axis=1)[:, -2] < 10).all()
    return places


@pytest.fixture(scope="module")
def many():
    """Samples with a signal at 20, taken apart: the signal tokens, the others, the labels and the places."""
    X, y = sample("quadratic", 40_000, d=5, tokens=4, signal=20.0, gamma=0.6, noise=0.3)
    places = secret_places(X, orthonormal(5)[0])
    chosen = places[:, None] == np.arange(4)
    X, y = np.asarray(X, np.float64), np.asarray(y, np.float64)
    return SimpleNamespace(X=X, y=y, places=places, signal=X[chosen], others=X[~chosen].reshape(-1, 3, 5))


def assert_moments(x, mean, variance):
    """Mean and covariance of i.i.d. rows with independent normal entries, by z-scores, Bonferroni over all of them."""
    centred = x - mean
    products = np.einsum("ni,nj->nij", centred, centred) - variance * np.eye(x.shape[1])
    columns = np.concatenate([centred, products.reshape(len(x), -1)], axis=1)
    z = np.abs(columns.mean(axis=0)) / (columns.std(axis=0) / np.sqrt(len(x)))
    assert z.max() < scipy.stats.norm.isf(FALSE_ALARM / 2 / z.size)


def test_signal_tokens_are_normal_around_the_signal(many):
    u_star, _ = orthonormal(5)
    assert_moments(many.signal, 20.0 * u_star, 0.6**2)
    assert_mean((many.signal[:, 0] - 20.0 * u_star[0]) ** 2, 0.6**2, catches=1.1)


def test_other_tokens_are_standard_normal_and_independent(many):
    assert_moments(many.others.reshape(-1, 15), 0.0, 1.0)
    assert scipy.stats.kstest(many.others[:, 1, 2], "norm").pvalue > FALSE_ALARM


def test_the_secret_place_is_uniform_and_independent_of_the_label(many):
    assert scipy.stats.chisquare(np.bincount(many.places, minlength=4)).pvalue > FALSE_ALARM
    large = many.y >= np.median(many.y)
    table = [np.bincount(many.places[side], minlength=4) for side in (large, ~large)]
    assert scipy.stats.chi2_contingency(table).pvalue > FALSE_ALARM


def test_labels_are_the_link_of_the_signal_token_and_noise(many):
    seen = many.signal @ orthonormal(5)[1]
    residual = many.y - seen**2
    assert_mean(residual**2, 0.3**2, catches=1.1)
    assert scipy.stats.kstest(residual / 0.3, "norm").pvalue > FALSE_ALARM
    fit = scipy.stats.linregress(seen**2, many.y)
    assert abs(fit.slope - 1) < scipy.stats.norm.isf(FALSE_ALARM / 2) * fit.stderr
    # Uncorrelated with the sample's own tokens, and with the numbers drawn first: one key used twice would repeat them.
    drawn_first = np.tanh(many.X.reshape(-1)[: len(residual)])
    against = [np.ones_like(seen), seen, seen**2, *many.others[:, 0].T, drawn_first]
    columns = np.column_stack([residual * c for c in against])
    z = np.abs(columns.mean(axis=0)) / (columns.std(axis=0) / np.sqrt(len(residual)))
    assert z.max() < scipy.stats.norm.isf(FALSE_ALARM / 2 / z.size)


def test_data_depend_on_the_key_alone():
    X, y = sample("linear", 80, d=6, tokens=4, signal=4.0)
    again, labels = sample("linear", 80, d=6, tokens=4, signal=4.0)
    other, _ = sample("linear", 80, d=6, tokens=4, signal=4.0, seed=9)
    assert X.shape == (80, 4, 6)
    assert y.shape == (80,)
    assert X.dtype == y.dtype == jnp.float32
    assert (np.asarray(X) == np.asarray(again)).all()
    assert (np.asarray(y) == np.asarray(labels)).all()
    assert (np.asarray(X) != np.asarray(other)).mean() > 0.99


def test_a_sample_does_not_depend_on_how_many_are_drawn(monkeypatch):
    """Blocks of one size: more data begin with the same data."""
    monkeypatch.setattr(_empirical, "_BATCH_NUMBERS", 4 * 6 * 7)
    few, many = (sample("linear", count, d=6, tokens=4) for count in (5, 20))
    for one, other in zip(few, many, strict=True):
        np.testing.assert_array_equal(one, other[:5])
    assert len(np.unique(np.asarray(many[1]))) == 20

"""Definition 3.1 against brute force at large n, and against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from same_law import assert_same_law

import limitlaw as ll
from limitlaw import netsor


def recurrent():
    """An Elman network unrolled for four steps: one W, one U, inputs with a mean; its states are correlated through W."""
    prog = netsor.Program()
    W, U = prog.matrix("W", var=1.5), prog.matrix("U", var=0.7)
    inputs = prog.initials(["u1", "u2", "u3", "u4"], cov=0.5 * np.eye(4) + 0.5, mean=[1.0, -0.5, 0.3, 2.0])
    state = prog.initial("s0", mean=0.4)
    states = []
    for u in inputs:
        state = prog.nonlin(lambda a, b, c: jnp.tanh(a + b + 0.2 * c), W @ state, U @ u, u)
        states.append(state)
    return prog, states


def two_groups():
    """Two groups of scores share one W_Q; a Nonlin of several vectors and scores."""
    prog = netsor.Program()
    a, b = prog.initials(["a", "b"], cov=[[1.0, 0.6], [0.6, 2.0]], mean=[0.5, 0.0])
    x = prog.nonlin("relu", prog.matrix("W") @ a)
    Q, K1, K2 = (
        prog.matrix("Q", to="head", var=2.0),
        prog.matrix("K1", to="head"),
        prog.matrix("K2", to="head", var=0.5),
    )
    qx, qb = Q @ x, Q @ b
    scores = [prog.score(qx, K1 @ x), prog.score(qb, K1 @ a), prog.score(qx, K2 @ b), prog.score(qb, K2 @ b)]
    y = prog.nonlin(
        lambda g, b, p, q: jax.nn.sigmoid(p) * g + jnp.cos(q) * b,
        prog.matrix("V") @ x,
        b,
        scalars=[scores[0], scores[2]],
    )
    return prog, [y, *scores]


@pytest.mark.full
@pytest.mark.parametrize("make", [recurrent, two_groups])
def test_against_brute_force_at_large_n(make):
    prog, targets = make()
    law = prog.limit(targets)
    assert law.quadrature_error < 1e-3

    def products(draws):
        return np.column_stack(
            [draws, draws[:, 0] * draws[:, 1], draws[:, 1] * draws[:, -1], draws[:, 0] * draws[:, 2]]
        )

    dims = {space: 400 for space in prog.spaces}
    assert_same_law(
        lambda samples, seed: products(law.sample(samples, rng=seed)),
        lambda samples, seed: products(prog.sample(targets, samples=samples, dims=dims, reading="dense", seed=seed)),
        samples=1_500,
    )
    assert_same_law(
        lambda samples, seed: products(law.sample(samples, rng=seed)),
        lambda samples, seed: products(
            prog.sample(targets, samples=samples, dims={s: 2500 for s in prog.spaces}, reading="lazy", seed=seed)
        ),
        samples=2_500,
    )


def test_covariances_of_the_recurrent_network_by_hand():
    """The first two pre-activations, by tensor quadrature written out here."""
    prog, states = recurrent()
    z, w = np.polynomial.hermite_e.hermegauss(60)
    w = w / w.sum()
    # Z^{W s0}, Z^{U u1}, u1 are independent with variances 1.5 (1 + .16), 0.7 (1 + 1) and 1.
    a, b, c = np.meshgrid(np.sqrt(1.5 * 1.16) * z, np.sqrt(0.7 * 2.0) * z, 1.0 + z, indexing="ij")
    weights = w[:, None, None] * w[None, :, None] * w[None, None, :]
    first = np.tanh(a + b + 0.2 * c)
    law = prog.limit(states[0])
    assert abs(law.mean() - (weights * first).sum()) < 1e-8
    assert abs(law.variance() - ((weights * first**2).sum() - (weights * first).sum() ** 2)) < 1e-8


def test_score_covariances_are_products():
    prog, targets = two_groups()
    law = prog.limit(targets[1:])
    # E Z^x Z^x = E relu(g)^2, g ~ N(0, 1.25): 0.625; E b^2 = 2; E a^2 = 1.25; E a b = 0.6; E x b = 0 (x has its own matrix and b no mean)
    xx, aa, bb, xb, xa = 0.625, 1.25, 2.0, 0.0, np.sqrt(1.25 / (2 * np.pi)) * 0.5
    expected = np.array(
        [
            [2 * xx * 1 * xx, 2 * xb * 1 * xa, 0, 0],
            [2 * xb * 1 * xa, 2 * bb * 1 * aa, 0, 0],
            [0, 0, 2 * xx * 0.5 * bb, 2 * xb * 0.5 * bb],
            [0, 0, 2 * xb * 0.5 * bb, 2 * bb * 0.5 * bb],
        ]
    )
    error = np.maximum(law.error("cov"), 1e-6)
    assert (np.abs(law.cov() - expected) < 6 * error).all()
    assert error.max() < 5e-3
    assert np.abs(law.mean()).max() < 1e-3


@pytest.mark.parametrize("name", ["identity", "relu", "erf", "gelu"])
def test_closed_forms_agree_with_quadrature(name):
    """The same function, known by name and as an anonymous callable."""
    phi = ll.activation(name)

    def covariances(function):
        prog = netsor.Program()
        a, b = prog.initials(["a", "b"], cov=[[1.0, 0.6], [0.6, 2.0]])
        W, V = prog.matrix("W"), prog.matrix("V")
        u, v = V @ prog.nonlin(function, W @ a), V @ prog.nonlin(function, W @ b)
        law = prog.limit([u, v])
        return law.cov(), law.quadrature_error

    closed, no_error = covariances(phi)
    numerical, error = covariances(lambda x: phi.function(x))
    assert no_error == 0.0
    assert np.abs(closed - numerical).max() < max(6 * error, 1e-9)


def test_a_wide_network_with_one_hidden_layer_has_the_arc_cosine_kernel():
    with netsor.Program() as prog:
        a, b = prog.initials(["a", "b"], cov=[[1.0, 0.5], [0.5, 1.0]])
        W, V = prog.matrix("W", var=2.0), prog.matrix("V")
        u, v = V @ prog.nonlin("relu", W @ a), V @ prog.nonlin("relu", W @ b)
    kernel = (np.sqrt(0.75) + (np.pi - np.arccos(0.5)) * 0.5) / np.pi
    assert abs(prog.limit(u).variance() - 1.0) < 1e-12
    assert abs(prog.limit([u, v]).cov()[0, 1] - kernel) < 1e-9


@pytest.mark.full
def test_an_average_is_random_as_the_scores_are():
    """(1/n) sum tanh(y)^2 for y = p g: against brute force, and its law is not a point."""
    prog = netsor.Program()
    h = prog.initial("h")
    p = prog.score(prog.matrix("Q") @ h, prog.matrix("K") @ h)
    y = prog.nonlin(lambda g, p: p * g, prog.matrix("V") @ h, scalars=[p])
    law = prog.average(lambda y: jnp.tanh(y) ** 2, y)
    assert law.quadrature_error < 1e-10
    assert law.variance() > 0.04
    assert_same_law(
        lambda samples, seed: law.sample(samples, rng=seed).reshape(-1, 1),
        lambda samples, seed: prog.sample(
            y, samples=samples, dims={"model": 8000}, seed=seed, average=lambda y: jnp.tanh(y) ** 2
        ).reshape(-1, 1),
        samples=4_000,
    )


def test_an_average_without_scores_is_a_number():
    prog = netsor.Program()
    g = prog.matrix("W") @ prog.initial("h", var=2.0, mean=1.0)
    law = prog.average(lambda g: g**2, g)
    assert abs(law.mean() - 3.0) < 1e-9
    assert law.variance() == 0.0
    assert np.allclose(law.sample(5), 3.0)


def test_scores_on_the_linear_scale_vanish():
    prog = netsor.Program()
    h = prog.initial("h")
    p = prog.score(prog.matrix("Q") @ h, prog.matrix("K") @ h, scale="linear")
    assert prog.limit(p).variance() == 0.0
    y = prog.nonlin(lambda g, p: g + 10 * p, h, scalars=[p])
    assert abs(prog.limit(y).variance() - 1.0) < 1e-9


def test_a_linear_score_does_not_make_a_line_deep():
    prog = netsor.Program()
    h = prog.initial("h", var=2.0)
    p = prog.score(prog.matrix("Q") @ h, prog.matrix("K") @ h, scale="linear")
    g = prog.matrix("V") @ prog.nonlin(lambda g, p: g + p, h, scalars=[p])
    assert abs(prog.limit(g).variance() - 2.0) < 1e-9


def test_units_do_not_matter():
    prog = netsor.Program()
    a, b = prog.initials(["a", "b"], cov=[[1e6, 0], [0, 1e-6]])
    law = prog.limit(prog.nonlin(lambda a, b: 1e3 * b + 0 * a, a, b))
    assert abs(law.variance() - 1.0) < 1e-9


def test_errors_of_covariances_reach_the_numbers_made_of_them():
    """A covariance by quasi-Monte Carlo (truth 2^-5, five independent factors) carried through a closed form and a Nonlin."""
    prog = netsor.Program()
    factors = [prog.initial(f"h{i}") for i in range(5)]
    product = prog.nonlin(lambda *h: jnp.prod(jnp.maximum(jnp.stack(h), 0.0)), *factors)
    g = prog.matrix("W") @ product
    relu = prog.matrix("V") @ prog.nonlin("relu", g)
    first, second, third = prog.limit(g), prog.limit(relu), prog.limit(prog.nonlin(jnp.tanh, g))
    for law, truth in ((first, 2.0**-5), (second, 2.0**-6)):
        assert law.variance().stderr > 0
        assert abs(law.variance().z(truth)) < 6
        assert law.variance().stderr < 0.2 * truth
    assert third.quadrature_error > 0
    assert 0.2 < third.variance().stderr / first.variance().stderr < 2


def test_errors_of_inner_expectations_reach_the_average():
    prog = netsor.Program()
    y = prog.nonlin(lambda a, b, c: a * b * c, *[prog.initial(n) for n in "abc"])
    law = prog.average(lambda y: y**2, y)
    assert law.mean().stderr > 0
    assert abs(law.mean().z(1.0)) < 8


def test_deep_chains_are_not_deep_recursions():
    prog = netsor.Program()
    x = prog.initial("x")
    for _ in range(30):  # a residual stream: every level reads the one before twice
        x = prog.nonlin(lambda u, v: 0.5 * (u + v), x, x)
    assert abs(prog.limit(x).variance() - 1.0) < 1e-9
    prog = netsor.Program()
    W, state = prog.matrix("W"), prog.initial("s")
    for _ in range(400):
        state = W @ prog.nonlin("erf", state)
    assert 0 < prog.limit(state).variance() < 1

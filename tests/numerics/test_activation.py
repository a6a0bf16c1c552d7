import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.numerics import gaussian_expectation

CLOSED = ["identity", "relu", "erf", "gelu"]


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("a, b, c", [(1.0, 1.0, 0.0), (1.0, 1.0, 0.6), (0.5, 2.0, -0.7), (3.0, 0.2, 0.1)])
def test_dual_is_the_gaussian_integral(name, a, b, c):
    phi = ll.activation(name)
    root = np.linalg.cholesky([[a, c], [c, b]])

    def product(xi):
        u, v = jnp.asarray(root) @ xi
        return phi(u) * phi(v)

    value, error = gaussian_expectation(product, 2)
    assert phi.dual is not None
    assert abs(phi.dual(a, b, c) - value) < max(6 * error, 1e-7)


@pytest.mark.parametrize("name", CLOSED)
def test_dual_on_the_diagonal(name):
    phi = ll.activation(name)
    assert phi.dual is not None
    assert abs(phi.dual(1.0, 1.0, 1.0) - phi.moments()[1]) < 1e-8
    assert abs(phi.dual(1.0, 1.0, 0.0) - phi.moments()[0] ** 2) < 1e-8


def test_dual_of_a_dead_token():
    assert ll.activation("relu").dual(np.float64(0.0), np.float64(2.0), np.float64(0.0)) == 0.0  # type: ignore[misc]


@pytest.mark.parametrize(
    "spec, name", [("tanh", "tanh"), (jax.nn.relu, "relu"), (jnp.tanh, "tanh"), (ll.clip(2.0), "clip(2.0)")]
)
def test_what_counts_as_an_activation(spec, name):
    assert repr(ll.activation(spec)) == name


def test_clip_clips():
    assert np.array_equal(ll.clip(2.0)(jnp.asarray([-5.0, 1.0, 3.0])), [-2.0, 1.0, 2.0])


@pytest.mark.parametrize(
    "spec, match",
    [
        ("swish", "'relu'.*clip"),
        (lambda x: jnp.stack([x, x]), "one real number"),
        (lambda x: x > 0, "one real number"),
        (lambda x, y: x, "fails on 1 numbers"),
    ],
)
def test_refusals(spec, match):
    with pytest.raises((TypeError, ValueError), match=match):
        ll.activation(spec)


@pytest.mark.parametrize("bound", [0.0, -1.0, float("nan")])
def test_clip_refuses(bound):
    with pytest.raises(ValueError, match="positive"):
        ll.clip(bound)


@pytest.mark.parametrize("variance", [1.0, 1e4, 1e8, 1e12, 1e16])
@pytest.mark.parametrize("correlation", [-1.0, 0.3, 0.9999, 1.0])
def test_duals_of_large_variances_in_single_precision(variance, correlation):
    """Gelu is relu far out: its dual differs from relu's by at most 0.17 at any point, so the dual by less than 0.31 sqrt(variance)."""
    C = jnp.array([[1.0, correlation], [correlation, 1.0]], jnp.float32)[..., None] * variance
    gelu, relu = (ll.activation(name).kernel(C)[..., 0] for name in ("gelu", "relu"))
    size = float(np.sqrt(variance))
    np.testing.assert_allclose(gelu / variance, relu / variance, atol=0.31 / size + 2e-6)

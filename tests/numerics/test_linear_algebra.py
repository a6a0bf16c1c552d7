import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from same_law import assert_mean, assert_same_law, some_at_length

from limitlaw.numerics.bartlett import bartlett, bartlett_normals
from limitlaw.numerics.linalg import gram, multiply, psd_root


@hypothesis.given(
    size=st.sampled_from([1, 3, 8, 13]),
    rank=st.integers(0, 13),
    draws=st.sampled_from([(), (3,), (2, 5)]),
    seed=st.integers(0, 99),
)
@hypothesis.settings(max_examples=5)
def test_root_of_any_psd_matrix(size, rank, draws, seed):
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((size, rank, *draws)) * rng.choice([1e-3, 1.0, 1e3], (size, 1, *[1] * len(draws)))
    matrix = jnp.asarray(np.einsum("ik...,jk...->ij...", factor, factor), jnp.float32)
    root = psd_root(matrix)
    assert bool(jnp.isfinite(root).all())
    assert np.array_equal(np.triu(np.moveaxis(np.asarray(root), (0, 1), (-2, -1)), 1), np.zeros((*draws, size, size)))
    back = np.einsum("ik...,jk...->ij...", np.asarray(root, np.float64), np.asarray(root, np.float64))
    diagonal = np.sqrt(np.einsum("ii...->i...", np.asarray(matrix, np.float64)))
    error = np.abs(back - np.asarray(matrix)) / (diagonal[:, None] * diagonal[None] + 1e-30)
    assert np.einsum("ii...->i...", error).max() < 1e-6
    assert error.max() < (2e-3 if rank < size else 1e-5)


@pytest.mark.parametrize("rank", [100, 20])
def test_root_of_a_large_matrix(rank):
    """Where LAPACK does it, and where it cannot, since the matrix is singular."""
    factor = np.random.default_rng(0).standard_normal((70, rank, 2))
    matrix = np.einsum("ik...,jk...->ij...", factor, factor).astype(np.float32)
    root = np.asarray(jax.jit(psd_root)(jnp.asarray(matrix)), np.float64)
    assert not np.triu(root[..., 0], 1).any()
    back = np.einsum("ik...,jk...->ij...", root, root)
    assert np.abs(back - matrix).max() < (1e-5 if rank > 70 else 2e-3) * matrix.max()


def test_equal_tokens_have_a_rank_one_root():
    root = psd_root(jnp.ones((12, 12)))
    assert np.allclose(root[:, 0], 1.0)
    assert not np.asarray(root[:, 1:]).any()


@pytest.mark.parametrize("size", [3, 9, 17])
def test_multiply_is_matmul_for_every_draw(size):
    a, b = jax.random.normal(jax.random.key(0), (2, size, size, 7))
    expected = np.einsum("ikd,kjd->ijd", np.asarray(a, np.float64), np.asarray(b, np.float64))
    assert np.abs(multiply(a, b) - expected).max() < 1e-5 * size
    # trailing axes broadcast
    assert np.allclose(multiply(a[..., :1], b), multiply(jnp.broadcast_to(a[..., :1], a.shape), b), atol=1e-5)


@pytest.mark.parametrize(
    "shape", some_at_length([(3, 3, 8), (4, 4, 2), (3, 3, 1), (4, 2, 3), (5, 2, 1), (2, 2, 2)], [(4, 4, 2), (4, 2, 3)])
)
def test_bartlett_has_the_inner_products_of_gaussian_vectors(shape):
    """Against `T = X Q`, `X` drawn in full and `Q` the Gram-Schmidt frame of its first `axes` rows: compare `T T_axes^T`."""
    vectors, axes, dim = shape

    def by_factor(samples, seed):
        normals = jax.random.normal(jax.random.key(seed), (bartlett_normals(vectors, axes), samples))
        factor = bartlett(normals, vectors, axes, dim)
        return np.moveaxis(np.asarray(multiply(factor, jnp.swapaxes(factor[:axes], 0, 1))), -1, 0)

    def by_drawing(samples, seed):
        x = np.random.default_rng(seed).standard_normal((samples, vectors, dim)) / np.sqrt(dim)
        return x @ x[:, :axes].swapaxes(1, 2)

    assert_same_law(by_factor, by_drawing, samples=200_000)


def test_wishart_mean_and_determinant():
    """E det W(k, I) = k (k - 1) (k - 2) in three dimensions, a number that feels every entry of the factor."""
    factor = bartlett(jax.random.normal(jax.random.key(0), (6, 2_000_000)), 3, 3, 7)
    determinant = (factor[0, 0] * factor[1, 1] * factor[2, 2]) ** 2 * 7**3
    assert_mean(np.asarray(determinant), 7 * 6 * 5)
    assert_mean(np.asarray(gram(factor)[2, 2]), 1.0)

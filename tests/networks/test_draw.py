"""One draw as a pure function, one network with its weights, and draws that sampling and trajectories share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from same_law import assert_same_law

import limitlaw as ll

AR = 0.3 ** np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
KEYS = jax.random.split(jax.random.key(0), 512)


def mean_variance(*layers, token=2, width=16, **options):
    """The mean over keys of the variance of a token's output, as a function that JAX can differentiate."""
    net = ll.Network(ll.GramInputs(AR), *layers)
    return jax.vmap(lambda key: net.draw(key, width=width, token=token, observe="covariance", **options))(KEYS).mean()


def test_the_variance_is_proportional_to_the_square_of_a_value_std():
    value, slope = jax.value_and_grad(lambda std: mean_variance(ll.Attention(heads=2, value_std=std)))(1.5)
    assert float(slope) == pytest.approx(2 * float(value) / 1.5, rel=1e-5)


def test_one_token_does_not_depend_on_its_queries():
    def of_query_std(std):
        net = ll.Network(ll.GramInputs([[2.0]]), ll.Attention(head_dim=4, query_std=std))
        return jax.vmap(lambda key: net.draw(key, width=16, observe="covariance")[0, 0])(KEYS).mean()

    value, slope = jax.value_and_grad(of_query_std)(1.3)
    assert float(value) == pytest.approx(2.0, rel=0.2)
    assert abs(float(slope)) < 1e-5


@pytest.mark.parametrize(
    "layers",
    [
        lambda std: [ll.Attention(heads=2, head_dim=4, query_std=std)],
        lambda std: [ll.Residual(ll.LayerNorm(), ll.Attention(heads=2, mask="causal", query_std=std)), ll.MLP(ratio=2)],
        lambda std: [ll.Repeat(2, ll.Residual(ll.RMSNorm(), ll.Attention(rope=10.0, query_std=std), skip=0.8))],
    ],
    ids=["one layer", "pre-LN", "repeated"],
)
def test_derivatives_by_a_query_std_are_central_differences(layers):
    """With common keys the mean over draws is a smooth function, so differences have no noise but rounding."""

    def f(std):
        return mean_variance(*layers(std))

    std, step = 1.5, 0.02
    slope = jax.grad(f)(std)
    difference = (float(f(std + step)) - float(f(std - step))) / (2 * step)
    assert abs(difference) > 1e-3
    assert float(slope) == pytest.approx(difference, rel=0.02, abs=2e-4)


def test_one_trace_serves_every_key_and_every_std():
    traces = []

    @jax.jit
    def draw(key, std):
        traces.append(1)
        net = ll.Network(ll.GramInputs(AR), ll.Residual(ll.Attention(query_std=std)))
        return net.draw(key, width=16, observe="gram")

    grams = [draw(key, std) for key in KEYS[:3] for std in (0.5, 2.0)]
    assert len(traces) == 1
    assert len({float(gram[0, 0]) for gram in grams}) == 6


def test_a_draw_has_the_law_of_sampling():
    net = ll.Network(ll.Inputs(3, "relu"), ll.Residual(ll.LayerNorm(), ll.Attention(heads=2, mask="causal")))
    draw = jax.jit(jax.vmap(lambda key: net.draw(key, width=8, observe="gram")))
    assert_same_law(
        lambda count, seed: np.asarray(draw(jax.random.split(jax.random.key(seed), count))),
        lambda count, seed: net.sample(count, width=8, observe="gram", seed=seed),
        samples=20_000,
    )


def test_shapes_of_a_draw_are_those_of_sampling():
    net = ll.Network(ll.GramInputs(AR), ll.Attention(heads=2))
    for options in ({}, {"token": [0, 2]}, {"observe": "gram"}, {"observe": "scores", "token": 1}):
        assert net.draw(KEYS[0], width=8, **options).shape == net.sample(1, width=8, **options).shape[1:]


# What a network realises: weights by path, and the function of its tokens.

DEEP = ll.Network(
    ll.GaussianInputs(AR),
    ll.Repeat(2, ll.Residual(ll.RMSNorm(), ll.Attention(heads=2, head_dim=4, value_bias_std=0.5))),
    ll.Residual(ll.MLP("tanh", ratio=2, gated=True)),
)


def test_weights_have_the_paths_of_their_layers():
    one = DEEP.realise(width=8, seed=1)
    attention = {"query": (8, 8), "key": (8, 8), "value": (8, 8), "value.bias": (8,), "out": (8, 8)}
    expected = {f"0.{r}.0.1.{name}": shape for r in range(2) for name, shape in attention.items()}
    expected |= {"1.0.in": (8, 16), "1.0.gate": (8, 16), "1.0.out": (16, 8)}
    assert {path: weight.shape for path, weight in one.weights.items()} == expected
    assert not np.array_equal(one.weights["0.0.0.1.query"], one.weights["0.1.0.1.query"])
    again = DEEP.realise(width=8, seed=1)
    assert all(np.array_equal(one.weights[path], again.weights[path]) for path in expected)
    assert not np.array_equal(one.tokens, DEEP.realise(width=8, seed=2).tokens)


def test_a_realisation_is_a_function_of_tokens_and_weights():
    """By hand: an attention layer from its weights alone."""
    net = ll.Network(ll.GramInputs(AR), ll.Attention(heads=2, head_dim=4))
    one = net.realise(width=8, seed=0)
    x = np.asarray(one.tokens, np.float64)
    query, key, value = (
        (x @ np.asarray(one.weights[f"0.{name}"], np.float64)).reshape(3, 2, 4) for name in ("query", "key", "value")
    )
    scores = np.einsum("ihd,jhd->hij", query, key) / 2
    weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    mixed = np.einsum("hij,jhd->ihd", weights, value).reshape(3, 8)
    assert np.allclose(one(), mixed @ np.asarray(one.weights["0.out"]), atol=1e-4)
    assert np.allclose(one(2 * one.tokens)[0], one(jnp.asarray(2 * x))[0], atol=1e-5)
    doubled = {"0.out": 2 * one.weights["0.out"]}
    assert np.allclose(one(weights=doubled), 2 * one(), atol=1e-5)


def test_a_realisation_is_differentiable():
    """The derivative by a weight that the output is linear in, and by the tokens against a difference."""
    one = DEEP.realise(width=8, seed=0)

    def total(weights):
        return jnp.sum(one(weights=weights))

    slope = jax.jit(jax.grad(total))(one.weights)
    assert set(slope) == set(one.weights)
    last = "1.0.out"
    change = float(jnp.sum(slope[last] * one.weights[last]))
    without = total({last: jnp.zeros_like(one.weights[last])})
    assert change == pytest.approx(float(total({}) - without), rel=1e-3, abs=1e-3)
    direction = jax.random.normal(jax.random.key(3), one.tokens.shape)
    along = jnp.sum(jax.grad(lambda x: jnp.sum(one(x)))(one.tokens) * direction)
    step = 1e-2
    difference = (jnp.sum(one(one.tokens + step * direction)) - jnp.sum(one(one.tokens - step * direction))) / (
        2 * step
    )
    assert float(along) == pytest.approx(float(difference), rel=2e-2, abs=2e-2)


def test_realisations_have_the_law_of_dense_samples():
    net = ll.Network(ll.GaussianInputs(AR), ll.Residual(ll.Attention(head_dim=2)))

    def realised(count, seed):
        def gram(i):
            x = net.realise(width=4, seed=1000 * seed + i)()
            return x @ x.T / 4

        return np.stack([gram(i) for i in range(count)])

    assert_same_law(
        lambda count, seed: realised(count // 10, seed),
        lambda count, seed: net.sample(count, width=4, observe="gram", seed=seed, reading="dense"),
        samples=4000,
    )


# A sample and a trajectory with one seed are the same draws.

SAME = {
    "repeated": ll.Network(
        ll.GaussianInputs(AR),
        ll.Repeat(3, ll.Residual(ll.LayerNorm(), ll.Attention(heads=2)), ll.Residual(ll.RMSNorm(), ll.MLP("relu"))),
    ),
    "blocks": ll.Network(
        ll.GramInputs(AR),
        ll.Repeat(2, ll.Block(ll.Residual(ll.RMSNorm(), ll.Attention()), ll.Residual(ll.RMSNorm(), ll.MLP("gelu")))),
    ),
    "norms at the ends of branches": ll.Network(
        ll.GaussianInputs(AR),
        ll.Repeat(2, ll.Residual(ll.Attention(heads=2, mask="causal"), end=ll.RMSNorm())),
        ll.Residual(ll.MLP("tanh"), skip=0.5, end=ll.LayerNorm()),
    ),
    "sequences": ll.Network(
        ll.GaussianInputs(AR, sequences=(1, 2)),
        ll.OnSequence(0, ll.Residual(ll.RMSNorm(), ll.MLP("relu"))),
        ll.OnSequence(1, ll.Repeat(2, ll.Residual(ll.Attention()), ll.Residual(ll.Attention(context=0)))),
    ),
    "without skips": ll.Network(ll.Inputs(3, "relu"), ll.Attention(), ll.Dense("tanh"), ll.Linear()),
    "the last leaves a fresh matrix": ll.Network(ll.GramInputs(AR), ll.Repeat(2, ll.Attention(head_dim=4))),
}


@pytest.mark.parametrize("name", SAME)
def test_a_sample_is_the_end_of_a_trajectory(name):
    net = SAME[name]
    last = net.trajectory(40, width=16, seed=7).gram[:, -1]
    gram = net.sample(40, width=16, observe="gram", seed=7)
    assert np.allclose(gram, last, rtol=1e-4, atol=1e-4 * np.abs(last).max())


def test_a_token_gives_the_same_output_in_every_choice_of_tokens():
    """The seed decides the draws, and what is observed of them does not."""
    net = SAME["repeated"]
    both = net.sample(30, width=16, token=[0, 2], observe="covariance", seed=3)
    whole = net.sample(30, width=16, observe="covariance", seed=3)
    assert np.allclose(both, whole[:, [0, 2]][:, :, [0, 2]], rtol=1e-4, atol=1e-4)

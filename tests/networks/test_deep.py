"""Whole transformers: the Gram reading against real weights, and against what is known exactly."""

import re
from math import inf

import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
from same_law import FALSE_ALARM, assert_same_law, examples, smallest_p, some_at_length

import limitlaw as ll
from limitlaw._checks import ArgumentError
from limitlaw.networks.cost import batch_size, working_memory
from limitlaw.networks.trajectory import excess_kurtosis

AR = 0.3 ** np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
SCORE_BIAS = np.random.default_rng(0).normal(size=(2, 4, 4))


def attention(**options):
    return ll.Attention(**({"heads": 2, "head_dim": "split", "query_std": 2.0} | options))


# Between them: every layer, every option of attention, every kind of inputs, one and several sequences.
NETWORKS = {
    "pre-LN": ll.Network(
        ll.GramInputs(AR, mean=[0.5, 0.2, -0.3, 0.0]),
        ll.Repeat(2, ll.Residual(ll.LayerNorm(), attention()), ll.Residual(ll.LayerNorm(), ll.MLP("gelu", ratio=2))),
    ),
    "llama": ll.Network(
        ll.Embedding([1, 2, 1, 5], positions="sinusoidal", position_std=0.7, norm=ll.RMSNorm(1e-5)),
        ll.Residual(ll.RMSNorm(), attention(heads=4, kv_heads=2, head_dim=4, rope=100.0)),
        ll.Residual(ll.RMSNorm(), ll.MLP("silu", gated=True, gate_std=1.5, ratio=2, in_bias_std=0.3)),
        ll.Readout(ll.RMSNorm(), std=2.0, bias_std=0.5),
    ),
    "biases": ll.Network(
        ll.GaussianInputs(AR),
        attention(query_bias_std=0.7, key_bias_std=0.5, value_bias_std=0.6, out_bias_std=0.3, score_bias=SCORE_BIAS),
    ),
    "decoder": ll.Network(
        ll.GramInputs(AR, sequences=(2, 2)),
        ll.OnSequence(0, ll.Residual(ll.LayerNorm(), attention()), ll.LayerNorm()),
        ll.OnSequence(
            1,
            ll.Repeat(
                2,
                ll.Residual(attention(mask="causal")),
                ll.LayerNorm(),
                ll.Residual(attention(context=0)),
                ll.Residual(ll.MLP("erf"), skip=0.6),
            ),
        ),
    ),
    "post-LN": ll.Network(
        ll.GramInputs(AR),
        ll.Repeat(
            2,
            ll.Residual(attention(mask="causal")),
            ll.LayerNorm(),
            ll.Residual(ll.MLP("tanh", ratio=2, in_bias_std=0.5, out_bias_std=0.4), skip=0.7),
            ll.LayerNorm(),
        ),
    ),
    "alibi, two sequences, no skip": ll.Network(
        ll.Embedding([[1, 2], [2, 3]], positions="learned", padding=3, types=[[0, 0], [1, 0]], type_std=0.4),
        attention(score_bias="alibi"),
        ll.MLP("relu", width=7),
    ),
    "context without skip": ll.Network(
        ll.GramInputs(AR, sequences=(2, 2)), ll.OnSequence(1, attention(context=0)), ll.Residual(attention())
    ),
    "multi-query": ll.Network(ll.GramInputs(AR), attention(heads=4, kv_heads=1, head_dim=4)),
    "nonlinear inputs": ll.Network(ll.Inputs(3, "relu"), ll.Residual(ll.LayerNorm(), attention())),
    "a stack without skips": ll.Network(ll.GaussianInputs(AR), ll.Repeat(3, attention(head_dim=5), ll.MLP("silu"))),
    "nine tokens": ll.Network(
        ll.GaussianInputs(np.eye(9)),
        ll.Residual(ll.LayerNorm(), attention(kv_heads=1)),
        ll.Residual(ll.RMSNorm(), ll.MLP("gelu_tanh", ratio=0.5)),
    ),
}


def check(net, width, observe, samples=20_000):
    assert_same_law(
        lambda count, seed: net.sample(count, width=width, observe=observe, seed=seed),
        lambda count, seed: net.sample(count, width=width, observe=observe, seed=seed, reading="dense"),
        samples=samples,
    )


def test_gram_is_dense():
    check(NETWORKS["pre-LN"], 16, "gram")


def test_fewer_coordinates_than_tokens():
    """Where there are more tokens than coordinates, a frame of the tokens has no more axes than the width."""
    narrow = ll.Network(ll.GaussianInputs(AR), *[ll.Residual(attention(head_dim=3))] * 2)
    check(narrow, 2, "gram")


@pytest.mark.full
def test_heads_of_a_group_have_biases_of_their_own():
    bias = np.arange(4.0)[:, None, None] * np.array([[0.0, 1.0], [-1.0, 0.0]])
    check(
        ll.Network(ll.GramInputs(AR[:2, :2]), attention(heads=4, kv_heads=2, head_dim=4, score_bias=bias)), 16, "gram"
    )


@pytest.mark.full
@pytest.mark.parametrize("observe", ["gram", "covariance", "scores"])
@pytest.mark.parametrize("name", [*NETWORKS])
def test_gram_is_dense_in_everything_observed(name, observe):
    check(NETWORKS[name], 16, observe)


@pytest.mark.full
def test_many_tokens_on_several_threads():
    """More tokens than are written out, several blocks: two threads once locked up in LAPACK."""
    net = ll.Network(ll.GaussianInputs(np.eye(12)), ll.Residual(ll.LayerNorm(), ll.Attention(heads=2, head_dim=4)))
    gram = net.sample(6000, width=32, observe="gram").astype(np.float64)
    assert np.abs(gram.mean(axis=0)[0, 1] / (gram[:, 0, 1].std() / 6000**0.5)) > 10  # attention makes tokens alike


@pytest.mark.parametrize("layer", [ll.MLP("relu"), ll.Attention(heads=2, head_dim=1)], ids=["mlp", "attention"])
def test_tokens_span_no_more_than_the_width(layer):
    """Rounding is no dimension: of three tokens of width 2 the Gram matrix is singular, but for draws in which it was so close to rank 1 that rounding decides."""
    t = ll.Network(ll.GaussianInputs(np.eye(3)), ll.Repeat(4, ll.Residual(layer))).trajectory(10_000, width=2)
    least, *_, largest = np.moveaxis(np.linalg.eigvalsh(t.gram.astype(np.float64)), -1, 0)
    assert ((least / largest > 1e-3).mean(axis=0) < 1e-3).all()


@pytest.mark.parametrize("width", some_at_length([2, 3], quick=[3]))
def test_fewer_dimensions_than_tokens(width):
    net = ll.Network(
        ll.GaussianInputs(AR),
        ll.Residual(ll.Attention(heads=2, head_dim=3)),
        ll.Residual(ll.LayerNorm(), ll.MLP("relu", ratio=1)),
    )
    check(net, width, "gram")


def test_enough_samples_to_catch_two_percent():
    """The comparison would fail if an output matrix were 2 % too large."""

    def net(factor):
        return ll.Network(ll.GramInputs(AR), ll.Residual(ll.RMSNorm(), attention(out_std=factor)))

    right = net(1.0).sample(20_000, width=64, observe="gram")
    assert smallest_p(right, net(1.0).sample(20_000, width=64, observe="gram", seed=1)) > FALSE_ALARM
    assert smallest_p(right, net(1.02).sample(20_000, width=64, observe="gram", seed=1)) < FALSE_ALARM


class Squeeze(ll.Layer):
    """A layer as users write it: fewer hidden units, a bias, another activation by name."""

    ratio: float = 0.25
    phi: str = "sin"
    std: float = 1.0

    def matrices(self, width, layout):
        return {"in": ll.Matrix(self.ratio * width, std=self.std, bias_std=0.3), "out": ll.Matrix(width)}

    def inner(self, u, context):
        return getattr(jnp, self.phi)(u["in"])


def norms(draw):
    return draw(st.sampled_from([(), (ll.RMSNorm(1e-3),), (ll.LayerNorm(1e-3),)]))


def random_attention(draw, tokens, width):
    heads = draw(st.sampled_from([1, 2, 4]))
    mask = draw(st.sampled_from([None, "causal", "random"]))
    if mask == "random":
        mask = np.random.default_rng(draw(st.integers(0, 99))).random((tokens, tokens)) < 0.5
        mask |= np.eye(tokens, dtype=bool)
    head_dim = draw(st.sampled_from([None, "split", 6]))
    even = head_dim == 6 or (width if head_dim is None else width // heads) % 2 == 0
    return ll.Attention(
        heads,
        head_dim=head_dim,
        kv_heads=draw(st.sampled_from([None, 1, heads])),
        mask=mask,
        scale=draw(st.sampled_from(["sqrt", "linear", 0.6])),
        rope=draw(st.sampled_from([None, 50.0])) if even else None,
        score_bias=draw(st.sampled_from([None, "alibi"])),
        query_std=1.6,
        out_std=draw(st.sampled_from([1.0, 0.7])),
        key_bias_std=draw(st.sampled_from([0.0, 0.5])),
        value_bias_std=draw(st.sampled_from([0.0, 0.5])),
    )


def random_branch(draw, tokens, width):
    """A layer that ends in a fresh matrix."""
    kind = draw(st.sampled_from(["attention", "attention", "mlp", "linear", "own"]))
    if kind == "attention":
        return random_attention(draw, tokens, width)
    if kind == "linear":
        return ll.Linear(std=draw(st.sampled_from([1.0, 0.8])), bias_std=draw(st.sampled_from([0.0, 0.4])))
    if kind == "own":
        return Squeeze(ratio=draw(st.sampled_from([0.25, 0.5])), phi=draw(st.sampled_from(["sin", "tanh"])), std=1.3)
    return ll.MLP(
        draw(st.sampled_from(["relu", "tanh"])),
        ratio=draw(st.sampled_from([0.5, 2.0])),
        gated=draw(st.booleans()),
        in_bias_std=draw(st.sampled_from([0.0, 0.5])),
    )


@st.composite
def stacks(draw):
    """Random transformers of every kind of layer, with real weights to compare with."""
    tokens, width = draw(st.integers(1, 4)), draw(st.sampled_from([4, 8, 12]))
    sequences = [1, tokens - 1] if tokens > 1 and draw(st.booleans()) else None
    x = np.random.default_rng(draw(st.integers(0, 99))).standard_normal((tokens, tokens))
    gaussian = ll.GaussianInputs(x @ x.T / tokens, sequences=sequences)
    ids = ll.Embedding([*range(tokens - 1), 0], positions="learned")
    inputs = gaussian if sequences else draw(st.sampled_from([gaussian, ll.Inputs(tokens, "tanh"), ids]))
    layers = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["residual", "residual", "repeat", "block", "dense"]))
        if kind == "dense":
            layers.append(ll.Dense(draw(st.sampled_from(["relu", "tanh"])), std=1.3, bias_std=0.2))
            continue
        before, branch = norms(draw), random_branch(draw, tokens, width)
        if kind == "repeat":
            layers.append(ll.Repeat(draw(st.integers(1, 2)), *before, branch))
            continue
        end = draw(st.sampled_from([None, ll.RMSNorm(1e-3), ll.LayerNorm(1e-3)]))
        residual = ll.Residual(*before, branch, skip=draw(st.sampled_from([1.0, -0.5])), end=end)
        if sequences and draw(st.booleans()):
            residual = ll.OnSequence(1, residual)
        layers.append(ll.Block(residual, *norms(draw)) if kind == "block" else residual)
    last = norms(draw)
    end = (ll.Readout(*last, std=1.3, bias_std=0.2),) if draw(st.booleans()) else last
    return ll.Network(inputs, *layers, *end), width


@examples(stacks(), st.sampled_from(["gram", "gram", "covariance"]), quick=3, full=15, long=100)
def test_random_transformers(drawn, observe):
    net, width = drawn
    check(net, width, observe)


PERCEPTRONS = [
    (name, gated) for name in ("relu", "erf", "gelu", "gelu_tanh", "tanh", "silu") for gated in (False, True)
]


@pytest.mark.parametrize(
    "case", some_at_length(PERCEPTRONS, quick=[("relu", False), ("gelu", False), ("tanh", False), ("silu", True)])
)
def test_hidden_units_have_the_dual_activation_as_their_mean(case):
    """`E phi(h) phi(h)^T / m` does not depend on `m`: drawn units against the formula behind `width=inf`."""
    name, gated = case

    def net(width):
        layer = ll.MLP(name, width=width, in_std=1.5, out_std=1.2, gated=gated, gate_std=0.8, in_bias_std=0.4)
        return ll.Network(ll.GramInputs(AR), layer)

    drawn = net(64).sample(20_000, width=8, observe="covariance").astype(np.float64)
    limit = net(inf).sample(1, width=8, observe="covariance")[0]
    z = (drawn.mean(axis=0) - limit) / (drawn.std(axis=0) / np.sqrt(len(drawn)))
    assert np.abs(z).max() < 4.5  # 12 x 10 comparisons: a false alarm in a thousand
    assert np.all(drawn.std(axis=0) / np.sqrt(len(drawn)) < 0.005 * limit[0, 0])  # 2 % would be four errors


@pytest.mark.parametrize("phi", [lambda x: x**2, lambda x: x**3 - x])
def test_dual_of_a_function(phi):
    """Polynomials have finite series: `E u^2 v^2 = ab + 2 c^2`, and `E (u^3 - u)(v^3 - v)` by Isserlis."""
    a, b, c = AR[0, 0] * 1.44, AR[1, 1] * 1.44, AR[0, 1] * 1.44
    squares = a * b + 2 * c**2
    cubes = 9 * a * b * c + 6 * c**3 - 3 * (a + b) * c + c
    expected = squares if phi(2.0) == 4.0 else cubes
    net = ll.Network(ll.GramInputs(AR), ll.MLP(phi, width=inf, in_std=1.2))
    assert net.sample(1, width=8, observe="covariance")[0, 0, 1] == pytest.approx(expected, rel=2e-5)


def test_norms():
    K = np.array([[4.0, 1.0], [1.0, 2.0]])
    mean = np.array([1.0, -0.5])
    inputs = ll.GramInputs(K, mean=mean)
    rms = ll.Network(inputs, ll.RMSNorm(eps=0.5)).sample(1, width=9, observe="gram")[0]
    assert rms == pytest.approx(K / np.sqrt(np.outer(np.diag(K) + 0.5, np.diag(K) + 0.5)), rel=1e-5)
    centred = K - np.outer(mean, mean)
    layer = ll.Network(inputs, ll.LayerNorm(eps=0.5)).sample(1, width=9, observe="gram")[0]
    scale = 1 / np.sqrt(np.diag(centred) + 0.5)
    assert layer == pytest.approx(centred * np.outer(scale, scale), rel=1e-5)


def test_the_mean_survives_a_skip():
    """Pre-LN at infinite width: the coordinate mean stays, so a second LayerNorm takes it out again."""
    inputs = ll.GramInputs(np.eye(2) + 0.5, mean=[0.7, 0.7])
    zero = ll.Residual(ll.LayerNorm(0.0), ll.MLP("identity", width=inf))
    K = ll.Network(inputs, zero).sample(1, width=inf, observe="gram")[0]
    centred = ll.Network(inputs, zero, ll.LayerNorm(0.0)).sample(1, width=inf, observe="gram")[0]
    own, across = 1.5 - 0.49 + 1.0, (0.5 - 0.49) + (0.5 - 0.49) / (1.5 - 0.49)
    assert K[0, 0] == pytest.approx(2.5, rel=1e-5)
    assert centred[0, 1] == pytest.approx(across / own, rel=1e-4)


def test_one_token_multiplies_two_chi_squares_in_every_layer():
    """Attention-only, collapsed: `1 + kappa / 3 = ((1 + 2/n) (1 + 2/(H d)))^L`, exactly (each layer a value and an output matrix)."""
    n, heads, dim, layers = 40, 2, 10, 3
    net = ll.Network(ll.GramInputs([[1.0]]), ll.Repeat(layers, ll.Attention(heads=heads, head_dim=dim)))
    t = net.trajectory(200_000, width=n)
    expected = 3 * (((1 + 2 / n) * (1 + 2 / (heads * dim))) ** np.arange(layers + 1) - 1)
    z = (t.kurtosis[1:, 0] - expected[1:]) / t.error("kurtosis")[1:, 0]
    assert np.abs(z).max() < 4
    assert np.all(t.error("kurtosis")[1:, 0] < 0.02 * expected[1:])


@pytest.mark.full
def test_the_first_token_of_a_causal_stack_is_gaussian_in_the_limit():
    """It attends to itself alone: at infinite width its variance is that of the network without attention mixing."""
    net = ll.Network(
        ll.GramInputs(AR),
        ll.Repeat(
            3, ll.Residual(ll.LayerNorm(0.0), attention(mask="causal")), ll.Residual(ll.LayerNorm(0.0), ll.MLP("relu"))
        ),
    )
    t = net.trajectory(200, width=inf)
    assert np.allclose(t.gram[:, :, 0, 0], [1.0, 2.5, 4.0, 5.5], rtol=1e-5)
    assert np.all(t.kurtosis[1:, 3] > 100 * t.kurtosis[1:, 0])


@pytest.mark.full
def test_equal_tokens_stay_equal():
    K = np.array([[1.0, 1.0, 0.2], [1.0, 1.0, 0.2], [0.2, 0.2, 1.0]])
    net = ll.Network(
        ll.GramInputs(K), ll.Repeat(2, ll.Residual(ll.LayerNorm(), attention()), ll.Residual(ll.MLP("tanh")))
    )
    t = net.trajectory(500, width=32)
    assert np.all(np.abs(t.cosine[:, 0, 1] - 1) < 1e-5)
    assert np.all(t.cosine[1:, 0, 2] < 0.9)


@pytest.mark.full
def test_equal_sequences_through_one_network_stay_equal_and_differ_between_networks():
    ids = [[4, 7, 9], [4, 7, 9]]
    block = ll.Residual(ll.LayerNorm(), attention(mask="causal")), ll.Residual(ll.LayerNorm(), ll.MLP("gelu"))
    gram = ll.Network(ll.Embedding(ids, positions="learned"), *block).sample(300, width=24, observe="gram")
    assert gram[:, :3, :3] == pytest.approx(gram[:, 3:, 3:], rel=2e-3, abs=2e-3)
    assert gram[:, :3, :3] == pytest.approx(gram[:, :3, 3:], rel=2e-3, abs=2e-3)
    assert gram[:, 2, 2].std() > 0.1


@pytest.mark.parametrize("head_dim", [8, inf])
def test_rotated_scores_have_their_covariance(head_dim):
    """`Cov(p_ij, p_kl) = beta^2 K_ik K_jl rho((j - i) - (l - k))`, `rho(D)` the mean of `cos(theta D)` (THEORY_DEEP, section 3)."""
    frequencies = np.array([1.0, 0.4, 0.15, 0.02])
    net = ll.Network(ll.GramInputs(AR), ll.Attention(head_dim=head_dim, rope=frequencies, query_std=1.5, key_std=0.8))
    samples = 200_000
    p = net.sample(samples, width=64, observe="scores")[:, 0].astype(np.float64).reshape(samples, 16)
    i, j = np.divmod(np.arange(16), 4)
    turn = (j - i)[:, None] - (j - i)
    rho = np.mean(np.cos(np.multiply.outer(turn, frequencies)), axis=2)
    expected = 1.44 * AR[np.ix_(i, i)] * AR[np.ix_(j, j)] * rho
    products = np.einsum("ni,nj->ij", p, p) / samples
    error = np.sqrt(np.einsum("ni,nj->ij", p**2, p**2) / samples - products**2) / np.sqrt(samples)
    assert np.abs((products - expected) / error).max() < 4.8  # 136 entries
    assert np.diag(error).max() < 0.005 * np.diag(expected).max()


def test_rope_of_a_base_has_its_frequencies():
    layer = ll.Attention(head_dim=8, rope=10_000.0)
    assert layer.frequencies(8, 4)[0] == pytest.approx([1.0, 0.1, 0.01, 0.001])
    # at infinite dimension, a rule for the average of cos(base^-u D) over u
    u = (np.arange(100_000) + 0.5) / 100_000
    for distance in (1, 5, 20):
        expected = np.cos(10_000.0**-u * distance).mean()
        nodes, weights = layer.frequencies(inf, 24)
        assert weights @ np.cos(nodes * distance) == pytest.approx(expected, abs=1e-6)


def test_heads_that_share_keys_are_uncorrelated_but_not_independent():
    """`E p^a p^b = 0`; their squares are correlated through the shared keys at a finite head dimension, `2 / d` relative."""
    d = 4
    net = ll.Network(ll.GramInputs(np.eye(2)), ll.Attention(heads=2, kv_heads=1, head_dim=d))
    p = net.sample(400_000, width=8, observe="scores")[:, :, 0, 0].astype(np.float64)
    first = (p[:, 0] * p[:, 1]).mean() / ((p[:, 0] * p[:, 1]).std() / np.sqrt(len(p)))
    squares = p[:, 0] ** 2 * p[:, 1] ** 2
    assert abs(first) < 4
    assert abs(squares.mean() - (1 + 2 / d)) < 4 * squares.std() / np.sqrt(len(p))


def test_embeddings():
    ids = [[3, 17, 3], [5, 17]]
    inputs = ll.Embedding(ids, std=0.5, positions="learned", position_std=0.3, types=[[0, 0, 1], [1, 1]], type_std=0.2)
    flat, place, kind = [3, 17, 3, 5, 17], [0, 1, 2, 0, 1], [0, 0, 1, 1, 1]
    expected = [
        [0.25 * (flat[i] == flat[j]) + 0.09 * (place[i] == place[j]) + 0.04 * (kind[i] == kind[j]) for j in range(5)]
        for i in range(5)
    ]
    assert inputs.limit_gram() == pytest.approx(np.array(expected))
    gram = ll.Network(inputs).sample(20_000, width=16, observe="gram").astype(np.float64)
    z = (gram.mean(axis=0) - expected) / (gram.std(axis=0) / np.sqrt(len(gram)))
    assert np.abs(z).max() < 4.2


def test_sinusoidal_positions():
    """Vaswani et al.: sines in even columns, cosines in odd ones; the Gram matrix is the mean of `cos(w_i (p - q)) / 2`."""
    inputs = ll.Embedding([1, 2, 3], std=0.0, positions="sinusoidal")
    width = 6
    table = np.zeros((3, width))
    for position in range(3):
        for i in range(width // 2):
            table[position, 2 * i] = np.sin(position / 10_000 ** (2 * i / width))
            table[position, 2 * i + 1] = np.cos(position / 10_000 ** (2 * i / width))
    gram = ll.Network(inputs).sample(1, width=width, observe="gram")[0]
    assert gram == pytest.approx(table @ table.T / width, abs=1e-6)
    normal = ll.Network(inputs, ll.LayerNorm(0.0)).sample(1, width=width, observe="gram")[0]
    centred = table - table.mean(axis=1, keepdims=True)
    centred /= centred.std(axis=1, keepdims=True)
    assert normal == pytest.approx(centred @ centred.T / width, abs=1e-5)
    wide = ll.Network(inputs).sample(1, width=2**14, observe="gram")[0]
    assert inputs.limit_gram() == pytest.approx(wide, abs=1e-3)


def test_readout():
    net = ll.Network(ll.GramInputs(4 * AR), ll.Readout(ll.RMSNorm(), std=3.0, bias_std=2.0))
    assert net.sample(1, width=16, observe="gram")[0] == pytest.approx(AR, abs=1e-6)
    assert net.sample(1, width=16, observe="covariance")[0] == pytest.approx(9 * AR + 4, rel=1e-5)
    law = net.law(width=16)
    assert law.variance() == pytest.approx(13.0, rel=1e-5)
    assert law.kurtosis() == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize(
    "name, net, options, expected, errors",
    [
        ("R1", (np.eye(4), ll.Attention()), {}, (0.39195, 0.012460, 0.2435), (5e-5, 4e-5, 7e-4)),
        pytest.param(
            "R2",
            (np.eye(4), ll.Attention(heads=4)),
            {},
            (0.39207, 0.0031254, 0.0610),
            (1.3e-4, 1e-5, 2e-4),
            marks=pytest.mark.full,
        ),
        pytest.param(
            "R3",
            (AR, ll.Attention(query_std=2.0)),
            {},
            (0.63072, 0.023700, 0.1787),
            (2.4e-4, 5e-5, 3e-4),
            marks=pytest.mark.full,
        ),
        ("R4", (AR, ll.Attention(head_dim=4, query_std=2.0)), {}, (0.60532, 0.22177, 1.816), (7.4e-4, 9e-4, 6e-3)),
        pytest.param(
            "R5",
            (AR, ll.Attention(head_dim=64, query_std=2.0)),
            {},
            (0.62903, 0.037173, 0.2818),
            (3e-4, 9e-5, 6e-4),
            marks=pytest.mark.full,
        ),
        pytest.param(
            "R6",
            (np.eye(4), ll.Repeat(8, ll.Attention(query_std=4.0))),
            {},
            (0.52235, 0.030911, 0.3399),
            (5.6e-4, 1.2e-4, 1.1e-3),
            marks=pytest.mark.full,
        ),
    ],
)
def test_reference_values(name, net, options, expected, errors):
    """Independent chain, float64 numpy: expectation, variance and excess kurtosis of `v = K_44` at infinite width, with its standard errors."""
    K, layers = net
    v = (
        ll.Network(ll.GramInputs(K), layers)
        .sample(200_000, width=inf, observe="gram", **options)[:, 3, 3]
        .astype(float)
    )
    kurtosis, error = excess_kurtosis(v)
    ours = (v.mean(), v.var(), float(kurtosis))
    own = (v.std() / len(v) ** 0.5, ((v - v.mean()) ** 2).std() / len(v) ** 0.5, float(error))
    for value, theirs, mine, reference in zip(ours, errors, own, expected, strict=True):
        assert abs(value - reference) < 4 * np.hypot(theirs, mine), (name, ours, expected)


@pytest.mark.parametrize(
    "width, blocks, mean, std, kurtosis",
    [
        pytest.param(64, 1, (0.4899, 0.0015), 0.1511, (0.285, 0.005), marks=pytest.mark.full),
        (64, 8, (0.4307, 0.0035), 0.3451, (1.93, 0.05)),
        pytest.param(256, 8, (0.4262, 0.0035), 0.1604, (0.425, 0.017), marks=pytest.mark.full),
    ],
)
def test_stacks_of_torch_attention(width, blocks, mean, std, kurtosis):
    """Stacks of `nn.MultiheadAttention` with Gaussian weights, thousands of them (THEORY_DEEP 6.1): mean, sd and kurtosis of `K_ss`, with standard errors."""
    t = ll.Network(ll.GramInputs(AR), ll.Repeat(blocks, ll.Attention())).trajectory(20_000, width=width)
    assert abs(t.variance[-1, -1] - mean[0]) < 4 * np.hypot(mean[1], t.error("variance")[-1, -1])
    assert abs(t.kurtosis[-1, -1] - kurtosis[0]) < 4 * np.hypot(kurtosis[1], t.error("kurtosis")[-1, -1])
    assert t.gram[:, -1, -1, -1].std() == pytest.approx(std, rel=0.08)


@pytest.mark.full
def test_depth_over_width():
    """Excess kurtosis after 8 layers of attention alone, beta = 2: what the limit has, and what `L / n` adds. Means of the printed chain (THEORY_DEEP 6.5), and at n = 64, where
    its draws are too few for the tail, its product formula `(1 + 2/n)^16 (1 + .185/3)`."""
    net = ll.Network(ll.GramInputs(np.eye(4)), ll.Repeat(8, ll.Attention(query_std=2.0)))
    for width, expected in (
        (64, 3 * ((1 + 2 / 64) ** 16 * (1 + 0.185 / 3) - 1)),
        (256, 0.615),
        (1024, 0.286),
        (4096, 0.211),
        (inf, 0.185),
    ):
        t = net.trajectory(200_000, width=width)
        assert abs(t.kurtosis[8, 3] - expected) < 0.02 * expected + 4 * t.error("kurtosis")[8, 3]


@pytest.mark.full
@pytest.mark.parametrize(
    "gain, hidden, slope",
    [(1.0, 1.0, -0.525), (1.0, 3.0, -0.305), (2.0, 1.0, -0.680), (1.0, 0.0, -1.009)],
)
def test_pre_ln_collapses_like_a_power_of_depth(gain, hidden, slope):
    """Slope of `log(1 - cos)` from 256 to 512 blocks: theory -g_a / (g_a + g_m) with corrections; the chain of THEORY_DEEP 6.5 printed these."""
    block = [ll.Residual(ll.LayerNorm(0.0), ll.Attention(heads=2, out_std=gain**0.5))]
    if hidden:
        block.append(ll.Residual(ll.LayerNorm(0.0), ll.MLP("relu", width=inf, out_std=(2 * hidden) ** 0.5)))
    t = ll.Network(ll.GramInputs(AR), ll.Repeat(512, *block)).trajectory(256, width=inf)
    gap = 1 - t.cosine[:, 0, 1]
    assert np.log(gap[512] / gap[256]) / np.log(2) == pytest.approx(slope, abs=0.03)


@pytest.mark.parametrize(
    "layers, factor",
    [
        pytest.param([ll.Residual(ll.Attention(heads=2))], 0.5, marks=pytest.mark.full),
        pytest.param([ll.Residual(ll.Attention(heads=2, out_std=0.5**0.5))], 2 / 3, marks=pytest.mark.full),
        (
            [
                ll.Residual(ll.Attention(heads=2)),
                ll.LayerNorm(0.0),
                ll.Residual(ll.MLP("relu", width=inf, out_std=2**0.5)),
                ll.LayerNorm(0.0),
            ],
            0.5,
        ),
    ],
    ids=["skip", "skip, smaller gain", "post-LN"],
)
def test_skips_contract_by_a_factor(layers, factor):
    """`1 - cos` per layer: 1 / (1 + g_a) with a skip, and for post-LN with relu (THEORY_DEEP 5.1)."""
    t = ll.Network(ll.GramInputs(AR), ll.Repeat(18, *layers)).trajectory(1000, width=inf)
    gap = 1 - t.cosine[:, 0, 1]
    assert gap[18] / gap[17] == pytest.approx(factor, rel=0.015)


def test_attention_alone_collapses_cubically():
    """Median of `1 - cos` over layers: .152, 2.2e-4, then below rounding (THEORY_DEEP 6.5)."""
    t = ll.Network(ll.GramInputs(AR), ll.Repeat(2, ll.Attention(heads=1))).trajectory(20_000, width=inf)
    length = np.sqrt(np.diagonal(t.gram, axis1=2, axis2=3))
    gap = np.median(1 - t.gram[..., 0, 1] / (length[..., 0] * length[..., 1]), axis=0)
    assert gap[2] < 20 * gap[1] ** 3
    assert gap[2] > 1e-5


@pytest.mark.full
def test_trajectory_ends_where_sampling_does():
    net = NETWORKS["pre-LN"]
    assert_same_law(
        lambda count, seed: net.trajectory(count, width=16, seed=seed).gram[:, -1],
        lambda count, seed: net.sample(count, width=16, observe="gram", seed=seed + 1),
        samples=20_000,
    )
    t = net.trajectory(10, width=16)
    assert np.allclose(t.gram[:, 0], AR, atol=1e-6)
    assert t.blocks == 2


@pytest.mark.full
def test_entropies_are_those_of_the_scores():
    """The entropy of the last attention layer, from a trajectory and from softmaxes of the scores of dense networks."""
    net = NETWORKS["decoder"]

    def from_scores(count, seed):
        p = net.sample(count, width=16, observe="scores", seed=seed, reading="dense")[:, :, 2:, :2].astype(np.float64)
        p = np.exp(p - p.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        return -(p * np.log(p)).sum(axis=-1).reshape(count, -1)

    def from_trajectory(count, seed):
        t = net.trajectory(count, width=16, seed=seed)
        assert t.attention_blocks == (1, 3, 3, 4, 4)
        return t.entropies[-1][:, :, 2:].reshape(count, -1)

    assert_same_law(from_trajectory, from_scores, samples=20_000)


def test_observables_of_known_draws():
    """Hand-made Gram matrices: cosine 1/2, effective rank 4 / (2 + 2/4) = 1.6, kurtosis of two equally likely variances."""
    from limitlaw.networks import Trajectory

    v = np.tile([1.0, 3.0], 500)
    gram = np.array([[1.0, 0.5], [0.5, 1.0]]) * v[:, None, None, None]
    t = Trajectory(gram, (), (), inf)
    assert t.variance[0] == pytest.approx([2.0, 2.0])
    assert t.cosine[0, 0, 1] == pytest.approx(0.5)
    assert t.effective_rank == pytest.approx([1.6])
    assert t.kurtosis[0, 0] == pytest.approx(3 * 1.0 / 4.0, rel=5e-3)
    assert t.error("variance")[0, 0] == pytest.approx(1 / np.sqrt(1000), rel=1e-3)
    # P(y < x) = (Phi(x) + Phi(x / sqrt 3)) / 2, solved by hand for 0.975
    from scipy.optimize import brentq
    from scipy.stats import norm

    x = brentq(lambda x: (norm.cdf(x) + norm.cdf(x / 3**0.5)) / 2 - 0.975, 0, 10)
    assert t.quantile_ratio(0.975)[0, 0] == pytest.approx(x / (1.959964 * 2**0.5), rel=1e-6)


@pytest.mark.full
def test_errors_of_observables_are_honest():
    """Standard errors against the spread over seeds."""
    net = ll.Network(ll.GramInputs(AR), ll.Repeat(2, attention(head_dim=6)))
    runs = [net.trajectory(400, width=16, seed=seed) for seed in range(60)]
    for name in ("variance", "kurtosis", "cosine", "effective_rank", "entropy", "quantile_ratio"):
        values = np.array([r.quantile_ratio() if name == "quantile_ratio" else getattr(r, name) for r in runs])[:, -1]
        stated = np.sqrt(np.mean([r.error(name)[-1] ** 2 for r in runs], axis=0))
        spread = values.std(axis=0, ddof=1)
        alive = spread > 1e-6
        ratio = (stated[alive] / spread[alive]) if alive.ndim else stated / spread
        assert np.all((np.median(ratio) > 0.8) & (np.median(ratio) < 1.25)), (name, ratio)


def test_networks_have_a_width_of_their_own():
    net = ll.Network(ll.GramInputs(AR), ll.Residual(ll.MLP("relu")), width=24)
    assert net.width == 24
    assert np.array_equal(net.sample(5, observe="gram"), net.sample(5, width=24, observe="gram"))
    assert ll.Network(ll.GramInputs(AR)).width == inf
    assert "width=24" in repr(net)


@pytest.mark.parametrize(
    "make, argument, match",
    [
        (lambda: ll.Residual(ll.MLP(), ll.LayerNorm()), "layers", "does not end in a fresh matrix"),
        (lambda: ll.Residual(), "layers", "at least one layer"),
        (lambda: ll.Residual(ll.Inputs(3)), "layers", "must be made of layers"),
        (lambda: ll.Residual(ll.MLP(), skip=inf), "skip", "skip=inf"),
        (lambda: ll.Repeat(0, ll.MLP()), "count", "count=0"),
        (lambda: ll.Repeat(2, ll.Readout()), "layers", "ends a network"),
        (lambda: ll.Network(ll.GramInputs(AR), ll.Readout(), ll.MLP()), "layers", "ends a network"),
        (lambda: ll.MLP("swish"), "activation", "activation='swish'"),
        (lambda: ll.MLP("relu", ratio=0), "ratio", "ratio=0"),
        (
            lambda: ll.Network(ll.GramInputs(AR), ll.MLP(ratio=0.3)).sample(2, width=16),
            "ratio",
            "4.8 hidden units",
        ),
        (lambda: ll.LayerNorm(eps=-1.0), "eps", "eps=-1.0"),
        (lambda: ll.Network(ll.GramInputs([[1.0]]), ll.LayerNorm(eps=0.0)).sample(2, width=1), "width", "width=1"),
        (lambda: ll.Network(ll.GramInputs(np.diag([1.0, 0.0])), ll.RMSNorm()), "eps", "token 1 is zero"),
        (
            lambda: ll.Network(
                ll.GramInputs(np.diag([1.0, 0.0])), ll.Repeat(2, ll.Residual(ll.LayerNorm(0.0), ll.MLP()))
            ),
            "eps",
            "token 1 is constant",
        ),
        (lambda: ll.Embedding([1], padding=1, norm=ll.RMSNorm()), "eps", "token 0 is zero"),
        (lambda: ll.Network(ll.GramInputs(np.diag([1.0, 0.0])), ll.MLP(), ll.RMSNorm()), "eps", "token 1 is zero"),
        (
            lambda: ll.Network(ll.GramInputs(np.eye(2)), ll.Attention(out_std=0.0), ll.RMSNorm()),
            "eps",
            "token 0 is zero",
        ),
        (
            lambda: ll.Network(ll.GramInputs(np.eye(2), mean=[1.0, 0.0]), ll.LayerNorm(0.0)),
            "eps",
            "token 0 is constant",
        ),
        (lambda: ll.OnSequence(0, ll.Repeat(2, ll.OnSequence(1, ll.MLP()))), "layers", "contains an OnSequence"),
        (lambda: ll.OnSequence(-1, ll.MLP()), "sequence", "sequence=-1 must lie in"),
        (lambda: ll.Attention(context=-1), "context", "context=-1 must lie in"),
        (lambda: ll.Attention(rope=[]), "rope", "rope=.*has no frequencies"),
        (lambda: ll.Attention(score_bias=[[-inf]]), "score_bias", "Use mask="),
        (lambda: ll.Repeat(10**9, ll.MLP()), "count", "limit of 1,000,000"),
        (
            lambda: ll.Network(ll.GramInputs(np.eye(2)), ll.Repeat(10**6, ll.MLP())).trajectory(100),
            "samples",
            "1000000 blocks",
        ),
        (
            lambda: ll.Network(ll.GramInputs(np.eye(2)), ll.MLP(ratio=1e-9)).sample(2, width=4),
            "ratio",
            "positive whole number",
        ),
        (
            lambda: ll.Network(ll.GramInputs(np.eye(2)), ll.MLP(width=2**40)).sample(2, width=4),
            "width",
            "Use fewer than 2.31",
        ),
        (
            lambda: ll.Network(ll.GramInputs(np.eye(2)), ll.MLP(jnp.sign, width=inf)).sample(2),
            "activation",
            "it seems to be discontinuous",
        ),
        (lambda: ll.GramInputs(np.eye(2), sequences=2), "sequences", "sequences=2 must be a list"),
        (lambda: ll.Embedding([1], padding="x"), "padding", "padding='x':? must be an integer"),
        (lambda: ll.Embedding([1], padding=9, vocabulary=5), "padding", "padding=9 is out of range"),
        (lambda: ll.Attention(heads=4, kv_heads=3), "kv_heads", "kv_heads=3"),
        (lambda: ll.Attention(rope=0.5), "rope", "rope=0.5"),
        (
            lambda: ll.Network(ll.GramInputs(AR), ll.Attention(rope=100.0, head_dim=3)).sample(2, width=8),
            "rope",
            "even head_dim",
        ),
        (
            lambda: ll.Network(ll.GramInputs(AR), ll.Attention(rope=[1.0] * 5, head_dim=8)).sample(2, width=8),
            "rope",
            "5 frequencies",
        ),
        (lambda: ll.Attention(score_bias="relative"), "score_bias", "score_bias='relative'"),
        (lambda: ll.Attention(heads=3, score_bias=np.zeros((2, 4, 4))), "score_bias", "heads=3"),
        (
            lambda: ll.Network(ll.GramInputs(AR), ll.Attention(score_bias=np.zeros((3, 3)))),
            "score_bias",
            "score_bias has shape",
        ),
        (lambda: ll.Network(ll.GramInputs(AR), ll.Attention(context=1)), "context", "context=1"),
        (lambda: ll.Network(ll.GramInputs(AR), ll.OnSequence(1, ll.MLP())), "sequence", "OnSequence\\(1"),
        (
            lambda: ll.Attention(tie_qk=True, scale="linear", rope=100.0),
            "rope",
            "not supported together with tie_qk=True",
        ),
        (lambda: ll.Attention(heads=inf, kv_heads=1), "kv_heads", "kv_heads=1"),
        (lambda: ll.GramInputs(AR, sequences=(2, 3)), "sequences", "add up to 5"),
        (lambda: ll.Embedding([]), "ids", "ids=\\[\\]"),
        (lambda: ll.Embedding([1, -2]), "ids", "-2 is out of range"),
        (lambda: ll.Embedding([1, 9], vocabulary=9), "ids", "9 is out of range"),
        (lambda: ll.Embedding([1, 2, 3], max_positions=2), "ids", "sequence of 3 tokens"),
        (lambda: ll.Embedding([1, 2], positions="rotary"), "positions", "positions='rotary'"),
        (
            lambda: ll.Network(ll.GramInputs(AR), ll.MLP(width=inf)).sample(2, width=8, reading="dense"),
            "reading",
            "infinitely many columns",
        ),
        (lambda: ll.Network(ll.GramInputs(AR), ll.LayerNorm()).sample(2, width=4), "width", "width=4"),
        (
            lambda: ll.Network(ll.GaussianInputs(AR), ll.LayerNorm()).sample(2, width=4, reading="lazy"),
            "reading",
            "LayerNorm",
        ),
        (lambda: ll.Network(ll.GramInputs(AR), ll.MLP()).trajectory(1, width=4), "samples", "samples=1"),
        (
            lambda: ll.Network(ll.GramInputs(AR), ll.Repeat(10**6, ll.Attention())).trajectory(100, width=4),
            "samples",
            "max_memory",
        ),
        (
            lambda: ll.Network(ll.GramInputs(AR), ll.MLP()).trajectory(4, width=4).error("rank"),
            "observable",
            "observable='rank'",
        ),
    ],
)
def test_refusals(make, argument, match):
    with pytest.raises(ArgumentError, match=match) as refusal:
        make()
    assert refusal.value.argument == argument
    assert "\n" not in str(refusal.value)


def test_rotated_linear_scores_vanish_with_the_head_dimension():
    """Like those that are not rotated: scores over d have the standard deviation 1/sqrt(d), and at infinity are 0."""

    def spread(width):
        net = ll.Network(ll.GramInputs(np.eye(3)), ll.Attention(2, scale="linear", query_std=3.0, rope=1e4))
        return net.sample(4000, width=width, observe="scores").std()

    assert spread(inf) == 0
    assert abs(spread(64) * 64**0.5 / 3 - 1) < 0.02


def test_a_query_bias_alone_makes_scores_random():
    """`b_q . k_j` differs between keys; a key bias alone does not, unless positions turn it."""

    def net(**options):
        return ll.Network(ll.GramInputs(np.eye(3)), ll.Attention(1, head_dim=inf, **options))

    drawn = net(query_std=0.0, query_bias_std=3.0).law(samples=2**16)
    variances = net(query_std=0.0, query_bias_std=3.0).sample(2**16, observe="covariance", token=0, seed=1)
    kurtosis, error = excess_kurtosis(variances.astype(np.float64))
    assert 0.15 < kurtosis < 0.3
    assert abs(drawn.kurtosis() - kurtosis) < 5 * np.hypot(error, drawn.kurtosis().stderr)
    assert net(key_std=0.0, key_bias_std=3.0).law().kurtosis() == 0
    assert net(key_std=0.0, key_bias_std=3.0, rope=10.0).law(samples=2**14).kurtosis() > 0.05


def test_entropies_of_tokens_that_take_no_part_do_not_count():
    inputs = ll.GramInputs(np.eye(5) + 0.2, sequences=[2, 3])
    t = ll.Network(inputs, ll.OnSequence(0, ll.Attention(query_std=5.0))).trajectory(200, width=8)
    assert np.isnan(t.entropy[0, :, 2:]).all()
    assert np.allclose(t.summary()["entropy"][0][1], t.entropy[0, 0, :2].mean())
    assert t.visible_keys[0].tolist() == [2, 2, 0, 0, 0]
    assert len(t.plot("entropy").axes[0].lines[2].get_xdata()) == 0


def test_rotations_stay_within_the_memory_that_is_allowed():
    """Their coordinates are counted: a block of them is smaller the wider the heads."""
    net = ll.Network(ll.GramInputs(np.eye(3)), ll.Attention(2, rope=1e4))
    assert working_memory(net, 4096) < 2**28
    assert batch_size(net, 4096) * 3 * 4096 * 2 * 4 * 3 <= working_memory(net, 4096)


def test_a_norm_may_pass_over_a_zero_token_of_another_sequence():
    inputs = ll.GramInputs(np.diag([0.0, 4.0]), sequences=[1, 1])
    gram = ll.Network(inputs, ll.OnSequence(1, ll.RMSNorm())).sample(1, width=4, observe="gram")[0]
    assert np.allclose(gram, [[0, 0], [0, 1]])


def test_a_stream_of_which_nothing_is_left_has_rank_zero():
    """One hidden unit per draw is dead for both tokens in a fourth of the draws or more: each such draw counts with 0."""
    net = ll.Network(ll.GramInputs(np.eye(2)), ll.MLP("relu", width=1))
    t = net.trajectory(2000, width=16, seed=0)
    gram = t.gram[:, 1].astype(float)
    dead = np.trace(gram, axis1=1, axis2=2) == 0
    assert 0.2 < dead.mean() < 0.3  # two independent signs
    assert np.isfinite(t.effective_rank).all()
    assert np.isclose(t.effective_rank[1], 1 - dead.mean(), rtol=1e-5)  # one direction is left in the others


def test_a_table_shows_no_digits_that_are_not_there():
    """Tokens that have become one: a cosine of 1, no more digits than single precision has, and no error of 1e-18."""
    t = ll.Network(ll.GramInputs(np.eye(4)), ll.Repeat(6, ll.Attention(heads=1))).trajectory(300, width=inf)
    last = str(t).splitlines()[-1].split()
    assert last[0] == "6"
    assert any(re.fullmatch(r"1\.0{1,6}", cell) for cell in last)
    assert max(map(len, last)) < 12

"""Layers, row maps and inputs as a stranger writes them: they work in every reading and everywhere that layers do."""

import dataclasses
import json
import pickle
from math import inf

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from same_law import FALSE_ALARM, assert_same_law, smallest_p, some_at_length

import limitlaw as ll
from limitlaw.experiments import Sweep, read
from limitlaw.networks import InputLayer, RowMap, as_plain, from_plain
from limitlaw.networks.cost import cost_of
from limitlaw.networks.derived import draw_derived

AR = 0.5 ** np.abs(np.subtract.outer(np.arange(3), np.arange(3)))


class Bottleneck(ll.Layer):
    """`phi(X W_in + b) W_out`, hidden size `ratio` times the width, averaged over `copies`."""

    ratio: float = 0.25
    kind: str = "tanh"
    copies: int = 1
    bias_std: float = 0.1
    gain: float = 1.0

    def matrices(self, width, layout):
        return {"in": ll.Matrix(self.ratio * width, bias_std=self.bias_std), "out": ll.Matrix(width, std=self.gain)}

    def inner(self, u, context):
        phi = jnp.tanh if self.kind == "tanh" else jax.nn.relu
        return phi(u["in"] * self.copies) / self.copies


class LinearAttention(ll.Attention):
    """Attention without a softmax: `q k^T v / s`."""

    def inner(self, u, context):
        heads = int(self.heads)
        query, key, value = (
            jnp.moveaxis(u[name].reshape(len(u[name]), heads, -1), 1, 0) for name in ("query", "key", "value")
        )
        scores = jnp.einsum("hid,hjd->hij", query, key) / np.sqrt(query.shape[-1])
        mixed = jnp.einsum("hij,hjd->ihd", scores, value) / len(u["query"])
        return mixed.reshape(len(mixed), -1), {"scores": scores, "entropy": jnp.zeros(scores.shape[:2])}


class CappedAttention(ll.Attention):
    """Scores softly capped, as in Gemma 2: a helper is overridden, and the rest stays."""

    cap: float = 1.0

    def scores(self, queries, keys, layout):
        return self.cap * jnp.tanh(super().scores(queries, keys, layout) / self.cap)


class SharpAttention(ll.Attention):
    """Another default, and nothing else."""

    query_std: float = 2.0


class Shorter(RowMap):
    """Every token made shorter."""

    factor: float = 0.5

    def rows(self, rows):
        return self.factor * rows


class Signs(InputLayer):
    """Independent signs, `+1` or `-1`, with one token a copy of the first."""

    tokens: int = 3

    @property
    def size(self):
        return self.tokens

    def limit_gram(self):
        K = np.eye(self.tokens)
        K[0, -1] = K[-1, 0] = 1.0
        return K

    def tokens_at(self, width, context):
        x = jax.random.rademacher(context.key("signs"), (self.tokens, width), jnp.float32)
        return x.at[-1].set(x[0])


class LowRank(ll.Layer):
    """A latent of rank `rank`, which two more matrices read; one has the entries of the other, and an own fan-in."""

    rank: int = 3
    std: float = 1.2

    def matrices(self, width, layout):
        return {
            "down": ll.Matrix(self.rank),
            "up": ll.Matrix(width, reads="latent", std=self.std, bias_std=0.3),
            "gate": ll.Matrix(width, reads="latent", same_as="up", std=0.5),
            "side": ll.Matrix(4, fan_in=2.0 * width),
            "out": ll.Matrix(width, fan_in=3.0),
        }

    def latents(self, u, context):
        return {"latent": jnp.tanh(u["down"])}

    def inner(self, u, context):
        return u["up"] * jax.nn.sigmoid(u["gate"]) / 4 + u["side"].mean(axis=1, keepdims=True)


class Tied(ll.Layer):
    """One matrix by two names, of different stds, and randomness that is no matrix."""

    std: float = 0.7

    def matrices(self, width, layout):
        return {"query": ll.Matrix(5, std=self.std), "key": ll.Matrix(5, same_as="query"), "out": ll.Matrix(width)}

    def inner(self, u, context):
        sink = jax.random.normal(context.key("sink"), (5,))
        return u["query"] * u["key"] + sink


LAYERS = {
    "bottleneck": Bottleneck(),
    "bottleneck, relu": Bottleneck(ratio=0.5, kind="relu", copies=2, bias_std=0.0, gain=1.3),
    "inner of attention": LinearAttention(heads=2, head_dim=4),
    "helper of attention": CappedAttention(heads=2, head_dim="split", cap=0.5, query_std=3.0),
    "default of attention": SharpAttention(heads=2, head_dim=4),
    "row map": Shorter(),
    "latents": LowRank(),
    "tied": Tied(),
}


def alone(layer):
    return ll.Network(ll.GaussianInputs(AR), layer)


@pytest.mark.parametrize(
    "name", some_at_length(LAYERS, ["bottleneck", "inner of attention", "helper of attention", "row map", "latents"])
)
def test_the_readings_agree(name):
    ll.testing.check_layer(LAYERS[name])


@pytest.mark.parametrize("name", ["bottleneck", "inner of attention", "helper of attention", "latents", "tied"])
def test_the_comparison_has_power(name):
    """The dense reading of a layer whose output matrix is 2 % too large is told from the Gram reading of the right one."""
    right = LAYERS[name]

    class Wrong(type(right)):
        def matrices(self, width, layout):
            matrices = super().matrices(width, layout)
            return {**matrices, "out": eqx.tree_at(lambda m: m.std, matrices["out"], 1.02 * matrices["out"].std)}

    wrong = object.__new__(Wrong)
    for f in dataclasses.fields(right):
        object.__setattr__(wrong, f.name, getattr(right, f.name))
    covariances = [alone(layer).sample(150_000, width=16, observe="covariance", seed=i, reading=reading)
                   for i, (layer, reading) in enumerate([(right, "gram"), (right, "dense"), (wrong, "dense")])]  # fmt: skip
    assert smallest_p(covariances[0], covariances[1]) > FALSE_ALARM
    assert smallest_p(covariances[0], covariances[2]) < FALSE_ALARM


def test_a_class_that_changes_a_default_alone_keeps_its_rule():
    sharp, attention = SharpAttention(heads=2, head_dim=4), ll.Attention(heads=2, head_dim=4, query_std=2.0)
    assert sharp.has_contracted
    assert np.array_equal(
        alone(sharp).sample(50, width=8, observe="gram"), alone(attention).sample(50, width=8, observe="gram")
    )
    exact = [ll.Network(ll.GramInputs(AR), layer).law() for layer in (sharp, attention)]
    assert float(exact[0].variance()) == float(exact[1].variance())


def test_inputs_of_ones_own():
    net = ll.Network(Signs(), ll.Residual(Bottleneck()))
    assert_same_law(
        lambda count, seed: net.sample(count, width=8, observe="gram", seed=seed),
        lambda count, seed: net.sample(count, width=8, observe="gram", seed=seed, reading="dense"),
        samples=20_000,
    )
    assert np.array_equal(ll.Network(Signs()).sample(1, observe="gram")[0], Signs().limit_gram())
    assert from_plain(json.loads(json.dumps(as_plain(net)))) == net


@pytest.mark.parametrize("name", LAYERS)
def test_everywhere_that_layers_go(name):
    """Laws, trajectories, repetitions, branches, several sequences, costs, pickle, plain data, equality."""
    layer = LAYERS[name]
    branch = ll.Residual(layer, skip=0.5) if layer.ends_fresh else layer
    inputs = ll.GramInputs(AR, sequences=[1, 2])
    net = ll.Network(
        inputs, ll.Repeat(2, branch), ll.OnSequence(1, branch), ll.Readout(ll.RMSNorm(), std=2.0), width=16
    )
    t = net.trajectory(64, seed=3)
    assert t.gram.shape == (64, 4, 3, 3)
    assert np.isfinite(t.gram).all()
    assert np.allclose(t.gram[:, 2, 0, 0], t.gram[:, 3, 0, 0], rtol=1e-5)  # a token of the other sequence stays
    assert net.law(token=1, samples=64).variance() == pytest.approx(4.0, rel=1e-4)  # normed, and read out
    assert net.joint_law(tokens=[0, 1], samples=64).event_shape == (2,)
    assert cost_of(net, 16).matrices > cost_of(ll.Network(inputs), 16).matrices
    for same in (pickle.loads(pickle.dumps(net)), from_plain(json.loads(json.dumps(as_plain(net))))):
        assert same == net
        assert hash(same) == hash(net)
        assert repr(same) == repr(net)
    one = net.realise(width=16, seed=1)
    assert one().shape == (3, 16)
    if layer.ends_fresh:
        assert "0.1.0.0.out" in one.weights


def test_the_cost_counts_the_columns():
    small, large = (cost_of(alone(Bottleneck(ratio=ratio)), 256) for ratio in (0.25, 4.0))
    assert large.units > 3 * small.units


def test_one_draw_is_differentiable():
    """`jit`, `vmap` and `grad` of a mean with respect to a field; against central differences with the same keys."""
    keys = jax.random.split(jax.random.key(0), 256)

    def mean_variance(gain):
        net = ll.Network(ll.GramInputs(AR), Bottleneck(gain=gain))
        return jax.vmap(lambda key: net.draw(key, width=16, observe="covariance")[0, 0])(keys).mean()

    value, slope = jax.jit(jax.value_and_grad(mean_variance))(1.5)
    assert float(slope) == pytest.approx(2 * float(value) / 1.5, rel=1e-5)

    def of_bias(std):
        net = ll.Network(ll.GramInputs(AR), ll.Residual(Bottleneck(bias_std=std)))
        return jax.vmap(lambda key: net.draw(key, width=16, observe="gram")[0, 1])(keys).mean()

    step = 1e-2
    difference = (of_bias(0.5 + step) - of_bias(0.5 - step)) / (2 * step)
    assert float(jax.grad(of_bias)(0.5)) == pytest.approx(float(difference), rel=2e-2, abs=1e-3)


class Twice(ll.Attention):
    """What it writes is twice as large: the probe of a rule that is never called."""

    def inner(self, u, context):
        mixed, seen = super().inner(u, context)
        return 2 * mixed, seen


def test_a_subclass_has_its_own_law():
    """Four times the variance of its parent, in every reading and at infinite width."""
    inputs = ll.GramInputs(AR)
    own, parent = ll.Network(inputs, Twice(head_dim=4)), ll.Network(inputs, ll.Attention(head_dim=4))
    for width in (16, inf):
        variance = parent.law(width=width, samples=2**16).variance()
        assert own.law(width=width, samples=2**16).variance() / 4 == pytest.approx(float(variance), rel=0.02)
    dense = own.sample(20_000, width=16, observe="covariance", token=0, reading="dense").mean()
    assert dense / 4 == pytest.approx(float(parent.law(width=16, samples=2**16).variance()), rel=0.03)


class Plus(ll.Layer):
    """`X W + 1`-like: its bias makes a zero token live."""

    def matrices(self, width, layout):
        return {"in": ll.Matrix(width, bias_std=1.0), "out": ll.Matrix(width)}

    def inner(self, u, context):
        return u["in"]


def test_nothing_is_known_to_be_zero_after_an_own_layer():
    """A zero token has a bias after it, so a norm without eps can follow."""
    net = ll.Network(ll.GramInputs(np.diag([1.0, 0.0])), Plus(), ll.RMSNorm(eps=0.0))
    assert np.allclose(np.diagonal(net.sample(4, width=8, observe="gram"), axis1=1, axis2=2), 1.0, atol=1e-5)


def test_a_study_over_fields_of_ones_own(tmp_path):
    """Written as TOML, by the names of classes that the library does not have; `kind` there names the class, so the field is `kind_`."""
    file = tmp_path / "study.toml"
    file.write_text(
        """
        measure = ["moments", "block_variance"]
        samples = 4096
        [network]
        width = 16
        inputs = {kind = "Signs", tokens = 2}
        layers = [{kind = "Residual", layers = [{kind = "Bottleneck", bias_std = 0.0}]}, {kind = "Linear"}]
        [axes]
        ratio = [0.25, 1.0]
        kind_ = ["tanh", "relu"]
        """
    )
    study = read(file)
    sweep = Sweep(study, tmp_path / "sweep")
    sweep.run()
    data = sweep.dataset()
    assert data["variance"].shape == (2, 2, 1)
    # E tanh(z)^2 = 0.394 and E relu(z)^2 = 0.5, whatever the hidden size
    variance = data["variance"].values[..., 0]
    assert np.allclose(variance, [[1.394, 1.5]] * 2, rtol=0.05)


def test_derived_draws_are_those_of_the_rule():
    net = alone(Bottleneck())
    assert_same_law(
        lambda count, seed: net.sample(count, width=16, observe="covariance", seed=seed),
        lambda count, seed: draw_derived(net, count, width=16, observe="covariance", seed=seed),
        samples=20_000,
    )

"""Corners of the contract of layers: streams of random numbers, ties, latents, branches, subclasses, and what is refused."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from same_law import FALSE_ALARM, smallest_p

import limitlaw as ll
from limitlaw._checks import ArgumentError
from limitlaw.networks import as_plain, from_plain

PAIR = ll.GramInputs(np.eye(2))
SEQUENCES = ll.GramInputs(np.eye(4), sequences=[2, 2])


class OwnNoise(ll.Layer):
    """Multiplies by noise from a stream that has the name of a matrix."""

    def matrices(self, width, layout):
        return {"in": ll.Matrix(8), "out": ll.Matrix(width)}

    def inner(self, u, context):
        return u["in"] * jax.random.normal(context.key("in"), (1, 8))


class Declared(ll.Layer):
    """Takes its second matrix as an argument."""

    second: ll.Matrix | None = None

    def matrices(self, width, layout):
        return {"in": ll.Matrix(width), "other": self.second, "out": ll.Matrix(width, same_as=None)}

    def inner(self, u, context):
        return jnp.tanh(u["in"] + u["other"])


class TiedToOut(OwnNoise):
    def matrices(self, width, layout):
        return {"in": ll.Matrix(width), "out": ll.Matrix(width, same_as="in")}


class Shadowed(ll.MLP):
    """A field with the name of a method."""

    inner: Callable | None = None


@pytest.mark.parametrize("reading", ["gram", "dense"])
def test_a_stream_named_like_a_matrix_is_independent_of_it(reading):
    variance = ll.Network(ll.GramInputs([[1.0]]), OwnNoise()).sample(
        20_000, width=8, observe="covariance", reading=reading
    )
    assert abs(variance.mean() - 1) < 5 * variance.std() / 20_000**0.5  # 1.5 and 3 with one key for both


@pytest.mark.parametrize("layer", [ll.Repeat(1, ll.Linear()), ll.Repeat(2, ll.Linear(3.0))], ids=repr)
def test_a_repeat_in_a_branch_of_one_sequence_ends_fresh(layer):
    net = ll.Network(SEQUENCES, ll.OnSequence(1, ll.Residual(layer, skip=0.0)))
    gram, dense = (net.sample(10_000, width=8, observe="gram", reading=reading) for reading in ("gram", "dense"))
    assert smallest_p(gram, dense) > FALSE_ALARM


def test_sample_and_trajectory_agree_where_layers_act_on_one_sequence():
    net = ll.Network(SEQUENCES, ll.OnSequence(1, ll.Repeat(2, ll.MLP("relu", ratio=2))))
    last = net.sample(50, width=8, observe="gram", seed=3)
    assert np.allclose(last, net.trajectory(50, width=8, seed=3).gram[:, -1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "layer, sentence",
    [
        (TiedToOut(), "'out'"),
        (Declared(ll.Matrix(8, reads="typo")), "reads='typo'"),
    ],
    ids=["tied to out", "an unknown latent"],
)
@pytest.mark.parametrize("reading", ["gram", "dense"])
def test_matrices_that_do_not_go_together_are_refused(layer, sentence, reading):
    with pytest.raises(ArgumentError, match=sentence) as refusal:
        ll.Network(PAIR, layer).sample(2, width=8, reading=reading)
    assert refusal.value.argument == "matrices"


def test_a_field_with_the_name_of_a_method_is_a_change():
    assert not Shadowed().has_contracted
    assert ll.MLP().has_contracted


@pytest.mark.parametrize(
    "layer",
    [
        ll.Block(*[ll.Linear(1e-9)] * 3, ll.RMSNorm(), ll.Linear()),
        ll.Residual(*[ll.Linear(1e-9)] * 3, ll.RMSNorm(), ll.Linear()),
    ],
    ids=["block", "branch"],
)
def test_a_variance_that_is_lost_within_a_block_is_refused(layer):
    with pytest.raises(ArgumentError, match="beyond single precision"):
        ll.Network(PAIR, layer).sample(2, width=8, observe="gram")


def test_a_repeat_is_differentiated_where_the_key_is_a_constant():
    key = jax.random.key(0)

    def variance(std):
        net = ll.Network(PAIR, ll.Repeat(3, ll.Residual(ll.Linear(std))))
        return net.draw(key, width=8, observe="gram")[0, 0]

    slope = (variance(1.01) - variance(0.99)) / 0.02
    assert jax.grad(variance)(1.0) == pytest.approx(float(slope), rel=1e-2)


def test_what_is_not_drawn_by_a_program_is_refused_by_the_lazy_reading():
    net = ll.Network(ll.GaussianInputs(np.eye(2)), ll.Attention())
    with pytest.raises(ArgumentError, match="observe='entropy' is not available"):
        net.sample(2, width=4, observe="entropy", reading="lazy")


def test_weights_of_a_realisation_are_known_by_path_and_shape():
    one = ll.Network(PAIR, ll.Linear()).realise(8)
    with pytest.raises(ArgumentError, match=r"is not a key of the weights"):
        one(weights={"0.uot": jnp.zeros((8, 8))})
    with pytest.raises(ArgumentError, match=r"must have shape \(8, 8\)"):
        one(weights={"0.out": jnp.zeros((4, 8))})


def test_numbers_of_jax_are_numbers_and_tracers_belong_into_draw():
    assert ll.Attention(value_std=jnp.float32(2)) == ll.Attention(value_std=2.0)
    with pytest.raises(ArgumentError, match=r"net\.draw"):
        jax.jit(lambda std: ll.Network(PAIR, ll.Linear(std)).sample(3, width=4))(1.0)
    with pytest.raises(ArgumentError, match="one key"):
        ll.Network(PAIR, ll.Linear()).draw(0, width=4)


def test_an_output_has_the_variance_that_its_covariance_says():
    """Sharp enough for a factor of 1.02: five standard errors are 1.1 %."""
    y = ll.Network(ll.GramInputs([[2.0]]), ll.Linear(1.5)).sample(400_000, width=8)
    assert np.mean(y.astype(float) ** 2) / 4.5 == pytest.approx(1, abs=5 * (2 / 400_000) ** 0.5)


class OfTheLayout(ll.Layer):
    """Has as many hidden units as pairs of neighbouring tokens, so it does not exist for one token."""

    scales: tuple[float, ...] = (1.0,)
    table: np.ndarray | None = None

    def matrices(self, width, layout):
        return {"in": ll.Matrix(layout.size - 1), "out": ll.Matrix(width)}

    def inner(self, u, context):
        return u["in"]


class StreamOfTheLayout(ll.Layer):
    """The same without a matrix "out"."""

    def matrices(self, width, layout):
        return {"in": ll.Matrix(layout.size - 1), "value": ll.Matrix(width)}

    def inner(self, u, context):
        return u["value"]


def test_columns_may_depend_on_the_layout():
    net = ll.Network(PAIR, OfTheLayout())
    for reading in ("gram", "dense"):
        assert np.isfinite(net.sample(3, width=8, reading=reading)).all()
    with pytest.raises(ArgumentError, match="does not end in a fresh matrix"):
        ll.Residual(StreamOfTheLayout())


def test_tuples_and_arrays_survive_plain_data():
    net = ll.Network(PAIR, OfTheLayout(scales=(3.0, 4.5), table=np.array([1.0, 2.0])))
    assert from_plain(as_plain(net)) == net


def test_the_arrays_of_a_description_cannot_change():
    K = np.eye(2)
    inputs = ll.GramInputs(K)
    K[0, 0] = 5.0
    assert inputs == ll.GramInputs(np.eye(2))
    with pytest.raises(ValueError, match="read-only"):
        inputs.K[0, 0] = 5.0
    layer = OfTheLayout(table=np.ones(2))
    with pytest.raises(ValueError, match="read-only"):
        layer.table[0] = 5.0
    negative = ll.GramInputs([[1.0, -0.0], [-0.0, 1.0]])
    assert negative == inputs
    assert hash(negative) == hash(inputs)

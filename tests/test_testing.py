"""`ll.testing.check_layer` passes what is right, and says what is wrong. Own layers pass it in tests/networks/test_own_layer.py."""

import jax.numpy as jnp
import pytest
from same_law import some_at_length

import limitlaw as ll
from limitlaw._checks import ArgumentError
from limitlaw.networks import RowMap

RIGHT = {
    "attention": ll.Attention(heads=2, head_dim=4, mask="causal"),
    "perceptron": ll.MLP("silu", ratio=2, gated=True, in_bias_std=0.3),
    "linear": ll.Linear(bias_std=0.5),
    "dense": ll.Dense("tanh", bias_std=0.2),
    "norm": ll.LayerNorm(),
    "a function": ll.MLP(jnp.tanh, ratio=1),
    "read-out": ll.Readout(ll.RMSNorm(), std=2.0),
    "block": ll.Block(ll.Residual(ll.RMSNorm(), ll.MLP()), ll.LayerNorm()),
}


class Louder(ll.MLP):
    """Says that its parent's rule stands, although it does not."""

    keeps_contracted = True

    def inner(self, u, context):
        return 1.2 * super().inner(u, context)


class Elementwise(RowMap):
    """Looks at coordinates one by one, which no row map may."""

    def rows(self, rows):
        return jnp.abs(rows)


class Forgetful(ll.Linear):
    """Pickles as another."""

    def __reduce__(self):
        return Forgetful, (2.0,)


@pytest.mark.parametrize("name", some_at_length(RIGHT, ["perceptron", "a function"]))
def test_right_layers_pass(name):
    ll.testing.check_layer(RIGHT[name], draws=5000)


@pytest.mark.parametrize(
    "layer, match",
    [
        (Louder(ratio=2), r"observe='gram' of Louder\(.*the Gram and the dense reading differ: the \w+ of entry \[\d, \d\] is"),
        (Elementwise(), r"the Gram and the dense reading differ: .* standard errors apart"),
        (Forgetful(), r"Forgetful\(\) comes back from pickle as Forgetful\(std=2.0\)"),
    ],
    ids=["rule", "rows", "pickle"],
)  # fmt: skip
def test_wrong_layers_fail(layer, match):
    with pytest.raises(AssertionError, match=match):
        ll.testing.check_layer(layer, draws=5000)


def test_a_local_class_cannot_be_pickled():
    class Local(ll.Linear):
        pass

    with pytest.raises(AssertionError, match="at the top of a module"):
        ll.testing.check_layer(Local(), draws=100)


def test_refusals():
    with pytest.raises(ArgumentError, match="not a layer") as refusal:
        ll.testing.check_layer(ll.Inputs(2))
    assert refusal.value.argument == "layer"
    with pytest.raises(ArgumentError) as refusal:
        ll.testing.check_layer(ll.Linear(), draws=0)
    assert refusal.value.argument == "draws"

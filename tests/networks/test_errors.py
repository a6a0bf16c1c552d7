"""Bad input gets one sentence, before any work: the argument, the value, the remedy."""

from math import inf, nan

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw._checks import ArgumentError
from limitlaw.networks import from_plain

NET = ll.Network(ll.Inputs(4, "relu"), ll.Attention(heads=2))
EYE = np.eye(2)


@pytest.mark.parametrize(
    "make, argument, match",
    [
        (lambda: ll.Inputs(0), "tokens", r"tokens=0:? must be a positive integer"),
        (lambda: ll.Inputs(2.5), "tokens", r"tokens=2.5:? must be a positive integer"),
        (lambda: ll.Inputs("four"), "tokens", r"tokens='four':? must be a positive integer"),
        (lambda: ll.Inputs(True), "tokens", r"tokens=True"),
        (lambda: ll.Inputs(inf), "tokens", r"tokens=inf:? must be a positive integer"),
        (lambda: ll.Inputs(2, "swish"), "activation", r"activation='swish'.*'silu'"),
        (lambda: ll.Inputs(2, 3), "activation", r"activation=3"),
        (lambda: ll.Attention(heads=-1), "heads", r"heads=-1:? must be a positive integer or inf"),
        (lambda: ll.Attention(heads=1.5), "heads", r"heads=1.5"),
        (lambda: ll.Attention(heads=nan), "heads", r"heads=nan"),
        (lambda: ll.Attention(head_dim=0), "head_dim", r"head_dim=0:? must be a positive integer or inf"),
        (lambda: ll.Attention(head_dim="half"), "head_dim", r"head_dim='half'.*'split'"),
        (lambda: ll.Attention(heads=inf, head_dim="split"), "head_dim", r"head_dim='split'.*finite heads"),
        (lambda: ll.Attention(scale="log"), "scale", r"scale='log'.*'sqrt', 'linear'"),
        (
            lambda: ll.Attention(tie_qk=True),
            "tie_qk",
            r"tie_qk=True with scale='sqrt'.*grow like sqrt\(head_dim\).*scale='linear'",
        ),
        (lambda: ll.Attention(tie_qk="yes"), "tie_qk", r"tie_qk='yes'"),
        (lambda: ll.Attention(query_std=-1.0), "query_std", r"query_std=-1.0:? must be a finite number"),
        (lambda: ll.Attention(out_std=nan), "out_std", r"out_std=nan"),
        (lambda: ll.Attention(mask="anti"), "mask", r"mask='anti'.*'causal'"),
        (lambda: ll.Attention(mask=np.ones((2, 2))), "mask", r"mask is float64.*boolean"),
        (lambda: ll.Attention(mask=np.ones((2, 3), bool)), "mask", r"mask.*\(2, 3\).*square"),
        (lambda: ll.Attention(mask=np.array([[True, True], [False, False]])), "mask", r"mask\[1\] has no True entry"),
        (lambda: ll.Network(ll.Inputs(3), ll.Attention(mask=EYE > 0)), "mask", r"mask has shape \(2, 2\).*3 tokens"),
        (lambda: ll.GramInputs([[1, 2], [3, 4]]), "K", r"K is not symmetric: K\[0, 1\] = 2 but K\[1, 0\] = 3"),
        (
            lambda: ll.GramInputs([[1, 2], [2, 1]]),
            "K",
            r"K is not positive semi-definite: its smallest eigenvalue is -1",
        ),
        (lambda: ll.GramInputs([[1, nan], [nan, 1]]), "K", r"K\[0, 1\] is nan"),
        (lambda: ll.GaussianInputs([[inf]]), "K", r"K\[0, 0\] is inf"),
        (lambda: ll.GramInputs([1, 2]), "K", r"K has shape \(2,\)"),
        (lambda: ll.GramInputs(np.ones((2, 3))), "K", r"K has shape \(2, 3\).*square"),
        (lambda: ll.GramInputs("K"), "K", r"K='K':? must be an array"),
        (lambda: ll.GramInputs(EYE, mean=[1.0]), "mean", r"mean has shape \(1,\)"),
        (lambda: ll.GramInputs(EYE, mean=[1.0, 1.0]), "mean", r"mean=.*eigenvalue -1"),
        (lambda: ll.Network(ll.Attention(heads=2)), "inputs", r"inputs=Attention.*Give Inputs"),
        (lambda: ll.Network(ll.Inputs(2), "attention"), "layers", r"layer='attention'"),
        (lambda: NET.sample(0, width=8), "samples", r"samples=0:? must be a positive integer"),
        (lambda: NET.sample(1.5, width=8), "samples", r"samples=1.5"),
        (lambda: NET.sample(5, width=0), "width", r"width=0:? must be a positive integer or inf"),
        (lambda: NET.sample(5, width=7.5), "width", r"width=7.5"),
        (lambda: NET.sample(5, width=-inf), "width", r"width=-inf"),
        (lambda: NET.sample(5, width=8, seed=1.5), "seed", r"seed=1.5:? must be an integer"),
        (lambda: NET.sample(5, width=8, seed=-1), "seed", r"seed=-1"),
        (lambda: NET.sample(5, width=8, seed="0"), "seed", r"seed='0'"),
        (lambda: NET.sample(5, width=8, reading="exact"), "reading", r"reading='exact'.*'gram', 'lazy', 'dense'"),
        (lambda: NET.sample(5, width=8, observe="mean"), "observe", r"observe='mean'.*'output'"),
        (lambda: NET.sample(5, reading="dense"), "width", r"needs a finite width"),
        (lambda: NET.sample(5, reading="lazy"), "width", r"needs a finite width"),
        (lambda: NET.sample(5, width=8, token=4), "token", r"token=4 is out of range. With 4 tokens"),
        (lambda: NET.sample(5, width=8, token=[0, -5]), "token", r"token=-5"),
        (lambda: NET.sample(5, width=8, token=[]), "token", r"token=\[\]"),
        (lambda: NET.sample(5, width=8, token=0.5), "token", r"token=0.5"),
        (
            lambda: NET.sample(5, width=8, token=0, observe="gram"),
            "token",
            r"token=0 cannot be combined with observe='gram'",
        ),
        (lambda: NET.sample(10**12, width=8), "samples", r"samples=1000000000000.*max_memory=1073741824 .*fewer"),
        (
            lambda: NET.sample(5, width=8, reading="lazy", observe="covariance"),
            "observe",
            r"not available with reading='lazy'",
        ),
        (
            lambda: NET.sample(5, width=100_000, reading="dense"),
            "max_memory",
            r"max_memory=1073741824 .*too small for a batch, .*GiB",
        ),
        (lambda: NET.law(width=8, token=[0, 0]), "token", r"joint_law"),
        (lambda: NET.law(width=8, token=[]), "token", r"joint_law"),
        (lambda: NET.law(width=8, token=9), "token", r"token=9 is out of range"),
        (lambda: NET.law(method="guess"), "method", r"method='guess'"),
        (lambda: NET.law(token=None), "token", r"must be one token"),
        (lambda: NET.law(width=8, samples=0), "samples", r"samples=0"),
        (lambda: NET.law(width=8, samples=1), "samples", r"samples=1 must be at least 2"),
        (lambda: NET.law(width=8, accuracy="a"), "accuracy", r"accuracy='a'"),
        (lambda: NET.law(width=8, token=True), "token", r"token=True"),
        (lambda: NET.sample(5, width=10**400), "width", r"width=1000.*exceeds 2\^53. Use inf"),
        (lambda: NET.sample(5, width=8, max_memory="1GB"), "max_memory", r"max_memory='1GB'"),
        (lambda: NET.sample(5, width=8, observe=np.zeros(2)), "observe", r"observe="),
        (lambda: NET.sample(5, width=8, token=np.array(0.5)), "token", r"token="),
        (lambda: ll.Attention(query_std=1e20), "query_std", r"query_std=1e\+20.*from 0 to 1e\+09"),
        (lambda: ll.GramInputs([[1e39]]), "K", r"K has an entry of size 1e\+39"),
        (lambda: ll.Attention(mask=[[True], [True, False]]), "mask", r"rows of different lengths"),
        (
            lambda: ll.Network(ll.GramInputs(np.eye(2)), ll.Attention()).sample(5, width=200_000, reading="dense"),
            "max_memory",
            r"max_memory=1073741824 .*too small for a batch, .*GiB",
        ),
        (lambda: NET.law(width=8, accuracy=0), "accuracy", r"accuracy=0"),
        (
            lambda: ll.Network(ll.Inputs(2), ll.Attention(heads=3, head_dim="split")).sample(5, width=8),
            "width",
            r"width=8 is not divisible by heads=3",
        ),
        (
            lambda: ll.Network(ll.Inputs(2), ll.Attention(heads=inf)).sample(5, width=8),
            "heads",
            r"heads=inf is not defined at width=8",
        ),
        (
            lambda: ll.Network(ll.Inputs(2), ll.Attention(heads=inf)).sample(5, observe="scores"),
            "observe",
            r"finitely many heads",
        ),
        (lambda: ll.Network(ll.Inputs(2)).sample(5, width=8, observe="scores"), "observe", r"Add an attention layer"),
        (
            lambda: ll.Network(ll.Inputs(2), ll.Attention(head_dim=inf)).sample(5, width=8, reading="dense"),
            "reading",
            r"head_dim=inf",
        ),
        (
            lambda: ll.Network(ll.GramInputs(np.eye(3))).sample(5, width=2),
            "width",
            r"width=2 is too small for tokens of rank 3",
        ),
        (
            lambda: ll.Network(ll.GramInputs(EYE, mean=[0, 0])).sample(5, width=2),
            "width",
            r"rank 3 \(the mean counts for one\)",
        ),
        (
            lambda: ll.Network(ll.GramInputs(EYE), ll.Attention()).program(),
            "reading",
            r"GramInputs has no netsor program",
        ),
        (
            lambda: ll.Network(ll.Inputs(2), ll.Attention(heads=inf)).program(),
            "heads",
            r"heads=inf\) has no netsor program",
        ),
        (
            lambda: ll.Network(ll.Inputs(2), ll.Attention(tie_qk=True, scale="linear")).program(),
            "tie_qk",
            r"tie_qk=True\) has no netsor program",
        ),
    ],
)
def test_refusals(make, argument, match):
    with pytest.raises(ArgumentError, match=match) as refusal:
        make()
    assert refusal.value.argument == argument
    assert "\n" not in str(refusal.value)


def test_what_was_checked_stays_as_it_was():
    mask = np.ones((2, 2), bool)
    layer = ll.Attention(mask=mask)
    mask[1] = False
    assert layer.mask.all()


def test_what_is_not_a_number_is_refused_or_shown():
    """An activation that leaves its domain gives no number that looks like one, in any reading."""

    def undefined(x):  # between the points where activations are tried
        return jnp.where(jnp.abs(x - 0.33) < 0.02, jnp.nan, x)

    net = ll.Network(ll.Inputs(2, undefined), ll.Attention())
    with pytest.raises(ArgumentError, match=r"beyond single precision: not a number"):
        net.sample(20, width=64)
    with pytest.raises(ArgumentError, match=r"beyond single precision: not a number"):
        net.sample(20, width=64, reading="dense")


# Layers as users write them, wrongly.


class NoMatrices(ll.Layer):
    """Declares nothing."""


class NoInner(ll.Layer):
    """Has a matrix that nothing reads."""

    def matrices(self, width, layout):
        return {"in": ll.Matrix(width), "out": ll.Matrix(width)}


class Own(ll.Layer):
    """Does what `what` says."""

    what: str = "right"
    number: float = 1.0

    def matrices(self, width, layout):
        columns = {"zero": 0, "fraction": width / 3, "infinite": inf, "negative": -4}.get(self.what, width)
        out = ll.Matrix(width + 1 if self.what == "wide" else width)
        if self.what == "list":
            return [out]
        if self.what == "numbers":
            return {"in": 3, "out": 4}
        if self.what == "unknown twin":
            return {"in": ll.Matrix(width, same_as="other"), "out": out}
        return {"in": ll.Matrix(columns, std=-1.0 if self.what == "negative std" else 1.0), "out": out}

    def inner(self, u, context):
        h = u["in"]
        if self.what == "branch":
            return h if self.number > 0 else -h
        if self.what == "convert":
            return h * float(self.number)
        if self.what == "observed":
            return h, [1.0]
        return {"vector": h[0], "transposed": h.T, "none": None, "scalar": h.sum()}.get(self.what, h)


class NewStream(ll.Layer):
    """Returns the new stream, too narrow."""

    def matrices(self, width, layout):
        return {"in": ll.Matrix(width // 2)}

    def inner(self, u, context):
        return u["in"]


@pytest.mark.parametrize(
    "layer, argument, fragments",
    [
        (NoMatrices, "matrices", ["NoMatrices has no method matrices(width, layout)", "ll.Matrix(width)"]),
        (NoInner(), "inner", ["NoInner has no method inner(u, context)", "(tokens, columns)"]),
        (Own("branch"), "inner", ["Own.inner branches on a number that JAX traces", "jnp.where"]),
        (Own("convert"), "inner", ["Own.inner", "that JAX traces"]),
        (Own("vector"), "inner", ["Own.inner returned an array of shape (8,)", "(tokens, m) = (2, m)"]),
        (Own("transposed"), "inner", ["Own.inner returned an array of shape (8, 2)", "(2, m)"]),
        (Own("scalar"), "inner", ["Own.inner returned an array of shape ()", "(2, m)"]),
        (Own("none"), "inner", ["Own.inner returned None", "(2, m)"]),
        (Own("observed"), "inner", ["Own.inner returned an object of type list", "dictionary"]),
        (NewStream(), "inner", ["NewStream.inner returned an array of shape (2, 4)", "(2, 8)", "'out'"]),
        (Own("zero"), "matrices", ["Own.matrices(width=8, layout)", "columns=0", "positive whole number"]),
        (Own("negative"), "matrices", ["Own.matrices(width=8, layout)", "columns=-4", "positive whole number"]),
        (Own("fraction"), "matrices", ["Own.matrices(width=8, layout)", "columns=2.66667", "positive whole number"]),
        (Own("negative std"), "matrices", ["Own.matrices(width=8, layout)", "std=-1.0"]),
        (
            Own("infinite"),
            "matrices",
            ["'in'", "Own(what='infinite')", "infinitely many columns", "contract("],
        ),
        (Own("wide"), "matrices", ["Own.matrices(width=8, layout)", "'out' has 9 columns"]),
        (Own("list"), "matrices", ["Own.matrices(width, layout) returned", "dictionary of ll.Matrix"]),
        (Own("numbers"), "matrices", ["Own.matrices(width, layout) returned", "dictionary of ll.Matrix"]),
        (Own("unknown twin"), "matrices", ["Own.matrices(width, layout)", "same_as='other'"]),
    ],
    ids=lambda value: getattr(value, "what", type(value).__name__) if isinstance(value, ll.Layer) else "",
)
@pytest.mark.parametrize("ask", ["sample", "dense", "law", "trajectory", "draw"])
def test_wrong_layers_are_refused(layer, argument, fragments, ask):
    """Each refusal says which class, which method, and what was expected, before any work, in every reading."""

    def use():
        net = ll.Network(ll.GramInputs(EYE), layer() if isinstance(layer, type) else layer)
        return {
            "sample": lambda: net.sample(4, width=8),
            "dense": lambda: net.sample(4, width=8, reading="dense"),
            "law": lambda: net.law(width=8, samples=4),
            "trajectory": lambda: net.trajectory(4, width=8),
            "draw": lambda: net.draw(jax.random.key(0), width=8),
        }[ask]()

    with pytest.raises(ArgumentError) as refusal:
        use()
    assert refusal.value.argument == argument
    for fragment in fragments:
        assert fragment in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_infinitely_many_columns_come_with_infinite_width():
    """A hidden size that follows the width has no derived rule there; the sentence names the rule that is missing."""
    net = ll.Network(ll.GramInputs(EYE), Own())
    assert net.sample(2, width=8).shape == (2,)
    with pytest.raises(ArgumentError, match=r"infinitely many columns at width=inf.*contract\(") as refusal:
        net.sample(2)
    assert refusal.value.argument == "matrices"


@pytest.mark.parametrize(
    "make, argument, hint",
    [
        (lambda: ll.Attention(num_heads=2), "num_heads", "heads"),
        (lambda: ll.Attention(n_head=2), "n_head", "heads"),
        (lambda: ll.Attention(num_key_value_heads=2), "num_key_value_heads", "kv_heads"),
        (lambda: ll.Attention(causal=True), "causal", "mask='causal'"),
        (lambda: ll.Attention(is_causal=True), "is_causal", "mask='causal'"),
        (lambda: ll.Attention(querystd=2.0), "querystd", "query_std"),
        (lambda: ll.Attention(d_model=64), "d_model", "width"),
        (lambda: ll.MLP(hidden_act="gelu"), "hidden_act", "activation"),
        (lambda: ll.LayerNorm(epsilon=1e-6), "epsilon", "eps"),
        (lambda: ll.Inputs(4, phi="relu"), "phi", "activation"),
        (lambda: ll.Inputs(n=4), "n", "Network(..., width=...)"),
        (lambda: Own(numbr=2.0), "numbr", "number"),
    ],
)
def test_unknown_arguments_of_layers_get_a_hint(make, argument, hint):
    with pytest.raises(TypeError, match="Did you mean") as refusal:
        make()
    assert refusal.value.argument == argument
    assert hint in str(refusal.value).split("Did you mean")[1]


def test_equal_names_of_different_modules_are_refused_where_they_are_looked_up():
    def define(module):
        namespace = {"__module__": module, "__qualname__": "NamedTwice"}
        return type(ll.Linear)("NamedTwice", (ll.Linear,), namespace)

    define("first_module")
    table = {"inputs": {"kind": "Inputs", "tokens": 2}, "layers": [{"kind": "NamedTwice"}]}
    assert type(from_plain(table).layers[0]).__name__ == "NamedTwice"
    define("first_module")  # a cell that is run twice replaces the class
    assert type(from_plain(table).layers[0]).__name__ == "NamedTwice"
    define("second_module")
    with pytest.raises(ArgumentError, match=r"first_module.NamedTwice, second_module.NamedTwice. Give one") as refusal:
        from_plain(table)
    assert refusal.value.argument == "kind"


@pytest.mark.parametrize(
    "ask, argument",
    [
        (lambda net: net.law(max_memory="1GB"), "max_memory"),
        (lambda net: net.joint_law([0], max_memory=0), "max_memory"),
        (lambda net: net.score_law(max_memory=None), "max_memory"),
        (lambda net: net.law(progress="no"), "progress"),
        (lambda net: net.sample(3, width=4, progress=None), "progress"),
        (lambda net: net.trajectory(3, width=4, progress=1), "progress"),
        (lambda net: net.realise(4)(np.ones((3, 4))), "tokens"),
        (lambda net: net.realise(4)(weights={"0.key": np.ones((1, 1))}), "weights"),
        (lambda net: ll.Matrix(4, reads=3), "reads"),
        (lambda net: ll.Matrix(4, same_as=3), "same_as"),
        (lambda net: ll.Matrix(4, std=1e-30), "std"),
        (lambda net: jax.jit(lambda std: ll.Network(net.inputs, ll.Attention(query_std=std)).program())(1.0), "layers"),
    ],
)
def test_arguments_are_refused_before_any_work(ask, argument):
    with pytest.raises(ArgumentError) as refusal:
        ask(ll.Network(ll.GramInputs(EYE), ll.Attention()))
    assert refusal.value.argument == argument

import json
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import limitlaw as ll
from limitlaw.networks import as_plain, from_plain

STDS = st.sampled_from([0.0, 0.5, 1.0, 2])


@st.composite
def networks(draw):
    tokens = draw(st.integers(1, 3))
    K = np.eye(tokens) + draw(st.sampled_from([0.0, 0.5]))
    inputs = draw(
        st.sampled_from(
            [
                ll.Inputs(tokens, draw(st.sampled_from(["relu", "identity", "gelu", "clip(2.5)"]))),
                ll.GramInputs(K),
                ll.GramInputs(K, mean=np.full(tokens, 0.1)),
                ll.GaussianInputs(K),
            ]
        )
    )
    layers = [
        ll.Attention(
            heads=draw(st.sampled_from([1, 3])),
            head_dim=draw(st.sampled_from([None, 4, inf])),
            mask=draw(st.sampled_from([None, "causal", np.tril(np.ones((tokens, tokens), bool))])),
            scale="linear",
            tie_qk=draw(st.booleans()),
            query_std=draw(STDS),
            out_std=draw(STDS),
        )
        for _ in range(draw(st.integers(0, 2)))
    ]
    return ll.Network(inputs, *layers)


@given(networks())
@settings(max_examples=50)
def test_a_network_goes_through_json_and_back(net):
    plain = json.loads(json.dumps(as_plain(net)))
    again = from_plain(plain)
    assert repr(again) == repr(net)
    assert as_plain(again) == plain


def test_infinitely_many_heads_are_a_word():
    net = ll.Network(ll.Inputs(2), ll.Attention(heads=inf))
    assert as_plain(net)["layers"] == [{"kind": "Attention", "heads": "inf"}]
    assert from_plain(as_plain(net)).layers[0].heads == inf


@pytest.mark.parametrize(
    "table, hint",
    [
        ({"layers": []}, r"inputs=None must be a table \[inputs\]"),
        ({"inputs": {"kind": "Inputs"}}, "Inputs in inputs needs 'tokens'"),
        ({"inputs": {"kind": "Attention"}}, "kind='Attention' in inputs is not known.*'GramInputs'"),
        ({"inputs": {"kind": "Inputs", "tokens": 2}, "layers": [3]}, "must be a list of tables"),
        (
            {"inputs": {"kind": "Inputs", "tokens": 2, "K": 1}},
            "'K' is not a key of Inputs. Known: 'tokens', 'activation'",
        ),
        (
            {"inputs": {"kind": "Inputs", "tokens": 2}, "layer": []},
            "'layer' is not a key of a network. Did you mean 'layers'?",
        ),
    ],
)
def test_wrong_tables_are_refused(table, hint):
    with pytest.raises(ValueError, match=hint):
        from_plain(table)


def test_a_function_cannot_be_written_down():
    with pytest.raises(ValueError, match="is a function, which plain data cannot hold"):
        as_plain(ll.Network(ll.Inputs(2, lambda x: x**3)))


def test_a_transformer():
    """Layers of layers, arrays, infinite widths and a width of its own survive JSON."""
    net = ll.Network(
        ll.Embedding([[3, 17], [3, 5]], positions="learned", position_std=0.5, padding=5, norm=ll.LayerNorm(1e-12)),
        ll.Repeat(
            3,
            ll.Residual(ll.RMSNorm(), ll.Attention(heads=4, kv_heads=2, rope=[1.0, 0.5], score_bias=np.ones((4, 4)))),
            ll.Residual(ll.MLP("silu", width=inf, gated=True, in_bias_std=0.1), skip=0.5),
        ),
        ll.OnSequence(1, ll.Residual(ll.Attention(context=0))),
        ll.Readout(ll.LayerNorm(), std=2.0),
        width=32,
    )
    again = from_plain(json.loads(json.dumps(as_plain(net))))
    assert repr(again) == repr(net)
    assert again.width == 32
    assert again == net


def test_a_layer_within_layers_is_checked():
    table = {"kind": "Repeat", "count": 2, "layers": [{"kind": "Atention"}]}
    with pytest.raises(ValueError, match="Did you mean 'Attention'"):
        from_plain({"inputs": {"kind": "Inputs", "tokens": 2}, "layers": [table]})

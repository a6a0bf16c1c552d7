"""PyTorch's modules: scales against the weights that torch itself draws, the order of norms and branches, and what is refused."""

import functools

import numpy as np
import pytest

import limitlaw as ll
from limitlaw.models import from_torch

torch = pytest.importorskip("torch")
nn = torch.nn

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore:enable_nested_tensor")]

X = np.random.default_rng(0).standard_normal((3, 64)) + 0.3
PAIR = (X, X[:2] - 1)


def parts(net, kind):
    return [layer for outer in net.layers for layer, _ in outer.walk() if isinstance(layer, kind)]


def scale(weight, fan_in):
    """`sqrt(variance fan_in)` of a matrix drawn by torch."""
    return pytest.approx(float(weight.detach().std()) * fan_in**0.5, rel=0.05)


def attention_stds(layer):
    return [layer.query_std, layer.key_std, layer.value_std, layer.out_std]


def structure(layer):
    name = type(layer).__name__
    layers = getattr(layer, "layers", ())
    return (name, *map(structure, layers)) if layers else name


class TestScales:
    def test_multihead_attention(self):
        module = nn.MultiheadAttention(64, 4)
        net = from_torch(module, X)
        (attention,) = net.layers
        assert attention_stds(attention) == pytest.approx([0.5**0.5] * 3 + [3**-0.5])
        assert attention.query_std == scale(module.in_proj_weight, 64)
        assert attention.out_std == scale(module.out_proj.weight, 64)
        assert not module.in_proj_bias.any()
        assert not module.out_proj.bias.any()
        assert (net.width, attention.heads, attention.head_dim_at(64)) == (64, 4, 16)

    def test_keys_and_values_of_another_width(self):
        module = nn.MultiheadAttention(64, 4, kdim=192, vdim=192)
        context = np.random.default_rng(1).standard_normal((5, 192))
        net = from_torch(module, (X, context))
        assert structure(net.layers[0]) == ("OnSequence", "Attention")
        (attention,) = parts(net, ll.Attention)
        assert attention_stds(attention) == pytest.approx([1, 1.5**0.5, 1.5**0.5, 3**-0.5])
        assert attention.key_std == scale(module.k_proj_weight, 192)
        assert attention.value_std == scale(module.v_proj_weight, 192)
        assert attention.query_std == scale(module.q_proj_weight, 64)
        assert (net.layers[0].sequence, attention.context) == (0, 1)
        gram = net.inputs.limit_gram()
        assert gram[:3, :3] == pytest.approx(X @ X.T / 64)
        assert gram[3:, 3:] == pytest.approx(context @ context.T / 192)

    def test_encoder_layer(self):
        module = nn.TransformerEncoderLayer(64, 4, 256)
        net = from_torch(module, X)
        (mlp,) = parts(net, ll.MLP)
        assert (mlp.in_std, mlp.out_std) == pytest.approx((3**-0.5, 3**-0.5))
        assert mlp.in_std == scale(module.linear1.weight, 64)
        assert mlp.out_std == scale(module.linear2.weight, 256)
        assert (mlp.in_bias_std, mlp.out_bias_std) == pytest.approx((1 / 192**0.5, 1 / 768**0.5))
        assert mlp.in_bias_std == pytest.approx(float(module.linear1.bias.detach().std()), rel=0.2)
        assert mlp.width_at(64) == 256
        (attention,) = parts(net, ll.Attention)
        assert attention_stds(attention) == pytest.approx([0.5**0.5] * 3 + [3**-0.5])

    def test_without_biases(self):
        (mlp,) = parts(from_torch(nn.TransformerEncoderLayer(64, 4, 256, bias=False), X), ll.MLP)
        assert (mlp.in_bias_std, mlp.out_bias_std) == (0, 0)

    def test_transformer(self):
        module = nn.Transformer(64, 4, 2, 3, 128)
        net = from_torch(module, PAIR, mask="causal")
        layer = module.decoder.layers[1]
        for attention in parts(net, ll.Attention):
            assert attention_stds(attention) == pytest.approx([0.5**0.5] * 3 + [1])
            assert attention.query_std == scale(layer.multihead_attn.in_proj_weight, 64)
            assert attention.out_std == scale(layer.multihead_attn.out_proj.weight, 64)
        for mlp in parts(net, ll.MLP):
            assert (mlp.in_std, mlp.out_std) == pytest.approx(((2 / 3) ** 0.5, (4 / 3) ** 0.5))
            assert mlp.in_std == scale(layer.linear1.weight, 64)
            assert mlp.out_std == scale(layer.linear2.weight, 128)
            assert mlp.in_bias_std == pytest.approx(float(layer.linear1.bias.detach().std()), rel=0.2)


class TestStructure:
    def test_norms_after(self):
        (repeat,) = from_torch(nn.TransformerEncoderLayer(64, 4, layer_norm_eps=1e-3), X).layers
        branches = [("Residual", "Attention"), "LayerNorm", ("Residual", "MLP"), "LayerNorm"]
        assert structure(repeat) == ("Repeat", *branches)
        assert repeat.layers[1].eps == 1e-3

    def test_norms_before(self):
        layer = nn.TransformerEncoderLayer(64, 4, norm_first=True)
        net = from_torch(nn.TransformerEncoder(layer, 6, nn.LayerNorm(64, eps=1e-4), enable_nested_tensor=False), X)
        branches = [("Residual", "LayerNorm", "Attention"), ("Residual", "LayerNorm", "MLP")]
        assert [structure(layer) for layer in net.layers] == [("Repeat", *branches), ("Readout", "LayerNorm")]
        assert net.layers[0].count == 6
        assert net.layers[1].layers[0].eps == 1e-4

    def test_no_final_norm(self):
        net = from_torch(nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4), 2), X)
        assert [type(layer) for layer in net.layers] == [ll.Repeat]

    def test_final_root_mean_square(self):
        layer = nn.TransformerEncoderLayer(64, 4)
        for eps, expected in ((1e-3, 1e-3), (None, 2.0**-23)):
            net = from_torch(nn.TransformerEncoder(layer, 1, nn.RMSNorm(64, eps=eps)), X)
            assert net.layers[-1].layers[0].eps == expected

    def test_layers_that_differ_are_written_out(self):
        encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4), 3)
        encoder.layers[1].norm1.eps = 0.5
        net = from_torch(encoder, X)
        assert [layer.count for layer in net.layers] == [1, 1, 1]
        assert [norm.eps for norm in parts(net, ll.LayerNorm)] == [1e-5, 1e-5, 0.5, 1e-5, 1e-5, 1e-5]

    @pytest.mark.parametrize("norm_first", [False, True])
    def test_encoder_and_decoder(self, norm_first):
        module = nn.Transformer(64, 4, 2, 3, 128, norm_first=norm_first)
        net = from_torch(module, PAIR, mask="causal")
        encoder, decoder, readout = net.layers
        assert (encoder.sequence, decoder.sequence) == (0, 1)
        assert [type(layer) for layer in encoder.layers] == [ll.Repeat, ll.LayerNorm]
        assert [type(layer) for layer in decoder.layers] == [ll.Repeat]
        assert (encoder.layers[0].count, decoder.layers[0].count) == (2, 3)
        assert structure(readout) == ("Readout", ("OnSequence", "LayerNorm"))
        assert [(a.mask, a.context) for a in parts(net, ll.Attention)] == [(None, None), ("causal", None), (None, 0)]
        block = [structure(layer) for layer in decoder.layers[0].layers]
        if norm_first:
            assert block == [("Residual", "LayerNorm", name) for name in ("Attention", "Attention", "MLP")]
        else:
            assert block == [("Residual", "Attention"), "LayerNorm"] * 2 + [("Residual", "MLP"), "LayerNorm"]
        stacked = np.concatenate(PAIR)
        assert net.inputs.limit_gram() == pytest.approx(stacked @ stacked.T / 64)
        assert net.inputs.mean == pytest.approx(stacked.mean(1))
        assert net.inputs.layout.lengths == (3, 2)

    def test_inputs(self):
        layer = nn.TransformerEncoderLayer(64, 4)
        for x in (X, torch.tensor(X), X.tolist()):
            net = from_torch(layer, x)
            assert net.inputs.limit_gram() == pytest.approx(X @ X.T / 64)
            assert net.inputs.mean == pytest.approx(X.mean(1))
        batch = from_torch(layer, np.stack([X, X + 1]))
        assert batch.inputs.layout.lengths == (3, 3)
        given = ll.GaussianInputs(np.eye(2))
        assert from_torch(layer, given).inputs is given
        two = ll.GaussianInputs(np.eye(3), sequences=(1, 2))
        assert from_torch(nn.Transformer(64, 4, 1, 1), two).inputs is two

    def test_masks(self):
        layer = nn.TransformerEncoderLayer(64, 4)
        assert parts(from_torch(layer, X, mask="causal"), ll.Attention)[0].mask == "causal"
        band = np.tri(3, dtype=bool)
        assert (parts(from_torch(layer, X, mask=band), ll.Attention)[0].mask == band).all()

    @pytest.mark.parametrize(
        "given, ours",
        [
            ("relu", "relu"),
            ("gelu", "gelu"),
            (nn.ReLU(), "relu"),
            (nn.GELU(), "gelu"),
            (nn.GELU(approximate="tanh"), "gelu_tanh"),
            (nn.functional.silu, "silu"),
            (nn.SiLU(), "silu"),
            (torch.tanh, "tanh"),
            (nn.Sigmoid(), "sigmoid"),
        ],
    )
    def test_activations(self, given, ours):
        (mlp,) = parts(from_torch(nn.TransformerEncoderLayer(64, 4, activation=given), X), ll.MLP)
        assert repr(mlp.activation) == ours


LAYER = functools.partial(nn.TransformerEncoderLayer, 64, 4)


@pytest.mark.parametrize(
    "make, inputs, options, match",
    [
        (lambda: nn.Linear(4, 4), X, {}, r"module=Linear.*nn.MultiheadAttention, .*nn.Transformer"),
        (
            lambda: nn.TransformerDecoderLayer(64, 4),
            X,
            {},
            r"module \(of type TransformerDecoderLayer\) is not supported",
        ),
        (lambda: LAYER(activation=nn.Softplus()), X, {}, r"activation=Softplus.*Use relu, gelu"),
        (lambda: nn.MultiheadAttention(64, 4, add_bias_kv=True), X, {}, r"add_bias_kv=True.*add_bias_kv=False"),
        (lambda: nn.MultiheadAttention(64, 4, add_zero_attn=True), X, {}, r"add_zero_attn=True"),
        (
            lambda: nn.MultiheadAttention(64, 4, kdim=32),
            X,
            {},
            r"kdim=32 and vdim=64 are not supported.*inputs=\(query, context\)",
        ),
        (lambda: nn.MultiheadAttention(64, 4, kdim=32), (X, X[:, :32]), {}, r"kdim=32 and vdim=64 .*kdim == vdim"),
        (lambda: nn.MultiheadAttention(64, 4), (X, X[:, :32]), {}, r"inputs has a context of shape \(3, 32\)"),
        (
            lambda: nn.MultiheadAttention(64, 4),
            (X, X),
            {"mask": "causal"},
            r"mask='causal' is not supported with a pair",
        ),
        (lambda: nn.TransformerEncoder(LAYER(), 1, nn.GroupNorm(4, 64)), X, {}, r"norm=GroupNorm.*nn.LayerNorm"),
        (lambda: nn.TransformerEncoder(nn.Linear(64, 64), 1), X, {}, r"must be an nn.TransformerEncoder of one"),
        (lambda: nn.TransformerEncoder(LAYER(), 0), X, {}, r"must be an nn.TransformerEncoder of one"),
        (lambda: nn.Transformer(64, 4, custom_encoder=nn.Identity()), PAIR, {}, r"must be an nn.TransformerEncoder of"),
        (lambda: nn.Transformer(64, 4, 1, 1), X, {}, r"inputs must be two sequences for nn.Transformer"),
        (lambda: nn.Transformer(64, 4, 1, 1), ll.GaussianInputs(np.eye(3)), {}, r"must be two sequences"),
        (lambda: nn.Transformer(64, 4, 1, 1), PAIR, {"mask": np.eye(3) > 0}, r"must be None or 'causal'"),
        (LAYER, X[:, :32], {}, r"inputs has shape \(3, 32\)\. It must be \(tokens, 64\)"),
        (LAYER, X[0], {}, r"inputs has shape \(64,\)"),
        (LAYER, "x", {}, r"inputs='x' must be an array"),
        (LAYER, X * np.nan, {}, r"inputs\[0, 0\] is nan"),
        (LAYER, X, {"mask": "anti"}, r"mask='anti'"),
    ],
)
def test_refusals(make, inputs, options, match):
    with pytest.raises((TypeError, ValueError), match=match) as refused:
        from_torch(make(), inputs, **options)
    assert "\n" not in str(refused.value)

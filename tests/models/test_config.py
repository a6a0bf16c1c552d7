"""Configurations of Hugging Face models: the scales of their own initialisers, every key accounted for, and what is refused."""

import json
import re
from math import inf
from pathlib import Path

import numpy as np
import pytest

import limitlaw as ll
from limitlaw._checks import ArgumentError
from limitlaw.models import PRESETS, from_config
from limitlaw.models._family import FIXED, IGNORED
from limitlaw.models.families import FAMILIES

STORED = json.loads(Path(__file__).with_name("configs.json").read_text())
IDS = [3, 17, 5, 3]
GPT2 = {"model_type": "gpt2", "n_embd": 100, "n_head": 4, "n_layer": 2}
BERT = {
    "model_type": "bert",
    "hidden_size": 100,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "intermediate_size": 225,
}
LLAMA = BERT | {"model_type": "llama", "num_attention_heads": 2, "num_key_value_heads": 1}
VIT = BERT | {"model_type": "vit", "image_size": 6, "patch_size": 2, "num_channels": 2}
IMAGE = np.random.default_rng(0).standard_normal((2, 6, 6))
SMALL = {"gpt2": (GPT2, IDS), "bert": (BERT, IDS), "llama": (LLAMA, IDS), "vit": (VIT, IMAGE)}

# The values that transformers 4 writes for every model beside the family's own.
TRANSFORMERS_4 = {
    **dict.fromkeys(
        """bad_words_ids begin_suppress_tokens bos_token_id cross_attention_hidden_size decoder_start_token_id eos_token_id
        exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id prefix problem_type
        sep_token_id suppress_tokens task_specific_params tokenizer_class torch_dtype""".split()  # noqa: SIM905
    ),
    **dict.fromkeys(
        """add_cross_attention do_sample early_stopping is_decoder is_encoder_decoder output_attentions
        output_hidden_states output_scores remove_invalid_values return_dict_in_generate tf_legacy_loss tie_encoder_decoder
        torchscript use_bfloat16""".split(),  # noqa: SIM905
        False,
    ),
    "_attn_implementation_autoset": True,
    "_name_or_path": "",
    "architectures": ["Model"],
    "chunk_size_feed_forward": 0,
    "diversity_penalty": 0.0,
    "encoder_no_repeat_ngram_size": 0,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
    "label2id": {"LABEL_0": 0, "LABEL_1": 1},
    "length_penalty": 1.0,
    "max_length": 20,
    "min_length": 0,
    "no_repeat_ngram_size": 0,
    "num_beam_groups": 1,
    "num_beams": 1,
    "num_return_sequences": 1,
    "pruned_heads": {},
    "repetition_penalty": 1.0,
    "return_dict": True,
    "temperature": 1.0,
    "tie_word_embeddings": True,
    "top_k": 50,
    "top_p": 1.0,
    "transformers_version": "4.57.1",
    "typical_p": 1.0,
    "use_cache": True,
}


def parts(net, kind):
    return [layer for outer in net.layers for layer, _ in outer.walk() if isinstance(layer, kind)]


def part(net, kind):
    (found,) = parts(net, kind)
    return found


def attention_stds(layer):
    return [layer.query_std, layer.key_std, layer.value_std, layer.out_std]


class TestScales:
    """Hand-computed: weights of standard deviation 0.02 at width 100 have the scale 0.2."""

    def test_gpt2(self):
        net = from_config(GPT2, IDS)
        attention, mlp = part(net, ll.Attention), part(net, ll.MLP)
        assert attention_stds(attention) == pytest.approx([0.2, 0.2, 0.2, 0.1])  # the last is divided by sqrt(2 * 2)
        assert (attention.mask, attention.head_dim_at(net.width)) == ("causal", 25)
        assert (mlp.in_std, mlp.out_std, mlp.width_at(100)) == pytest.approx((0.2, 0.02 / 2 * 20, 400))
        assert repr(mlp.activation) == "gelu_tanh"
        assert [type(layer) for layer in net.layers] == [ll.Repeat, ll.Readout]
        assert net.layers[0].count == 2
        assert [[type(layer) for layer in branch.layers] for branch in net.layers[0].layers] == [
            [ll.LayerNorm, ll.Attention],
            [ll.LayerNorm, ll.MLP],
        ]
        assert [norm.eps for norm in parts(net, ll.LayerNorm)] == [1e-5] * 3
        gram = 4e-4 * np.array([[2, 0, 0, 1], [0, 2, 0, 0], [0, 0, 2, 0], [1, 0, 0, 2]])
        assert net.inputs.limit_gram() == pytest.approx(gram)
        assert net.width == 100

    def test_gpt2_hidden_width(self):
        mlp = part(from_config(GPT2 | {"n_inner": 225}, IDS), ll.MLP)
        assert (mlp.width_at(100), mlp.in_std, mlp.out_std) == pytest.approx((225, 0.2, 0.01 * 15))

    def test_gpt2_scores_without_their_root(self):
        attention = part(from_config(GPT2 | {"scale_attn_weights": False}, IDS), ll.Attention)
        assert attention_stds(attention) == pytest.approx([0.2 * 5, 0.2, 0.2, 0.1])

    def test_gpt2_scores_divided_by_the_layer(self):
        net = from_config(GPT2 | {"scale_attn_by_inverse_layer_idx": True}, IDS, depth=3)
        assert [attention.query_std for attention in parts(net, ll.Attention)] == pytest.approx([0.2, 0.1, 0.2 / 3])
        assert [layer.count for layer in net.layers[:-1]] == [1, 1, 1]

    def test_gpt2_by_other_names(self):
        other = {
            "hidden_size": 100,
            "num_attention_heads": 4,
            "num_hidden_layers": 2,
            "max_position_embeddings": 1024,
            "n_ctx": 1024,
        }
        assert repr(from_config({"model_type": "gpt2", **other}, IDS)) == repr(from_config(GPT2, IDS))

    def test_bert(self):
        net = from_config(BERT, IDS)
        attention, mlp = part(net, ll.Attention), part(net, ll.MLP)
        assert attention_stds(attention) == pytest.approx([0.2] * 4)
        assert (attention.mask, attention.head_dim_at(net.width)) == (None, 25)
        assert (mlp.in_std, mlp.out_std, mlp.width_at(100)) == pytest.approx((0.2, 0.02 * 15, 225))
        assert repr(mlp.activation) == "gelu"
        (repeat,) = net.layers
        assert [type(layer) for layer in repeat.layers] == [ll.Residual, ll.LayerNorm, ll.Residual, ll.LayerNorm]
        assert [norm.eps for norm in parts(net, ll.LayerNorm)] == [1e-12] * 2
        gram = 4e-4 * np.array([[3, 1, 1, 2], [1, 3, 1, 1], [1, 1, 3, 1], [2, 1, 1, 3]])  # all of one type
        assert net.inputs.summed_gram() == pytest.approx(gram)
        assert net.inputs.limit_gram() == pytest.approx(gram / 12e-4)

    def test_bert_padding_is_a_row_of_zeros(self):
        gram = from_config(BERT, [0, 7, 0]).inputs.summed_gram()
        assert gram == pytest.approx(4e-4 * np.array([[2, 1, 1], [1, 3, 1], [1, 1, 2]]))
        gram = from_config(BERT | {"pad_token_id": None}, [0, 7, 0]).inputs.summed_gram()
        assert gram == pytest.approx(4e-4 * np.array([[3, 1, 2], [1, 3, 1], [2, 1, 3]]))

    def test_bert_as_a_decoder(self):
        assert part(from_config(BERT | {"is_decoder": True}, IDS), ll.Attention).mask == "causal"

    def test_llama(self):
        net = from_config(LLAMA, IDS)
        attention, mlp = part(net, ll.Attention), part(net, ll.MLP)
        assert attention_stds(attention) == pytest.approx([0.2] * 4)
        assert (attention.mask, attention.heads, attention.kv_heads, attention.rope) == ("causal", 2, 1, 10_000.0)
        assert (mlp.in_std, mlp.gate_std, mlp.out_std, mlp.width_at(100)) == pytest.approx((0.2, 0.2, 0.3, 225))
        assert mlp.gated
        assert repr(mlp.activation) == "silu"
        assert [norm.eps for norm in parts(net, ll.RMSNorm)] == [1e-6] * 3
        assert isinstance(net.layers[-1], ll.Readout)
        gram = 4e-4 * np.array([[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1]])  # positions are rotations
        assert net.inputs.limit_gram() == pytest.approx(gram)

    def test_llama_heads_of_their_own_dimension(self):
        attention = part(from_config(LLAMA | {"head_dim": 18}, IDS), ll.Attention)
        assert attention.head_dim_at(100) == 18
        assert attention_stds(attention) == pytest.approx([0.2, 0.2, 0.2, 0.02 * 6])  # 36 coordinates come together

    def test_llama_padding_counts_from_the_end(self):
        net = from_config(LLAMA | {"vocab_size": 18, "pad_token_id": -1}, IDS)
        assert np.diagonal(net.inputs.limit_gram()) == pytest.approx([4e-4, 0, 4e-4, 4e-4])

    @pytest.mark.parametrize("name", STORED["ropes"])
    def test_llama_rotations(self, name):
        stored = STORED["ropes"][name]
        net = from_config({"model_type": "llama", "intermediate_size": 64, **stored["config"]}, IDS)
        attention = part(net, ll.Attention)
        rope = attention.rope if np.ndim(attention.rope) else attention.rope ** -(np.arange(8) / 8)
        assert rope == pytest.approx(np.array(stored["frequencies"]), rel=1e-5)
        scale = 0.02 * 8 * stored["attention_scaling"]
        assert attention_stds(attention) == pytest.approx([scale, scale, 0.16, 0.16])

    def test_vit(self):
        net = from_config(VIT, IMAGE)
        attention, mlp = part(net, ll.Attention), part(net, ll.MLP)
        assert attention_stds(attention) == pytest.approx([0.2] * 4)
        assert (attention.mask, attention.head_dim_at(net.width)) == (None, 25)
        assert (mlp.in_std, mlp.out_std, mlp.width_at(100)) == pytest.approx((0.2, 0.3, 225))
        assert repr(mlp.activation) == "gelu"
        assert [norm.eps for norm in parts(net, ll.LayerNorm)] == [1e-12] * 3
        assert isinstance(net.layers[-1], ll.Readout)
        assert net.inputs.limit_gram() == pytest.approx(4e-4 * vit_gram([IMAGE]))

    def test_vit_on_a_batch(self):
        batch = np.stack([IMAGE, IMAGE + 1])
        net = from_config(VIT, batch)
        assert net.inputs.layout.lengths == (10, 10)
        assert net.inputs.limit_gram() == pytest.approx(4e-4 * vit_gram(batch))

    def test_vit_cuts_what_is_left_of_an_image(self):
        net = from_config(VIT | {"image_size": [7, 5], "patch_size": [2, 3]}, np.ones((2, 7, 5)))
        assert net.tokens == 1 + 3  # three rows of one patch
        assert net.inputs.limit_gram() == pytest.approx(
            4e-4 * (np.diag([2, 1, 1, 1]) + np.pad(np.full((3, 3), 12), (1, 0)))
        )


def vit_gram(images):
    """Patch by patch, pixel by pixel."""
    tokens = []
    for image in images:
        tokens.append((0, None))
        for k in range(9):
            top, left = 2 * (k // 3), 2 * (k % 3)
            tokens.append((k + 1, [image[c, top + i, left + j] for c in range(2) for i in range(2) for j in range(2)]))
    gram = np.zeros((len(tokens), len(tokens)))
    for i, (position, patch) in enumerate(tokens):
        for j, (other, pixels) in enumerate(tokens):
            if patch is None or pixels is None:
                gram[i, j] = float(patch is None and pixels is None)
            else:
                gram[i, j] = sum(a * b for a, b in zip(patch, pixels, strict=True))
            gram[i, j] += position == other
    return gram


class TestOverrides:
    def test_width_keeps_heads_and_ratios(self):
        net = from_config(BERT, IDS, width=400)
        attention, mlp = part(net, ll.Attention), part(net, ll.MLP)
        assert (net.width, attention.heads, attention.head_dim_at(400), mlp.width_at(400)) == (400, 4, 100, 900)
        assert attention_stds(attention) == pytest.approx([0.4] * 4)  # 0.02 sqrt(400)
        assert mlp.out_std == pytest.approx(0.02 * 30)
        wider = from_config(GPT2 | {"n_inner": 225}, IDS, width=400)
        assert part(wider, ll.MLP).width_at(400) == 900
        given = from_config(LLAMA | {"head_dim": 18}, IDS, width=200)
        assert part(given, ll.Attention).head_dim_at(200) == 36

    def test_depth_counts_in_the_scale_of_gpt2(self):
        net = from_config(GPT2, IDS, depth=8)
        assert net.layers[0].count == 8
        assert part(net, ll.Attention).out_std == pytest.approx(0.2 / 4)

    @pytest.mark.parametrize("family", SMALL)
    def test_both(self, family):
        config, tokens = SMALL[family]
        net = from_config(config, tokens, width=200, depth=5)
        assert (net.width, net.layers[0].count) == (200, 5)


class TestSources:
    def test_an_object(self):
        class Config:
            def to_dict(self):
                return GPT2

        assert repr(from_config(Config(), IDS)) == repr(from_config(GPT2, IDS))

    def test_a_model_of_transformers_has_its_configuration_read(self):
        class Config:
            def to_dict(self):
                return GPT2

        class Model:
            config = Config()

            def __repr__(self):
                return "Model(\n  (layers): ...\n)" * 100

        assert repr(from_config(Model(), IDS)) == repr(from_config(GPT2, IDS))
        Model.config = None
        with pytest.raises(ArgumentError) as refused:
            from_config(Model(), IDS)
        assert str(refused.value).startswith("config (of type Model) is not a configuration")

    @pytest.mark.parametrize("name", PRESETS)
    def test_a_known_model_by_its_name(self, name):
        tokens = 4 if name == "vit" else [3, 1, 2]
        net, same = (from_config(config, tokens, depth=1) for config in (name, PRESETS[name].config))
        assert repr(net) == repr(same)
        assert net.width == {"llama": 4096}.get(name, 768)

    def test_a_file_and_its_folder(self, tmp_path):
        file = tmp_path / "config.json"
        file.write_text(json.dumps(GPT2))
        for path in (file, str(file), tmp_path, str(tmp_path)):
            assert repr(from_config(path, IDS)) == repr(from_config(GPT2, IDS))

    @pytest.mark.parametrize("ids", [np.array(IDS), tuple(IDS), [np.int64(i) for i in IDS], [IDS], np.array([IDS])])
    def test_ids_of_any_kind(self, ids):
        assert repr(from_config(GPT2, ids)) == repr(from_config(GPT2, IDS))

    def test_a_number_of_distinct_tokens(self):
        assert from_config(GPT2, 4).inputs.ids == ((0, 1, 2, 3),)
        assert from_config(GPT2, np.int64(2)).inputs.ids == ((0, 1),)
        assert from_config(BERT | {"pad_token_id": 2}, 3).inputs.ids == ((0, 1, 3),)
        assert from_config(BERT | {"vocab_size": 5}, 4).inputs.ids == ((1, 2, 3, 4),)
        assert from_config(VIT, 6).tokens == 7  # with the class token

    def test_several_sequences(self):
        net = from_config(GPT2, [[3, 17], [5], [3]])
        assert net.inputs.layout.lengths == (2, 1, 1)
        gram = 4e-4 * np.array([[2, 0, 1, 2], [0, 2, 0, 0], [1, 0, 2, 1], [2, 0, 1, 2]])
        assert net.inputs.limit_gram() == pytest.approx(gram)


class TestKeys:
    """Every key is used, irrelevant or refused."""

    @pytest.mark.parametrize("family", SMALL)
    def test_missing_keys_have_the_values_of_transformers(self, family):
        tokens = np.ones((3, 224, 224)) if family == "vit" else IDS
        full, bare = STORED["defaults"][family], {"model_type": family}
        assert repr(from_config(full, tokens)) == repr(from_config(bare, tokens))

    @pytest.mark.parametrize("family", SMALL)
    def test_keys_of_transformers_4(self, family):
        config, tokens = SMALL[family]
        assert repr(from_config(TRANSFORMERS_4 | config, tokens)) == repr(from_config(config, tokens))

    @pytest.mark.parametrize("family", SMALL)
    def test_a_key_has_one_place(self, family):
        rules = FAMILIES[family]
        places = [*rules.used, *rules.fixed, *rules.ignored.keys, *rules.aliases, *FIXED, *IGNORED.keys]
        assert len(places) == len(set(places))
        assert {rules.width, rules.depth, *rules.proportional, *rules.aliases.values()} <= set(rules.used)

    @pytest.mark.parametrize("family", SMALL)
    def test_ignored_keys_change_nothing(self, family):
        config, tokens = SMALL[family]
        odd = {}
        for ignored in (IGNORED, FAMILIES[family].ignored):
            kinds = {"flags": True, "ids": [7, 8], "counts": 3, "rates": 0.25, "others": "anything"}
            odd |= {key: value for kind, value in kinds.items() for key in getattr(ignored, kind)}
        del odd["model_type"]
        assert repr(from_config(config | odd, tokens)) == repr(from_config(config, tokens))

    @pytest.mark.parametrize(
        "family, key, value",
        [
            ("gpt2", "activation_function", "relu"),
            ("gpt2", "initializer_range", 0.1),
            ("gpt2", "layer_norm_epsilon", 1e-3),
            ("gpt2", "n_embd", 200),
            ("gpt2", "n_head", 2),
            ("gpt2", "n_inner", 50),
            ("gpt2", "n_layer", 3),
            ("gpt2", "n_positions", 9),
            ("gpt2", "scale_attn_by_inverse_layer_idx", True),
            ("gpt2", "scale_attn_weights", False),
            ("gpt2", "vocab_size", 99),
            *[(family, "hidden_act", "relu") for family in ("bert", "llama", "vit")],
            *[(family, "initializer_range", 0.1) for family in ("bert", "llama", "vit")],
            *[(family, "hidden_size", 200) for family in ("bert", "llama", "vit")],
            *[(family, "intermediate_size", 50) for family in ("bert", "llama", "vit")],
            *[(family, "num_hidden_layers", 3) for family in ("bert", "llama", "vit")],
            *[(family, "num_attention_heads", 5) for family in ("bert", "llama", "vit")],
            *[(family, "max_position_embeddings", 9) for family in ("bert", "llama")],
            *[(family, "pad_token_id", 17) for family in ("bert", "llama")],
            *[(family, "vocab_size", 99) for family in ("bert", "llama")],
            *[(family, "layer_norm_eps", 1e-3) for family in ("bert", "vit")],
            ("bert", "is_decoder", True),
            ("llama", "head_dim", 10),
            ("llama", "num_key_value_heads", 2),
            ("llama", "rms_norm_eps", 1e-3),
            ("llama", "rope_parameters", {"rope_theta": 100.0}),
            ("llama", "rope_scaling", {"type": "linear", "factor": 2.0}),
            ("llama", "rope_theta", 100.0),
            ("vit", "image_size", [6, 6]),
            ("vit", "num_channels", 2),
            ("vit", "patch_size", 3),
        ],
    )
    def test_used_keys_are_used(self, family, key, value):
        config, tokens = SMALL[family]
        same = key in ("image_size", "num_channels")  # which have no other value that this image fits
        assert (repr(from_config(config | {key: value}, tokens)) == repr(from_config(config, tokens))) == same

    @pytest.mark.parametrize("family", SMALL)
    def test_the_list_above_is_complete(self, family):
        (cases,) = (mark.args[1] for mark in self.test_used_keys_are_used.pytestmark if mark.name == "parametrize")
        assert {key for name, key, _ in cases if name == family} == set(FAMILIES[family].used)

    @pytest.mark.parametrize(
        "name, ours",
        [
            ("gelu", "gelu"),
            ("gelu_new", "gelu_tanh"),
            ("gelu_fast", "gelu_tanh"),
            ("gelu_pytorch_tanh", "gelu_tanh"),
            ("swish", "silu"),
            ("linear", "identity"),
            ("quick_gelu", "quick_gelu"),
            ("sigmoid", "sigmoid"),
            ("tanh", "tanh"),
        ],
    )
    def test_activations(self, name, ours):
        assert repr(part(from_config(BERT | {"hidden_act": name}, IDS), ll.MLP).activation) == ours

    def test_quick_gelu(self):
        phi = part(from_config(BERT | {"hidden_act": "quick_gelu"}, IDS), ll.MLP).activation
        assert float(phi(1.0)) == pytest.approx(1 / (1 + np.exp(-1.702)), rel=1e-5)


def with_rope(**parameters):
    return LLAMA | {"rope_scaling": parameters}


@pytest.mark.parametrize(
    "config, tokens, match",
    [
        # the source
        (3, IDS, r"config=3 is not a configuration\. Give the name of a known model \('bert'"),
        (
            "gpt2-medium",
            IDS,
            r"config='gpt2-medium' is neither a known model nor a file\. Known models: 'bert'.*not downloaded",
        ),
        ({}, IDS, r"has no 'model_type'.*'bert', 'gpt2', 'llama', 'vit'"),
        (
            {"model_type": "GPT-2"},
            IDS,
            r"model_type='GPT-2' is not supported\. .*Supported: 'bert'.*docs/howto/network.md",
        ),
        ({"model_type": "lama"}, IDS, r"model_type='lama' is not supported\. Did you mean 'llama'\?"),
        ({"model_type": 3}, IDS, r"model_type=3"),
        # keys
        (GPT2 | {"n_heads": 4}, IDS, r"n_heads=4 is not a known key of a gpt2 configuration\. Did you mean 'n_head'\?"),
        (
            LLAMA | {"logit_softcap": 30.0},
            IDS,
            r"logit_softcap=30.0 is not a known key of a llama configuration\. Remove it",
        ),
        (
            GPT2 | {"hidden_size": 64},
            IDS,
            r"'n_embd' and 'hidden_size' are aliases and have different values\. Set only one of them\.",
        ),
        (GPT2 | {"add_cross_attention": True}, IDS, r"add_cross_attention=True is not supported.*False"),
        (BERT | {"add_cross_attention": True}, IDS, r"add_cross_attention=True is not supported"),
        (
            BERT | {"position_embedding_type": "relative_key"},
            IDS,
            r"position_embedding_type='relative_key'.*'absolute'",
        ),
        (BERT | {"is_encoder_decoder": True}, IDS, r"is_encoder_decoder=True"),
        (BERT | {"pruned_heads": {"0": [1]}}, IDS, r"pruned_heads=.*is not supported"),
        (BERT | {"cross_attention_hidden_size": 8}, IDS, r"cross_attention_hidden_size=8"),
        (LLAMA | {"per_layer_config": {"0": {"head_dim": 8}}}, IDS, r"per_layer_config="),
        (LLAMA | {"quantization_config": {"bits": 4}}, IDS, r"quantization_config="),
        (LLAMA | {"partial_rotary_factor": 0.5}, IDS, r"partial_rotary_factor=0.5 is not supported"),
        # values
        (GPT2 | {"n_embd": 0}, IDS, r"n_embd=0 must be a positive integer"),
        (GPT2 | {"n_layer": 2.5}, IDS, r"n_layer=2.5"),
        (GPT2 | {"n_head": 3}, IDS, r"n_embd=100 is not divisible by n_head=3\. Use a multiple of 3"),
        (GPT2 | {"n_inner": "wide"}, IDS, r"n_inner='wide'"),
        (GPT2 | {"initializer_range": 0.0}, IDS, r"initializer_range=0 must be positive"),
        (GPT2 | {"initializer_range": None}, IDS, r"initializer_range=None"),
        (GPT2 | {"layer_norm_epsilon": -1e-5}, IDS, r"layer_norm_epsilon=-1e-05"),
        (GPT2 | {"scale_attn_weights": "yes"}, IDS, r"scale_attn_weights='yes' must be True or False"),
        (GPT2 | {"activation_function": "mish"}, IDS, r"activation_function='mish'.*'gelu'.*'quick_gelu'"),
        (BERT | {"num_attention_heads": 7}, IDS, r"hidden_size=100 is not divisible by num_attention_heads=7"),
        (BERT | {"pad_token_id": 40_000}, IDS, r"pad_token_id=40000 is out of range. With 30522 tokens"),
        (
            LLAMA | {"num_key_value_heads": 3},
            IDS,
            r"num_key_value_heads=3 does not divide num_attention_heads=2\. Use a divisor",
        ),
        (LLAMA | {"num_attention_heads": 4}, IDS, r"num_attention_heads=4 gives heads of dimension 25.*even"),
        (LLAMA | {"num_attention_heads": 3}, IDS, r"hidden_size=100 is not divisible by num_attention_heads=3"),
        (LLAMA | {"attention_bias": "false"}, IDS, r"attention_bias='false' must be True or False"),
        (LLAMA | {"tie_word_embeddings": 1}, IDS, r"tie_word_embeddings=1 must be True or False"),
        (BERT | {"type_vocab_size": []}, IDS, r"type_vocab_size=\[\] must be an integer"),
        (BERT | {"hidden_dropout_prob": "no"}, IDS, r"hidden_dropout_prob='no'"),
        (GPT2 | {"eos_token_id": "end"}, IDS, r"eos_token_id='end' must be a token id"),
        (GPT2 | {"bos_token_id": True}, IDS, r"bos_token_id=True must be a token id"),
        (GPT2 | {"is_encoder_decoder": 0}, IDS, r"is_encoder_decoder=0 is not supported"),
        (LLAMA | {"rope_scaling": []}, IDS, r"rope_scaling=\[\] must be a dict"),
        # rotations
        (with_rope(rope_type="longrope"), IDS, r"rope_type='longrope' of rope_scaling is not supported.*'yarn'"),
        (with_rope(type="linear"), IDS, r"rope_scaling has no 'factor', which rope_type='linear' needs\. Add it"),
        (with_rope(type="linear", factor=-2.0), IDS, r"factor=-2.0"),
        (with_rope(type="linear", factor=0), IDS, r"factor=0 must be positive"),
        (with_rope(type="linear", factors=2), IDS, r"rope_scaling has no 'factor'"),
        (
            with_rope(type="linear", factor=2, beta=2),
            IDS,
            r"beta=2 of rope_scaling does not belong to rope_type='linear'",
        ),
        (
            with_rope(rope_type="default", partial_rotary_factor=0.5),
            IDS,
            r"factor=0.5 of rope_scaling is not supported",
        ),
        (with_rope(full_attention={"rope_type": "default"}), IDS, r"rope_scaling=.*one for all layers"),
        (
            with_rope(rope_type="llama3", factor=8, low_freq_factor=4, high_freq_factor=1),
            IDS,
            r"high_freq_factor=1 must be above low_freq_factor=4",
        ),
        (LLAMA | {"rope_theta": 0.5}, IDS, r"rope_theta=0.5.*above 1"),
        # tokens
        (
            GPT2,
            [3, 50257],
            r"tokens has the id 50257, which is out of range\. With vocab_size=50257 ids lie in \[0, 50256\]",
        ),
        (GPT2, [-1], r"tokens has the id -1, which is out of range"),
        (GPT2, [0] * 1025, r"tokens has a sequence of 1025, more than n_positions=1024 allows\. Shorten it"),
        (LLAMA, [[0], [0] * 2049], r"tokens has a sequence of 2049, more than max_position_embeddings=2048"),
        (GPT2, [], r"tokens=\[\] is not supported\. Give a list of token ids"),
        (GPT2, [[1], []], r"has an empty sequence"),
        (
            GPT2,
            None,
            r"tokens is missing\. Give a list of token ids, .* or a number of distinct tokens, such as tokens=8",
        ),
        (GPT2, 0, r"tokens=0 must be a positive integer"),
        (GPT2, 1025, r"tokens=1025 is more than n_positions=1024 allows"),
        (GPT2 | {"vocab_size": 5}, 6, r"tokens=6 exceeds the 5 distinct ids that vocab_size=5 allows"),
        (BERT | {"vocab_size": 5}, 5, r"tokens=5 exceeds the 4 distinct ids"),  # one of them is padding
        (GPT2 | {"n_positions": 10**6}, 10**5, r"tokens=100000 needs 2.38e\+03 GiB of memory"),
        (VIT, 10**5, r"tokens=100000 needs 2.38e\+03 GiB of memory"),
        (GPT2, "text", r"tokens='text' is not supported\. Give a list of token ids"),
        (GPT2, [1.5], r"tokens=\[1.5\] must hold integers"),
        (GPT2, [True], r"tokens=\[True\]"),
        (GPT2, [1, [2]], r"tokens=\[1, \[2\]\]"),
        # images
        (VIT, IDS, r"tokens has shape \(4,\), but a vit reads an image.*\(2, 6, 6\)"),
        (VIT, np.ones((3, 6, 6)), r"tokens has shape \(3, 6, 6\).*num_channels"),
        (VIT, np.ones((2, 7, 6)), r"tokens has shape \(2, 7, 6\).*image_size"),
        (VIT, "cat.png", r"tokens='cat.png' must be an image"),
        (VIT, None, r"tokens is missing\. Give an image .*, or a number of patches"),
        (VIT, np.full((2, 6, 6), np.nan), r"tokens\[0, 0, 0\] is nan"),
        (VIT | {"patch_size": 8}, IMAGE, r"patch_size=8 does not fit into image_size=6"),
        (VIT | {"image_size": [6, 6, 6]}, IMAGE, r"image_size=\[6, 6, 6\].*two of them"),
        (
            VIT | {"initializer_range": 1.0},
            IMAGE,
            r"initializer_range=1 is not supported: transformers truncates.*at most 0.4",
        ),
    ],
)
def test_refusals(config, tokens, match):
    with pytest.raises(ArgumentError, match=match) as refused:
        from_config(config, tokens)
    assert refused.value.argument


@pytest.mark.parametrize(
    "options, match",
    [
        ({"width": inf}, r"width=inf is not defined .*r sqrt\(width\) has no limit\. Give a finite width"),
        ({"width": 0}, r"width=0"),
        (
            {"width": 102},
            r"width=102 cannot keep the ratio of intermediate_size=225 to hidden_size=100\. Use a multiple of 4",
        ),
        ({"width": 4 * 101, "depth": 0}, r"depth=0 must be a positive integer"),
        ({"depth": inf}, r"depth=inf"),
    ],
)
def test_refused_overrides(options, match):
    with pytest.raises(ArgumentError, match=match):
        from_config(BERT, IDS, **options)


@pytest.mark.parametrize(
    "text, match",
    [("{", "is not valid JSON"), ("[1]", "holds a list"), ("[" * 100_000, r"config\.json' is nested too deeply")],
    ids=["broken", "list", "deep"],
)
def test_refused_files(tmp_path, text, match):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ArgumentError, match=match):
        from_config(tmp_path, IDS)


def test_a_family_is_one_file():
    """Nothing outside its file names a family, and every file of the folder that has one is found."""
    package = Path(ll.__file__).parent / "models"
    files = {file.stem.removeprefix("_") for file in (package / "families").glob("_*.py")}
    assert set(FAMILIES) == files - {"_init__", "rope"}
    assert {family.model_type for family in FAMILIES.values()} == set(FAMILIES)
    for file in package.glob("*.py"):
        code = re.sub(r'"""(.|\n)*?"""', "", file.read_text())
        assert not re.search(r"\b(bert|gpt2|llama|vit)\b", code), file

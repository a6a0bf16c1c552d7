"""What is said of networks that show something and of those that do not; comparisons that are honest for a few draws."""

import functools
import json
import re
import sys
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest

import limitlaw as ll
from limitlaw.models import (
    PRESETS,
    compare_trajectories,
    from_config,
    genuine,
    observations,
    require_genuine,
    value_and_error,
)
from limitlaw.models._genuine import _z_scores
from limitlaw.networks import Trajectory

STORED = json.loads(Path(__file__).with_name("configs.json").read_text())
_SHAPE = {
    "hidden_size": 24,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 36,
    "vocab_size": 30,
}
SMALL = {
    "gpt2": {"n_embd": 24, "n_head": 2, "n_layer": 2, "n_positions": 16, "vocab_size": 30},
    "bert": _SHAPE,
    "llama": _SHAPE | {"num_key_value_heads": 1, "head_dim": 12},
    "vit": {key: value for key, value in _SHAPE.items() if key != "vocab_size"}
    | {"image_size": 4, "patch_size": 2, "num_channels": 1},
}


def attention(K, **options):
    return ll.Network(ll.GramInputs(K), ll.Repeat(6, ll.Attention(**options)))


def skip(**options):
    return ll.Network(ll.GramInputs(np.eye(3)), ll.Repeat(6, ll.Residual(ll.Attention(**options))))


def pre_norm(K, **options):
    block = ll.Residual(ll.RMSNorm(), ll.Attention(mask="causal", **options))
    return ll.Network(ll.GramInputs(K), ll.Repeat(6, block), ll.Readout(ll.RMSNorm()))


# Scales and widths are traced: networks of one kind are compiled once.
NETWORKS = {
    "attention": attention(np.eye(3), query_std=4.0),
    "fading": attention(np.diag([1.0, 2.0, 20.0]), query_std=0.01, out_std=0.5),
    "skip": skip(),
    "calm": skip(out_std=0.1, query_std=0.8),
    "averaging": pre_norm(1e-2 * np.eye(3), query_std=0.1),
    "picking": pre_norm(np.eye(3), query_std=100.0),
    "selective": pre_norm(np.eye(3), query_std=2.0),
    "post-norm": ll.Network(
        ll.GramInputs(np.eye(3)), ll.Repeat(6, ll.Residual(ll.Attention(mask="causal")), ll.RMSNorm())
    ),
}


@functools.cache
def said(name, width=64):
    net = NETWORKS[name]
    return observations(net.trajectory(400, width=width), net)


def starting(name, beginning, width=64):
    return [sentence for sentence in said(name, width) if sentence.startswith(beginning)]


def made(*cosines):
    """A trajectory of two tokens with these cosines, after the input and after each block."""
    gram = np.array([[[1.0, c], [c, 1.0]] for c in cosines])
    return Trajectory(np.broadcast_to(gram, (3, *gram.shape)), (), (), inf)


class TestObservations:
    def test_tokens(self):
        (collapse,) = starting("attention", "Rank collapse: the mean cosine between tokens exceeds 0.99 from block ")
        assert re.search(r"from block [45] on", collapse)
        assert "(effective rank 1.00 of 3 at the end)" in collapse
        (nearer,) = starting("skip", "Tokens become more similar: the mean cosine rises from 0.00 at the input to 0.9")
        assert ", half of it by block 3. The effective rank goes from 3.0 to 1.1 (of 3)." in nearer
        assert not starting("calm", "Rank") + starting("calm", "Tokens")

    def test_tokens_of_any_trajectory(self):
        net = NETWORKS["calm"]
        assert observations(made(1.0, 1.0), net)[0].startswith(
            "The mean cosine between tokens exceeds 0.99 from the input on"
        )
        assert observations(made(0.2, 0.999, 0.5, 0.995), net)[0].split(" (")[0].endswith("from block 3 on")
        assert observations(made(0.8, 0.5), net)[0].startswith(
            "Tokens become less similar: the mean cosine falls from 0.80 at the input to 0.50"
        )
        assert "from 0.00 at the input" in observations(made(-0.001, 0.5), net)[0]
        assert observations(made(0.3, 0.9, 0.35), net) == []

    def test_attention(self):
        assert starting("averaging", "Attention is uniform: its entropy is at least 99.")
        assert starting("picking", "Attention is nearly one-hot in every block: its entropy falls to 1")
        (selective,) = starting("selective", "Attention is selective: its entropy is 5")
        assert " of 3 keys." in selective
        assert starting(
            "attention", "Attention becomes uniform: its entropy exceeds 97% of the maximum from block 5 on"
        )
        assert not starting("calm", "Attention")

    def test_variance(self):
        (linear,) = starting("averaging", "Variance grows ")
        assert ", linearly in depth (+" in linear
        assert ". Block 1 alone multiplies it by 3" in linear
        assert re.search(r", so the input makes up 2\.\d% of the stream after block 1, and 0\.", linear)
        (exponential,) = starting("skip", "Variance grows ")
        assert ", exponentially in depth (a factor of 1." in exponential
        assert "alone" not in exponential
        (fading,) = starting("fading", "Variance falls to 0.0")
        assert fading.endswith(" per block), so the signal fades.")
        assert starting("post-norm", "Every block ends in a norm, which holds the variance of every token at 1.")
        for name in ("calm", "post-norm"):
            assert not starting(name, "Variance")

    def test_unequal_tokens(self):
        (unequal,) = starting("fading", "Tokens enter with unequal variances, from 1 (token 0) to 20 (token 2).")
        assert "At the end these two have " in unequal
        assert not starting("skip", "Tokens enter") + starting("averaging", "Tokens enter")

    def test_tails(self):
        (calm,) = starting("calm", "Close to Gaussian")
        assert ", less than the 6/n = 0.0938 of any 64 Gaussian coordinates" in calm
        (close,) = starting("selective", "Close to Gaussian")
        assert ", about the 6/n = " in close
        (deep,) = starting("fading", "Tails from finite width: the excess kurtosis of the last token is ")
        assert deep.endswith(" times 6/n, but within the 1.34 that 6 layers of this width explain without attention.")
        (scores,) = starting("attention", "Tails: the excess kurtosis of the last token is ", 4096)
        assert scores.endswith("so it comes from the randomness of attention.")
        assert starting("attention", "Tails: at infinite width the excess kurtosis of the last token is 0.", inf)
        assert not starting("post-norm", "Tails") + starting("post-norm", "Close")
        assert said("calm", inf) == []

    def test_a_final_norm_is_mentioned(self):
        net = NETWORKS["attention"]
        t = net.trajectory(400, width=4096)
        normed = ll.Network(net.inputs, *net.layers, ll.Readout(ll.RMSNorm()))
        (tails,) = (text for text in observations(t, normed) if text.startswith("Tails"))
        assert tails.endswith("The final norm removes it from a single token.")

    def test_a_token_that_sees_only_itself(self):
        alone = "Token 0 attends only to itself, so its law does not depend on attention scores."
        (finite,) = starting("selective", f"{alone} Its excess kurtosis at the end, 0.")
        assert " is due to finite width alone (last token: 0." in finite
        assert starting("selective", f"{alone} Its variance is deterministic", inf)
        assert starting("post-norm", alone)
        assert not starting("skip", "Token 0")


class TestMeasured:
    def test_it_agrees_with_the_trajectory(self):
        t = NETWORKS["selective"].trajectory(400, width=64)
        found = t.summary()
        assert found["entropy"][0][1:] == pytest.approx(t.entropy.mean(axis=(1, 2)))
        assert np.isnan(found["entropy"][0][0])
        assert np.isnan(found["uniformity"][0][0])
        choice = t.entropy[:, :, 1:] / np.log([2, 3])
        assert found["uniformity"][0][1:] == pytest.approx(choice.mean(axis=(1, 2)), rel=1e-5)
        pairs = t.cosine[:, [1, 2, 2], [0, 0, 1]]
        assert found["cosine"][0] == pytest.approx(pairs.mean(axis=1))

    def test_short_numbers(self):
        assert value_and_error(0.0009, 2e-4) == ("9e-4", "2e-4")
        assert value_and_error(7.99e-4, 2.2e-6) == ("7.99e-4", "2e-6")
        assert value_and_error(1234567.0, 1e4) == ("1.23e6", "1e4")
        assert value_and_error(3.14159, 0.0096) == ("3.14", "0.01")
        assert value_and_error(2e-13, 1e-14) == ("0", "")
        assert value_and_error(np.nan, np.nan) == ("", "")


def normals(rng, samples, shift=0.0):
    """A trajectory of one block without attention, its Gram matrices those of Gaussian tokens."""
    x = rng.standard_normal((samples, 2, 3, 50)) * (1 + shift)
    return Trajectory(x @ np.swapaxes(x, 2, 3) / 50, (), (), 50)


class TestCompared:
    def test_z_scores_are_honest_for_a_few_models(self):
        rng = np.random.default_rng(0)
        many, few = rng.standard_normal((300, 4000)), rng.standard_normal((4, 4000))
        errors = [x.std(axis=0, ddof=1) / np.sqrt(len(x)) for x in (many, few)]
        z = _z_scores(many.mean(axis=0), errors[0], few.mean(axis=0), errors[1], 300, 4)
        for level, bound in ((0.05, 1.96), (0.01, 2.576)):
            assert np.mean(np.abs(z) > bound) == pytest.approx(level, abs=4 * np.sqrt(level / 4000))

    def test_equal_laws_agree_and_others_do_not(self):
        rng = np.random.default_rng(1)
        agreement = compare_trajectories(normals(rng, 300), normals(rng, 30))
        assert agreement.count == 4  # variance and cosine at two places
        assert agreement.p > 0.01
        agreement = compare_trajectories(normals(rng, 300), normals(rng, 30, shift=0.3))
        assert agreement.largest[0] == "variance"
        assert agreement.p < 1e-6

    def test_numbers_without_spread(self):
        first, second = (normals(np.random.default_rng(seed), 20) for seed in (2, 3))
        unit = np.broadcast_to(np.eye(3), (20, 2, 3, 3))
        same = compare_trajectories(replace(first, gram=unit), replace(second, gram=unit * (1 + 1e-7)))
        assert (same.count, same.p) == (0, 1.0)
        other = compare_trajectories(replace(first, gram=unit), replace(second, gram=unit * 1.01))
        assert np.isinf(other.z["variance"]).all()
        assert other.p == 0.0


def test_presets_are_the_defaults_of_transformers():
    assert set(PRESETS) == set(STORED["defaults"])
    for name, preset in PRESETS.items():
        assert preset.config.items() <= STORED["defaults"][name].items()


class TestGenuine:
    def test_without_torch(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(ValueError, match=r"torch is not installed. Run pip install '\.\[torch\]' in a checkout"):
            require_genuine(PRESETS["gpt2"].config)

    @pytest.mark.full
    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize("name", SMALL)
    def test_genuine_models_follow_the_law(self, name):
        """With every key that transformers writes, resized as `from_config` does it."""
        pytest.importorskip("torch")
        pytest.importorskip("transformers")
        config = STORED["defaults"][name] | SMALL[name] | {"initializer_range": 0.2}
        tokens = np.random.default_rng(0).standard_normal((1, 4, 4)) if name == "vit" else [3, 17, 5, 3]
        size = {"width": 48, "depth": 3}
        net = from_config(config, tokens, **size)
        models = genuine(config, tokens, 400, **size, seed=5)
        t = net.trajectory(4096)
        assert models.width == net.width == 48
        assert all((a == b).all() for a, b in zip(models.visible_keys, t.visible_keys, strict=True))
        agreement = compare_trajectories(t, models)
        assert agreement.count == (7 if name == "bert" else 11)
        assert agreement.p > 1e-3, agreement.z
        other = from_config(config | {"initializer_range": 0.22}, tokens, **size)
        assert compare_trajectories(other.trajectory(4096), models).p < 1e-6

    @pytest.mark.full
    def test_too_large_a_model_is_refused(self):
        pytest.importorskip("torch")
        pytest.importorskip("transformers")
        with pytest.raises(ValueError, match=r"the weights of one take 24.6 GiB, more than the 4 GiB allowed"):
            require_genuine(PRESETS["llama"].config)
        require_genuine(PRESETS["llama"].config, 256, 2)


def test_averages_that_rare_networks_decide_are_not_stated():
    """Attention alone, as deep as it is wide: the true variance, 0.29 of the input's, is that of a few networks in a thousand."""
    alone = ll.Network(ll.GaussianInputs(np.eye(4)), ll.Repeat(48, ll.Attention(heads=4, head_dim="split")))
    found = observations(alone.trajectory(256, width=48), alone)
    assert any(sentence.startswith("A few networks dominate the averages") for sentence in found)
    assert not any(sentence.startswith(("Variance", "Tails")) for sentence in found)
    shallow = ll.Network(ll.GaussianInputs(np.eye(4)), ll.Repeat(4, ll.Attention(heads=4, head_dim="split")))
    found = observations(shallow.trajectory(256, width=48), shallow)
    assert not any(sentence.startswith("A few networks") for sentence in found)

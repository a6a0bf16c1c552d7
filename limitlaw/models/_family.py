"""What the readers of configurations share: which keys matter, and what they may hold."""

import numbers
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import gcd
from typing import Any

import jax

from .. import _checks
from .._checks import ArgumentError, ArgumentTypeError
from ..networks import Network
from ._tokens import TokenReader


@dataclass(frozen=True)
class Ignored:
    """Keys that change nothing at initialisation, by the kind of value that they hold.

    Their values are checked all the same: a key of the wrong type is a mistake of whoever wrote the file, and seldom
    the only one. None is accepted everywhere, since it is how transformers writes a key that is not set.

    Args:
        flags: Keys that hold True or False.
        ids: Keys that hold a token id, or a list of them.
        counts: Keys that hold an integer of at least 0.
        rates: Keys that hold a number of at least 0, such as the probability of dropout.
        others: Keys that may hold anything.
    """

    flags: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    counts: frozenset[str] = frozenset()
    rates: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()

    @classmethod
    def of(cls, **words: str) -> "Ignored":
        """From one text of words for each kind."""
        return cls(**{kind: frozenset(text.split()) for kind, text in words.items()})

    @property
    def keys(self) -> frozenset[str]:
        """All keys."""
        return self.flags | self.ids | self.counts | self.rates | self.others

    def check(self, key: str, value: Any) -> None:
        """Refuse a value that is not of the kind of its key."""
        if value is None:
            return
        if key in self.flags:
            _checks.boolean(key, value)
        elif key in self.counts:
            _checks.natural(key, value)
        elif key in self.rates:
            _checks.non_negative(key, value)
        elif key in self.ids and not all(map(_is_integer, value if isinstance(value, list | tuple) else [value])):
            raise ArgumentTypeError(key, f"{key}={value!r} must be a token id (an integer), a list of them, or None.")


IGNORED = Ignored.of(
    flags="""_attn_implementation_autoset do_sample gradient_checkpointing output_attentions output_hidden_states
        output_scores remove_invalid_values return_dict return_dict_in_generate tf_legacy_loss tie_encoder_decoder
        tie_last_hidden_states tie_word_embeddings torchscript use_bfloat16 use_cache""",
    ids="""bos_token_id decoder_start_token_id eos_token_id forced_bos_token_id forced_eos_token_id sep_token_id""",
    others="""_attn_implementation _attn_implementation_internal _commit_hash _experts_implementation_internal
        _name_or_path architectures attn_implementation auto_map bad_words_ids begin_suppress_tokens
        chunk_size_feed_forward classifier_dropout diversity_penalty dtype early_stopping encoder_no_repeat_ngram_size
        experts_implementation exponential_decay_length_penalty finetuning_task id2label label2id length_penalty
        max_length min_length model_type name_or_path no_repeat_ngram_size num_beam_groups num_beams num_labels
        num_return_sequences output_past prefix problem_type repetition_penalty suppress_tokens task_specific_params
        temperature tokenizer_class top_k top_p torch_dtype transformers_version typical_p""",
)
"""Keys of every model that change nothing in the law of its hidden states at initialisation."""

FIXED: Mapping[str, tuple[Any, ...]] = {
    "add_cross_attention": (False,),
    "cross_attention_hidden_size": (None,),
    "is_encoder_decoder": (False,),
    "per_layer_config": (None, {}),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
}
"""Keys of every model that change the network, with the values at which they do not."""


def quick_gelu(x: Any) -> Any:
    """`x sigmoid(1.702 x)`."""
    return x * jax.nn.sigmoid(1.702 * x)


_ACTIVATIONS: Mapping[str, Any] = {
    **dict.fromkeys(("gelu", "gelu_python"), "gelu"),
    **dict.fromkeys(("gelu_new", "gelu_fast", "gelu_accurate", "gelu_pytorch_tanh", "gelu_python_tanh"), "gelu_tanh"),
    **dict.fromkeys(("silu", "swish"), "silu"),
    "linear": "identity",
    "quick_gelu": quick_gelu,
    "relu": "relu",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
}


@dataclass(frozen=True)
class Settings:
    """The keys that shape a network, each with its value. A method refuses a value that is not of its kind."""

    values: Mapping[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def replace(self, changes: Mapping[str, Any]) -> "Settings":
        """The same settings with some values changed."""
        return Settings({**self.values, **changes})

    def whole(self, key: str) -> int:
        """A positive integer."""
        return int(_checks.positive_integer(key, self[key]))

    def number(self, key: str) -> float:
        """A number of at least 0."""
        return _checks.non_negative(key, self[key])

    def flag(self, key: str) -> bool:
        """True or False."""
        return _checks.boolean(key, self[key])

    def activation(self, key: str) -> Any:
        """An activation of this library, from its name in transformers."""
        name = self[key]
        if not isinstance(name, str) or name not in _ACTIVATIONS:
            known = ", ".join(map(repr, _ACTIVATIONS))
            raise ArgumentError(key, f"{key}={name!r} is not a supported activation. Supported: {known}.")
        return _ACTIVATIONS[name]

    def weight_std(self) -> float:
        """The standard deviation of the weights."""
        std = self.number("initializer_range")
        if std == 0:
            raise ArgumentError(
                "initializer_range",
                "initializer_range=0 must be positive: transformers replaces 0 by 0.02 in some layers only.",
            )
        return std

    def padding(self, vocabulary: int) -> int | None:
        """The id whose row of the table is zero; negative ones are counted from the end."""
        key = "pad_token_id"
        return None if self[key] is None else _checks.index(key, self[key], vocabulary, "tokens in the vocabulary")

    def heads(self, heads: str, width: str) -> int:
        """The number of heads over which the width is split."""
        if self.whole(width) % self.whole(heads):
            raise ArgumentError(
                width,
                f"{width}={self[width]} is not divisible by {heads}={self[heads]}. Use a multiple of {self[heads]}.",
            )
        return self.whole(heads)


@dataclass(frozen=True)
class Preset:
    """A model that can be named: its title, and the keys in which it differs from the defaults of its family."""

    title: str
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Family:
    """How the configurations of one kind of model are read. Every key is in one of the tables, or refused.

    Args:
        model_type: The name of the family in configurations.
        used: The keys that shape the network, with the values that transformers takes where they are missing.
        width: The key that `from_config(width=...)` replaces.
        depth: The key that `from_config(depth=...)` replaces.
        tokens: What the models read: token ids or images.
        build: Makes the network from settings and tokens.
        transformers_class: The class of transformers, for comparisons with genuine models.
        transformers_options: Arguments of that class.
        presets: The models that can be named.
        proportional: The keys of lengths that keep their ratio to the width when it is replaced.
        fixed: The keys that are supported at these values alone, beyond those of every model (`FIXED`).
        ignored: The keys that change nothing at initialisation, beyond those of every model (`IGNORED`).
        aliases: Other names of used keys.
    """

    model_type: str
    used: Mapping[str, Any]
    width: str
    depth: str
    tokens: TokenReader
    build: Callable[[Settings, Any], Network]
    transformers_class: str
    transformers_options: Mapping[str, Any] = field(default_factory=dict)
    presets: Mapping[str, Preset] = field(default_factory=dict)
    proportional: tuple[str, ...] = ()
    fixed: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    ignored: Ignored = Ignored()
    aliases: Mapping[str, str] = field(default_factory=dict)

    def complete(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """A configuration with every used key that has a value, for readers who want to see it whole."""
        known = {key: value for key, value in self.used.items() if value is not None}
        return {"model_type": self.model_type, **known, **config}

    def settings(self, config: Mapping[str, Any], width: int | None = None, depth: int | None = None) -> Settings:
        """The used keys of a configuration.

        Args:
            config: The configuration.
            width: Replaces the width; heads keep their number, proportional lengths their ratio to it.
            depth: Replaces the number of blocks.

        Returns:
            The value of each used key.

        Raises:
            ArgumentError: If a key is unknown, is not supported at its value, or holds a value of the wrong kind.
        """
        values = dict(self.used)
        fixed = {**FIXED, **self.fixed}
        for key, value in config.items():
            name = self.aliases.get(key, key)
            if name in self.used:
                if key != name and config.get(name, value) != value:
                    raise ArgumentError(
                        key, f"{name!r} and {key!r} are aliases and have different values. Set only one of them."
                    )
                values[name] = value
            elif key in fixed:
                if not any(_equal(value, allowed) for allowed in fixed[key]):
                    raise ArgumentError(
                        key, f"{key}={value!r} is not supported. Use a configuration with {key}={fixed[key][0]!r}."
                    )
            elif key in self.ignored.keys:
                self.ignored.check(key, value)
            elif key in IGNORED.keys:
                IGNORED.check(key, value)
            else:
                raise self._unknown(key, value)
        settings = Settings(values)
        if width is not None:
            settings = settings.replace(self._resized(settings, width))
        return settings if depth is None else settings.replace({self.depth: depth})

    def _resized(self, settings: Settings, width: int) -> dict[str, int]:
        own = settings.whole(self.width)
        resized = {self.width: width}
        for key in self.proportional:
            if settings[key] is None:
                continue
            if settings.whole(key) * width % own:
                raise ArgumentError(
                    "width",
                    f"width={width} cannot keep the ratio of {key}={settings[key]} to {self.width}={own}. "
                    f"Use a multiple of {own // gcd(own, settings.whole(key))}.",
                )
            resized[key] = settings.whole(key) * width // own
        return resized

    def _unknown(self, key: str, value: Any) -> ArgumentError:
        known = [*self.used, *self.fixed, *self.ignored.keys, *self.aliases]
        return ArgumentError(
            key,
            f"{key}={value!r} is not a known key of a {self.model_type} configuration.{did_you_mean(key, known)} "
            f"Remove it if it changes neither the forward pass nor the initialisation.",
        )


def did_you_mean(name: Any, known: Iterable[str]) -> str:
    """A question with the nearest of the known names, after a space; empty if none is near."""
    sentence = _checks.suggestion(name, known)
    return f" {sentence}" if sentence.startswith("Did") else ""


def _is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _equal(value: Any, allowed: Any) -> bool:
    """Equality that keeps False and 0 apart."""
    return isinstance(value, bool) == isinstance(allowed, bool) and value == allowed

"""What the readers of configurations share: which keys matter, what they hold, layers with weights `N(0, std^2)`."""

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import gcd, sqrt
from typing import Any

import jax
import numpy as np

from .. import _arguments
from ..networks import MLP, Attention, Network

_OF_FILES = """_commit_hash _name_or_path architectures auto_map dtype model_type name_or_path output_past
    tf_legacy_loss tokenizer_class torch_dtype torchscript transformers_version use_bfloat16"""
_OF_EXECUTION = """_attn_implementation _attn_implementation_autoset _attn_implementation_internal
    _experts_implementation_internal attn_implementation chunk_size_feed_forward experts_implementation
    gradient_checkpointing output_attentions output_hidden_states return_dict tie_last_hidden_states use_cache"""
_OF_TASKS = """classifier_dropout finetuning_task id2label label2id num_labels prefix problem_type task_specific_params
    tie_encoder_decoder tie_word_embeddings"""
_OF_GENERATION = """bad_words_ids begin_suppress_tokens bos_token_id decoder_start_token_id diversity_penalty do_sample
    early_stopping encoder_no_repeat_ngram_size eos_token_id exponential_decay_length_penalty forced_bos_token_id
    forced_eos_token_id length_penalty max_length min_length no_repeat_ngram_size num_beam_groups num_beams
    num_return_sequences output_scores remove_invalid_values repetition_penalty return_dict_in_generate sep_token_id
    suppress_tokens temperature top_k top_p typical_p"""


def keys(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


IRRELEVANT = keys(_OF_FILES) | keys(_OF_EXECUTION) | keys(_OF_TASKS) | keys(_OF_GENERATION)
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

    def whole(self, key: str) -> int:
        """A positive integer."""
        return int(_arguments.positive_integer(key, self[key]))

    def number(self, key: str) -> float:
        """A number of at least 0."""
        return _arguments.non_negative(key, self[key])

    def flag(self, key: str) -> bool:
        """True or False."""
        if not isinstance(self[key], bool):
            raise TypeError(f"{key}={self[key]!r}: must be True or False.")
        return self[key]

    def activation(self, key: str) -> Any:
        """An activation of this library, from its name in transformers."""
        return _ACTIVATIONS[_arguments.one_of(key, self[key], _ACTIVATIONS)]

    def weight_std(self) -> float:
        """The standard deviation of the weights."""
        std = self.number("initializer_range")
        if std == 0:
            raise ValueError(
                "initializer_range=0: transformers takes 0 for 0.02 in some layers and not in others; give a positive number."
            )
        return std

    def padding(self, vocabulary: int) -> int | None:
        """The token whose row of the table is zero; negative ones are counted from the end."""
        key = "pad_token_id"
        return None if self[key] is None else _arguments.index(key, self[key], vocabulary, "tokens in the vocabulary")

    def heads(self, heads: str, width: str) -> int:
        """How many heads the width is split over."""
        if self.whole(width) % self.whole(heads):
            raise ValueError(
                f"{width}={self[width]}: cannot be split over {heads}={self[heads]}; use a multiple of {self[heads]}."
            )
        return self.whole(heads)


@dataclass(frozen=True)
class Family:
    """How the configurations of one kind of model are read.

    Every key is in one of these tables, or refused:

    - `used`: the keys that shape the network, with what transformers takes where they are missing;
    - `fixed`: keys supported at the values given alone, beyond those of every model (`FIXED`);
    - `irrelevant`: keys that change nothing at initialisation, beyond those of every model (`IRRELEVANT`);
    - `aliases`: other names of used keys.

    `width` and `depth` are the keys that `from_config(width=..., depth=...)` replaces; `proportional` are lengths that
    keep their ratio to the width. `build` makes the network.
    """

    used: Mapping[str, Any]
    width: str
    depth: str
    build: Callable[[Settings, Any], Network]
    proportional: tuple[str, ...] = ()
    fixed: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    irrelevant: frozenset[str] = frozenset()
    aliases: Mapping[str, str] = field(default_factory=dict)

    def settings(self, config: Mapping[str, Any], width: int | None = None, depth: int | None = None) -> Settings:
        """The used keys, every other key checked."""
        values = dict(self.used)
        fixed = {**FIXED, **self.fixed}
        for key, value in config.items():
            name = self.aliases.get(key, key)
            if name in self.used:
                if key != name and config.get(name, value) != value:
                    raise ValueError(
                        f"{key}={value!r} and {name}={config[name]!r}: are one thing by two names; give one."
                    )
                values[name] = value
            elif key in fixed:
                if value not in fixed[key]:
                    raise ValueError(
                        f"{key}={value!r}: is not supported; use a configuration with {key}={fixed[key][0]!r}."
                    )
            elif key not in self.irrelevant | IRRELEVANT:
                raise ValueError(self._unknown(key, value, config["model_type"]))
        if width is not None:
            values.update(self._resized(Settings(values), width))
        if depth is not None:
            values[self.depth] = depth
        return Settings(values)

    def _resized(self, settings: Settings, width: int) -> dict[str, int]:
        own = settings.whole(self.width)
        resized = {self.width: width}
        for key in self.proportional:
            if settings[key] is None:
                continue
            if settings.whole(key) * width % own:
                raise ValueError(
                    f"width={width}: the ratio of {key}={settings[key]} to {self.width}={own} cannot be kept; "
                    f"use a multiple of {own // gcd(own, settings.whole(key))}."
                )
            resized[key] = settings.whole(key) * width // own
        return resized

    def _unknown(self, key: str, value: Any, model_type: str) -> str:
        known = [*self.used, *self.fixed, *self.irrelevant, *self.aliases]
        return (
            f"{key}={value!r}: is no key of a {model_type} configuration that is known here{nearest(key, known)}; "
            f"remove it if it changes neither the forward pass nor the initialisation."
        )


def nearest(name: Any, known: Iterable[str]) -> str:
    """A hint, if a known name is close to this one."""
    close = difflib.get_close_matches(str(name), list(known), 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def sequences(tokens: Any, vocabulary: int, longest: int, bound: str) -> list[list[int]]:
    """Token ids as lists, one for each sequence, none of them longer than `longest`, the value of the key `bound`."""
    rows = _plain(tokens)
    if not isinstance(rows, list) or not rows:
        raise TypeError(f"tokens={tokens!r}: must be a list of token ids, or a list of such lists.")
    if not any(isinstance(row, list) for row in rows):
        rows = [rows]
    for row in rows:
        if not isinstance(row, list) or not all(isinstance(item, int) and not isinstance(item, bool) for item in row):
            raise TypeError(f"tokens={tokens!r}: must be a list of token ids (integers), or a list of such lists.")
        if not row:
            raise ValueError(f"tokens={tokens!r}: a sequence is empty; give it at least one token.")
        for item in row:
            if not 0 <= item < vocabulary:
                raise ValueError(
                    f"tokens: {item} is out of range; with vocab_size={vocabulary} ids lie in [0, {vocabulary - 1}]."
                )
        if len(row) > longest:
            raise ValueError(f"tokens: a sequence has {len(row)} of them, but {bound}={longest}; shorten it.")
    return rows


def _plain(value: Any) -> Any:
    """Arrays and tuples as lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def floats(name: str, value: Any, expected: str) -> np.ndarray:
    """A finite float64 array, from anything like one, tensors of torch included."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    try:
        array = np.array(value, np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    if array.ndim == 0:
        raise TypeError(f"{name}={value!r}: must be {expected}.")
    return _arguments.finite_array(name, array, array.ndim)


def self_attention(
    width: int, heads: int, std: float, out_std: float | None = None, *, mask: str | None = None, sharpness: float = 1.0
) -> Attention:
    """Heads that share the width, with weights `N(0, std^2)`, the last `N(0, out_std^2)`; `sharpness` multiplies scores."""
    scale = std * sqrt(width)
    return Attention(
        heads,
        head_dim="split",
        mask=mask,
        query_std=scale * sharpness,
        key_std=scale,
        value_std=scale,
        out_std=(std if out_std is None else out_std) * sqrt(width),
    )


def feed_forward(activation: Any, width: int, hidden: int, std: float, out_std: float | None = None) -> MLP:
    """A perceptron with weights `N(0, std^2)`, the last `N(0, out_std^2)` if given."""
    return MLP(
        activation,
        ratio=hidden / width,
        in_std=std * sqrt(width),
        out_std=(std if out_std is None else out_std) * sqrt(hidden),
    )

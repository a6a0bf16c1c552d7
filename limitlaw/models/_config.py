"""Networks from the configurations of Hugging Face models."""

import json
import numbers
import os
from collections.abc import Mapping
from math import isinf
from pathlib import Path
from typing import Any

from .. import _checks
from .._checks import ArgumentError, ArgumentTypeError
from ..networks import Network
from ._family import Family, did_you_mean
from ._tokens import shown
from .families import FAMILIES, PRESETS

_BY_HAND = "To describe the model by hand, see docs/howto/network.md."


def from_config(config: Any, tokens: Any = None, *, width: int | None = None, depth: int | None = None) -> Network:
    """The network of a Hugging Face model as its own initialiser leaves it, up to the final norm.

    Families: bert, gpt2, llama, vit. Keys that are missing have the values of transformers, which need not be
    installed. Every key is used, known to change nothing at initialisation (dropout, caches, heads of tasks, ...), or
    refused by name.

    The output is a fresh read-out of the last hidden state, not the model's head. Weights of a fixed standard deviation
    `r` have the scale `r sqrt(fan_in)`, which grows with the width: `width=...` here is the same model made wider,
    while `sample(width=...)` of the network keeps the scales of its own width.

    Args:
        config: The name of a known model ("gpt2", "bert", "llama", "vit"), a dict, a configuration or a model of
            transformers (only its configuration is read), or the path of a `config.json` or of its folder.
        tokens: Ids: a list, or a list of lists for several sequences through one model; or the number of distinct
            tokens, which have the ids from 0 on without the padding. For vit, an image `(channels, height, width)`, a
            batch of them, or the number of patches of a standard normal image, whose size is then fitted to it.
        width: Replaces the width of the configuration. The number of heads stays, head and hidden dimensions keep their
            ratio to the width.
        depth: Replaces the number of blocks of the configuration.

    Returns:
        The network, with the width of the model.

    Raises:
        ArgumentError: If the configuration, one of its keys, or the tokens are not supported.

    Example:
        >>> import limitlaw as ll
        >>> net = ll.from_config({"model_type": "gpt2", "n_embd": 100, "n_head": 4, "n_layer": 2}, tokens=[3, 17, 5, 3])
        >>> net.width, net.tokens
        (100, 4)
        >>> net.layers[-1]
        Readout(LayerNorm())
        >>> ll.from_config("gpt2", tokens=8, depth=2).width
        768
        >>> ll.from_config("gtp2", tokens=8)
        Traceback (most recent call last):
            ...
        limitlaw._checks.ArgumentError: config='gtp2' is neither a known model nor a file. Did you mean 'gpt2'? ...
    """
    values = read_config(config)
    family = family_of(values)
    if width is not None:
        _checks.positive_integer("width", width, infinite=True)
        if isinf(width):
            raise ArgumentError(
                "width",
                "width=inf is not defined for a model: its weights have a fixed standard deviation r, so their scale "
                "r sqrt(width) has no limit. Give a finite width, or use sample(width=inf) of the network, which keeps "
                "the scales of its own width.",
            )
        width = int(width)
    if depth is not None:
        depth = int(_checks.positive_integer("depth", depth))
    settings = family.settings(values, width, depth)
    if tokens is None:
        raise ArgumentError("tokens", f"tokens is missing. Give {family.tokens.expected}.")
    if isinstance(tokens, numbers.Integral) and not isinstance(tokens, bool):
        example = family.tokens.counted(settings, int(tokens))
        settings, tokens = settings.replace(example.config), example.tokens
    return family.build(settings, tokens)


def read_config(config: Any) -> Mapping[str, Any]:
    """A configuration as a dict, from anything that `from_config` accepts."""
    if isinstance(config, str) and config in PRESETS:
        return PRESETS[config].config
    if isinstance(config, str | Path):
        return _read_json(config)
    source: Any = config if hasattr(config, "to_dict") else getattr(config, "config", None)  # of a model
    values = source.to_dict() if hasattr(source, "to_dict") and not isinstance(source, type) else config
    if not isinstance(values, Mapping):
        raise ArgumentTypeError(
            "config",
            f"{shown('config', config)} is not a configuration. Give the name of a known model "
            f"({', '.join(map(repr, PRESETS))}), a dict, a configuration or a model of transformers, or the path of a "
            f"config.json or of its folder.",
        )
    return values


def _read_json(config: str | Path) -> Mapping[str, Any]:
    path = Path(config)
    if not os.path.exists(path):  # unlike Path.exists, False for a name that no file can have
        raise ArgumentError(
            "config",
            f"config={str(config)!r} is neither a known model nor a file.{did_you_mean(config, PRESETS)} Known models: "
            f"{', '.join(map(repr, PRESETS))}. Models are not downloaded; give the path of a config.json, or of its "
            f"folder.",
        )
    file = path / "config.json" if path.is_dir() else path
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ArgumentError("config", f"config={str(file)!r} cannot be read: {error.strerror or error}.") from None
    except RecursionError:
        raise ArgumentError("config", f"config={str(file)!r} is nested too deeply to be read.") from None
    except ValueError as error:  # also a file that is no text
        raise ArgumentError("config", f"config={str(file)!r} is not valid JSON: {error}.") from None
    if not isinstance(values, dict):
        raise ArgumentError(
            "config", f"config={str(file)!r} holds a {type(values).__name__}. A configuration is a JSON object."
        )
    return values


def family_of(values: Mapping[str, Any]) -> Family:
    """The family of a configuration."""
    supported = f"Supported: {', '.join(map(repr, FAMILIES))}."
    if "model_type" not in values:
        raise ArgumentError("model_type", f"config has no 'model_type', which names the family. {supported}")
    kind = values["model_type"]
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise ArgumentError(
            "model_type",
            f"model_type={kind!r} is not supported.{did_you_mean(kind, FAMILIES)} {supported} {_BY_HAND}",
        )
    return FAMILIES[kind]

"""Networks from the configurations of Hugging Face models."""

import json
from collections.abc import Mapping
from math import isinf
from pathlib import Path
from typing import Any

from .. import _arguments
from ..networks import Network
from ._bert import BERT
from ._family import Family, nearest
from ._gpt2 import GPT2
from ._llama import LLAMA
from ._vit import VIT

FAMILIES: Mapping[str, Family] = {"bert": BERT, "gpt2": GPT2, "llama": LLAMA, "vit": VIT}


def from_config(config: Any, tokens: Any, *, width: int | None = None, depth: int | None = None) -> Network:
    """The network of a Hugging Face model as its own initialiser leaves it, up to the final norm.

    - `config` is a configuration object, a dict, or the path of a `config.json` or of its folder. Families: bert, gpt2,
      llama, vit. Keys that are missing have the values of transformers, which is not needed. Every key is used, known
      to change nothing at initialisation (dropout, caches, heads of tasks, ...), or refused by name.
    - `tokens` are ids: a list, or a list of lists for several sequences through one model. For vit, an image
      `(channels, height, width)` or a batch of them.
    - `width` and `depth` replace those of the configuration; the number of heads stays, head and hidden dimensions keep
      their ratio to the width.

    The output is a fresh read-out of the last hidden state, not the model's head. Weights of a fixed standard deviation
    `r` have the scale `r sqrt(fan_in)`, which grows with the width: `width=...` here is the same model made wider,
    while `sample(width=...)` of the network keeps the scales of its own width.

    !!! Example

        >>> import limitlaw as ll
        >>> net = ll.from_config({"model_type": "gpt2", "n_embd": 100, "n_head": 4, "n_layer": 2}, tokens=[3, 17, 5, 3])
        >>> net.width, net.tokens
        (100, 4)
        >>> net.layers[-1]
        Readout(LayerNorm())
        >>> ll.from_config({"model_type": "gpt3"}, tokens=[3])
        Traceback (most recent call last):
            ...
        ValueError: model_type='gpt3': is no family that is known here (did you mean 'gpt2'?); use one of 'bert', 'gpt2', 'llama', 'vit'.
    """
    values = _loaded(config)
    family = _family(values)
    if width is not None:
        _arguments.positive_integer("width", width, infinite=True)
        if isinf(width):
            raise ValueError(
                "width=inf: the weights have a fixed standard deviation r, so their scale r sqrt(width) has no limit; give a finite "
                "width, or sample(width=inf) from the network, which keeps the scales of its own width."
            )
        width = int(width)
    if depth is not None:
        depth = int(_arguments.positive_integer("depth", depth))
    return family.build(family.settings(values, width, depth), tokens)


def _loaded(config: Any) -> Mapping[str, Any]:
    """A configuration as a dict."""
    if isinstance(config, str | Path):
        return _parsed(Path(config))
    values = config.to_dict() if hasattr(config, "to_dict") and not isinstance(config, type) else config
    if not isinstance(values, Mapping):
        raise TypeError(
            f"config={config!r}: must be a configuration object, a dict, or the path of a config.json or of its folder."
        )
    return values


def _parsed(path: Path) -> Mapping[str, Any]:
    file = path / "config.json" if path.is_dir() else path
    if not file.is_file():
        raise FileNotFoundError(
            f"config={str(path)!r}: there is no file {str(file)!r}; models are not downloaded, so give the path of a config.json, or of its folder."
        )
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:  # also a file that is no text
        raise ValueError(f"config={str(path)!r}: is not JSON ({error}); give the path of a config.json.") from None
    if not isinstance(values, dict):
        raise ValueError(f"config={str(path)!r}: holds a {type(values).__name__}; a configuration is a JSON object.")
    return values


def _family(values: Mapping[str, Any]) -> Family:
    supported = ", ".join(map(repr, FAMILIES))
    if "model_type" not in values:
        raise ValueError(f"config: has no 'model_type', which names the family; set it to one of {supported}.")
    kind = values["model_type"]
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise ValueError(
            f"model_type={kind!r}: is no family that is known here{nearest(kind, FAMILIES)}; use one of {supported}."
        )
    return FAMILIES[kind]

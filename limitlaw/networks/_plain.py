"""Networks as plain data: what JSON and TOML can hold."""

import difflib
import functools
import inspect
from collections.abc import Mapping
from math import inf, isinf
from typing import Any

import numpy as np

from ..numerics import Activation, activation as resolve_activation
from ._attention import Attention
from ._described import Described, InputLayer, Layer
from ._inputs import Embedding, GaussianInputs, GramInputs, Inputs
from ._layers import MLP, Only, Readout, Repeat, Residual
from ._network import Network
from ._norms import LayerNorm, RMSNorm

Plain = dict[str, Any]

KINDS: dict[str, type[Described]] = {
    kind.__name__: kind
    for kind in (
        *(Inputs, GramInputs, GaussianInputs, Embedding),
        *(Attention, MLP, RMSNorm, LayerNorm, Residual, Repeat, Only, Readout),
    )
}
"""What a network is made of, by name."""


def as_plain(net: Network) -> Plain:
    """The network as numbers, strings, lists and tables; `from_plain` makes it again.

    !!! Example

        >>> import limitlaw as ll
        >>> from limitlaw.networks import as_plain
        >>> as_plain(ll.Network(ll.Inputs(tokens=4, activation="relu"), ll.Attention(heads=2)))
        {'inputs': {'kind': 'Inputs', 'tokens': 4, 'activation': 'relu'}, 'layers': [{'kind': 'Attention', 'heads': 2}]}
    """
    plain = {"inputs": _plain_part(net.inputs), "layers": [_plain_part(layer) for layer in net.layers]}
    return plain if isinf(net.width) else {**plain, "width": net.width}


def from_plain(table: Mapping[str, Any]) -> Network:
    """The network that a table describes: `inputs`, and a list of `layers`, each with its `kind` and its arguments.

    !!! Example

        >>> from limitlaw.networks import from_plain
        >>> from_plain({"inputs": {"kind": "GramInputs", "K": [[1, 0], [0, 1]]}, "layers": [{"kind": "Attention", "heads": "inf"}]})
        Network(GramInputs(K=[[1., 0.], [0., 1.]]), Attention(heads=inf))
    """
    unknown_key("a network", table, ("inputs", "layers", "width"))
    if not isinstance(table.get("inputs"), Mapping):
        raise ValueError(
            f"inputs={table.get('inputs')!r}: a network starts with a table [inputs], such as kind = 'Inputs', tokens = 4."
        )
    inputs = _part("inputs", table["inputs"], InputLayer)
    return Network(inputs, *_layers(table.get("layers", [])), width=table.get("width", inf))


def _layers(tables: Any) -> list[Layer]:
    if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
        raise ValueError(
            f"layers={tables!r}: must be a list of tables, [[layers]] in TOML, each such as kind = 'Attention', heads = 2."
        )
    return [_part("layers", table, Layer) for table in tables]


def unknown_key(what: str, table: Mapping[str, Any], known: Any) -> None:
    """Refuse a key that means nothing here, with the nearest one that does.

    !!! Example

        >>> from limitlaw.networks import unknown_key
        >>> unknown_key("Attention", {"haeds": 2}, ("heads", "head_dim"))
        Traceback (most recent call last):
            ...
        ValueError: 'haeds': Attention has no such key; did you mean 'heads'?
    """
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(str(key), list(known), 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(map(repr, known))}."
            raise ValueError(f"{key!r}: {what} has no such key; {hint}")


def _plain_part(part: Described) -> Plain:
    """The arguments that are not the defaults of the call that makes it."""
    values = {name: _plain_value(name, getattr(part, name)) for name in _parameters(type(part))}
    defaults = {name: parameter.default for name, parameter in _parameters(type(part)).items()}
    return {"kind": type(part).__name__} | {name: v for name, v in values.items() if v != defaults[name]}


@functools.cache
def _parameters(kind: type[Described]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(kind).parameters


def _plain_value(name: str, value: Any) -> Any:
    if isinstance(value, Activation):
        try:
            same = resolve_activation(value.name) == value
        except ValueError:
            same = False
        if not same:
            raise ValueError(f"{name}={value!r}: a function cannot be written down; use an activation that has a name.")
        return value.name
    if isinstance(value, Described):
        return _plain_part(value)
    if isinstance(value, tuple):
        return [_plain_value(name, item) for item in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return "inf" if isinf(value) else int(value) if value.is_integer() else value
    return value


def _part(where: str, table: Mapping[str, Any], family: type) -> Any:
    kinds = [name for name, kind in KINDS.items() if issubclass(kind, family)]
    name = table.get("kind")
    if name not in kinds:
        near = difflib.get_close_matches(str(name), kinds, 1)
        raise ValueError(
            f"kind={name!r} in {where}: must be one of {', '.join(map(repr, kinds))}{f'; did you mean {near[0]!r}?' if near else '.'}"
        )
    kind = KINDS[name]
    arguments: Plain = {key: inf if value == "inf" else value for key, value in table.items() if key != "kind"}
    parameters = _parameters(kind)
    unknown_key(name, arguments, list(parameters))
    several = [key for key, parameter in parameters.items() if parameter.kind is parameter.VAR_POSITIONAL]
    for key, parameter in parameters.items():
        if parameter.default is parameter.empty and key not in arguments and key not in several:
            raise ValueError(f"{name} in {where}: {key!r} is missing; give it a value.")
    if isinstance(arguments.get("norm"), Mapping):
        arguments["norm"] = _part("norm", arguments["norm"], Layer)
    layers = [layer for key in several for layer in _layers(arguments.pop(key, []))]
    first = [arguments.pop(key) for key in parameters if layers and key in ("count", "sequence")]
    return kind(*first, *layers, **arguments)

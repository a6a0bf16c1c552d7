"""Networks as plain data, which JSON and TOML can hold."""

import dataclasses
import inspect
import typing
from collections.abc import Mapping
from math import inf, isinf
from typing import Any

import numpy as np

from .._checks import ArgumentError, known_keys
from ..numerics import Activation, activation as resolve_activation
from ._layer import InputLayer, Node
from ._network import Network
from .described import Described, annotations_of, float_fields
from .registry import named, registered

Plain = dict[str, Any]

_RESERVED = "kind"  # the key of the name of a class; an argument of that name is written "kind_"


def as_plain(net: Network) -> Plain:
    """A network as numbers, strings, lists and tables, from which `from_plain` restores it.

    Args:
        net: The network.

    Returns:
        The table.

    Raises:
        ArgumentError: If a part has no name, such as a function.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.networks import as_plain
        >>> as_plain(ll.Network(ll.Inputs(tokens=4, activation="relu"), ll.Attention(heads=2)))
        {'inputs': {'kind': 'Inputs', 'tokens': 4, 'activation': 'relu'}, 'layers': [{'kind': 'Attention', 'heads': 2}]}
    """
    plain = {"inputs": _plain_part(net.inputs), "layers": [_plain_part(layer) for layer in net.layers]}
    return plain if isinf(net.width) else {**plain, "width": net.width}


def from_plain(table: Mapping[str, Any]) -> Network:
    """The network that a table describes.

    Args:
        table: `inputs`, and a list of `layers`, each with its `kind` (the name of a class, your own ones included) and
            its arguments; and optionally a `width`.

    Returns:
        The network.

    Raises:
        ArgumentError: If a kind or an argument is unknown, a value is out of range, or layers are nested too deeply.

    Example:
        >>> from limitlaw.networks import from_plain
        >>> inputs = {"kind": "GramInputs", "K": [[1, 0], [0, 1]]}
        >>> from_plain({"inputs": inputs, "layers": [{"kind": "Attention", "heads": "inf"}]})
        Network(GramInputs(K=[[1., 0.], [0., 1.]]), Attention(heads=inf))
    """
    known_keys("a network", table, ("inputs", "layers", "width"))
    if not isinstance(table.get("inputs"), Mapping):
        raise ArgumentError(
            "inputs",
            f"inputs={table.get('inputs')!r} must be a table [inputs], such as kind = 'Inputs', tokens = 4.",
        )
    width = table.get("width", inf)
    try:
        inputs, layers = _part("inputs", table["inputs"], InputLayer), _layers(table.get("layers", []))
        return Network(inputs, *layers, width=inf if width == "inf" else width)
    except RecursionError:
        raise ArgumentError(
            "layers", "layers are nested too deeply. Use Repeat for layers that follow each other."
        ) from None


def parameters_of(kind: str) -> list[str]:
    """The arguments of a kind of input or layer by its name.

    Args:
        kind: The name of a class, your own ones included.

    Returns:
        The names of its arguments as keys of a table; an empty list if the class is unknown.

    Example:
        >>> from limitlaw.networks.plain import parameters_of
        >>> parameters_of("Readout")
        ['layers', 'std', 'bias_std']
    """
    known = registered(Described).get(kind)
    return [] if known is None else [_key(name) for name in _parameters(known)]


def _layers(tables: Any) -> list[Node]:
    if not isinstance(tables, list | tuple) or not all(isinstance(table, Mapping) for table in tables):
        raise ArgumentError(
            "layers",
            f"layers={tables!r} must be a list of tables, [[layers]] in TOML, each such as kind = 'Attention', heads = "
            "2.",
        )
    return [_part("layers", table, Node) for table in tables]


def _plain_part(part: Described) -> Plain:
    """The table of a part: its kind, and the arguments that differ from their defaults."""
    values = {name: _plain_value(name, getattr(part, name)) for name in _parameters(type(part))}
    defaults = _defaults(type(part))
    changed = {_key(name): value for name, value in values.items() if value != defaults[name]}
    return {_RESERVED: type(part).__name__} | changed


def _key(argument: str) -> str:
    """The key of an argument in a table."""
    return f"{argument}_" if argument == _RESERVED else argument


def _parameters(kind: type[Described]) -> Mapping[str, inspect.Parameter]:
    return dict(list(inspect.signature(kind.__init__).parameters.items())[1:])


def _defaults(kind: type[Described]) -> dict[str, Any]:
    """The default of every argument, as plain data."""
    fields = {f.name: f.default for f in dataclasses.fields(kind)}
    defaults = {}
    for name, parameter in _parameters(kind).items():
        default = fields.get(name, parameter.default)
        default = parameter.default if default is dataclasses.MISSING else default
        defaults[name] = _plain_value(name, default) if default is not parameter.empty else default
    return defaults


def _plain_value(name: str, value: Any) -> Any:
    if isinstance(value, Activation):
        try:
            same = resolve_activation(value.name) == value
        except ValueError:
            same = False
        if not same:
            raise ArgumentError(
                name,
                f"{name}={value!r} is a function, which plain data cannot hold. Use an activation that has a name.",
            )
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


def _of_list(value: list[Any], annotation: Any) -> Any:
    """A list converted to the tuple or array of its annotation, since plain data hold both as lists."""
    kinds = [annotation, *typing.get_args(annotation)]
    for kind in kinds:
        if kind is np.ndarray or typing.get_origin(kind) is np.ndarray:
            return np.array(value)
        if kind is tuple or typing.get_origin(kind) is tuple:
            item = next((inner for inner in typing.get_args(kind) if inner is not ...), None)
            whole = float if item is float else lambda entry: entry
            return tuple(_of_list(entry, item) if isinstance(entry, list) else whole(entry) for entry in value)
    return value


def _part(where: str, table: Mapping[str, Any], family: type[Described]) -> Any:
    """An input, a layer or a norm from its table."""
    name = table.get(_RESERVED)
    kind = named(str(name), family, where)
    parameters = _parameters(kind)
    argument_of = {_key(argument): argument for argument in parameters}
    given = {key: inf if value == "inf" else value for key, value in table.items() if key != _RESERVED}
    known_keys(str(name), given, list(argument_of))
    arguments: Plain = {argument_of[key]: value for key, value in given.items()}
    several = [key for key, parameter in parameters.items() if parameter.kind is parameter.VAR_POSITIONAL]
    for key, parameter in parameters.items():
        if parameter.default is parameter.empty and key not in arguments and key not in several:
            raise ArgumentError(key, f"{name} in {where} needs {key!r}. Give it a value.")
    for key, value in arguments.items():
        if isinstance(value, Mapping):  # a norm, of an embedding or at the end of a branch
            arguments[key] = _part(key, value, Node)
        elif key in float_fields(kind) and isinstance(value, int) and not isinstance(value, bool):
            arguments[key] = float(value)  # whole numbers are written without a point
        elif isinstance(value, list):
            arguments[key] = _of_list(value, annotations_of(kind).get(key))
    layers = [layer for key in several for layer in _layers(arguments.pop(key, []))]
    before = [key for key, parameter in parameters.items() if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    first = [arguments.pop(key) for key in before if key in arguments] if several else []
    return kind(*first, *layers, **arguments)

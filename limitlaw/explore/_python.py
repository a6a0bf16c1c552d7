"""Networks and calls as the Python code that makes them."""

from collections.abc import Mapping
from math import isinf
from typing import Any

from ..networks import Network, as_plain

HEADER = "from math import inf\n\nimport matplotlib.pyplot as plt\nimport numpy as np\n\nimport limitlaw as ll\n"
_POSITIONAL = ("count", "sequence", "layers")


def written(net: Network) -> str:
    """The expression that makes a network, to every digit.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.explore._python import written
        >>> written(ll.Network(ll.GramInputs([[1.0, 0.1], [0.1, 1.0]]), ll.Repeat(2, ll.Attention(heads=2))))
        'll.Network(ll.GramInputs(K=[[1.0, 0.1], [0.1, 1.0]]), ll.Repeat(2, ll.Attention(heads=2)))'
    """
    plain = as_plain(net)
    return f"ll.Network({', '.join(map(_value, [plain['inputs'], *plain['layers']]))})"


def call(name: str, **arguments: Any) -> str:
    """A call with these arguments, `None` left out.

    Example:
        >>> from limitlaw.explore._python import call
        >>> call("net.law", width=float("inf"), token=0, key=None)
        'net.law(width=inf, token=0)'
    """
    given = (f"{key}={_value(value)}" for key, value in arguments.items() if value is not None)
    return f"{name}({', '.join(given)})"


def _value(value: Any) -> str:
    if isinstance(value, Mapping) and "kind" in value:
        return _part(value)
    if value == "inf" or (isinstance(value, float) and isinf(value) and value > 0):
        return "inf"
    return repr(value)


def _part(table: Mapping[str, Any]) -> str:
    arguments = []
    for name in _POSITIONAL:
        if name in table:
            value = table[name]
            arguments += map(_value, value) if name == "layers" else [_value(value)]
    arguments += [f"{k}={_value(v)}" for k, v in table.items() if k not in ("kind", *_POSITIONAL)]
    return f"ll.{table['kind']}({', '.join(arguments)})"

"""Networks and calls as the Python code that a person would write."""

import json
import re
from collections.abc import Mapping
from math import isinf
from typing import Any

from ..networks import Network, as_plain

_POSITIONAL = ("tokens", "count", "sequence", "layers", "K")
_LINE = 88  # characters
_ANYWHERE = -(10**6)  # a margin at which every line is short enough
_IMPORTS = {
    "inf": "from math import inf\n",
    "plt.": "import matplotlib.pyplot as plt",
    "np.": "import numpy as np",
    "ll.": "\nimport limitlaw as ll",
    "slr.": "\nfrom limitlaw import slr",
    "PRESETS": "from limitlaw.models import PRESETS",
}


def written(net: Network, names: Mapping[str, str] | None = None) -> str:
    """The statement that makes a network `net`, to every digit, on several lines if it is long.

    Args:
        net: The network.
        names: For arguments that stand in a variable, its name.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.explore._python import written
        >>> net = ll.Network(ll.GramInputs([[1.0, 0.1], [0.1, 1.0]]), ll.Repeat(2, ll.Attention(heads=2)))
        >>> print(written(net))
        net = ll.Network(
            ll.GramInputs([[1.0, 0.1], [0.1, 1.0]]),
            ll.Repeat(2, ll.Attention(heads=2)),
        )
        >>> print(written(net, {"K": "K"}))
        net = ll.Network(ll.GramInputs(K), ll.Repeat(2, ll.Attention(heads=2)))
    """
    plain = as_plain(net)
    return "net = " + _call(
        "ll.Network", [("", part) for part in (plain["inputs"], *plain["layers"])], names or {}, 0, 6
    )


def call(name: str, **arguments: Any) -> str:
    """A call with these arguments, `None` left out.

    Example:
        >>> from limitlaw.explore._python import call
        >>> call("net.law", width=float("inf"), token=0, key=None)
        'net.law(width=inf, token=0)'
    """
    given = (f"{key}={_value(value)}" for key, value in arguments.items() if value is not None)
    return f"{name}({', '.join(given)})"


def program(*lines: str) -> str:
    """A program: the imports that its lines need, and the lines.

    Example:
        >>> from limitlaw.explore._python import program
        >>> print(program("print(np.pi)"))
        import numpy as np
        <BLANKLINE>
        print(np.pi)
        <BLANKLINE>
    """
    text = "\n".join(lines)
    imports = [
        line
        for name, line in _IMPORTS.items()
        if re.search(rf"\b{re.escape(name)}(?![a-z])|\b{re.escape(name)}\b", text)
    ]
    return "\n".join([*imports, "", text]).lstrip("\n") + "\n"


def _value(value: Any) -> str:
    if value == "inf" or (isinstance(value, float) and isinf(value) and value > 0):
        return "inf"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _shown(value: Any, names: Mapping[str, str], margin: int, before: int) -> str:
    """An argument, on a line that is indented by `margin` and has `before` more characters before it."""
    if not isinstance(value, Mapping) or "kind" not in value:
        return _value(value)
    arguments: list[tuple[str, Any]] = []
    for key in sorted(value, key=lambda key: key not in _POSITIONAL):  # positional ones first, else in their order
        if key == "kind":
            continue
        prefix = "" if key in _POSITIONAL else f"{key}="
        parts = value[key] if key == "layers" else [value[key]]
        arguments += [(prefix + names[key], None)] if key in names else [(prefix, part) for part in parts]
    return _call(f"ll.{value['kind']}", arguments, names, margin, before)


def _call(name: str, arguments: list[tuple[str, Any]], names: Mapping[str, str], margin: int, before: int) -> str:
    """A call, with each argument on a separate line if it does not fit on one."""

    def shown(margin: int) -> list[str]:
        return [
            prefix if prefix and value is None else prefix + _shown(value, names, margin, len(prefix) + 1)
            for prefix, value in arguments
        ]

    whole = f"{name}({', '.join(shown(_ANYWHERE))})"
    if margin + before + len(whole) <= _LINE:
        return whole
    lines = [" " * (margin + 4) + text + ",\n" for text in shown(margin + 4)]
    return f"{name}(\n{''.join(lines)}{' ' * margin})"

"""Classes of layers and inputs by name, so plain data, TOML files and studies can refer to those of users as well."""

import hashlib
import importlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._checks import ArgumentError, suggestion
from .described import Described

_REGISTERED: dict[str, dict[tuple[str, str], type[Described]]] = {}


def register(cls: type[Described]) -> None:
    """Register a class by its name. It replaces a class with the same module and qualified name, as in a notebook."""
    _REGISTERED.setdefault(cls.__name__, {})[cls.__module__, cls.__qualname__] = cls


def registered(family: type[Described]) -> dict[str, type[Described]]:
    """The concrete classes of a family, by name.

    Args:
        family: A base class, such as `Node` or `InputLayer`.

    Returns:
        The classes. If several have the same name, the one defined last.

    Example:
        >>> from limitlaw.networks import InputLayer
        >>> from limitlaw.networks.registry import registered
        >>> "GramInputs" in registered(InputLayer)
        True
    """
    found = {name: _of_family(name, family) for name in _REGISTERED}
    return {name: kinds[-1] for name, kinds in found.items() if kinds}


def named(name: str, family: type[Described], where: str) -> type[Described]:
    """The class of a family with this name.

    Args:
        name: The name of the class.
        family: A base class.
        where: The place of the name, for the error.

    Returns:
        The class.

    Raises:
        ArgumentError: If no class has this name, or several modules define one.
    """
    kinds = _of_family(name, family)
    if len(kinds) > 1:
        places = ", ".join(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds)
        raise ArgumentError(
            "kind", f"kind={name!r} in {where} is the name of several classes: {places}. Give one of them another name."
        )
    if not kinds:
        raise ArgumentError(
            "kind",
            f"kind={name!r} in {where} is not known. {suggestion(name, sorted(registered(family)))} A class of your own is "
            f"known once its module is imported, or its file loaded with --load.",
        )
    return kinds[0]


def _of_family(name: str, family: type[Described]) -> list[type[Described]]:
    contracts = f"{__package__}._layer"  # the module of the abstract classes
    return [
        kind
        for kind in _REGISTERED.get(name, {}).values()
        if issubclass(kind, family) and not inspect.isabstract(kind) and kind.__module__ != contracts
    ]


@dataclass(frozen=True)
class OwnKind:
    """A class of the user's that a table names, as another process needs it.

    Attributes:
        name: The name of the class.
        module: The name of the module that defines it.
        file: The file of that module; "" for a notebook, a script that runs, or an interactive session.
        digest: A digest of the code that defines it.

    Example:
        >>> from limitlaw.networks.registry import OwnKind
        >>> OwnKind("Attention", "limitlaw.networks", "", "").load()  # known already
    """

    name: str
    module: str
    file: str
    digest: str

    def load(self) -> None:
        """Make the class known in this process.

        Raises:
            ArgumentError: If the class has no file from which it could be loaded.
        """
        if self.name in _REGISTERED:
            return
        if not self.file:
            raise ArgumentError(
                "workers",
                f"{self.name} is defined in a notebook or in the script that runs, which workers cannot load. "
                f"Use one worker, or move the class to a file and import it.",
            )
        from .._load import load_module

        try:
            importlib.import_module(self.module)
        except ImportError:
            load_module(self.file)


def own_kinds(table: Mapping[str, Any]) -> tuple[OwnKind, ...]:
    """The classes of the user's that the table of a network names.

    Args:
        table: Plain data, as `as_plain` returns it.

    Returns:
        The classes, each once, in the order of their names.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.networks import as_plain
        >>> from limitlaw.networks.registry import own_kinds
        >>> own_kinds(as_plain(ll.Network(ll.Inputs(2), ll.Attention())))
        ()
    """
    library = __name__.split(".")[0]
    found = {}
    for name in _kinds_in(table):
        for kind in _REGISTERED.get(name, {}).values():
            if kind.__module__.split(".")[0] != library:
                found[name] = OwnKind(name, kind.__module__, _file_of(kind), _digest_of(kind))
    return tuple(found[name] for name in sorted(found))


def _kinds_in(value: Any) -> Iterator[str]:
    """The names of kinds anywhere in a table."""
    if isinstance(value, Mapping):
        if isinstance(value.get("kind"), str):
            yield value["kind"]
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _kinds_in(item)


def _file_of(kind: type) -> str:
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return "" if kind.__module__ == "__main__" or file is None else str(Path(file).resolve())


def _digest_of(kind: type) -> str:
    """The digest of the file of a class, which includes its helpers, or of its source if there is no file."""
    file = _file_of(kind)
    try:
        code = Path(file).read_bytes() if file else inspect.getsource(kind).encode()
    except (OSError, TypeError):  # a class of an interactive session has no source
        code = b""
    return hashlib.sha256(code).hexdigest()[:16]

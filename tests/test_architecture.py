"""Rules of the house, read from the syntax trees of the package: who may ask for whom."""

import ast
from pathlib import Path

import pytest

import limitlaw
from limitlaw.networks import InputLayer, Node
from limitlaw.networks.registry import registered

PACKAGE = Path(limitlaw.__file__).parent
HOMES = ("networks/layers/", "networks/inputs/")
KINDS = {
    name
    for family in (Node, InputLayer)
    for name, kind in registered(family).items()
    if kind.__module__.startswith("limitlaw.")
}

# Modules that still ask for a concrete class. The list may only shrink.
ASKING: set[str] = set()

# Imports of a private name of another folder. The list may only shrink.
CROSSING: set[tuple[str, str]] = set()


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def kinds_by_name(tree):
    """Concrete layers and inputs under the names by which a module knows them."""
    imports = [
        node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and "networks" in (node.module or "")
    ]
    return {alias.asname or alias.name for node in imports for alias in node.names if alias.name in KINDS}


def names_kind(node, known):
    """Whether an expression names one: `Attention`, `ll.Attention`, also in tuples and unions."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id in known:
            return True
        of_package = isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.attr in KINDS
        if of_package and part.value.id in ("ll", "limitlaw", "networks", "layers"):
            return True
    return False


def questions(tree):
    """Where a module asks whether a value is of a concrete kind: `isinstance`, `issubclass`, `type(x) is`, `match`."""
    known = kinds_by_name(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("isinstance", "issubclass") and len(node.args) == 2 and names_kind(node.args[1], known):
                yield node
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            of_type = any(
                isinstance(s, ast.Call) and isinstance(s.func, ast.Name) and s.func.id == "type" for s in sides
            )
            if of_type and any(names_kind(side, known) for side in sides):
                yield node
        elif isinstance(node, ast.MatchClass) and names_kind(node.cls, known):
            yield node


def test_the_search_finds_what_it_looks_for():
    found = {"Attention", "MLP", "Residual", "RMSNorm", "GramInputs", "Embedding", "Readout"}
    assert found <= KINDS
    for text in (
        "isinstance(x, Attention)",
        "isinstance(x, (int, ll.MLP))",
        "type(x) is Repeat",
        "match x:\n    case Attention(heads=h):\n        pass",
        "isinstance(x, Attention | MLP)",
    ):
        assert list(questions(ast.parse(f"from ..networks import Attention, Repeat, MLP\n{text}"))), text
    harmless = "from ..networks import Layer, Attention\nisinstance(x, Layer | nn.LayerNorm); Attention(heads=2); type(x) is int"
    assert not list(questions(ast.parse(harmless)))


def test_no_module_but_a_layers_own_asks_for_a_concrete_layer():
    asking = {name for name, tree in modules() if not name.startswith(HOMES) and any(questions(tree))}
    assert asking == ASKING


def crossings(name, tree):
    """Private names that a module imports from another folder (modules may be private; names in them are not)."""
    folder = Path(name).parent
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level and node.module:
            base = folder
            for _ in range(node.level - 1):
                base = base.parent
            source = base / node.module.replace(".", "/")
            home = source if (PACKAGE / source).is_dir() else source.parent
            if home != folder:
                yield from (alias.name for alias in node.names if alias.name.startswith("_"))


def test_no_private_name_crosses_a_room():
    found = {(name, private) for name, tree in modules() for private in crossings(name, tree)}
    # private modules at the top of the package (`_checks`, `_format`) are shared by all rooms
    found = {(name, private) for name, private in found if not (PACKAGE / f"{private}.py").exists()}
    assert found == CROSSING


@pytest.mark.parametrize("text, expected", [("from .._x import _y", ["_y"]), ("from ._x import _y", []), ("from ..laws import Law", [])])  # fmt: skip
def test_crossings_are_found(text, expected):
    assert list(crossings("slr/_problem.py", ast.parse(text))) == expected

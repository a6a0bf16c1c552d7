"""Names of the package, which are imported when they are used."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import limitlaw as ll


def test_names_for_people_are_those_for_type_checkers():
    tree = ast.parse(Path(ll.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    declared = {alias.name for statement in block.body for alias in statement.names}
    assert declared == {*ll._HOME, *ll._PACKAGES}
    assert declared <= set(dir(ll))
    for name in declared:
        assert getattr(ll, name) is not None


def test_an_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="has no attribute 'Networks'"):
        ll.Networks  # noqa: B018


def test_the_command_line_answers_before_jax_is_imported():
    code = "import sys, limitlaw.cli; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_what_few_need_is_not_imported_for_all():
    code = "import sys, limitlaw.explore._server, limitlaw.figures; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    slow = {"scipy.optimize", "scipy.interpolate", "scipy.integrate", "scipy.stats", "matplotlib", "xarray", "pandas"}
    assert not slow & set(done.stdout.split())


def test_cite_names_the_paper_behind_what_was_used():
    net = ll.Network(ll.Inputs(tokens=2), ll.Attention())
    for used in (net, net.law(), ll.netsor.Program(), ll.netsor, ll.kl):
        assert re.findall(r"@\w+\{(\w+),", ll.cite(used)) == ["limitlaw", "sakai2025infinite"]
    for used in (ll.slr.Problem(dim=9, tokens=4), ll.slr):
        assert re.findall(r"@\w+\{(\w+),", ll.cite(used)) == ["limitlaw", "dohmatob2025understanding"]
    assert ll.__version__ in ll.cite(net)
    with pytest.raises(TypeError, match=r"cite\(3\): must be an object of limitlaw"):
        ll.cite(3)

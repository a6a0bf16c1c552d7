"""Names of the package."""

import re
import subprocess
import sys
from typing import Any

import pytest

import limitlaw as ll

ROOMS = {"numerics", "laws", "distances", "netsor", "networks", "models", "slr", "testing"}


def fresh(code: str) -> str:
    """What a new interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_packages_are_there_without_another_import():
    assert fresh(f"import limitlaw as ll; print(all(hasattr(ll, name) for name in {sorted(ROOMS)}))") == "True"


def test_what_few_need_is_imported_by_those_alone():
    slow = {
        "limitlaw.experiments",
        "limitlaw.figures",
        "limitlaw.explore",
        "xarray",
        "pandas",
        "matplotlib",
        "torch",
        "rich",
    }
    assert fresh(f"import sys, limitlaw; print(sorted({slow} & set(sys.modules)))") == "[]"


def test_names_are_those_for_users():
    names = set(fresh("import limitlaw; print(*dir(limitlaw))").split())
    shown = {name for name in names if not name.startswith("_")}
    assert shown >= ROOMS | {"Network", "Attention", "kl", "Estimate", "cite"}
    assert all(getattr(ll, name) is not Any for name in shown)
    assert not {name for name in shown - ROOMS if not getattr(ll, name).__module__.startswith("limitlaw.")}


@pytest.mark.parametrize(
    ("name", "nearest"), [("Atention", "Attention"), ("network", "networks"), ("estimate", "Estimate"), ("KL", "kl")]
)
def test_an_unknown_name_is_refused_with_the_nearest(name, nearest):
    with pytest.raises(AttributeError, match=f"^limitlaw has no attribute '{name}'.*'{nearest}'"):
        getattr(ll, name)
    assert not hasattr(ll, "__wrapped__")


def test_cite_names_the_paper_behind_what_was_used():
    net = ll.Network(ll.Inputs(tokens=2), ll.Attention())
    for used in (net, net.law(), ll.netsor.Program(), ll.netsor, ll.kl):
        assert re.findall(r"@\w+\{(\w+),", ll.cite(used)) == ["limitlaw", "sakai2025infinite"]
    for used in (ll.slr.Problem(dim=9, tokens=4), ll.slr):
        assert re.findall(r"@\w+\{(\w+),", ll.cite(used)) == ["limitlaw", "dohmatob2025understanding"]
    assert ll.__version__ in ll.cite(net)
    with pytest.raises(TypeError, match="used=3 must be an object of limitlaw"):
        ll.cite(3)

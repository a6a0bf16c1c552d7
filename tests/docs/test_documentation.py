"""The documentation names all that is public, and builds; what its pages compute is tested by the pages themselves."""

import inspect
import re
import shlex
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest
from typer.main import get_command

import limitlaw
from limitlaw import cli
from limitlaw.experiments import Cluster, read
from limitlaw.figures import Reproduction, Settings, load_figure
from limitlaw.networks import from_plain

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
PACKAGES = (
    *("laws", "netsor", "slr", "networks", "distances", "experiments", "numerics", "models", "figures"),
    "explore",
)

pytestmark = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the documentation is not here")


def described() -> set[str]:
    """Names that the reference describes."""
    pages = "\n".join(page.read_text() for page in REFERENCE.glob("*.md"))
    return set(re.findall(r"^\.\. (?:auto\w+|py:data):: (\S+)$", pages, re.M))


def test_every_name_of_the_library_is_in_the_reference():
    names = {f"limitlaw.{name}" for name in dir(limitlaw) if not name.startswith("_")}
    names = {name for name in names if not inspect.ismodule(getattr(limitlaw, name.split(".")[1]))}
    assert not sorted(names - described()), "add them to docs/reference/limitlaw.md"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_of_a_package_is_in_the_reference(package):
    module = import_module(f"limitlaw.{package}")
    names = {name for name, value in vars(module).items() if not name.startswith("_") and not inspect.ismodule(value)}
    names -= {"import_module"}
    missing = {name for name in names if not {f"limitlaw.{package}.{name}", f"limitlaw.{name}"} & described()}
    assert not sorted(missing), f"add them to docs/reference/{package}.md"


def test_no_package_is_left_out():
    packages = {file.parent.name for file in (ROOT / "limitlaw").glob("*/__init__.py")}
    assert packages == {*PACKAGES, "cli"}  # the command line is documented by its commands


def public(package: str) -> dict[str, Any]:
    """The classes and functions of a package by name; errors are shown where they are raised."""
    module = import_module(f"limitlaw.{package}".rstrip("."))
    found = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    own = {name: thing for name, thing in found.items() if getattr(thing, "__module__", "").startswith("limitlaw.")}
    errors = {name for name, thing in own.items() if inspect.isclass(thing) and issubclass(thing, Exception)}
    return {name: thing for name, thing in own.items() if callable(thing) and name not in errors}


def members(thing: Any) -> dict[str, Any]:
    """Methods and properties that a class itself defines for its users."""
    shown = {name: member for name, member in vars(thing).items() if not name.startswith("_")}
    return {name: member for name, member in shown.items() if inspect.isroutine(member) or hasattr(member, "__get__")}


@pytest.mark.parametrize("package", ["", *PACKAGES])
def test_every_class_and_function_has_an_example(package):
    without = []
    for name, thing in public(package).items():
        parts = [thing, *(members(thing).values() if inspect.isclass(thing) else ())]
        if not any(">>>" in (part.__doc__ or "") for part in parts):
            without.append(name)
    assert not without, "add an example to their docstrings"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_member_of_a_class_says_what_it_is(package):
    classes = {name: thing for name, thing in public(package).items() if inspect.isclass(thing)}
    silent = [
        f"{name}.{member}"
        for name, thing in classes.items()
        for member in members(thing)
        if not inspect.getdoc(inspect.getattr_static(thing, member)) and not inspect.getdoc(getattr(thing, member))
    ]
    assert not silent, "add a docstring"


def test_the_reference_names_nothing_that_is_gone():
    for name in described():
        home, _, last = name.rpartition(".")
        assert hasattr(import_module(home), last), name


def blocks(language: str) -> list[tuple[Path, str]]:
    """The blocks of code in a language, with the pages that they are on."""
    pages = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in page.parts]
    fence = re.compile(rf"^```{language}\n(.*?)^```$", re.M | re.S)
    return [(page, block) for page in [ROOT / "README.md", *pages] for block in fence.findall(page.read_text())]


def test_every_block_of_python_runs():
    for page, block in blocks("python"):
        if re.match(r"# \w+\.py$", block.splitlines()[0]):
            continue  # a file, of which the next test takes care
        assert all(line.startswith((">>> ", "...")) for line in block.splitlines()[:1]), f"{page}: {block}"
        assert block.endswith("\n\n"), f"{page}: a doctest ends with an empty line: {block}"


def test_every_figure_on_a_page_runs(tmp_path):
    files = [(re.match(r"# (\w+\.py)$", block.splitlines()[0]), block) for _, block in blocks("python")]
    figures = [(found[1], block) for found, block in files if found]
    assert figures
    for name, block in figures:
        (tmp_path / name).write_text(block)
        figure = load_figure(tmp_path / name)
        Reproduction(tmp_path / figure.name, Settings.quick(), [figure]).execute()
        assert (tmp_path / figure.name / f"{figure.name}.png").exists()
        assert figure.title in (tmp_path / figure.name / "report.html").read_text()


def test_every_block_of_toml_is_accepted(tmp_path):
    for page, block in blocks("toml"):
        table, file = tomllib.loads(block), tmp_path / "block.toml"
        file.write_text(block)
        if "axes" in table:
            assert read(file).points, page
        elif "inputs" in table:
            table = {name: table[name] for name in ("inputs", "layers")}
            assert isinstance(from_plain(table), limitlaw.Network), page
        else:
            assert Cluster.of("slurm", file).profile, page


def test_every_command_exists_and_has_its_options():
    lines = [line for _, block in blocks("console") for line in block.splitlines() if line.startswith("$ limitlaw ")]
    assert len(lines) > 10
    for line in lines:
        words = shlex.split(line.removeprefix("$ limitlaw "), comments=True)
        command: Any = get_command(cli.app)
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, line


class _Page(HTMLParser):
    """The links of a page, and what can be linked to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.links |= {link for name in ("href", "src") if (link := found.get(name))}
        self.anchors |= {anchor for name in ("id", "name") if (anchor := found.get(name))}


@pytest.mark.full
@pytest.mark.skipif(not find_spec("furo"), reason="the documentation is built with pip install '.[docs]'")
def test_builds_without_warnings_and_every_internal_link_is_valid(tmp_path):
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--nitpicky", "--quiet", "--builder", "html"]
    built = subprocess.run([*command, str(ROOT / "docs"), str(tmp_path)], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    pages = {path: _Page(path.read_text()) for path in tmp_path.rglob("*.html")}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            target, anchor = urldefrag(link.partition("?")[0] if "#" not in link else link)
            if re.match(r"[a-z]+:", target):  # another site
                continue
            file = (path.parent / unquote(target)).resolve() if target else path
            if not file.is_file() or (anchor and file in pages and unquote(anchor) not in pages[file].anchors):
                broken.append(f"{path.relative_to(tmp_path)}: {link}")
    assert len(pages) > 30
    assert not broken

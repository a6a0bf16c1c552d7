"""How the documentation is built: `make docs`."""

import inspect
import re
from importlib import import_module
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from typer.main import get_command

import limitlaw
from limitlaw import cli

project = "limitlaw"
author = "The limitlaw developers"
copyright = author
version = release = limitlaw.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # MathJax is copied beside the pages: nothing is loaded from elsewhere
]
exclude_patterns = ["_build", "conftest.py", "make_*.py"]
source_suffix = {".md": "markdown"}
nitpicky = True

myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"limitlaw {release}"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["style.css"]
pygments_style = "friendly"
pygments_dark_style = "monokai"
highlight_language = "python"
trim_doctest_flags = True

autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
napoleon_use_rtype = False  # types stand in the signature
napoleon_attr_annotations = False  # shapes of arrays, as in "s r *draws", are no markup
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 100
python_use_unqualified_type_names = True
add_module_names = False

# Names, and where they are documented

PACKAGES = (
    *("laws", "netsor", "slr", "networks", "distances", "experiments", "numerics", "models", "figures"),
    "explore",
)


def public_names(package: str) -> list[str]:
    """The names that a package exports, in order."""
    module = import_module(f"limitlaw.{package}")
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name != "import_module"
    ]


_TOP = {name for name in dir(limitlaw) if not inspect.ismodule(getattr(limitlaw, name))}
_ADDRESS = {
    **{name: f"limitlaw.{name}" for name in _TOP},
    **{
        f"{package}.{name}": f"limitlaw.{name}" if name in _TOP else f"limitlaw.{package}.{name}"
        for package in PACKAGES
        for name in public_names(package)
    },
}
"""The documented name of `Network`, `laws.Gaussian`, `networks.Network`, ..."""


def _home_of(target: str) -> str | None:
    """The documented name of an object that a signature calls by the private module that defines it."""
    name = target.rsplit(".", 1)[-1]
    found = re.match(r"limitlaw\.(\w+)\.", target)
    return _ADDRESS.get(f"{found[1]}.{name}" if found else name.removeprefix("ll."))


# Docstrings have Google sections, which napoleon reads, and Markdown in them: single backticks, lists

_LITERAL = re.compile(r"(?<![`\w])`([^`\n]+)`(?!`)")


def _literal(match: re.Match[str]) -> str:
    text = match[1]
    target = _ADDRESS.get(text.removeprefix("limitlaw.").removeprefix("ll."))
    after = r"\ " if re.match(r"\w", match.string[match.end() : match.end() + 1]) else ""
    if target:
        return f":py:obj:`{text} <{target}>`{after}"
    return f"``{text}``{after}"


def process_docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Backticks of Markdown as those of reStructuredText, and an empty line before lists; doctests stay as they are."""
    out: list[str] = []
    for line in lines:
        starts_list = re.match(r"\s*[-*] ", line)
        if starts_list and out and out[-1].strip() and not re.match(r"\s*[-*] |\s{2,}\S", out[-1]):
            out.append("")
        is_code = re.match(r"\s*(>>>|\.\.\.) ", line)
        out.append(line if is_code else _LITERAL.sub(_literal, line))
    lines[:] = out


def process_signature(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Defaults of equinox fields are objects; a class whose constructor says nothing has no signature."""
    if signature and " object at 0x" in signature:
        signature = re.sub(r"<[^<>]* object at 0x[0-9a-f]+>", "...", signature)
    if what in ("class", "exception") and signature in ("(*args, **kwargs)", "(*args: Any, **kwargs: Any)"):
        signature = ""
    return signature, returns


def resolve(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """Objects of this library under their public names; types of other libraries stay unlinked."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    home = _home_of(target)
    if home and home != target:
        domain = env.get_domain("py")
        found = domain.resolve_xref(env, node["refdoc"], app.builder, "obj", home, node, contnode)
        if found is not None:
            return found
    # Private modules, and modules that the rooms of the library share: what is public there is documented by its own name.
    if not target.startswith("limitlaw") or re.match(r"limitlaw\.\w+\.\w+\.", target) or re.search(r"\._\w+", target):
        return contnode
    return None


# The command line, from the commands themselves


def _cell(text: str) -> str:
    return (
        " ".join(text.split())
        .replace("|", r"\|")
        .replace("<", r"\<")
        .replace("*", r"\*")
        .replace("[", r"\[")
        .replace("$", r"\$")
    )


def _commands(command: Any, name: str) -> list[str]:
    """A section for a command, and those for the commands within it."""
    shown = [p for p in command.params if p.name != "help" and not getattr(p, "hidden", False)]
    arguments = "".join(
        f" {p.name.upper()}" if p.required else f" [{p.name.upper()}{' ...' if p.nargs == -1 else ''}]"
        for p in shown
        if p.param_type_name == "argument"
    )
    inner = getattr(command, "commands", {})
    usage = f"{name}{arguments}{' [OPTIONS]' if any(p.opts[0].startswith('-') for p in shown) else ''}"
    lines = [f"## {name}", "", _cell(command.help or ""), ""] if " " in name else []
    if not inner:
        lines += ["```console", f"$ {usage}", "```", ""]
    if shown and " " in name:
        lines += ["| | |", "|---|---|"]
        for p in shown:
            default = (
                p.default if isinstance(p.default, str | int | float) and not isinstance(p.default, bool) else None
            )
            given = f" Default: `{default}`." if default is not None else ""
            what = p.name.upper() if p.param_type_name == "argument" else ", ".join(p.opts)
            lines.append(f"| `{what}` | {_cell(p.help or '')}{given} |")
        lines.append("")
    for inner_name, inner_command in inner.items():
        if not inner_command.hidden:
            lines += _commands(inner_command, f"{name} {inner_name}")
    return lines


class Commands(SphinxDirective):
    """`limitlaw` and all its commands: what they do, their arguments and options."""

    def run(self) -> list[nodes.Node]:
        text = "\n".join(_commands(get_command(cli.app), "limitlaw"))
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def tidy_code(app: Any, doctree: nodes.document) -> None:
    """Blocks of code end with an empty line for the sake of doctest; readers need not see it."""
    for block in doctree.findall(nodes.literal_block):
        text = block.astext().rstrip()
        block.children = []
        block += nodes.Text(text)
        block.rawsource = text


def setup(app: Any) -> None:
    app.connect("doctree-read", tidy_code)
    app.add_directive("commands", Commands)
    app.connect("autodoc-process-docstring", process_docstring, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", process_signature)
    app.connect("missing-reference", resolve)

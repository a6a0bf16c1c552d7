"""The prose of figures and of the report: Markdown templates that set named texts."""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._format import FILTERS

_FOLDER = Path(__file__).with_name("templates")


def texts_of(name: str, given: Mapping[str, Any]) -> dict[str, str]:
    """The texts that a template of this folder sets, by name.

    Example:
        >>> from limitlaw.figures._templates import text_of
        >>> text_of("{% set finding %}n = {{ n | number }}{% endset %}", {"n": 1024})
        {'finding': 'n = 1,024'}
    """
    return _texts(_environment().get_template(name), given)


def text_of(source: str, given: Mapping[str, Any]) -> dict[str, str]:
    """The texts that a template, given as text, sets; it can import those of this folder."""
    return _texts(_environment().from_string(source), given)


def _texts(template: Any, given: Mapping[str, Any]) -> dict[str, str]:
    module = template.make_module(dict(given))
    return {name: text.strip() for name, text in vars(module).items() if isinstance(text, str) and name[0] != "_"}


@functools.cache
def _environment() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # `set` blocks keep their line breaks, which separate the paragraphs and lists of Markdown
    loader = FileSystemLoader(_FOLDER)
    environment = Environment(loader=loader, undefined=StrictUndefined, autoescape=False)
    environment.filters |= FILTERS
    return environment

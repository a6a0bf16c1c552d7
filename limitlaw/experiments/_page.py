"""Pages of HTML that need no other file: prose in Markdown, tables of numbers, pictures, sections that fold."""

from __future__ import annotations

import base64
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._format import FILTERS, Table


@dataclass(frozen=True)
class Picture:
    """A picture with a description for those who cannot see it.

    Example:
        >>> from limitlaw.experiments import Picture
        >>> Picture(b"png", "A curve").html()[:60]
        '<div class="scroll picture" tabindex="0" role="region" aria-'
    """

    png: bytes
    description: str

    def html(self) -> str:
        """The picture as an `img` that holds its own data."""
        data = base64.b64encode(self.png).decode()
        return str(_environment().get_template("picture.html.j2").render(data=data, description=self.description))


@dataclass(frozen=True)
class Summary:
    """A table of prose, in Markdown, whose rows become blocks on a narrow screen.

    Example:
        >>> from limitlaw.experiments import Summary
        >>> "<td><strong>yes</strong></td>" in Summary(("claim", "verdict"), [("It falls.", "**yes**")]).html()
        True
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def html(self) -> str:
        """The table in HTML."""
        rows = [[_as_html(cell, inline=True) for cell in row] for row in self.rows]
        return str(_environment().get_template("summary.html.j2").render(header=self.header, rows=rows))


@dataclass(frozen=True)
class Section:
    """A part of a page with a title; readers can fold it.

    Args:
        title: The heading.
        parts: Prose in Markdown, tables, pictures and further sections.
        anchor: What links to the section name, empty if nothing does. The contents list sections with an anchor.
        folded: Whether it is closed until a reader opens it.

    Example:
        >>> from limitlaw.experiments import Section, page
        >>> "<summary><h2>Numbers</h2></summary>" in page("A study", [Section("Numbers", ["None yet."])])
        True
    """

    title: str
    parts: Sequence[Part]
    anchor: str = ""
    folded: bool = False


Part = str | Table | Picture | Summary | Section


def page(title: str, parts: Sequence[Part]) -> str:
    """A page as HTML.

    Args:
        title: Its title.
        parts: What it holds, in order. Text is Markdown. Contents stand before the first section if two or more of the
            sections have an anchor.

    Returns:
        The HTML, with pictures and style included.

    Example:
        >>> from limitlaw._format import Table
        >>> from limitlaw.experiments import Section, page
        >>> html = page("A study", ["Some *prose*.", Section("Numbers", [Table(("n", "KL"), [(64, 1.5e-4)])])])
        >>> "<em>prose</em>" in html, "1.50000 × 10⁻⁴" in html
        (True, True)
    """
    opening = [part for part in parts if not isinstance(part, Section)]
    sections = [part for part in parts if isinstance(part, Section)]
    named = [section for section in sections if section.anchor]
    return str(
        _environment()
        .get_template("page.html.j2")
        .render(title=title, opening=opening, sections=sections, contents=named if len(named) > 1 else [])
    )


def _as_html(markdown: str, *, inline: bool = False) -> str:
    """Markdown as HTML, paragraphs or a phrase; tags in it are shown as text."""
    renderer = _renderer()
    return renderer.renderInline(markdown) if inline else renderer.render(markdown)


@functools.cache
def _renderer() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable("table")


@functools.cache
def _environment() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    loader = FileSystemLoader(Path(__file__).with_name("templates"))
    environment = Environment(loader=loader, undefined=StrictUndefined, autoescape=True, trim_blocks=True)
    environment.filters["part"] = lambda part: Markup("".join(_html_of(part)))
    environment.filters["safe_html"] = Markup
    environment.tests["section"] = lambda part: isinstance(part, Section)
    environment.filters |= FILTERS
    return environment


def _html_of(part: Part) -> Iterator[str]:
    if isinstance(part, str):
        yield _as_html(part)
    elif isinstance(part, Table):
        yield f'<div class="scroll" tabindex="0" role="region" aria-label="Table">{part.html(typeset=True)}</div>'
    elif not isinstance(part, Section):
        yield part.html()

"""Tables of text, for a terminal or a notebook."""

import abc
from collections.abc import Sequence
from typing import Any

from .. import _html


class Shown(abc.ABC):
    """What prints as a title and a table, and is the same in a notebook."""

    @abc.abstractmethod
    def _table(self) -> tuple[str, list[Sequence[str]]]:
        """The title, and the rows, of which the first is the header."""

    def __str__(self) -> str:
        title, rows = self._table()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(map(str.rjust, row, widths)) for row in rows)
        return "\n".join([title, *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        title, (header, *rows) = self._table()
        return _html.paragraph(title) + _html.table(header, rows)


def numbers(values: Any) -> list[str]:
    """Numbers as text, with few digits."""
    return [f"{value:.4g}" for value in values]

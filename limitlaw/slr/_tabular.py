"""Results that print as a table."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

from .._format import Table

if TYPE_CHECKING:
    from rich.console import ConsoleRenderable


class Tabular(abc.ABC):
    """A result that prints as a table, in a terminal, in a rich console and in a notebook."""

    @abc.abstractmethod
    def table(self) -> Table:
        """The table that is printed."""

    def __rich__(self) -> ConsoleRenderable:
        return self.table().__rich__()

    def __str__(self) -> str:
        return str(self.table())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

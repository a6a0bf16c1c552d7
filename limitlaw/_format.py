"""Numbers with errors as text, and the one table class of the package, which is shown as text, HTML or CSV."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, SupportsFloat

if TYPE_CHECKING:
    from rich.console import ConsoleRenderable

# Between these sizes numbers are written without an exponent: at most two zeros after the point, six digits before it.
_LEAST_FIXED, _MOST_FIXED = 1e-3, 1e6
# Wider than any table, so that rich never breaks a line of text.
_TEXT_WIDTH = 10_000

Cell = str | SupportsFloat | None
"""What a table holds: text, a number, an `Estimate` (anything with a `stderr`), or nothing."""


def number(value: float, digits: int = 6, *, scientific: bool | None = None) -> str:
    """An exact number as text with the same count of significant digits whatever its value, and a zero as "0".

    Args:
        value: The number. NaN becomes empty text.
        digits: Significant digits.
        scientific: Whether to write an exponent; by default where the number is large or small.

    Example:
        >>> from limitlaw._format import number
        >>> [number(x, 4) for x in (0.5, 1234.5678, 1.5638e-4, 0.0)]
        ['0.5000', '1235', '1.564e-4', '0']
    """
    if math.isnan(value):
        return ""
    if value == 0 or math.isinf(value):
        return f"{value:g}"
    if _is_extreme(value) if scientific is None else scientific:
        return _with_exponent(value, digits - 1)
    exponent = int(f"{value:.{digits - 1}e}".split("e")[1])  # that of the rounded number: 0.99996 is written 1.000
    return f"{value:.{max(digits - 1 - exponent, 0)}f}"


def number_with_error(value: float, stderr: float, *, scientific: bool | None = None) -> str:
    """A number and its standard error, with as many digits as the error leaves.

    Args:
        value: The number.
        stderr: Its standard error, not 0.
        scientific: Whether to write an exponent; by default where the number is large or small.

    Example:
        >>> from limitlaw._format import number_with_error
        >>> number_with_error(0.39197, 0.00031), number_with_error(1.5804e-4, 7e-7)
        ('0.39197 ± 0.00031', '1.580e-4 ± 7e-7')
    """
    if not (math.isfinite(stderr) and math.isfinite(value)):
        return f"{value!r} ± {stderr:.1g}"
    # Two digits of a leading 1, 2 or 3, one digit otherwise: enough to see a change, no more than is known.
    error_exponent = math.floor(math.log10(stderr))
    digits = -error_exponent + (1 if stderr / 10.0**error_exponent < 3.5 else 0)
    size = max(abs(value), stderr)
    if digits >= 0 and not (_is_extreme(size) if scientific is None else scientific):
        return f"{value:.{digits}f} ± {stderr:.{digits}f}"
    value_digits = max(math.floor(math.log10(size)) + digits, 0)
    return f"{_with_exponent(value, value_digits)} ± {_with_exponent(stderr, digits + error_exponent)}"


def format_bytes(size: int | float) -> str:
    """A number of bytes with three digits and a binary unit.

    Args:
        size: The number of bytes.

    Returns:
        The text.

    Example:
        >>> from limitlaw._format import format_bytes
        >>> format_bytes(3 * 2**30), format_bytes(512)
        ('3 GiB', '512 B')
    """
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} GiB"


def _is_extreme(size: float) -> bool:
    return not _LEAST_FIXED <= abs(size) < _MOST_FIXED


def _with_exponent(value: float, digits: int) -> str:
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


@dataclass(frozen=True)
class Column:
    """How a column of a table is written.

    Args:
        name: Its header.
        digits: Significant digits of numbers without an error.
        one_quantity: Whether all rows hold the same quantity. If one number then needs an exponent, all have one.
        decimals: Digits after the point of numbers without an error, in place of significant digits: for shares,
            cosines and other numbers of which only the absolute size matters.
    """

    name: str
    digits: int = 6
    one_quantity: bool = True
    decimals: int | None = None


class Table:
    """Rows of text, numbers and estimates. Numbers of one column have one format and are aligned to the right.

    Args:
        columns: The headers, as text or as `Column`s.
        rows: One cell a column in each. Whole numbers are written whole, other numbers with the digits of their column
            or of their error.
        title: A line above the table.
        note: A line below the table.

    Raises:
        ValueError: If a row has another number of cells than there are columns.

    Example:
        >>> from limitlaw import Estimate
        >>> from limitlaw._format import Table
        >>> print(Table(("width", "kl"), [(64, Estimate(0.002153, 2.1e-5)), (256, Estimate(1.54e-4, 3e-6))]))
        width                  kl
        ─────────────────────────
           64   2.153e-3 ± 2.1e-5
          256   1.540e-4 ± 3.0e-6
    """

    def __init__(
        self,
        columns: Sequence[str | Column],
        rows: Sequence[Sequence[Cell]],
        *,
        title: str = "",
        note: str = "",
    ) -> None:
        self.columns = tuple(Column(column) if isinstance(column, str) else column for column in columns)
        self.rows = tuple(map(tuple, rows))
        self.title, self.note = title, note
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"A row has {len(row)} cells, but the table has {len(self.columns)} columns: {row}.")

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    def cells(self) -> list[tuple[str, ...]]:
        """All rows as text."""
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.columns)
        texts = [_column_texts(column, values) for column, values in zip(self.columns, columns, strict=True)]
        return list(zip(*texts, strict=True))

    def numeric(self) -> list[bool]:
        """For each column, whether it holds numbers, which are aligned to the right."""
        return [
            any(_is_number(row[i]) for row in self.rows)
            and all(_is_number(row[i]) or row[i] in ("", None) for row in self.rows)
            for i in range(len(self.columns))
        ]

    def __rich__(self) -> "ConsoleRenderable":
        from rich import box
        from rich.console import Group
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for name, numeric in zip(self.header, self.numeric(), strict=True):
            table.add_column(Text(name), justify="right" if numeric else "left", no_wrap=True)
        for row in self.cells():
            table.add_row(*map(Text, row))
        return Group(*([Text(self.title)] if self.title else []), table, *([Text(self.note)] if self.note else []))

    def __str__(self) -> str:
        return as_text(self.__rich__())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        above, below = (f"<p>{escape(text)}</p>" if text else "" for text in (self.title, self.note))
        lines = [_html_row(self.header, self.numeric(), "th")]
        lines += [_html_row(row, self.numeric(), "td") for row in self.cells()]
        table = (
            '<table style="font-variant-numeric: tabular-nums">'  # digits of one width, so that they stand in columns
        )
        return "\n".join(part for part in (above, table, *lines, "</table>", below) if part)

    def csv(self) -> str:
        """Comma-separated values with all digits; the errors of a column follow in a column `... stderr`."""
        with_errors = [any(hasattr(row[i], "stderr") for row in self.rows) for i in range(len(self.columns))]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        named = zip(self.header, with_errors, strict=True)
        writer.writerow([part for name, pair in named for part in ((name, f"{name} stderr") if pair else (name,))])
        for row in self.rows:
            pairs = zip(row, with_errors, strict=True)
            writer.writerow([part for cell, pair in pairs for part in _csv_fields(cell)[: 1 + pair]])
        return out.getvalue()


def as_text(renderable: "ConsoleRenderable") -> str:
    """What a terminal without colours shows."""
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=_TEXT_WIDTH, color_system=None, legacy_windows=False, force_jupyter=False).print(renderable)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip("\n")


def _is_number(cell: Cell) -> bool:
    return cell is not None and not isinstance(cell, str)


def _is_whole(cell: Cell) -> bool:
    return hasattr(cell, "__index__")


def _column_texts(column: Column, values: Sequence[Cell]) -> list[str]:
    sizes = [
        max(abs(float(value)), getattr(value, "stderr", 0.0))
        for value in values
        if value is not None and not isinstance(value, str) and not _is_whole(value)
    ]
    extreme = any(_is_extreme(size) for size in sizes if size and math.isfinite(size))
    scientific = extreme if column.one_quantity else None
    return [_cell_text(value, column, scientific) for value in values]


def _cell_text(cell: Cell, column: Column, scientific: bool | None) -> str:
    if cell is None or isinstance(cell, str):
        return cell or ""
    if _is_whole(cell):
        return f"{cell}"
    stderr = getattr(cell, "stderr", 0.0)
    if stderr:
        return "" if math.isnan(float(cell)) else number_with_error(float(cell), stderr, scientific=scientific)
    if column.decimals is not None and math.isfinite(float(cell)):
        return f"{float(cell):z.{column.decimals}f}"
    return number(float(cell), column.digits, scientific=scientific)


def _csv_fields(cell: Cell) -> tuple[str, str]:
    """A cell and its error."""
    if cell is None or isinstance(cell, str):
        return cell or "", ""
    return (str(cell) if _is_whole(cell) else repr(float(cell))), repr(float(getattr(cell, "stderr", 0.0)))


def _html_row(cells: Sequence[str], numeric: Sequence[bool], tag: str) -> str:
    sides = ["right" if right else "left" for right in numeric]
    aligned = (f'<{tag} style="text-align: {side}">{escape(c)}</{tag}>' for c, side in zip(cells, sides, strict=True))
    return f"<tr>{''.join(aligned)}</tr>"

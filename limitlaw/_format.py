"""The one place where numbers become text, and the one table class of the package: text, rich, HTML or CSV.

There are two spellings. Programs, terminals and notebooks have `1.58e-4`, which can be pasted into code; pages and
figures are typeset and have `1.58 × 10⁻⁴`, with a minus sign that is not a hyphen.
"""

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, SupportsFloat

if TYPE_CHECKING:
    from rich.console import ConsoleRenderable

# Between these sizes numbers are written without an exponent: at most two zeros after the point, six digits before it.
_LEAST_FIXED, _MOST_FIXED = 1e-3, 1e6
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# Wider than any table, so that rich never breaks a line of text.
_TEXT_WIDTH = 10_000

Cell = str | SupportsFloat | None
"""What a table holds: text, a number, an `Estimate` (anything with a `stderr`), or nothing."""


def number(value: float, digits: int = 6, *, scientific: bool | None = None, typeset: bool = False) -> str:
    """An exact number as text with the same count of significant digits whatever its value, and a zero as "0".

    Args:
        value: The number. NaN becomes empty text.
        digits: Significant digits.
        scientific: Whether to write an exponent; by default where the number is large or small.
        typeset: Whether to write it for a page, with powers of ten and minus signs.

    Example:
        >>> from limitlaw._format import number
        >>> [number(x, 4) for x in (0.5, 1234.5678, 1.5638e-4, 0.0)]
        ['0.5000', '1235', '1.564e-4', '0']
        >>> [number(x, 3, typeset=True) for x in (-0.41, 1.5638e-4, float("inf"))]
        ['−0.410', '1.56 × 10⁻⁴', '∞']
    """
    if math.isnan(value):
        return ""
    if value == 0 or math.isinf(value):
        return _spelt(f"{value:g}", None, typeset)
    if _is_extreme(value) if scientific is None else scientific:
        return _spelt(*_with_exponent(value, digits - 1), typeset)
    exponent = _exponent(value, digits - 1)
    return _spelt(f"{value:.{max(digits - 1 - exponent, 0)}f}", None, typeset)


def number_with_error(value: float, stderr: float, *, scientific: bool | None = None, typeset: bool = False) -> str:
    """A number and its standard error, with as many digits as the error leaves.

    Args:
        value: The number.
        stderr: Its standard error, not 0.
        scientific: Whether to write an exponent; by default where the number is large or small.
        typeset: Whether to write it for a page, with powers of ten and minus signs.

    Example:
        >>> from limitlaw._format import number_with_error
        >>> number_with_error(0.39197, 0.00031), number_with_error(1.5804e-4, 7e-7)
        ('0.39197 ± 0.00031', '1.580e-4 ± 7e-7')
        >>> number_with_error(1.5804e-4, 7e-7, typeset=True)
        '(1.580 ± 0.007) × 10⁻⁴'
    """
    if not (math.isfinite(stderr) and math.isfinite(value)):
        return f"{_spelt(repr(value), None, typeset)} ± {_spelt(f'{stderr:.1g}', None, typeset)}"
    # Two digits of a leading 1, 2 or 3, one digit otherwise: enough to see a change, no more than is known.
    error_exponent = math.floor(math.log10(stderr))
    digits = -error_exponent + (1 if stderr / 10.0**error_exponent < 3.5 else 0)
    size = max(abs(value), stderr)
    if digits >= 0 and not (_is_extreme(size) if scientific is None else scientific):
        return _spelt(f"{value:.{digits}f} ± {stderr:.{digits}f}", None, typeset)
    value_digits = max(math.floor(math.log10(size)) + digits, 0)
    if not typeset:
        parts = _with_exponent(value, value_digits), _with_exponent(stderr, digits + error_exponent)
        return " ± ".join(_spelt(*part, False) for part in parts)
    # On a page both have the power of ten of the larger one, which stands once behind them.
    exponent = _exponent(size, value_digits)
    mantissas = (f"{part / 10.0**exponent:.{max(digits + exponent, 0)}f}" for part in (value, stderr))
    return _spelt(f"({' ± '.join(mantissas)})", exponent, True)


def power_of_ten(exponent: int) -> str:
    """A power of ten as a page has it.

    Args:
        exponent: The exponent.

    Returns:
        The text.

    Example:
        >>> from limitlaw._format import power_of_ten
        >>> power_of_ten(-5)
        '10⁻⁵'
    """
    return "10" + str(exponent).translate(_RAISED)


def percent(value: SupportsFloat, digits: int = 2, *, typeset: bool = True) -> str:
    """A fraction as a percentage; all digits before the point are kept.

    Args:
        value: The fraction.
        digits: Significant digits.
        typeset: Whether to write it as on a page.

    Returns:
        The text.

    Example:
        >>> from limitlaw._format import percent
        >>> percent(0.0734), percent(1.0)
        ('7.3%', '100%')
    """
    return f"{number(100 * float(value), digits, scientific=False, typeset=typeset)}%"


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


def _exponent(value: float, decimals: int) -> int:
    """The exponent of the rounded number: 0.99996 with four digits is written 1.000."""
    return int(f"{value:.{decimals}e}".split("e")[1])


def _with_exponent(value: float, decimals: int) -> tuple[str, int]:
    return f"{value:.{decimals}e}".split("e")[0], _exponent(value, decimals)


def _spelt(mantissa: str, exponent: int | None, typeset: bool) -> str:
    if not typeset:
        return mantissa if exponent is None else f"{mantissa}e{exponent}"
    text = mantissa.replace("-", "−").replace("inf", "∞")
    if exponent is None:
        return text
    return power_of_ten(exponent) if text == "1" else f"{text} × {power_of_ten(exponent)}"


@dataclass(frozen=True)
class Column:
    """How a column of a table is written.

    Args:
        name: Its header.
        digits: Significant digits of numbers without an error.
        one_quantity: Whether all rows hold the same quantity. If one number then needs an exponent, all have one.
        percent: Whether to write fractions as percentages.
        least: The number below which only "< least" is known.
        decimals: Digits after the point of numbers without an error, in place of significant digits: for shares,
            cosines and other numbers of which only the absolute size matters.

    Example:
        >>> from limitlaw._format import Column, Table
        >>> print(Table((Column("share", percent=True, digits=2), Column("cosine", decimals=3)), [(0.125, 0.5)]))
        share   cosine
        ──────────────
          12%    0.500
    """

    name: str
    digits: int = 6
    one_quantity: bool = True
    percent: bool = False
    least: float = -math.inf
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

    def cells(self, *, typeset: bool = False) -> list[tuple[str, ...]]:
        """All rows as text.

        Args:
            typeset: Whether to write numbers as on a page.
        """
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.columns)
        texts = [_column_texts(column, values, typeset) for column, values in zip(self.columns, columns, strict=True)]
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
        return self.html()

    def html(self, *, typeset: bool = False) -> str:
        """The table in HTML.

        Args:
            typeset: Whether to write numbers as on a page; otherwise they can be pasted into code.
        """
        above, below = (f"<p>{escape(text)}</p>" if text else "" for text in (self.title, self.note))
        lines = [_html_row(self.header, self.numeric(), "th")]
        lines += [_html_row(row, self.numeric(), "td") for row in self.cells(typeset=typeset)]
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


def estimate(value: SupportsFloat, digits: int = 4) -> str:
    """A number as a page has it: with its standard error if it has one, otherwise with a count of digits.

    Args:
        value: The number.
        digits: Significant digits of a number without an error.

    Returns:
        The text.

    Example:
        >>> from limitlaw import Estimate
        >>> from limitlaw._format import estimate
        >>> estimate(Estimate(1.5804e-4, 7e-7)), estimate(0.25)
        ('(1.580 ± 0.007) × 10⁻⁴', '0.2500')
    """
    stderr = getattr(value, "stderr", 0.0)
    return number_with_error(float(value), stderr, typeset=True) if stderr else typeset(value, digits)


def typeset(value: SupportsFloat, digits: int = 3) -> str:
    """A number as a page has it: whole numbers whole, others with a count of significant digits.

    Args:
        value: The number.
        digits: Significant digits, unless it is whole.

    Returns:
        The text.

    Example:
        >>> from limitlaw._format import typeset
        >>> typeset(524288), typeset(-1.5e-5), typeset(0.41)
        ('524,288', '−1.50 × 10⁻⁵', '0.410')
    """
    return _cell_text(value if _is_whole(value) else float(value), Column("", digits), None, True)


def listing(values: Iterable[str | SupportsFloat], word: str = "and") -> str:
    """Items in a sentence, equal ones once.

    Args:
        values: The items, as text or as numbers.
        word: What stands before the last one.

    Returns:
        The text.

    Example:
        >>> from limitlaw._format import listing
        >>> listing([16, 64, 64, 1024]), listing(["a", "b"], "or")
        ('16, 64 and 1,024', 'a or b')
    """
    *first, last = dict.fromkeys(value if isinstance(value, str) else typeset(value) for value in values)
    return f"{', '.join(first)} {word} {last}" if first else last


FILTERS: dict[str, Callable[..., str]] = {
    "number": typeset,
    "estimate": estimate,
    "percent": percent,
    "power": power_of_ten,
    "listing": listing,
}
"""What templates write numbers with."""


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


def _column_texts(column: Column, values: Sequence[Cell], typeset: bool) -> list[str]:
    sizes = [
        max(abs(float(value)), getattr(value, "stderr", 0.0))
        for value in values
        if value is not None and not isinstance(value, str) and not _is_whole(value) and float(value) >= column.least
    ]
    extreme = any(_is_extreme(size) for size in sizes if size and math.isfinite(size))
    scientific = extreme if column.one_quantity and not column.percent else None
    return [_cell_text(value, column, scientific, typeset) for value in values]


def _cell_text(cell: Cell, column: Column, scientific: bool | None, typeset: bool) -> str:
    if cell is None or isinstance(cell, str):
        return cell or ""
    if _is_whole(cell):
        return _spelt(f"{cell:,}" if typeset else f"{cell}", None, typeset)
    value, stderr = float(cell), getattr(cell, "stderr", 0.0)
    if math.isnan(value):
        return ""
    if value < column.least:
        return f"< {number(column.least, 1, scientific=scientific, typeset=typeset)}"
    if column.percent:
        return percent(cell, column.digits, typeset=typeset)
    if stderr:
        return number_with_error(value, stderr, scientific=scientific, typeset=typeset)
    if column.decimals is not None and math.isfinite(value):
        return _spelt(f"{value:z.{column.decimals}f}", None, typeset)
    return number(value, column.digits, scientific=scientific, typeset=typeset)


def _csv_fields(cell: Cell) -> tuple[str, str]:
    """A cell and its error."""
    if cell is None or isinstance(cell, str):
        return cell or "", ""
    return (str(cell) if _is_whole(cell) else repr(float(cell))), repr(float(getattr(cell, "stderr", 0.0)))


def _html_row(cells: Sequence[str], numeric: Sequence[bool], tag: str) -> str:
    sides = ["right" if right else "left" for right in numeric]
    aligned = (f'<{tag} style="text-align: {side}">{escape(c)}</{tag}>' for c, side in zip(cells, sides, strict=True))
    return f"<tr>{''.join(aligned)}</tr>"

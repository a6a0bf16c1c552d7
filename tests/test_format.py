"""The table class: one format a column, aligned, and safe as HTML."""

import csv
import io

import pytest
from rich.console import Console

from limitlaw import Estimate
from limitlaw._format import Column, Table, number, number_with_error

TABLE = Table(
    ("name", Column("value", digits=4), "count"),
    [("a", Estimate(0.5, 0.01), 3), ("<b> [red]", 1.5e-4, 12), ("", None, "")],
    title="A title",
    note="a note",
)


def test_a_column_has_one_notation():
    assert [row[1] for row in TABLE.cells()] == ["5.00e-1 ± 1.0e-2", "1.500e-4", ""]
    mixed = Table((Column("value", digits=4, one_quantity=False),), [(Estimate(0.5, 0.01),), (1.5e-4,)])
    assert [row[0] for row in mixed.cells()] == ["0.500 ± 0.010", "1.500e-4"]


def test_numbers_are_aligned_to_the_right():
    lines = str(TABLE).splitlines()
    assert (lines[0], lines[-1]) == ("A title", "a note")
    assert lines[3].index("3") > lines[4].index("12")
    assert lines[4].startswith("<b> [red]")
    assert TABLE.numeric() == [False, True, True]


def test_html_is_escaped_and_aligned():
    html = TABLE._repr_html_()
    assert "<b>" not in html
    assert '<td style="text-align: right">12</td>' in html
    assert '<td style="text-align: left">a</td>' in html


def test_csv_has_all_digits_and_errors():
    header, first, second, _ = csv.reader(io.StringIO(TABLE.csv()))
    assert header == ["name", "value", "value stderr", "count"]
    assert (first, second) == (["a", "0.5", "0.01", "3"], ["<b> [red]", "0.00015", "0.0", "12"])


def test_a_console_shows_it():
    text = io.StringIO()
    Console(file=text, width=80).print(TABLE)
    assert "5.00e-1" in text.getvalue()


def test_rows_fit_the_columns():
    with pytest.raises(ValueError, match="A row has 1 cells, but the table has 2 columns"):
        Table(("a", "b"), [(1,)])


def test_numbers_as_text():
    assert [number(x, 2) for x in (1300.0, 0.0, float("nan"), float("inf"), -0.25)] == ["1300", "0", "", "inf", "-0.25"]
    assert number(2.0**20) == "1.04858e6"
    assert [number(x, 4) for x in (0.99996, 1.00004, 9.99996)] == ["1.000", "1.000", "10.00"]
    assert number_with_error(11.02, 1.7) == "11.0 ± 1.7"
    assert number_with_error(1.0, float("inf")) == "1.0 ± inf"

"""The table class: one format a column, aligned, and safe as HTML."""

import csv
import io

import pytest
from rich.console import Console

from limitlaw import Estimate
from limitlaw._format import Column, Table, estimate, number, number_with_error, percent, typeset

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


def test_pages_have_powers_of_ten_and_minus_signs():
    assert [typeset(x) for x in (-0.41, 1.5e-4, -2.0e7, 0.0, 1024, float("inf"), -float("inf"))] == [
        "−0.410", "1.50 × 10⁻⁴", "−2.00 × 10⁷", "0", "1,024", "∞", "−∞",
    ]  # fmt: skip
    assert estimate(Estimate(-1.95, 0.012)) == "−1.950 ± 0.012"
    assert estimate(Estimate(1.04e-5, 1.8e-7)) == "(1.040 ± 0.018) × 10⁻⁵"
    assert estimate(Estimate(1e-7, 3e-6)) == "(0.1 ± 3.0) × 10⁻⁶"
    assert estimate(Estimate(2.5e8, 3e6)) == "(2.500 ± 0.030) × 10⁸"
    assert [percent(x, 2) for x in (0.0734, 0.8666, 1.0, 0.00412)] == ["7.3%", "87%", "100%", "0.41%"]


@pytest.mark.parametrize("value", [1.23456e-5, 0.41, -3.1e-4, 123.4, 1.04e7])
@pytest.mark.parametrize("relative", [0.3, 0.011, 1e-4])
def test_both_spellings_are_one_number(value, relative):
    """Read back, they are equal, and as near to the value as the error is wide."""
    stderr = abs(value) * relative
    plain = number_with_error(value, stderr)
    page = number_with_error(value, stderr, typeset=True).replace("−", "-")
    body, _, power = page.partition(" × 10")
    scale = 10.0 ** int(power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))) if power else 1.0
    read = [float(part) * scale for part in body.strip("()").split(" ± ")]
    assert read == pytest.approx([float(part) for part in plain.split(" ± ")], rel=1e-9)
    assert abs(read[0] - value) <= 0.5 * stderr


def test_tables_of_pages():
    columns = ("n", Column("share", 2, percent=True), Column("gap", 3, one_quantity=False, least=1e-6))
    table = Table(columns, [(1024, 0.867, 3e-9), (float("inf"), 1.0, Estimate(2.5e-4, 1e-5))])
    assert table.cells(typeset=True) == [("1,024", "87%", "< 10⁻⁶"), ("∞", "100%", "(2.50 ± 0.10) × 10⁻⁴")]
    assert table.csv().splitlines() == ["n,share,gap,gap stderr", "1024,0.867,3e-09,0.0", "inf,1.0,0.00025,1e-05"]

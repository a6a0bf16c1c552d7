"""Pages: sections that fold, tables of numbers, and nothing that a text could break."""

import html.parser

import pytest

from limitlaw import Estimate
from limitlaw._format import Table
from limitlaw.experiments import Picture, Section, Summary, page


class Reader(html.parser.HTMLParser):
    """Tags are closed in the order in which they were opened."""

    def __init__(self):
        super().__init__()
        self.stack, self.seen, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "br"):
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def all(self, tag):
        return [attrs for name, attrs in self.seen if name == tag]


def read(*parts, title="A page"):
    reader = Reader()
    reader.feed(page(title, parts))
    assert reader.stack == []
    return reader


def test_sections_fold_and_have_contents():
    inner = Section("Numbers", ["text"], folded=True)
    reader = read("Opening.", Section("First", ["a", inner], "first"), Section("Second", ["b"], "second"))
    assert [("open" in attrs, attrs.get("id")) for attrs in reader.all("details")] == [
        (True, "first"), (False, None), (True, "second"),
    ]  # fmt: skip
    assert [attrs["href"] for attrs in reader.all("a")] == ["#first", "#second"]
    assert len(reader.all("nav")) == 1


def test_one_section_needs_no_contents():
    assert not read(Section("Only", ["a"], "only")).all("nav")


@pytest.mark.parametrize(
    "part",
    ["<script>alert(1)</script>", Summary(("<b>",), [("<script>",)]), Table(("<b>",), [("<script>",)]),
     Section("<script>", ["a"]), Picture(b"png", '"><script>')],
)  # fmt: skip
def test_text_is_never_markup(part):
    reader = read(part, title="<script>")
    assert not reader.all("script")
    assert not reader.all("b")


def test_numbers_are_typeset():
    reader = read(Table(("n", "KL"), [(1024, Estimate(1.58e-4, 7e-7))]))
    assert "(1.580 ± 0.007) × 10⁻⁴" in reader.text
    assert {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": "Table"} in reader.all("div")


def test_a_page_needs_no_other_file():
    reader = read(Picture(b"png", "what it shows"), "[link](#here)")
    (image,) = reader.all("img")
    assert image == {"alt": "what it shows", "src": "data:image/png;base64,cG5n"}
    assert not reader.all("link")

"""Whatever a model writes is shown letter by letter, as HTML and as Markdown."""

import html
import re
from html.parser import HTMLParser

import pytest

from delcore.reports.markup import (
    Section,
    Table,
    escape_html,
    escape_markdown,
    render_html,
    render_markdown,
    visible,
)

HOSTILE = [
    "<script>alert(1)</script>",
    "</td></tr></table><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "a | b || c",
    "`code` ``` more",
    "*b* _i_ ~~s~~ [x](javascript:alert(1)) ![y](http://example.org/z.png)",
    "$x^2$ and \\| and \\",
    "https://example.org and www.example.org",
    "&lt;b&gt; &amp;",
    "# heading",
    "- item",
    "1. item",
    "---",
    "> quote",
    "--> <!-- x",
]
UNSEEN = ["7\u202e9", "a\x00b\x1b[31m", "\ud800", "a\u200bb\ufeff", "\u2066x\u2069"]


class Reader(HTMLParser):
    """Tags and text of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.cells, self.within = [], [], False

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "bdi":
            self.within = True
            self.cells.append("")

    def handle_endtag(self, tag):
        self.within = self.within and tag != "bdi"

    def handle_data(self, data):
        if self.within:
            self.cells[-1] += data


def page_of(text):
    return [Section(text, [text], Table([text, "n"], [[text, "1"], [text, "2"]]))]


@pytest.mark.parametrize("text", HOSTILE + UNSEEN)
def test_page_holds_no_element_that_a_text_wrote(text):
    reader, plain = Reader(), Reader()
    reader.feed(render_html(text, page_of(text)))
    plain.feed(render_html("x", page_of("x")))
    assert reader.tags == plain.tags
    assert reader.cells == [visible(text), "n", visible(text), "1", visible(text), "2"]


@pytest.mark.parametrize("text", [*HOSTILE, "two\nlines\r\n\nmore\u2028and\x85on"])
def test_markdown_table_keeps_its_rows_and_cells(text):
    lines = render_markdown(text, page_of(text)).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 4 and all(row.count("|") == 3 for row in rows)
    assert len(lines) == 1 + 2 + 2 + 1 + 4
    shown = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", rows[2][2:].split(" | ")[0])
    assert html.unescape(shown) == visible(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_reader_sees_plain_text_only(text):
    parser = pytest.importorskip("markdown_it", reason="markdown-it-py is not installed")
    reader = parser.MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough")
    rendered = reader.render(render_markdown(text, page_of(text)))
    plain = reader.render(render_markdown("x", page_of("x")))
    assert re.findall(r"<[^>]*>", rendered) == re.findall(r"<[^>]*>", plain)
    assert html.unescape(re.search(r"<p>(.*?)</p>", rendered, re.DOTALL)[1]) == text


@pytest.mark.parametrize("text", UNSEEN)
def test_what_cannot_be_seen_is_spelt_out_and_can_be_written(text):
    for shown in (visible(text), escape_html(text), escape_markdown(text)):
        assert "⟨U+" in shown and all(char.isprintable() for char in shown)
        shown.encode()


def test_other_scripts_and_emoji_stay_as_they_are():
    text = "המחיר הוא 12 — 数 ½ 👨‍👩‍👧"
    assert visible(text) == text


def test_tables_without_rows_and_numbers_to_the_right():
    assert "| a |" in render_markdown("t", [Section("s", table=Table(["a"], []))])
    page = render_html("t", [Section("s", table=Table(["a", "b"], [["x", "1.5 (0–2)"], ["y", "–"]]), published=True)])
    assert page.count('class="number"') == 3 and '<section class="published">' in page

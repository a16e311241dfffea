"""A report as plain text in tables, written as Markdown or as one HTML page.

Every string in a `Section` is plain text, whoever wrote it: a model, a prompt, a file name. It is escaped here and
nowhere else; the one exception is `figure`, which `delcore.plots` makes.
"""

import html
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Table:
    """Rows of plain text under a header.

    Args:
        header: of each column.
        rows: cells, as many as the header.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Section:
    """A part of a report.

    Args:
        title: its heading.
        text: paragraphs above the table.
        table: what it shows.
        figure: HTML of a figure, which only the page shows.
        published: whether the numbers are others'; the page sets them apart.
        level: of the heading, 2 or 3.
    """

    title: str
    text: Sequence[str] = ()
    table: Table | None = None
    figure: str = ""
    published: bool = False
    level: int = 2


# ---------------------------------------------------------------- escaping


def visible(text: str) -> str:
    r"""Text on one line, with what cannot be seen or turns the direction of writing spelt out.

    >>> visible("7\u202e\n8")
    '7⟨U+202E⟩ 8'
    """
    return "".join(map(_visible, re.sub(r"\s+", " ", text)))


def _visible(char: str) -> str:
    # Control, format, surrogate, private and unassigned; a joiner within an emoji is as harmless as it is common.
    hidden = unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn") and char != "\N{ZERO WIDTH JOINER}"
    return f"⟨U+{ord(char):04X}⟩" if hidden else char


def escape_html(text: str) -> str:
    """Text that a page shows letter by letter, in a cell or an attribute."""
    return html.escape(visible(text))


_ENTITIES = {ord(char): f"&#{ord(char)};" for char in "&<>|`$@"}
_ESCAPED = {ord(char): f"\\{char}" for char in "\\*_[]~#!^"}


def escape_markdown(text: str) -> str:
    r"""Text that Markdown shows letter by letter, in a table's cell as well as in a paragraph.

    Entities stand where backslashes are not understood everywhere: in tables, in HTML and for GitHub's extensions.

    >>> escape_markdown("a|b *c* <i>")
    'a&#124;b \\*c\\* &#60;i&#62;'
    """
    text = visible(text).translate(_ENTITIES | _ESCAPED)
    text = re.sub(r"://|(?i:(?<=www)\.)", lambda match: "".join(f"&#{ord(char)};" for char in match[0]), text)
    # What would begin a list or be a rule, at the start of a paragraph.
    return re.sub(r"^(\d*)([-+.)](?=\s|$)|-(?=--))", lambda match: f"{match[1]}\\{match[2]}", text)


# ---------------------------------------------------------------- Markdown


def render_markdown(title: str, sections: Sequence[Section]) -> str:
    """The report as Markdown, without figures."""
    parts = [f"# {escape_markdown(title)}"]
    for section in sections:
        parts.append(f"{'#' * section.level} {escape_markdown(section.title)}")
        parts += [escape_markdown(paragraph) for paragraph in section.text]
        parts += [_markdown_table(section.table)] if section.table else []
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table) -> str:
    aligned = ["---:" if number else "---" for number in _numeric_columns(table)]
    lines = [[escape_markdown(cell) for cell in row] for row in (table.header, *table.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [lines[0], aligned, *lines[1:]])


_NUMBER = re.compile(r"[+−<]? ?\d[\d.e+-]*(?: \([^()]*\))?|–")


def _numeric_columns(table: Table) -> list[bool]:
    """Which columns hold only numbers, perhaps with an interval, and so stand to the right."""
    cells = zip(*table.rows, strict=True) if table.rows else [()] * len(table.header)
    return [bool(column) and all(_NUMBER.fullmatch(cell) for cell in column) for column in cells]


# ---------------------------------------------------------------- HTML


def render_html(title: str, sections: Sequence[Section]) -> str:
    """The report as one page that needs nothing from elsewhere, in the reader's light or dark theme."""
    style = resources.files("delcore.reports").joinpath("report.css").read_text(encoding="utf-8")
    body = "\n".join(_html_section(section) for section in sections)
    # Were anything to slip through, the page still could not reach out.
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape_html(title)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{escape_html(title)}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _html_section(section: Section) -> str:
    parts = [f"<h{section.level}>{escape_html(section.title)}</h{section.level}>"]
    parts += [f"<p>{escape_html(paragraph)}</p>" for paragraph in section.text]
    parts += [_html_table(section.table)] if section.table else []
    if section.figure:
        parts.append(f'<div class="figure" role="img" aria-label="{escape_html(section.title)}">{section.figure}</div>')
    kind = ' class="published"' if section.published else ""
    return f"<section{kind}>\n" + "\n".join(parts) + "\n</section>"


def _html_table(table: Table) -> str:
    kinds = [' class="number"' if number else "" for number in _numeric_columns(table)]

    def cells(tag: str, row: Sequence[str]) -> str:
        pairs = zip(row, kinds, strict=True)
        return "".join(f"<{tag}{kind}><bdi>{escape_html(cell)}</bdi></{tag}>" for cell, kind in pairs)

    body = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in table.rows)
    # Focusable, so that a wide table can be scrolled from the keyboard.
    return (
        f'<div class="table" tabindex="0">\n<table>\n<thead><tr>{cells("th", table.header)}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )

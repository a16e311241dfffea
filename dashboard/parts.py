"""Pieces that all pages share: figures that fit wide and narrow windows, problems told in one line, the style sheet.

Text from users and models goes through `st.text`, `st.code` or `st.dataframe`, in figures through
`delcore.plots.escape_text`, in labels through `escape_markdown`; every other Streamlit call that shows text reads
Markdown.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import plotly.graph_objects as go
import streamlit as st

STYLE = """
<style>
.stMainBlockContainer { padding-top: 4.2rem; padding-bottom: 3rem; }
.stMainBlockContainer h2 { padding: 0 0 .5rem 0; font-size: 1.5rem; }
/* A text field takes its direction from its first letter, so Hebrew and Arabic read right. */
.stTextInput input, .stText, .stText * { unicode-bidi: plaintext; }
.st-key-strip { align-items: center; }
.st-key-strip button { min-height: 0; min-width: 2rem; padding: .15rem .5rem; }
.st-key-strip button p, .st-key-strip .stText, .st-key-strip .stText * { font-family: monospace; font-size: 1rem; }
.st-key-strip .stText, .st-key-strip .stText * { white-space: break-spaces; }
.st-key-strip .stText { padding: 0 .4rem; }
/* Its file would hold formulas as they were typed; `as_csv` takes their sting. */
[data-testid="stElementToolbarButton"]:has([aria-label^="Download as CSV"]) { display: none; }
[class*="st-key-step-"] p { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.st-key-formulas .katex { font-size: 1em; }
.st-key-pair { align-items: flex-start; }
.st-key-pair > div { flex: 1 1 340px; min-width: min(340px, 100%); }
@media (max-width: 640px) {
  [class*="st-key-wide-"] { display: none; }
  .stMainBlockContainer { padding-left: .8rem; padding-right: .8rem; }
}
@media (min-width: 641px) { [class*="st-key-narrow-"] { display: none; } }
</style>
"""

PICTURES = ("png", "svg")
"""Formats that a figure's camera saves; the session state's "picture" holds the chosen one."""


def show_figure(figure: go.Figure, key: str, alt: str) -> None:
    """A figure as wide as the page; `alt` says what it shows to those who do not see it."""
    kind = st.session_state.get("picture", PICTURES[0])
    saved = {"format": kind, "scale": 1 if kind == "svg" else 2, "filename": f"delcore-{key}"}
    config = {"displaylogo": False, "modeBarButtons": [["toImage"]], "toImageButtonOptions": saved}
    st.plotly_chart(figure, width="stretch", key=key, config=config, alt=alt)


def show_panels(build: Callable[[int], go.Figure], key: str, alt: str, *, columns: tuple[int, int] = (4, 2)) -> None:
    """Small multiples with four panels a row and, in a narrow window, two; the style sheet shows one of them.

    A Plotly grid cannot flow, and the server does not know how wide the window is.
    """
    for width, count in zip(("wide", "narrow"), columns, strict=True):
        with st.container(key=f"{width}-{key}"):
            show_figure(build(count), f"{key}-{count}", alt)


def show_problem(what: str, error: Exception) -> None:
    """A fixed headline and the error's own line, which may quote the user and so is plain text."""
    with st.container(gap="xsmall"):  # without a key, for a page may have several problems
        st.error(what, icon=":material/error:")
        st.text(whole_text(str(error)))


def whole_text(text: str) -> str:
    """Text that can be sent: half a pair, as names of files and damaged logs may hold, becomes a question mark."""
    return text.encode(errors="replace").decode()


def ask_folder(label: str, key: str) -> str:
    """A folder of the user's own machine, in a form; "" for none. No address can name one."""
    with st.form(f"ask_{key}", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.text_input(label, key=f"folder_{key}").strip()
        st.form_submit_button("Open", icon=":material/folder_open:")
    return name


_JOINTS = re.compile(r"(?<=[:@])|(?<=[-<>~])(?=[-=>])|(?i:(?<=www)(?=\.))")
"""Where addresses, `:material/…:` and arrows such as `->` are put together."""


def escape_markdown(text: str) -> str:
    """Text for a label that reads Markdown, so that it stands there letter by letter, on one line.

    Streamlit looks for addresses, icons and arrows after Markdown has been read, when backslashes are gone; a joiner
    that nobody sees keeps their parts from each other.
    """
    line = _JOINTS.sub("\N{WORD JOINER}", " ".join(text.splitlines()))
    return "".join(f"\\{c}" if c in "\\`*_{}[]()#+-!|<>~$:&.@" else c for c in line)


def show_table(
    rows: list[dict[str, Any]],
    columns: dict[str, tuple[str, str | None, str]],
    alt: str,
    *,
    wide: str = "",
    saved: str = "",
) -> None:
    """Rows as a table; `columns` maps a key to its title, number format (None for text) and explanation.

    The column `wide` has long texts. `saved` is the name of a CSV file, where the page offers none that holds them.
    """
    config = {
        key: st.column_config.NumberColumn(title, format=form, help=about)
        if form
        else st.column_config.TextColumn(title, help=about, width="large" if key == wide else None)
        for key, (title, form, about) in columns.items()
    }
    st.dataframe(
        rows,
        hide_index=True,
        width="stretch",
        column_order=list(columns),
        column_config=config,
        alt=alt,
        placeholder="–",
    )
    if saved:
        offer_csv(rows, saved, columns=columns)


def offer_csv(
    rows: list[dict[str, Any]], name: str, *, columns: Iterable[str] | None = None, quiet: bool = True
) -> None:
    """The button that saves rows as `name`.csv, of `columns` alone where they are named."""
    rows = rows if columns is None else [{key: row.get(key) for key in columns} for row in rows]
    label, kind = ("Table as CSV", "tertiary") if quiet else ("CSV", "secondary")
    file, icon = f"{name}.csv", ":material/download:"
    st.download_button(
        label, as_csv(rows), file, "text/csv", key=f"csv-{name}", icon=icon, type=kind, on_click="ignore"
    )


def show_take_away(rows: list[dict[str, Any]], whole: Any, name: str, code: str) -> None:
    """What leaves the page: a table as CSV, all numbers as JSON, the pictures' format, and the same as Python.

    Args:
        rows: of the CSV file.
        whole: for the JSON file.
        name: of both files, without their endings.
        code: a script that makes the same numbers.
    """
    with st.container(horizontal=True, vertical_alignment="center", key=f"take-{name}"):
        offer_csv(rows, name, quiet=False)
        text, icon = json.dumps(whole, ensure_ascii=False, indent=1), ":material/download:"
        st.download_button("JSON", text, f"{name}.json", "application/json", icon=icon, on_click="ignore")
        with st.popover("Copy as Python", icon=":material/code:", width="content"):
            st.code(code, language="python", wrap_lines=False, width=560)
        st.segmented_control(
            "A figure's camera saves",
            PICTURES,
            format_func=str.upper,
            key="picture",
            required=True,
            help="The camera at the upper right of each figure saves it as PNG or SVG; the address of this page holds "
            "its settings, so copying it is the way to share the page.",
        )


FORMULA_SIGNS = tuple("=+-@\t\r\n＝＋－＠")
"""What a formula begins with, in some spreadsheet; some drop a line's end or read the wide signs of East Asia."""


def as_csv(rows: list[dict[str, Any]]) -> str:
    """Rows as CSV. A spreadsheet reads a text that begins like a formula as one, so such a text gets a quote before."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else [])
    writer.writeheader()
    writer.writerows({key: _as_text(value) for key, value in row.items()} for row in rows)
    return out.getvalue()


def _as_text(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_SIGNS) else value

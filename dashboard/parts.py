"""Pieces that all pages share: figures that fit wide and narrow windows, problems told in one line, the style sheet.

Text from users and models goes through `st.text`, `st.dataframe` or `delcore.plots.escape_text` only; every other
Streamlit call that shows text reads Markdown.
"""

from collections.abc import Callable
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
.st-key-problem { gap: .4rem; }
.st-key-pair { align-items: flex-start; }
.st-key-pair > div { flex: 1 1 340px; min-width: min(340px, 100%); }
@media (max-width: 640px) {
  [class*="st-key-wide-"] { display: none; }
  .stMainBlockContainer { padding-left: .8rem; padding-right: .8rem; }
}
@media (min-width: 641px) { [class*="st-key-narrow-"] { display: none; } }
</style>
"""

_CONFIG = {
    "displaylogo": False,
    "modeBarButtons": [["toImage"]],
    "toImageButtonOptions": {"format": "png", "scale": 2, "filename": "delcore"},
}


def show_figure(figure: go.Figure, key: str, alt: str) -> None:
    """A figure as wide as the page; `alt` says what it shows to those who do not see it."""
    st.plotly_chart(figure, width="stretch", key=key, config=_CONFIG, alt=alt)


def show_panels(build: Callable[[int], go.Figure], key: str, alt: str, *, columns: tuple[int, int] = (4, 2)) -> None:
    """Small multiples with four panels a row and, in a narrow window, two; the style sheet shows one of them.

    A Plotly grid cannot flow, and the server does not know how wide the window is.
    """
    for width, count in zip(("wide", "narrow"), columns, strict=True):
        with st.container(key=f"{width}-{key}"):
            show_figure(build(count), f"{key}-{count}", alt)


def show_problem(what: str, error: Exception) -> None:
    """A fixed headline and the error's own line, which may quote the user and so is plain text."""
    with st.container(key="problem"):
        st.error(what, icon=":material/error:")
        st.text(str(error))


def ask_folder(label: str, key: str) -> str:
    """A folder of the user's own machine, in a form; "" for none. No address can name one."""
    with st.form(f"ask_{key}", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.text_input(label, key=f"folder_{key}").strip()
        st.form_submit_button("Open", icon=":material/folder_open:")
    return name


def escape_markdown(text: str) -> str:
    """Text for a label that reads Markdown, so that it stands there letter by letter."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]()#+-!|<>~$:" else c for c in text)


def show_table(rows: list[dict[str, Any]], columns: dict[str, tuple[str, str | None, str]], alt: str) -> None:
    """Rows as a table; `columns` maps a key to its title, number format (None for text) and explanation."""
    config = {
        key: st.column_config.NumberColumn(title, format=form, help=about)
        if form
        else st.column_config.TextColumn(title, help=about)
        for key, (title, form, about) in columns.items()
    }
    st.dataframe(rows, hide_index=True, width="stretch", column_order=list(columns), column_config=config, alt=alt)

"""The tab Numbers of Explore: how one or two tokenizers cut a text, and what per-digit losses make of its numbers."""

from typing import Any

import cache
import links
import parts
import snippets
import streamlit as st

from delcore import plots
from delcore.errors import InputError
from delcore.workshop import is_workshop

TEXT = "1,000 is 1000; 3.14 and .5; 1.2.3; -7; 42."
COLUMNS = {
    "token": ("token", None, "its characters; ␣ is a space, 1/2 the first of two tokens of one character"),
    "number": ("number", "%d", "which number of the text it belongs to"),
    "place": ("place", "%d", "0 for units, 1 for tens, −1 for tenths"),
    "note": ("why not, or how", None, "why a token is no digit position, or ends a number"),
    "decimal": ("u decimal", "%.3f", "DEL: 2(i+1) before the point, 1.02^(i−1) behind it"),
    "integer": ("u integer", "%.3f", "earlier methods: every run of digits is an integer, i+1"),
    "none": ("u none", "%.3f", "every digit weighs 1"),
    "released": ("u released", "%.3f", "as the authors' code reads numbers"),
}


def parameters() -> dict[str, links.Parameter]:
    """All that a link to this tab restores."""
    known = cache.names_in_links()
    return {
        "text": links.text(TEXT),
        "tokenizer": links.model(known, "embedded"),
        "second": links.model(known | {"": ""}, ""),
    }


def show() -> None:
    """Text and tokenizers, then one column each."""
    ask()
    state = st.session_state
    named = [state.tokenizer.strip() or "embedded", *([state.second.strip()] if state.second.strip() else [])]
    links.ask_leave(named)
    names = [name for name in named if not links.is_unasked(name)]
    found = []
    columns = st.columns(len(named), gap="medium")
    for i, (name, column) in enumerate(zip(names, columns[: len(names)], strict=True)):
        with column:
            found += _show_reading(name, i)
    if found:
        rows = [{"tokenizer": name} | row for name, reading in found for row in _rows(reading)]
        code = snippets.numbers_code(state.text, [name for name, _ in found])
        parts.show_take_away(rows, rows, "delcore-numbers", code)


def ask() -> None:
    """Any text, and one or two tokenizers."""
    with st.form("ask_numbers", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input("Text with numbers", key="text", placeholder="Type any text …", width=440)
        if not is_workshop():
            st.text_input("Tokenizer", key="tokenizer", width=200, help="embedded, a folder, a .gguf file or a hub id")
            st.text_input("A second one beside it", key="second", placeholder="none", width=200)
        st.form_submit_button("Read numbers", type="primary")


def _show_reading(name: str, column: int) -> list[tuple[str, Any]]:
    """One tokenizer's figure and table; none where it cannot be read, which is told in one line."""
    try:
        reading = cache.read_numbers(name, st.session_state.text)
    except (InputError, OSError, RuntimeError) as error:
        parts.show_problem("These numbers cannot be read.", error)
        return []
    values = ", ".join(f"{value:g}" if isinstance(value, float) else str(value)[:20] for value in reading.values)
    st.text(
        f"{cache.short_name(name)}: {len(reading.tokens)} tokens; digits that are tokens of their own: "
        f"{reading.covered} of {reading.total}\nNumbers: {values[:300] or 'none'}"
    )
    if reading.covered:
        alt = f"Place weight of each digit under four rules; {reading.covered} digits in {len(reading.values)} numbers."
        parts.show_figure(plots.plot_number_weights(reading), f"weights-{column}", alt)
    parts.show_table(
        _rows(reading), COLUMNS, "Tokens with number, place, weights, and why some are passed over", wide="note"
    )
    return [(name, reading)]


def _rows(reading: Any) -> list[dict[str, Any]]:
    rules = ("decimal", "integer", "none", "released")
    return [
        {"token": token.text, "number": token.number, "place": token.place, "note": token.note}
        | {rule: token.weights.get(rule) for rule in rules}
        for token in reading.tokens
    ]

"""The digits of a text as a strip of buttons: click one, or step with the arrow keys."""

from typing import Any

import streamlit as st

LONGEST_STRIP = 40  # digits shown as buttons; beyond that a number field picks one


def pick_position(record: dict[str, Any], contexts: list[str | None], continuation: str) -> int:
    """The digit to look at: any of the prompt, any that the model wrote, or the next one (which it starts with)."""
    positions = record["positions"]
    first_new = len(positions) - 1 - sum(c in "0123456789" for c in continuation)
    chosen = st.session_state.get("position")
    chosen = chosen if chosen is not None and chosen < len(positions) else max(first_new, 0)
    if len(positions) > LONGEST_STRIP:
        return _pick_by_number(len(positions), chosen)
    with st.container(key="strip", horizontal=True, gap=None):
        _show_arrow("left", chosen - 1, chosen == 0)
        before = 0
        for i, context in enumerate(contexts):
            if context is not None:
                _show_between(context[before:], record["prompt"], before)
                before = len(context) + 1
            label, kind = positions[i]["text"] or "?", "primary" if i == chosen else "secondary"
            st.button(label, key=f"digit-{i}", type=kind, on_click=take_position, args=(i,))
        _show_arrow("right", chosen + 1, chosen == len(positions) - 1)
    return chosen


def _show_arrow(side: str, to: int, disabled: bool) -> None:
    st.button(
        f"Digit to the {side}",  # the style sheet leaves only the arrow of the shortcut to see
        key=f"step-{side}",
        type="tertiary",
        shortcut=side.capitalize(),
        disabled=disabled,
        on_click=take_position,
        args=(to,),
    )


def _show_between(text: str, prompt: str, start: int) -> None:
    """The characters between two digits; a line marks where the prompt ends and the model's own text begins."""
    ends_here = start <= len(prompt) < start + len(text)
    if ends_here:
        cut = len(prompt) - start
        text = f"{text[:cut]}│{text[cut:]}"
    if text:
        st.text(text if len(text) <= 48 else f"{text[:23]} … {text[-23:]}")


def take_position(i: int | None) -> None:
    """Look at the i-th digit from now on; None for the next one."""
    st.session_state.position = i


def _pick_by_number(count: int, chosen: int) -> int:
    key = f"digit-of-{count}"
    st.session_state[key] = chosen + 1  # a new prompt with as many digits starts anew
    picked = st.number_input(
        f"Digit to look at, from 1 to {count} (the last is the next one)",
        1,
        count,
        key=key,
        on_change=lambda: take_position(st.session_state[key] - 1),
    )
    return int(picked) - 1

"""Explore: type a prompt, see the ten digit probabilities under every loss."""

import csv
import io
import json
from typing import Any

import cache
import parts
import streamlit as st

from delcore import plots
from delcore.analysis import KnownLaw, known_law, left_contexts, tabulate_position, tabulate_record
from delcore.errors import InputError
from delcore.models import EMBEDDED_NAMES

EXAMPLES = {
    "noisy reading": "sensor B reads ",
    "two-digit reading": "gauge G shows ",
    "easy sum": "12 + 35 = ",
    "carry": "58 + 67 = ",
    "decimal": "1.4 + 2.9 = ",
    "word problem": "Ada has 23 apples and finds 45 more. Now Ada has ",
    "date": "date 2024-05-17 is written ",
    "copy an id": "order 40817 ships as order ",
}
VIEWS = ("Side by side", "Overlay", "Change to base")
LONGEST_STRIP = 40  # digits shown as buttons; beyond that a number field picks one
CLOSE_NATS = 0.02  # entropies that differ by less are told as equal
COLUMNS = {
    "title": ("loss", None, "what the model was fine-tuned with; Base is the model before"),
    "entropy_nats": ("entropy (nats)", "%.3f", "of the ten digit probabilities, from 0 to ln 10 = 2.303"),
    "entropy_minus_base": ("− base (nats)", "%+.3f", "entropy less the base model's"),
    "entropy_minus_law": ("− true law (nats)", "%+.3f", "entropy less the known law's: below 0 is over-sharp"),
    "top_digit": ("top digit", "%d", "the most probable digit"),
    "top_probability": ("its probability", "%.3f", "from 0 to 1"),
    "expected_digit": ("expected value", "%.2f", "mean of the digit, from 0 to 9"),
    "digit_mass": ("digit mass", "%.4f", "share of the whole softmax on the ten digits"),
}


def show_page() -> None:
    """Prompt, strip, picture, table; a problem is one line and the next prompt works."""
    state = st.session_state
    state.setdefault("prompt", cache.opening_record()["prompt"])
    st.header("Which digit comes next?", anchor=False)
    ask_prompt()
    writer = state.get("writer", "base") if state.get("continue") else None
    try:
        answer = cache.probe_family(state.prompt, writer)
    except InputError as error:
        parts.show_problem("This prompt cannot be used.", error)
        return
    show_answer(answer["record"], answer["continuation"])


def ask_prompt() -> None:
    """The prompt box and the examples."""
    st.session_state.setdefault("prompt_box", st.session_state.prompt)
    with st.form("ask", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input("Prompt", key="prompt_box", label_visibility="collapsed", placeholder="Type any text …")
        st.form_submit_button("Show digits", type="primary", on_click=_take_prompt)
    st.pills("Examples", list(EXAMPLES), key="example", on_change=_take_example, label_visibility="collapsed")


def _take_prompt() -> None:
    st.session_state.update(prompt=st.session_state.prompt_box, example=None, position=None)


def _take_example() -> None:
    if st.session_state.example:
        prompt = EXAMPLES[st.session_state.example]
        st.session_state.update(prompt=prompt, prompt_box=prompt, position=None)


def show_answer(record: dict[str, Any], continuation: str) -> None:
    """All that is told of one record."""
    text = record["prompt"] + continuation
    contexts = left_contexts(record, text)
    chosen = pick_position(record, contexts, continuation)
    position, is_last = record["positions"][chosen], chosen == len(record["positions"]) - 1
    law = known_law(contexts[chosen]) if contexts[chosen] is not None else None
    other = ask_other(text) if is_last else None
    show_picture(position["models"] | (other or {}), law)
    show_numbers(position, other, law, record)
    show_options(is_last)


# ---------------------------------------------------------------- the strip


def pick_position(record: dict[str, Any], contexts: list[str | None], continuation: str) -> int:
    """The digit to look at: any of the prompt, any that the model wrote, or the next one (which it starts with)."""
    positions = record["positions"]
    first_new = len(positions) - 1 - sum(c in "0123456789" for c in continuation)
    chosen = st.session_state.get("position")
    chosen = chosen if chosen is not None and chosen < len(positions) else max(first_new, 0)
    if len(positions) > LONGEST_STRIP:
        return _pick_by_number(positions, chosen)
    with st.container(key="strip", horizontal=True, gap=None):
        before = 0
        for i, context in enumerate(contexts):
            if context is not None:
                _show_between(context[before:], record["prompt"], before)
                before = len(context) + 1
            label, kind = positions[i]["text"] or "?", "primary" if i == chosen else "secondary"
            st.button(label, key=f"digit-{i}", type=kind, on_click=_take_position, args=(i,))
    return chosen


def _show_between(text: str, prompt: str, start: int) -> None:
    """The characters between two digits; a line marks where the prompt ends and the model's own text begins."""
    ends_here = start <= len(prompt) < start + len(text)
    if ends_here:
        cut = len(prompt) - start
        text = f"{text[:cut]}│{text[cut:]}"
    if text:
        st.text(text if len(text) <= 48 else f"{text[:23]} … {text[-23:]}")


def _take_position(i: int) -> None:
    st.session_state.position = i


def _pick_by_number(positions: list[dict[str, Any]], chosen: int) -> int:
    last = len(positions)
    picked = st.number_input(
        f"Digit to look at, from 1 to {last} (the last is the next one)", 1, last, chosen + 1, key=f"digit-of-{last}"
    )
    return int(picked) - 1


# ---------------------------------------------------------------- picture and numbers


def show_picture(models: dict[str, Any], law: KnownLaw | None) -> None:
    """The chosen view of one position."""
    p = {name: model["probabilities"] for name, model in models.items()}
    truth = law.probabilities if law else None
    tuned = {name: values for name, values in p.items() if name != "base"}
    view = st.segmented_control("View", VIEWS, default=VIEWS[0], key="view", label_visibility="collapsed")
    notes = _entropy_notes(models, law)
    alt = _describe(models, law)
    if view == "Overlay":
        parts.show_figure(plots.plot_overlay(p, truth=truth), "overlay", alt)
    elif view == "Change to base":
        parts.show_panels(
            lambda c: plots.plot_differences(tuned, p["base"], truth=truth, notes=notes, columns=c), "change", alt
        )
    else:
        parts.show_panels(
            lambda c: plots.plot_small_multiples(tuned, ghost=p["base"], truth=truth, notes=notes, columns=c),
            "panels",
            alt,
        )
    if law:
        st.caption(_judge(models, law))


def _entropy_notes(models: dict[str, Any], law: KnownLaw | None) -> dict[str, str]:
    against, what = (law.entropy_nats, "law") if law else (models["base"]["entropy_nats"], "base")
    return {
        name: f"{model['entropy_nats']:.2f} nats ({model['entropy_nats'] - against:+.2f} to {what})"
        for name, model in models.items()
    }


def _describe(models: dict[str, Any], law: KnownLaw | None) -> str:
    tops = ", ".join(
        f"{plots.TITLES.get(row['model'], 'other model')} {row['top_digit']} with {row['top_probability']:.2f}"
        for row in tabulate_position({"models": models})
    )
    known = f" Entropy of the true law: {law.entropy_nats:.3f} nats." if law else ""
    return f"Probabilities of the digits 0 to 9 under each loss. Most probable digit: {tops}.{known}"


def _judge(models: dict[str, Any], law: KnownLaw) -> str:
    gaps = {plots.TITLES[n]: m["entropy_nats"] - law.entropy_nats for n, m in models.items() if n in plots.TITLES}
    groups = {
        "Sharper": [n for n, gap in gaps.items() if gap < -CLOSE_NATS],
        f"Within {CLOSE_NATS} nats": [n for n, gap in gaps.items() if abs(gap) <= CLOSE_NATS],
        "Flatter": [n for n, gap in gaps.items() if gap > CLOSE_NATS],
    }
    told = " · ".join(f"**{what}**: {', '.join(names)}" for what, names in groups.items() if names)
    return f"This reading is drawn from a known law of entropy {law.entropy_nats:.3f} nats. {told}"


def show_numbers(
    position: dict[str, Any], other: dict[str, Any] | None, law: KnownLaw | None, record: dict[str, Any]
) -> None:
    """The table of one position, and every number of the record to take away."""
    rows = tabulate_position({"models": position["models"] | (other or {})})
    for row in rows:
        row["title"] = plots.TITLES.get(row["model"], row["model"])
        row["entropy_minus_law"] = row["entropy_nats"] - law.entropy_nats if law else None
    columns = {key: column for key, column in COLUMNS.items() if law or key != "entropy_minus_law"}
    parts.show_table(rows, columns, "Entropy, top digit, expected value and digit mass of each model")
    with st.container(horizontal=True):
        st.download_button(
            "CSV", _as_csv(record), "delcore.csv", "text/csv", icon=":material/download:", on_click="ignore"
        )
        text = json.dumps(record, ensure_ascii=False, indent=1)
        st.download_button(
            "JSON", text, "delcore.json", "application/json", icon=":material/download:", on_click="ignore"
        )


def _as_csv(record: dict[str, Any]) -> str:
    rows = tabulate_record(record)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


# ---------------------------------------------------------------- options


def show_options(is_last: bool) -> None:
    """The model's own continuation, and one more model beside the family."""
    with st.expander("Step through a continuation, or compare another model", expanded=False):
        st.toggle("Let a model write on, and look at each digit it writes", key="continue", on_change=_forget_position)
        st.selectbox("Written by", EMBEDDED_NAMES, format_func=plots.title_of, key="writer", on_change=_forget_position)
        with st.form("ask_other", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
            st.text_input("Another model: a folder, a .gguf file or a hub id; empty for none", key="other_box")
            st.form_submit_button("Compare", on_click=_take_other)
        if st.session_state.get("other") and not is_last:
            st.caption("The other model has other tokens, so it is shown for the next digit (?) only.")


def _forget_position() -> None:
    st.session_state.position = None


def _take_other() -> None:
    st.session_state.update(other=st.session_state.other_box.strip(), position=None)


def ask_other(text: str) -> dict[str, Any] | None:
    """What the other model says of the next token, if one is chosen."""
    name = st.session_state.get("other")
    if not name or is_workshop():
        return None
    try:
        return cache.probe_other(name, text)["positions"][-1]["models"]
    except (InputError, OSError, RuntimeError) as error:
        parts.show_problem("The other model cannot be shown.", error)
        return None


show_page()

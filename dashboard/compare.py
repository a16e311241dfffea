"""Which models Explore compares, at which temperature and against what."""

from typing import Any

import cache
import links
import parts
import streamlit as st

from delcore import plots
from delcore.analysis import KnownLaw, entropy_nats, measure_sharpness, sample_digits, temper_law
from delcore.errors import InputError
from delcore.models import EMBEDDED_NAMES
from delcore.workshop import is_workshop

LAW = "true law"
REFERENCES = (LAW, "base", "mle")
MOST_OTHERS = 3
COLDEST, HOTTEST = 0.05, 5.0
DRAWS = 10

Facts = dict[str, Any]


def temper(models: dict[str, Facts], temperature: float) -> dict[str, Facts]:
    """The facts of each model at a temperature; the digit mass stays that at 1, for it needs the whole vocabulary."""
    if temperature == 1:
        return models
    tempered = {}
    for name, facts in models.items():
        p = temper_law(facts["probabilities"], temperature)
        expected = sum(k * value for k, value in enumerate(p))
        told = {"probabilities": list(p), "entropy_nats": entropy_nats(p), "expected_digit": expected}
        tempered[name] = facts | told
    return tempered


def reference_of(models: dict[str, Facts], law: KnownLaw | None) -> tuple[str, list[float]]:
    """The chosen reference, or the base model where no law is known; name and probabilities."""
    chosen = st.session_state.reference
    if chosen == LAW and law:
        return LAW, list(law.probabilities)
    name = "base" if chosen == LAW else chosen
    return name, models[name]["probabilities"]


def tabulate(models: dict[str, Facts], reference: list[float], seed: int) -> list[dict[str, Any]]:
    """One row per model: sharpness against the reference, top digit, and some digits that are drawn."""
    return [_row(name, facts, reference, seed) for name, facts in models.items()]


def _row(name: str, facts: Facts, reference: list[float], seed: int) -> dict[str, Any]:
    p = facts["probabilities"]
    found = measure_sharpness(p, reference)
    top = max(range(10), key=lambda k: p[k])
    return {
        "model": name,
        "title": plots.TITLES.get(name, name),
        "entropy_nats": found.entropy_nats,
        "gap_nats": found.gap_nats,
        "kl_nats": found.kl_nats,
        "verdict": found.verdict,
        "top_digit": top,
        "top_probability": p[top],
        "draws": " ".join(str(digit) for digit in sample_digits(p, DRAWS, seed)),
        "expected_digit": facts["expected_digit"],
        "digit_mass": facts["digit_mass"],
    }


# ---------------------------------------------------------------- other models


def all_others() -> list[str]:
    """Names of the other models, as they are read; none in a workshop."""
    return [] if is_workshop() else list(dict.fromkeys(name.strip() for name in st.session_state.others))


def writers() -> list[str]:
    """Names of those that may write on."""
    return [*EMBEDDED_NAMES, *all_others()]


def named_others() -> dict[str, str]:
    """Title to name of the other models that may be asked; see the rule of names in `links`."""
    titled: dict[str, str] = {}
    for name in all_others():
        if links.is_unasked(name):
            continue
        title = cache.short_name(name)
        titled[name if title in titled or title in EMBEDDED_NAMES else title] = name
    return titled


def ask_others(context: str | None) -> dict[str, Facts]:
    """What the other models say of the token after `context`; one that fails is one line, and the rest stays."""
    answers: dict[str, Facts] = {}
    for title, name in named_others().items() if context else ():
        try:
            answers[title] = cache.probe_other(name, context or "")
        except InputError as error:
            parts.show_problem("The other model cannot be shown.", error)
    return answers


def settle_writer() -> None:
    """Where the writer is none of those on the page, as a link may name it, the base writes."""
    state = st.session_state
    state.writer = state.writer if state.writer in writers() else "base"


def show_choices(context: str | None) -> None:
    """Which models are shown, more of them, and a continuation to step through."""
    links.hold("shown", "others", "continue")
    adding = "" if is_workshop() else "add others, "
    with st.expander(f"Choose models, {adding}step through a continuation", expanded=False, key="choices"):
        st.pills(
            "Embedded family",
            EMBEDDED_NAMES,
            selection_mode="multi",
            format_func=plots.title_of,
            key="shown",
        )
        if not is_workshop():
            _ask_others_names()
        st.toggle("Let a model write on, and look at each digit it writes", key="continue", on_change=_forget_position)
        settle_writer()
        st.selectbox("Written by", writers(), format_func=_written_by, key="writer", on_change=_forget_position)
        if named_others() and not context:
            st.caption("Other models are not asked where nothing precedes the digit.")


def _ask_others_names() -> None:
    st.multiselect(
        f"Other models, at most {MOST_OTHERS}: a folder, a .gguf file or a hub id",
        list(dict.fromkeys([*cache.known_adapters(), *st.session_state.others])),
        key="others",
        format_func=_option,
        accept_new_options=True,
        max_selections=MOST_OTHERS,
        placeholder="Type a name and press Enter, or pick an adapter of SmolLM2",
        help="The adapters of SmolLM2 need their base once: add its .gguf file first, which converts it.",
    )


def _option(name: str) -> str:
    """What a name is called in the list: the same at every run, for the browser sends this and not the name."""
    return cache.short_name(name) if name in cache.known_adapters() else name


def _written_by(name: str) -> str:
    return plots.TITLES.get(name) or _option(name)


def _forget_position() -> None:
    st.session_state.position = None

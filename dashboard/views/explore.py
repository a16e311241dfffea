"""Explore: type a prompt, see the ten digit probabilities under every loss; and how a tokenizer's numbers weigh."""

from typing import Any

import cache
import compare
import links
import numbers_tab
import parts
import snippets
import streamlit as st
from examples import EXAMPLES, STORIES
from strip import pick_position, take_position

from delcore import plots
from delcore.analysis import KnownLaw, known_law, left_contexts, tabulate_record
from delcore.errors import InputError
from delcore.intervals import format_signed
from delcore.models import EMBEDDED_NAMES

TABS = ("Next digit", "Numbers")
VIEWS = ("Side by side", "Overlay", "Change")
LAST_SEED = 1_000_000
COLUMNS = {
    "title": ("model", None, "what the model was fine-tuned with; Base is the model before"),
    "entropy_nats": ("entropy (nats)", "%.3f", "of the ten digit probabilities, from 0 to ln 10 = 2.303"),
    "gap_nats": ("− {} (nats)", "%+.3f", "entropy less the reference's: below 0 is sharper, above 0 flatter"),
    "kl_nats": ("KL (nats)", "%.3f", "KL(reference ‖ model), 0 or above"),
    "verdict": ("than {}", None, "alike: entropies differ by at most 0.02 nats"),
    "top_digit": ("top digit", "%d", "the most probable digit, which greedy decoding would take"),
    "top_probability": ("its probability", "%.3f", "how often a sampled digit is the top digit, from 0 to 1"),
    "draws": ("ten sampled digits", None, "drawn at this temperature; the dice below give other ones"),
    "expected_digit": ("expected value", "%.2f", "mean of the digit, from 0 to 9"),
    "digit_mass": ("digit mass", "%.4f", "share of the whole softmax on the ten digits, at temperature 1"),
}
DIGIT_COLUMNS = {
    "before": ("text before", None, "the end of what the model reads"),
    "text": ("digit", None, "what stands there; ? for the next token"),
    "place": ("place", "%d", "0 for units, −1 for tenths; empty where the text does not settle it"),
    "weight": ("weight u", "%.3f", "DEL's weight of that place"),
    "own_probability": ("its probability", "%.4f", "p̂ of the digit that stands there, at temperature 1"),
    "rank": ("its rank", "%d", "1 for the most probable digit"),
    "top_digit": ("top digit", "%d", "the most probable digit"),
    "entropy_nats": ("entropy (nats)", "%.3f", "of the ten digit probabilities"),
    "digit_mass": ("digit mass", "%.4f", "share of the whole softmax on the ten digits"),
}


def parameters() -> dict[str, links.Parameter]:
    """All that a link to this page restores."""
    known = cache.names_in_links()
    return {
        "tab": links.choice(TABS),
        "prompt": links.text(cache.opening_record()["prompt"]),
        "position": links.whole(0, 100_000),
        "view": links.choice(VIEWS),
        "temperature": links.number(compare.COLDEST, compare.HOTTEST, 1.0),
        "reference": links.choice(compare.REFERENCES),
        "seed": links.whole(0, LAST_SEED, 0),
        "shown": links.several(EMBEDDED_NAMES, EMBEDDED_NAMES),
        "others": links.models(known, compare.MOST_OTHERS),
        "continue": links.flag(),
        "writer": links.model(known | {name: name for name in EMBEDDED_NAMES}, "base"),
        "told_by": links.choice(EMBEDDED_NAMES, "mle"),
        "picture": links.choice(parts.PICTURES),
        **numbers_tab.parameters(),
    }


def show_page() -> None:
    """Two tabs, of which only the open one is computed."""
    links.restore("explore", parameters())
    st.header("Which digit comes next?", anchor=False)
    digits, numbers = st.tabs(TABS, key="tab", on_change="rerun")
    if digits.open:
        with digits:
            show_digits()
    if numbers.open:
        with numbers:
            numbers_tab.show()
    links.publish("explore", parameters())


def show_digits() -> None:
    """Prompt, strip, picture, table; a problem is one line and the next prompt works."""
    ask_prompt()
    links.ask_leave(compare.all_others())
    continuation, problem = write_on()
    try:
        record = cache.probe_family(st.session_state.prompt, continuation)
    except (InputError, OSError, RuntimeError) as error:
        parts.show_problem("This prompt cannot be used.", error)
        compare.show_choices(None)  # another writer, or none, may be the remedy
        return
    if problem:
        parts.show_problem("The chosen model cannot write on.", problem)
    show_answer(record, continuation)


def write_on() -> tuple[str, Exception | None]:
    """What the chosen model writes after the prompt, where that is wanted; "" and why where it cannot."""
    state = st.session_state
    compare.settle_writer()
    if not state["continue"] or links.is_unasked(state.writer):
        return "", None
    try:
        return cache.write_on(state.prompt, state.writer), None
    except (InputError, OSError, RuntimeError) as error:
        return "", error


def ask_prompt() -> None:
    """The prompt box and the examples; of an example, what to look at."""
    state = st.session_state
    state.setdefault("prompt_box", state.prompt)
    with st.form("ask", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input("Prompt", key="prompt_box", label_visibility="collapsed", placeholder="Type any text …")
        st.form_submit_button("Show digits", type="primary", on_click=_take_prompt)
    st.pills(
        "Examples", list(EXAMPLES), key="example", on_change=_take_example, label_visibility="collapsed", wrap=False
    )
    if state.prompt in STORIES:
        st.caption(STORIES[state.prompt])


def _take_prompt() -> None:
    st.session_state.update(prompt=st.session_state.prompt_box, example=None, position=None)


def _take_example() -> None:
    if st.session_state.example:
        prompt = EXAMPLES[st.session_state.example].prompt
        st.session_state.update(prompt=prompt, prompt_box=prompt)
        take_position(None)


def show_answer(record: dict[str, Any], continuation: str) -> None:
    """All that is told of one record."""
    state = st.session_state
    contexts = left_contexts(record, record["prompt"] + continuation)
    chosen = pick_position(record, contexts, continuation)
    context = contexts[chosen]
    law = known_law(context) if context is not None else None
    family = record["positions"][chosen]["models"]
    everyone = compare.temper(family | compare.ask_others(context), state.temperature)
    ask_view()
    reference = compare.reference_of(everyone, law)
    models = {name: facts for name, facts in everyone.items() if name in state.shown or name not in EMBEDDED_NAMES}
    if models:
        rows = compare.tabulate(models, reference[1], state.seed)
        show_picture(rows, models, everyone, reference, law)
        show_numbers(rows, reference, record, continuation, chosen, context)
    else:
        st.text("No model is chosen. Pick at least one below.")
    compare.show_choices(context)
    show_all_digits(record, contexts)


# ---------------------------------------------------------------- picture and numbers


def ask_view() -> None:
    """How the picture is drawn, at which temperature, against what."""
    state = st.session_state
    links.hold("temperature", "reference")
    with st.container(horizontal=True, key="controls"):
        st.segmented_control("View", VIEWS, key="view", required=True, label_visibility="collapsed")
        with st.popover(f"T = {state.temperature:.2f}, against {_told(state.reference)}", icon=":material/tune:"):
            st.number_input(
                "Temperature",
                compare.COLDEST,
                compare.HOTTEST,
                step=0.05,
                format="%.2f",
                key="temperature",
                help="Probabilities are p^(1/T), normalised: below 1 sharper, above 1 flatter.",
            )
            st.segmented_control("Compare with", compare.REFERENCES, format_func=_told, key="reference", required=True)


def _throw_dice() -> None:
    st.session_state.seed = (st.session_state.seed + 1) % (LAST_SEED + 1)


def _told(reference: str) -> str:
    return plots.TITLES.get(reference, reference)


def show_picture(
    rows: list[dict[str, Any]],
    models: dict[str, Any],
    everyone: dict[str, Any],
    reference: tuple[str, list[float]],
    law: KnownLaw | None,
) -> None:
    """The chosen view of one position."""
    p = {name: facts["probabilities"] for name, facts in models.items()}
    truth = law.probabilities if law else None
    against = reference[0] if reference[0] in everyone else "base"
    ghost = everyone[against]["probabilities"]
    panels = {name: values for name, values in p.items() if name != against} or p
    notes = {row["model"]: _note(row, _short(reference[0])) for row in rows}
    alt = _describe(rows, reference[0])
    drawn: dict[str, Any] = {"truth": truth, "notes": notes}
    if st.session_state.view == "Overlay":
        parts.show_figure(plots.plot_overlay(p, truth=truth), "overlay", alt)
    elif st.session_state.view == "Change":
        build = plots.plot_differences
        parts.show_panels(lambda c: build(panels, ghost, base_name=against, columns=c, **drawn), "change", alt)
    else:
        draw = plots.plot_small_multiples
        parts.show_panels(lambda c: draw(panels, ghost=ghost, ghost_name=against, columns=c, **drawn), "panels", alt)
    st.caption(_judge(rows, reference, law))


def _note(row: dict[str, Any], reference: str) -> str:
    return f"{row['entropy_nats']:.2f} nats ({format_signed(row['gap_nats'], 2)} to {reference})"


def _short(reference: str) -> str:
    return "law" if reference == compare.LAW else _told(reference)


def _describe(rows: list[dict[str, Any]], reference: str) -> str:
    tops = ", ".join(f"{row['title']} {row['top_digit']} with {row['top_probability']:.2f}" for row in rows)
    return f"Probabilities of the digits 0 to 9 of each model, compared with {_told(reference)}. Most probable: {tops}."


def _judge(rows: list[dict[str, Any]], reference: tuple[str, list[float]], law: KnownLaw | None) -> str:
    """Who is sharper and who flatter; names of other models may be markup and are only counted."""
    groups: dict[str, list[str]] = {"sharper": [], "alike": [], "flatter": []}
    for row in rows:
        title = row["title"] if row["model"] in plots.TITLES else "another model"
        groups[row["verdict"]] += [title] if row["model"] != reference[0] else []
    heads = {"sharper": "Sharper than", "alike": "As sharp as", "flatter": "Flatter than"}
    named = "the true law" if reference[0] == compare.LAW else _told(reference[0])
    told = " · ".join(f"**{heads[what]} {named}**: {', '.join(names)}" for what, names in groups.items() if names)
    known = f"This reading is drawn from a known law of entropy {law.entropy_nats:.3f} nats. " if law else ""
    none = "No law is known for this text. " if st.session_state.reference == compare.LAW and not law else ""
    return known + none + told


def show_numbers(
    rows: list[dict[str, Any]],
    reference: tuple[str, list[float]],
    record: dict[str, Any],
    continuation: str,
    chosen: int,
    context: str | None,
) -> None:
    """The table of one position, and every number of the record to take away."""
    state = st.session_state
    columns = {key: (title.format(_short(reference[0])), *rest) for key, (title, *rest) in COLUMNS.items()}
    alt = "Entropy, sharpness, top digit, sampled digits and digit mass of each model"
    parts.show_table(rows, columns, alt)
    with st.container(horizontal=True):
        parts.offer_csv(rows, "delcore-position", columns=columns)
        again = "Draw ten other digits for the table; all models share the dice"
        st.button("Sample again", icon=":material/casino:", type="tertiary", help=again, on_click=_throw_dice)
    shown = [row["model"] for row in rows]
    family = [name for name in EMBEDDED_NAMES if name in shown] or ["base"]
    others = {title: name for title, name in compare.named_others().items() if title in shown}
    code = snippets.explore_code(record["prompt"], continuation, chosen, family, others, context, state.temperature)
    whole = record | {"continuation": continuation, "shown": {"position": chosen, "rows": rows}}
    parts.show_take_away(tabulate_record(record), whole, "delcore", code)


def show_all_digits(record: dict[str, Any], contexts: list[str | None]) -> None:
    """Every digit of the text under one model: how probable it was, and what stood above it."""
    links.hold("told_by")
    with st.expander("All digits of this text under one model", expanded=False, key="all-digits"):
        name = st.selectbox("Model", EMBEDDED_NAMES, format_func=plots.title_of, key="told_by")
        rows = []
        for position, context in zip(record["positions"], contexts, strict=True):
            facts = position["models"][name]
            p, digit = facts["probabilities"], int(position["text"]) if position["text"] else None
            rows.append(
                {key: position[key] for key in ("place", "weight")}
                | {key: facts[key] for key in ("entropy_nats", "digit_mass")}
                | {"before": (context or "")[-24:], "text": position["text"] or "?", "top_digit": p.index(max(p))}
                | {"own_probability": None if digit is None else p[digit]}
                | {"rank": None if digit is None else 1 + sum(value > p[digit] for value in p)}
            )
        alt = "Probability, rank and entropy at every digit of the text"
        parts.show_table(rows, DIGIT_COLUMNS, alt, saved="delcore-digits")


show_page()

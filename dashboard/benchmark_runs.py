"""What models answered on benchmarks: accuracies with intervals, and a browser of single items."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cache_results
import links
import parts
import streamlit as st

from delcore import plots
from delcore.benchmarks.metrics import SHOWN_PLACES, WAYS, accuracy, cut_share, place_accuracy, unread_share
from delcore.errors import InputError
from delcore.intervals import Interval
from delcore.workshop import is_workshop

Record = Mapping[str, Any]
FILTERS: dict[str, Callable[[Record, str], bool]] = {
    "all": lambda record, way: True,
    "right": lambda record, way: record[f"correct_{way}"],
    "wrong": lambda record, way: not record[f"correct_{way}"],
    "unread": lambda record, way: record[way] is None,
    "readings differ": lambda record, way: record["strict"] != record["flexible"],
    "cut for length": lambda record, way: record["finish"] == "length",
}
PARAMETERS = {"way": links.choice(WAYS, WAYS[1]), "items_that": links.choice(list(FILTERS))}
"""What a link restores. Benchmark, model and item are those of a folder, which no address names."""

COLUMNS = {
    "label": ("model", None, "as it was asked for"),
    "items": ("items", None, "answered, of those that were asked"),
    "strict": ("right, strictly", None, "percent with Wilson's 95 % interval; what could not be read is wrong"),
    "flexible": ("right, flexibly", None, "the same, with the last thing that could be an answer"),
    "unread": ("unread, strictly", None, "percent without a stated answer"),
    "cut": ("cut", None, "percent that had not ended at the length limit"),
}


def show_benchmarks() -> None:
    """The user's folder, or the stored answers of the SmolLM2 study."""
    asked = "Folder of `delcore evaluate`; empty for the stored study"
    folder = "" if is_workshop() else parts.ask_folder(asked, "answers")
    try:
        if folder:
            show_runs(cache_results.read_evaluations(folder))
        else:
            show_stored(cache_results.read_study("smollm2"))
    except (InputError, OSError) as error:
        parts.show_problem("These answers cannot be shown.", error)


def show_stored(study: Mapping[str, Any]) -> None:
    """Accuracies of the SmolLM2 study; its single answers are not stored."""
    for task, models in study["answers"].items():
        right = {name: Interval(**facts["right"]) for name, facts in models.items()}
        st.markdown(f"**{parts.escape_markdown(task)}**, SmolLM2-135M under four losses, read flexibly")
        _show_accuracy(right, task)
        unread = ", ".join(f"{name} {100 * facts['unread']['mean']:.1f} %" for name, facts in models.items())
        st.caption(f"Without an answer that could be read, and so wrong: {parts.escape_markdown(unread)}.")
    st.caption(f"{study['limits']} Single answers are shown of a folder that `delcore evaluate` wrote.")


def _show_accuracy(right: Mapping[str, Interval], key: str) -> None:
    figure = plots.plot_intervals(right, title="", x_title="right (share)", what="items")
    alt = "Share of right answers: " + ", ".join(f"{name} {one.mean:.3f}" for name, one in right.items())
    parts.show_figure(plots.untitled(figure), f"accuracy-{key}", alt)


# ---------------------------------------------------------------- runs


def show_runs(found: cache_results.Evaluations) -> None:
    """One benchmark at a time: every model, then one model's items."""
    runs = found.runs
    for problem in found.problems:
        parts.show_problem("A run cannot be read.", InputError(problem))
    if not runs:
        return
    tasks = list(dict.fromkeys(run.task for run in runs))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        task = st.selectbox("Benchmark", tasks, key="task", width=240)
        way = st.segmented_control("Reading", WAYS, key="way", required=True)
    chosen = [run for run in runs if run.task == task]
    labels = _labels(chosen)
    right = {label: accuracy(run.records, way) for label, run in zip(labels, chosen, strict=True)}
    measured = {label: one for label, one in right.items() if one is not None}
    if measured:
        _show_accuracy(measured, "runs")
        st.caption("Wilson's 95 % intervals over items; where they overlap, a paired difference may still be clear.")
    rows = [_row(*pair) for pair in zip(labels, chosen, strict=True)]
    parts.show_table(rows, COLUMNS, "Accuracy of each run", saved="delcore-accuracy")
    show_comparison(chosen, found.stamp)
    show_places(dict(zip(labels, chosen, strict=True)))
    show_items(dict(zip(labels, chosen, strict=True)), way)


def _labels(runs: Sequence[Any]) -> list[str]:
    """The models' names; with the folder's where several runs have one name."""
    names = [str(run.header["model"]) for run in runs]
    return [
        name if names.count(name) == 1 else parts.whole_text(f"{run.path.parent.name}/{run.path.name}: {name}")
        for name, run in zip(names, runs, strict=True)
    ]


def _row(label: str, run: Any) -> dict[str, str]:
    from delcore.reports.cells import format_percent

    shares = {"strict": accuracy(run.records), "flexible": accuracy(run.records, "flexible")}
    shares |= {"unread": unread_share(run.records), "cut": cut_share(run.records)}
    items = f"{len(run.records)} of {run.header['items']}"
    return {"label": label, "items": items, **{key: format_percent(one) for key, one in shares.items()}}


def show_comparison(runs: Sequence[Any], stamp: str) -> None:
    """Paired differences, where the runs asked the same in the same way."""
    finished = [run for run in runs if run.finished]
    if len(finished) < 2:
        return
    st.markdown("**Paired differences**")
    try:
        section = cache_results.compare_evaluations(finished, stamp)
    except InputError as error:
        st.text(parts.whole_text(f"No paired differences: {error}"))
        return
    rows = [dict(zip(section.table.header, row, strict=True)) for row in section.table.rows]
    st.dataframe(rows, hide_index=True, width="stretch", alt="Paired differences between the models")
    parts.offer_csv(rows, "delcore-differences")
    st.caption(section.text[0])


def show_places(runs: Mapping[str, Any]) -> None:
    """Right digits by place, where answers are numbers."""
    shares = {
        label: {place: one for place, one in place_accuracy(run.records).items() if place in SHOWN_PLACES}
        for label, run in runs.items()
    }
    shares = {label: one for label, one in shares.items() if one}
    if shares:
        st.markdown("**Right digits by place** of the right answer, read flexibly; what is unread is wrong")
        parts.show_figure(plots.plot_place_accuracy(shares), "places", "Share of right digits at each place")


# ---------------------------------------------------------------- single items


def show_items(runs: Mapping[str, Any], way: str) -> None:
    """One item of one run: prompt, output, both readings, right answer, verdict."""
    st.markdown("**Single answers**")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        label = st.selectbox("Model", list(runs), key="items_of", width=280)
        wanted = st.selectbox("Show", list(FILTERS), key="items_that", width=180)
        found = [record for record in runs[label].records if FILTERS[wanted](record, way)]
        number = _pick_number(len(found))
    if not found:
        st.text(f"No item of this run is “{wanted}”." if runs[label].records else "No item has been answered yet.")
        return
    show_item(found[number - 1])


def _pick_number(count: int) -> int:
    """Which of the items found, by its number; the first, where another filter finds fewer than that."""
    if st.session_state.get("item", 1) > max(count, 1):
        st.session_state.item = 1
    return int(st.number_input(f"Item, 1 to {count:,}", 1, max(count, 1), key="item", disabled=count < 2, width=180))


def show_item(record: Record) -> None:
    """All of it as plain text, for a model may have written anything."""
    with st.container(horizontal=True, key="verdict"):
        for way in WAYS:
            read = "nothing read" if record[way] is None else record[way]
            icon = ":material/check_circle:" if record[f"correct_{way}"] else ":material/cancel:"
            with st.container(width="content", gap=None):
                st.markdown(f"{icon} {'right' if record[f'correct_{way}'] else 'wrong'} ({way} reading)")
                st.text(read)
        with st.container(width="content", gap=None):
            st.markdown(":material/flag: right answer")
            st.text(record["gold"])
    facts = [f"id {record['id']}", f"kind {record['kind']}", f"{record['tokens']} tokens", f"ended: {record['finish']}"]
    facts += [f"answered by {record['from']}"] + ([f"program: {record['outcome']}"] if record["outcome"] else [])
    st.text(" · ".join(facts))
    for title, text in _texts(record):
        st.markdown(f"**{title}**")
        st.code(text or " ", language=None, wrap_lines=True)


def _texts(record: Record) -> list[tuple[str, str]]:
    """Prompt and output; of a program what it was and what it printed, too."""
    texts = [("Prompt", record["prompt"]), ("Output", record["output"])]
    program = record.get("program")
    if isinstance(program, Mapping):
        texts += [("Program", str(program.get("output", ""))), ("It printed", str(program.get("printed", "")))]
    return texts

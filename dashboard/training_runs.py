"""Training runs: every logged term along the steps, and the table of a sweep."""

from typing import Any

import cache_results
import parts
import streamlit as st

from delcore import plots
from delcore.errors import InputError
from delcore.run_logs import MOST_TERMS, terms_of
from delcore.workshop import is_workshop

COLUMNS = {
    "name": ("run", None, "its folder"),
    "loss": ("loss", None, "key of the loss"),
    "seed": ("seed", "%d", "of samples and their order"),
    "state": ("state", None, "from its files alone a run that is under way looks like one that was killed"),
    "step": ("last step", "%d", "that has been logged"),
    "cross_entropy": ("cross-entropy", "%.4f", "nats per token, of the last line"),
    "digit_accuracy": ("digit accuracy", "%.3f", "share, of the last line"),
}


def show_training() -> None:
    """The user's folder, or the stored runs of the SmolLM2 study."""
    folder = "" if is_workshop() else parts.ask_folder("Folder of a run or a sweep; empty for the stored runs", "runs")
    try:
        if folder:
            show_read(*cache_results.read_logs(folder))
        else:
            show_stored(cache_results.stored_logs())
    except (InputError, OSError) as error:
        parts.show_problem("These runs cannot be shown.", error)


def show_stored(logs: list[Any]) -> None:
    """The logs of the SmolLM2 study, or a line where this installation has none."""
    if not logs:
        st.info("No runs are stored in this installation.", icon=":material/hourglass_empty:")
        return
    st.caption("Stored runs: SmolLM2-135M with LoRA on GSM8K under four losses, one seed.")
    show_logs(logs, None)


def show_read(logs: list[Any], table: list[Any] | None, problems: list[str]) -> None:
    """What could be read of a folder, and a line for each file that could not."""
    for problem in problems:
        parts.show_problem("A file of this folder cannot be read.", InputError(problem))
    if logs:
        show_logs(logs, table)


def show_logs(logs: list[Any], table: list[Any] | None) -> None:
    """All terms, the sweep's means, and a table of the runs."""
    terms = terms_of(logs)
    parts.show_panels(
        lambda columns: plots.plot_logs(logs, terms[:MOST_TERMS], columns=columns),
        "terms",
        f"Logged terms of {len(logs)} runs along the optimiser steps",
        columns=(3, 1),
    )
    if len(terms) > MOST_TERMS:
        st.caption(f"These are the first {MOST_TERMS} of {len(terms)} logged terms.")
    if table:
        st.markdown("**Sweep**: means over seeds on held-out samples, and paired differences to MLE")
        alt = "Means over seeds with 95 % intervals, and differences to MLE"
        parts.show_figure(plots.untitled(plots.plot_sweep(table)), "sweep", alt)
        st.caption("95 % t-intervals over seeds; none where there is one seed.")
    parts.show_table([_row(log) for log in logs], COLUMNS, "State and last values of each run", saved="delcore-runs")


def _row(log: Any) -> dict[str, Any]:
    last = log.lines[-1] if log.lines else {}
    facts = {"name": log.name, "loss": log.loss, "seed": log.seed, "state": log.state, "step": log.last_step}
    return facts | {key: last.get(key) for key in ("cross_entropy", "digit_accuracy")}

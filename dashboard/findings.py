"""The claims of the paper: one row each, which opens the figure that it is judged by."""

from collections.abc import Mapping
from typing import Any

import cache_results
import links
import parts
import streamlit as st

from delcore import plots
from delcore.analysis import read_similarity
from delcore.errors import InputError
from delcore.intervals import Interval
from delcore.studies.stored import SOLVED, Claim

ICONS = {
    "agrees": ":material/check_circle:",
    "mixed": ":material/contrast:",
    "differs": ":material/cancel:",
    "not separated": ":material/drag_handle:",
    "not tested at this scale": ":material/block:",
    "not run": ":material/hourglass_empty:",
}
GROUPS = dict.fromkeys(("gap_nats", "kl_nats"), ("readings", "reading integers", "reading decimals"))
ON_SMOLLM2 = {"gap_nats": "entropy_nats", "distance": "expected_digit_error"}


def parameters() -> dict[str, links.Parameter]:
    """The rows that a link opens; none where there is no ledger."""
    try:
        return {_key_of(claim): links.flag() for claim in cache_results.read_claims()}
    except InputError:
        return {}


def _key_of(claim: Claim) -> str:
    return f"claim-{claim.number}"


def show_claims() -> None:
    """The ledger; a figure is drawn when its row is opened."""
    try:
        claims = cache_results.read_claims()
    except InputError as error:
        parts.show_problem("There is no ledger of claims.", error)
        return
    counts = [(verdict, sum(claim.verdict == verdict for claim in claims)) for verdict in ICONS]
    st.caption(
        "The paper's claims, judged by rules from stored numbers. "
        + " · ".join(f"{ICONS[verdict]} {verdict}: {count}" for verdict, count in counts if count)
    )
    for claim in claims:
        show_claim(claim)


def show_claim(claim: Claim) -> None:
    """One row."""
    label = f"{claim.number} · {parts.escape_markdown(claim.claim)} · **{claim.verdict}**"
    row = st.expander(label, key=_key_of(claim), icon=ICONS.get(claim.verdict), on_change="rerun")
    if not row.open:
        return
    with row:
        st.markdown("**Tested with**")
        st.text(claim.test)
        st.markdown("**Found**")
        comparisons, _, budget = claim.result.partition(" [")
        st.text(comparisons.replace("; ", "\n"))
        st.text(budget.removesuffix("]"))
        st.text(f"More in notebooks/{claim.link}")
        try:
            show_finding(claim.figure, f"figure-{claim.number}")
        except InputError as error:
            st.info("There is no figure yet.", icon=":material/hourglass_empty:")
            st.text(str(error))


def show_finding(name: str, key: str) -> None:
    """The figure of a claim.

    Args:
        name: "places", "criteria", "embeddings:similarity", or a fine-tuning study and a measure of its rows.
        key: of the figure.

    Raises:
        InputError: the study has not been run, or holds no such measure.
    """
    study, _, measure = name.partition(":")
    if study == "places":
        _show(plots.plot_place_weights(cache_results.weigh_places()), key, "Place weight of each digit, by rule")
    elif study == "criteria":
        _show(plots.plot_criteria(cache_results.fit_criteria()), key, "Share of each gradient left over")
    elif study == "embeddings":
        show_order(cache_results.read_study(study), key)
    else:
        show_variants(cache_results.read_study(study), measure, key)


def _show(figure: Any, key: str, alt: str) -> None:
    parts.show_figure(plots.untitled(figure), key, alt)


def show_order(study: Mapping[str, Any], key: str) -> None:
    """The rank correlation along the layers of the first model of the study."""
    rows = [row for row in study["rows"] if row["model"] == study["rows"][0]["model"]]
    states = {
        context: [read_similarity(row, study["permutations"]) for row in rows if row["context"] == context]
        for context in ("number", "symbol")
    }
    _show(plots.plot_layers(states), key, "Rank correlation of similarity with numeric nearness along the layers")
    st.page_link("views/embeddings.py", label="All models and vectors", icon=":material/scatter_plot:")


def show_variants(study: Mapping[str, Any], measure: str, key: str) -> None:
    """A measure of every variant of a fine-tuning study, and beside it what SmolLM2 says."""
    groups = GROUPS.get(measure, SOLVED)
    alt = f"{plots.measure_title(measure)} of every variant with 95 % intervals over seeds, by group of digits"
    build = lambda columns: plots.plot_variants(study, measure, groups, columns=columns)  # noqa: E731
    parts.show_panels(build, key, alt, columns=(len(groups), 1))
    goals = " Upright strokes: where the equilibrium of the loss lies." if measure == "gap_nats" else ""
    settings = study["settings"]
    st.caption(
        f"Means over seeds with 95 % intervals (none where n = 1); {settings['steps']} steps of "
        f"{settings['batch_size']} samples. Hollow: another strength or option than the default.{goals}"
    )
    if study.get("study") == "losses" and measure in ON_SMOLLM2:
        show_smollm2(ON_SMOLLM2[measure], key)


def show_smollm2(measure: str, key: str) -> None:
    """Paired differences to plain likelihood on a real model."""
    study = cache_results.read_study("smollm2")
    changes = {
        name: Interval(**facts[measure]["difference_to_mle"])
        for name, facts in study["digits"].items()
        if facts[measure].get("difference_to_mle") and name != "base"
    }
    what = plots.measure_title(measure)
    figure = plots.plot_intervals(changes, title="", x_title=f"{what}, less MLE's", what="answers")
    st.markdown(f"**SmolLM2-135M on GSM8K**, default strength: {parts.escape_markdown(what)} less that of MLE")
    _show(figure, f"{key}-smollm2", f"{what} of each loss on SmolLM2 less that of MLE")
    st.caption(study["limits"])

"""Embeddings: do the ten digits lie in the order of their numbers?"""

from typing import Any

import cache
import cache_results
import links
import parts
import streamlit as st

from delcore import plots
from delcore.analysis import DigitSimilarity, project_pca, read_similarity
from delcore.analysis.outcomes import TSNE_CAVEATS
from delcore.analysis.similarity import CHANCE_OF_A_NEIGHBOUR
from delcore.errors import InputError
from delcore.workshop import is_workshop

VECTORS = {
    "input embedding": ("input", ""),
    "output embedding": ("output", ""),
    "state in numbers": ("contextual", "number"),
    "state in symbols": ("contextual", "symbol"),
}
MAPS = ("Principal components", "t-SNE")
ANOTHER = "another model …"
PAIR_HEIGHT, CONTROLS_HEIGHT = 400, 88  # pixels; both maps take the same room, so nothing below them jumps
COLUMNS = {
    "title": ("model", None, "whose vectors"),
    "spearman": (
        "rank correlation",
        "%.3f",
        "Spearman's over 45 pairs of the cosine with −|i − j|; 1 is numeric order",
    ),
    "p_value": ("p", "%.4f", "one-sided: share of relabelled digits that reach it"),
    "neighbour_share": ("nearest differs by 1", "percent", "share of the ten digits; 20 % by chance"),
    "revision": ("revision", None, "of the weights that were measured"),
}


def show_page() -> None:
    """A stored result at once; no choice but a model that the user names needs more than the stored cosines."""
    st.header("Do digits lie in the order of their numbers?", anchor=False)
    try:
        study = cache_results.read_embeddings()
    except InputError as error:
        parts.show_problem("There are no stored results.", error)
        return
    parameters = _parameters(study)
    links.restore("embeddings", parameters)
    try:
        show_rows(pick_rows(study), study)
    except (InputError, OSError, RuntimeError) as error:
        parts.show_problem("These embeddings cannot be shown.", error)
    links.publish("embeddings", parameters)


def _parameters(study: dict[str, Any]) -> dict[str, links.Parameter]:
    return {
        "whose": links.choice(_options(study)),
        "vectors": links.choice(list(VECTORS)),
        "map": links.choice(MAPS),
        "perplexity": links.number(1.0, 9.9, 3.0),
        "seed": links.whole(0, 9999, 0),
    }


def _options(study: dict[str, Any]) -> list[str]:
    return [*_models(study), *([] if is_workshop() else [ANOTHER])]


def _models(study: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(row["model"] for row in study["rows"]))


# ---------------------------------------------------------------- what is looked at


def pick_rows(study: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of one model: stored, or measured now where a user may name one."""
    name = st.selectbox("Model", _options(study), key="whose", format_func=_title_of, width=360)
    if name != ANOTHER:
        return [row for row in study["rows"] if row["model"] == name]
    with st.form("ask_embeddings", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        asked = st.text_input("A folder, a .gguf file or a hub id", key="embeddings_of").strip()
        st.form_submit_button("Measure", type="primary")
    if not asked:
        raise InputError("Name a model to measure, or pick one of the stored ones.")
    return cache.measure_embeddings(asked)


def _title_of(model: str) -> str:
    """How figures write `embedded:del`; other names as they are, for options are plain text."""
    family, _, name = model.partition(":")
    return f"Embedded: {plots.TITLES[name]}" if family == "embedded" and name in plots.TITLES else model


def show_rows(rows: list[dict[str, Any]], study: dict[str, Any]) -> None:
    """All that is told of one model."""
    headlines = {(row["kind"], row["context"]): row for row in rows if row["headline"]}
    options = [title for title, key in VECTORS.items() if key in headlines]
    if st.session_state.vectors not in options:
        st.session_state.vectors = options[0]
    chosen = st.segmented_control("Vectors", options, key="vectors", required=True, format_func=str.capitalize)
    row = headlines[VECTORS[chosen]]
    found = read_similarity(row, study["permutations"])
    show_statistic(found)
    with st.container(key="pair", horizontal=True):
        show_similarity(found)
        show_map(found, row)
    show_layers(rows, study["permutations"])
    show_models(study, row)


# ---------------------------------------------------------------- figures


def show_statistic(found: DigitSimilarity) -> None:
    """The rank statistic, which needs no projection."""
    with st.container(horizontal=True):
        st.metric("Rank correlation with −|i − j|", f"{found.spearman:.2f}", help="Spearman's, over the 45 pairs")
        st.metric("p, one-sided", f"{found.p_value:.2g}", help=f"{found.permutations:,} relabellings of the ten digits")
        st.metric(
            f"Nearest digit differs by 1 (by chance {CHANCE_OF_A_NEIGHBOUR:.0%})",
            f"{found.neighbour_share:.0%}",
            help="share of the ten digits",
        )
    told = ", ".join(f"{digit}→{nearest}" for digit, nearest in enumerate(found.nearest.tolist()))
    tied = " Input and output embedding are the same weights." if found.embeddings.tied else ""
    st.caption(f"Nearest digit of each: {told}.{_about(found)}{tied}")


def _about(found: DigitSimilarity) -> str:
    vectors = found.embeddings
    if vectors.kind != "contextual":
        return ""
    return f" Last layer ({vectors.layer}); each state is a mean over {vectors.contexts} {vectors.context} contexts."


def show_similarity(found: DigitSimilarity) -> None:
    """The heat map."""
    with st.container(key="similarity"):
        st.markdown("**Cosine similarity** of each two digits; yellow is more alike")
        alt = f"Cosine similarity of the ten digits, {found.embeddings.title}. Rank correlation {found.spearman:.2f}."
        parts.show_figure(plots.untitled(plots.plot_similarity(found, scale=False), PAIR_HEIGHT), "heat", alt)


def show_map(found: DigitSimilarity, row: dict[str, Any]) -> None:
    """Principal components or t-SNE."""
    with st.container(key="map_of_digits"):
        way = st.segmented_control("Map", MAPS, key="map", required=True, label_visibility="collapsed")
        if way == "t-SNE":
            show_tsne(row)
            return
        pca = project_pca(found.embeddings)
        alt = f"The ten digits on two principal components, which hold {sum(pca.explained):.0%} of the variance."
        parts.show_figure(plots.untitled(plots.plot_pca(pca), PAIR_HEIGHT), "pca", alt)
        st.caption("Two of nine dimensions, of vectors scaled to length 1: the shares stand on the axes.")


def show_tsne(row: dict[str, Any]) -> None:
    """One t-SNE with its two controls and what it cannot show."""
    with st.container(horizontal=True):
        perplexity = st.slider("Perplexity (1 ≤ p < 10)", 1.0, 9.9, step=0.1, key="perplexity")
        seed = st.number_input("Seed", 0, 9999, key="seed")
    found = cache_results.project_tsne(tuple(map(tuple, row["similarity"])), perplexity, seed)
    kept = found.kept_neighbours[0, 0]
    alt = f"t-SNE of the ten digits, perplexity {perplexity:g}, seed {seed}; {kept:.0%} of the nearest digits are kept."
    parts.show_figure(plots.untitled(plots.plot_tsne(found), PAIR_HEIGHT - CONTROLS_HEIGHT), "tsne", alt)
    st.caption(" ".join(TSNE_CAVEATS))


def show_layers(rows: list[dict[str, Any]], permutations: int) -> None:
    """The statistic along the layers, in both kinds of context."""
    states = {
        context: [read_similarity(row, permutations) for row in rows if row["context"] == context]
        for context in ("number", "symbol")
    }
    st.markdown("**Along the layers**, at the digit's own position")
    parts.show_figure(plots.untitled(plots.plot_layers(states)), "layers", "Rank correlation of the digits by layer")
    st.caption("Filled: p < 0.05, not corrected for looking at many layers. Layer 0 is the input embedding.")


def show_models(study: dict[str, Any], chosen: dict[str, Any]) -> None:
    """The same vectors of every stored model."""
    same = [row for row in study["rows"] if row["headline"] and _kind(row) == _kind(chosen)]
    if not same:
        return
    st.markdown("**The same vectors of every stored model**")
    rows = [row | {"title": _title_of(row["model"]), "neighbour_share": row["neighbour_share"]} for row in same]
    alt = "Rank correlation, p and nearest neighbours of each stored model"
    parts.show_table(rows, COLUMNS, alt, saved="delcore-embeddings")
    st.caption(
        f"Made with `{study['command']}`. Embedded models read contexts of the generator that they were trained on; "
        "SmolLM2 reads contexts written for it."
    )


def _kind(row: dict[str, Any]) -> tuple[str, str]:
    return row["kind"], row["context"]


show_page()

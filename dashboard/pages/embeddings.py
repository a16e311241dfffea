"""Embeddings: do the ten digits lie in the order of their numbers?"""

from typing import Any

import cache
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
    ("input", ""): "Input embedding",
    ("output", ""): "Output embedding",
    ("contextual", "number"): "State in numbers",
    ("contextual", "symbol"): "State in symbols",
}
MAPS = ("Principal components", "t-SNE")
PERPLEXITY = 3.0
ANOTHER = "another model …"
PARAMETERS = {
    "embedding_vectors": links.choice(list(VECTORS.values())),
    "embedding_map": links.choice(MAPS),
    "perplexity": links.number(1.0, 9.9, PERPLEXITY),
    "tsne_seed": links.whole(0, 9999, 0),
}
COLUMNS = {
    "title": ("model", None, "whose vectors"),
    "spearman": ("rank correlation", "%.3f", "Spearman, over 45 pairs, of the cosine with −|i − j|; 1 is numeric order"),
    "p_value": ("p, one-sided", "%.4f", "share of relabelled digits that reach it"),
    "neighbour_share": ("nearest differs by 1", "%.1f", "share of ten digits; 0.2 by chance"),
}


def show_page() -> None:
    """A stored result at once; every choice below needs no model, but for one that the user names."""
    links.restore("embeddings", PARAMETERS)
    st.header("Do digits lie in the order of their numbers?", anchor=False)
    try:
        study = cache.stored_embeddings()
        rows, name = pick_model(study)
        shown = [row for row in rows if row["headline"]]
        row = pick_vectors(shown)
        show_vectors(read_similarity(row, study["permutations"]), row)
        show_layers(rows, study["permutations"])
        show_models(study, row)
    except InputError as error:
        parts.show_problem("These embeddings cannot be shown.", error)
    links.publish("embeddings", PARAMETERS)


def pick_model(study: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """The rows of a model: stored ones, or measured now where the user may name one."""
    stored = list(dict.fromkeys(row["model"] for row in study["rows"]))
    options = stored if is_workshop() else [*stored, ANOTHER]
    name = st.selectbox("Model", options, key="embedding_model", format_func=_title_of)
    if name != ANOTHER:
        return [row for row in study["rows"] if row["model"] == name], name
    with st.form("ask_embeddings", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input("A folder, a .gguf file or a hub id", key="embedding_other")
        st.form_submit_button("Measure", type="primary")
    asked = st.session_state.embedding_other.strip()
    if not asked:
        raise InputError("Name a model: a folder, a .gguf file or a hub id.")
    return cache.measure_embeddings(asked), asked

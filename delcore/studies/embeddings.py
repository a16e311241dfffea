"""Do learned digits lie in the order of their numbers? Two models, input embeddings and contextual states.

    python -m delcore.studies embeddings --model SmolLM2-135M-Instruct.gguf --out notebooks/studies

SmolLM2 reads contexts written for it; the embedded base and its fine-tuned copies read contexts of the generator they
were trained on. Number and symbol contexts are kept apart. The headline of contextual states is the last layer; all
layers are in the file, and looking for the best of them would need a correction.
"""

import argparse
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from delcore.analysis.embeddings import CONTEXTS, generated_contexts, load_table, read_states
from delcore.analysis.outcomes import DigitSimilarity
from delcore.analysis.results import measuring_versions
from delcore.analysis.similarity import CHANCE_OF_A_NEIGHBOUR, PERMUTATIONS, measure_similarity
from delcore.checkpoints import write_json
from delcore.models import EMBEDDED_NAMES, LoadedModel, load_model
from delcore.studies.variants import rounded

logger = logging.getLogger("delcore.studies")

CONTEXT_SEED = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its part of the command line."""
    parser.add_argument("--model", action="append", default=[], help="a .gguf file, folder or hub id; may be repeated")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--permutations", type=int, default=PERMUTATIONS, help="relabellings of each test")
    parser.add_argument("--embedded", nargs="*", default=list(EMBEDDED_NAMES), help="members of the embedded family")
    parser.set_defaults(run=run_embeddings)


def run_embeddings(arguments: argparse.Namespace) -> None:
    """Measure all models and write `embeddings/results.json`."""
    started = time.perf_counter()
    rows: list[dict[str, Any]] = []
    for name in [*arguments.model, *(f"embedded:{member}" for member in arguments.embedded)]:
        loaded = load_model(name)
        rows += measure_order(loaded, generated=name.startswith("embedded"), permutations=arguments.permutations)
        logger.info("measured %s", loaded.card.name)
    models = "".join(f" --model {Path(name).name}" for name in arguments.model)
    result = {
        "study": "embeddings",
        "command": f"python -m delcore.studies embeddings{models} --out notebooks/studies",
        "versions": measuring_versions(),
        "seconds": time.perf_counter() - started,
        "permutations": arguments.permutations,
        "neighbour_share_by_chance": CHANCE_OF_A_NEIGHBOUR,
        "rows": rows,
    }
    write_json(arguments.out / "embeddings" / "results.json", rounded(result))


def measure_order(loaded: LoadedModel, *, generated: bool, permutations: int = PERMUTATIONS) -> list[dict[str, Any]]:
    """Input and output embedding, and every layer in both kinds of context, as flat rows; matrices of the headlines."""
    found = [load_table(loaded, "input")]
    found += [] if found[0].tied else [load_table(loaded, "output")]
    last = loaded.model.config.num_hidden_layers
    for context in CONTEXTS:
        prefixes = generated_contexts(context, seed=CONTEXT_SEED) if generated else None
        found += read_states(loaded, context, prefixes, seed=CONTEXT_SEED if generated else None)
    results = (measure_similarity(one, permutations=permutations) for one in found)
    return [as_row(one, full=one.embeddings.layer in (None, last)) for one in results]


def as_row(result: DigitSimilarity, *, full: bool) -> dict[str, Any]:
    """A result as JSON holds it; `full` adds the matrix and marks a headline."""
    embeddings = result.embeddings
    row: dict[str, Any] = {
        "model": embeddings.provenance.model,
        "revision": embeddings.provenance.revision,
        "kind": embeddings.kind,
        "context": embeddings.context,
        "layer": embeddings.layer,
        "tied": embeddings.tied,
        "contexts": embeddings.contexts,
        "contexts_sha256": embeddings.provenance.data_sha256,
        "headline": full,
        "spearman": result.spearman,
        "p_value": result.p_value,
        "nearest": result.nearest.tolist(),
        "neighbour_share": result.neighbour_share,
    }
    return row | ({"similarity": _rows(result)} if full else {})


def _rows(result: DigitSimilarity) -> list[Sequence[float]]:
    return [[float(f"{value:.4g}") for value in row] for row in result.matrix]

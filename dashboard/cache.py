"""Everything the dashboard keeps between runs. Plain values in, plain data out, all of it bounded.

Models are loaded once per server and never leave this module. Results are keyed by the models' revision, the
prompt and the settings, so no visitor meets another's prompt. torch is imported by the first function that needs it.
"""

import json
import os
import threading
from pathlib import Path
from typing import Any

import streamlit as st

from delcore import run_logs
from delcore.errors import InputError
from delcore.models import EMBEDDED_DIR, EMBEDDED_NAMES
from delcore.studies import stored
from delcore.studies.stored import studies_folder
from delcore.workshop import refuse_in_workshop

OPENING_FILE = EMBEDDED_DIR / "opening.json"
_models = threading.RLock()
"""Held while the family is loaded or a model asked: two visitors at once load one copy, and their prompts queue."""

_others = threading.RLock()
"""Held while another model is loaded."""


def opening_record() -> dict[str, Any]:
    """The saved record that the dashboard opens with."""
    return _read_record(str(OPENING_FILE), _stamp(OPENING_FILE))


@st.cache_data(max_entries=2, show_spinner=False)
def _read_record(file: str, stamp: str) -> dict[str, Any]:
    return json.loads(Path(file).read_text(encoding="utf-8"))


# ---------------------------------------------------------------- models


def probe_family(prompt: str, continuation: str = "") -> dict[str, Any]:
    """The record of the embedded family for a prompt and what follows it, as `delcore.probe.probe` gives it."""
    if not continuation and prompt == opening_record()["prompt"]:
        return opening_record()
    return _probe_family(prompt, continuation, _family_revision())


@st.cache_data(max_entries=128, show_spinner="Asking the eight models; the first prompt also loads them …")
def _probe_family(prompt: str, continuation: str, revision: str) -> dict[str, Any]:
    from delcore.probe import probe

    with _models:
        return probe(prompt, _load_family(revision), all_positions=True, continuation=continuation)


def write_on(prompt: str, writer: str) -> str:
    """What a model writes after a prompt: a member of the family, or another model by its name."""
    if writer not in EMBEDDED_NAMES:
        refuse_in_workshop("Other models")
    return _write_on(prompt, writer, _revision_of(writer))


@st.cache_data(max_entries=128, show_spinner="The model writes on …")
def _write_on(prompt: str, writer: str, revision: str) -> str:
    from delcore.probe import continue_greedily

    other = None if writer in EMBEDDED_NAMES else _load_other(writer, revision)
    with _models:
        chosen = other or _load_family(revision)[writer]
        return continue_greedily(chosen.model, chosen.tokenizer, prompt)


def _revision_of(name: str) -> str:
    return _family_revision() if name in EMBEDDED_NAMES else _stamp(Path(os.path.expanduser(name)))


@st.cache_resource(max_entries=1, show_spinner=False)
def _load_family(revision: str) -> dict[str, Any]:
    from delcore.models import load_model, quiet_libraries

    quiet_libraries()
    with _models:
        return {name: load_model(f"embedded:{name}") for name in EMBEDDED_NAMES}


def load_ahead() -> None:
    """Load the family before the first visitor comes, and ask it once, which takes longer than any later time."""
    _probe_family("1 + 1 = ", "", _family_revision())


def probe_other(name: str, text: str) -> dict[str, Any]:
    """What one more model, by folder, .gguf file or hub id, says of the token after a text; never in a workshop."""
    refuse_in_workshop("Other models")
    return _probe_other(name, text, _revision_of(name))


@st.cache_data(max_entries=128, show_spinner="Asking the other model; a .gguf file is converted once …")
def _probe_other(name: str, text: str, revision: str) -> dict[str, Any]:
    from delcore.probe import probe

    other = _load_other(name, revision)  # may take half a minute, in which the family still answers
    with _models:
        return probe(text, {"other": other})["positions"][-1]["models"]["other"]


def short_name(name: str) -> str:
    """The last part of a path, and the one before it of a folder, which may be called like a loss; a hub id as is."""
    path = Path(os.path.expanduser(name))
    return "/".join(path.parts[-2:] if path.is_dir() else path.parts[-1:]) if _stamp(path) else name


def known_adapters() -> list[str]:
    """Folders of the SmolLM2 adapters that lie beside the notebooks; none in an installed package."""
    found = studies_folder() / "smollm2"
    return [str(file.parent) for file in sorted(found.glob("*/adapter_config.json"))]


def read_numbers(name: str, text: str) -> Any:
    """A `delcore.analysis.NumberReading` of a text under a model's tokenizer; "embedded" is the family's."""
    if name != "embedded":
        refuse_in_workshop("Other tokenizers")
    return _read_numbers(name, text, "" if name == "embedded" else _revision_of(name))


@st.cache_data(max_entries=128, show_spinner="Reading the numbers; another model's tokenizer is loaded once …")
def _read_numbers(name: str, text: str, revision: str) -> Any:
    from delcore.analysis import read_numbers

    return read_numbers(_load_tokenizer(name, revision), text)


@st.cache_resource(max_entries=4, show_spinner=False)
def _load_tokenizer(name: str, revision: str) -> Any:
    from delcore.models import load_tokenizer, quiet_libraries

    quiet_libraries()
    return load_tokenizer(name)


@st.cache_resource(max_entries=3, show_spinner=False)
def _load_other(name: str, revision: str) -> Any:
    from delcore.models import load_model, quiet_libraries

    quiet_libraries()
    with _others:
        return load_model(name)


def _family_revision() -> str:
    return " ".join(_stamp(EMBEDDED_DIR / f"{name}.safetensors") for name in EMBEDDED_NAMES)


def _stamp(path: Path) -> str:
    """Changes when a file, or a file of a folder, is replaced; "" for what is not on disk."""
    try:
        files = [path] if path.is_file() else sorted(path.glob("*")) if path.is_dir() else []
        return ",".join(f"{file.stat().st_size}@{file.stat().st_mtime_ns}" for file in files)
    except OSError:  # a name too long for a path, a folder that may not be read
        return ""


# ---------------------------------------------------------------- embeddings


def measure_embeddings(name: str) -> list[dict[str, Any]]:
    """Rows of a model that the user names, as `delcore.studies.embeddings` writes them; never in a workshop."""
    refuse_in_workshop("Other models")
    return _measure_embeddings(name, _stamp(Path(os.path.expanduser(name))))


@st.cache_data(max_entries=16, show_spinner="Reading the embeddings; a .gguf file is converted once …")
def _measure_embeddings(name: str, revision: str) -> list[dict[str, Any]]:
    from delcore.studies.embeddings import measure_order

    other = _load_other(name, revision)
    with _models:
        return measure_order(other, generated=other.card.source == "embedded")


@st.cache_data(max_entries=256, show_spinner=False)
def project_tsne(cosines: tuple[tuple[float, ...], ...], perplexity: float, seed: int) -> Any:
    """t-SNE of ten directions with these cosines; see `delcore.analysis.project_tsne`."""
    from delcore import analysis

    row = {"kind": "", "context": "", "layer": None, "tied": False, "contexts": 0}
    vectors = analysis.DigitEmbeddings(analysis.directions_of(cosines), provenance=analysis.Provenance(), **row)
    return analysis.project_tsne(vectors, perplexities=(perplexity,), seeds=(seed,))


# ---------------------------------------------------------------- studies


def read_study(name: str) -> dict[str, Any]:
    """The stored results of a study; see `delcore.studies.stored`."""
    return _read_study(name, _stamp(studies_folder() / name))


@st.cache_data(max_entries=8, show_spinner=False)
def _read_study(name: str, stamp: str) -> dict[str, Any]:
    return stored.read_study(name)


def read_claims() -> list[stored.Claim]:
    """The ledger of claims; see `delcore.studies.stored`."""
    return _read_claims(_stamp(studies_folder() / stored.CLAIMS_FILE))


@st.cache_data(max_entries=2, show_spinner=False)
def _read_claims(stamp: str) -> list[stored.Claim]:
    return stored.read_claims()


@st.cache_resource(show_spinner="Weighing the places …")
def weigh_places() -> Any:
    """The place weights of one number under every rule."""
    from delcore.analysis import measure_place_weights

    return measure_place_weights()


@st.cache_resource(show_spinner="Fitting criteria and distances …")
def fit_criteria() -> Any:
    """How well criterion × distance explains each loss."""
    from delcore import analysis

    with _models:  # once, also for two visitors
        return analysis.fit_criteria()


# ---------------------------------------------------------------- runs in a folder of the user's


def read_logs(folder: str) -> Any:
    """The logs of training runs in a folder, and the table of their sweep or None; never in a workshop.

    Returns:
        A list of `delcore.run_logs.RunLog`, and a list of `delcore.sweep.Row`.
    """
    refuse_in_workshop("Folders")
    path = _folder(folder)
    return _read_logs(str(path), _stamp_below(path, run_logs.METRICS, run_logs.HELDOUT, "table.json"))


def stored_logs() -> list[run_logs.RunLog]:
    """The logs of the SmolLM2 study, which lie beside its results.

    Raises:
        InputError: this installation has none.
    """
    path = studies_folder() / "smollm2"
    logs, _ = _read_logs(str(path), _stamp_below(path, run_logs.METRICS))
    return logs


@st.cache_resource(max_entries=4, show_spinner="Reading the logs …")
def _read_logs(folder: str, stamp: str) -> Any:
    path = Path(folder)
    logs = run_logs.read_logs(path)
    if not (path / "table.json").is_file():
        return logs, None
    from delcore.sweep import read_table

    return logs, read_table(path)


def read_evaluations(folder: str) -> Any:
    """The runs of `delcore evaluate` in a folder, and a line for each that cannot be read; never in a workshop.

    Returns:
        A list of `delcore.benchmarks.saved_runs.EvaluationRun`, and a list of texts.
    """
    refuse_in_workshop("Folders")
    path = _folder(folder)
    return _read_evaluations(str(path), _stamp_below(path, "evaluation.json", "records.jsonl"))


@st.cache_resource(max_entries=2, show_spinner="Reading the answers …")
def _read_evaluations(folder: str, stamp: str) -> Any:
    from delcore.benchmarks.records import find_runs
    from delcore.benchmarks.saved_runs import read_run

    runs, problems = [], []
    for path in find_runs(Path(folder)):
        try:
            runs.append(read_run(path))
        except InputError as error:
            problems.append(str(error))
    return runs, problems


def _folder(name: str) -> Path:
    """The folder that a user names.

    Raises:
        InputError: there is none.
    """
    try:
        path = Path(name).expanduser()
        if path.is_dir():
            return path
    except (OSError, RuntimeError, ValueError):  # too long, an unknown ~user, a NUL
        pass
    raise InputError(f"There is no folder {name[:200]!r} on this machine.")


def _stamp_below(path: Path, *names: str) -> str:
    """Changes when a file of one of these names, in a folder or in one right below it, is written or replaced."""
    return " ".join(f"{file}:{_stamp(file)}" for name in names for at in (name, f"*/{name}") for file in path.glob(at))

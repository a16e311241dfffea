"""Everything the dashboard keeps between runs. Plain values in, plain data out, all of it bounded.

Models are loaded once per server and never leave this module. Results are keyed by the models' revision, the
prompt and the settings, so no visitor meets another's prompt. torch is imported by the first function that needs it.
"""

import json
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict
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


def probe_family(prompt: str, continued_by: str | None = None) -> dict[str, Any]:
    """The record of the embedded family for a prompt, with the text that `continued_by` writes after it.

    Returns:
        {"record": as `delcore.probe.probe`, "continuation": "" or text}.
    """
    if continued_by is None and prompt == opening_record()["prompt"]:
        return {"record": opening_record(), "continuation": ""}
    return _probe_family(prompt, continued_by, _family_revision())


@st.cache_data(max_entries=128, show_spinner="Asking the eight models; the first prompt also loads them …")
def _probe_family(prompt: str, continued_by: str | None, revision: str) -> dict[str, Any]:
    from delcore.probe import continue_greedily, probe

    with _models:
        models = _load_family(revision)
        continuation = ""
        if continued_by is not None:
            writer = models[continued_by]
            continuation = continue_greedily(writer.model, writer.tokenizer, prompt)
        record = probe(prompt, models, all_positions=True, continuation=continuation)
    return {"record": record, "continuation": continuation}


@st.cache_resource(max_entries=1, show_spinner=False)
def _load_family(revision: str) -> dict[str, Any]:
    from delcore.models import load_model, quiet_libraries

    quiet_libraries()
    with _models:
        return {name: load_model(f"embedded:{name}") for name in EMBEDDED_NAMES}


def load_ahead() -> None:
    """Load the family before the first visitor comes, and ask it once, which takes longer than any later time."""
    _probe_family("1 + 1 = ", None, _family_revision())


def probe_other(name: str, text: str) -> dict[str, Any]:
    """The next-token record of one more model, by folder, .gguf file or hub id; never in a workshop."""
    refuse_in_workshop("Other models")
    return _probe_other(name, text, _stamp(Path(os.path.expanduser(name))))


@st.cache_data(max_entries=128, show_spinner="Asking the other model; a .gguf file is converted once …")
def _probe_other(name: str, text: str, revision: str) -> dict[str, Any]:
    from delcore.probe import probe

    other = _load_other(name, revision)  # may take half a minute, in which the family still answers
    with _models:
        return probe(text, {_shown(name): other})


def _shown(name: str) -> str:
    """The last part of a path; a hub id as it is."""
    return Path(name).name if _stamp(Path(os.path.expanduser(name))) else name


@st.cache_resource(max_entries=2, show_spinner=False)
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


# ---------------------------------------------------------------- the loss lab


def measure_losses(
    law: tuple[float, ...],
    predicted: tuple[float, ...],
    true_digit: int | tuple[float, ...],
    settings: Mapping[str, Mapping[str, Any]],
    digit_mass: float,
) -> list[dict[str, Any]]:
    """Value, gradient and equilibrium of each loss of `settings`, which maps it to its α, u and options."""
    return [
        _measure_loss(name, law, predicted, true_digit, tuple(sorted(chosen.items())), digit_mass)
        for name, chosen in settings.items()
    ]


@st.cache_data(max_entries=1024, show_spinner=False)
def _measure_loss(
    name: str,
    law: tuple[float, ...],
    predicted: tuple[float, ...],
    true_digit: int | tuple[float, ...],
    settings: tuple[tuple[str, Any], ...],
    digit_mass: float,
) -> dict[str, Any]:
    from delcore.analysis import measure_loss_at

    here = measure_loss_at(name, predicted, true_digit, digit_mass=digit_mass, **dict(settings))
    return asdict(here) | {"equilibrium": _find_equilibrium(name, law, settings)}


@st.cache_data(max_entries=1024, show_spinner=False)
def _find_equilibrium(name: str, law: tuple[float, ...], settings: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    from delcore.equilibria import equilibrium

    return asdict(equilibrium(name, law, **dict(settings)))

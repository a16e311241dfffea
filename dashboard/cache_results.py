"""What the pages Embeddings and Results keep between runs, like `cache`: plain values in, plain data out, bounded.

Files are keyed by size and time, so what is written or replaced on disk is read again.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st
from cache import stamp_of
from parts import whole_text

from delcore import run_logs
from delcore.errors import InputError
from delcore.studies import stored
from delcore.studies.stored import studies_folder
from delcore.workshop import refuse_in_workshop

_fits = threading.Lock()
"""Held while criteria are fitted, so that two visitors at once fit them once."""


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
    return _read_study(name, stamp_of(studies_folder() / name))


@st.cache_data(max_entries=8, show_spinner=False)
def _read_study(name: str, stamp: str) -> dict[str, Any]:
    return _whole(lambda: stored.read_study(name))


def read_embeddings() -> dict[str, Any]:
    """The stored study of embeddings.

    Raises:
        InputError: it is missing or damaged.
    """
    study = read_study("embeddings")
    rows = study.get("rows") if isinstance(study, dict) else None
    if not isinstance(rows, list) or not rows or not isinstance(study.get("permutations"), int):
        raise InputError("The stored study of embeddings is damaged. Install delcore again.")
    return study


def read_claims() -> list[stored.Claim]:
    """The ledger of claims; see `delcore.studies.stored`."""
    return _read_claims(stamp_of(studies_folder() / stored.CLAIMS_FILE))


@st.cache_data(max_entries=2, show_spinner=False)
def _read_claims(stamp: str) -> list[stored.Claim]:
    return _whole(stored.read_claims)


def _whole(read: Callable[[], Any]) -> Any:
    """What `read` finds; a file that is cut is one sentence, too."""
    try:
        return read()
    except InputError:
        raise
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"A stored file is damaged ({type(error).__name__}). Install delcore again.") from None


@st.cache_resource(show_spinner="Weighing the places …")
def weigh_places() -> Any:
    """The place weights of one number under every rule."""
    from delcore.analysis import measure_place_weights

    return measure_place_weights()


@st.cache_resource(show_spinner="Fitting criteria and distances …")
def fit_criteria() -> Any:
    """How well criterion × distance explains each loss."""
    from delcore import analysis

    with _fits:
        return analysis.fit_criteria()


# ---------------------------------------------------------------- runs in a folder of the user's


def read_logs(folder: str) -> Any:
    """The logs of training runs in a folder, the table of their sweep, and what cannot be read; never in a workshop.

    Returns:
        A list of `delcore.run_logs.RunLog`, a list of `delcore.sweep.Row` or None, and a list of texts.
    """
    refuse_in_workshop("Folders")
    path = _folder(folder)
    return _read_logs(str(path), _stamp_below(path, run_logs.METRICS, run_logs.HELDOUT, run_logs.TABLE))


def stored_logs() -> list[run_logs.RunLog]:
    """The logs of the SmolLM2 study, which lie beside its results; none where they were not installed."""
    path = studies_folder() / "smollm2"
    stamp = _stamp_below(path, run_logs.METRICS)
    logs: list[run_logs.RunLog] = _read_logs(str(path), stamp)[0] if stamp else []
    return logs


@st.cache_resource(max_entries=4, show_spinner="Reading the logs …")
def _read_logs(folder: str, stamp: str) -> Any:
    path = Path(folder)
    logs, problems = run_logs.read_logs(path)
    table = None
    if (path / run_logs.TABLE).is_file():
        from delcore.sweep import read_table

        try:
            table = read_table(path)
        except InputError as error:
            problems.append(str(error))
    return sendable(logs), sendable(table), problems


class Evaluations(NamedTuple):
    """The runs of `delcore evaluate` in a folder.

    Args:
        runs: each a `delcore.benchmarks.saved_runs.EvaluationRun`.
        problems: a line for each that cannot be read.
        stamp: changes when a file of the folder does.
    """

    runs: Sequence[Any]
    problems: Sequence[str]
    stamp: str


def read_evaluations(folder: str) -> Evaluations:
    """What `delcore evaluate` wrote below a folder; never in a workshop."""
    from delcore.benchmarks.saved_runs import HEADER, RECORDS

    refuse_in_workshop("Folders")
    path = _folder(folder)
    stamp = _stamp_below(path, HEADER, RECORDS)  # before they are read, so that what is written meanwhile is read again
    return Evaluations(*_read_evaluations(str(path), stamp), stamp)


@st.cache_resource(max_entries=2, show_spinner="Reading the answers …")
def _read_evaluations(folder: str, stamp: str) -> Any:
    from delcore.benchmarks.records import find_runs
    from delcore.benchmarks.saved_runs import read_run

    runs, problems = [], []
    for path in find_runs(Path(folder)):
        try:
            runs.append(sendable(read_run(path)))
        except InputError as error:
            problems.append(str(error))
    return runs, problems


def compare_evaluations(runs: Sequence[Any], stamp: str) -> Any:
    """Paired differences between finished runs, as `delcore.reports.sections.Section`.

    Args:
        runs: some of those that were read together.
        stamp: of `Evaluations`.

    Raises:
        InputError: runs that were not asked the same in the same way.
    """
    return _compare_evaluations(whole_text(" ".join([stamp, *(str(run.path) for run in runs)])), runs)


@st.cache_resource(max_entries=8, show_spinner="Comparing the models …")
def _compare_evaluations(which: str, _runs: Sequence[Any]) -> Any:
    from delcore.reports.groups import label_models
    from delcore.reports.report import check_runs
    from delcore.reports.sections import comparison_section

    check_runs(_runs)
    return comparison_section(_runs, label_models(_runs))


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
    found = (f"{file}:{stamp_of(file)}" for name in names for at in (name, f"*/{name}") for file in path.glob(at))
    return whole_text(" ".join(found))


def sendable(value: Any) -> Any:
    """What was read from files, with every text in it as `whole_text` makes it: no browser takes half of a pair.

    Paths stay as they are, for they still lead to the files.
    """
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, dict):
        return {sendable(key): sendable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(sendable(one) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: sendable(getattr(value, field.name)) for field in fields(value)})
    return value

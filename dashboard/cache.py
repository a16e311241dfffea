"""What the pages keep of models between runs, and the helpers of `cache_lab` and `cache_results`.

Plain values in, plain data out, all of it bounded.

Models are loaded once per server and never leave this module. Results are keyed by the models' revision, the
prompt and the settings, so no visitor meets another's prompt. torch is imported by the first function that needs it.
"""

import gc
import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import streamlit as st

from delcore.errors import InputError
from delcore.models import EMBEDDED_DIR, EMBEDDED_NAMES
from delcore.studies.stored import studies_folder
from delcore.workshop import is_workshop, refuse_in_workshop

Answer = TypeVar("Answer")
logger = logging.getLogger("delcore.dashboard")

EMBEDDED = ("embedded", *(f"embedded:{member}" for member in EMBEDDED_NAMES))
"""Names of the embedded family, as a user writes them."""

OPENING_FILE = EMBEDDED_DIR / "opening.json"
_models = threading.RLock()
"""Held while the family is loaded or a model asked: two visitors at once load one copy, and their prompts queue."""

_others = threading.RLock()
"""Held while another model or tokenizer is loaded."""


def opening_record() -> dict[str, Any]:
    """The saved record that the dashboard opens with."""
    return _read_record(str(OPENING_FILE), stamp_of(OPENING_FILE))


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
    if writer in EMBEDDED_NAMES:
        return _write_on(prompt, writer, _family_revision())
    refuse_in_workshop("Other models")
    return _asked(writer, lambda: _write_on(prompt, writer, _stamp_of_name(writer)))


@st.cache_data(max_entries=128, show_spinner="The model writes on …")
def _write_on(prompt: str, writer: str, revision: str) -> str:
    from delcore.probe import continue_greedily

    other = None if writer in EMBEDDED_NAMES else _load_other(writer, revision)
    with _models:
        chosen = other or _load_family(revision)[writer]
        return continue_greedily(chosen.model, chosen.tokenizer, prompt)


def _stamp_of_name(name: str) -> str:
    return stamp_of(Path(os.path.expanduser(name)))


def _asked(name: str, ask: Callable[[], Answer]) -> Answer:
    """What another model or tokenizer answers.

    A folder may load whose files do not fit together, and then anything may be raised where it is used.

    Raises:
        InputError: whatever went wrong, in one line.
    """
    try:
        return ask()
    except InputError:
        raise
    except Exception as error:
        logger.warning("%s failed in use", name, exc_info=True)
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        told = f"{name!r:.200} cannot be used ({reason}). Its files may not fit together; save or fetch it again."
        raise InputError(told) from error


@st.cache_resource(max_entries=1, show_spinner=False)
def _load_family(revision: str) -> dict[str, Any]:
    from delcore.models import load_model, quiet_libraries

    quiet_libraries()
    with _models:
        family = {name: load_model(f"embedded:{name}") for name in EMBEDDED_NAMES}
    gc.collect()
    gc.freeze()  # Streamlit collects after every script: let it not go through all of torch and the models again
    return family


def load_ahead() -> None:
    """Load the family before the first visitor comes, and ask it once, which takes longer than any later time."""
    _probe_family("1 + 1 = ", "", _family_revision())


def probe_other(name: str, text: str) -> dict[str, Any]:
    """What one more model, by folder, .gguf file or hub id, says of the token after a text; never in a workshop."""
    refuse_in_workshop("Other models")
    return _asked(name, lambda: _probe_other(name, text, _stamp_of_name(name)))


@st.cache_data(max_entries=128, show_spinner="Asking the other model; a .gguf file is converted once …")
def _probe_other(name: str, text: str, revision: str) -> dict[str, Any]:
    from delcore.probe import probe

    other = _load_other(name, revision)  # may take half a minute, in which the family still answers
    with _models:
        return probe(text, {"other": other})["positions"][-1]["models"]["other"]


def short_name(name: str) -> str:
    """The last part of a path, and the one before it of a folder, which may be called like a loss; a hub id as is."""
    path = Path(os.path.expanduser(name))
    return "/".join(path.parts[-2:] if path.is_dir() else path.parts[-1:]) if stamp_of(path) else name


def known_adapters() -> list[str]:
    """Folders of the SmolLM2 adapters that lie beside the notebooks; none in an installed package."""
    found = studies_folder() / "smollm2"
    return [str(file.parent) for file in sorted(found.glob("*/adapter_config.json"))]


def names_in_links() -> dict[str, str]:
    """What an address may call a model that these pages know, with its name: no path of this machine is told."""
    embedded = {name: name for name in EMBEDDED}
    return embedded if is_workshop() else embedded | {short_name(path): path for path in known_adapters()}


def read_numbers(name: str, text: str) -> Any:
    """A `delcore.analysis.NumberReading` of a text under a model's tokenizer; the family's is open to a workshop."""
    if name in EMBEDDED:
        return _read_numbers(name, text, "")
    refuse_in_workshop("Other tokenizers")
    return _asked(name, lambda: _read_numbers(name, text, _stamp_of_name(name)))


@st.cache_data(max_entries=128, show_spinner="Reading the numbers; another model's tokenizer is loaded once …")
def _read_numbers(name: str, text: str, revision: str) -> Any:
    from delcore.analysis import read_numbers

    return read_numbers(_load_tokenizer(name, revision), text)


@st.cache_resource(max_entries=4, show_spinner=False)
def _load_tokenizer(name: str, revision: str) -> Any:
    from delcore.models import load_tokenizer, quiet_libraries

    if _lies_in_weights(Path(os.path.expanduser(name))):
        return _load_other(name, revision).tokenizer  # takes the lock itself, and keeps the weights that were read
    quiet_libraries()
    with _others:
        return load_tokenizer(name)


def _lies_in_weights(path: Path) -> bool:
    """Whether a tokenizer is to be had with its model only: of a .gguf file, and of a folder without one of its own."""
    return path.suffix == ".gguf" or (path.is_dir() and not (path / "tokenizer_config.json").is_file())


@st.cache_resource(max_entries=3, show_spinner=False)
def _load_other(name: str, revision: str) -> Any:
    from delcore.models import load_model, quiet_libraries

    quiet_libraries()
    with _others:
        return load_model(name)


def _family_revision() -> str:
    return " ".join(stamp_of(EMBEDDED_DIR / f"{name}.safetensors") for name in EMBEDDED_NAMES)


def stamp_of(path: Path) -> str:
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
    return _asked(name, lambda: _measure_embeddings(name, _stamp_of_name(name)))


@st.cache_data(max_entries=16, show_spinner="Reading the embeddings; a .gguf file is converted once …")
def _measure_embeddings(name: str, revision: str) -> list[dict[str, Any]]:
    from delcore.studies.embeddings import measure_order

    other = _load_other(name, revision)
    with _models:
        return measure_order(other, generated=other.card.source == "embedded")

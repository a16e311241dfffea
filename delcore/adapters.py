"""Folders with LoRA adapters: the record of the run that made them, and the base that they belong to."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from delcore._gguf import cached_conversion
from delcore.errors import InputError
from delcore.pretrained import explain_load_error, without_peft_warning

ADAPTER_RECORD = "delcore.json"
"""Holds the record of a run that saves adapters: a config.json beside these would stand for whole weights."""

LoadModel = Callable[[str], tuple[Any, Any, Any]]
"""From a name to model, tokenizer and card."""


def read_record(folder: Path) -> dict[str, Any] | None:
    """How a run was made: "delcore" in its `config.json`, or beside adapters `delcore.json`; None where is no run."""
    for name in (ADAPTER_RECORD, "config.json"):
        try:
            found = json.loads((folder / name).read_text(encoding="utf-8"))
            record: Any = found if name == ADAPTER_RECORD else found["delcore"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if isinstance(record, dict):
            return record
    return None


def load_adapter(path: Path, load_model: LoadModel) -> tuple[Any, Any]:
    """A LoRA adapter merged into the base that its record names, and the base's tokenizer.

    Args:
        path: a folder with adapters.
        load_model: loads the base by its name; it is `delcore.load_model`, which itself calls this function.

    Raises:
        InputError: a broken adapter, or a base that is not known, not there or cannot be loaded.
    """
    try:
        from peft import PeftModel
    except ImportError:
        raise InputError(f"{path} holds LoRA adapters; they need a package more: pip install peft") from None
    base, tokenizer, _ = _load_base(path, load_model)
    try:
        with without_peft_warning():
            adapted: Any = PeftModel.from_pretrained(base, str(path))
    except Exception as error:  # as for a model: a broken file raises whatever its parser does
        raise InputError(explain_load_error(str(path), error)) from error
    return adapted.merge_and_unload().eval(), tokenizer


def _load_base(path: Path, load_model: LoadModel) -> tuple[Any, Any, Any]:
    """The model that adapters belong to."""
    file = path / (ADAPTER_RECORD if read_record(path) else "adapter_config.json")
    try:
        name = _base_of(path)
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file} does not say which model its adapters belong to ({error!r:.80}).") from error
    try:
        return load_model(name)
    except InputError as error:
        if Path(name).is_absolute() and not Path(name).exists():
            entry = "model_path" if file.name == ADAPTER_RECORD else "base_model_name_or_path"
            raise InputError(
                f"{path} holds adapters of the model in {name}, which is no longer there. Move it back, or write its "
                f"new place as `{entry}` in {file}."
            ) from error
        raise InputError(f"{path} holds adapters, and their base cannot be loaded: {error}") from error


def _base_of(path: Path) -> str:
    """Name of the model that adapters belong to; a converted .gguf file is found by its content, wherever it lay."""
    adapter = json.loads((path / "adapter_config.json").read_text(encoding="utf-8"))
    record = read_record(path)
    if not record:
        return str(adapter["base_model_name_or_path"])
    name = str(record.get("model_path") or record["settings"]["model"])
    if record["model_source"] != "gguf":
        return name
    converted = cached_conversion(str(record["model_revision"]))
    if converted.is_dir():
        return str(converted)
    if Path(name).is_file():
        return name
    raise InputError(
        f"{path} holds adapters of {record['model']}, which was never loaded on this machine. "
        "Load its .gguf file once, as with `delcore probe 1 --model FILE.gguf`, then try again."
    )

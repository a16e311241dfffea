"""Checkpoints that are whole or not there, and the way back to the newest whole one.

A checkpoint is written into a folder of another name, its marker last, and then renamed; so a process that is killed
at any moment leaves the older ones as they were. The marker names each file with its size: a copy that was cut is
told apart by it.
"""

import glob
import json
import os
import platform
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from delcore.errors import InputError

MARKER = "complete.json"
STATE = "state.pt"
WRITING = ".writing-"
"""How the names of files and folders begin that are not whole yet. What a killed process leaves counts for nothing, and
goes when the same is written again."""

KEPT = 2
"""Newest checkpoints that are kept; the older one stands in if the newer is damaged."""


def save_checkpoint(folder: Path, step: int, state: Mapping[str, Any]) -> Path:
    """Write one checkpoint, and drop those that are too old.

    Args:
        folder: where a run keeps its checkpoints.
        step: optimiser steps done.
        state: tensors, numbers and text; read again with `weights_only=True`.

    Raises:
        InputError: the disk is too small (by how many bytes) or cannot be written; older checkpoints are untouched.
    """
    folder.mkdir(parents=True, exist_ok=True)
    final, scratch = folder / f"step-{step:08d}", folder / f"{WRITING}{step:08d}"
    for unfinished in folder.glob(f"{WRITING}*"):
        shutil.rmtree(unfinished, ignore_errors=True)
    check_space(folder, tensor_bytes(state))
    try:
        scratch.mkdir()
        write_synced(scratch / STATE, lambda file: torch.save(dict(state), file))
        marker = {"step": step, "files": {STATE: (scratch / STATE).stat().st_size}}
        write_synced(scratch / MARKER, lambda file: file.write(json.dumps(marker).encode()))
        shutil.rmtree(final, ignore_errors=True)
        scratch.rename(final)
        _sync_folder(folder)
    except (OSError, RuntimeError) as error:  # torch.save reports a full disk as a RuntimeError
        shutil.rmtree(scratch, ignore_errors=True)
        cause = why_not_written(folder, tensor_bytes(state), error)
        raise InputError(
            f"Checkpoint {step} cannot be written to {folder}: {cause}. The older ones are as they were."
        ) from error
    for old in _folders(folder)[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def write_synced(path: Path, write: Callable[[Any], object]) -> None:
    """Write a file and wait until the disk has it."""
    with path.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())


def write_whole(path: Path, text: str) -> None:
    """Write a file all or not at all: a process that is killed, or a full disk, leaves it as it was.

    Several processes may write it at once; the last one counts.

    Args:
        path: the file; its folder is made.
        text: all of it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = re.sub(r"[^\w.]", "_", platform.node())
    begun = f"{WRITING}{path.name}-{machine}-"
    for file in path.parent.glob(f"{glob.escape(begun)}*"):
        if not _is_running(file.name.removeprefix(begun)):
            file.unlink(missing_ok=True)
    scratch = path.with_name(f"{begun}{os.getpid()}")
    try:
        write_synced(scratch, lambda file: file.write(text.encode()))
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def _is_running(number: str) -> bool:
    """Whether there is a process of that number on this machine; True where nobody can tell."""
    if os.name != "posix" or not number.isdecimal():
        return True
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def write_json(path: Path, content: Any) -> None:
    """Write JSON for people and programs, as `write_whole` writes."""
    write_whole(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_space(folder: Path, needed: int) -> None:
    """Refuse to write what the disk cannot hold."""
    if missing := missing_bytes(folder, needed):
        raise InputError(
            f"The disk of {folder} has no room for {needed:,} bytes; {missing:,} are missing. "
            "What is there already is as it was. Free some, then go on with --resume."
        )


def missing_bytes(folder: Path, needed: int) -> int:
    """How many bytes too small the disk is for `needed` more; 0 if it will do."""
    return max(needed - shutil.disk_usage(folder).free, 0)


def why_not_written(folder: Path, needed: int, error: Exception) -> str:
    """What kept some bytes from being written, in a few words: how many are missing, or what the error says."""
    missing = missing_bytes(folder, needed)
    return f"{missing:,} bytes are missing" if missing else (str(error).splitlines() or [type(error).__name__])[0]


def tensor_bytes(value: Any) -> int:
    """Bytes of all tensors in nested mappings and lists, each storage counted once."""
    storages: dict[int, int] = {}

    def visit(value: Any) -> None:
        if isinstance(value, Tensor):
            storages[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        elif isinstance(value, Mapping):
            for one in value.values():
                visit(one)
        elif isinstance(value, list | tuple):
            for one in value:
                visit(one)

    visit(value)
    return sum(storages.values())


def newest_checkpoint(folder: Path, say: Callable[[str], None] | None = None) -> Path | None:
    """The newest whole checkpoint; of each newer one that is not, `say` is told what is wrong."""
    for path in _folders(folder):
        fault = what_is_wrong(path)
        if fault is None:
            return path
        if say:
            say(f"Passing over {path}: {fault}.")
    return None


def what_is_wrong(path: Path) -> str | None:
    """Why a checkpoint is not whole, or None."""
    try:
        files = json.loads((path / MARKER).read_text())["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return f"it has no readable {MARKER}, which is written last, so its saving was cut short"
    for name, size in files.items():
        found = (path / name).stat().st_size if (path / name).is_file() else 0
        if found != size:
            return f"{name} has {found:,} of its {size:,} bytes"
    return None


def load_checkpoint(path: Path) -> dict[str, Any]:
    """The state of one checkpoint, on the CPU.

    Raises:
        InputError: it is not whole, or cannot be read.
    """
    fault = what_is_wrong(path)
    if fault is not None:
        raise InputError(f"{path} is no whole checkpoint: {fault}. Remove it, or take an older one.")
    try:
        state: dict[str, Any] = torch.load(path / STATE, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file raises whatever its parser does
        raise InputError(f"{path} cannot be read: {str(error).splitlines()[0][:200]}. Remove it.") from error
    return state


def drop_checkpoints(folder: Path) -> None:
    """Remove them all, once the run they belong to is saved."""
    shutil.rmtree(folder, ignore_errors=True)


def _folders(folder: Path) -> list[Path]:
    """All finished checkpoint folders, newest first."""
    return sorted(folder.glob("step-*"), reverse=True)

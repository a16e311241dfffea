"""Writing a run folder: `evaluation.json` says what was run, `records.jsonl` what came of each item.

While a run is under way each process appends what is finished to a `parts-N.jsonl` of its own, line by line; when all
is done the records are made of them and the parts go. A line that was cut short is dropped, and its item done again.
A finished folder is replaced file by file, never written in place.
"""

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from delcore._hub import what_is_beside
from delcore.benchmarks.saved_runs import (
    HEADER,
    PROGRAM_FIELDS,
    RECORDS,
    check_fields,
    parse_line,
    read_header,
)
from delcore.checkpoints import WRITING, write_whole
from delcore.errors import InputError

PARTS = "parts-*.jsonl"

SAME = ("style", "seed", "task", "task_version", "model_fingerprint", "items", "data_sha256", "settings")
"""What a run that goes on must share with the one that began."""

OPTIONS = ("limit", "max_new_tokens", "run_programs", "dtype", "device", "style", "seed")
"""Those of them that are options of the command line."""

UNSPEAKABLE = {
    "model_fingerprint": "its model has other weights or another tokenizer",
    "data_sha256": "its questions or right answers were others",
}
"""How a difference of hashes is told, which say nothing to people."""

FREE_SETTINGS = ("batch_size",)
"""Settings that change how fast a run goes, not what it says."""

PART_FIELDS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("index", "tokens"), (int,)),
    **dict.fromkeys(("part", "prompt", "output", "finish"), (str,)),
    "seconds": (float, int),
}

Parts = dict[int, dict[str, dict[str, Any]]]
"""Of each item by its index: "text" and "program", as `scoring.make_record` takes them."""


# ---------------------------------------------------------------- reading


def find_runs(path: Path) -> list[Path]:
    """The run folder itself, or those right below it.

    Raises:
        InputError: there is none.
    """
    if (path / HEADER).is_file():
        return [path]
    if not path.exists():
        raise InputError(f"There is no folder {path}.{what_is_beside(path)}")
    found = sorted(file.parent for file in path.glob(f"*/{HEADER}"))
    if not found:
        raise InputError(f"{path} holds no {HEADER}, and neither does a folder in it. Name a folder of --out.")
    return found


def read_parts(path: Path) -> Parts:
    """What an unfinished run has finished; damaged lines are left out, as their items can be done again.

    Raises:
        InputError: a line is whole, but no part; the message names file and line.
    """
    parts: Parts = defaultdict(dict)
    for file in sorted(path.glob(PARTS)):
        for part in _parts_of(file):
            parts[part.pop("index")][part.pop("part")] = part
    return dict(parts)


def spent_seconds(path: Path) -> float:
    """How long an unfinished run has worked: processes work side by side, so the longest of their files tells."""
    return max((sum(part["seconds"] for part in _parts_of(file)) for file in path.glob(PARTS)), default=0.0)


def _parts_of(file: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(file.read_bytes().split(b"\n")[:-1], 1):
        found = parse_line(line)
        if found is None:
            continue
        where = f"{file}, line {number}"
        check_fields(found, PART_FIELDS, where)
        if found["part"] not in ("text", "program"):
            raise InputError(f"{where}: `part` must be text or program; got {found['part']!r:.40}.")
        if found["part"] == "program":
            check_fields(found, PROGRAM_FIELDS, where)
        yield found


# ---------------------------------------------------------------- writing


def check_folder(path: Path, header: Mapping[str, Any]) -> None:
    """Refuse a folder that holds a run of other settings, or something else.

    Raises:
        InputError: it does.
    """
    if path.exists() and not path.is_dir():
        raise InputError(f"`--out` {path} is a file. Name a folder.")
    if (path / HEADER).is_file():
        check_same(path, read_header(path), header)
    elif path.is_dir() and any(not file.name.startswith(WRITING) for file in path.iterdir()):
        raise InputError(f"`--out` {path} holds other files and no {HEADER}. Name another folder.")


def open_run(path: Path, header: Mapping[str, Any]) -> None:
    """Make the folder of a run, or go on with the one that is there; every process may call it.

    Raises:
        InputError: as `check_folder`; or the folder cannot be written.
    """
    check_folder(path, header)
    if not (path / HEADER).is_file():
        try:
            path.mkdir(parents=True, exist_ok=True)
            write_header(path, header)
        except OSError as error:
            raise InputError(f"`--out` {path} cannot be written: {error.strerror}. Name another folder.") from error


def check_same(path: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Refuse to go on with a run of other settings; the message names what the user chose first, hashes never."""
    was, now = _comparable(old), _comparable(new)
    differing = [name for name in now if was.get(name) != now[name]]
    if "limit" in differing:  # the items follow from it
        differing = [name for name in differing if name not in ("items", "data_sha256")]
    if differing:
        told = "; ".join(_difference(name, was.get(name), now[name]) for name in differing)
        raise InputError(f"`--out` {path} holds another run: {told}. Name another folder, or the same settings.")


def _comparable(header: Mapping[str, Any]) -> dict[str, Any]:
    """What must be the same, in the order in which it is told."""
    settings = {key: value for key, value in header["settings"].items() if key not in FREE_SETTINGS}
    return {**settings, **{name: header[name] for name in SAME if name != "settings"}}


def _difference(name: str, was: Any, now: Any) -> str:
    if name in UNSPEAKABLE:
        return UNSPEAKABLE[name]
    values = ("left out" if value is None else value for value in (was, now))
    option = f"--{name.replace('_', '-')}" if name in OPTIONS else name.replace("_", " ")
    return "{} was {} and is {}".format(option, *values)


def write_header(path: Path, header: Mapping[str, Any]) -> None:
    """Replace evaluation.json."""
    write_whole(path / HEADER, json.dumps(header, indent=1) + "\n")


def write_run(path: Path, header: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> None:
    """Replace records and header."""
    write_whole(path / RECORDS, "".join(json.dumps(record) + "\n" for record in records))
    write_header(path, header)


def drop_parts(path: Path) -> None:
    """Remove the parts of a run whose records are written."""
    for file in path.glob(PARTS):
        file.unlink(missing_ok=True)


def _lock(descriptor: int) -> bool:
    """Lock a file until it is closed; False if another process holds it. Where there are no locks, none is taken."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        pass
    return True


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether a path still leads to the file that is open."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


class PartsFile:
    """What one process has finished, appended line by line; each line is on its way to the disk when `add` returns."""

    def __init__(self, path: Path, rank: int) -> None:
        """Open the file of a process; of an earlier run's, a last line without end goes.

        Raises:
            InputError: another run has it open.
        """
        file = path / PARTS.replace("*", str(rank))
        self._file = file.open("a+b")
        # Another run may have ended in between, and have removed the file that was opened here.
        if not _lock(self._file.fileno()) or not _is_still(file, self._file.fileno()):
            self._file.close()
            raise InputError(f"Another process is at work on {path}. Wait for it, or name another --out.")
        self._file.seek(0)
        whole = self._file.read().rfind(b"\n") + 1
        self._file.truncate(whole)

    def __enter__(self) -> "PartsFile":
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._file.close()

    def add(self, index: int, part: str, facts: Mapping[str, Any]) -> None:
        """Append one part of one item."""
        self._file.write(json.dumps({"index": index, "part": part, **facts}).encode() + b"\n")
        self._file.flush()

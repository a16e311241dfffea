"""Reading finished run folders, and telling whether two of them may be compared."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delcore.answers import KINDS
from delcore.errors import InputError

FORMAT = 1
HEADER_FILE, RECORDS_FILE = "evaluation.json", "records.jsonl"

_FIELD_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("task", "style", "model", "model_source", "model_fingerprint", "data_sha256"), (str,)),
    **dict.fromkeys(("task_version", "items", "seed"), (int,)),
    **dict.fromkeys(("settings", "versions"), (dict,)),
    "seconds": (float, int, type(None)),
}
_RECORD_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("index", "tokens"), (int,)),
    **dict.fromkeys(("id", "prompt", "output", "finish", "kind", "gold", "from"), (str,)),
    **dict.fromkeys(("strict", "flexible", "outcome"), (str, type(None))),
    **dict.fromkeys(("correct_strict", "correct_flexible"), (bool,)),
}


@dataclass(frozen=True)
class SavedRun:
    """A finished run: what was asked of which model, and one record for each item."""

    path: Path
    """Its folder."""

    header: Mapping[str, Any]
    """Of evaluation.json."""

    records: Sequence[Mapping[str, Any]]
    """Of records.jsonl, in the order of their index."""

    @property
    def task(self) -> str:
        """Key of the benchmark."""
        return self.header["task"]

    @property
    def model(self) -> tuple[str, str]:
        """Name and fingerprint, which together tell models apart."""
        return self.header["model"], self.header["model_fingerprint"]

    @property
    def limit(self) -> int | None:
        """How many items were asked for; None for all."""
        return self.header["settings"].get("limit")


def load_run(folder: Path | str) -> SavedRun:
    """Read a run folder.

    Raises:
        InputError: no header or no records; another format; a line that is cut or lacks a field; items missing, as
            in a run that was stopped.
    """
    path = Path(folder)
    header = _load_header(path)
    if not (path / RECORDS_FILE).is_file():
        raise InputError(f"{path} holds no {RECORDS_FILE}: it was stopped. Finish it with the command that began it.")
    # Only "\n" ends a line: a model's text may hold other separators.
    lines = _read(path / RECORDS_FILE).removesuffix("\n").split("\n")
    records = [_load_record(path, number, line) for number, line in enumerate(lines, 1) if lines != [""]]
    if len(records) != header["items"]:
        raise InputError(
            f"{path} holds {len(records)} of {header['items']} items. Finish it with the command that began it."
        )
    if len({record["id"] for record in records}) < len(records):
        raise InputError(f"{path / RECORDS_FILE} holds two records of the same `id`. Run the evaluation again.")
    return SavedRun(path, header, sorted(records, key=lambda record: record["index"]))


def _load_header(path: Path) -> dict[str, Any]:
    header = _parse(_read(path / HEADER_FILE), str(path / HEADER_FILE))
    if header.get("format") != FORMAT:
        raise InputError(
            f"{path / HEADER_FILE} has format {header.get('format')!r:.40}, and this delcore reads {FORMAT}. "
            "Run the evaluation again, or use the version that wrote it."
        )
    _check_fields(header, _FIELD_TYPES, str(path / HEADER_FILE))
    return header


def _load_record(path: Path, number: int, line: str) -> dict[str, Any]:
    where = f"{path / RECORDS_FILE}, line {number}"
    record = _parse(line, where)
    _check_fields(record, _RECORD_TYPES, where)
    if record["kind"] not in KINDS:
        raise InputError(f"{where}: `kind` must be one of {', '.join(KINDS)}; got {record['kind']!r:.40}.")
    if any(record[f"correct_{way}"] and record[way] is None for way in ("strict", "flexible")):
        raise InputError(f"{where}: an answer that was not read cannot be right. Score the run again with --rescore.")
    return record


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path.parent} holds no {path.name}. Name a folder that `delcore evaluate` wrote.") from None
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read ({type(error).__name__}). Is it a file of `delcore evaluate`?"
        ) from None


def _parse(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InputError(f"{where} is cut or no JSON object. Resume the run to write it again.")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _check_fields(found: Mapping[str, Any], types: Mapping[str, tuple[type, ...]], where: str) -> None:
    for name, allowed in types.items():
        if name not in found:
            raise InputError(f"{where} lacks `{name}`. Run the evaluation again with this version.")
        if type(found[name]) not in allowed:  # a bool is no count
            raise InputError(f"{where}: `{name}` must be {allowed[0].__name__}; got {found[name]!r:.40}.")


# ---------------------------------------------------------------- what may be compared

_SETTINGS = ("limit", "max_new_tokens", "template", "run_programs")
"""Those that decide what is asked and how it may be answered; batch size, device and precision are not among them."""


def check_comparable(first: SavedRun, second: SavedRun) -> None:
    """Refuse two runs whose difference would not be the models'.

    Settings that only change how fast a run goes, or how precisely, may differ; a report shows them.

    Raises:
        InputError: one line that names the first field in which they differ.
    """
    other = _what_must_match(second)
    for field, value in _what_must_match(first).items():
        if value != other[field]:
            shown = "" if field in ("id", "gold") else f" ({value!r:.70} and {other[field]!r:.70})"
            raise InputError(
                f"{first.path} and {second.path} cannot be compared: they differ in `{field}`{shown}. "
                "Evaluate both in the same way."
            )


def _what_must_match(run: SavedRun) -> dict[str, Any]:
    return {
        **{name: run.header[name] for name in ("task", "task_version", "style")},
        **{name: run.header["settings"].get(name) for name in _SETTINGS},
        **{name: run.header[name] for name in ("data_sha256", "items")},
        "id": {record["id"] for record in run.records},
        "gold": {record["id"]: record["gold"] for record in run.records},
    }

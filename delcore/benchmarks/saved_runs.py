"""Reading run folders with a check of all that is in them, and telling whether two of them may be compared."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delcore.answers import KINDS
from delcore.benchmarks.readers import LETTERS
from delcore.errors import InputError

FORMAT = 1
HEADER = "evaluation.json"
RECORDS = "records.jsonl"

HEADER_FIELDS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("task", "style", "model", "model_source", "model_fingerprint", "data_sha256"), (str,)),
    **dict.fromkeys(("task_version", "items", "seed"), (int,)),
    **dict.fromkeys(("settings", "versions"), (dict,)),
    "seconds": (float, int, type(None)),
}
RECORD_FIELDS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("index", "tokens"), (int,)),
    **dict.fromkeys(("id", "prompt", "output", "finish", "kind", "gold", "from"), (str,)),
    **dict.fromkeys(("strict", "flexible", "outcome"), (str, type(None))),
    **dict.fromkeys(("correct_strict", "correct_flexible"), (bool,)),
}
PROGRAM_FIELDS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("prompt", "output", "finish", "printed", "detail"), (str,)),
    "tokens": (int,),
    "status": (str, type(None)),
}
"""What a record keeps of a program, also where words answered."""


@dataclass(frozen=True)
class EvaluationRun:
    """One run folder as it stands: what was asked of which model, and the records that are there."""

    path: Path
    """Its folder."""

    header: dict[str, Any]
    """Of evaluation.json."""

    records: list[dict[str, Any]]
    """Of records.jsonl, in the order of their index."""

    @property
    def task(self) -> str:
        """Key of the benchmark."""
        return str(self.header["task"])

    @property
    def model(self) -> tuple[str, str]:
        """Name and fingerprint, which together tell models apart."""
        return self.header["model"], self.header["model_fingerprint"]

    @property
    def limit(self) -> int | None:
        """How many items were asked for; None for all."""
        limit: int | None = self.header["settings"].get("limit")
        return limit

    @property
    def finished(self) -> bool:
        """Whether every item has a record."""
        return len(self.records) == self.header["items"]


def load_run(folder: Path | str) -> EvaluationRun:
    """Read a finished run folder.

    Raises:
        InputError: as `read_run`; items missing, as in a run that was stopped.
    """
    run = read_run(Path(folder))
    if not run.finished:
        raise InputError(
            f"{run.path} holds {len(run.records)} of {run.header['items']} items: it was stopped, or lost some. "
            "Finish it with the command that began it."
        )
    return run


def read_run(path: Path) -> EvaluationRun:
    """A run folder with its records; one that is still under way may have none.

    Raises:
        InputError: no header; another format; a line that is no record, or two of the same item. A last line without
            its end is left out, as a copy that was cut has one.
    """
    header, file = read_header(path), path / RECORDS
    # Only "\n" ends a line: a model's text may hold other separators.
    lines = _read(file).split("\n") if file.is_file() else [""]
    if not lines[-1] or parse_line(lines[-1]) is None:
        lines.pop()
    records = [_check_record(file, number, line, header["items"]) for number, line in enumerate(lines, 1)]
    for name in ("id", "index"):
        if len({record[name] for record in records}) < len(records):
            raise InputError(f"{file} holds two records of the same `{name}`. Run the evaluation again.")
    return EvaluationRun(path, header, sorted(records, key=lambda record: record["index"]))


def read_header(path: Path) -> dict[str, Any]:
    """evaluation.json of a run folder.

    Raises:
        InputError: it cannot be read, is of another format, or lacks something.
    """
    file = path / HEADER
    header = parse_line(_read(file))
    if header is None:
        raise InputError(f"{file} is cut or no JSON object. Remove the folder, or take it from its origin.")
    if header.get("format") != FORMAT:
        raise InputError(
            f"{file} is of format {header.get('format')!r:.40}, and this delcore reads format {FORMAT}. "
            f"Read it with the delcore that wrote it{_writer(header)}, or run the evaluation again."
        )
    check_fields(header, HEADER_FIELDS, str(file))
    check_fields(header, {"reader_version": (int,)}, str(file), optional=True)
    check_fields(header["settings"], {"limit": (int, type(None))}, f"{file}, settings", optional=True)
    return header


def _writer(header: Mapping[str, Any]) -> str:
    versions = header.get("versions")
    return f" ({versions['delcore']!s:.40})" if isinstance(versions, dict) and "delcore" in versions else ""


def _check_record(file: Path, number: int, line: str, items: int) -> dict[str, Any]:
    where = f"{file}, line {number}"
    record = parse_line(line)
    if record is None:
        raise InputError(f"{where} is cut or no JSON object. Take the folder from its origin, or run it again.")
    check_fields(record, RECORD_FIELDS, where)
    check_fields(record, {"options": (list,), "program": (dict, type(None))}, where, optional=True)
    if record.get("program"):
        check_fields(record["program"], PROGRAM_FIELDS, f"{where}, program")
    options = record.get("options", [])
    if len(options) > len(LETTERS) or not all(isinstance(option, str) for option in options):
        raise InputError(f"{where}: `options` must be a list of at most {len(LETTERS)} texts; got {options!r:.40}.")
    if not 0 <= record["index"] < items:
        raise InputError(f"{where}: `index` must lie in [0, {items}), as the run has {items} items.")
    if record["kind"] not in KINDS:
        raise InputError(f"{where}: `kind` must be one of {', '.join(KINDS)}; got {record['kind']!r:.40}.")
    if any(record[f"correct_{way}"] and record[way] is None for way in ("strict", "flexible")):
        raise InputError(f"{where}: an answer that was not read cannot be right. Run the evaluation again.")
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


def parse_line(text: str | bytes) -> dict[str, Any] | None:
    """The JSON object that a text is; None if it is cut or something else."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def check_fields(
    found: Mapping[str, Any], types: Mapping[str, tuple[type, ...]], where: str, *, optional: bool = False
) -> None:
    """Refuse an object that lacks a field (unless `optional`), or has one of another type.

    Raises:
        InputError: one line that begins with `where`.
    """
    for name, allowed in types.items():
        if name not in found:
            if optional:
                continue
            raise InputError(f"{where} lacks `{name}`. Run the evaluation again with this version.")
        if type(found[name]) not in allowed:  # a bool is no count
            raise InputError(f"{where}: `{name}` must be {allowed[0].__name__}; got {found[name]!r:.40}.")


# ---------------------------------------------------------------- what may be compared

_SETTINGS = ("limit", "max_new_tokens", "template", "run_programs")
"""Those that decide what is asked and how it may be answered; batch size, device and precision are not among them."""


def check_comparable(first: EvaluationRun, second: EvaluationRun) -> None:
    """Refuse two runs whose difference would not be the models'.

    Settings that only change how fast a run goes, or how precisely, may differ; a report shows them.

    Raises:
        InputError: one line that names the first field in which they differ. A run from before headers told the
            version of the reader differs in it from any other.
    """
    other = _what_must_match(second)
    for field, value in _what_must_match(first).items():
        if value != other[field]:
            shown = "" if field in ("id", "gold") else f" ({value!r:.70} and {other[field]!r:.70})"
            raise InputError(
                f"{first.path} and {second.path} cannot be compared: they differ in `{field}`{shown}. "
                "Evaluate both in the same way."
            )
    readers = [run.header.get("reader_version") for run in (first, second)]
    if None in readers or readers[0] != readers[1]:
        known = " and ".join("unknown" if version is None else str(version) for version in readers)
        raise InputError(
            f"{first.path} and {second.path} cannot be compared: their answers were not read in the same way "
            f"(`reader_version` {known}). Score both with --rescore."
        )


def _what_must_match(run: EvaluationRun) -> dict[str, Any]:
    return {
        **{name: run.header[name] for name in ("task", "task_version", "style")},
        **{name: run.header["settings"].get(name) for name in _SETTINGS},
        **{name: run.header[name] for name in ("data_sha256", "items")},
        "id": {record["id"] for record in run.records},
        "gold": {record["id"]: record["gold"] for record in run.records},
    }

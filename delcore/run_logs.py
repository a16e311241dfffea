"""Reading what training runs have logged, also of runs that are under way or were killed; loads nothing heavy."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delcore.adapters import read_record
from delcore.errors import InputError

METRICS, HELDOUT = "metrics.jsonl", "heldout.jsonl"
TABLE = "table.json"
"""What a sweep writes beside its runs."""

MOST_RUNS = 200
"""More run folders than a sweep has; a folder with more of them is not the one that was meant."""

MOST_TERMS = 24
"""More panels than `delcore train` logs terms; a figure of hundreds takes minutes."""

LONGEST_WHOLE = 18
"""Characters of a whole number that 64 bits hold in any case."""

Line = Mapping[str, Any]


@dataclass(frozen=True)
class RunLog:
    """What one run has logged so far.

    Args:
        name: of its folder.
        loss: key of `delcore.LOSSES`; of a run without record, what its folder is called.
        seed: of the run; None where that is not known.
        steps: optimiser steps that were asked for; None where that is not known.
        lines: of `metrics.jsonl`, in order; numbers may be NaN or None.
        heldout: of `heldout.jsonl`.
    """

    name: str
    loss: str
    seed: int | None
    steps: int | None
    lines: tuple[Line, ...]
    heldout: tuple[Line, ...]

    @property
    def last_step(self) -> int:
        """The step of the last line; 0 without lines."""
        return int(self.lines[-1]["step"]) if self.lines else 0

    @property
    def state(self) -> str:
        """In words; from its files alone nobody can tell a run that is under way from one that was killed."""
        if self.steps is not None and self.last_step >= self.steps:
            return "finished"
        return "under way, or stopped" + ("" if self.steps is None else f", of {self.steps}")


def read_logs(folder: Path) -> tuple[list[RunLog], list[str]]:
    """The logs of a run folder, or of the run folders right below it, and a line for each that cannot be read.

    Raises:
        InputError: there are none, or too many.
    """
    logs, problems = [], []
    for run in _find_runs(folder):
        try:
            logs.append(read_log(run))
        except InputError as error:
            problems.append(str(error))
    return logs, problems


def _find_runs(folder: Path) -> list[Path]:
    try:
        own = [folder] if (folder / METRICS).is_file() else sorted(file.parent for file in folder.glob(f"*/{METRICS}"))
    except (OSError, ValueError) as error:  # a name too long, a NUL, a folder that may not be read
        raise InputError(f"{str(folder)[:80]!r} cannot be read as a folder: {error!s:.80}.") from None
    if not own:
        raise InputError(f"{folder} holds no {METRICS}, and neither does a folder in it. Name an --out of `train`.")
    if len(own) > MOST_RUNS:
        raise InputError(f"{folder} holds {len(own)} runs, and at most {MOST_RUNS} are shown. Name one sweep.")
    return own


def read_log(folder: Path) -> RunLog:
    """The log of one run folder.

    Raises:
        InputError: a line that is no entry of a log. A last line without its end, as a killed run has one, is left out.
    """
    settings = (read_record(folder) or {}).get("settings")
    settings = settings if isinstance(settings, dict) else {}
    loss = settings.get("loss") or folder.name.rpartition("-")[0] or folder.name
    seed, steps = (_count(settings.get(key)) for key in ("seed", "steps"))
    heldout = _read_lines(folder / HELDOUT) if (folder / HELDOUT).is_file() else ()
    return RunLog(folder.name, str(loss), seed, steps, _read_lines(folder / METRICS), heldout)


def _count(value: Any) -> int | None:
    return value if type(value) is int and len(str(value)) <= LONGEST_WHOLE else None


def read_whole(digits: str) -> int | float:
    """A whole number of a JSON file, for its `parse_int`; a float or infinite where no table can hold it as such."""
    return int(digits) if len(digits) <= LONGEST_WHOLE else float(digits)


def _read_lines(file: Path) -> tuple[Line, ...]:
    try:
        *whole, rest = file.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read ({type(error).__name__}). Is it the log of a run?") from None
    found = [_parse(line, file, number) for number, line in enumerate(whole, 1) if line.strip()]
    try:
        return (*found, _parse(rest, file, 0)) if rest.strip() else tuple(found)
    except InputError:
        return tuple(found)


def _parse(text: str, file: Path, number: int) -> Line:
    try:
        line = json.loads(text, parse_int=read_whole)
    except (ValueError, RecursionError):
        line = None
    if not isinstance(line, dict) or type(line.get("step")) is not int:
        raise InputError(f"{file}, line {number} is no entry of a log. Take the folder from its origin.")
    return line


def terms_of(logs: list[RunLog]) -> list[str]:
    """Every key that some line has a number for, in the order of the logs."""
    numbers = (int, float)
    return list(
        dict.fromkeys(
            key
            for log in logs
            for line in log.lines
            for key, value in line.items()
            if key != "step" and isinstance(value, numbers) and not isinstance(value, bool)
        )
    )

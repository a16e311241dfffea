"""Reading a run's outputs again, and the short table of a run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from delcore.benchmarks.metrics import accuracy, count_without_room, unread_share
from delcore.benchmarks.records import write_run
from delcore.benchmarks.saved_runs import EvaluationRun, load_run
from delcore.benchmarks.scoring import READER_VERSION, remake_record
from delcore.benchmarks.settings import reading_versions
from delcore.benchmarks.tasks import TASKS
from delcore.errors import InputError
from delcore.intervals import Interval
from delcore.runs import Progress


def rescore(path: Path, progress: Progress | None = None) -> EvaluationRun:
    """Read the outputs of a run again, without a model, and replace its records.

    What programs printed is read again too; they are not run. The header gets the reader's version as it is now, and
    "rescored_with", the versions that read.

    Raises:
        InputError: no such run, one that is not finished, or records that cannot be read.
    """
    run = load_run(path)
    if run.task not in TASKS:
        raise InputError(
            f"{path} is of task {run.task!r:.40}, which this delcore does not have. Read it where it was made."
        )
    task = TASKS[run.task]
    if progress and run.header["task_version"] != task.version:
        progress(
            f"{path} asked version {run.header['task_version']} of {task.title}; this delcore has {task.version}. "
            "Prompts and right answers stay as they were."
        )
    records = [remake_record(record) for record in run.records]
    header = {**run.header, "reader_version": READER_VERSION, "rescored_with": reading_versions()}
    write_run(path, header, records)
    return EvaluationRun(path, header, records)


# ---------------------------------------------------------------- the table


def summarise(run: EvaluationRun) -> dict[str, Any]:
    """A run in one row; shares are of all its items, from 0 to 1, and None without items.

    "no_room" counts prompts that did not fit the model's context: nothing was written to them, and they are unread.
    """

    def share(found: Interval | None) -> float | None:
        return found.mean if found else None

    return {
        "task": run.header["task"],
        "items": len(run.records),
        "strict": share(accuracy(run.records)),
        "flexible": share(accuracy(run.records, "flexible")),
        "unread": share(unread_share(run.records, "flexible")),
        "no_room": count_without_room(run.records),
        "seconds": run.header["seconds"],
        "path": str(run.path),
    }


def format_summaries(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as a table for people; prompts without room have a column where there are any."""
    width = max(len("task"), *(len(row["task"]) for row in rows))
    some = any(row["no_room"] for row in rows)
    lines = [f"{'task':<{width}}  {'n':>5}  strict %  flexible %  unread %{'  no room' * some}  seconds"]
    for row in rows:
        shares = (row[name] for name in ("strict", "flexible", "unread"))
        strict, flexible, unread = ("–" if share is None else f"{100 * share:.1f}" for share in shares)
        seconds = "–" if row["seconds"] is None else f"{row['seconds']:.1f}"
        left_out = f"  {row['no_room']:>7}" if some else ""
        lines.append(
            f"{row['task']:<{width}}  {row['items']:>5}  {strict:>8}  {flexible:>10}  {unread:>8}{left_out}"
            f"  {seconds:>7}"
        )
    if some:
        lines.append(
            "no room: prompts that did not fit the model's context; nothing was answered, and they are unread."
        )
    return "\n".join(lines)

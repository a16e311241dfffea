"""How a report writes its numbers: plain text for the cells of a table."""

import json
from decimal import Decimal

from delcore.benchmarks.saved_runs import EvaluationRun
from delcore.benchmarks.tasks import TASKS
from delcore.intervals import Interval, format_signed

NOTHING = "–"
"""Where there is nothing to measure."""


def task_title(task: str) -> str:
    """How people write a task, or its key."""
    return TASKS[task].title if task in TASKS else task


def format_items(run: EvaluationRun) -> str:
    """How many items a run has, and whether they are only the first of the task."""
    return f"{len(run.records)} (first)" if run.limit is not None else str(len(run.records))


def format_percent(found: Interval | None) -> str:
    """A share in percent with its interval."""
    if found is None or found.low is None or found.high is None:
        return NOTHING
    return f"{100 * found.mean:.1f} ({100 * found.low:.1f}–{100 * found.high:.1f})"


def format_points(found: Interval) -> str:
    """A difference of shares in percentage points with its interval."""
    low, high = found.low or 0.0, found.high or 0.0
    mean, start, end = (format_signed(100 * value, 1) for value in (found.mean, low, high))
    return f"{mean} ({start} to {end})"


def format_short(value: float | Decimal | None) -> str:
    """Four digits of a number of any size."""
    return NOTHING if value is None else f"{value:.4g}"


def format_json(value: object) -> str:
    """Settings and their like on one line."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)

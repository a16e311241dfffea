"""The parts of a report, from finished runs: plain text in tables."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import combinations

from delcore.benchmarks.metrics import (
    SHOWN_PLACES,
    WAYS,
    Comparison,
    accuracy,
    compare,
    compare_means,
    count_without_room,
    cut_share,
    mean_accuracy,
    measure_distances,
    place_accuracy,
    unread_share,
)
from delcore.benchmarks.saved_runs import EvaluationRun
from delcore.benchmarks.tasks import SEVEN, TASKS
from delcore.intervals import TOSSES, Interval
from delcore.plots import figure_html, place_title, plot_place_accuracy
from delcore.reports.cells import (
    NOTHING,
    format_items,
    format_json,
    format_percent,
    format_points,
    format_short,
    task_title,
)
from delcore.reports.groups import Labels, by_model, by_task
from delcore.reports.markup import Section, Table
from delcore.reports.published import NOTE, PUBLISHED, SOURCE

SHOWN_FORMS = 8
FORM_LENGTH = 60
OUTCOMES = ("ok", "no_output", "output_cut", "error", "timeout", "asked_input", "refused")


# ---------------------------------------------------------------- accuracy


def accuracy_section(runs: Sequence[EvaluationRun], labels: Labels) -> Section:
    """Accuracy, unread and cut share of every run; prompts that did not fit, where there are any."""
    some = any(count_without_room(run.records) for run in runs)
    rows = [
        [
            task_title(task),
            labels[run.model],
            run.header["style"],
            format_items(run),
            *(format_percent(accuracy(run.records, way)) for way in WAYS),
            *(format_percent(unread_share(run.records, way)) for way in WAYS),
            format_percent(cut_share(run.records)),
            *([str(count_without_room(run.records))] if some else []),
        ]
        for task, group in by_task(runs)
        for run in group
    ]
    text = (
        "Percent of all items, with Wilson's 95 % interval. Strict counts what a text states as its answer; flexible "
        "also takes the last thing in it that could be one. What could not be read is wrong, and unread. "
        "Cut are answers that had not ended at the length limit."
    )
    left_out = " Items without room had a prompt that did not fit the model's context: nothing was answered."
    header = ["task", "model", "style", "items", "strict", "flexible", "unread, strictly", "unread, flexibly", "cut"]
    return Section("Accuracy", [text + left_out * some], Table([*header, *["no room"] * some], rows))


def mean_section(runs: Sequence[EvaluationRun], labels: Labels) -> Section:
    """Mean of the seven for models that answered all of them; for others what is missing."""
    rows: list[list[str]] = []
    missing: dict[str, list[str]] = {}
    for model, tasks in by_model(runs).items():
        lacking = [TASKS[task].title for task in SEVEN if task not in tasks or not tasks[task].records]
        if lacking:
            missing.setdefault(", ".join(lacking), []).append(labels[model])
            continue
        parts = [tasks[task] for task in SEVEN]
        means = [format_percent(mean_accuracy([run.records for run in parts], way)) for way in WAYS]
        limited = [task_title(run.task) for run in parts if run.limit is not None]
        rows.append([labels[model], *means, ", ".join(limited) or "none"])
    text = "Unweighted, in percent, with the 95 % interval of a bootstrap over the items within each task."
    without = "; ".join(f"{', '.join(models)} (missing: {titles})" for titles, models in missing.items())
    told = [text] * bool(rows) + [f"No mean over the seven for {without}."] * bool(missing)
    header = ["model", "strict", "flexible", "tasks cut to their first items"]
    return Section("Mean of the seven, measured here", told, Table(header, rows) if rows else None)


def published_section() -> Section:
    """Others' numbers."""
    rows = [[one.model, one.loss, f"{one.mean_accuracy:.1f}"] for one in PUBLISHED]
    table = Table(["model", "loss", "mean of the seven (published)"], rows)
    return Section("Published numbers (not ours)", [NOTE, f"Source: {SOURCE}."], table, published=True)


# ---------------------------------------------------------------- comparisons


def comparison_section(runs: Sequence[EvaluationRun], labels: Labels) -> Section:
    """Every pair of models on every task that both answered, and on the mean of the seven."""
    rows = [
        _comparison_row(task_title(task), labels, (one, other), way, compare(one.records, other.records, way))
        for task, group in by_task(runs)
        for one, other in combinations(group, 2)
        for way in WAYS
    ]
    whole = [tasks for tasks in by_model(runs).values() if tasks.keys() >= set(SEVEN)]
    for one, other in combinations(whole, 2):
        pairs = [(one[task].records, other[task].records) for task in SEVEN]
        rows += [
            _comparison_row("mean of the seven", labels, (one["gsm8k"], other["gsm8k"]), way, compare_means(pairs, way))
            for way in WAYS
        ]
    if not rows:
        return Section("Comparison", ["No two models answered the same task: there is nothing to compare."])
    text = (
        "Second model less first on the same items, in percentage points, with the paired bootstrap's 95 % interval; "
        "p is McNemar's exact two-sided test on the items that only one of them gets right. "
        "Where no item changed the interval has no width, which says little of other items. "
        f"Of {len(rows)} comparisons some come out by chance; p is not corrected for that."
    )
    header = ["task", "first", "second", "reading", "difference", "only first", "only second", "p"]
    return Section("Comparison", [text, *([_MEAN_TEST] if len(whole) > 1 else [])], Table(header, rows))


_MEAN_TEST = (
    "For the mean of the seven, p is the two-sided test of the mean that is shown: either model wins each changed item "
    f"by a toss, every task weighs the same, and p is the share of {TOSSES:,} such draws with a mean at least as far "
    "from 0. The items that only one model gets right are counted over all seven tasks, and the largest has most of "
    "them: they may lean the other way."
)


def _comparison_row(
    task: str, labels: Labels, pair: tuple[EvaluationRun, EvaluationRun], way: str, found: Comparison | None
) -> list[str]:
    names = [labels[run.model] for run in pair]
    if found is None:
        return [task, *names, way, *[NOTHING] * 4]
    p = "< 0.001" if found.p < 0.001 else f"{found.p:.3f}"
    return [task, *names, way, format_points(found.difference), str(found.lost), str(found.gained), p]


# ---------------------------------------------------------------- digits and distances


def place_sections(runs: Sequence[EvaluationRun], labels: Labels) -> list[Section]:
    """Digits by place for each task whose answers are numbers: a table and a figure."""
    sections: list[Section] = []
    for task, group in by_task(runs):
        shares = {labels[run.model]: _shown_places(run) for run in group}
        places = sorted({place for one in shares.values() for place in one}, reverse=True)
        if not places:
            continue
        rows = [
            [place_title(place), str(max(one[place].count for one in shares.values() if place in one))]
            + [format_percent(one.get(place)) for one in shares.values()]
            for place in places
        ]
        figure = figure_html(plot_place_accuracy(shares), f"places-{len(sections)}", with_library=not sections)
        table = Table(["place", "items", *shares], rows)
        sections.append(Section(f"Digits by place: {task_title(task)}", [_PLACES_NOTE], table, figure))
    return sections


_PLACES_NOTE = (
    "Percent of right digits at each place of the right answer (flexible reading), with Wilson's 95 % interval. Every "
    "item with a digit there counts; unread is wrong. Places beyond millionths and thousands of millions are left out."
)


def _shown_places(run: EvaluationRun) -> dict[int, Interval]:
    return {place: one for place, one in place_accuracy(run.records).items() if place in SHOWN_PLACES}


def distance_section(runs: Sequence[EvaluationRun], labels: Labels) -> Section | None:
    """How far off the numbers read are; None where no task has numbers."""
    rows = []
    for task, group in by_task(runs):
        for run in group:
            found = measure_distances(run.records)
            if found.count:
                rows.append(
                    [task_title(task), labels[run.model], str(found.count), str(found.read)]
                    + [format_short(one) for one in (found.mean_absolute, found.median_absolute, found.log_mae)]
                    + [format_short(found.symmetric_relative), format_percent(found.same_magnitude)]
                )
    text = (
        "Of items whose right answer g is a single number; x is the number read, flexibly. Mean and median of |x − g| "
        "and the mean of log10(1 + |x − g|) are over the items read. The mean of |x − g| / (|x| + |g|) and the percent "
        "with the same sign and power of ten are over all, with unread as wrong as can be."
    )
    header = ["task", "model", "items", "read", "mean |x−g|", "median |x−g|", "log-MAE", "relative", "same magnitude"]
    return Section("Distance from the right number", [text], Table(header, rows)) if rows else None


# ---------------------------------------------------------------- unread forms, programs


def unread_section(runs: Sequence[EvaluationRun], labels: Labels) -> Section:
    """The most frequent forms of texts whose answer no strict reading found."""
    rows = []
    for task, group in by_task(runs):
        for run in group:
            unread = [record for record in run.records if record["strict"] is None]
            forms = Counter(unread_form(record["output"]) for record in unread)
            for form, count in sorted(forms.items(), key=lambda pair: (-pair[1], pair[0]))[:SHOWN_FORMS]:
                same = [record for record in unread if unread_form(record["output"]) == form]
                cut = sum(record["finish"] == "length" for record in same)
                loose = sum(record["flexible"] is not None for record in same)
                rows.append([task_title(task), labels[run.model], form, str(count), str(loose), str(cut)])
    if not rows:
        return Section("Unread forms", ["Every answer was read strictly."])
    text = (
        f"The last line of texts without a strict reading, every number in it as 0: the {SHOWN_FORMS} most frequent of "
        "each run, how many items end so, how many of them a flexible reading found, and how many were cut for length."
    )
    return Section("Unread forms", [text], Table(["task", "model", "last line", "items", "flexible", "cut"], rows))


def unread_form(output: str) -> str:
    r"""What kind of text it is: its last line, with numbers as 0, at most `FORM_LENGTH` characters.

    >>> unread_form("Let me think.\n\nSo  it is 12,500 or 7.5")
    'So it is 0 or 0'
    """
    lines = [line for line in output.splitlines() if line.strip()]
    if not lines:
        return "(nothing)"
    # A line may be very long, and only its start is shown.
    line = re.sub(r"\s+", " ", re.sub(r"\d[\d.,]*(?<=\d)", "0", lines[-1][:2000])).strip()
    return line if len(line) <= FORM_LENGTH else line[: FORM_LENGTH - 1] + "…"


def program_section(runs: Sequence[EvaluationRun], labels: Labels) -> Section | None:
    """How programs ended; None where none was run."""
    ran = [run for _, group in by_task(runs) for run in group if any(r["outcome"] is not None for r in run.records)]
    found = {run.path: Counter(record["outcome"] for record in run.records) for run in ran}
    others = sorted({outcome for one in found.values() for outcome in one if outcome} - set(OUTCOMES))
    columns = [*OUTCOMES, *others]
    rows = [
        [task_title(run.task), labels[run.model], *(str(found[run.path][name]) for name in columns)]
        + [str(found[run.path][None]), str(sum(record["from"] == "program" for record in run.records))]
        for run in ran
    ]
    header = ["task", "model", *(name.replace("_", " ") for name in columns), "none", "answered by program"]
    text = "How the programs ended, in items; the rest was answered in words."
    return Section("Programs", [text], Table(header, rows)) if ran else None


# ---------------------------------------------------------------- how the runs were made


def provenance_sections(runs: Sequence[EvaluationRun], labels: Labels) -> list[Section]:
    """What it takes to tell each run from any other, and to make it again."""
    sections = [Section("How the runs were made")]
    for _, group in by_task(runs):
        for run in group:
            facts = [(name, run.header.get(name, NOTHING)) for name in _PROVENANCE]
            rows = [[name, value if isinstance(value, str) else format_json(value)] for name, value in facts]
            title = f"{task_title(run.task)}, {labels[run.model]}"
            sections.append(Section(title, table=Table(["field", "value"], rows), level=3))
    return sections


_PROVENANCE = (
    *("task", "task_version", "style", "model", "model_source", "model_fingerprint", "data_sha256", "items", "seed"),
    *("seconds", "settings", "versions", "reader_version", "rescored_with"),
)

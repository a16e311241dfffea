"""A report on finished runs, as Markdown and as one HTML page.

delcore evaluate --report runs/gsm8k-mle runs/gsm8k-del
"""

from collections.abc import Sequence
from pathlib import Path

from delcore.benchmarks.saved_runs import EvaluationRun, check_comparable, load_run
from delcore.checkpoints import write_whole
from delcore.errors import InputError
from delcore.reports.groups import by_task, label_models
from delcore.reports.markup import Section, render_html, render_markdown
from delcore.reports.sections import (
    accuracy_section,
    comparison_section,
    distance_section,
    mean_section,
    place_sections,
    program_section,
    provenance_sections,
    published_section,
    unread_section,
)

TITLE = "Evaluation report"


def write_report(runs: Sequence[Path], out: Path | None = None) -> tuple[Path, Path]:
    """Write report.md and report.html on one or more finished runs.

    Args:
        runs: run folders; those of one task are compared with one another.
        out: folder to write into; None for the run's own, or with several for the one that holds the first.

    Returns:
        The paths of the Markdown and of the HTML file.

    Raises:
        InputError: no run, a folder that is no finished run, runs of one task that cannot be compared (the message
            names the field), the same model twice on one task, or an `out` that is a file.
    """
    if not runs:
        raise InputError("`runs` must name at least one run folder.")
    loaded = [load_run(folder) for folder in runs]
    check_runs(loaded)
    folder = out or (Path(runs[0]) if len(runs) == 1 else Path(runs[0]).absolute().parent)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"`out` must be a folder; {folder} is a file.")
    folder.mkdir(parents=True, exist_ok=True)
    sections = build_sections(loaded)
    paths = folder / "report.md", folder / "report.html"
    for path, render in zip(paths, (render_markdown, render_html), strict=True):
        write_whole(path, render(TITLE, sections))
    return paths


def check_runs(runs: Sequence[EvaluationRun]) -> None:
    """Refuse runs that one report cannot hold; see `write_report`."""
    for task, group in by_task(runs):
        first: dict[tuple[str, str], EvaluationRun] = {}
        for run in group:
            if run is not group[0]:
                check_comparable(group[0], run)
            if (twin := first.setdefault(run.model, run)) is not run:
                raise InputError(
                    f"{twin.path} and {run.path} are the same model (`model_fingerprint`) on {task}. Leave one out."
                )


def build_sections(runs: Sequence[EvaluationRun]) -> list[Section]:
    """All parts of the report, in order."""
    labels = label_models(runs)
    parts = [
        accuracy_section(runs, labels),
        mean_section(runs, labels),
        published_section(),
        comparison_section(runs, labels),
        *place_sections(runs, labels),
        distance_section(runs, labels),
        unread_section(runs, labels),
        program_section(runs, labels),
        *provenance_sections(runs, labels),
    ]
    return [part for part in parts if part is not None]

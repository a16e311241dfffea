"""The runs of a report by task and by model, and what the models are called."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

from delcore.benchmarks.saved_runs import EvaluationRun
from delcore.benchmarks.tasks import SEVEN

Labels = Mapping[tuple[str, str], str]
ModelKey = tuple[str, str]


def label_models(runs: Sequence[EvaluationRun]) -> Labels:
    """The name of each model, with a part of its fingerprint where several have one name."""
    models = {run.model for run in runs}
    shared = Counter(name for name, _ in models)
    return {
        (name, fingerprint): name if shared[name] == 1 else f"{name} ({fingerprint[:12]})"
        for name, fingerprint in models
    }


def by_task(runs: Sequence[EvaluationRun]) -> list[tuple[str, list[EvaluationRun]]]:
    """The runs of each task, the seven first and in the paper's order."""
    order = {task: i for i, task in enumerate(SEVEN)}
    ordered = sorted(runs, key=lambda run: (order.get(run.task, len(order)), run.task))
    return [(task, list(group)) for task, group in groupby(ordered, key=lambda run: run.task)]


def by_model(runs: Sequence[EvaluationRun]) -> dict[ModelKey, dict[str, EvaluationRun]]:
    """The run of each task for each model."""
    found: dict[ModelKey, dict[str, EvaluationRun]] = {}
    for run in runs:
        found.setdefault(run.model, {})[run.task] = run
    return found

"""The benchmarks: where each comes from, how a question and its right answer are read off a row, how it is scored.

Each task reads the rows of its set on the hub and those of the files that its authors published, which `--data-dir`
names. `version` is raised when prompts or right answers change; runs of different versions are not compared.

Sources: GSM8K (arXiv:2110.14168), MATH (2103.03874), SVAMP (2103.07191), SimulEq (MAmmoTH's copy, 2309.05653), AQuA
(1705.04146), SAT-Math (AGIEval, 2304.06364), MMLU (2009.03300); options are written as MAmmoTH writes them.
"""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from delcore._hub import what_is_beside
from delcore.answers import read_answer
from delcore.arithmetic import heldout_additions
from delcore.benchmarks import readers
from delcore.benchmarks.prompts import text_prompt
from delcore.benchmarks.readers import Question, RowError
from delcore.benchmarks.rows import HubSet, Row, how_to_fetch, read_file, read_hub
from delcore.errors import InputError


@dataclass(frozen=True)
class Task:
    """One benchmark."""

    name: str
    """As on the command line."""

    title: str
    """As people write it."""

    kind: str
    """Of its answers, see `delcore.answers`."""

    read: Callable[[Mapping[str, Any]], Question]
    """Reads a row; raises `RowError` where something is missing."""

    files: tuple[str, ...] = ()
    """Names that its file may have in `--data-dir`; the first that is there counts."""

    hub: HubSet | None = None
    """Its set on the hub."""

    options: str = ""
    """The letters to choose from."""

    template: str = "alpaca"
    """How a question becomes a prompt: "alpaca", or "plain" for as it stands."""

    max_new_tokens: int = 512
    """How long an answer may be, unless the user says otherwise."""

    version: int = 1
    """Raised when prompts or right answers change."""


@dataclass(frozen=True)
class Item:
    """One question of a benchmark."""

    id: str
    """Its own, or the task's name and its place in the file."""

    question: str
    """As the benchmark asks, with the options to choose from."""

    prompt: str
    """What a model is given to answer in words."""

    gold: str
    """The right answer as the benchmark writes it."""

    kind: str
    """Of the answer."""

    fields: Mapping[str, Any]
    """What else the row says: "options" (list of texts), "subject", "type"."""


_MATH_SUBJECTS = (
    *("algebra", "counting_and_probability", "geometry", "intermediate_algebra"),
    *("number_theory", "prealgebra", "precalculus"),
)
_MMLU_SUBJECTS = (
    *("abstract_algebra", "college_mathematics", "elementary_mathematics", "formal_logic"),
    "high_school_mathematics",
)

SEVEN = ("gsm8k", "math", "svamp", "simuleq", "aqua", "sat", "mmlu")
"""The paper's benchmarks, in its order."""

TASKS: Mapping[str, Task] = MappingProxyType(
    {
        task.name: task
        for task in (
            Task(
                "gsm8k",
                "GSM8K",
                "number",
                readers.read_gsm8k,
                ("gsm8k_test.jsonl", "gsm8k.jsonl"),
                HubSet("openai/gsm8k", ("main",)),
            ),
            Task(
                "math",
                "MATH",
                "math",
                readers.read_math,
                ("math.jsonl", "math_test.jsonl", "math.json", "MATH.json"),
                HubSet("EleutherAI/hendrycks_math", _MATH_SUBJECTS),
                max_new_tokens=1024,
            ),
            Task(
                "math500",
                "MATH-500",
                "math",
                readers.read_math,
                ("math500.jsonl",),
                HubSet("HuggingFaceH4/MATH-500", (None,)),
                max_new_tokens=1024,
            ),
            Task(
                "svamp",
                "SVAMP",
                "number",
                readers.read_svamp,
                ("svamp.json", "SVAMP.json"),
                HubSet("ChilleD/SVAMP", (None,), "train+test"),  # all 1,000, as the paper has them
            ),
            Task("simuleq", "SimulEq", "numbers", readers.read_simuleq, ("simuleq.json",)),
            Task(
                "aqua",
                "AQuA",
                "choice",
                readers.read_aqua,
                ("aqua.jsonl",),
                HubSet("deepmind/aqua_rat", ("raw",)),
                options="ABCDE",
            ),
            Task(
                "sat",
                "SAT-Math",
                "choice",
                readers.read_sat,
                ("sat.json",),
                HubSet("hails/agieval-sat-math", (None,)),
                options="ABCD",
            ),
            Task(
                "mmlu",
                "MMLU-Math",
                "choice",
                readers.read_mmlu,
                ("mmlu_mathematics.json",),
                HubSet("cais/mmlu", _MMLU_SUBJECTS),
                options="ABCD",
            ),
            Task(
                "arithmetic", "Held-out additions", "number", readers.read_addition, template="plain", max_new_tokens=16
            ),
        )
    }
)
"""The seven, MATH-500, and the embedded family's own held-out additions."""


def get_task(name: str) -> Task:
    """Look a task up by its name, or say which there are."""
    if name not in TASKS:
        raise InputError(f"`--benchmark` must name all or some of {', '.join(TASKS)}; got {name!r}.")
    return TASKS[name]


def parse_benchmarks(names: str, data_dir: Path | None = None) -> list[str]:
    """The tasks of `--benchmark`: names with commas, or "all" for the seven.

    Where "all" finds MATH-500 in `data_dir` and not the whole of MATH, it takes that.
    """
    if names != "all":
        return [get_task(name.strip()).name for name in dict.fromkeys(names.split(","))]
    short = data_dir is not None and _find_file(TASKS["math"], data_dir) is None
    if short and data_dir is not None and _find_file(TASKS["math500"], data_dir):
        return ["math500" if name == "math" else name for name in SEVEN]
    return list(SEVEN)


def load_task(name: str, data_dir: Path | str | None = None, limit: int | None = None) -> list[Item]:
    """The items of a benchmark, in the order of its file or set.

    Args:
        name: a key of `TASKS`.
        data_dir: folder with its file; without one it is fetched from the hub through `datasets`.
        limit: only the first so many.

    Raises:
        InputError: no such task; a file that is missing, of another shape, cut, or with a right answer that cannot be
            read (the message names file and line); or a hub that cannot be reached.
    """
    task = get_task(name)
    if limit is not None and limit < 1:
        raise InputError(f"`--limit` must be at least 1; got {limit}.")
    rows = _find_rows(task, Path(data_dir) if data_dir is not None else None)
    items = [_item(task, row, i) for i, row in enumerate(itertools.islice(rows, limit))]
    if len({item.id for item in items}) < len(items):
        raise InputError(f"{task.title} holds two rows of the same ID. Fetch the file again.")
    return items


def _find_rows(task: Task, data_dir: Path | None) -> Iterable[Row]:
    if task.name == "arithmetic":
        return (Row({"sample": sample}, sample.prompt) for sample in heldout_additions())
    if data_dir is not None:
        if (path := _find_file(task, data_dir)) is None:
            raise InputError(_missing(task, data_dir))
        return read_file(path) if path.is_file() or task.hub is None else read_hub(task.hub, task.files[0], path)
    if task.hub is None:
        raise InputError(f"{task.title} has no set on the hub: name a folder that holds {task.files[0]} by --data-dir.")
    return read_hub(task.hub, task.files[0])


def _find_file(task: Task, folder: Path) -> Path | None:
    """The task's file, else the downloaded copy of its set: a folder with the name that the set has on the hub."""
    found = next((folder / name for name in task.files if (folder / name).is_file()), None)
    if found is None and task.hub is not None and (copy := folder / task.hub.name.split("/")[1]).is_dir():
        return copy
    return found


def _missing(task: Task, folder: Path) -> str:
    if not folder.is_dir():
        return f"`--data-dir`: there is no folder {folder}.{what_is_beside(folder)}"
    copy = f" and no folder {task.hub.name.split('/')[1]}" if task.hub else ""
    message = f"`--data-dir` {folder} holds no {' or '.join(task.files)}{copy}."
    if task.name == "math" and _find_file(TASKS["math500"], folder):
        return message + " Put it there, or ask for --benchmark math500, which is there."
    return message + (
        f" Put it there, or {how_to_fetch(task.hub, str(folder))}." if task.hub else " Put the file there."
    )


def _item(task: Task, row: Row, index: int) -> Item:
    try:
        question = task.read(row.fields)
    except RowError as error:
        raise InputError(f"{row.where}: {error} Is it the file of {task.title}?") from None
    if not question.text.strip():
        raise InputError(f"{row.where}: the question is empty. Fetch the file again.")
    if not _is_answer(task, question.gold):
        raise InputError(
            f"{row.where}: the right answer {question.gold[:80]!r} cannot be read as a {task.kind}. "
            "Fetch the file again."
        )
    name = question.id or f"{task.name}-{index}"
    prompt = text_prompt(question.text, task.template)
    return Item(name, question.text, prompt, question.gold, task.kind, question.fields)


def _is_answer(task: Task, gold: str) -> bool:
    if task.kind == "choice":
        return len(gold) == 1 and gold in task.options
    stated = rf"\boxed{{{gold}}}" if task.kind == "math" else gold
    return read_answer(task.kind, stated).strict is not None


def fingerprint_items(items: Sequence[Item]) -> str:
    """SHA-256 over IDs, questions and right answers, wherever they came from."""
    facts = [[item.id, item.question, item.gold] for item in items]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

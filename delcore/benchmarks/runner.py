"""Running a model on benchmarks, one run folder for each: load, answer, run programs, read, record.

    delcore evaluate --model embedded --benchmark arithmetic
    accelerate launch --config_file delcore/launch/several_gpus.yaml -m delcore evaluate --model … --out runs/qwen …

With several processes the items are dealt out, each process keeps what it has finished in a file of its own, and the
main one makes the records of them.
"""

import dataclasses
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from delcore.answers import equal_answers
from delcore.benchmarks.generate import Answer, Batch, answer_greedily
from delcore.benchmarks.prompts import CUTS, find_program, program_prompt
from delcore.benchmarks.records import (
    Parts,
    PartsFile,
    check_folder,
    drop_parts,
    open_run,
    read_parts,
    spent_seconds,
    write_run,
)
from delcore.benchmarks.saved_runs import EvaluationRun, read_run
from delcore.benchmarks.scoring import OUTPUT_CUT, make_record, remake_record, score_program
from delcore.benchmarks.settings import EvaluationConfig, fingerprint_model, make_header
from delcore.benchmarks.tasks import Item, Task, get_task, load_task
from delcore.benchmarks.team import Shown, Team
from delcore.errors import InputError, StoppedError
from delcore.memory import is_out_of_memory
from delcore.models import LoadedModel, load_model
from delcore.programs import OUTPUT_BYTES, ProgramResult, check_sandbox, run_programs
from delcore.runs import Progress
from delcore.stopping import StopRequests

PROGRAM_WORKERS = 4
RUNS = Path("runs", "evaluate")


def evaluate_model(
    config: EvaluationConfig, *, loaded: LoadedModel | None = None, progress: Progress | None = None
) -> list[EvaluationRun]:
    """Run a model on benchmarks; what is in `config.out` already is not run again.

    Ctrl-C and SIGTERM end it after the token at hand; the same command goes on from there.

    Args:
        config: the run.
        loaded: a model in place of `config.model` (it is moved to `config.device` and `config.dtype`, and stays so).
        progress: called with one line of text from time to time.

    Raises:
        InputError: anything in `config` that cannot be used, files that are not as they should be, or an `out` with
            other settings in it. All of it is found before the first answer.
        StoppedError: a signal came.
    """
    team = Team(config.device)
    progress = progress if team.rank == 0 else None
    if config.run_programs:
        check_sandbox()
    if any(get_task(name).kind == "math" for name in config.benchmarks):
        equal_answers("math", r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}")  # says here what it needs, not in the end
    items = {name: load_task(name, config.data_dir, config.limit) for name in config.benchmarks}
    model, tokenizer, card = loaded or load_model(config.model, trust_remote_code=config.trust_remote_code)
    fingerprint = fingerprint_model(LoadedModel(model, tokenizer, card))
    model = model.to(team.device, getattr(torch, config.dtype))
    torch.manual_seed(config.seed)
    out = config.out or default_folder(config, card.name, fingerprint)
    jobs = []
    for name, asked in items.items():
        task = get_task(name)
        header = make_header(config, task, asked, LoadedModel(model, tokenizer, card), fingerprint, team.size)
        check_folder(out / name, header)
        jobs.append(Job(config, task, asked, out / name, header))
    for job in jobs:  # none is opened before all are found to be in order
        open_run(job.path, job.header)
    team.wait()
    with StopRequests() as stop:
        return [run_job(job, LoadedModel(model, tokenizer, card), team, progress, lambda: stop.signal) for job in jobs]


def default_folder(config: EvaluationConfig, model: str, fingerprint: str) -> Path:
    """A folder of its own for every model and every setting that changes answers: a trial leaves the whole run alone.

    For model "a/b" under `--limit 5` it ends in a-b-01234567-limit-5.
    """
    named = ("limit", "max_new_tokens", "style", "dtype", "seed")
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    chosen = {name: value for name in named if (value := getattr(config, name)) != defaults[name]}
    parts = [model, fingerprint[:8], *(f"{name.replace('_', '-')}-{value}" for name, value in chosen.items())]
    return RUNS / "-".join(re.sub(r"[^\w.-]+", "-", part) for part in parts)


@dataclass(frozen=True)
class Job:
    """One benchmark of a run."""

    config: EvaluationConfig
    task: Task
    items: Sequence[Item]
    path: Path
    header: dict[str, Any]


# ---------------------------------------------------------------- one benchmark


def run_job(
    job: Job, loaded: LoadedModel, team: Team, progress: Progress | None, signal: Callable[[], int]
) -> EvaluationRun:
    """Answer what has no answer yet, and make the records."""
    started = time.perf_counter()
    if is_done(before := read_run(job.path)):
        return before
    team.wait()  # everybody has looked; from here on files change
    with PartsFile(job.path, team.rank) as file:
        team.wait()  # no other run can change from here on what is there
        before, parts = read_run(job.path), read_parts(job.path)
        if not is_done(before):
            kept = {record["index"]: record for record in before.records}
            earlier = (before.header["seconds"] or 0.0) + spent_seconds(job.path)
            shown = Shown(job.task.title, len(job.items), len(kept.keys() | parts.keys()), progress)
            team.wait()
            parts = answer_missing(job, loaded, file, kept, parts, team, shown, signal)
            if team.rank == 0:
                seconds = round(earlier + time.perf_counter() - started, 2)
                write_run(job.path, {**job.header, "seconds": seconds}, records_of(job, kept, parts))
    team.wait()
    if team.rank == 0:
        drop_parts(job.path)
    team.wait()
    return read_run(job.path)


def is_done(run: EvaluationRun) -> bool:
    """Whether nothing is left to do; the header gets its seconds last."""
    return run.finished and run.header["seconds"] is not None


def answer_missing(
    job: Job,
    loaded: LoadedModel,
    file: PartsFile,
    kept: Mapping[int, Any],
    parts: Parts,
    team: Team,
    shown: Shown,
    signal: Callable[[], int],
) -> Parts:
    """Let the model answer what has no answer yet, and return the parts of all processes."""
    for part in ("program", "text") if job.config.style == "pot" else ("text",):
        prompts = dealt(pending(job, kept, parts, part), team)
        last = time.perf_counter()
        for batch in answered(job, loaded, part, prompts, lambda: signal() != 0, shown.say):
            now = time.perf_counter()
            for index, facts in batch.items():
                file.add(index, part, {**facts, "seconds": (now - last) / len(batch)})
            last = now
            shown.add(part, len(batch), len(prompts))
        if signal():
            raise StoppedError(signal())
        team.wait()
        parts = read_parts(job.path)  # of all processes: whose programs gave no answer is asked in words
        team.wait()
    return parts


def records_of(job: Job, kept: Mapping[int, dict[str, Any]], parts: Parts) -> list[dict[str, Any]]:
    """A record for every item: one that was there, read by today's reader too, or one made of what was written."""
    missing = [i for i in range(len(job.items)) if i not in kept and i not in parts]
    if missing:
        raise InputError(
            f"{len(missing)} items have no answer in {job.path}. All processes must write to the same disk; "
            "the same command goes on with what is missing."
        )
    return [
        remake_record(kept[i]) if i in kept else make_record(facts_of(item, i), parts[i])
        for i, item in enumerate(job.items)
    ]


def pending(job: Job, kept: Mapping[int, Any], parts: Parts, part: str) -> dict[int, str]:
    """Prompts of one part that still need an answer."""
    found = {}
    for i, item in enumerate(job.items):
        done = parts.get(i, {})
        if i in kept or part in done:
            continue
        if part == "text" and "program" in done and answers(item, done["program"]):
            continue
        found[i] = program_prompt(item.question, job.task.template) if part == "program" else item.prompt
    return found


def answers(item: Item, program: Mapping[str, Any]) -> bool:
    """Whether a program's output can be read, so that nobody need be asked in words."""
    return score_program(item.kind, program, item.gold, item.fields.get("options") or ()) is not None


def dealt(prompts: Mapping[int, str], team: Team) -> dict[int, str]:
    """This process's share; lengths are spread evenly over the processes."""
    order = sorted(prompts, key=lambda i: (-len(prompts[i]), i))
    return {i: prompts[i] for i in order[team.rank :: team.size]}


def answered(
    job: Job,
    loaded: LoadedModel,
    part: str,
    prompts: Mapping[int, str],
    stopped: Callable[[], bool],
    say: Progress | None,
) -> Iterator[dict[int, dict[str, Any]]]:
    """What the model writes to each prompt, and what its program prints; batch by batch."""
    batches = _explained(
        answer_greedily(
            loaded.model,
            loaded.tokenizer,
            prompts,
            cut=CUTS[part],
            max_new_tokens=job.header["settings"]["max_new_tokens"],
            batch_size=job.config.batch_size,
            context=loaded.card.context,
            stopped=stopped,
            say=say,
        )
    )
    for batch in batches:
        facts = [{"prompt": prompts[i], **answer._asdict()} for i, answer in batch]
        if part == "program":
            facts = [{**one, **ran} for one, ran in zip(facts, run_answers([a for _, a in batch]), strict=True)]
        yield dict(zip((i for i, _ in batch), facts, strict=True))


def _explained(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The same batches; where memory runs out, what to do."""
    try:
        yield from batches
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise InputError(
            "Memory does not hold a batch of answers. Lower --batch-size or --max-new-tokens; the same command goes on "
            "with what is missing."
        ) from error


def run_answers(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """The outcome of the program in each answer; its status is None where there is none."""
    sources = [find_program(answer.output) for answer in answers]
    results = run_programs([source for source in sources if source is not None], workers=PROGRAM_WORKERS)
    return [
        {"status": None, "printed": "", "detail": "no program in it"} if source is None else outcome_of(next(results))
        for source in sources
    ]


def outcome_of(result: ProgramResult) -> dict[str, Any]:
    """How a program ended, for a record; one that printed more than is kept has an outcome of its own."""
    if result.status == "ok" and result.cut:
        kept = f"it printed more than the {OUTPUT_BYTES:,} bytes that are kept, so its end is missing"
        return {"status": OUTPUT_CUT, "printed": result.output, "detail": kept}
    return {"status": result.status, "printed": result.output, "detail": result.detail}


def facts_of(item: Item, index: int) -> dict[str, Any]:
    """What a record needs to know of an item."""
    options = item.fields.get("options") or []
    return {"index": index, "id": item.id, "kind": item.kind, "gold": item.gold, "options": options}

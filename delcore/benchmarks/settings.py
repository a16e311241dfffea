"""What an evaluation needs to know, checked before anything is loaded, and the header that records it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from delcore.benchmarks.prompts import check_style
from delcore.benchmarks.saved_runs import FORMAT
from delcore.benchmarks.scoring import READER_VERSION
from delcore.benchmarks.tasks import Item, Task, fingerprint_items, get_task
from delcore.config import MOST
from delcore.errors import InputError
from delcore.models import LoadedModel
from delcore.versions import installed_versions

DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class EvaluationConfig:
    """What is to be run.

    Raises:
        InputError: a value out of range, named as on the command line.
    """

    model: str
    """As `load_model` takes it."""

    benchmarks: Sequence[str]
    """Keys of `TASKS`."""

    out: Path | None = None
    """Gets a run folder for each benchmark; None for one below `RUNS`, named after the model and what is not usual."""

    data_dir: Path | None = None
    """Folder with the benchmarks' files; None for the hub."""

    limit: int | None = None
    """Only the first so many items of each."""

    style: str = "cot"
    """"cot", or "pot" for programs first."""

    run_programs: bool = False
    """Run the programs that a model writes, in a sandbox."""

    batch_size: int = 16
    """Prompts at a time."""

    max_new_tokens: int | None = None
    """Longest answer; None for the task's own."""

    seed: int = 0
    """Of everything random; greedy answers have nothing."""

    device: str = "auto"
    """"auto" (a GPU if there is one), "cpu", "cuda" …"""

    dtype: str = "float32"
    """Of the weights."""

    trust_remote_code: bool = False
    """Run Python files that come with the model."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name in self.benchmarks:
            get_task(name)
        for name in ("limit", "batch_size", "max_new_tokens"):
            if (value := getattr(self, name)) is not None and not 1 <= value <= MOST:
                raise InputError(f"`--{name.replace('_', '-')}` must lie in [1, {MOST:,}]; got {value}.")
        if not 0 <= self.seed <= MOST:
            raise InputError(f"`--seed` must lie in [0, {MOST:,}]; got {self.seed}.")
        if self.dtype not in DTYPES:
            raise InputError(f"`--dtype` must be one of {', '.join(DTYPES)}; got {self.dtype!r}.")
        check_style(self.style, run_programs=self.run_programs)


def make_header(
    config: EvaluationConfig, task: Task, items: Sequence[Item], loaded: LoadedModel, fingerprint: str, processes: int
) -> dict[str, Any]:
    """evaluation.json, with `seconds` None until all is done."""
    settings = {
        "limit": config.limit,
        "template": task.template,
        "max_new_tokens": config.max_new_tokens or task.max_new_tokens,
        "batch_size": config.batch_size,
        "run_programs": config.run_programs,
        "dtype": config.dtype,
        "device": next(loaded.model.parameters()).device.type,
    }
    return {
        "format": FORMAT,
        "task": task.name,
        "task_version": task.version,
        "reader_version": READER_VERSION,
        "style": config.style,
        "model": loaded.card.name,
        "model_source": loaded.card.source,
        "model_fingerprint": fingerprint,
        "settings": settings,
        "processes": processes,
        "seed": config.seed,
        "versions": reading_versions(),
        "data_sha256": fingerprint_items(items),
        "items": len(items),
        "seconds": None,
    }


def reading_versions() -> dict[str, str]:
    """Of what decides over answers and readings."""
    return installed_versions("delcore", "torch", "transformers", "math-verify")


def fingerprint_model(loaded: LoadedModel) -> str:
    """SHA-256 of all that answers depend on: every weight, the tokenizer and its end token."""
    model, tokenizer, _ = loaded
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    backend = getattr(tokenizer, "backend_tokenizer", None)
    facts = (sorted(tokenizer.get_vocab().items()), tokenizer.eos_token_id, backend.to_str() if backend else "")
    digest.update(repr(facts).encode())
    return digest.hexdigest()

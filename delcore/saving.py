"""What a run saves: its training state in checkpoints, and at the end a model that others can load."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

from delcore.checkpoints import check_space, tensor_bytes
from delcore.config import process_rank
from delcore.prepare import Job
from delcore.runs import MetricsLog, run_record

# Whole tensors under the model's own names, whether one process holds them, DDP copies or FSDP shards.
GATHER = StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=True)
SPREAD = StateDictOptions(full_state_dict=True, strict=False)


def training_state(step: int, model: Any, optimizer: Any, log: MetricsLog, accelerator: Any) -> dict[str, Any]:
    """All that the rest of a run depends on; every process calls it.

    Frozen weights are left out: they are those of the model that the run began with.
    """
    from accelerate.utils import gather_object

    weights, moments = get_state_dict(model, optimizer.optimizer, options=GATHER)
    random = {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None}
    return {
        "step": step,
        "model": weights,
        "optimizer": moments,
        "random": gather_object([random]),
        "log": log.state(),
    }


def restore(state: Mapping[str, Any], model: Any, optimizer: Any) -> None:
    """Put weights, moments and random numbers back as they were after `state["step"]`; the log takes its own."""
    set_state_dict(
        model,
        optimizer.optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
        options=SPREAD,
    )
    random = state["random"][process_rank() % len(state["random"])]
    torch.set_rng_state(random["cpu"])
    if random["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(random["cuda"])


# ---------------------------------------------------------------- the run folder


def save_record(job: Job, facts: Mapping[str, Any]) -> None:
    """Write `config.json`, which holds the run's record as "delcore"."""
    job.config.out.mkdir(parents=True, exist_ok=True)
    _set_record(job, facts)
    _move_into(job.config.out, lambda scratch: job.model.config.save_pretrained(scratch))


def save_run(job: Job, model: Any, accelerator: Any, facts: Mapping[str, Any]) -> None:
    """Save weights (safetensors), tokenizer and record, each file whole or not at all; every process calls it.

    Adapters are saved by themselves, unless their base is embedded in this package: then they are merged.
    """
    plain = accelerator.unwrap_model(model).model
    weights = accelerator.get_state_dict(model)
    if not accelerator.is_main_process:
        return
    weights = {key.removeprefix("model."): value for key, value in weights.items() if key != "embedding"}
    plain.eval()
    if job.config.lora_rank and job.card.source == "embedded":
        plain, weights = plain.merge_and_unload(), None
    check_space(job.config.out, tensor_bytes(weights or plain.state_dict()))
    _set_record(job, facts)

    def write(scratch: Path) -> None:
        plain.save_pretrained(scratch, state_dict=weights)
        job.tokenizer.save_pretrained(scratch)
        job.model.config.save_pretrained(scratch)

    _move_into(job.config.out, write)


def _set_record(job: Job, facts: Mapping[str, Any]) -> None:
    job.model.config.delcore = run_record(job.config, facts)


def _move_into(out: Path, write: Any) -> None:
    """Let `write` fill a folder, then move its files into `out`, the record last."""
    scratch = out / ".saving"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        write(scratch)
        for file in sorted(scratch.iterdir(), key=lambda file: file.name == "config.json"):
            os.replace(file, out / file.name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)

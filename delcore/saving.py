"""What a run saves: its training state in checkpoints, and at the end a model that others can load."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

from delcore import __version__
from delcore.adapters import ADAPTER_RECORD
from delcore.checkpoints import check_space, tensor_bytes, why_not_written, write_json
from delcore.config import process_rank
from delcore.errors import InputError
from delcore.prepare import SCRATCH, Job
from delcore.runs import MetricsLog, run_record

# Whole tensors under the model's own names, whether one process holds them, DDP copies or FSDP shards.
GATHER = StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=True)
GATHER_ALL = StateDictOptions(full_state_dict=True, cpu_offload=True)
SPREAD = StateDictOptions(full_state_dict=True, strict=False)


def training_state(step: int, model: Any, optimizer: Any, log: MetricsLog) -> dict[str, Any]:
    """All that the rest of a run depends on; every process calls it.

    Frozen weights are left out: they are those of the model that the run began with.
    """
    from accelerate.utils import gather_object

    if optimizer.state:
        weights, moments = get_state_dict(model, optimizer.optimizer, options=GATHER)
    else:  # no step had anything to learn; asking for moments would make some, and count a step
        weights, moments = get_model_state_dict(model, options=GATHER), {}
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
    set_model_state_dict(model, state["model"], options=SPREAD)
    if state["optimizer"]:
        set_optimizer_state_dict(model, optimizer.optimizer, state["optimizer"], options=SPREAD)
    random = state["random"][process_rank() % len(state["random"])]
    torch.set_rng_state(random["cpu"])
    if random["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(random["cuda"])


# ---------------------------------------------------------------- the run folder


def save_record(job: Job, facts: Mapping[str, Any]) -> None:
    """Write the run's record: "delcore" in `config.json`, or `delcore.json` where adapters will lie beside it."""
    job.config.out.mkdir(parents=True, exist_ok=True)
    _move_into(job.config.out, lambda scratch: _write_record(job, facts, scratch))


def check_merge(job: Job, sharded: bool) -> None:
    """Refuse adapters that would be merged at the end with a base of which each process holds a part.

    Raises:
        InputError: they would be.
    """
    if sharded and job.config.lora_rank and not job.keeps_adapters:
        raise InputError(
            f"Adapters on {job.card.name} would be merged at the end, which does not go with FSDP. "
            "Train them in one process, or without FSDP (delcore/launch/several_gpus.yaml)."
        )


def save_run(job: Job, model: Any, accelerator: Any, facts: Mapping[str, Any]) -> None:
    """Save weights (safetensors), tokenizer and record, each file whole or not at all; every process calls it.

    Adapters are saved by themselves, unless their base lies in no file of its own: then they are merged.

    Raises:
        InputError: the disk is too small, or cannot be written.
    """
    plain = accelerator.unwrap_model(model).model
    gathered = get_model_state_dict(model, options=GATHER_ALL)
    if not accelerator.is_main_process:
        return
    twins = {"embedding", *(f"model.{key}" for key in getattr(plain, "all_tied_weights_keys", {}))}
    weights: dict[str, Any] | None = {
        key.removeprefix("model."): value for key, value in gathered.items() if key not in twins
    }
    plain.eval()
    if job.config.lora_rank and not job.keeps_adapters:
        plain, weights = plain.merge_and_unload(), None
    needed = tensor_bytes(weights or plain.state_dict())
    if job.keeps_adapters:
        from peft import get_peft_model_state_dict

        needed = tensor_bytes(get_peft_model_state_dict(plain, state_dict=weights))
    check_space(job.config.out, needed)

    def write(scratch: Path) -> None:
        plain.save_pretrained(scratch, state_dict=weights)
        job.tokenizer.save_pretrained(scratch)
        _write_record(job, facts, scratch)
        if job.keeps_adapters:  # peft leaves a card with nothing but gaps
            (scratch / "README.md").write_text(adapter_card(job, facts), encoding="utf-8")

    _move_into(job.config.out, write, needed)


def adapter_card(job: Job, facts: Mapping[str, Any]) -> str:
    """The README.md of a folder with adapters: what they are, in facts alone; texts of a user's are quoted as JSON.

    It is made to be shared, so a base on this machine goes by its last name only.
    """
    shown = {
        "base": Path(job.card.path).name if job.card.path else job.card.name,
        "loss": job.config.loss,
        "data": job.config.data,
        "steps": facts.get("steps_done", job.config.steps),
        "lora_rank": job.config.lora_rank,
        "seed": job.config.seed,
    }
    lines = [f"    {name}: {json.dumps(value)}" for name, value in shown.items()]
    hub_id = [] if job.card.path else [f"base_model: {json.dumps(job.card.name)}"]
    return "\n".join(
        [
            "---",
            "library_name: peft",
            *hub_id,
            "---",
            "",
            f"LoRA adapters, fine-tuned with delcore {__version__}:",
            "",
            *lines,
            "",
            "`delcore.load_model` and PEFT's `AutoPeftModelForCausalLM` read this folder. The record of the run is",
            f"`{ADAPTER_RECORD}`.",
            "",
        ]
    )


def _write_record(job: Job, facts: Mapping[str, Any], folder: Path) -> None:
    record = run_record(job.config, facts)
    if job.keeps_adapters:
        write_json(folder / ADAPTER_RECORD, record)
    else:
        job.model.config.delcore = record
        job.model.config.save_pretrained(folder)


def _move_into(out: Path, write: Callable[[Path], None], needed: int = 0) -> None:
    """Let `write` fill a folder, then move its files into `out`, the record last."""
    scratch = out / SCRATCH
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir()
        write(scratch)
        for file in sorted(scratch.iterdir(), key=lambda file: file.name in (ADAPTER_RECORD, "config.json")):
            os.replace(file, out / file.name)
    except (OSError, RuntimeError, SafetensorError) as error:
        shutil.rmtree(scratch, ignore_errors=True)  # what it holds is missing from the disk
        raise InputError(
            f"{out} cannot be written: {why_not_written(out, needed, error)}. What was there is as it was. "
            "Free some space, then go on with --resume."
        ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)

"""What the training loop costs: tokens per second and peak memory against Hugging Face's `Trainer`, side by side.

    delcore bench train --model embedded
    delcore bench train --model FILE.gguf --data FILE.jsonl --lora-rank 4 --batch-size 8 --micro-batch-size 4

Both train the same model on the same samples in the same steps under plain likelihood, prompts masked, in turns; the
loop a second time under `del`. A ratio compares two neighbours of one round. The first step of each run does not
count. Memory is what a run needs at its peak beyond what it began with, and beyond gradients and optimiser state; for
it each takes its turns once more in processes of their own, because in one process a run reuses what another freed.
"""

import copy
import dataclasses
import gc
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from delcore.adapt import adapt
from delcore.bench import format_ratios, format_spread, machine, measure_peak, spread
from delcore.config import TrainConfig
from delcore.data import collate, count_step
from delcore.errors import InputError
from delcore.memory.fake_pass import size_of
from delcore.models import LoadedModel, load_model, quiet_libraries
from delcore.prepare import Job, prepare
from delcore.train import encode_step, finetune, learning_rate_factor, make_optimizer

OURS, OTHER, DEL = "delcore", "Trainer", "delcore del"
MEMORY_ROUNDS = 3


def bench_training(
    config: TrainConfig, rounds: int = 7, progress: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Run the loop and `Trainer` in turns.

    Args:
        config: the run to measure; its `steps` are those of one turn, at least 3.
        rounds: turns that count, after one that does not.
        progress: called with one line of text from time to time.

    Returns:
        The settings, the machine, and median, lowest and highest ratio of tokens per second and of memory.

    Raises:
        InputError: the batch is no whole number of micro-batches.
    """
    if config.batch_size % config.micro_batch():
        raise InputError(
            f"`--batch-size` {config.batch_size} must be a multiple of `--micro-batch-size` {config.micro_batch()}: "
            "Trainer takes whole micro-batches only."
        )
    loaded = load_model(config.model, trust_remote_code=config.trust_remote_code)
    turns: list[dict[str, dict[str, float]]] = []
    for number in range(rounds + 1):
        gc.collect()
        turns.append({name: run(config, loaded) for name, run in RUNS.items()})
        if progress:
            progress(f"round {number}/{rounds}" + ("  (warm-up)" if number == 0 else ""))
    counted = turns[1:]
    memory = measure_memory(config, min(rounds, MEMORY_ROUNDS), progress)
    return {
        "settings": {key: getattr(config, key) for key in ("model", "data", "steps", "batch_size", "lora_rank")}
        | {"micro_batch_size": config.micro_batch(), "rounds": rounds},
        "machine": machine("cpu" if config.device == "auto" and not torch.cuda.is_available() else config.device),
        "tokens_per_second": _ratio(counted, OURS, OTHER, "tokens_per_second"),
        "memory": _ratio(memory, OURS, OTHER, "bytes"),
        "del_step_time": _ratio(counted, OURS, DEL, "tokens_per_second"),
        "loss_difference": statistics.median(turn[OURS]["loss"] - turn[OTHER]["loss"] for turn in counted),
    }


def _ratio(
    turns: Sequence[dict[str, dict[str, float]]], one: str, other: str, key: str
) -> tuple[float, float, float] | None:
    """None where a peak cannot be measured, or was lost among what libraries take, as with a tiny model's."""
    if any(turn[name][key] <= 0 for turn in turns for name in (one, other)):
        return None
    return spread([turn[one][key] / turn[other][key] for turn in turns])


def measure_memory(
    config: TrainConfig, rounds: int, progress: Callable[[str], None] | None = None
) -> list[dict[str, dict[str, float]]]:
    """The figures of the loop and of `Trainer`, every turn in a fresh process that ends with it."""
    turns = []
    for number in range(1, rounds + 1):
        turns.append({name: _in_own_process(name, config) for name in (OURS, OTHER)})
        if progress:
            progress(f"memory, round {number}/{rounds}")
    return turns


def _in_own_process(name: str, config: TrainConfig) -> dict[str, float]:
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(run_alone, name, config, torch.get_num_threads()).result()


def run_alone(name: str, config: TrainConfig, threads: int) -> dict[str, float]:
    """One turn on a model that nothing else holds."""
    quiet_libraries()
    torch.set_num_threads(threads)
    return RUNS[name](config, load_model(config.model, trust_remote_code=config.trust_remote_code))


# ---------------------------------------------------------------- one turn of each


def _run_ours(config: TrainConfig, loaded: LoadedModel, loss: str = "mle") -> dict[str, float]:
    fresh = loaded._replace(model=copy.deepcopy(loaded.model))
    with tempfile.TemporaryDirectory() as folder:
        settings = dataclasses.replace(config, loss=loss, out=Path(folder) / "run", log_every=1, alpha=None)
        run, peak = measure_peak(lambda: finetune(settings, loaded=fresh), config.device)
    counted = run.metrics[1:]
    seconds = sum(line["tokens"] / line["tokens_per_second"] for line in counted)
    return _figures(sum(line["tokens"] for line in counted) / seconds, peak, fresh.model, run.metrics[-1])


def _run_trainer(config: TrainConfig, loaded: LoadedModel) -> dict[str, float]:
    from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

    fresh = loaded._replace(model=copy.deepcopy(loaded.model))
    job = prepare(dataclasses.replace(config, loss="mle", out=Path(tempfile.gettempdir()) / "unused"), fresh)
    stamps: list[float] = []

    class Clock(TrainerCallback):
        """Notes when each optimiser step ends."""

        def on_step_end(self, *_: Any, **__: Any) -> None:
            stamps.append(time.perf_counter())

    def collate_batch(encoded: Sequence[Any]) -> dict[str, torch.Tensor]:
        batch = collate(encoded, job.pad)
        return {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask, "labels": batch.labels}

    def train() -> Any:
        model = adapt(fresh.model, config)
        samples = _Steps(job)
        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(
                model=model,
                args=TrainingArguments(folder, **_arguments(config)),
                train_dataset=samples,
                data_collator=collate_batch,
                optimizers=_optimizer(model, config),
                callbacks=[Clock()],
            )
            trainer.remove_callback(PrinterCallback)  # which writes every log line on standard output
            trainer.train()
        return trainer.state.log_history, samples.supervised

    (history, supervised), peak = measure_peak(train, config.device)
    seconds = stamps[-1] - stamps[0]
    last = [line["loss"] for line in history if "loss" in line][-1]
    return _figures(sum(supervised[1:]) / seconds, peak, fresh.model, {"cross_entropy": last})


class _Steps(Dataset[Any]):
    """The samples of all steps, tokenised before the clock starts."""

    def __init__(self, job: Job) -> None:
        steps = [encode_step(job, step) for step in range(1, job.config.steps + 1)]
        self.samples = [sample for step in steps for sample in step]
        self.supervised = [count_step(step, job.vocab)[0] for step in steps]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self.samples[index]


def _arguments(config: TrainConfig) -> dict[str, Any]:
    micro = config.micro_batch()
    return {
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": config.batch_size // micro,
        "max_steps": config.steps,
        "max_grad_norm": config.clip,
        "train_sampling_strategy": "sequential",
        "remove_unused_columns": False,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": config.device == "cpu" or not torch.cuda.is_available(),
        "bf16": config.precision == "bf16-mixed",
        "seed": config.seed,
    }


def _optimizer(model: Any, config: TrainConfig) -> tuple[Any, Any]:
    optimizer = make_optimizer(model, config)
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate_factor(step, config))


def _figures(speed: float, peak: float | None, model: Any, last: Any) -> dict[str, float]:
    """Gradients and AdamW's two moments are the same for both, and are taken off the peak."""
    state = 3 * sum(size_of(parameter) for parameter in model.parameters() if parameter.requires_grad)
    return {"tokens_per_second": speed, "bytes": (peak or 0.0) - state, "loss": last["cross_entropy"]}


RUNS: dict[str, Callable[[TrainConfig, LoadedModel], dict[str, float]]] = {
    OURS: _run_ours,
    OTHER: _run_trainer,
    DEL: lambda config, loaded: _run_ours(config, loaded, "del"),
}


def format_training(result: dict[str, Any]) -> str:
    """The ratios as a table for people."""
    rows = {
        "tokens per second, against Trainer": result["tokens_per_second"],
        "peak memory beyond gradients and optimiser, against Trainer": result["memory"],
        "time of a step under del, against mle": result["del_step_time"],
    }
    lines = [f"{name:<62}{format_spread(found, 'too small to measure')}" for name, found in rows.items()]
    lines.append(f"{'cross-entropy of the last step, less that of Trainer':<62}{result['loss_difference']:+.1e} nats")
    return format_ratios(result["machine"], result["settings"], lines)

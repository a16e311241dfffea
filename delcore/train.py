"""The training loop, from top to bottom.

    delcore train --loss del --model embedded --data arithmetic --steps 200 --out runs/del
    accelerate launch --config_file delcore/launch/several_gpus.yaml -m delcore train ...    # several processes

A run folder holds `config.json` (settings, versions, data fingerprint), `metrics.jsonl` (one line per logged
step), safetensors weights and the tokenizer, so that `AutoModelForCausalLM.from_pretrained(run)` works. The
embedded family was made by this loop.

One optimiser step takes `batch_size` samples, the same ones for every loss, however they are cut into micro-batches
and dealt to processes: the loss is divided by the tokens and digits of the whole step.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from delcore.adapt import adapt
from delcore.checkpoints import drop_checkpoints, load_checkpoint, save_checkpoint
from delcore.config import TrainConfig, process_count, process_rank
from delcore.data import Batch, Encoded, count_step, encode_sample, micro_batches
from delcore.errors import InputError, StoppedError
from delcore.loss_model import LossModel
from delcore.losses import get_loss
from delcore.memory import (
    available_memory,
    check_memory,
    estimate_memory,
    explain_out_of_memory,
    format_estimate,
    is_out_of_memory,
)
from delcore.models import LoadedModel
from delcore.orders import iterate_samples
from delcore.prepare import CHECKPOINTS, Job, pick_device, prepare, record_facts
from delcore.runs import SUMS, MetricsLog, Progress, sum_measures
from delcore.saving import check_merge, restore, save_record, save_run, training_state
from delcore.stopping import StopRequests

BETA1 = 0.9
"""AdamW's first decay rate."""


@dataclass(frozen=True)
class Run:
    """A run that has ended: its folder, its logged metrics and its configuration."""

    path: Path
    metrics: list[dict[str, Any]]
    config: TrainConfig

    steps_done: int
    """Fewer than `config.steps` after an interrupt."""

    heldout: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """Lines of heldout.jsonl."""

    stopped_by: int | None = None
    """The signal that ended it early."""


def finetune(config: TrainConfig, *, loaded: LoadedModel | None = None, progress: Progress | None = None) -> Run:
    """Train a model under one loss and save it.

    Everything that can be wrong with the input is found before the run folder is made. Ctrl-C and SIGTERM end the
    run after the step at hand, with a checkpoint to go on from and the weights as they are.

    Args:
        config: the run.
        loaded: a model to train in place of `config.model` (it is changed).
        progress: called with one line of text from time to time.

    Raises:
        InputError: anything in `config` that cannot be used, or a loss that is not finite any more.
    """
    progress = progress if process_rank() == 0 else None
    job = prepare(config, loaded, progress)
    config = job.config
    accelerator = make_accelerator(config)
    ranks = accelerator.num_processes
    device = accelerator.device if ranks > 1 else pick_device(config.device)
    if device.type == "cuda":
        torch.cuda.set_device(device)

    loss_model = LossModel(
        adapt(job.model, config), config.loss, job.vocab, alpha=config.alpha, lean=config.lean, **config.options
    )
    sharded = accelerator.distributed_type == "FSDP"
    check_merge(job, sharded)
    estimate = estimate_memory(
        loss_model, config, longest=longest_sample(job), ranks=ranks, device=device, sharded=sharded
    )
    if progress:
        progress(format_estimate(estimate))
    check_memory(estimate, available_memory(device), config)
    loss_model = loss_model.to(device)
    if config.lean and loss_model.why_full and progress:
        progress(loss_model.why_full)
    model, optimizer = accelerator.prepare(loss_model, make_optimizer(loss_model, config))

    facts = record_facts(job, ranks)
    accelerator.wait_for_everyone()  # every process has found the run folder as it has to be
    if accelerator.is_main_process:
        save_record(job, facts)
    state = load_checkpoint(job.checkpoint) if job.checkpoint else None
    steps_done = state["step"] if state else 0
    reduce = functools.partial(accelerator.reduce, reduction="sum")
    log = MetricsLog(config, progress, resumed=state, device=device, reduce=reduce, writes=accelerator.is_main_process)
    if state:
        restore(state, model, optimizer)
        log.say(f"Going on after step {steps_done}.")
    heldout_encoded = [encode(job, sample) for sample in job.heldout]
    heldout_counts = count_step(heldout_encoded, job.vocab)
    heldout = deal(job, heldout_encoded, accelerator)

    stopped_by = None
    with StopRequests() as stop:
        try:
            for step in range(steps_done + 1, config.steps + 1):
                encoded = encode_step(job, step)
                n_tokens, n_digits = count_step(encoded, job.vocab)
                log.count(encoded)
                if n_tokens > 0:  # else there is nothing to learn: even momentum must not move the weights
                    batches = deal(job, encoded, accelerator)
                    sums = torch.zeros(len(SUMS), device=device)
                    for batch in batches:
                        last = batch is batches[-1]
                        with nullcontext() if last else accelerator.no_sync(model):
                            output = model(**inputs_of(batch, device), step_tokens=n_tokens, step_digits=n_digits)
                            # Gradients are averaged over processes, but the counts are sums over them.
                            accelerator.backward(output.total * ranks)
                        sums += sum_measures(output)
                    rate = config.learning_rate * learning_rate_factor(step - 1, config)
                    for group in optimizer.param_groups:
                        group["lr"] = rate
                    norm = accelerator.clip_grad_norm_(model.parameters(), config.clip or math.inf)
                    optimizer.step()
                    optimizer.zero_grad()
                    log.add(step, sums, norm, rate)
                steps_done = step
                if config.eval_every and (step % config.eval_every == 0 or step == config.steps):
                    log.add_heldout(step, measure_heldout(model, config.loss, heldout, heldout_counts, device))
                stopped_by = stop.agreed(reduce, device)
                due = config.save_every and step % config.save_every == 0
                if (stopped_by or due) and step < config.steps:
                    state = training_state(step, model, optimizer, log)
                    if accelerator.is_main_process:
                        keep(config, step, state, log, stopped=bool(stopped_by))
                if stopped_by:
                    break
            log.finish(steps_done)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise explain_out_of_memory(error, estimate, config) from error
        finally:
            log.close()
        save_run(job, model, accelerator, {**facts, **log.tally, "steps_done": steps_done})
        if steps_done == config.steps and accelerator.is_main_process:
            drop_checkpoints(config.out / CHECKPOINTS)
    return Run(config.out, log.lines, config, steps_done, log.heldout, stopped_by)


def finetune_to_end(config: TrainConfig, progress: Progress | None = None) -> Run:
    """`finetune` where a run that is stopped is of no use yet.

    Raises:
        StoppedError: a signal ended the run.
    """
    run = finetune(config, progress=progress)
    if run.stopped_by:
        raise StoppedError(run.stopped_by)
    return run


# ---------------------------------------------------------------- one step's samples


def encode(job: Job, sample: Any) -> Encoded:
    """One sample as tokens, as this run wants them."""
    return encode_sample(job.tokenizer, sample, max_length=job.config.max_length, supervise=job.config.supervise)


def longest_sample(job: Job) -> int:
    """Tokens of the longest of the first thousand samples, or of all the run's if they are fewer.

    Raises:
        InputError: none of them has anything to learn.
    """
    encoded = [encode(job, sample) for sample in job.first[: job.config.steps * job.config.batch_size]]
    if not any(count_step([sample], job.vocab)[0] for sample in encoded):
        raise InputError(
            f"None of the first {len(encoded):,} samples has a response within {job.config.max_length} tokens, so "
            "there is nothing to learn. Raise --max-length, or look at the data."
        )
    return max(len(sample.input_ids) for sample in encoded)


def encode_step(job: Job, step: int) -> list[Encoded]:
    """The samples of one optimiser step, from 1: a function of seed and step, so a resumed run meets the same."""
    size = job.config.batch_size
    source = iterate_samples(job.samples, job.config.seed, start=(step - 1) * size)
    return [encode(job, next(source)) for _ in range(size)]


def deal(job: Job, encoded: Sequence[Encoded], accelerator: Any) -> list[Batch]:
    """This process's micro-batches of some samples, of similar lengths each."""
    ranks = accelerator.num_processes
    return micro_batches(encoded, job.config.micro_batch(ranks), job.pad, rank=accelerator.process_index, ranks=ranks)


def inputs_of(batch: Batch, device: torch.device) -> dict[str, Any]:
    """What `LossModel` takes of a batch."""
    tensors = {
        key: getattr(batch, key).to(device, non_blocking=True) for key in ("input_ids", "attention_mask", "labels")
    }
    return {**tensors, "n_supervised": batch.n_supervised}


def make_optimizer(model: torch.nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """AdamW over all trained weights, at the peak learning rate."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.AdamW(
        trained, lr=config.learning_rate, betas=(BETA1, config.beta2), weight_decay=config.weight_decay
    )


def learning_rate_factor(step: int, config: TrainConfig) -> float:
    """Share of the peak learning rate at a step (from 0): a linear rise, then a cosine to 0."""
    rise = round(config.warmup * config.steps)
    if step < rise:
        return (step + 1) / rise
    progress = (step - rise) / max(config.steps - rise, 1)
    return 0.5 * (1 + math.cos(math.pi * min(progress, 1)))


# ---------------------------------------------------------------- beside the steps


@torch.no_grad()
def measure_heldout(
    model: Any, loss: str, batches: Sequence[Batch], counts: tuple[int, int], device: torch.device
) -> Tensor:
    """`SUMS` of the held-out samples that this process holds; `counts` are those of all of them."""
    n_tokens, n_digits = counts
    model.eval()
    sums = torch.zeros(len(SUMS), device=device)
    for batch in batches:
        output = model(**inputs_of(batch, device), step_tokens=n_tokens, step_digits=n_digits)
        part = sum_measures(output)
        if get_loss(loss).per_batch:  # the mean of a batch counts by its share of the digits, however they are cut
            part[SUMS.index("digit_term")] *= output.n_digits / max(n_digits, 1)
        sums += part
    model.train()
    return sums


def keep(config: TrainConfig, step: int, state: dict[str, Any], log: MetricsLog, *, stopped: bool) -> None:
    """Save a checkpoint; a disk that is full costs a warning, not the run."""
    outcome = "the same command goes on from there" if config.resume else "--resume goes on from there"
    try:
        save_checkpoint(config.out / CHECKPOINTS, step, state)
    except InputError as error:
        log.say(f"Warning: {error}")
        outcome = "no checkpoint of it could be saved"
    if stopped:
        log.say(f"Stopped after step {step}; {outcome}.")


def make_accelerator(config: TrainConfig) -> Any:
    """Accelerate's engine: one process, or those that `accelerate launch` started."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    if process_count() == 1:  # an earlier run of this process may have had another precision or device
        AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = Accelerator(
        cpu=config.device == "cpu" or not torch.cuda.is_available(),  # else each of several processes stands alone
        mixed_precision="bf16" if config.precision == "bf16-mixed" else "no",
        device_placement=False,
    )
    if config.batch_size % accelerator.num_processes:
        raise InputError(
            f"`--batch-size` {config.batch_size} must be a multiple of the {accelerator.num_processes} processes."
        )
    return accelerator

"""The training loop, from top to bottom.

    delcore train --loss del --model embedded --data arithmetic --steps 200 --out runs/del

A run folder holds `config.json` (settings, versions, data fingerprint), `metrics.jsonl` (one line per logged
step), safetensors weights and the tokenizer, so that `AutoModelForCausalLM.from_pretrained(run)` works. The
embedded family was made by this loop.
"""

import dataclasses
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from delcore.arithmetic import Sample
from delcore.config import TrainConfig
from delcore.data import Batch, align, collate, encode_sample, iterate_samples, load_samples, measure_coverage, pad_id
from delcore.digits import DigitVocab
from delcore.errors import InputError
from delcore.losses import get_loss, numeric_loss
from delcore.models import LoadedModel, load_model
from delcore.runs import MetricsLog, Progress, data_fingerprint, run_record, save_run

LOWEST_COVERAGE = 0.99
COVERAGE_ROWS = 1000
RELEASE_LAMBDAS = {"del": 10.0, "del_released": 1.0}
"""The authors' λ per α, for one process without accumulation."""

BETAS = (0.9, 0.95)
"""AdamW's, as is usual for language models; the second is shorter than PyTorch's default."""


@dataclass(frozen=True)
class Run:
    """A finished run: its folder, its logged metrics and its configuration."""

    path: Path
    metrics: list[dict[str, Any]]
    config: TrainConfig

    steps_done: int
    """Fewer than `config.steps` after an interrupt."""


def finetune(config: TrainConfig, *, loaded: LoadedModel | None = None, progress: Progress | None = None) -> Run:
    """Train a model under one loss and save it.

    Everything that can be wrong with the input is found before the run folder is made. An interrupt saves the
    weights as they are, and `config.json` tells the step.

    Args:
        config: the run.
        loaded: a model to train in place of `config.model` (it is changed).
        progress: called with one line of text from time to time.

    Raises:
        InputError: anything in `config` that cannot be used.
    """
    loss = get_loss(config.loss)
    alpha = loss.resolve_alpha(config.alpha)
    check_options(config)
    device = pick_device(config.device)
    check_out(config.out)
    samples = load_samples(config.data)
    torch.manual_seed(config.seed)
    model, tokenizer, card = loaded or load_model(config.model)
    vocab = DigitVocab.from_tokenizer(tokenizer)
    check_options(config, has_dot=vocab.dot is not None)
    check_widths(model, tokenizer)
    coverage = check_coverage(config, samples, tokenizer, vocab, progress)

    config = dataclasses.replace(config, max_length=min(config.max_length, card.context))
    model.to(device).train()
    embedding = model.get_output_embeddings().weight.detach().clone() if config.loss == "emo" else None
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=config.learning_rate, betas=BETAS, weight_decay=config.weight_decay
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate_factor(step, config))
    batches = iterate_batches(config, samples, tokenizer)

    config.out.mkdir(parents=True, exist_ok=True)
    facts: dict[str, Any] = {
        "alpha": alpha,
        **({"release_lambda": RELEASE_LAMBDAS[config.loss] * alpha} if config.loss in RELEASE_LAMBDAS else {}),
        "model": card.name,
        "model_source": card.source,
        "data_sha256": data_fingerprint(config),
        "model_revision": card.revision,
        "digit_coverage": coverage,
    }
    model.config.delcore = run_record(config, facts)
    model.config.save_pretrained(config.out)
    log = MetricsLog(config, progress)
    steps_done = 0
    try:
        for step, batch in zip(range(1, config.steps + 1), batches, strict=False):
            log.count(batch)
            if batch.n_supervised == 0:
                steps_done = step
                continue  # nothing to learn: even momentum must not move the weights
            labels = batch.labels.to(device)
            logits = model(
                input_ids=batch.input_ids.to(device), attention_mask=batch.attention_mask.to(device), use_cache=False
            ).logits
            output = numeric_loss(
                config.loss, *align(logits, labels), vocab, alpha=config.alpha, embedding=embedding, **config.options
            )
            output.total.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip or math.inf)
            rate = float(schedule.get_last_lr()[0])
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
            steps_done = step
            log.add(step, output, norm, rate)
    except KeyboardInterrupt:
        if progress:
            progress(f"Interrupted after step {steps_done}: saving the weights as they are.")
    finally:
        log.close(steps_done)
    save_run(config, model.eval(), tokenizer, {**facts, **log.tally, "steps_done": steps_done})
    return Run(config.out, log.lines, config, steps_done)


def learning_rate_factor(step: int, config: TrainConfig) -> float:
    """Share of the peak learning rate at a step (from 0): a linear rise, then a cosine to 0."""
    rise = round(config.warmup * config.steps)
    if step < rise:
        return (step + 1) / rise
    progress = (step - rise) / max(config.steps - rise, 1)
    return 0.5 * (1 + math.cos(math.pi * min(progress, 1)))


def iterate_batches(config: TrainConfig, samples: Sequence[Sample] | None, tokenizer: Any) -> Iterator[Batch]:
    """Endless padded batches; the same samples in the same order for every loss."""
    source = iterate_samples(samples, config.seed)
    while True:
        drawn = [next(source) for _ in range(config.batch_size)]
        encoded = [
            encode_sample(tokenizer, sample, max_length=config.max_length, supervise=config.supervise)
            for sample in drawn
        ]
        yield collate(encoded, pad_id(tokenizer))


# ---------------------------------------------------------------- before the first step


def check_out(out: Path) -> None:
    """Refuse a run folder that holds something, or that cannot be made."""
    try:
        if out.is_symlink() and not out.exists():
            raise InputError(f"`--out` {out} is a link to nowhere. Choose another folder, or remove it first.")
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise InputError(f"`--out` {out} exists and is not empty. Choose another folder, or remove it first.")
        parent = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
        probe = parent / f".delcore-{time.time_ns()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"`--out` {out} cannot be written: {error.strerror}.") from error


def check_options(config: TrainConfig, *, has_dot: bool = True) -> None:
    """Compute the loss once on one digit, so that no option is refused only after the run folder is made."""
    if "alpha" in config.options:
        raise InputError("`alpha` is no option of a loss: give it as --alpha.")
    get_loss(config.loss).check_options(config.options)
    label, vocab = torch.zeros(1, 1, dtype=torch.long), DigitVocab(range(10), dot=10 if has_dot else None)
    logits, embedding = torch.zeros(1, 1, 11), torch.ones(11, 1)
    numeric_loss(config.loss, logits, label, vocab, alpha=config.alpha, embedding=embedding, **config.options)


def check_widths(model: Any, tokenizer: Any) -> None:
    """Refuse a model with fewer rows than the tokenizer has tokens."""
    rows, top = model.get_input_embeddings().weight.shape[0], max(tokenizer.get_vocab().values())
    if top >= rows:
        raise InputError(f"`--model` has {rows} embedding rows, but its tokenizer has the token id {top}.")


def check_coverage(
    config: TrainConfig,
    samples: Sequence[Sample] | None,
    tokenizer: Any,
    vocab: DigitVocab,
    progress: Progress | None = None,
) -> float:
    """Share of the data's digits that are single-digit tokens; too low a share is refused, or warned of."""
    source = iterate_samples(samples, config.seed)
    rows = COVERAGE_ROWS if samples is None else min(COVERAGE_ROWS, len(samples))
    texts = [sample.prompt + sample.response for _, sample in zip(range(rows), source, strict=False)]
    coverage = measure_coverage(texts, tokenizer, vocab)
    if coverage.share < LOWEST_COVERAGE:
        found = (
            f"`--model` {config.model} writes only {coverage.covered} of {coverage.digits} digits "
            f"({coverage.share:.1%}) as tokens of their own"
        )
        if not config.allow_low_coverage and get_loss(config.loss).alpha is not None:
            raise InputError(
                f"{found}, and `{config.loss}` sees no others. Pick a model whose tokenizer splits numbers into "
                "digits, or pass --allow-low-coverage."
            )
        if progress:
            progress(f"Warning: {found}; no digit measure or digit term sees the others.")
    return coverage.share


def pick_device(device: str) -> torch.device:
    """The named device; "auto" is a GPU if there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
        if found.type == "meta":
            raise RuntimeError("it holds no numbers")
        torch.zeros(1, device=found)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(f"`--device` {device!r} cannot be used: {str(error).splitlines()[0][:200]}") from error
    return found

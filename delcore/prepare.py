"""Before the first step: everything that can be wrong with a run is found here, and nothing is written yet."""

import dataclasses
import itertools
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from delcore.adapters import read_record
from delcore.arithmetic import Sample, arithmetic_sample
from delcore.checkpoints import WRITING, newest_checkpoint
from delcore.config import MOST, TrainConfig
from delcore.data import choose_pad, measure_coverage
from delcore.digits import DigitVocab
from delcore.errors import InputError
from delcore.fingerprints import fingerprint_samples
from delcore.losses import get_loss
from delcore.models import LoadedModel, ModelCard, load_model
from delcore.orders import iterate_samples, split_heldout
from delcore.runs import Progress, board_writer, data_fingerprint, settings_of
from delcore.sources import load_samples

LOWEST_COVERAGE = 0.99
FIRST_SAMPLES = 1000
"""So many tell of the rest: coverage, lengths and fingerprint are taken of the first ones that the run will see."""

RELEASE_LAMBDAS = {"del": 10.0, "del_released": 1.0}
"""The authors' λ per α, for one process without accumulation."""

FREE_TO_CHANGE = ("resume", "save_every", "device", "tensorboard", "ignore_memory", "out", "trust_remote_code")
"""Settings that a resumed run may have otherwise than it began with."""

IDENTITY = ("model_revision", "data_sha256", "heldout_sha256")
"""Facts that a resumed run must find as they were."""

CHECKPOINTS = "checkpoints"

SCRATCH = ".saving"
"""Where a run folder's files are written before they take their place; what a killed process leaves there is naught."""

PROBE = ".delcore-"


@dataclass(frozen=True)
class Job:
    """A run that can begin: its configuration with everything settled, data, model and facts for the record.

    Args:
        config: with counts and lengths settled.
        samples: of the training data; None where they are generated without end.
        first: the first thousand that will be drawn, which coverage and lengths were measured on.
        heldout: samples to measure between steps; empty for none.
        model: before adapters are put on it.
        tokenizer: the model's.
        card: what is known of the model.
        vocab: the ten digits' ids.
        pad: id that fills a batch's rows.
        facts: for the run's record.
        checkpoint: to go on from, or None.
    """

    config: TrainConfig
    samples: Sequence[Sample] | None
    first: Sequence[Sample]
    heldout: Sequence[Sample]
    model: Any
    tokenizer: Any
    card: ModelCard
    vocab: DigitVocab
    pad: int
    facts: dict[str, Any]
    checkpoint: Path | None

    @property
    def keeps_adapters(self) -> bool:
        """Whether adapters are saved by themselves: others must be able to find the base that they belong to."""
        return bool(self.config.lora_rank) and self.card.source != "embedded" and not self.card.adapted


def prepare(config: TrainConfig, loaded: LoadedModel | None = None, progress: Progress | None = None) -> Job:
    """Load data and model, and check them against each other and the configuration.

    Raises:
        InputError: anything in `config` that cannot be used.
    """
    alpha = get_loss(config.loss).resolve_alpha(config.alpha)
    check_options(config)
    pick_device(config.device)
    if config.tensorboard:
        board_writer()
    started = check_out(config)
    torch.manual_seed(config.seed)
    model, tokenizer, card = loaded or load_model(config.model, trust_remote_code=config.trust_remote_code)
    vocab = DigitVocab.from_tokenizer(tokenizer)
    check_options(config, has_dot=vocab.dot is not None)
    check_widths(model, tokenizer)
    samples, heldout = load_data(config, tokenizer, progress)
    first = first_samples(config, samples)
    seen = first if samples is None else first[: len(samples)]  # the others are the same ones again
    coverage = check_coverage(config, seen, tokenizer, vocab, progress)
    config = settle(config, samples, card)
    facts: dict[str, Any] = {
        "alpha": alpha,
        "model": card.name,
        "model_source": card.source,
        "model_path": card.path or None,
        **identify(config, first, heldout, card),
        "data_samples": None if samples is None else len(samples),
        "digit_coverage": coverage,
    }
    if started is not None:
        check_resumable(config, facts, started)
    checkpoint = newest_checkpoint(config.out / CHECKPOINTS, progress) if config.resume else None
    return Job(
        config=config,
        samples=samples,
        first=first,
        heldout=heldout,
        model=model,
        tokenizer=tokenizer,
        card=card,
        vocab=vocab,
        pad=choose_pad(tokenizer, model.config),
        facts=facts,
        checkpoint=checkpoint,
    )


def load_data(
    config: TrainConfig, tokenizer: Any, progress: Progress | None = None
) -> tuple[Sequence[Sample] | None, Sequence[Sample]]:
    """Training and held-out samples; the latter are empty where none are asked for."""

    def load(source: str, split: str, option: str) -> Sequence[Sample] | None:
        return load_samples(
            source, template=config.template, tokenizer=tokenizer, split=split, option=option, say=progress
        )

    samples = load(config.data, config.split, "--data")
    if not config.eval_every:
        return samples, []
    if config.eval_data is not None or samples is None:
        others = load(config.eval_data or config.data, config.eval_split, "--eval-data")
        if others is None:
            return samples, [arithmetic_sample(i, config.seed, "heldout") for i in range(config.eval_samples)]
        return samples, [others[i] for i in range(min(config.eval_samples, len(others)))]
    return split_heldout(samples, config.eval_samples, config.seed)


def first_samples(config: TrainConfig, samples: Sequence[Sample] | None) -> list[Sample]:
    """The first thousand samples that the run will see, over several epochs where one has fewer."""
    return list(itertools.islice(iterate_samples(samples, config.seed), FIRST_SAMPLES))


def settle(config: TrainConfig, samples: Sequence[Sample] | None, card: ModelCard) -> TrainConfig:
    """The configuration with steps in place of epochs, and no sample longer than the model can read."""
    steps = config.steps
    if config.epochs is not None and samples is not None:
        wanted = config.epochs * len(samples) / config.batch_size
        if wanted > MOST:
            raise InputError(f"`--epochs` {config.epochs:g} makes more than {MOST:,} steps. Lower it.")
        steps = max(math.ceil(wanted), 1)
    return dataclasses.replace(config, steps=steps, max_length=min(config.max_length, card.context))


def identify(
    config: TrainConfig, first: Sequence[Sample], heldout: Sequence[Sample], card: ModelCard
) -> dict[str, str | None]:
    """What tells a run's weights and data from others of the same names."""
    return {
        "model_revision": card.revision,
        "data_sha256": data_fingerprint(config, first),
        "heldout_sha256": fingerprint_samples(heldout) if heldout else None,
    }


# ---------------------------------------------------------------- the run folder


def check_out(config: TrainConfig) -> dict[str, Any] | None:
    """Refuse a run folder that holds something, or that cannot be made; the record of a run to resume, if any."""
    out = config.out
    try:
        if out.is_symlink() and not out.exists():
            raise InputError(f"`--out` {out} is a link to nowhere. Choose another folder, or remove it first.")
        started = read_record(out) if config.resume else None
        if out.exists() and started is None and (not out.is_dir() or holds_something(out)):
            found = "holds no run to resume" if config.resume else "exists and is not empty"
            raise InputError(f"`--out` {out} {found}. Choose another folder, or remove it first.{_hint(config)}")
        parent = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
        probe = parent / f"{PROBE}{os.getpid()}-{time.time_ns()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"`--out` {out} cannot be written: {error.strerror}.") from error
    return started


def holds_something(folder: Path) -> bool:
    """Whether there is more in a folder than what a killed process, or another one that looks, has left there."""
    return any(file.name != SCRATCH and not file.name.startswith((PROBE, WRITING)) for file in folder.iterdir())


def _hint(config: TrainConfig) -> str:
    if not config.resume and read_record(config.out):
        return " If it is this run, stopped earlier, pass --resume."
    return ""


def check_resumable(config: TrainConfig, facts: dict[str, Any], started: dict[str, Any]) -> None:
    """Refuse to resume a run that is another one, or finished."""
    check_same_run(config, facts, started)
    if is_finished(started):
        raise InputError(f"`--out` {config.out} is a finished run of {config.steps} steps. There is nothing to resume.")


def check_same_run(config: TrainConfig, facts: dict[str, Any], started: dict[str, Any]) -> None:
    """Refuse to resume a run that began with other settings, data or weights."""
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    ours, theirs = settings_of(config), {**defaults, **started["settings"]}  # an older record lacks newer settings
    differ = [key for key in ours if key not in FREE_TO_CHANGE and ours[key] != theirs.get(key)]
    differ += [key for key in IDENTITY if key in started and facts[key] != started[key]]
    if differ:
        key = differ[0]
        mine, other = ours.get(key, facts.get(key)), theirs.get(key, started.get(key))
        raise InputError(
            f"`--out` {config.out} holds a run of another configuration: `{key}` was {other!r} and is now {mine!r}. "
            "Give the same settings to resume it, or choose another folder."
        )


def is_finished(record: dict[str, Any]) -> bool:
    """Whether a run has done all its steps and saved its weights."""
    return bool(record.get("steps_done") == record["settings"]["steps"])


# ---------------------------------------------------------------- options, model, data, device


def check_options(config: TrainConfig, *, has_dot: bool = True) -> None:
    """Refuse options of the loss before anything is loaded."""
    if "alpha" in config.options:
        raise InputError("`alpha` is no option of a loss: give it as --alpha.")
    get_loss(config.loss).check_values(config.options, has_dot=has_dot)


def check_widths(model: Any, tokenizer: Any) -> None:
    """Refuse a model with fewer rows than the tokenizer has tokens."""
    rows, top = model.get_input_embeddings().weight.shape[0], max(tokenizer.get_vocab().values())
    if top >= rows:
        raise InputError(f"`--model` has {rows} embedding rows, but its tokenizer has the token id {top}.")


def check_coverage(
    config: TrainConfig,
    samples: Sequence[Sample],
    tokenizer: Any,
    vocab: DigitVocab,
    progress: Progress | None = None,
) -> float:
    """Share of some samples' digits that are single-digit tokens; too low a share is refused, or warned of."""
    coverage = measure_coverage((sample.prompt + sample.response for sample in samples), tokenizer, vocab)
    counted = f"{coverage.covered} of {coverage.digits} digits ({coverage.share:.1%}) as tokens of their own"
    if coverage.share < LOWEST_COVERAGE:
        found = f"`--model` {config.model} writes only {counted}"
        if not config.allow_low_coverage and get_loss(config.loss).alpha is not None:
            raise InputError(
                f"{found}, and `{config.loss}` sees no others. Pick a model whose tokenizer splits numbers into "
                "digits, or pass --allow-low-coverage."
            )
        if progress:
            progress(f"Warning: {found}; no digit measure or digit term sees the others.")
    elif progress:
        progress(f"The tokenizer writes {counted}, counted on {len(samples):,} samples.")
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


def record_facts(job: Job, ranks: int) -> dict[str, Any]:
    """Facts of a run for its record; the release's λ counts its micro-batches."""
    config = job.config
    accumulation = -(-(config.batch_size // ranks) // config.micro_batch(ranks))
    facts = {**job.facts, "processes": ranks, "accumulation": accumulation}
    if config.loss in RELEASE_LAMBDAS:
        facts["release_lambda"] = RELEASE_LAMBDAS[config.loss] * facts["alpha"] / _divisor(config, accumulation * ranks)
    return facts


def _divisor(config: TrainConfig, micro_batches: int) -> int:
    """`del` is averaged over the step, the release's loss over each micro-batch; the latter's α is λ itself."""
    return micro_batches if config.loss == "del" else 1

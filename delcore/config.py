"""What a training run needs to know, checked before anything is loaded."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from delcore.errors import InputError

LOWEST = {
    **dict.fromkeys(("steps", "batch_size", "micro_batch_size", "max_length", "lora_alpha"), 1),
    **dict.fromkeys(("log_every", "eval_samples"), 1),
    **dict.fromkeys(("lora_rank", "eval_every", "save_every"), 0),
}
MOST = 10**9
"""Above any sensible count; more digits than a number of 64 bits has make a library stumble."""

HIGHEST_RATE = 1e6
"""Above any sensible rate; with far higher ones AdamW's arithmetic overflows."""

CHOICES = {
    "supervise": ("response", "all"),
    "template": ("plain", "alpaca", "chat"),
    "precision": ("float32", "bf16-mixed", "bf16"),
}


def process_count() -> int:
    """How many processes a launcher started; 1 for one alone."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def process_rank() -> int:
    """This process's number among those that a launcher started; 0 for one alone."""
    return 0 if process_count() == 1 else int(os.environ.get("RANK", "0"))


@dataclass(frozen=True)
class TrainConfig:
    """One fine-tuning run.

    Raises:
        InputError: a value out of range, named as on the command line.
    """

    loss: str
    """Key of `delcore.LOSSES`."""

    out: Path
    """Folder of the run; must not exist, or be empty, unless `resume`."""

    model: str = "embedded"
    """Hub id, folder, .gguf file, or "embedded[:loss]"; "scratch" is the embedded model untrained."""

    data: str = "arithmetic"
    """"arithmetic" (generated); a .jsonl, .json or .parquet file, or a folder of them; or a dataset of the hub."""

    split: str = "train"
    """Of a dataset with several."""

    template: str = "plain"
    """How a row becomes a prompt: "plain", "alpaca", or "chat" for the tokenizer's own."""

    steps: int = 200
    """Optimiser steps."""

    epochs: float | None = None
    """Passes over the data, in place of `steps`."""

    batch_size: int = 32
    """Samples per optimiser step, over all micro-batches and processes."""

    micro_batch_size: int | None = None
    """Samples that a process holds at once; None for all its share of the step. Changes memory, not the result."""

    learning_rate: float = 3e-4
    """Peak learning rate of AdamW."""

    warmup: float = 0.03
    """Share of the steps in which the learning rate rises from 0; it then falls to 0 along a cosine."""

    weight_decay: float = 0.0
    """AdamW's decoupled weight decay; none in the paper's recipe."""

    beta2: float = 0.95
    """AdamW's second decay rate; shorter than PyTorch's 0.999, as is usual for language models."""

    clip: float = 1.0
    """Upper limit of the gradient norm; 0 for none."""

    max_length: int = 1024
    """Tokens of a sample; what lies beyond is dropped and counted."""

    supervise: Literal["response", "all"] = "response"
    """Whether the prompt is learned too (pre-training)."""

    seed: int = 0
    """Of the sample order and everything random."""

    alpha: float | None = None
    """Weight of the digit term; None for the loss's default."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the loss, as `--set NAME=VALUE`."""

    allow_low_coverage: bool = False
    """Train although fewer than 99 % of the data's digits are tokens of their own."""

    trust_remote_code: bool = False
    """Run Python files that come with the model."""

    lean: bool = True
    """Never make the [tokens, vocabulary] logits, where the model's head allows it."""

    precision: Literal["float32", "bf16-mixed", "bf16"] = "float32"
    """"bf16-mixed" computes in bfloat16 on float32 weights; "bf16" keeps the weights in it too."""

    gradient_checkpointing: bool = False
    """Compute activations twice instead of keeping them."""

    lora_rank: int = 0
    """Rank of LoRA adapters on all linear layers but the head; 0 trains all weights."""

    lora_alpha: int | None = None
    """Scale of the adapters; None for twice the rank."""

    eval_every: int = 0
    """Steps between two measurements on held-out samples, one more at the end; 0 for none."""

    eval_data: str | None = None
    """Where they come from; None for `eval_samples` of `data`, which are then never trained on."""

    eval_split: str = "test"
    """Split of `eval_data`, if that has several."""

    eval_samples: int = 200
    """How many."""

    log_every: int = 1
    """Steps between two lines of metrics.jsonl; each line is a mean over them."""

    tensorboard: bool = False
    """Write the same lines for TensorBoard too."""

    save_every: int = 0
    """Steps between two checkpoints; 0 for one only when the run is stopped."""

    resume: bool = False
    """Go on from the newest whole checkpoint in `out`; begin where there is none."""

    ignore_memory: bool = False
    """Start although the estimate says that memory will not do."""

    device: str = "auto"
    """"auto" (a GPU if there is one), "cpu", "cuda" …"""

    def micro_batch(self, ranks: int = 1) -> int:
        """Samples that each of some processes holds at once."""
        share = -(-self.batch_size // ranks)
        return min(self.micro_batch_size or share, share)

    def __post_init__(self) -> None:
        """Check the ranges."""
        object.__setattr__(self, "out", Path(self.out))
        for name, low in LOWEST.items():
            if (value := getattr(self, name)) is not None and not low <= value <= MOST:
                raise InputError(f"`--{name.replace('_', '-')}` must lie in [{low}, {MOST:,}]; got {_shorten(value)}.")
        for name in ("model", "data", "eval_data"):
            if (value := getattr(self, name)) is not None and not value.strip():
                raise InputError(f"`--{name.replace('_', '-')}` is empty. Give a name, or leave it out.")
        for name, choices in CHOICES.items():
            if (value := getattr(self, name)) not in choices:
                raise InputError(f"`--{name.replace('_', '-')}` must be one of {', '.join(choices)}; got {value!r}.")
        if self.epochs is not None and not 0 < self.epochs < math.inf:
            raise InputError(f"`--epochs` must be above 0; got {self.epochs}.")
        if self.epochs is not None and self.data == "arithmetic":
            raise InputError("`--epochs` needs data that ends, but arithmetic is generated for ever. Give --steps.")
        if not 0 < self.learning_rate <= HIGHEST_RATE:
            raise InputError(f"`--learning-rate` must lie in (0, {HIGHEST_RATE:g}]; got {self.learning_rate}.")
        if not 0 <= self.warmup < 1:
            raise InputError(f"`--warmup` must lie in [0, 1); got {self.warmup}.")
        if not 0 <= self.beta2 < 1:
            raise InputError(f"`--beta2` must lie in [0, 1); got {self.beta2}.")
        if not 0 <= self.clip < math.inf or not 0 <= self.weight_decay <= HIGHEST_RATE:
            raise InputError(f"`--clip` and `--weight-decay` must be at least 0, the latter at most {HIGHEST_RATE:g}.")
        if not -(2**63) <= self.seed < 2**63:
            raise InputError(f"`--seed` must fit into 64 bits; got {self.seed}.")


def _shorten(value: int) -> str:
    return f"{value:,}" if abs(value) < 10**15 else f"a number of {len(str(abs(value)))} digits"

"""What a training run needs to know, checked before anything is loaded."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from delcore.errors import InputError


@dataclass(frozen=True)
class TrainConfig:
    """One fine-tuning run.

    Raises:
        InputError: a value out of range, named as on the command line.
    """

    loss: str
    """Key of `delcore.LOSSES`."""

    out: Path
    """Folder of the run; must not exist, or be empty."""

    model: str = "embedded"
    """Hub id, folder, .gguf file, or "embedded[:loss]"; "scratch" is the embedded model untrained."""

    data: str = "arithmetic"
    """"arithmetic", or a .jsonl file."""

    steps: int = 200
    """Optimiser steps."""

    batch_size: int = 32
    """Samples per optimiser step."""

    learning_rate: float = 3e-4
    """Peak learning rate of AdamW."""

    warmup: float = 0.03
    """Share of the steps in which the learning rate rises from 0; it then falls to 0 along a cosine."""

    weight_decay: float = 0.0
    """AdamW's decoupled weight decay; none in the paper's recipe."""

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

    log_every: int = 1
    """Steps between two lines of metrics.jsonl; each line is a mean over them."""

    device: str = "auto"
    """"auto" (a GPU if there is one), "cpu", "cuda" …"""

    def __post_init__(self) -> None:
        """Check the ranges."""
        object.__setattr__(self, "out", Path(self.out))
        for name in ("steps", "batch_size", "max_length", "log_every"):
            if getattr(self, name) < 1:
                raise InputError(f"`--{name.replace('_', '-')}` must be at least 1; got {getattr(self, name)}.")
        if not 0 < self.learning_rate < math.inf:
            raise InputError(f"`--learning-rate` must be above 0; got {self.learning_rate}.")
        if not 0 <= self.warmup < 1:
            raise InputError(f"`--warmup` must lie in [0, 1); got {self.warmup}.")
        if not 0 <= self.clip < math.inf or not 0 <= self.weight_decay < math.inf:
            raise InputError("`--clip` and `--weight-decay` must be finite and not negative.")
        if not -(2**63) <= self.seed < 2**63:
            raise InputError(f"`--seed` must fit into 64 bits; got {self.seed}.")

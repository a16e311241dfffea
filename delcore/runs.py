"""What a run leaves on disk: the log of its metrics, and the record of how it was made."""

import dataclasses
import hashlib
import importlib.metadata
import json
import math
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from delcore.config import TrainConfig
from delcore.data import Batch, iterate_samples
from delcore.errors import InputError
from delcore.losses import LossOutput

PER_DIGIT = ("digit_mass", "digit_entropy_nats", "digit_accuracy")
"""Measures that are means over digits."""

FINGERPRINT_SAMPLES = 1000

Progress = Callable[[str], None]


class MetricsLog:
    """Means over `log_every` steps, written to metrics.jsonl and shown as progress.

    `tokens` and `digits` are means per step; the digit measures are means per digit, None where there was none.
    """

    def __init__(self, config: TrainConfig, progress: Progress | None) -> None:
        """Open metrics.jsonl in the run folder."""
        self.config, self.progress = config, progress
        self.lines: list[dict[str, Any]] = []
        self._file = (config.out / "metrics.jsonl").open("w", encoding="utf-8")
        self._started = self._shown = self._last = time.perf_counter()
        self._window: list[dict[str, Tensor | float]] = []
        self.tally = {"samples": 0, "samples_cut": 0, "samples_unsupervised": 0, "samples_split_seam": 0}

    def count(self, batch: Batch) -> None:
        """Add up what encoding met; a run says at its end what the length limit cost."""
        counts = (len(batch.labels), batch.n_cut, batch.n_unsupervised, batch.n_split_seams)
        self.tally = {key: total + n for (key, total), n in zip(self.tally.items(), counts, strict=True)}

    def add(self, step: int, output: LossOutput, grad_norm: Tensor, learning_rate: float) -> None:
        """Take one step's numbers; tensors are read only when a line is due."""
        self._window.append(
            {
                "loss": output.total.detach(),
                "cross_entropy": output.token_term.detach(),
                "digit_term": output.digit_term.detach(),
                "digit_mass": output.digit_mass,
                "digit_entropy_nats": output.digit_entropy_nats,
                "digit_accuracy": output.digit_accuracy,
                "tokens": output.n_tokens,
                "digits": output.n_digits,
                "grad_norm": grad_norm.detach(),
                "learning_rate": learning_rate,
            }
        )
        if step % self.config.log_every == 0 or step == self.config.steps:
            self._write(step)

    def _write(self, step: int) -> None:
        rows = [{key: float(value) for key, value in row.items()} for row in self._window]
        line: dict[str, Any] = {key: sum(row[key] for row in rows) / len(rows) for key in rows[0]}
        digits = sum(row["digits"] for row in rows)
        for key in PER_DIGIT:  # means over digits, not over steps; absent where there were none
            line[key] = sum(row[key] * row["digits"] for row in rows) / digits if digits else None
        if not math.isfinite(line["loss"]):
            self._window = []
            raise InputError(
                f"At step {step} the loss is not finite, so the run was stopped and no weights were saved. "
                "Lower --learning-rate or --alpha; if it is the first step, the model's weights are damaged."
            )
        now = time.perf_counter()
        tokens_per_second = line["tokens"] * len(rows) / (now - self._last)
        self._last, self._window = now, []
        line = {"step": step, **line, "tokens_per_second": tokens_per_second}
        self.lines.append(line)
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        if self.progress and (now - self._shown > 2 or step == self.config.steps):
            self._shown = now
            left = (now - self._started) / step * (self.config.steps - step)
            self.progress(
                f"step {step}/{self.config.steps}  cross-entropy {line['cross_entropy']:.4f}  "
                f"digit term {line['digit_term']:.4f}  digit accuracy {line['digit_accuracy'] or 0:.1%}  "
                f"{tokens_per_second:,.0f} tokens/s  {left / 60:.0f} min {left % 60:02.0f} s left"
            )

    def close(self, step: int) -> None:
        """Write what no line has shown yet, close the file, and say what the length limit cost."""
        if self._window:
            self._write(step)
        self._file.close()
        cut, unsupervised = self.tally["samples_cut"], self.tally["samples_unsupervised"]
        if self.progress and (cut or unsupervised):
            self.progress(
                f"Of {self.tally['samples']} samples, {cut} were cut at {self.config.max_length} tokens and "
                f"{unsupervised} had nothing left to learn. A higher --max-length keeps them whole."
            )


def run_record(config: TrainConfig, facts: dict[str, Any]) -> dict[str, Any]:
    """What it takes to make a run again: settings, versions, the data's fingerprint and measured facts."""
    settings = {**dataclasses.asdict(config), "out": str(config.out), "options": dict(config.options)}
    versions = {name: importlib.metadata.version(name) for name in ("delcore", "torch", "transformers")}
    return {
        "settings": settings,
        "versions": {"python": platform.python_version(), **versions},
        **facts,
    }


def data_fingerprint(config: TrainConfig) -> str:
    """SHA-256 of the file; of generated data, of its first thousand samples."""
    if config.data != "arithmetic":
        return hashlib.sha256(Path(config.data).read_bytes()).hexdigest()
    texts = [
        repr(sample) for _, sample in zip(range(FINGERPRINT_SAMPLES), iterate_samples(None, config.seed), strict=False)
    ]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def save_run(config: TrainConfig, model: Any, tokenizer: Any, facts: dict[str, Any]) -> None:
    """Save weights (safetensors) and tokenizer beside the log; `config.json` holds the record as "delcore"."""
    model.config.delcore = run_record(config, facts)
    model.save_pretrained(config.out)
    tokenizer.save_pretrained(config.out)

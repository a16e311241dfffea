"""What a run leaves on disk: the log of its metrics, and the record of how it was made."""

import dataclasses
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from delcore.arithmetic import Sample
from delcore.checkpoints import write_whole
from delcore.config import TrainConfig
from delcore.data import Encoded, tally_samples
from delcore.errors import InputError
from delcore.fingerprints import fingerprint_file, fingerprint_samples
from delcore.losses import LossOutput
from delcore.run_logs import HELDOUT, METRICS
from delcore.versions import installed_versions

PER_DIGIT = ("digit_mass", "digit_entropy_nats", "digit_accuracy")
"""Measures that are means over digits."""

SUMS = ("cross_entropy", "digit_term", *PER_DIGIT, "tokens", "digits")
"""Entries of `sum_measures`; all may be added over micro-batches, processes and (but for the first two) steps."""

STEP_FACTS = ("grad_norm", "learning_rate")

Progress = Callable[[str], None]


def sum_measures(output: LossOutput) -> Tensor:
    """What is logged of one micro-batch, as a vector of `SUMS`, without waiting for the device."""
    n = output.n_digits
    digit_sums = (output.digit_mass * n, output.digit_entropy_nats * n, output.digit_accuracy * n)
    parts = (output.token_term, output.digit_term, *digit_sums, output.n_tokens, n)
    return torch.stack([part.detach().float() for part in parts])


def average_measures(rows: Sequence[Sequence[float]]) -> dict[str, float | None]:
    """Means over steps of some rows of `SUMS`; digit measures are means over digits; None where there are none."""
    columns = dict(zip(SUMS, zip(*rows, strict=True), strict=True))
    means: dict[str, float | None] = {key: sum(column) / len(rows) for key, column in columns.items()}
    if not sum(columns["tokens"]):
        return {"loss": None, **means, **dict.fromkeys(("cross_entropy", "digit_term", *PER_DIGIT))}
    digits = sum(columns["digits"])
    for key in PER_DIGIT:
        means[key] = sum(columns[key]) / digits if digits else None
    return {"loss": sum(columns["cross_entropy"] + columns["digit_term"]) / len(rows), **means}


class MetricsLog:
    """Means over `log_every` steps, written to metrics.jsonl and shown as progress.

    `tokens` and `digits` are means per step; the digit measures are means per digit, None where there was none.
    Held-out measurements go to heldout.jsonl. With several processes all of them must call every method.

    Args:
        config: the run.
        progress: shows a line of text; only the main process has one.
        resumed: the state of the checkpoint that the run goes on from; lines written after it are dropped.
        device: where the loop keeps its sums.
        reduce: adds a tensor up over all processes.
        writes: whether this process is the one that writes.
    """

    def __init__(
        self,
        config: TrainConfig,
        progress: Progress | None,
        *,
        resumed: Mapping[str, Any] | None = None,
        device: torch.device | str = "cpu",
        reduce: Callable[[Tensor], Tensor] = lambda tensor: tensor,
        writes: bool = True,
    ) -> None:
        """Open the logs in the run folder."""
        self.config, self.progress, self.reduce, self.writes = config, progress, reduce, writes
        self.lines: list[dict[str, Any]] = []
        self.heldout: list[dict[str, Any]] = []
        self.tally = {"samples": 0, "samples_cut": 0, "samples_unsupervised": 0, "samples_split_seam": 0}
        self._rows: list[Tensor] = []
        self._started = self._shown = self._last = time.perf_counter()
        self._start = resumed["step"] if resumed else 0
        kept = resumed["log"]["lines"] if resumed else {}
        if resumed:
            self.tally = dict(resumed["log"]["tally"])
            # The main process takes the steps that no line shows yet; sums over processes stay what they were.
            self._rows = [torch.tensor(row, device=device) * float(writes) for row in resumed["log"]["pending"]]
        self._files: dict[str, Any] = {}
        self._board: Any = None
        if writes:
            self.lines = self._open(METRICS, kept)
            self.heldout = self._open(HELDOUT, kept) if config.eval_every else []
            if config.tensorboard:
                purged = self._start + 1 if self._start else None
                self._board = board_writer()(str(config.out / "tensorboard"), purge_step=purged)

    def _open(self, name: str, kept: Mapping[str, int]) -> list[dict[str, Any]]:
        """Open one log to write on; returns the lines that stand from before."""
        path = self.config.out / name
        old = path.read_text(encoding="utf-8").splitlines()[: kept[name]] if kept.get(name) else []
        write_whole(path, "".join(f"{line}\n" for line in old))
        self._files[name] = path.open("a", encoding="utf-8")
        return [json.loads(line) for line in old]

    def count(self, encoded: Sequence[Encoded]) -> None:
        """Add up what encoding met; a run says at its end what the length limit cost."""
        counts = (len(encoded), *tally_samples(encoded))
        self.tally = {key: total + n for (key, total), n in zip(self.tally.items(), counts, strict=True)}

    def add(self, step: int, sums: Tensor, grad_norm: Tensor, learning_rate: float) -> None:
        """Take one step's `SUMS` of this process; tensors are read only when a line is due."""
        if hasattr(grad_norm, "full_tensor"):  # under FSDP each process holds the norm of its shards
            grad_norm = grad_norm.full_tensor()
        facts = torch.stack([grad_norm.detach().float().to(sums.device), sums.new_tensor(learning_rate)])
        self._rows.append(torch.cat([sums, facts if self.writes else torch.zeros_like(facts)]))
        if step % self.config.log_every == 0 or step == self.config.steps:
            self._write(step)

    def add_heldout(self, step: int, sums: Tensor) -> None:
        """Take the `SUMS` of one pass over the held-out samples."""
        line: dict[str, Any] = {"step": step, **average_measures([self.reduce(sums).tolist()])}
        self._put(HELDOUT, line)
        self.heldout.append(line)
        self.say(
            f"step {step}: on held-out samples cross-entropy {line['cross_entropy']:.4f}, "
            f"digit accuracy {line['digit_accuracy'] or 0:.1%}"
            if line["tokens"]
            else f"step {step}: the held-out samples hold nothing to predict. A higher --max-length may help."
        )

    def _write(self, step: int) -> None:
        rows = self.pending()
        self._rows = []
        n = len(SUMS)
        line: dict[str, Any] = average_measures([row[:n] for row in rows])
        line |= {key: sum(row[n + i] for row in rows) / len(rows) for i, key in enumerate(STEP_FACTS)}
        if not math.isfinite(line["loss"] + line["grad_norm"]):
            raise InputError(
                f"At step {step} the loss or its gradient is not finite, so the run was stopped and its weights "
                "were not saved. Lower --learning-rate or --alpha; if it is the first step, the model is damaged."
            )
        now = time.perf_counter()
        line = {"step": step, **line, "tokens_per_second": line["tokens"] * len(rows) / (now - self._last)}
        self._last = now
        self.lines.append(line)
        self._put(METRICS, line)
        if now - self._shown > 2 or step == self.config.steps:
            self._shown = now
            left = (now - self._started) / (step - self._start) * (self.config.steps - step)
            self.say(
                f"step {step}/{self.config.steps}  cross-entropy {line['cross_entropy']:.4f}  "
                f"digit term {line['digit_term']:.4f}  digit accuracy {line['digit_accuracy'] or 0:.1%}  "
                f"{line['tokens_per_second']:,.0f} tokens/s  {format_duration(left)} left"
            )

    def pending(self) -> list[list[float]]:
        """The steps that no line shows yet, added up over all processes."""
        rows: list[list[float]] = self.reduce(torch.stack(self._rows)).tolist() if self._rows else []
        return rows

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps of the log.

        Raises:
            InputError: the latest loss or gradient is not finite; such weights are not worth keeping.
        """
        rows = self.pending()
        if not all(math.isfinite(value) for row in rows for value in row):
            raise InputError("The loss or its gradient is not finite any more. Lower --learning-rate or --alpha.")
        lines = {METRICS: len(self.lines), HELDOUT: len(self.heldout)}
        return {"pending": rows, "tally": dict(self.tally), "lines": lines}

    def finish(self, step: int) -> None:
        """Write what no line has shown yet, and say what the length limit cost."""
        if self._rows:
            self._write(step)
        cut, unsupervised = self.tally["samples_cut"], self.tally["samples_unsupervised"]
        if cut or unsupervised:
            self.say(
                f"Of {self.tally['samples']} samples, {cut} were cut at {self.config.max_length} tokens and "
                f"{unsupervised} had nothing left to learn. A higher --max-length keeps them whole."
            )

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
        if self._board is not None:
            self._board.close()

    def _put(self, name: str, line: Mapping[str, Any]) -> None:
        if name in self._files:
            self._files[name].write(json.dumps(line) + "\n")
            self._files[name].flush()
        if self._board is not None:
            group = name.removesuffix(".jsonl")
            for key, value in line.items():
                if key != "step" and value is not None:
                    self._board.add_scalar(f"{group}/{key}", value, line["step"])

    def say(self, line: str) -> None:
        """Show a line, where somebody looks."""
        if self.progress:
            self.progress(line)


def format_duration(seconds: float) -> str:
    """Hours and minutes, or minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min {rest:02d} s"


def board_writer() -> Any:
    """TensorBoard's writer class.

    Raises:
        InputError: its package is missing.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("`--tensorboard` needs a package more: pip install tensorboard") from None
    return SummaryWriter


# ---------------------------------------------------------------- how a run was made


def run_record(config: TrainConfig, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What it takes to make a run again: settings, versions, the data's fingerprint and measured facts."""
    versions = installed_versions("delcore", "torch", "transformers", "accelerate")
    return {"settings": settings_of(config), "versions": versions, **facts}


def settings_of(config: TrainConfig) -> dict[str, Any]:
    """A configuration as JSON holds it."""
    return {**dataclasses.asdict(config), "out": str(config.out), "options": dict(config.options)}


def data_fingerprint(config: TrainConfig, first: Iterable[Sample]) -> str:
    """SHA-256 of the data file; of other data, of the first thousand samples in their order."""
    path = Path(config.data)
    return fingerprint_file(path) if config.data != "arithmetic" and path.is_file() else fingerprint_samples(first)

"""The processes that answer a benchmark together, and what the main one says of how far it is."""

import time
from typing import Any

import torch

from delcore.benchmarks.prompts import CUTS
from delcore.config import process_count, process_rank
from delcore.prepare import pick_device
from delcore.runs import Progress, format_duration

NOUNS = {"text": "answers", "program": "programs"}


class Team:
    """This process among those that `accelerate launch` started, or alone."""

    def __init__(self, device: str) -> None:
        """Join them, and take a device."""
        self.rank, self.size = process_rank(), process_count()
        self._accelerator: Any = None
        if self.size > 1:
            from datetime import timedelta

            from accelerate import Accelerator, InitProcessGroupKwargs

            patience = InitProcessGroupKwargs(timeout=timedelta(days=30))  # one may have longer answers than the others
            self._accelerator = Accelerator(
                cpu=device == "cpu" or not torch.cuda.is_available(), kwargs_handlers=[patience]
            )
        self.device = self._accelerator.device if self._accelerator else pick_device(device)

    def wait(self) -> None:
        """Until all have come as far."""
        if self._accelerator:
            self._accelerator.wait_for_everyone()


class Shown:
    """Says how far this process is with a benchmark, and how long it will take."""

    def __init__(self, title: str, items: int, begun: int, progress: Progress | None) -> None:
        """Say where it begins."""
        self.progress, self.title, self.counts = progress, title, dict.fromkeys(CUTS, 0)
        self.started = self.last = time.perf_counter()
        self.say(f"{items} items" + (f", {begun} of them begun before" if begun else ""))

    def add(self, part: str, count: int, total: int) -> None:
        """Some more of the `total` that this process has to answer."""
        self.counts[part] += count
        now, done = time.perf_counter(), self.counts[part]
        if now - self.last > 2 or done == total:
            self.last = now
            left = (now - self.started) / max(sum(self.counts.values()), 1) * (total - done)
            self.say(f"{done} of {total} {NOUNS[part]}, {format_duration(left)} left")

    def say(self, line: str) -> None:
        """Say a line of this benchmark."""
        if self.progress:
            self.progress(f"{self.title}: {line}")

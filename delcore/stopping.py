"""Ctrl-C and SIGTERM as a wish that long work grants when it has a place to stop."""

import signal
import threading
from types import FrameType
from typing import Any

import torch

from delcore.config import process_count


class StopRequests:
    """Between `with` and its end, Ctrl-C and SIGTERM only leave a note; a second one acts as usual."""

    def __init__(self) -> None:
        """Nothing has come yet."""
        self.signal = 0
        self._usual: dict[int, Any] = {}

    def __enter__(self) -> "StopRequests":
        """Listen; only the main thread can."""
        if threading.current_thread() is threading.main_thread():
            self._usual = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        self._restore()

    def __exit__(self, *error: object) -> None:
        """Let signals act as they did."""
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._usual.items():
            signal.signal(number, handler)

    def agreed(self, reduce: Any, device: torch.device) -> int | None:
        """The signal that any process has got, or None; with several processes all of them ask."""
        if process_count() == 1:
            return self.signal or None
        seen = torch.zeros(65, device=device)  # a place for each signal
        seen[self.signal] = 1
        found = reduce(seen)[1:].nonzero()
        return int(found[0]) + 1 if len(found) else None

"""Greedy answers to many prompts: in batches of similar lengths, stopped where an answer ends.

A prompt's answer depends on the prompt alone: prompts of a batch are padded on the left and masked, every row has the
same room as it would have by itself, and a text is cut at the first marker whenever generation came to stop.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from transformers import StoppingCriteria, StoppingCriteriaList

from delcore.benchmarks.prompts import Cut
from delcore.readout import append_greedily, prompt_ids

Finish = Literal["end", "marker", "length", "prompt_too_long"]

TAIL = 32
"""Newest tokens in which a marker is looked for; one that is longer is found when generation ends."""


class Answer(NamedTuple):
    """What a model wrote.

    Args:
        output: its text, up to the end token or the first marker.
        tokens: how many it wrote, the end token and those of the marker included.
        finish: "end" (its end token), "marker" (the next question), "length" (no room left), or "prompt_too_long" (the
            prompt fills the context, and nothing was written).
    """

    output: str
    tokens: int
    finish: Finish


Batch = list[tuple[int, Answer]]


def answer_greedily(
    model: Any,
    tokenizer: Any,
    prompts: Mapping[int, str],
    *,
    cut: Cut,
    max_new_tokens: int,
    batch_size: int,
    context: int,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[Batch]:
    """Answer prompts, the longest first; yields a batch as soon as it is done.

    Args:
        model: a causal language model.
        tokenizer: its tokenizer.
        prompts: by number.
        cut: where a text ends, see `delcore.benchmarks.prompts`.
        max_new_tokens: at most so many per answer.
        batch_size: prompts at a time.
        context: tokens that prompt and answer may have together.
        stopped: asked after every token; once it says yes, the answers that are whole are yielded and nothing more.
    """
    ids = {i: prompt_ids(tokenizer, prompt) for i, prompt in prompts.items()}
    too_long = [i for i, tokens in ids.items() if not 0 < len(tokens) < context]
    if too_long:
        yield [(i, Answer("", 0, "prompt_too_long")) for i in too_long]
    for where, room in _batches(
        {i: len(ids[i]) for i in ids.keys() - set(too_long)}, max_new_tokens, batch_size, context
    ):
        watch = Watch(model, tokenizer, max(len(ids[i]) for i in where), cut, room, stopped)
        rows = append_greedily(
            model, tokenizer, [ids[i] for i in where], room, stopping_criteria=StoppingCriteriaList([watch])
        )
        answers = [watch.answer(row, tokens) for row, tokens in enumerate(rows.tolist())]
        yield [(i, answer) for i, answer in zip(where, answers, strict=True) if answer is not None]
        if stopped():
            return


def _batches(
    lengths: Mapping[int, int], max_new_tokens: int, size: int, context: int
) -> Iterator[tuple[list[int], int]]:
    """Prompts of similar lengths, the longest first, with the room that each of them has.

    Only prompts of the same room share a batch: a row's room is its own, and no position lies beyond the context.
    """
    order = sorted(lengths, key=lambda i: (-lengths[i], i))
    for room, group in itertools.groupby(order, key=lambda i: min(max_new_tokens, context - lengths[i])):
        members = list(group)
        for start in range(0, len(members), size):
            yield members[start : start + size], room


class Watch(StoppingCriteria):
    """Notes where each row of a batch ends, and ends it there."""

    def __init__(
        self, model: Any, tokenizer: Any, start: int, cut: Cut, room: int, stopped: Callable[[], bool]
    ) -> None:
        """Watch the columns from `start` on."""
        self.tokenizer, self.start, self.cut, self.room, self.stopped = tokenizer, start, cut, room, stopped
        ends = getattr(model.generation_config, "eos_token_id", None)
        self.ends = {*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id} - {None}
        self._lengths: dict[int, int] = {}

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        """Which rows are done, after each token."""
        count = input_ids.shape[1] - self.start
        tails = input_ids[:, max(self.start, input_ids.shape[1] - TAIL) :].tolist()
        for row, tail in enumerate(tails):
            if row not in self._lengths and self._is_done(input_ids, row, tail, count):
                self._lengths[row] = count
        everything = self.stopped()
        done = [everything or row in self._lengths for row in range(len(tails))]
        return torch.tensor(done, device=input_ids.device)

    def _is_done(self, input_ids: Tensor, row: int, tail: Sequence[int], count: int) -> bool:
        if tail[-1] in self.ends or count >= self.room:
            return True
        # The tail is looked at as if a line began there, and the whole text only if that shows a marker.
        if not self._has_marker("x\n" + self._text(tail)):
            return False
        return self._has_marker(self._text(input_ids[row, self.start :].tolist()))

    def _has_marker(self, text: str) -> bool:
        text += "x"  # a marker that counts only at the end of a line must not be taken for one before the line ends
        return self.cut(text) != text

    def _text(self, ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(ids, skip_special_tokens=True)
        return text

    def answer(self, row: int, tokens: Sequence[int]) -> Answer | None:
        """What one row wrote; None if it was stopped before its end."""
        if row not in self._lengths:
            return None
        kept = tokens[: self._lengths[row]]
        text = self._text(kept)
        output = self.cut(text)
        finish: Finish = "marker" if output != text else "end" if kept[-1] in self.ends else "length"
        return Answer(output, len(kept), finish)

"""Greedy answers to many prompts: in batches of similar lengths, stopped where an answer ends.

A prompt's answer depends on the prompt alone: prompts of a batch are padded on the left and masked (or asked one by
one, where a model would mind), every row has the same room as it would have by itself, and a text is cut at the first
marker whenever generation came to stop.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from delcore.benchmarks.prompts import Cut
from delcore.generation import answers_alike, check_ids, end_ids
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
            prompt fills the context, or has no tokens to go on from, and nothing was written).
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
    say: Callable[[str], None] | None = None,
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
        say: told in one line if the model's answers would depend on the batch.

    Raises:
        InputError: NaN or infinite scores, or token ids that the model does not have.
    """
    ids = {i: prompt_ids(tokenizer, prompt) for i, prompt in prompts.items()}
    ends = end_ids(model, tokenizer)
    too_long = [i for i, tokens in ids.items() if not 0 < len(tokens) < context]
    if too_long:
        yield [(i, Answer("", 0, "prompt_too_long")) for i in too_long]
    fitting = {i: ids[i] for i in ids.keys() - set(too_long)}
    check_ids(model, list(fitting.values()))
    if batch_size > 1 and len(fitting) > 1 and not answers_alike(model, tokenizer, next(iter(fitting.values()))):
        batch_size = 1
        if say:
            say("The model's answers depend on the others in a batch: it is asked one by one, which takes longer.")
    lengths = {i: len(row) for i, row in fitting.items()}
    for where, room in _batches(lengths, max_new_tokens, batch_size, context):
        rows = append_greedily(
            model,
            tokenizer,
            [ids[i] for i in where],
            room,
            is_over=lambda new: _shows_marker(tokenizer, new, cut),
            stopped=stopped,
        )
        answers = [_answer(tokenizer, row, cut, ends, room) for row in rows]
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


def _shows_marker(tokenizer: Any, new: Sequence[int], cut: Cut) -> bool:
    """Whether an answer has come to a marker; the whole text is looked at only if its tail shows one."""
    tail = "x\n" + _decode(tokenizer, new[-TAIL:])  # as if a line began there
    return _is_cut(tail, cut) and _is_cut(_decode(tokenizer, new), cut)


def _is_cut(text: str, cut: Cut) -> bool:
    text += "x"  # a marker that counts only at the end of a line must not be taken for one before the line ends
    return cut(text) != text


def _decode(tokenizer: Any, ids: Sequence[int]) -> str:
    text: str = tokenizer.decode(ids, skip_special_tokens=True)
    return text


def _answer(tokenizer: Any, new: Sequence[int], cut: Cut, ends: set[int], room: int) -> Answer | None:
    """What one row wrote; None if it was stopped before its end."""
    text = _decode(tokenizer, new)
    output = cut(text)
    ended = bool(new) and new[-1] in ends
    if not ended and len(new) < room and not _is_cut(text, cut):
        return None
    finish: Finish = "marker" if output != text else "end" if ended else "length"
    return Answer(output, len(new), finish)

"""Input checks and the reduction that all losses share."""

from numbers import Integral

import torch
from torch import Tensor

from delcore.digits import IGNORE, DigitVocab
from delcore.errors import InputError


def check_inputs(
    logits: Tensor,
    labels: Tensor,
    vocab: DigitVocab,
    segments: Tensor | None,
    validate: bool,
    *,
    name: str = "logits",
    columns: int | None = None,
) -> None:
    """Refuse what cannot be a batch of aligned logits and labels, before any computation.

    Args:
        logits: [batch, seq, …], or whatever `name` calls it.
        labels: [batch, seq].
        vocab: the digit ids.
        segments: [batch, seq] or None.
        validate: look for labels out of range.
        name: the argument that `logits` is.
        columns: width of the head, if it is not the last axis of `logits`.

    Raises:
        TypeError: integer logits or floating labels.
        InputError: shapes that differ, digit ids beyond the head and, if `validate` (which makes a GPU wait),
            labels out of range.
    """
    if not logits.is_floating_point():
        raise TypeError(f"`{name}` must be floating point; got {logits.dtype}.")
    if labels.is_floating_point() or labels.dtype == torch.bool:
        raise TypeError(f"`labels` must be whole token ids; got {labels.dtype}.")
    if logits.ndim != 3 or labels.ndim != 2:
        raise InputError(
            f"`{name}` must be [batch, seq, …] and `labels` [batch, seq]; got {list(logits.shape)} and "
            f"{list(labels.shape)}. Add a batch axis with `.unsqueeze(0)`."
        )
    if logits.shape[:2] != labels.shape:
        raise InputError(
            f"`{name}` and `labels` must share [batch, seq]; "
            f"got {list(logits.shape)[:-1]} and {list(labels.shape)}. Use `delcore.align` first."
        )
    if segments is not None and segments.shape != labels.shape:
        raise InputError(
            f"`segments` must have the shape of `labels`, {list(labels.shape)}; got {list(segments.shape)}."
        )
    columns = logits.shape[-1] if columns is None else columns
    top = max(*vocab.ids, vocab.dot or 0)
    if top >= columns:
        raise InputError(
            f"`vocab` has the token id {top}, but the head has {columns} columns. "
            "Make the vocabulary from this model's own tokenizer."
        )
    if validate and not labels.is_meta:
        wrong = (labels != IGNORE) & ((labels < 0) | (labels >= columns))
        if wrong.any():
            raise InputError(f"`labels` must be {IGNORE} or from 0 to {columns - 1}; got {int(labels[wrong][0])}.")


def check_counts(tokens: object, digits: object, *, needs_digits: bool) -> None:
    """Refuse counts of the step that are no counts, or one where both are needed.

    With one of them only, one term would be divided by the whole step and the other by the batch at hand.
    """
    for name, count in (("step_tokens", tokens), ("step_digits", digits)):
        is_whole = isinstance(count, Integral) and not isinstance(count, bool) and int(count) >= 0
        is_one = isinstance(count, Tensor) and count.numel() == 1
        if count is not None and not is_whole and not is_one:
            raise InputError(f"`{name}` must be a whole number, 0 or above, or a tensor of one; got {count!r}.")
    if needs_digits and (tokens is None) != (digits is None):
        raise InputError(
            "`step_tokens` and `step_digits` go together: pass both counts of the whole optimiser step, or neither."
        )


def check_range(name: str, value: float, low: float, high: float, *, low_open: bool = False) -> None:
    """Refuse an option outside [low, high], or (low, high] if `low_open`; NaN is refused too."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"`{name}` must be a number; got {value!r}.")
    if not (low < value if low_open else low <= value) or not value <= high:
        bracket = "(" if low_open else "["
        raise InputError(f"`{name}` must lie in {bracket}{low:g}, {high:g}]; got {value!r}.")


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Refuse an option that is none of `choices`."""
    if value not in choices:
        raise InputError(f"`{name}` must be one of {', '.join(map(str, choices))}; got {value!r}.")


def normalise(total: Tensor, count: Tensor | int) -> Tensor:
    """Divide a sum over positions by a count; 0 attached to the graph where the count is 0.

    The only division in the package that turns sums over positions into a loss.
    """
    if isinstance(count, Tensor):
        return total / count.reshape(()).clamp(min=1)
    return total / max(int(count), 1)

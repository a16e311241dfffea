"""The numbers in rows of labels, read token by token in plain Python: for people, tables and tests.

`delcore.digits` computes the same places with tensor operations, for training.
Source: design of DEL, arXiv:2605.20369 (floating-point optimisation).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

import torch
from jaxtyping import Int
from torch import Tensor

from delcore.digits import DigitVocab


@dataclass(frozen=True)
class NumberSpan:
    """One number in a row of labels.

    Args:
        start: first position of the span (its dot, for ".5").
        stop: one past its last position.
        positions: where its digits stand; the dot is left out.
        digits: those digits, 0 … 9.
        places: place of each digit: 0 for units, 1 for tens …; −1 for tenths, −2 for hundredths …
        value: the number; an `int` without a dot, else a `float`.
    """

    start: int
    stop: int
    positions: tuple[int, ...]
    digits: tuple[int, ...]
    places: tuple[int, ...]
    value: int | float


# A dot that follows another dot is an ellipsis or a range and joins nothing.
_CHAIN = re.compile(r"(?:(?<!\.)\.)?\d+(?:\.\d+)*")


def number_spans(
    labels: Int[Tensor, "batch seq"],
    vocab: DigitVocab,
    segments: Int[Tensor, "batch seq"] | None = None,
) -> list[list[NumberSpan]]:
    """The numbers of each row, as people read them.

    A number is a run of digits with at most one dot between digits: "42." is 42, ".5" is 0.5; "1.2.3" and
    "2024-05-01" are three integers each, and a comma ends a number. A number never crosses a row, the
    border of a packed sample or a masked position, and never takes a sign. Only the plain dot token counts:
    many tokenizers write " .5" with a merged "Ġ." or "▁.", and that 5 reads as a unit.

    Args:
        labels: aligned token ids; `IGNORE` where not supervised.
        vocab: the digit ids.
        segments: which packed sample each position belongs to; None for one sample a row.

    Returns:
        One list of spans per row, in reading order.
    """
    digits, dots = vocab.classes(labels).tolist(), vocab.is_dot(labels).tolist()
    borders = torch.zeros_like(labels) if segments is None else segments
    rows = zip(digits, dots, borders.tolist(), strict=True)
    return [list(_spans_in_row(*row)) for row in rows]


def _spans_in_row(digits: list[int], dots: list[bool], segments: list[int]) -> Iterable[NumberSpan]:
    text = "".join(str(digit) if digit >= 0 else "." if dot else " " for digit, dot in zip(digits, dots, strict=True))
    start = 0
    for stop in range(1, len(text) + 1):
        if stop == len(text) or segments[stop] != segments[start]:
            yield from _spans_in_text(text[start:stop], start)
            start = stop


def _spans_in_text(text: str, offset: int) -> Iterable[NumberSpan]:
    for chain in _CHAIN.finditer(text):
        decimal = chain[0].count(".") == 1
        for part in [chain] if decimal else re.finditer(r"\d+", chain[0]):
            base = offset + (part.start() if decimal else chain.start() + part.start())
            yield _span(part[0], base)


def _span(text: str, start: int) -> NumberSpan:
    whole = text.find(".") if "." in text else len(text)
    where = [i for i, character in enumerate(text) if character != "."]
    return NumberSpan(
        start=start,
        stop=start + len(text),
        positions=tuple(start + i for i in where),
        digits=tuple(int(text[i]) for i in where),
        places=tuple(whole - i - 1 if i < whole else whole - i for i in where),
        # Decimal first: Python refuses int("…") beyond 4,300 digits, and no number is too long here.
        value=float(text) if "." in text else int(Decimal(text)),
    )

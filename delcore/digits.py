"""Which tokens are digits, which place each has in its number, and how much it weighs.

Every function here takes *aligned* labels (`delcore.data.align`) and knows tokenizers by duck type: it
asks for `get_vocab()` and never changes them. Two views of a number are kept on purpose:

- `place_weights` computes the places with cumulative tensor operations, for training;
- `delcore.spans.number_spans` reads the same ones token by token in plain Python, for people, tables and tests.

Source: design of DEL, arXiv:2605.20369 (floating-point optimisation); the authors' code, PolyU-VCLab/DEL
68c3d4d, for the rule "released".
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from delcore.errors import InputError

IGNORE = -100
"""Label of a position that is not supervised, as in `torch.nn.functional.cross_entropy`."""

INTEGER_FACTOR = 2.0
"""DEL's weight of an integer place i is INTEGER_FACTOR · (i + 1)."""

DECIMAL_BASE = 1.02
"""DEL's weight of a decimal place i < 0 is DECIMAL_BASE ** (i - 1)."""

PLACE_RULES = ("decimal", "integer", "none", "released")


@dataclass(frozen=True)
class DigitVocab:
    """The ten token ids of "0" … "9" in one vocabulary, and the id of the dot.

    Args:
        ids: ten distinct, non-negative token ids in the order 0 … 9; they need not follow one another.
        dot: id of "."; without one every number is an integer.

    Raises:
        ValueError: not ten distinct ids, a negative one, or a dot that is also a digit.
    """

    ids: tuple[int, ...]
    dot: int | None = None

    def __init__(self, ids: Iterable[int], dot: int | None = None) -> None:
        """Check the ids; see the class."""
        digit_ids = tuple(int(i) for i in ids)
        if len(digit_ids) != 10 or len(set(digit_ids)) != 10 or min(digit_ids) < 0:
            raise ValueError(f"`ids` must be ten distinct token ids, 0 or above; got {list(digit_ids)}.")
        if dot is not None and (dot < 0 or dot in digit_ids):
            raise ValueError(f"`dot` must be a token id of its own, 0 or above; got {dot}.")
        object.__setattr__(self, "ids", digit_ids)
        object.__setattr__(self, "dot", None if dot is None else int(dot))

    @classmethod
    def from_tokenizer(cls, tokenizer: Any) -> "DigitVocab":
        """Look the ten digits up by their exact strings.

        Only the plain pieces "0" … "9" count: "▁2", "22", "1_000" or "inf" are never digits, whatever
        Python can cast to a number. How much of a text these ten tokens cover is another question; see
        `delcore.data.measure_coverage`.

        Raises:
            TypeError: `tokenizer` has no `get_vocab`.
            InputError: one of the ten digits is no token of its own; the message lists which.
        """
        if not callable(getattr(tokenizer, "get_vocab", None)):
            kind = type(tokenizer).__name__
            raise TypeError(f"`tokenizer` must have a `get_vocab()` method, as Hugging Face's do; got {kind}.")
        vocab = tokenizer.get_vocab()
        missing = [digit for digit in "0123456789" if digit not in vocab]
        if missing:
            raise InputError(
                f"`tokenizer` has no single token for the digit{'s' if len(missing) > 1 else ''} "
                f"{', '.join(missing)}, and per-digit losses need all ten. "
                "Pick a model whose tokenizer splits numbers into single digits, such as Qwen2.5."
            )
        return cls([vocab[digit] for digit in "0123456789"], vocab.get("."))

    def classes(self, labels: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """The digit 0 … 9 of each label, −1 where it is none; no device synchronisation."""
        matches = labels.unsqueeze(-1) == _ids_on(self.ids, labels.device)  # [..., 10]
        return torch.where(matches.any(-1), matches.to(torch.uint8).argmax(-1), -1)

    def is_digit(self, labels: Int[Tensor, "*shape"]) -> Bool[Tensor, "*shape"]:
        """Where a label is one of the ten digits."""
        return self.classes(labels) >= 0

    def is_dot(self, labels: Int[Tensor, "*shape"]) -> Bool[Tensor, "*shape"]:
        """Where a label is the dot; nowhere if the vocabulary has none."""
        # No token id is below −100, so the stand-in for a missing dot matches nothing.
        return labels == (IGNORE - 1 if self.dot is None else self.dot)

    def index(self, device: torch.device, *, with_dot: bool = False) -> Int[Tensor, "columns"]:
        """The ten ids, and with `with_dot` the dot's if there is one, as an index tensor made once per device."""
        return _ids_on((*self.ids, self.dot) if with_dot and self.dot is not None else self.ids, device)


def _ids_on(ids: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(ids, device=device) if torch.compiler.is_compiling() else _cached_ids(ids, device)


@lru_cache(maxsize=64)
def _cached_ids(ids: tuple[int, ...], device: torch.device) -> Tensor:
    # Copying ten numbers to a GPU at every call would make the host wait each time. A tensor made in inference
    # mode could not take part in training later.
    with torch.inference_mode(False):
        return torch.tensor(ids, device=device)


# ---------------------------------------------------------------- places


def place_weights(
    labels: Int[Tensor, "batch seq"],
    vocab: DigitVocab,
    rule: str = "decimal",
    segments: Int[Tensor, "batch seq"] | None = None,
    *,
    integer_factor: float = INTEGER_FACTOR,
    decimal_base: float = DECIMAL_BASE,
) -> Float[Tensor, "batch seq"]:
    """The weight u of each digit position by its place; 0 where the label is no digit.

    Args:
        labels: aligned token ids; `IGNORE` where not supervised.
        vocab: the digit ids.
        rule: "decimal" (DEL): `integer_factor` · (i+1) for a place i ≥ 0, `decimal_base` ** (i−1) below the
            point, so "3.14" weighs 2, –, 0.9612, 0.9423. "integer" (earlier methods): every run of digits is
            an integer and weighs i+1. "none": 1. "released": as the authors' code reads numbers, where ".5"
            is a unit and "1.2.3" one number.
        segments: which packed sample each position belongs to; None for one sample a row.
        integer_factor: 2 in the paper; of rule "decimal" only.
        decimal_base: 1.02 in the paper; of rule "decimal" only.

    Returns:
        float32 weights. No Python loop over positions and no device synchronisation.

    Raises:
        InputError: an unknown rule.

    Source: arXiv:2605.20369. Departure of "released" from the released code: numbers do not join across
    rows or masked positions, which the released code drops before it looks for runs.
    """
    if rule not in PLACE_RULES:
        raise InputError(f"`place` (a place rule) must be one of {', '.join(PLACE_RULES)}; got {rule!r}.")
    _check_shapes(labels, segments)
    digit = vocab.is_digit(labels)
    if rule == "none":
        return digit.float()
    if rule == "released":
        weights = _released_weights(digit, vocab.is_dot(labels), segments)
        return torch.where(digit, weights, 0.0)
    place = digit_places(labels, vocab, segments, decimals=rule == "decimal").float()
    if rule == "integer":
        return torch.where(digit, place + 1, 0.0)
    weights = torch.where(place >= 0, integer_factor * (place + 1), decimal_base ** (place.clamp(max=0) - 1))
    return torch.where(digit, weights, 0.0)


def digit_places(
    labels: Int[Tensor, "batch seq"],
    vocab: DigitVocab,
    segments: Int[Tensor, "batch seq"] | None = None,
    *,
    decimals: bool = True,
) -> Int[Tensor, "batch seq"]:
    """The place of each digit as in `number_spans`; 0 also where the label is no digit.

    `decimals=False` reads every run of digits as an integer, so that a dot always breaks it.
    """
    digit = vocab.is_digit(labels)
    first, last = _segment_bounds(labels, segments)
    start, stop = _run_bounds(digit, first, last)
    here = torch.arange(labels.shape[1], device=labels.device)
    if not decimals:
        return torch.where(digit, stop - here, 0)
    # A link is a dot with a digit right after it and no other dot right before it. A run of digits is a
    # fraction if it follows a link that is the only one in its chain: "1.2.3" has two, so it is no decimal.
    dot = vocab.is_dot(labels)
    link = dot & _next(digit, here, last) & ~_previous(dot, here, first)
    follows_link = digit & (start > first) & link.gather(1, (start - 1).clamp(min=0))
    before_link = digit & (stop < last) & link.gather(1, (stop + 1).clamp(max=labels.shape[1] - 1))
    # Two before a fraction's first digit stands the last digit of the run before its dot, if there is one.
    earlier = (start - 2).clamp(min=0)
    link_before_that = follows_link.gather(1, earlier) & (start - 2 >= first)
    fraction = follows_link & ~before_link & ~link_before_that
    return torch.where(digit, torch.where(fraction, start - 1 - here, stop - here), 0)


def decimal_points(
    labels: Int[Tensor, "batch seq"],
    vocab: DigitVocab,
    segments: Int[Tensor, "batch seq"] | None = None,
) -> Bool[Tensor, "batch seq"]:
    """Where a label is the dot of a decimal number: the dot whose next digit is a tenth."""
    tenth = vocab.is_digit(labels) & (digit_places(labels, vocab, segments) == -1)
    return torch.cat([tenth[:, 1:], torch.zeros_like(tenth[:, :1])], dim=1)


def _released_weights(digit: Tensor, dot: Tensor, segments: Tensor | None) -> Tensor:
    # The released code reads a run of digits and dots as one number whose first dot is the point, unless
    # the run begins with a dot: then every position counts as an integer place, dots included.
    first, last = _segment_bounds(digit, segments)
    start, stop = _run_bounds(digit | dot, first, last)
    length = digit.shape[1]
    here = torch.arange(length, device=digit.device)
    next_dot = torch.where(dot, here, length).flip(1).cummin(1).values.flip(1)
    point = next_dot.gather(1, start.clamp(max=length - 1))
    has_point = (point > start) & (point <= stop)
    place = torch.where(has_point, point - here, stop - here + 1).float()  # 1 for units
    return torch.where(place > 0, INTEGER_FACTOR * place, DECIMAL_BASE ** (place.clamp(max=0) - 1))


def _check_shapes(labels: Tensor, segments: Tensor | None) -> None:
    if labels.ndim != 2 or (segments is not None and segments.shape != labels.shape):
        shapes = f"{list(labels.shape)}" + ("" if segments is None else f" and {list(segments.shape)}")
        raise InputError(f"`labels`, and `segments` if given, must be [batch, seq] alike; got {shapes}.")


def _segment_bounds(labels: Tensor, segments: Tensor | None) -> tuple[Tensor, Tensor]:
    """First and last position of the packed sample that each position belongs to."""
    here = torch.arange(labels.shape[1], device=labels.device).expand(labels.shape)
    if segments is None:
        return torch.zeros_like(here), torch.full_like(here, labels.shape[1] - 1)
    border = segments[:, 1:] != segments[:, :-1]
    edge = torch.ones_like(segments[:, :1], dtype=torch.bool)
    first = torch.where(torch.cat([edge, border], 1), here, 0).cummax(1).values
    last = torch.where(torch.cat([border, edge], 1), here, labels.shape[1]).flip(1).cummin(1).values.flip(1)
    return first, last


def _run_bounds(member: Tensor, first: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    """First and last position of the run of members around each member."""
    length = member.shape[1]
    here = torch.arange(length, device=member.device)
    outside_before = torch.where(member, -1, here).cummax(1).values
    outside_after = torch.where(member, length, here).flip(1).cummin(1).values.flip(1)
    return torch.maximum(outside_before + 1, first), torch.minimum(outside_after - 1, last)


def _next(mask: Tensor, here: Tensor, last: Tensor) -> Tensor:
    return torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], 1) & (here < last)


def _previous(mask: Tensor, here: Tensor, first: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(mask[:, :1]), mask[:, :-1]], 1) & (here > first)


def place_weight(place: int) -> float:
    """DEL's weight of one place, as rule "decimal" of `place_weights` gives it."""
    return INTEGER_FACTOR * (place + 1) if place >= 0 else DECIMAL_BASE ** (place - 1)


def place_of_next(ids: Sequence[int], vocab: DigitVocab) -> int | None:
    """The place a digit would have if it came next after `ids`; None before the point, where none knows it.

    After "3.1" the next digit would be a hundredth (−2). After "12" it may be anything.
    """
    row = torch.tensor([[*ids, vocab.ids[0]]])
    place = int(digit_places(row, vocab)[0, -1])
    return place if place < 0 else None

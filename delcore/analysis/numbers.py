"""The numbers of a text as a tokenizer leaves them: digit tokens, places, weights, and what is passed over and why."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch

from delcore.digit_tokens import SPACES
from delcore.digits import PLACE_RULES, DigitVocab, place_weights
from delcore.errors import InputError
from delcore.spans import number_spans

LONGEST_TEXT = 2_000
"""Characters; a table of more tokens is not read by anybody."""

_VISIBLE = str.maketrans({" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍"})


@dataclass(frozen=True)
class NumberToken:
    """One token of a text.

    Args:
        index: position in the text, from 0; special tokens that a tokenizer adds are not counted.
        text: its characters with spaces made visible; "👍 1/2" where one character takes several tokens.
        digit: 0 … 9 where it is one of the ten digit tokens.
        number: which number it belongs to, from 1; None outside of numbers.
        place: of a digit: 0 for units, −1 for tenths.
        weights: rule to the weight u of a digit; empty elsewhere.
        note: why it is not, or not as one might think, part of a number; "" for other text.
    """

    index: int
    text: str
    digit: int | None
    number: int | None
    place: int | None
    weights: Mapping[str, float]
    note: str


@dataclass(frozen=True)
class NumberReading:
    """A text as per-digit losses read it under one tokenizer.

    Args:
        text: as given.
        tokens: in reading order.
        values: of the numbers, in reading order.
        covered: digits 0 … 9 of the text that are tokens of their own.
        total: digits 0 … 9 of the text.
    """

    text: str
    tokens: tuple[NumberToken, ...]
    values: tuple[int | float, ...]
    covered: int
    total: int


def read_numbers(tokenizer: Any, text: str, rules: Sequence[str] = PLACE_RULES) -> NumberReading:
    """Read a text through the functions that training uses.

    Args:
        tokenizer: with one token per digit.
        text: at most `LONGEST_TEXT` characters.
        rules: of `delcore.digits.place_weights`.

    Raises:
        InputError: an empty or too long text, an unknown rule, or a tokenizer that lacks a digit.
    """
    _check_text(text)
    vocab = DigitVocab.from_tokenizer(tokenizer)
    ids, pieces = _pieces(tokenizer, text)
    labels = torch.tensor([ids])
    spans = number_spans(labels, vocab)[0]
    weights = {rule: place_weights(labels, vocab, rule)[0].tolist() for rule in rules}
    digits = vocab.classes(labels)[0].tolist()
    places = {i: place for span in spans for i, place in zip(span.positions, span.places, strict=True)}
    numbers = {i: n for n, span in enumerate(spans, 1) for i in range(span.start, span.stop)}
    tokens = tuple(
        NumberToken(
            index=i,
            text=_shown(pieces[i]),
            digit=digit if digit >= 0 else None,
            number=numbers.get(i),
            place=places.get(i),
            weights={rule: row[i] for rule, row in weights.items()} if digit >= 0 else {},
            note=_note(i, pieces, digits, ids[i] == vocab.dot, i in numbers),
        )
        for i, digit in enumerate(digits)
    )
    total = sum(c in "0123456789" for c in text)
    return NumberReading(text, tokens, tuple(s.value for s in spans), sum(d >= 0 for d in digits), total)


def _check_text(text: str) -> None:
    if not text.strip():
        raise InputError('The text is empty. Type some, such as "3.14 and 1,000".')
    over = len(text) - LONGEST_TEXT
    if over > 0:
        raise InputError(
            f"The text has {len(text):,} characters, the limit is {LONGEST_TEXT:,}: shorten it by {over:,}."
        )


# ---------------------------------------------------------------- what a token is


@dataclass(frozen=True)
class _Piece:
    """Characters of one token, and which of the several tokens of one character it is: (1, 3) for the first."""

    text: str
    part: tuple[int, int] = (1, 1)


def _pieces(tokenizer: Any, text: str) -> tuple[list[int], list[_Piece]]:
    """Token ids, and their characters as the vocabulary writes them, or where that is no plain text as `text` does."""
    fast = bool(getattr(tokenizer, "is_fast", False))
    options = {"return_offsets_mapping": True} if fast else {}
    encoded = tokenizer(text, add_special_tokens=False, verbose=False, **options)
    ids = list(encoded["input_ids"])
    names = {index: piece for piece, index in tokenizer.get_vocab().items()}
    words = [names.get(i, "").translate(SPACES) for i in ids]
    if not fast:
        return ids, [_Piece(word) for word in words]
    pieces: list[_Piece] = []
    for at, group in groupby(range(len(ids)), key=lambda i: tuple(encoded["offset_mapping"][i])):
        members = [words[i] for i in group]
        for number, word in enumerate(members, 1):
            plain = word.isascii() and word.isprintable()
            part = (1, 1) if plain else (number, len(members))
            pieces.append(_Piece(word if plain else text[at[0] : at[1]], part))
    return ids, pieces


def _shown(piece: _Piece) -> str:
    """What nobody would see is told by its code point, so that no table shows a replacement box."""
    letters = (c.translate(_VISIBLE) if c in " \n\t\r" else c if c.isprintable() else _code(c) for c in piece.text)
    number, count = piece.part
    return "".join(letters) + (f" {number}/{count}" if count > 1 else "")


def _code(character: str) -> str:
    return f"U+{ord(character):04X}"


# ---------------------------------------------------------------- why it is passed over


def _note(i: int, pieces: Sequence[_Piece], digits: Sequence[int], is_dot: bool, in_number: bool) -> str:
    """One sentence on one token; the order of the questions is from the plainest case on."""
    if digits[i] >= 0:
        return ""
    piece = pieces[i].text
    before = i > 0 and digits[i - 1] >= 0
    after = i + 1 < len(digits) and digits[i + 1] >= 0
    if is_dot:
        return _note_of_dot(i > 0 and pieces[i - 1].text == ".", before, after, in_number)
    ascii_digits = sum(c in "0123456789" for c in piece)
    if ascii_digits > 1:
        return "several digits in one token: none of them is a digit position"
    if ascii_digits:
        return "a digit together with other characters in one token: not one of the ten digit tokens"
    if any(unicodedata.decimal(c, None) is not None or c.isdigit() for c in piece):
        return "a digit of another script: not one of 0 … 9"
    if piece.strip() == "." and piece != "." and after:
        return "a dot with a space in one token is not the plain dot: the digits after it count as an integer"
    return _note_between(piece, before, after)


def _note_of_dot(dot_before: bool, before: bool, after: bool, in_number: bool) -> str:
    if in_number:
        return "the point: no digit position, and no weight of its own"
    if after and dot_before:
        return "a dot after a dot joins nothing"
    if after:
        return "one of several dots: every run of digits is an integer"
    return "no digit token follows: the dot ends the number" if before else ""


def _note_between(piece: str, before: bool, after: bool) -> str:
    if piece == "," and before and after:
        return "a comma ends a number"
    if piece in ("-", "−", "+", " -", " −", " +") and after:
        return "ends a number" if before else "a sign is no part of a number"
    return "ends a number" if before and after and piece.strip() else ""

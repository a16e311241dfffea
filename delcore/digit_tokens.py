"""What a tokenizer's digits look like: their ids, how numbers are cut, and what else in its vocabulary holds a digit.

A glance at some examples; `delcore.data.measure_coverage` counts on the data that a per-digit loss will see.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from delcore.digits import DigitVocab

EXAMPLES = ("123", " 3.14", "2024-05-01", "1,000", ".5")
"""Texts that tokenizers cut in different ways."""

N_DIGITS = sum(map(str.isdigit, "".join(EXAMPLES)))

_CONTROL = re.compile(r"<.*>", re.DOTALL)  # "<0x31>" of a byte fallback, "<｜place▁holder▁no▁1｜>"
SPACES = str.maketrans("▁Ġ", "  ")
"""SentencePiece's and byte-level vocabularies' letters for a space."""


@dataclass(frozen=True)
class DigitTokens:
    """How one tokenizer writes digits, and how many columns its model's head has beyond it."""

    ids: tuple[int, ...]
    """Token ids of "0" … "9"."""

    dot: int | None
    """Token id of ".", if it has one."""

    cuts: tuple[tuple[str, ...], ...]
    """The pieces of each of `EXAMPLES`, spaces written as spaces."""

    covered: int
    """How many of the `N_DIGITS` digits of `EXAMPLES` are tokens of their own."""

    merged: int
    """Other vocabulary entries with a digit in them, such as "22" or "▁2"; control tokens and bytes left out."""

    tokens: int
    """Highest token id, plus 1."""

    spare_columns: int | None
    """Columns of the head that no token uses; None where no model was given."""

    @property
    def coverage(self) -> float:
        """Share of the examples' digits that are tokens of their own, from 0 to 1."""
        return self.covered / N_DIGITS

    @property
    def consecutive(self) -> bool:
        """Whether the ten ids follow one another."""
        return self.ids == tuple(range(self.ids[0], self.ids[0] + 10))


def describe_digit_tokens(tokenizer: Any, model: Any = None) -> DigitTokens:
    """Look at a tokenizer's digits, changing nothing.

    Args:
        tokenizer: anything that is called as Hugging Face's are and has their `get_vocab()`.
        model: its causal model, for the width of the head.

    Raises:
        TypeError: `tokenizer` has no `get_vocab`.
        InputError: one of the ten digits is no token of its own.
    """
    digits = DigitVocab.from_tokenizer(tokenizer)
    vocab = tokenizer.get_vocab()
    pieces = {index: piece.translate(SPACES) for piece, index in vocab.items()}
    cuts = [tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"] for text in EXAMPLES]
    tokens = 1 + max(pieces)
    return DigitTokens(
        ids=digits.ids,
        dot=digits.dot,
        cuts=tuple(tuple(pieces[i] for i in cut) for cut in cuts),
        covered=sum(i in digits.ids for cut in cuts for i in cut),
        merged=sum(_holds_digits(piece) for piece, index in vocab.items() if index not in digits.ids),
        tokens=tokens,
        spare_columns=None if model is None else model.get_output_embeddings().weight.shape[0] - tokens,
    )


def _holds_digits(piece: str) -> bool:
    return re.search("[0-9]", piece) is not None and _CONTROL.fullmatch(piece) is None


def format_digit_tokens(results: Mapping[str, DigitTokens]) -> str:
    """A Markdown table of some tokenizers, a row each; pieces stand apart, and ␣ is a space within one."""
    head = [
        "tokenizer",
        "`0` … `9`",
        "`.`",
        *(f"`{_visible(text)}`" for text in EXAMPLES),
        "digits covered",
        "merged entries",
        "spare columns",
    ]
    rows = [head, ["---"] * len(head), *([name, *_cells(result)] for name, result in results.items())]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cells(result: DigitTokens) -> list[str]:
    ids = f"{result.ids[0]} … {result.ids[-1]}" if result.consecutive else " ".join(map(str, result.ids))
    counts = (result.dot, result.merged, result.spare_columns)
    dot, merged, spare = ("–" if count is None else str(count) for count in counts)
    cuts = (f"`{' '.join(map(_visible, cut))}`" for cut in result.cuts)
    return [ids, dot, *cuts, f"{result.covered} of {N_DIGITS}", merged, spare]


def _visible(text: str) -> str:
    return text.replace(" ", "␣")

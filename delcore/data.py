"""Text to `(input_ids, labels)`: the shift, the prompt mask, padding, reading files, and digit coverage.

`align` is the only place in the package where labels are shifted.
"""

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from delcore.arithmetic import Sample, arithmetic_sample
from delcore.digits import IGNORE, DigitVocab
from delcore.errors import InputError

Supervise = Literal["response", "all"]

FIELDS = (("prompt", "response"), ("question", "answer"), ("instruction", "output"))
"""Pairs of fields that a JSONL row may hold. Only "prompt" is used as it stands; the others end in a line break."""


def align(
    logits: Float[Tensor, "batch seq vocab"], labels: Int[Tensor, "batch seq"]
) -> tuple[Float[Tensor, "batch short vocab"], Int[Tensor, "batch short"]]:
    """Drop the last logits and the first labels, so that position t of one predicts position t of the other."""
    return logits[:, :-1], labels[:, 1:]


# ---------------------------------------------------------------- one sample


class Encoded(NamedTuple):
    """One sample as tokens.

    Args:
        input_ids: the whole text and the end token.
        labels: the same where supervised, `IGNORE` elsewhere.
        split_seam: a token would have straddled prompt and response, so the two were tokenised apart.
        cut: tokens dropped at the length limit.
    """

    input_ids: list[int]
    labels: list[int]
    split_seam: bool = False
    cut: int = 0


def encode_sample(
    tokenizer: Any, sample: Sample, *, max_length: int | None = None, supervise: Supervise = "response"
) -> Encoded:
    """Tokenise prompt and response as one text, and mask exactly the prompt.

    The supervised labels, decoded, are the response and the end token. Where the text's tokens do not begin with the
    prompt's own, because one token would hold the end of the prompt and the start of the response, the two are
    tokenised apart, as they will be when the model is asked; `split_seam` says so.

    Args:
        tokenizer: a Hugging Face tokenizer.
        sample: the text.
        max_length: drop what lies beyond this many tokens.
        supervise: "response", or "all" for the prompt too (pre-training).
    """
    ids, seam, split = _encode_parts(tokenizer, sample)
    end = tokenizer.eos_token_id
    if end is not None:
        ids = [*ids, end]
    if supervise == "all":
        seam = 0
    labels = [IGNORE] * seam + ids[seam:]
    limit = len(ids) if max_length is None else max_length
    return Encoded(ids[:limit], labels[:limit], split, max(len(ids) - limit, 0))


def _encode_parts(tokenizer: Any, sample: Sample) -> tuple[list[int], int, bool]:
    """Ids of prompt + response without an end, how many are the prompt's, and whether the seam had to be forced."""
    whole = list(tokenizer(sample.prompt + sample.response, verbose=False)["input_ids"])
    prompt = list(tokenizer(sample.prompt, verbose=False)["input_ids"])
    if len(whole) > 1 and whole[-1] == tokenizer.eos_token_id:  # it ends texts by itself
        whole = whole[:-1]
        prompt = prompt[:-1] if prompt[-1:] == [tokenizer.eos_token_id] else prompt
    if whole[: len(prompt)] == prompt:
        return whole, len(prompt), False
    response = tokenizer(sample.response, add_special_tokens=False, verbose=False)["input_ids"]
    return [*prompt, *response], len(prompt), True


# ---------------------------------------------------------------- batches


class Batch(NamedTuple):
    """A padded batch and what encoding it met; the tensors are [batch, seq].

    Args:
        input_ids: token ids, padded on the right.
        attention_mask: 1 where there is a token.
        labels: `IGNORE` where not supervised; not shifted yet (see `align`).
        n_supervised: positions that count after the shift.
        n_cut: samples that lost tokens to the length limit.
        n_unsupervised: samples in which nothing is left to learn.
        n_split_seams: samples whose prompt and response had to be tokenised apart.
    """

    input_ids: Tensor
    attention_mask: Tensor
    labels: Tensor
    n_supervised: int
    n_cut: int
    n_unsupervised: int
    n_split_seams: int


def pad_id(tokenizer: Any) -> int:
    """The token to pad with: the tokenizer's own, else its end token. No mask ever comes from it."""
    ids = (tokenizer.pad_token_id, tokenizer.eos_token_id, 0)
    return next(i for i in ids if i is not None)


def collate(samples: Sequence[Encoded], pad_id: int) -> Batch:
    """Pad to the longest sample on the right.

    The mask comes from the lengths, not from `ids != pad`, so a pad token that is also the end token is safe.
    """
    length = max(len(sample.input_ids) for sample in samples)
    input_ids = torch.full((len(samples), length), pad_id)
    labels = torch.full((len(samples), length), IGNORE)
    mask = torch.zeros((len(samples), length), dtype=torch.long)
    for row, sample in enumerate(samples):
        stop = len(sample.input_ids)
        input_ids[row, :stop] = torch.tensor(sample.input_ids)
        labels[row, :stop] = torch.tensor(sample.labels)
        mask[row, :stop] = 1
    supervised = (labels[:, 1:] != IGNORE).sum(1)  # [batch]
    return Batch(
        input_ids,
        mask,
        labels,
        n_supervised=int(supervised.sum()),
        n_cut=sum(sample.cut > 0 for sample in samples),
        n_unsupervised=int((supervised == 0).sum()),
        n_split_seams=sum(sample.split_seam for sample in samples),
    )


# ---------------------------------------------------------------- where samples come from


def load_samples(source: str) -> Sequence[Sample] | None:
    """The samples of a JSONL file; None for "arithmetic", which is generated and never ends.

    Raises:
        InputError: no such file, an unreadable line (named), or a file without samples.
    """
    if source == "arithmetic":
        return None
    path = Path(source)
    try:
        found = path.is_file()
    except OSError:  # a name that is too long
        found = False
    if not found:
        raise InputError(f'`--data` must be "arithmetic" or a .jsonl file; there is no file {source!r}.')
    samples = list(_read_jsonl(path))
    if not samples:
        raise InputError(f"{path} holds no samples.")
    return samples


def _read_jsonl(path: Path) -> Iterator[Sample]:
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as UTF-8 text: {error}.") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _parse_row(line, f"{path}, line {number}")


def _parse_row(line: str, where: str) -> Sample:
    try:
        row = json.loads(line)
        json.dumps(row, ensure_ascii=False).encode()  # half of a surrogate pair is no text
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: not valid JSON ({error.msg} at column {error.colno}). Mend or drop it.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: cannot be used ({error}). Mend or drop it.") from error
    for prompt, response in FIELDS:
        if isinstance(row, dict) and isinstance(row.get(prompt), str) and isinstance(row.get(response), str):
            return Sample(row[prompt] if prompt == "prompt" else row[prompt] + "\n", row[response])
    pairs = " or ".join(f'"{prompt}" and "{response}"' for prompt, response in FIELDS)
    raise InputError(f"{where}: needs the text fields {pairs}.")


def iterate_samples(samples: Sequence[Sample] | None, seed: int, start: int = 0) -> Iterator[Sample]:
    """Endless samples in an order that depends on the seed alone: shuffled anew each epoch, or generated.

    Args:
        samples: from `load_samples`.
        seed: of the order.
        start: how many samples to pass over, for a resumed run.
    """
    index = start
    while samples is None:
        yield arithmetic_sample(index, seed)
        index += 1
    while True:
        epoch, offset = divmod(index, len(samples))
        order = list(range(len(samples)))
        random.Random(f"{seed}/{epoch}").shuffle(order)  # noqa: S311 - an order, not a secret
        for i in order[offset:]:
            yield samples[i]
            index += 1


# ---------------------------------------------------------------- coverage


@dataclass(frozen=True)
class Coverage:
    """How many of a text's digits a tokenizer writes as single-digit tokens."""

    digits: int
    covered: int

    @property
    def share(self) -> float:
        """From 0 to 1; 1 where there are no digits at all."""
        return self.covered / self.digits if self.digits else 1.0


def measure_coverage(texts: Iterable[str], tokenizer: Any, vocab: DigitVocab) -> Coverage:
    """Count the digits 0 … 9 of the texts, and those that are tokens of their own.

    A tokenizer that writes "123" as one token leaves a per-digit loss nothing to work on, and nothing else says so.
    """
    digit_ids = set(vocab.ids)
    digits = covered = 0
    for text in texts:
        digits += sum(character in "0123456789" for character in text)
        ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        covered += sum(i in digit_ids for i in ids)
    return Coverage(digits, covered)

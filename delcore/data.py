"""Text to `(input_ids, labels)`: the shift, the prompt mask, a step's micro-batches, and digit coverage.

`align` is the only place in the package where labels are shifted. Samples come from `delcore.sources`, in the order
of `delcore.orders`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from delcore.arithmetic import Sample
from delcore.digits import IGNORE, DigitVocab

Supervise = Literal["response", "all"]


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
    if end is not None and not (sample.rendered and seam < len(ids) and ids[-1] == end):
        ids = [*ids, end]
    if supervise == "all":
        seam = 0
    labels = [IGNORE] * seam + ids[seam:]
    limit = len(ids) if max_length is None else max_length
    return Encoded(ids[:limit], labels[:limit], split, max(len(ids) - limit, 0))


def _encode_parts(tokenizer: Any, sample: Sample) -> tuple[list[int], int, bool]:
    """Ids of prompt + response without an end, how many are the prompt's, and whether the seam had to be forced."""

    def encode(text: str, *, start: bool) -> list[int]:
        # In a rendered text "<|im_end|>" is a token, in any other it is text. Both ways of some tokenizers' own.
        options = {"add_special_tokens": start, "split_special_tokens": not sample.rendered, "verbose": False}
        return list(tokenizer(text, **options)["input_ids"])

    start = not sample.rendered
    whole, prompt = encode(sample.prompt + sample.response, start=start), encode(sample.prompt, start=start)
    if start and len(whole) > 1 and whole[-1] == tokenizer.eos_token_id:  # it ends texts by itself
        whole = whole[:-1]
        prompt = prompt[:-1] if prompt[-1:] == [tokenizer.eos_token_id] else prompt
    if whole[: len(prompt)] == prompt:
        return whole, len(prompt), False
    return [*prompt, *encode(sample.response, start=False)], len(prompt), True


# ---------------------------------------------------------------- batches


class Batch(NamedTuple):
    """A padded batch; the tensors are [batch, seq].

    Args:
        input_ids: token ids, padded on the right.
        attention_mask: 1 where there is a token.
        labels: `IGNORE` where not supervised; not shifted yet (see `align`).
        n_supervised: positions that count after the shift.
    """

    input_ids: Tensor
    attention_mask: Tensor
    labels: Tensor
    n_supervised: int


def pad_id(tokenizer: Any) -> int:
    """The token to pad with: the tokenizer's own, else its end token. No mask ever comes from it."""
    ids = (tokenizer.pad_token_id, tokenizer.eos_token_id, 0)
    return next(i for i in ids if i is not None)


PAD_NAMES = (
    re.compile(r"[<\[]\W*(pad|finetune_right_pad_id)\W*[>\]]", re.I),
    re.compile(r"[<\[]\W*(unused|reserved|placeholder)\w*\W*[>\]]", re.I),
)
"""Tokens that exist to be padded with, and tokens that exist for no purpose yet."""


def choose_pad(tokenizer: Any, model_config: Any) -> int:
    """A token to pad with that the model already has, set on the tokenizer so that it is saved with it.

    The tokenizer's own; else a token named for padding; else a reserved one that nothing uses; else the unknown
    token; else the end token, which is safe here, because masks and labels come from lengths. The embedding never
    grows. The model's configuration keeps its pad, for one in it would freeze that token's embedding on loading.

    Args:
        tokenizer: gets a pad token where it has none that the model can read.
        model_config: of the model; says how many tokens it can read.
    """
    config = getattr(model_config, "get_text_config", lambda: model_config)()
    size = getattr(config, "vocab_size", None) or len(tokenizer)
    vocab = sorted((i, token) for token, i in tokenizer.get_vocab().items())
    named = [i for pattern in PAD_NAMES for i, token in vocab if pattern.fullmatch(token)]
    candidates = (tokenizer.pad_token_id, *named, tokenizer.unk_token_id, tokenizer.eos_token_id)
    chosen = next((i for i in candidates if i is not None and i < size), None)
    if chosen is None:  # any token will do, but none is to be made a special one
        return 0
    if chosen != tokenizer.pad_token_id:
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(chosen)
    return chosen


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
    return Batch(input_ids, mask, labels, int((labels[:, 1:] != IGNORE).sum()))


def tally_samples(samples: Sequence[Encoded]) -> tuple[int, int, int]:
    """What encoding met: samples that were cut, that have nothing left to learn, and whose seam was forced."""
    return (
        sum(sample.cut > 0 for sample in samples),
        sum(all(label == IGNORE for label in sample.labels[1:]) for sample in samples),
        sum(sample.split_seam for sample in samples),
    )


def micro_batches(encoded: Sequence[Encoded], size: int, pad_id: int, *, rank: int = 0, ranks: int = 1) -> list[Batch]:
    """One process's share of an optimiser step, in batches of similar lengths.

    The step's samples are sorted by length, the longest first, so that a step too large for the memory fails at
    once; they are dealt to the processes in turn. Every process gets as many batches as the others, because they wait
    for each other: samples that cannot be dealt out evenly are filled up with unsupervised ones. Together they hold
    every sample once, and with `count_step`'s counts the step's gradient does not depend on the cut.

    Args:
        encoded: the samples of the whole step, the same in every process.
        size: samples of a batch at most.
        pad_id: see `choose_pad`.
        rank: of this process.
        ranks: how many processes there are.
    """
    ordered = sorted(encoded, key=lambda sample: len(sample.input_ids), reverse=True)
    if ordered:
        spare = Encoded(ordered[-1].input_ids, [IGNORE] * len(ordered[-1].labels))
        ordered += [spare] * (-len(ordered) % ranks)
    mine = ordered[rank::ranks]
    return [collate(mine[start : start + size], pad_id) for start in range(0, len(mine), size)]


def count_step(encoded: Iterable[Encoded], vocab: DigitVocab) -> tuple[int, int]:
    """Supervised tokens of a step after the shift, and digits among them: what the step's losses are divided by."""
    digits = set(vocab.ids)
    labels = [label for sample in encoded for label in sample.labels[1:] if label != IGNORE]
    return len(labels), sum(label in digits for label in labels)


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

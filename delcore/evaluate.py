"""Measuring a model on numbers: exact answers, digits under teacher forcing, and readings of a known law."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from delcore.arithmetic import LAWS, READINGS, Reading, Sample
from delcore.data import Encoded, align, collate, encode_sample, pad_id
from delcore.digits import DigitVocab, digit_places, place_weight
from delcore.errors import InputError
from delcore.losses import entropy_nats, kl_nats
from delcore.models import LoadedModel
from delcore.readout import DigitReadout, prompt_ids, read_digits, write_greedily

BATCH = 64
LOGIT_BYTES = 256 * 2**20
"""About how large the logits of one batch may be."""


@dataclass(frozen=True)
class ExactMatch:
    """How often the greedy continuation is the whole response, white space around them aside."""

    correct: int
    """Samples answered exactly."""

    count: int
    """Samples asked."""

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.correct / self.count


def measure_exact_match(loaded: LoadedModel, samples: Sequence[Sample]) -> ExactMatch:
    """Let the model write each response greedily and compare with the right one.

    Raises:
        InputError: no samples.
    """
    if not samples:
        raise InputError("`samples` must not be empty: there is no share of nothing.")
    model, tokenizer, _ = loaded
    correct = 0
    for chunk in _chunks(samples, BATCH):
        room = 1 + max(len(tokenizer(sample.response, add_special_tokens=False)["input_ids"]) for sample in chunk)
        prompts = [prompt_ids(tokenizer, sample.prompt, special=sample.rendered) for sample in chunk]
        texts = write_greedily(model, tokenizer, prompts, room)
        correct += sum(text.strip() == sample.response.strip() for sample, text in zip(chunk, texts, strict=True))
    return ExactMatch(correct, len(samples))


# ---------------------------------------------------------------- digits of the right responses

DIGIT_MEASURES = ("nll_nats", "accuracy", "entropy_nats", "mass", "expected_digit_error")


@dataclass(frozen=True)
class DigitMeasures:
    """Means over digits of right responses, each predicted from the text before it."""

    nll_nats: float
    """−log p̂ of the true digit."""

    accuracy: float
    """Share of digits whose most probable digit is the true one."""

    entropy_nats: float
    """Entropy of p̂, from 0 to ln 10."""

    mass: float
    """Share of the full softmax on the ten digits."""

    expected_digit_error: float
    """|Σ k·p̂_k − c|, in digits."""

    count: int
    """Digits measured."""


def measure_digits(loaded: LoadedModel, samples: Sequence[Sample]) -> DigitMeasures:
    """Read the right responses and measure the prediction of each of their digits.

    Raises:
        InputError: no response holds a digit.
    """
    return average_digits(measure_digits_by_sample(loaded, samples))


def average_digits(by_sample: Float[Tensor, "samples 6"]) -> DigitMeasures:
    """Means over the digits of some samples, from their sums.

    Raises:
        InputError: there is no digit, so no mean.
    """
    *sums, count = by_sample.sum(0).tolist()
    if not count:
        raise InputError("`samples` hold no digit in any response, so there is nothing to measure.")
    means = {name: total / count for name, total in zip(DIGIT_MEASURES, sums, strict=True)}
    return DigitMeasures(**means, count=int(count))


class DigitBatch(NamedTuple):
    """Digits of some samples' responses, each predicted from the text before it; every field is [digits, …].

    Args:
        sample: which sample the digit belongs to.
        digit: the true digit.
        place: its place, as the training loss reads the response: 0 for units, −1 for tenths.
        readout: the prediction.
    """

    sample: Tensor
    digit: Tensor
    place: Tensor
    readout: DigitReadout


def iterate_digits(loaded: LoadedModel, samples: Sequence[Sample]) -> Iterator[DigitBatch]:
    """Read the right responses, some samples at a time, and yield their digits in no particular order."""
    model, tokenizer, card = loaded
    vocab = DigitVocab.from_tokenizer(tokenizer)
    encoded = [encode_sample(tokenizer, sample, max_length=card.context) for sample in samples]
    for where in _rows_within(encoded, 4 * model.config.vocab_size):
        batch = collate([encoded[i] for i in where], pad_id(tokenizer))
        ids, mask, labels = (part.to(model.device) for part in batch[:3])
        with torch.inference_mode():  # not around the yield, which would reach into the caller's loop
            logits, labels = align(model(input_ids=ids, attention_mask=mask).logits, labels)
            is_digit = vocab.is_digit(labels)
            found = DigitBatch(
                sample=torch.tensor(where)[is_digit.nonzero()[:, 0].cpu()],
                digit=vocab.classes(labels)[is_digit],
                place=digit_places(labels, vocab)[is_digit],
                readout=read_digits(logits[is_digit].double(), vocab),
            )
        yield found


def measure_digits_by_sample(loaded: LoadedModel, samples: Sequence[Sample]) -> Float[Tensor, "samples 6"]:
    """Sums over the digits of each sample's response: `DIGIT_MEASURES`, and how many digits there are."""
    sums = torch.zeros(len(samples), 6, dtype=torch.float64)
    for sample, digit, _, readout in iterate_digits(loaded, samples):
        measures = torch.stack(
            [
                -readout.log_probs.gather(-1, digit.unsqueeze(-1)).squeeze(-1),
                (readout.log_probs.argmax(-1) == digit).double(),
                readout.entropy_nats,
                readout.mass,
                (readout.expected_digit - digit).abs(),
                torch.ones_like(readout.mass),
            ],
            -1,
        )  # [digits, 6]
        sums.index_add_(0, sample, measures.cpu())
    return sums


def _rows_within(encoded: Sequence[Encoded], bytes_per_token: int) -> Iterator[list[int]]:
    """Indices of samples of similar length, as many at a time as their logits leave room for."""
    order = sorted(range(len(encoded)), key=lambda i: len(encoded[i].input_ids), reverse=True)
    while order:
        size = max(min(LOGIT_BYTES // (bytes_per_token * len(encoded[order[0]].input_ids)), BATCH), 1)
        yield order[:size]
        order = order[size:]


# ---------------------------------------------------------------- readings of a known law


@dataclass(frozen=True)
class ReadingMeasure:
    """One digit of one instrument: what the model expects, beside the law that draws it.

    Where digits precede it, all values are means over them, weighted by their law.
    """

    prompt: str
    """What precedes the reading."""

    place: int
    """Place of the digit: 0 for units."""

    weight: float
    """DEL's weight u of that place."""

    law: str
    """Key of `LAWS`."""

    law_entropy_nats: float
    """Entropy of the law."""

    entropy_nats: float
    """Entropy of p̂."""

    kl_nats: float
    """KL(law ‖ p̂)."""

    mass: float
    """Digit mass."""

    level: float
    """Log-sum of the ten digit logits: their common height, which only DEL's sigmoid sees."""


@torch.inference_mode()
def measure_readings(loaded: LoadedModel, readings: Sequence[Reading] = READINGS) -> list[ReadingMeasure]:
    """Compare the model with the law of each digit of each reading; exact, without drawing samples."""
    return [_measure_reading(loaded, reading, digit) for reading in readings for digit in range(len(reading.laws))]


def _measure_reading(loaded: LoadedModel, reading: Reading, digit: int) -> ReadingMeasure:
    model, tokenizer, _ = loaded
    vocab = DigitVocab.from_tokenizer(tokenizer)
    prefixes = list(itertools.product(range(10), repeat=digit))
    chance = [math.prod(LAWS[law][k] for law, k in zip(reading.laws, prefix, strict=False)) for prefix in prefixes]
    prompts = [reading.prompt + reading.prefix("".join(map(str, prefix))) for prefix in prefixes]
    rows = torch.tensor([prompt_ids(tokenizer, prompt) for prompt in prompts], device=model.device)
    readout = read_digits(model(input_ids=rows).logits[:, -1].double().cpu(), vocab)  # of [prefixes, vocab]
    law = torch.tensor(LAWS[reading.laws[digit]], dtype=torch.float64)
    weights = torch.tensor(chance, dtype=torch.float64)
    kl = kl_nats(law.expand_as(readout.log_probs), readout.log_probs)
    entropy, divergence, mass, level = (
        float((weights * column).sum()) for column in (readout.entropy_nats, kl, readout.mass, readout.level)
    )
    place = reading.places[digit]
    return ReadingMeasure(
        prompt=reading.prompt,
        place=place,
        weight=place_weight(place),
        law=reading.laws[digit],
        law_entropy_nats=float(entropy_nats(law.log())),
        entropy_nats=entropy,
        kl_nats=divergence,
        mass=mass,
        level=level,
    )


def _chunks(samples: Sequence[Sample], size: int) -> Iterator[Sequence[Sample]]:
    for start in range(0, len(samples), size):
        yield samples[start : start + size]

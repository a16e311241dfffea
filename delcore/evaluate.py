"""Measuring a model on numbers: exact answers, digits under teacher forcing, and readings of a known law."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from delcore.arithmetic import LAWS, READINGS, Reading, Sample
from delcore.data import align, collate, encode_sample, pad_id
from delcore.digits import DigitVocab, place_weight
from delcore.losses import digit_statistics
from delcore.losses._positions import positions_from_logits
from delcore.models import LoadedModel

BATCH = 64


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


@torch.inference_mode()
def measure_exact_match(loaded: LoadedModel, samples: Sequence[Sample]) -> ExactMatch:
    """Let the model write each response greedily and compare with the right one."""
    correct = 0
    for chunk in _chunks(samples, BATCH):
        room = 1 + max(
            len(loaded.tokenizer(sample.response, add_special_tokens=False)["input_ids"]) for sample in chunk
        )
        for sample, text in zip(chunk, write_greedily(loaded, [s.prompt for s in chunk], room), strict=True):
            correct += text.strip() == sample.response.strip()
    return ExactMatch(correct, len(samples))


@torch.inference_mode()
def write_greedily(loaded: LoadedModel, prompts: Sequence[str], max_new_tokens: int) -> list[str]:
    """The greedy continuation of each prompt up to its end token; prompts are padded on the left."""
    model, tokenizer, _ = loaded
    ids = [tokenizer(prompt, verbose=False)["input_ids"] for prompt in prompts]
    length = max(map(len, ids))
    pad = pad_id(tokenizer)
    rows = torch.tensor([[pad] * (length - len(row)) + list(row) for row in ids], device=model.device)
    mask = torch.tensor([[0] * (length - len(row)) + [1] * len(row) for row in ids], device=model.device)
    out = model.generate(
        input_ids=rows,
        attention_mask=mask,
        max_new_tokens=max_new_tokens,
        do_sample=False,
        num_beams=1,
        pad_token_id=pad,
    )
    return tokenizer.batch_decode(out[:, length:], skip_special_tokens=True)


@dataclass(frozen=True)
class DigitMeasures:
    """Means over the digits of the right responses, each predicted from the text before it."""

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


@torch.inference_mode()
def measure_digits(loaded: LoadedModel, samples: Sequence[Sample]) -> DigitMeasures:
    """Read the right responses and measure the prediction of each of their digits."""
    model, tokenizer, _ = loaded
    vocab = DigitVocab.from_tokenizer(tokenizer)
    sums, count = torch.zeros(5, dtype=torch.float64), 0
    for chunk in _chunks(samples, BATCH):
        batch = collate([encode_sample(tokenizer, sample) for sample in chunk], pad_id(tokenizer))
        logits = model(
            input_ids=batch.input_ids.to(model.device), attention_mask=batch.attention_mask.to(model.device)
        ).logits
        positions = positions_from_logits(*align(logits.double(), batch.labels.to(model.device)), vocab)
        where = positions.is_digit
        entropy, correct = digit_statistics(positions.digit_logits, positions.digit)
        true_log_prob = positions.digit_log_probs.gather(-1, positions.digit.unsqueeze(-1)).squeeze(-1)
        expected = (positions.digit_probs * torch.arange(10.0, device=where.device)).sum(-1)
        distance = (expected - positions.digit).abs()
        for i, values in enumerate((-true_log_prob, correct, entropy, positions.log_mass.exp(), distance)):
            sums[i] += values[where].sum().cpu()
        count += int(where.sum())
    nll, accuracy, spread, mass, error = (sums / max(count, 1)).tolist()
    return DigitMeasures(nll, accuracy, spread, mass, error, count)


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
    rows = torch.tensor([tokenizer(prompt)["input_ids"] for prompt in prompts], device=model.device)
    logits = model(input_ids=rows).logits[:, -1].double().cpu()  # [prefixes, vocab]
    digits = logits[:, vocab.index(logits.device)]
    log_probs = digits.log_softmax(-1)
    law = torch.tensor(LAWS[reading.laws[digit]], dtype=torch.float64)
    weights = torch.tensor(chance, dtype=torch.float64)
    entropy = (weights * -(log_probs.exp() * log_probs).sum(-1)).sum()
    kl = (weights * (law * (law.log() - log_probs)).sum(-1)).sum()
    mass = (weights * (digits.logsumexp(-1) - logits.logsumexp(-1)).exp()).sum()
    level = (weights * digits.logsumexp(-1)).sum()
    place = reading.places[digit]
    return ReadingMeasure(
        prompt=reading.prompt,
        place=place,
        weight=place_weight(place),
        law=reading.laws[digit],
        law_entropy_nats=float(-(law * law.log()).sum()),
        entropy_nats=float(entropy),
        kl_nats=float(kl),
        mass=float(mass),
        level=float(level),
    )


def _chunks(samples: Sequence[Sample], size: int) -> Iterator[Sequence[Sample]]:
    for start in range(0, len(samples), size):
        yield samples[start : start + size]

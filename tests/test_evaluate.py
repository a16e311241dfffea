"""What is read off a model about digits, against slow loops over single samples."""

import math

import pytest
import torch
from tokenizers.processors import TemplateProcessing

from delcore import InputError, evaluate
from delcore.analysis import read_states
from delcore.arithmetic import READINGS, Sample
from delcore.data import encode_sample
from delcore.digits import DigitVocab
from delcore.evaluate import (
    DIGIT_MEASURES,
    average_digits,
    measure_digits,
    measure_digits_by_sample,
    measure_exact_match,
    measure_readings,
)
from delcore.models import byte_tokenizer
from delcore.readout import read_digits, write_greedily
from tests.models_for_tests import tiny_loaded

SAMPLES = [
    Sample("2 + 3 = ", "5"),
    Sample("a long prompt without any digit in it: ", "no digit here"),
    Sample("10 + 20 = ", "30"),
    Sample("pi is ", "3.14159 or so"),
]
VOCAB = DigitVocab(range(10))


def slow_sums(loaded, sample):
    """One sample, one digit at a time, in Python floats."""
    model, tokenizer, _ = loaded
    ids = DigitVocab.from_tokenizer(tokenizer).ids
    encoded = encode_sample(tokenizer, sample)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([encoded.input_ids])).logits[0].double()
    sums = [0.0] * 6
    for t, label in enumerate(encoded.labels):
        if label not in ids:
            continue
        row = logits[t - 1].tolist()
        powers = [math.exp(row[i]) for i in ids]
        p = [power / sum(powers) for power in powers]
        c = ids.index(label)
        expected = sum(k * p_k for k, p_k in enumerate(p))
        parts = (
            -math.log(p[c]),
            float(max(p) == p[c]),
            -sum(p_k * math.log(p_k) for p_k in p),
            sum(powers) / sum(math.exp(score) for score in row),
            abs(expected - c),
            1.0,
        )
        sums = [total + part for total, part in zip(sums, parts, strict=True)]
    return sums


def test_digit_sums_equal_a_slow_loop_however_samples_are_batched(monkeypatch):
    loaded = tiny_loaded()
    expected = torch.tensor([slow_sums(loaded, sample) for sample in SAMPLES], dtype=torch.float64)
    for room in (1, 100_000, 2**28):
        monkeypatch.setattr(evaluate, "LOGIT_BYTES", room)
        found = measure_digits_by_sample(loaded, SAMPLES)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert found[:, -1].tolist() == [1, 0, 2, 6]


def test_digit_means_are_over_digits_not_samples():
    loaded = tiny_loaded()
    sums = measure_digits_by_sample(loaded, SAMPLES)
    means = measure_digits(loaded, SAMPLES)
    assert means.count == 9
    for column, name in enumerate(DIGIT_MEASURES):
        assert getattr(means, name) == pytest.approx(float(sums[:, column].sum()) / 9)


def test_nothing_to_measure_is_refused_and_not_perfect():
    with pytest.raises(InputError, match="no digit"):
        average_digits(torch.zeros(3, 6))
    with pytest.raises(InputError, match="`samples` must not be empty"):
        measure_exact_match(tiny_loaded(), [])


def with_end_too(tokenizer):
    """It puts the begin token before every text and the end token behind it."""
    ends = {tokenizer.bos_token: tokenizer.bos_token_id, tokenizer.eos_token: tokenizer.eos_token_id}
    begin, end = ends
    tokenizer._tokenizer.post_processor = TemplateProcessing(
        single=f"{begin} $A {end}", special_tokens=list(ends.items())
    )
    return tokenizer


def test_end_token_that_a_tokenizer_puts_behind_a_prompt_is_not_read():
    plain, ending = tiny_loaded(), tiny_loaded(with_end_too(byte_tokenizer()))
    assert ending.tokenizer("7")["input_ids"][-1] == ending.tokenizer.eos_token_id
    readings = (READINGS[1], READINGS[6])
    assert measure_readings(ending, readings) == measure_readings(plain, readings)
    for ours, theirs in zip(read_states(ending, "number"), read_states(plain, "number"), strict=True):
        assert (ours.vectors == theirs.vectors).all()


def test_readout_of_ten_equal_digits_is_ln_ten_and_their_share():
    readout = read_digits(torch.zeros(1, 20, dtype=torch.float64), VOCAB)
    assert readout.entropy_nats.item() == pytest.approx(math.log(10))
    assert readout.mass.item() == pytest.approx(0.5)
    assert readout.expected_digit.item() == pytest.approx(4.5)
    assert readout.level.item() == pytest.approx(math.log(10))


def test_readout_of_impossible_digits_is_finite():
    logits = torch.full((1, 12), float("-inf"), dtype=torch.float64)
    logits[0, 7] = 0.0
    readout = read_digits(logits, VOCAB)
    assert readout.entropy_nats.item() == 0.0
    assert readout.expected_digit.item() == 7.0


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_readout_of_a_damaged_model_is_an_error(bad):
    logits = torch.zeros(1, 12)
    logits[0, 11] = bad
    with pytest.raises(InputError, match="weights are damaged"):
        read_digits(logits, VOCAB)


def test_readout_of_a_head_narrower_than_the_digits_is_an_error():
    with pytest.raises(InputError, match="do not belong together"):
        read_digits(torch.zeros(1, 5), VOCAB)


def test_greedy_text_of_a_batch_equals_that_of_each_prompt_alone():
    model, tokenizer, _ = tiny_loaded()
    prompts = [tokenizer(text)["input_ids"] for text in ("1", "12 + 3 = ", "a b c d")]
    alone = [write_greedily(model, tokenizer, [prompt], 6)[0] for prompt in prompts]
    assert write_greedily(model, tokenizer, prompts, 6) == alone

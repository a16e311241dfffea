"""The ten digit probabilities along a prompt."""

import json
import math
import os
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from delcore import InputError, digit_distributions
from delcore.digits import DigitVocab
from delcore.models import EMBEDDED_NAMES
from delcore.probe import continue_greedily, probe
from tests import tokenizers_for_tests as tokenizers
from tests.models_for_tests import CONTEXT, tiny_loaded, tiny_model


@pytest.fixture(scope="module")
def tiny():
    return tiny_loaded()


def distributions(loaded, prompt, **options):
    return digit_distributions(loaded.model, loaded.tokenizer, prompt, **options)


# ---------------------------------------------------------------- the record


def test_probe_record_has_exactly_the_documented_fields(tiny):
    record = probe("3.1 + 2", {"one": tiny, "two": tiny_loaded(seed=1)}, all_positions=True)
    assert record == json.loads(json.dumps(record))
    assert list(record) == ["prompt", "positions"]
    assert record["prompt"] == "3.1 + 2"
    assert [position["text"] for position in record["positions"]] == ["3", "1", "2", ""]
    for position in record["positions"]:
        assert list(position) == ["index", "text", "place", "weight", "models"]
        assert list(position["models"]) == ["one", "two"]
        for facts in position["models"].values():
            assert list(facts) == ["probabilities", "digit_mass", "entropy_nats", "expected_digit"]
            assert len(facts["probabilities"]) == 10
    one, two = record["positions"][0]["models"].values()
    assert one != two


def test_probe_places_and_weights_follow_the_number(tiny):
    record = probe("123.45 or 7", {"tiny": tiny}, all_positions=True)
    places = [(position["text"], position["place"]) for position in record["positions"]]
    assert places == [("1", 2), ("2", 1), ("3", 0), ("4", -1), ("5", -2), ("7", 0), ("", None)]
    weights = [position["weight"] for position in record["positions"]]
    assert weights == [6, 4, 2, pytest.approx(1.02**-2), pytest.approx(1.02**-3), 2, None]


@pytest.mark.parametrize(
    ("prompt", "place"),
    [
        ("12 + 35 = ", None),
        ("12", None),
        ("3.", -1),
        ("3.1", -2),
        ("a.", -1),
        ("1.2.", None),
        ("1.2.3", None),
        ("3.1 ", None),
        ("x", None),
    ],
)
def test_next_token_has_a_place_only_behind_a_point(tiny, prompt, place):
    last = distributions(tiny, prompt)[-1]
    assert (last.text, last.place) == ("", place)
    assert last.weight == (None if place is None else pytest.approx(1.02 ** (place - 1)))


def test_probe_without_all_positions_lists_the_next_token_only(tiny):
    (position,) = distributions(tiny, "12 + 35 = ")
    assert (position.index, position.text) == (1 + len("12 + 35 = "), "")


def test_probe_index_counts_tokens_of_the_prompt(tiny):
    positions = distributions(tiny, "a1 é2", all_positions=True)
    assert [(p.index, p.text) for p in positions] == [(2, "1"), (6, "2"), (7, "")]  # begin, a, 1, space, é is two bytes


def test_first_digit_is_left_out_where_no_token_precedes_it():
    loaded = tiny_loaded(tokenizers.v12_tokenizer())
    assert [(p.index, p.text) for p in distributions(loaded, "12", all_positions=True)] == [(1, "2"), (2, "")]


def test_digits_of_other_scripts_are_no_digits(tiny):
    assert [p.text for p in distributions(tiny, "٣ ３ 三 5", all_positions=True)] == ["5", ""]


def test_continuation_lists_its_digits_and_the_token_after_it(tiny):
    positions = distributions(tiny, "12 + 35 = ", continuation="4.7")
    assert [(p.index, p.text, p.place) for p in positions] == [(11, "4", 0), (13, "7", -1), (14, "", -2)]
    joined = distributions(tiny, "12 + 35 = 4.7", all_positions=True)
    assert positions == joined[-3:]


def test_continuation_with_all_positions_lists_the_prompts_digits_too(tiny):
    positions = distributions(tiny, "1 = ", continuation="2", all_positions=True)
    assert [p.text for p in positions] == ["1", "2", ""]


# ---------------------------------------------------------------- the numbers


def test_probabilities_equal_a_direct_softmax(tiny):
    ids = tiny.tokenizer("12 + 35 = ")["input_ids"]
    vocab = DigitVocab.from_tokenizer(tiny.tokenizer)
    logits = tiny.model(torch.tensor([ids])).logits[0].double()
    positions = distributions(tiny, "12 + 35 = ", all_positions=True)
    assert [p.text for p in positions] == [*"1235", ""]
    for position in positions:
        row = logits[position.index - 1]
        full = row.softmax(-1)[list(vocab.ids)]
        expected = full / full.sum()
        assert position.probabilities == pytest.approx(expected.tolist(), rel=1e-5)
        assert position.digit_mass == pytest.approx(full.sum().item(), rel=1e-5)
        assert position.entropy_nats == pytest.approx(-(expected * expected.log()).sum().item(), rel=1e-5)
        assert position.expected_digit == pytest.approx((expected * torch.arange(10)).sum().item(), rel=1e-5)


@settings(deadline=None, max_examples=40)
@given(prompt=st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).filter(str.strip))
def test_probabilities_of_any_prompt_are_a_distribution(tiny, prompt):
    positions = distributions(tiny, prompt, all_positions=True)
    assert [p.text for p in positions[:-1]] == [c for c in prompt if c in "0123456789"]
    for position in positions:
        assert sum(position.probabilities) == pytest.approx(1, abs=1e-9)
        assert 0 <= position.digit_mass <= 1
        assert 0 <= position.entropy_nats <= math.log(10) + 1e-9
        assert 0 <= position.expected_digit <= 9


def test_probability_zero_is_finite(tiny):
    loaded = tiny_loaded()
    vocab = DigitVocab.from_tokenizer(loaded.tokenizer)
    add_to_logits(loaded.model, {vocab.ids[3]: -math.inf})
    (position,) = distributions(loaded, "x")
    assert position.probabilities[3] == 0
    assert math.isfinite(position.entropy_nats)


def add_to_logits(model, changes) -> None:
    def hook(module, inputs, output):
        output = output.clone()
        for column, value in changes.items():
            output[..., column] += value
        return output

    model.lm_head.register_forward_hook(hook)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("where", ["digit", "other"])
def test_model_with_nan_or_infinite_scores_is_refused(value, where):
    loaded = tiny_loaded()
    column = DigitVocab.from_tokenizer(loaded.tokenizer).ids[3] if where == "digit" else 2
    add_to_logits(loaded.model, {column: value})
    with pytest.raises(InputError, match="NaN or infinite"):
        distributions(loaded, "1 + 1 = ")


def test_model_with_nan_weights_is_refused(tiny):
    loaded = tiny_loaded()
    with torch.no_grad():
        loaded.model.model.norm.weight.fill_(math.nan)
    with pytest.raises(InputError, match="damaged"):
        distributions(loaded, "1 + 1 = ")


# ---------------------------------------------------------------- prompts that cannot be used


@pytest.mark.parametrize("prompt", ["", "   ", "\n", "\t\r\n", "\u3000\u00a0"])
def test_blank_prompt_is_refused_with_advice(tiny, prompt):
    with pytest.raises(InputError, match="Type some text"):
        distributions(tiny, prompt)


def test_prompt_with_a_lone_surrogate_is_refused(tiny):
    with pytest.raises(InputError, match="prompt"):
        distributions(tiny, "\udcff 12")


@pytest.mark.parametrize(
    ("prompt", "tokens", "surplus"),
    [("a" * 64, "65", "1"), ("7 " * 200_000, "400,001", "399,937")],
)
def test_prompt_longer_than_the_context_is_refused_before_the_forward_pass(tiny, monkeypatch, prompt, tokens, surplus):
    monkeypatch.setattr(type(tiny.model), "forward", lambda *_, **__: pytest.fail("the model was run"))
    started = time.perf_counter()
    with pytest.raises(InputError) as caught:
        distributions(tiny, prompt)
    assert time.perf_counter() - started < 30
    message = str(caught.value)
    assert f"{tokens} tokens" in message
    assert f"limit is {CONTEXT}" in message
    assert f"shorten it by {surplus}" in message


def test_next_prompt_works_after_a_refused_one_and_a_full_context_is_allowed(tiny):
    with pytest.raises(InputError):
        distributions(tiny, "a" * 64)
    assert distributions(tiny, "a" * 63)[-1].index == CONTEXT


def test_prompt_and_continuation_share_the_limit(tiny):
    with pytest.raises(InputError, match="shorten it by 1"):
        distributions(tiny, "a" * 60, continuation="1234")


def test_tokenizer_without_a_digit_is_refused_and_names_it():
    with pytest.raises(InputError, match="digit 9"):
        distributions(tiny_loaded(tokenizers.lookalike_tokenizer("012345678")), "2")


def test_head_narrower_than_the_digit_ids_is_refused(tiny):
    with pytest.raises(InputError, match="10"):
        digit_distributions(tiny_model(10), tiny.tokenizer, "!")  # its digits are 18 ... 27


def test_models_with_other_tokenizers_are_refused_and_named(tiny):
    other = tiny_loaded(tokenizers.grouping_tokenizer())
    with pytest.raises(InputError, match=r"`grouping`.*`bytes`"):
        probe("123456", {"bytes": tiny, "grouping": other}, all_positions=True)


# ---------------------------------------------------------------- greedy continuation


def test_greedy_continuation_is_the_argmax_at_each_step(tiny):
    text = continue_greedily(tiny.model, tiny.tokenizer, "1 + 1 = ", max_new_tokens=3)
    ids = tiny.tokenizer("1 + 1 = ")["input_ids"]
    for _ in range(3):
        ids.append(tiny.model(torch.tensor([ids])).logits[0, -1].argmax().item())
        if ids[-1] == tiny.tokenizer.eos_token_id:
            break
    assert text == tiny.tokenizer.decode(ids[9:], skip_special_tokens=True)


def test_greedy_continuation_stops_at_the_context(tiny):
    assert continue_greedily(tiny.model, tiny.tokenizer, "a" * 63) == ""
    assert len(continue_greedily(tiny.model, tiny.tokenizer, "a" * 60).encode("utf-8", "replace")) <= 3 * 3


def test_greedy_continuation_of_a_blank_prompt_is_refused(tiny):
    with pytest.raises(InputError, match="empty"):
        continue_greedily(tiny.model, tiny.tokenizer, " ")


# ---------------------------------------------------------------- the embedded family


def test_family_answers_any_prompt_in_one_record(family):
    record = probe("👨‍👩‍👧 has 3, המחיר 12", family, all_positions=True)
    assert [position["text"] for position in record["positions"]] == [*"312", ""]
    assert all(list(position["models"]) == list(EMBEDDED_NAMES) for position in record["positions"])


@pytest.mark.slow
def test_family_answers_twenty_gsm8k_questions(family):
    folder = os.environ.get("DELCORE_BENCHMARKS")
    if not folder:
        pytest.skip("DELCORE_BENCHMARKS is not set")
    with (Path(folder) / "gsm8k_test.jsonl").open(encoding="utf-8") as file:
        questions = [json.loads(next(file))["question"] for _ in range(20)]
    for question in questions:
        record = probe(question, family, all_positions=True)
        assert [p["text"] for p in record["positions"]] == [*(c for c in question if c in "0123456789"), ""]
        for position in record["positions"]:
            for facts in position["models"].values():
                assert sum(facts["probabilities"]) == pytest.approx(1)

"""How many digits of a text are single-digit tokens: cases B01, B04 and B06."""

import math

import pytest

from delcore.data import Coverage, measure_coverage
from delcore.digits import DigitVocab
from tests import tokenizers_for_tests as tokenizers


def coverage(tokenizer, *texts) -> tuple[int, int]:
    found = measure_coverage(list(texts), tokenizer, DigitVocab.from_tokenizer(tokenizer))
    return found.covered, found.digits


def test_coverage_share_is_covered_over_digits():
    assert Coverage(digits=7, covered=1).share == pytest.approx(1 / 7)


def test_coverage_of_text_without_digits_is_no_nan():
    vocab = DigitVocab.from_tokenizer(tokenizers.v12_tokenizer())
    found = measure_coverage(["aaa"], tokenizers.v12_tokenizer(), vocab)
    assert (found.covered, found.digits) == (0, 0)
    assert not math.isnan(found.share)


@pytest.mark.parametrize("right_aligned", [False, True])
def test_coverage_of_digits_in_threes_counts_the_lone_digit_only(right_aligned):
    assert coverage(tokenizers.grouping_tokenizer(right_aligned=right_aligned), "1234567") == (1, 7)


@pytest.mark.parametrize(
    ("text", "expected"), [("3333333", (0, 7)), ("3", (1, 1)), ("33", (0, 2)), (" 4", (0, 1)), ("4", (1, 1))]
)
def test_coverage_of_merged_digits_is_zero(text, expected):
    assert coverage(tokenizers.gpt2_style_tokenizer(), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2", (1, 1)),
        ("▁2", (0, 1)),
        (" 2", (0, 1)),
        ("22", (0, 2)),
        ("1_000", (0, 4)),
        ("1e5", (0, 2)),
        ("inf", (0, 0)),
    ],
)
def test_coverage_of_lookalikes_counts_their_digits_as_uncovered(text, expected):
    assert coverage(tokenizers.lookalike_tokenizer(), text) == expected


@pytest.mark.parametrize("text", ["3.5 * 2.7 + 8.6", " 3.14", "2024\n12"])
def test_coverage_of_single_digit_pieces_is_full(text):
    covered, digits = coverage(tokenizers.llama_style_tokenizer(), text)
    assert covered == digits == sum(character.isdigit() for character in text)


def test_coverage_of_several_texts_is_the_sum():
    assert coverage(tokenizers.grouping_tokenizer(), "1234567", "aaa", "9", "10") == (2, 10)


def test_coverage_leaves_the_tokenizer_unchanged():
    tokenizer = tokenizers.gpt2_style_tokenizer()
    before = tokenizer.get_vocab()
    coverage(tokenizer, "3333333")
    assert tokenizer.get_vocab() == before


@pytest.mark.network
@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("deepseek", "1234567", (1, 7)),
        ("gpt2", "3333333", (0, 7)),
        ("gpt2", "3", (1, 1)),
        ("qwen", "1234567 and 3.5 * 2.7", (11, 11)),
        ("llama2", "1234567 and 3.5 * 2.7", (11, 11)),
        ("mistral", "1234567 and 3.5 * 2.7", (11, 11)),
    ],
)
def test_coverage_of_real_tokenizers_matches_how_they_split(name, text, expected):
    assert coverage(getattr(tokenizers, f"{name}_tokenizer")(), text) == expected

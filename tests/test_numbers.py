"""The numbers of a text under a tokenizer, with reasons; sharpness, temperature, gradient steps, levels."""

import math

import numpy as np
import pytest
from transformers import GPT2Tokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

from delcore.analysis import (
    follow_loss,
    measure_loss_at,
    measure_sharpness,
    read_numbers,
    sample_digits,
    scan_level,
    temper_law,
)
from delcore.arithmetic import DESIGN_LAW
from delcore.equilibria import equilibrium
from delcore.errors import InputError
from delcore.models import byte_tokenizer, load_tokenizer

FLAT = (0.1,) * 10


def merging_tokenizer():
    """Byte-level BPE in which "12" is one token, and " ." another."""
    merges = [("1", "2"), ("Ġ", ".")]
    pieces = [*bytes_to_unicode().values(), "12", "Ġ."]
    return GPT2Tokenizer(vocab={piece: i for i, piece in enumerate(pieces)}, merges=merges)


def notes_of(text) -> dict[str, str]:
    reading = read_numbers(byte_tokenizer(), text)
    return {token.text: token.note for token in reading.tokens if token.note}


def test_reading_gives_places_and_all_four_weights():
    reading = read_numbers(byte_tokenizer(), "is 3.14")
    digits = [token for token in reading.tokens if token.digit is not None]
    assert [token.place for token in digits] == [0, -1, -2]
    assert [token.weights["decimal"] for token in digits] == pytest.approx([2, 1.02**-2, 1.02**-3])
    assert [token.weights["integer"] for token in digits] == [1, 2, 1]
    assert [token.weights["none"] for token in digits] == [1, 1, 1]
    assert reading.values == (3.14,) and (reading.covered, reading.total) == (3, 3)


def test_released_rule_differs_where_the_release_reads_otherwise():
    digits = [token for token in read_numbers(byte_tokenizer(), "x.5").tokens if token.digit is not None]
    assert digits[0].place == -1 and digits[0].weights["released"] == 2


@pytest.mark.parametrize(
    ("text", "token", "said"),
    [
        ("1,000", ",", "comma ends"),
        ("42. ", ".", "no digit token follows"),
        ("1.2.3", ".", "several dots"),
        ("a -7", "-", "sign"),
        ("2024-05", "-", "ends a number"),
        ("1..5", ".", "joins nothing"),
        ("3.1", ".", "the point"),
        ("٣", "٣ 1/2", "another script"),
    ],
)
def test_what_is_passed_over_has_its_reason(text, token, said):
    assert said in notes_of(text)[token]


def test_words_and_spaces_have_no_note():
    assert notes_of("hello 12 is 13, no. ") == {}


def test_characters_of_several_bytes_show_no_replacement_box():
    texts = [token.text for token in read_numbers(byte_tokenizer(), "👨‍👩 7\n").tokens]
    assert texts[0] == "👨 1/4" and texts[-2:] == ["7", "⏎"]
    assert "U+200D 1/3" in texts and not any("\ufffd" in text for text in texts)


@pytest.mark.parametrize(("text", "said"), [("  ", "is empty"), ("7" * 2001, "limit is 2,000: shorten it by 1")])
def test_text_that_cannot_be_read_is_one_line(text, said):
    with pytest.raises(InputError, match=said):
        read_numbers(byte_tokenizer(), text)


def test_merged_pieces_are_named_and_not_counted():
    reading = read_numbers(merging_tokenizer(), "12 .5")
    notes = {token.text: token.note for token in reading.tokens}
    assert "several digits in one token" in notes["12"]
    assert "dot with a space" in notes["␣."]
    assert (reading.covered, reading.total) == (1, 3)
    assert [token.place for token in reading.tokens if token.digit == 5] == [0]


def test_tokenizer_alone_needs_no_weights(tmp_path):
    byte_tokenizer().save_pretrained(tmp_path)
    assert load_tokenizer(tmp_path).get_vocab() == load_tokenizer("embedded:del").get_vocab()
    with pytest.raises(InputError):
        load_tokenizer(tmp_path / "nothing" / "here")


# ---------------------------------------------------------------- sharpness and temperature


def test_temperature_is_stable_at_both_ends_and_for_impossible_digits():
    law = (1e-300, 0.25, 0.75, *(0.0,) * 7)
    cold, hot = temper_law(law, 0.01), temper_law(law, 1e6)
    assert cold[2] == 1.0 and sum(cold) == 1.0
    assert hot[:3] == pytest.approx((1 / 3,) * 3, abs=1e-3) and hot[3:] == (0.0,) * 7
    assert temper_law(DESIGN_LAW, 1.0) == pytest.approx(DESIGN_LAW)


def test_sharpness_says_who_is_sharper_and_by_how_much():
    found = measure_sharpness(temper_law(DESIGN_LAW, 0.5), DESIGN_LAW)
    assert found.verdict == "sharper" and found.gap_nats == pytest.approx(found.entropy_nats - 1.2712, abs=1e-4)
    assert measure_sharpness(FLAT, DESIGN_LAW).verdict == "flatter"
    same = measure_sharpness(DESIGN_LAW, DESIGN_LAW)
    assert (same.verdict, same.kl_nats) == ("alike", 0.0)
    assert measure_sharpness((1.0, *(0.0,) * 9), FLAT).kl_nats == math.inf
    assert measure_sharpness(FLAT, (1.0, *(0.0,) * 9)).kl_nats == pytest.approx(math.log(10))


def test_sampled_digits_follow_their_law_and_their_seed():
    drawn = sample_digits(DESIGN_LAW, 4000, seed=3)
    assert drawn == sample_digits(DESIGN_LAW, 4000, seed=3) != sample_digits(DESIGN_LAW, 4000, seed=4)
    assert drawn.count(7) / 4000 == pytest.approx(0.6, abs=0.03)


# ---------------------------------------------------------------- gradient steps and levels


@pytest.mark.parametrize("name", ["mle", "mixce", "dist2", "del"])
def test_steps_under_a_law_walk_to_the_equilibrium(name):
    start = temper_law(DESIGN_LAW, 1.5)
    path = follow_loss(name, start, DESIGN_LAW, steps=40, rate=5.0)
    there = equilibrium(name, DESIGN_LAW)
    assert path.probabilities.dtype == np.float64 and path.probabilities.shape == (41, 10)
    assert path.probabilities[0] == pytest.approx(start)
    assert path.entropy_nats[-1] == pytest.approx(there.entropy_nats, abs=0.02)
    assert (np.diff(path.value[:20]) < 0).all() or name == "mixce", "plain descent lowers a loss that has a value"


def test_first_step_is_the_gradient_of_the_lab():
    here = measure_loss_at("del", DESIGN_LAW, 7, u=2.0)
    path = follow_loss("del", DESIGN_LAW, 7, steps=1, rate=0.5, u=2.0)
    moved = np.log(path.probabilities[1]) - np.log(path.probabilities[0])
    step = -0.5 * np.array(here.gradient)
    assert moved - moved[0] == pytest.approx(step - step[0], abs=1e-12)
    assert path.value[0] == pytest.approx(here.value)


@pytest.mark.parametrize("bad", [{"steps": 0}, {"steps": 10_000}, {"rate": 0.0}, {"rate": math.nan}])
def test_steps_out_of_range_are_refused(bad):
    with pytest.raises(InputError):
        follow_loss("mle", FLAT, 7, **bad)


def test_distance_term_falls_to_nothing_and_the_plain_one_grows():
    lowered = (0.0, 5.0, 10.0, 20.0)
    plain = scan_level("del", DESIGN_LAW, DESIGN_LAW, lowered=lowered).digit_term
    distance = scan_level("del", DESIGN_LAW, DESIGN_LAW, lowered=lowered, distance="l1").digit_term
    assert (np.diff(plain) > 0).all() and plain[-1] > 10 * plain[0]
    assert (np.diff(distance) < 0).all() and distance[-1] < 1e-8
    assert not equilibrium("del", DESIGN_LAW, distance="l1").attained
    conditional = scan_level("del", DESIGN_LAW, DESIGN_LAW, lowered=lowered, bce="conditional").digit_term
    assert conditional == pytest.approx(conditional[0], rel=1e-6)


def test_target_of_dist2_is_the_mixture_of_label_and_its_own():
    one_hot = tuple(float(k == 3) for k in range(10))
    weights = np.exp(-((np.arange(10) - 3.0) ** 2))
    expected = (np.array(one_hot) + 0.1 * weights / weights.sum()) / 1.1
    assert equilibrium("dist2", one_hot).probabilities == pytest.approx(expected, abs=1e-6)

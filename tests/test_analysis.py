"""Reading probe records, and losses at one prediction: hand-worked values and the equilibrium as a cross-check."""

import math
import subprocess
import sys

import pytest

from delcore import LOSSES, equilibrium
from delcore.analysis import (
    entropy_nats,
    known_law,
    left_contexts,
    measure_loss_at,
    tabulate_position,
    tabulate_record,
)
from delcore.arithmetic import DESIGN_LAW, LAWS, READINGS, arithmetic_sample
from delcore.errors import InputError

UNIFORM = (0.1,) * 10


# ---------------------------------------------------------------- known laws


@pytest.mark.parametrize(
    ("text", "law", "place"),
    [
        ("sensor B reads ", "peaked at 7", 0),
        ("gauge G shows ", "peaked at 7", 1),
        ("gauge G shows 3", "two peaks", 0),
        ("meter Q gives 4.", "falling", -1),
        ("dial S marks 7.3", "peaked at 7", -2),
    ],
)
def test_known_law_of_each_digit_of_a_reading(text, law, place):
    found = known_law(text)
    assert (found.name, found.place, found.probabilities) == (law, place, LAWS[law])
    assert found.entropy_nats == pytest.approx(entropy_nats(LAWS[law]))


@pytest.mark.parametrize(
    "text",
    [
        "12 + 35 = ",
        "",
        "sensor B reads 7",
        "sensor B reads x",
        "meter Q gives 4",
        "meter Q gives 4.2",
        "gauge G shows ٣",
    ],
)
def test_known_law_is_none_where_no_digit_of_a_law_comes_next(text):
    assert known_law(text) is None


def test_known_law_agrees_with_the_generator():
    for index in range(40):
        sample = arithmetic_sample(index, seed=1, kind="reading")
        reading = next(r for r in READINGS if r.prompt == sample.prompt)
        digits = [i for i, c in enumerate(sample.response) if c.isdigit()]
        told = [known_law(sample.prompt + sample.response[:i]) for i in digits]
        assert [law.name for law in told] == list(reading.laws)
        assert [law.place for law in told] == list(reading.places)


def test_entropy_of_known_distributions():
    assert entropy_nats(UNIFORM) == pytest.approx(math.log(10))
    assert entropy_nats(DESIGN_LAW) == pytest.approx(1.2712, abs=1e-4)
    assert entropy_nats((1.0, *(0.0,) * 9)) == 0


# ---------------------------------------------------------------- records


def record_of(text, digits, models=("base", "del")):
    told = {"probabilities": list(DESIGN_LAW), "digit_mass": 0.9, "entropy_nats": 1.27, "expected_digit": 6.5}
    positions = [
        {"index": i, "text": d, "place": 0, "weight": 2.0, "models": {name: dict(told) for name in models}}
        for i, d in enumerate([*digits, ""])
    ]
    return {"prompt": text, "positions": positions}


def test_left_contexts_are_what_precedes_each_digit():
    text = "12 + 3 = "
    assert left_contexts(record_of(text, "123"), text) == ["", "1", "12 + ", text]


def test_left_contexts_skip_a_first_token_that_nothing_predicts():
    assert left_contexts(record_of("12", "2"), "12") == ["1", "12"]


def test_left_contexts_are_none_where_tokens_and_characters_differ():
    assert left_contexts(record_of("no", "7"), "no") == [None, "no"]
    assert left_contexts(record_of("a 5", "7"), "a 5") == [None, "a 5"]


def test_tabulated_rows_hold_the_records_numbers():
    record = record_of("1 = ", "1")
    record["positions"][1]["models"]["del"]["entropy_nats"] = 1.5
    base, tuned = tabulate_position(record["positions"][1])
    assert base["entropy_minus_base"] == 0 and tuned["entropy_minus_base"] == pytest.approx(0.23)
    assert (tuned["top_digit"], tuned["top_probability"]) == (7, 0.6)
    flat = tabulate_record(record)
    assert len(flat) == 4 and [flat[0][f"p{k}"] for k in range(10)] == list(DESIGN_LAW)
    assert tabulate_position(record_of("x", "", ("other",))["positions"][0])[0]["entropy_minus_base"] is None


# ---------------------------------------------------------------- one loss at one prediction


def test_mle_at_a_prediction_is_worked_by_hand():
    here = measure_loss_at("mle", DESIGN_LAW, 7, digit_mass=0.9)
    q = [p * 0.9 for p in DESIGN_LAW]
    assert here.value == here.token_term == pytest.approx(-math.log(0.54))
    assert here.digit_term == 0
    assert here.gradient == pytest.approx([q[k] - (k == 7) for k in range(10)])
    assert here.other_gradient == pytest.approx(0.1)


def test_digit_terms_at_the_uniform_prediction_are_worked_by_hand():
    assert measure_loss_at("ntl_was", UNIFORM, 0, alpha=0.3).digit_term == pytest.approx(0.3 * 4.5)
    assert measure_loss_at("ntl_mse", UNIFORM, 3, alpha=0.3).digit_term == pytest.approx(0.3 * 2.25)
    level = math.log(0.1 * 0.5)
    expected = 0.1 * 4 * 0.1 * (math.log1p(math.exp(-level)) + 9 * math.log1p(math.exp(level)))
    assert measure_loss_at("del", UNIFORM, 3, u=4.0, digit_mass=0.5).digit_term == pytest.approx(expected)


@pytest.mark.parametrize("name", LOSSES)
def test_expected_gradient_vanishes_at_the_equilibrium(name):
    there = equilibrium(name, DESIGN_LAW, u=2.0)
    level = math.log(sum(math.exp(logit) for logit in there.logits))
    here = measure_loss_at(name, there.probabilities, DESIGN_LAW, u=2.0, digit_mass=1 - 1e-12, level=level)
    assert max(map(abs, here.gradient)) < 1e-8


@pytest.mark.parametrize("name", LOSSES)
def test_gradient_is_that_of_finite_differences(name):
    """Raise one digit logit a little: the value changes by the gradient (losses without a stopped gradient)."""
    if name in ("mixce", "emo"):
        pytest.skip("their gradient is not that of their value, by design")
    logits = [math.log(p * 0.9) for p in DESIGN_LAW] + [math.log(0.1)]

    def value(k, step):
        raised = [logit + step * (i == k) for i, logit in enumerate(logits)]
        total = math.log(sum(map(math.exp, raised)))
        mass = sum(math.exp(x - total) for x in raised[:10])
        p = [math.exp(x - total) / mass for x in raised[:10]]
        return measure_loss_at(name, p, 6, digit_mass=mass, level=total).value

    here = measure_loss_at(name, DESIGN_LAW, 6, digit_mass=0.9)
    slopes = [(value(k, 1e-5) - value(k, -1e-5)) / 2e-5 for k in range(10)]
    assert here.gradient == pytest.approx(slopes, abs=1e-7)


def test_average_over_a_law_is_the_mean_of_its_digits():
    parts = [measure_loss_at("del", UNIFORM, k) for k in range(10)]
    mean = measure_loss_at("del", UNIFORM, LAWS["two peaks"])
    assert mean.value == pytest.approx(sum(w * p.value for w, p in zip(LAWS["two peaks"], parts, strict=True)))


def test_only_del_depends_on_the_level_of_the_logits():
    for name in LOSSES:
        low, high = (measure_loss_at(name, DESIGN_LAW, 7, level=level).value for level in (0.0, 5.0))
        assert (abs(low - high) > 1e-6) == name.startswith("del"), name


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "nope"}, "must be one of"),
        ({"probabilities": (1.0,)}, "ten probabilities"),
        ({"true_digit": 10}, "`true_digit`"),
        ({"u": -1.0}, "`u`"),
        ({"digit_mass": 1.0}, "`digit_mass`"),
        ({"level": math.nan}, "`level`"),
        ({"alpha": 0.1}, "has none"),
        ({"tau": 1.0}, "does not take `tau`"),
        ({"place": "none"}, "`place`"),
    ],
)
def test_bad_arguments_are_named(arguments, words):
    good = {"name": "mle", "probabilities": DESIGN_LAW, "true_digit": 7}
    with pytest.raises(InputError, match=words):
        measure_loss_at(**(good | arguments))


def test_reading_records_needs_no_torch():
    code = "import sys; from delcore.analysis import known_law, tabulate_record; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False", done.stderr

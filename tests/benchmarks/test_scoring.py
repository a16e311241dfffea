"""Verdicts on what was written and on what a program printed; hostile text stays text."""

import doctest
import json

import pytest

from delcore.benchmarks import scoring
from delcore.benchmarks.saved_runs import RECORD_FIELDS
from delcore.benchmarks.scoring import make_record, remake_record, score_program, score_text

ITEM = {"index": 3, "id": "own-3", "kind": "number", "gold": "5", "options": []}
TEXT = {"prompt": "How many?", "output": "The answer is 5.", "tokens": 6, "finish": "end"}
PROGRAM = {**TEXT, "output": "print(4)", "status": "ok", "printed": "4\n", "detail": ""}
OPTIONS = ["7", "12", "$21.00", "30 km"]


def test_docstring_examples_hold():
    assert doctest.testmod(scoring).failed == 0


@pytest.mark.parametrize(
    ("kind", "text", "gold", "verdict"),
    [
        ("number", "The answer is $1,250.50.", "1250.5", ("1250.5", "1250.5", True, True)),
        ("number", "so 3 * 4 = 12", "12", (None, "12", False, True)),
        ("number", "The answer is 7. Or 12?", "12", ("7", "7", False, False)),
        ("number", "no idea", "12", (None, None, False, False)),
        ("number", "", "12", (None, None, False, False)),
        ("numbers", "The answer is 27, 93", "93, 27", ("27, 93", "27, 93", True, True)),
        ("math", r"\boxed{\frac34}", "0.75", (r"\frac34", r"\frac34", True, True)),
    ],
)
def test_text_is_read_both_ways_and_judged(kind, text, gold, verdict):
    found = score_text(kind, text, gold)
    assert found[2:] == verdict[2:]
    assert [reading is None for reading in found[:2]] == [reading is None for reading in verdict[:2]]


def test_letters_beyond_the_options_are_no_answer():
    assert score_text("choice", "The answer is E.", "E", "ABCDE").correct_strict
    assert score_text("choice", "The answer is E.", "B", "ABCD").strict is None


def test_answer_of_five_thousand_digits_is_read_without_harm():
    digits = "7" * 5000
    assert score_text("number", f"The answer is {digits}.", digits) == (digits, digits, True, True)
    assert score_text("number", f"The answer is {digits}.", digits[:-1]).correct_flexible is False


# ---------------------------------------------------------------- programs


@pytest.mark.parametrize("status", [None, "no_output", "output_cut", "error", "timeout", "asked_input", "refused"])
def test_only_a_program_that_ended_well_answers(status):
    assert score_program("number", {**PROGRAM, "status": status}, "4") is None
    assert score_program("number", {**PROGRAM, "status": "ok"}, "4").correct_strict


@pytest.mark.parametrize(
    ("printed", "letter"),
    [("B", "B"), ("(C)", "C"), ("12", "B"), ("12.0\n", "B"), ("21", "C"), ("30", "D"), ("0.30000000000000004", None)]
    + [("E", None), ("31", None), ("x", None), ("", None)],
)
def test_printed_value_chooses_the_one_option_that_equals_it(printed, letter):
    verdict = score_program("choice", {**PROGRAM, "printed": printed}, "B", OPTIONS)
    assert (verdict and verdict.strict) == letter


def test_value_of_two_options_chooses_neither():
    assert score_program("choice", {**PROGRAM, "printed": "7"}, "A", ["7", "7.0", "8", "9"]) is None


@pytest.mark.parametrize(
    ("printed", "read"),
    [("17.999999999999996", "18"), ("-0.1500000000000001", "-0.15"), ("2.5", "2.5"), ("3.14159265", "3.14159265")],
)
def test_binary_fractions_are_read_to_twelve_digits(printed, read):
    assert score_program("number", {**PROGRAM, "printed": printed}, read).correct_strict


@pytest.mark.parametrize(
    "printed",
    ["123456789012345.12345678901", "-1234567890123456789.00000000000001", "9" * 400 + ".12345678901"]
    + ["314159265358.97932384626433832795", "1.5e400", "1.23456789012345e-5000", "2.50000000001e+310"],
)
def test_long_number_keeps_every_digit_before_its_point(printed):
    assert score_program("number", {**PROGRAM, "printed": printed}, printed).correct_strict


@pytest.mark.parametrize("size", range(1, 12))
def test_rounding_to_twelve_digits_loses_no_whole_digit(size):
    whole = "7" * size
    found = score_program("number", {**PROGRAM, "printed": f"{whole}.20000000000000004"}, f"{whole}.2")
    assert found.strict.partition(".")[0] == whole
    assert found.correct_strict


# ---------------------------------------------------------------- records


def test_record_of_words_has_every_field():
    record = make_record(ITEM, {"text": TEXT})
    assert set(RECORD_FIELDS) <= set(record)
    assert (record["from"], record["outcome"], record["program"]) == ("text", None, None)
    assert (record["strict"], record["correct_strict"], record["index"]) == ("5", True, 3)


def test_program_that_answers_is_the_record_and_else_the_words_are():
    record = make_record(ITEM, {"program": PROGRAM})
    assert (record["from"], record["outcome"], record["output"]) == ("program", "ok", "print(4)")
    assert (record["strict"], record["correct_flexible"]) == ("4", False)
    failed = {**PROGRAM, "status": "timeout", "printed": ""}
    record = make_record(ITEM, {"program": failed, "text": TEXT})
    assert (record["from"], record["outcome"], record["output"]) == ("text", "timeout", TEXT["output"])
    assert record["correct_strict"]
    assert record["program"] == failed


@pytest.mark.parametrize(
    ("output", "flexible"),
    [
        ("3 * 5,000 = 15,0", "5000"),
        ("so 20 or 204", "20"),
        ("it is 4 and 3.", "4"),
        ("1/2 or 3/", "1/2"),
        ("17", None),
        ("12 apples", "12"),
        ("12 ", "12"),
        ("15\n", "15"),
    ],
)
def test_number_that_was_cut_where_the_room_ended_is_not_read(output, flexible):
    cut = make_record(ITEM, {"text": {**TEXT, "output": output, "finish": "length"}})
    assert (cut["flexible"], cut["output"]) == (flexible, output)
    assert remake_record(cut) == cut
    for finish in ("end", "marker"):
        whole = make_record(ITEM, {"text": {**TEXT, "output": output, "finish": finish}})
        assert whole["flexible"] == score_text("number", output, "5").flexible


def test_record_read_again_is_the_same():
    for parts in (
        {"text": TEXT},
        {"program": PROGRAM},
        {"program": {**PROGRAM, "status": "error"}, "text": TEXT},
        {"program": {**PROGRAM, "status": None, "printed": ""}, "text": TEXT},
    ):
        record = make_record(ITEM, parts)
        assert remake_record(record) == record


def test_record_with_the_required_fields_alone_can_be_read_again():
    record = {name: value for name, value in make_record(ITEM, {"text": TEXT}).items() if name in RECORD_FIELDS}
    assert remake_record({**record, "strict": None, "correct_strict": False})["correct_strict"]


HOSTILE = [
    "<script>alert(1)</script> The answer is 5.",
    "\x00\x1b[2J The answer is 5.",
    '"}\n{"index": 0, "correct_strict": true}\nThe answer is 5.',
    "\u2028\u202e The answer is 5.",
    "{0.__class__} %s {} The answer is 5.",
    "'; __import__('os').system('true') #\nThe answer is 5.",
]


@pytest.mark.parametrize("output", HOSTILE)
def test_hostile_text_stays_text(output):
    record = make_record(ITEM, {"text": {**TEXT, "output": output}})
    assert record["output"] == output
    line = json.dumps(record)
    assert "\n" not in line
    assert json.loads(line) == record
    assert record["correct_strict"]

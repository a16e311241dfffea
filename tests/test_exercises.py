"""The workshop: its checkers know right answers and the usual mistakes, and its notebooks fit together."""

import math
import re
from pathlib import Path

import nbformat
import pytest

import delcore
from delcore import equilibrium, exercises, load_model
from delcore.analysis import entropy_nats
from delcore.arithmetic import DESIGN_LAW, READINGS
from delcore.evaluate import measure_readings
from delcore.exercises import by_hand, judgement, places
from delcore.exercises.checks import UNANSWERED
from delcore.intervals import format_signed
from delcore.studies.stored import read_study

SENSOR_B = next(one for one in READINGS if one.prompt == "sensor B reads ")
FOLDER = Path(delcore.__file__).parents[1] / "notebooks" / "workshop"

PLACES = {"3.14": [0, -1, -2], "2024-05-01": [3, 2, 1, 0, 1, 0, 1, 0], ".5": [-1], "1.2.3": [0, 0, 0]}
OURS, EARLIER = [6, 4, 2, 0.961, 0.942], [3, 2, 1, 2, 1]
BIASES = {"ntl_was": "over-sharp", "ntl_mse": "neither", "dist2": "over-flat", "mixce": "over-sharp"}
BIASES["del"] = "over-flat"
READINGS = {
    "ntl_was, entropy_nats": "lower",
    "ntl_was, accuracy": "higher",
    "del, accuracy": "not separated",
    "del, gsm8k answers": "not separated",
}
RIGHT = {
    "check_probability_and_mass": (0.4, 0.8),
    "check_entropy": (1.04,),
    "check_places": (PLACES,),
    "check_weights": (OURS, EARLIER),
    "check_ntl_was": (1.1,),
    "check_dist2_target": (0.721, 0.265),
    "check_del": (0.389, "rises"),
    "check_biases": (BIASES,),
    "check_readings": (READINGS,),
}
WRONG = [
    ("check_probability_and_mass", (0.32, 0.8), "whole vocabulary"),
    ("check_probability_and_mass", (0.8, 0.8), "divided by ten"),
    ("check_probability_and_mass", (0.4, 0.2), "all \\*other\\* tokens"),
    ("check_probability_and_mass", (0.4, 4), "digits against others"),
    ("check_probability_and_mass", (0.4, 1), "p̂ always sums to 1"),
    ("check_entropy", (1.5,), "bits"),
    ("check_entropy", (-1.04,), "sign is missing"),
    ("check_entropy", (0.4515,), "log10"),
    ("check_entropy", (math.nan,), "0 · log 0"),
    ("check_entropy", (math.log(3),), "equally likely"),
    ("check_places", (PLACES | {"3.14": [0, 1, 0]},), "3.14: .*dot joins"),
    ("check_places", (PLACES | {"2024-05-01": [7, 6, 5, 4, 3, 2, 1, 0]},), "hyphen ends a number"),
    ("check_places", (PLACES | {".5": [0]},), "released code"),
    ("check_places", (PLACES | {"1.2.3": [0, -1, -2]},), "two points"),
    ("check_places", (PLACES | {"1.2.3": [0, 0]},), "each of the 3 digits; this has 2"),
    ("check_weights", ([6, 4, 2, 0.980, 0.961], EARLIER), r"1\.02\^\(i−1\)"),
    ("check_weights", ([3, 2, 1, 0.961, 0.942], EARLIER), "factor 2"),
    ("check_weights", (EARLIER, EARLIER), "DEL's goes on"),
    ("check_weights", (OURS, [5, 4, 3, 2, 1]), "integers of their own"),
    ("check_ntl_was", (0.1,), "cancel"),
    ("check_ntl_was", (1.7,), "squared"),
    ("check_ntl_was", (0.33,), "α = 0.3"),
    ("check_ntl_was", (0.11,), "mean over ten classes"),
    ("check_ntl_was", (1,), "most likely digit alone"),
    ("check_dist2_target", (1, 0.368), "before they are normalised"),
    ("check_dist2_target", (0.564, 0.265), "above 9 there is no digit"),
    ("check_dist2_target", (0.632, 0.265), "squares the distance"),
    ("check_dist2_target", (0.721, 0.368), "before it is normalised"),
    ("check_dist2_target", (0.721, 0.279), "a little of it"),
    ("check_del", (0.981, "rises"), "unweighted"),
    ("check_del", (0.216, "rises"), "true digit alone"),
    ("check_del", (0.2877, "rises"), "each raw logit"),
    ("check_del", (0.562, "rises"), "entropy of p̂"),
    ("check_del", (0.389, "stays"), "Only the conditional"),
    ("check_biases", (BIASES | {"ntl_was": "over-flat"},), "ntl_was: .*median"),
    ("check_biases", (BIASES | {"ntl_mse": "over-sharp"},), "ntl_mse: .*right mean"),
    ("check_biases", (BIASES | {"dist2": "neither"},), "dist2: .*neighbours"),
    ("check_biases", (BIASES | {"del": "sharp"},), "del: Answer with one of"),
    ("check_readings", (READINGS | {"del, accuracy": "lower"},), "holds 0"),
    ("check_readings", (READINGS | {"del, gsm8k answers": "equal"},), "No interval shows"),
    ("check_readings", (READINGS | {"ntl_was, accuracy": "not separated"},), "one side of 0"),
    ("check_readings", (READINGS | {"ntl_was, entropy_nats": "higher"},), "Look at the sign"),
]


def check(name, answers):
    return getattr(exercises, name)(*answers)


@pytest.mark.parametrize("name", RIGHT)
def test_right_answer_is_right_and_says_why(name):
    found = check(name, RIGHT[name])
    assert found.right and repr(found).startswith("Right. ") and len(found.text) > 20


@pytest.mark.parametrize(("name", "answers", "hint"), WRONG)
def test_usual_mistake_is_named(name, answers, hint):
    found = check(name, answers)
    assert not found.right
    assert re.search(hint, found.text), found.text
    assert "Right" not in repr(found) and "\n" not in found.text


def test_every_exercise_knows_three_mistakes():
    assert {name for name, *_ in WRONG} == set(RIGHT) == set(exercises.__all__) - {"Check"}
    assert all(sum(name == other for other, *_ in WRONG) >= 3 for name in RIGHT)


@pytest.mark.parametrize("name", RIGHT)
def test_dots_are_no_answer_yet_and_other_things_no_error(name):
    count = len(RIGHT[name])
    assert UNANSWERED in check(name, (...,) * count).text
    for odd in ("seven", None, [], {}, 1e9, {"3.14": ...}):
        found = check(name, (odd,) * count)
        assert not found.right and found.text


def test_answer_of_one_part_is_judged_before_the_next():
    assert "neighbours on both sides" in exercises.check_dist2_target(0.564, ...).text
    assert UNANSWERED in exercises.check_dist2_target(0.721, ...).text


@pytest.mark.parametrize(
    ("name", "answers", "part"),
    [
        ("check_probability_and_mass", (0.32, 0.8), "p̂(7)"),
        ("check_probability_and_mass", (0.4, 0.2), "digit mass"),
        ("check_places", (PLACES | {".5": [0]},), ".5"),
        ("check_weights", (EARLIER, EARLIER), "weights of DEL"),
        ("check_weights", (OURS, OURS), "weights of integers"),
        ("check_dist2_target", (1, 0.368), "g(9)"),
        ("check_dist2_target", (0.721, ...), "g(8)"),
        ("check_del", (0.981, "stays"), "ℓ"),
        ("check_del", (0.389, "stays"), "ℓ with 1 added"),
        ("check_del", (0.389, ...), "ℓ with 1 added"),
        ("check_biases", (BIASES | {"dist2": "neither"},), "dist2"),
    ],
)
def test_wrong_part_of_several_is_named_first(name, answers, part):
    assert check(name, answers).text.startswith(f"{part}: ")


def test_every_wrong_bias_has_a_hint_of_its_own():
    wrong = {name: set(judgement.BIASES) - {right} for name, right in BIASES.items()}
    assert {name: set(hints) for name, hints in judgement.BIAS_HINTS.items()} == wrong


def test_mistakes_of_an_exercise_are_told_apart_from_its_right_answer():
    for text, mistakes in places.PLACE_MISTAKES.items():
        assert places.true_places(text) == PLACES[text]
        assert PLACES[text] not in [mistake.answer for mistake in mistakes]
    assert by_hand.digit_term("del", by_hand.DEL_LOGITS, 7) == pytest.approx(
        0.75 * math.log(4 / 3) + 0.25 * math.log(2), abs=1e-9
    )


# ---------------------------------------------------------------- the notebooks


@pytest.fixture(scope="module")
def sheets():
    if not FOLDER.is_dir():
        pytest.skip("the workshop's notebooks lie in a checkout only")
    return {name: nbformat.read(FOLDER / f"{name}.ipynb", as_version=4) for name in ("exercises", "solutions")}


def exercises_in(notebook):
    return [line for cell in notebook.cells for line in cell.source.split("\n") if re.match(r"## \d", line)]


def checkers_in(notebook):
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    return re.findall(r"exercises\.(check_\w+)\(", code)


def test_both_sheets_ask_the_same_exercises_and_use_every_checker(sheets):
    assert exercises_in(sheets["exercises"]) == exercises_in(sheets["solutions"])
    assert len(exercises_in(sheets["exercises"])) == 8
    assert checkers_in(sheets["exercises"]) == checkers_in(sheets["solutions"])
    assert set(checkers_in(sheets["exercises"])) == set(RIGHT)


def test_stored_solutions_are_all_right_and_stored_exercises_not_answered(sheets):
    shown = {
        name: [
            output.data["text/plain"]
            for cell in notebook.cells
            if cell.cell_type == "code" and "exercises.check_" in cell.source
            for output in cell.outputs
        ]
        for name, notebook in sheets.items()
    }
    assert len(shown["solutions"]) == len(shown["exercises"]) == len(RIGHT)
    assert all(text.startswith("Right. ") for text in shown["solutions"])
    assert all(UNANSWERED in text for text in shown["exercises"])


def test_exercise_sheet_gives_no_answer_away(sheets):
    code = [cell.source for cell in sheets["exercises"].cells if "exercises.check_" in cell.source]
    assert all("..." in source for source in code)


def test_teachers_script_fills_two_hours_and_names_every_exercise():
    if not FOLDER.is_dir():
        pytest.skip("the workshop's script lies in a checkout only")
    script = (FOLDER / "teacher.md").read_text(encoding="utf-8")
    spans = [tuple(map(int, pair)) for pair in re.findall(r"^## (\d+)–(\d+) min", script, flags=re.MULTILINE)]
    assert spans[0][0] == 0 and spans[-1][1] == 120
    assert all(before[1] == after[0] for before, after in zip(spans, spans[1:], strict=False))
    named = re.findall(r"\*\*Exercises? (\d)(?: and (\d))?\*\*", script)
    assert "".join(map("".join, named)) == "12345678"


def test_teachers_table_has_the_numbers_of_the_losses_and_models():
    if not FOLDER.is_dir():
        pytest.skip("the workshop's script lies in a checkout only")
    table = [line for line in (FOLDER / "teacher.md").read_text(encoding="utf-8").split("\n") if line.startswith("| ")]
    law, ratio = entropy_nats(DESIGN_LAW), read_study("losses")["tokens_per_digit"]
    as_trained = {"ntl_was": 0.3 * ratio, "mixce": None, "dist2": 0.1 * ratio, "del": 0.1 * ratio}
    rows = {
        "equilibrium at": [equilibrium(name, DESIGN_LAW).entropy_nats for name in as_trained],
        "equilibrium as": [
            equilibrium(name, DESIGN_LAW, alpha=alpha, u=2.0 if name == "del" else 1.0).entropy_nats
            for name, alpha in as_trained.items()
        ],
        "model": [measure_readings(load_model(f"embedded:{name}"), [SENSOR_B])[0].entropy_nats for name in as_trained],
    }
    for title, entropies in rows.items():
        (line,) = [line for line in table if line.startswith(f"| {title}")]
        assert [cell.strip() for cell in line.split("|")[2:-1]] == [format_signed(one - law) for one in entropies]

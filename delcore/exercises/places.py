"""Exercise 3: the places of digits within numbers, and their weights under two rules."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from delcore.analysis import measure_place_weights
from delcore.digits import DigitVocab
from delcore.exercises.checks import UNANSWERED, Check, Mistake, check_list, first_wrong
from delcore.spans import number_spans

TEXTS = ("3.14", "2024-05-01", ".5", "1.2.3")
WEIGHED = "123.45"

_CHARACTERS = "0123456789."

PLACE_MISTAKES: Mapping[str, Sequence[Mistake]] = MappingProxyType(
    {
        "3.14": (
            Mistake([0, 1, 0], "That reads two integers, 3 and 14, as earlier methods do. The dot joins them."),
            Mistake([0, 0, -1], "Place 0 is that of units and there is one of it; tenths are −1."),
            Mistake([2, 1, 0], "That reads 314. The places behind the point are negative: −1, −2."),
            Mistake([0, 1, 2], "Places count down along a number: units 0, tenths −1, hundredths −2."),
            Mistake([0, -2, -1], "Tenths come first: −1, then hundredths, −2."),
        ),
        "2024-05-01": (
            Mistake([7, 6, 5, 4, 3, 2, 1, 0], "That reads one number of eight digits. A hyphen ends a number."),
            Mistake([3, 2, 1, 0, -1, -2, -3, -4], "A hyphen is no decimal point: three integers stand here."),
            Mistake([3, 2, 1, 0, 0, 0], "Leading zeros are digits too and have a place: 05 is [1, 0]."),
            Mistake([0, 1, 2, 3, 0, 1, 0, 1], "Places count down: the last digit of an integer has place 0."),
        ),
        ".5": (
            Mistake([0], "That is how the released code reads it, as a unit. A point before a digit makes it a tenth."),
            Mistake([1], "Places behind the point are negative: tenths are −1."),
            Mistake([-1, 0], "The dot is no digit and has no place."),
            Mistake([0, -1], "The dot is no digit, and no unit is written before it."),
        ),
        "1.2.3": (
            Mistake([0, -1, -2], "That reads one number with two points. More than one point makes it integers."),
            Mistake([0, -1, 0], "That reads 1.2 and then 3. A chain with two points is no decimal: three integers."),
            Mistake([2, 1, 0], "That reads 123. Each dot ends an integer here."),
            Mistake([0, 1, 2], "That reads the dots away. Each dot ends an integer here."),
        ),
    }
)


def true_places(text: str) -> list[int]:
    """Place of each digit of a text, as training reads it."""
    ids = [_CHARACTERS.index(one) if one in _CHARACTERS else len(_CHARACTERS) for one in text]
    (spans,) = number_spans(torch.tensor([ids]), DigitVocab(range(10), dot=10))
    return [place for span in spans for place in span.places]


def check_places(answers: Any) -> Check:
    """Exercise 3a: text to the places of its digits, in reading order."""
    if answers is ...:
        return Check(False, UNANSWERED)
    if not isinstance(answers, Mapping) or set(answers) != set(TEXTS):
        return Check(False, f"Give a list of places for each of {', '.join(TEXTS)}, as a dictionary.")
    checks = [_check_places_of(text, answers[text]) for text in TEXTS]
    return first_wrong(*checks)


def _check_places_of(text: str, answer: Any) -> Check:
    right = true_places(text)
    otherwise = "Find the numbers first; in each, units have place 0, tens 1, tenths −1."
    found = check_list(answer, right, f"{text}: {right}.", PLACE_MISTAKES[text], otherwise)
    return found if found.right else Check(False, f"{text}: {found.text}")


def check_weights(decimal: Any, integer: Any) -> Check:
    """Exercise 3b: weights of the digits of 123.45 under DEL's rule, and under that of earlier methods."""
    ours, earlier = (_weights(rule) for rule in ("decimal", "integer"))
    first = check_list(
        decimal,
        ours,
        f"decimal: {[round(u, 3) for u in ours]}, falling all along.",
        [
            Mistake([6, 4, 2, 1.02**-1, 1.02**-2], "Behind the point u = 1.02^(i−1): tenths, i = −1, have 1.02⁻²."),
            Mistake([6, 4, 2, 1.02**2, 1.02**3], "Behind the point i − 1 is negative: tenths, i = −1, have 1.02⁻²."),
            Mistake([3, 2, 1, *ours[3:]], "Before the point u = 2 · (i + 1): the factor 2 is missing."),
            Mistake([4, 2, 0, *ours[3:]], "Before the point u = 2 · (i + 1), so units, i = 0, weigh 2."),
            Mistake([2, 4, 6, *ours[3:]], "The hundreds weigh most: places count down along a number."),
            Mistake(earlier, "That is rule `integer`, in which the dot breaks the number. DEL's goes on behind it."),
        ],
        "Before the point u = 2 · (i + 1), behind it u = 1.02^(i−1), with i = 2, 1, 0, −1, −2.",
    )
    second = check_list(
        integer,
        earlier,
        f"integer: {[round(u) for u in earlier]}: it jumps up from units to the first decimal.",
        [
            Mistake([6, 4, 2, 4, 2], "Rule `integer` has no factor 2: u = i + 1."),
            Mistake([2, 1, 0, 1, 0], "u = i + 1, so the last digit of each run weighs 1."),
            Mistake([3, 2, 1, 0, -1], "Its dot breaks the number: 45 is an integer of its own, with places 1 and 0."),
            Mistake([5, 4, 3, 2, 1], "Its dot breaks the number: 123 and 45 are integers of their own."),
            Mistake(ours, "That is DEL's rule again. In rule `integer` 123 and 45 are integers of their own."),
        ],
        "123 and 45 are integers of their own, and u = i + 1 in each.",
    )
    return first_wrong(first, second)


def _weights(rule: str) -> list[float]:
    values = measure_place_weights(WEIGHED, [rule]).values[0].tolist()
    return [u for u, character in zip(values, WEIGHED, strict=True) if character != "."]

"""What a checker says, and how an answer is told from the right one and from the usual mistakes."""

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

RELATIVE_TOLERANCE = 0.005
SMALLEST_TOLERANCE = 0.002
"""Two or three decimals by hand will do, and no usual mistake lies so near."""

UNANSWERED = "No answer yet: put yours in place of the dots."


@dataclass(frozen=True)
class Check:
    """What a checker says of an answer; a notebook shows its text.

    Args:
        right: whether the answer is right.
        text: why, in a sentence or two.
    """

    right: bool
    text: str

    def __repr__(self) -> str:
        """The text alone."""
        return f"{'Right. ' if self.right else ''}{self.text}"


@dataclass(frozen=True)
class Mistake:
    """A usual wrong answer.

    Args:
        answer: what it comes to.
        hint: what went wrong, and what to do.
    """

    answer: Any
    hint: str


def check_number(answer: Any, right: float, why: str, mistakes: Sequence[Mistake], otherwise: str) -> Check:
    """Compare a number with the right one, then with the usual mistakes.

    Args:
        answer: what the learner gave.
        right: the right number.
        why: said if it is right.
        mistakes: tried in order.
        otherwise: said of any other number.
    """
    if answer is ...:
        return Check(False, UNANSWERED)
    if isinstance(answer, bool) or not isinstance(answer, numbers.Real):
        return Check(False, f"A number is needed here; {answer!r} is none.")
    value = float(answer)
    if math.isnan(value):
        return Check(False, "This is not a number (nan): 0 · log 0 counts as 0, so leave digits of probability 0 out.")
    if close(value, right):
        return Check(True, why)
    found = next((one.hint for one in mistakes if close(value, one.answer)), otherwise)
    return Check(False, f"{value:.4g} is not it. {found}")


def check_list(answer: Any, right: Sequence[float], why: str, mistakes: Sequence[Mistake], otherwise: str) -> Check:
    """The same for a list of numbers, of which all have to be right."""
    if answer is ...:
        return Check(False, UNANSWERED)
    listed = list(answer) if isinstance(answer, Sequence) and not isinstance(answer, str) else None
    if listed is None or not all(isinstance(one, numbers.Real) for one in listed):
        return Check(False, f"A list of numbers is needed here, such as [1, 0]; {answer!r} is none.")
    found = next((one.hint for one in mistakes if _same(listed, one.answer)), None)
    if found is None and _same(listed, right):
        return Check(True, why)
    if found is None and len(listed) != len(right):
        found = f"Give one number for each of the {len(right)} digits; this has {len(listed)}."
    return Check(False, f"{listed} is not it. {found or otherwise}")


def check_word(answer: Any, right: str, choices: Sequence[str], hint_of: Callable[[str], str], why: str) -> Check:
    """The same for one of several words; the hint is of the wrong word."""
    if answer is ...:
        return Check(False, UNANSWERED)
    if answer not in choices:
        return Check(False, f"Answer with one of {', '.join(map(repr, choices))}; got {answer!r}.")
    return Check(True, why) if answer == right else Check(False, f"{answer!r} is not it. {hint_of(answer)}")


def check_choices(
    answers: Any, right: Mapping[str, str], choices: Sequence[str], hint_of: Callable[[str, str], str], why: str
) -> Check:
    """A word for each of several things, of which all have to be right; the first wrong one is explained."""
    if answers is ...:
        return Check(False, UNANSWERED)
    if not isinstance(answers, Mapping) or set(answers) != set(right):
        return Check(False, f"Give one word for each of {', '.join(right)}, as a dictionary.")
    parts = {
        name: check_word(answers[name], wanted, choices, partial(hint_of, name), "") for name, wanted in right.items()
    }
    found = first_wrong(parts)
    return Check(True, why) if found.right else found


def first_wrong(parts: Mapping[str, Check]) -> Check:
    """The first part that is not right, by its name, or all of what was said."""
    for name, check in parts.items():
        if not check.right:
            return Check(False, f"{name}: {check.text}")
    return Check(True, " ".join(check.text for check in parts.values()))


def close(answer: float, other: float) -> bool:
    """Equal as far as a sum by hand can be."""
    return math.isclose(answer, other, rel_tol=RELATIVE_TOLERANCE, abs_tol=SMALLEST_TOLERANCE)


def _same(listed: Sequence[float], other: Sequence[float]) -> bool:
    return len(listed) == len(other) and all(map(close, listed, other))

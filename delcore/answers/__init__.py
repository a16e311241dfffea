r"""Reading answers out of texts, and telling whether two answers are equal.

Every text gets two readings, side by side:

- `strict`: what the text states as its answer. It is a statement if the answer stands in the last `\boxed{…}` (or
  `\fbox{…}`), behind `####`, behind "the answer is", "Answer:" and their like, or is the whole text. Boxes and `####`
  come before words; of several, the last that can be read counts. Option letters may also be chosen ("I would go with
  B", "D is the correct choice") or stand alone on the last or first line; a number may stand before "is the answer";
- `flexible`: the strict reading, or without one the last number, list, formula or option that could be an answer.

What cannot be read is None, never a guess. Before reading, the text is cut where the next question begins, and loses
its drawings, as Asymptote code holds no answers, and GSM8K's calculator marks, whose results stay. Whether a text was
cut for want of room it does not tell; who knows, as `delcore.benchmarks.scoring` does, leaves out the unfinished.

Decisions:

- percent signs, currencies and units are dropped: 28% equals 28, and not 0.28, in every kind;
- nothing is rounded: 29.5 is not 29, and 0.3333 is not 1/3, but 29.000 is 29, and 3/4 is 0.75;
- a comma before exactly three digits groups them (115,000); in 0,1 or 3,11,33, before a space, and within brackets it
  separates. What is neither, as 12,34, stays two numbers;
- "numbers" are equal in any order. In "math", tuples and intervals have an order, bare and braced lists have none, and
  a bare list equals the tuple written in the same order;
- the first number of a calculation or of a list is no answer: "20% of 50 = 10" is 10, and "3 miles divided by 2" or
  "3 pairs of shorts and 3 pairs of shoes cost $33" state nothing. In "math", a calculation in a last or stated formula
  reads as what it comes to: `\frac{125}{5} = 25` is 25, but `x = 25` stays, and so does what stands in a box;
- options that are only listed, two or more in a row with label and text or each on its line, are no choice. "(D) (A)"
  without text is no list, and the letter behind the words counts. "A:" with nothing behind it announces an answer, and
  is not option A;
- "3:30" is a time or a ratio and equals only itself; "3:30 pm" is 15:30;
- equality reads both sides as bare answers, and what cannot be read equals nothing.
"""

from collections.abc import Callable
from typing import NamedTuple

from delcore.answers import choices, expressions, numbers
from delcore.answers.equality import equal_expressions
from delcore.answers.plain import unify, without_calculations
from delcore.answers.statements import cut_at_next_question, find_statements, last_boxes, without_drawings
from delcore.answers.written import number_key
from delcore.errors import InputError

__all__ = ["KINDS", "Reading", "cut_at_next_question", "equal_answers", "read_answer"]

KINDS = ("number", "numbers", "math", "choice")
"""One number (GSM8K, SVAMP); one or more in any order (SimulEq); LaTeX (MATH); an option letter (AQuA, SAT, MMLU)."""

OPTIONS = "ABCDE"


class Reading(NamedTuple):
    """The answer of a text, read two ways; canonical strings such as "-12.5", "3/4", "27, 93", "C".

    Args:
        strict: what the text states as its answer, else None.
        flexible: the strict reading; without one, the last that could be an answer; None if there is none.
    """

    strict: str | None
    flexible: str | None


class _Reader(NamedTuple):
    bare: Callable[[str], str | None]  # the whole text
    boxed: Callable[[str], str | None]  # the inside of a box
    hashed: Callable[[str], str | None]  # behind ####, where the answer comes first
    stated: Callable[[str], str | None]  # behind "the answer is"
    before: Callable[[str], str | None]  # before "is the answer", where the answer comes last
    last: Callable[[str], str | None]  # the last in a text


_READERS = {
    "number": _Reader(
        numbers.bare_number,
        numbers.bare_number,
        lambda text: numbers.stated_number(text, loose=False),
        numbers.stated_number,
        numbers.closing_number,
        numbers.last_number,
    ),
    "numbers": _Reader(
        numbers.bare_numbers,
        numbers.bare_numbers,
        lambda text: numbers.stated_numbers(text, loose=False),
        numbers.stated_numbers,
        numbers.closing_numbers,
        numbers.last_numbers,
    ),
    "math": _Reader(
        expressions.bare_expression,
        expressions.canonical,
        expressions.hashed_expression,
        expressions.stated_expression,
        expressions.closing_expression,
        expressions.last_expression,
    ),
}


def read_answer(kind: str, text: str, *, options: str = OPTIONS) -> Reading:
    r"""Read the answer of a text, strictly and flexibly; see the module for what that means.

    Args:
        kind: "number", "numbers", "math" or "choice".
        text: what a model wrote, or a gold solution.
        options: for "choice", the letters to choose from.

    Raises:
        InputError: there is no such kind, or the options are not distinct capital letters.

    >>> read_answer("number", "She pays $1,250.50 in all.\n#### 1,250.50")
    Reading(strict='1250.5', flexible='1250.5')
    >>> read_answer("choice", "Both trains leave at nine.")
    Reading(strict=None, flexible=None)
    """
    _check_kind(kind)
    text = without_calculations(without_drawings(cut_at_next_question(text)))
    if kind == "choice":
        if (
            not options
            or len(set(options)) != len(options)
            or not (options.isascii() and options.isalpha() and options.isupper())
        ):
            raise InputError(f'`options` must be distinct capital letters, such as "ABCD"; got {options!r}.')
        return Reading(*choices.read_option(text, options))
    reader = _READERS[kind]
    text = unify(text)
    strict = _stated(reader, text)
    return Reading(strict, reader.last(text) if strict is None else strict)


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise InputError(f"`kind` must be one of {', '.join(KINDS)}; got {kind!r}.")


def _stated(reader: _Reader, text: str) -> str | None:
    boxes = last_boxes(text)
    if boxes:
        return _boxed(reader, boxes)
    found = find_statements(text)[::-1]
    for statement in [s for s in found if s.hashed] + [s for s in found if not s.hashed]:
        read = reader.hashed if statement.hashed else reader.before if statement.before else reader.stated
        value = read(statement.text)
        if value is not None:
            return value
    return reader.bare(text)


def _boxed(reader: _Reader, boxes: list[str]) -> str | None:
    """The answer in boxes that follow one another: a list, or one answer in several forms."""
    values = [reader.boxed(box) for box in boxes]
    if len({value and number_key(value) for value in values}) == 1:
        return values[-1]
    return reader.boxed(", ".join(boxes))


def equal_answers(kind: str, answer: str | None, gold: str | None) -> bool:
    r"""Whether two answers are the same; either may be canonical or as a person writes it.

    Symmetric, and exact: no rounding. None, and what cannot be read, equals nothing.

    Raises:
        InputError: there is no such kind; or LaTeX is to be compared and `math-verify` is not installed.

    >>> equal_answers("number", "$35.00", "35"), equal_answers("number", "29.5", "29")
    (True, False)
    """
    _check_kind(kind)
    if answer is None or gold is None:
        return False
    if kind == "math":
        return equal_expressions(answer, gold)
    if kind == "choice":
        first, second = (choices.read_letter(text) for text in (answer, gold))
        return first is not None and first == second
    first, second = (_READERS[kind].bare(text) for text in (answer, gold))
    if first is None or second is None:
        return False
    return number_key(first) == number_key(second) if kind == "number" else numbers.equal_lists(first, second)

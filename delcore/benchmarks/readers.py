"""How a row of each benchmark is read: its question, the right answer, and the options, from the hub or from a file."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from delcore.answers.statements import last_boxes

LETTERS = "ABCDEFGHIJ"


class RowError(Exception):
    """A row that is not of the shape that a benchmark has; the message says what is missing."""


class Question(NamedTuple):
    """What a row says.

    Args:
        text: the question, with the options to choose from.
        gold: the right answer.
        fields: what else is worth keeping.
        id: the row's own name; empty if it has none.
    """

    text: str
    gold: str
    fields: Mapping[str, Any]
    id: str = ""


Fields = Mapping[str, Any]


def read_gsm8k(row: Fields) -> Question:
    """A worked solution that ends in "#### n"."""
    _, mark, gold = _text(row, "answer").rpartition("####")
    if not mark:
        raise RowError('the "answer" has no ####.')
    return Question(_text(row, "question").strip(), gold.strip(), {})


def read_math(row: Fields) -> Question:
    r"""MATH and MATH-500: "problem" with a boxed "solution", or "question" with a solution that repeats its answer.

    MATH-500's own "answer" is bare; in the published file an "answer" is the whole solution.
    """
    fields = {name: row[name] for name in ("subject", "type", "level") if name in row}
    if "problem" in row:
        gold = row["answer"] if isinstance(row.get("answer"), str) else _boxed(_text(row, "solution"))
        return Question(_text(row, "problem").strip(), gold.strip(), fields)
    solution = _text(row, "answer")
    _, mark, gold = solution.rpartition("The answer is:")
    return Question(_text(row, "question").strip(), gold.strip() if mark else _boxed(solution), fields)


def _boxed(solution: str) -> str:
    boxes = last_boxes(solution)
    if not boxes:
        raise RowError(r"the solution has no \boxed answer.")
    return ", ".join(boxes)


def read_svamp(row: Fields) -> Question:
    """A story and a question, which are two fields; the answer is a number, or on the hub a text."""
    body, question = _text(row, "Body").strip(), _text(row, "Question").strip()
    answer = row.get("Answer")
    if isinstance(answer, bool) or not isinstance(answer, int | float | str):
        raise RowError('needs a number in "Answer".')
    if body[-1:] not in (".", "!", "?"):
        body += "."
    name = row.get("ID")
    fields = {"type": row["Type"]} if "Type" in row else {}
    return Question(f"{body} {question}", str(answer).removesuffix(".0"), fields, name if isinstance(name, str) else "")


def read_simuleq(row: Fields) -> Question:
    """A question and one number; of the two numbers that some ask for, the file gives one."""
    return Question(_text(row, "question").strip(), _text(row, "answer").strip(), {})


def read_aqua(row: Fields) -> Question:
    """Five options, each of them "A)text"."""
    options = [re.sub(r"^\s*[A-E]\s*\)\s*", "", option) for option in _texts(row, "options", 5)]
    return _choice(_text(row, "question"), options, _text(row, "correct").strip())


def read_sat(row: Fields) -> Question:
    """Published: options within the question, a letter. On the hub: "query", "choices" and the index in "gold"."""
    if "query" in row:
        stem = _text(row, "query").removeprefix("Q: ").split("Answer Choices:")[0]
        options = [re.sub(r"^\s*\([A-D]\)\s*", "", option) for option in _texts(row, "choices", 4)]
        gold = row.get("gold")
        return _choice(stem, options, _letter(gold[0] if isinstance(gold, list) and len(gold) == 1 else gold, 4))
    stem, mark, rest = _text(row, "question").partition("Answer Choices:")
    options = re.split(r"\s*\([A-D]\)\s*", rest)[1:]
    if not mark or len(options) != 4:
        raise RowError('the "question" needs "Answer Choices:" with four options from (A) to (D).')
    return _choice(stem, options, _text(row, "answer").strip())


def read_mmlu(row: Fields) -> Question:
    """Four options, and the index of the right one."""
    question = _choice(_text(row, "question"), _texts(row, "choices", 4), _letter(row.get("answer"), 4))
    return question._replace(fields={**question.fields, "subject": row.get("subject")})


def read_addition(row: Fields) -> Question:
    """One of the embedded family's own problems."""
    sample = row["sample"]
    return Question(sample.prompt, sample.response, {}, sample.prompt.removesuffix(" = ").replace(" ", ""))


# ---------------------------------------------------------------- parts of a row


def _text(row: Fields, name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        found = ", ".join(map(str, row)) or "none"
        raise RowError(f'needs text in "{name}"; its fields are {found[:200]}.')
    return value


def _texts(row: Fields, name: str, count: int) -> list[str]:
    values = row.get(name)
    if not isinstance(values, list) or len(values) != count or not all(isinstance(value, str) for value in values):
        raise RowError(f'needs a list of {count} texts in "{name}".')
    return values


def _letter(index: Any, count: int) -> str:
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < count:
        raise RowError(f"needs the index of the right option, from 0 to {count - 1}; got {index!r}.")
    return LETTERS[index]


def _choice(stem: str, options: Sequence[str], gold: str) -> Question:
    listed = " ".join(f"({letter}) {option.strip()}" for letter, option in zip(LETTERS, options, strict=False))
    fields = {"options": [option.strip() for option in options]}
    return Question(f"{stem.strip()}\nAnswer Choices: {listed}", gold, fields)

"""From what a model wrote to a verdict: two readings, each right or wrong, of its words or of what its program printed.

A program answers if it ended well and all that it printed can be read: as the answer, or for a choice as the text of
exactly one option. Binary fractions that a program prints in full, as 0.30000000000000004, are read to twelve digits;
numbers that have twelve digits before the point already are read as they were printed.
"""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from delcore.answers import Reading, cut_at_next_question, equal_answers, read_answer
from delcore.answers.statements import last_boxes, until_unfinished_statement
from delcore.benchmarks.readers import LETTERS
from delcore.benchmarks.saved_runs import PROGRAM_FIELDS

FLOAT_DIGITS = 12
_LONG_FLOAT = re.compile(rf"(?<![\w.])-?\d{{1,{FLOAT_DIGITS - 1}}}\.\d{{11,}}(?:e[+-]?\d{{1,3}})?(?![\w.])")

# Signs at the very end of a text that may be the first half of a word, a number or a formula; "9 1" and "246 / 1" are
# halves of one number.
_UNFINISHED = re.compile(
    r"(?<!\S)(?:\S*+(?:(?<=\d)\s?/\s|(?<=\d/)\s|(?<=\d)[ ](?=\d))){0,2}\S*+"
    r"(?:(?<=[^\W_])|(?<=[\\=^])|(?<=\d[.,:/])|(?<=\d\s/)|(?<=\d\s/\s)|(?<=\d/\s))\Z"
)

READER_VERSION = 2
"""Of the way from a text to a verdict. Runs of different versions are not compared, so raise it with every change here
or in `delcore.answers` after which some text is read or judged in another way."""

OUTPUT_CUT = "output_cut"
"""Outcome of a program that ended well but printed more than was kept: its answer may stand in what is missing."""


class Verdict(NamedTuple):
    """The readings of one text and whether they are right; the names are those of a record."""

    strict: str | None
    flexible: str | None
    correct_strict: bool
    correct_flexible: bool


def score_text(kind: str, text: str, gold: str, options: str = "", *, cut: bool = False) -> Verdict:
    """Read a text both ways and compare with the right answer; what cannot be read is wrong.

    Args:
        kind: of the answer.
        text: what a model wrote.
        gold: the right answer.
        options: the letters to choose from, for a choice.
        cut: there was no room for the rest of the text; see `read_output`.
    """
    strict, flexible = read_output(kind, text, options, cut=cut)
    right = equal_answers(kind, flexible, gold)
    return Verdict(strict, flexible, right and strict is not None, right)


def read_output(kind: str, text: str, options: str = "", *, cut: bool = False) -> Reading:
    r"""Read a text both ways; of one that was cut where its room ended, only what was finished.

    Its last word or number is not read, as it may be the first half of one. An answer that was being stated, behind
    `####` or "the answer is", is none before its sentence ends, and one stated earlier counts; but an option's letter
    is whole as soon as anything follows it. A text that ends in an invented next question was finished before that.

    >>> read_output("number", "#### 12\n#### 3 miles divided by 0.8", cut=True)
    Reading(strict='12', flexible='12')
    >>> read_output("number", "is 3 * 5,000 = 15,0", cut=True)
    Reading(strict=None, flexible='5000')
    """
    letters = {"options": options} if options else {}
    if not cut or cut_at_next_question(text) != text:
        return read_answer(kind, text, **letters)
    text = _UNFINISHED.sub("", text)
    reading = read_answer(kind, text, **letters)
    if kind == "choice" or last_boxes(text):
        return reading
    stated = read_answer(kind, until_unfinished_statement(text), **letters).strict
    return Reading(stated, reading.flexible if stated is None else stated)


def score_program(kind: str, program: Mapping[str, Any], gold: str, options: Sequence[str] = ()) -> Verdict | None:
    """Read what a program printed; None if it did not end well, or printed nothing that can be read.

    >>> score_program("number", {"status": "ok", "printed": "0.30000000000000004"}, "0.3").strict
    '0.3'
    >>> score_program("choice", {"status": "ok", "printed": "12.0"}, "B", ["7", "12", "21", "30"]).strict
    'B'
    """
    if program["status"] != "ok":
        return None
    printed = _LONG_FLOAT.sub(lambda match: f"{Decimal(match[0]):.{FLOAT_DIGITS}g}", program["printed"])
    if kind == "choice":
        printed = _chosen(printed, options) or ""
    verdict = score_text(kind, printed, gold, LETTERS[: len(options)])
    return verdict if verdict.flexible is not None else None


def _chosen(text: str, options: Sequence[str]) -> str | None:
    letters = LETTERS[: len(options)]
    if letters and (stated := read_answer("choice", text, options=letters).strict):
        return stated
    value = text.strip()
    same = [
        letter
        for letter, option in zip(letters, options, strict=True)
        if option.strip() == value or equal_answers("number", value, option)
    ]
    return same[0] if len(same) == 1 else None


def make_record(item: Mapping[str, Any], parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """One line of records.jsonl.

    Args:
        item: "index", "id", "kind", "gold" and "options" (list of texts).
        parts: what was written: "text", "program" or both, each with "prompt", "output", "tokens" and "finish"; a
            program also with "status" (None if the text holds none), "printed" and "detail".
    """
    program, text = parts.get("program"), parts.get("text")
    kind, gold, options = item["kind"], item["gold"], item["options"]
    verdict = score_program(kind, program, gold, options) if program else None
    source = "program" if verdict else "text"
    if verdict is None:
        output, cut = (text["output"], text["finish"] == "length") if text else ("", False)
        verdict = score_text(kind, output, gold, LETTERS[: len(options)], cut=cut)
    said = program if source == "program" or text is None else text
    assert said is not None, "an item is finished once one part is there"
    return {
        **{key: item[key] for key in ("index", "id")},
        **{key: said[key] for key in ("prompt", "output", "tokens", "finish")},
        "kind": kind,
        "strict": verdict.strict,
        "flexible": verdict.flexible,
        "gold": gold,
        "correct_strict": verdict.correct_strict,
        "correct_flexible": verdict.correct_flexible,
        "from": source,
        "outcome": program["status"] if program else None,
        "options": list(options),
        "program": {key: program[key] for key in PROGRAM_FIELDS} if program else None,
    }


def remake_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """The same record, read once more from what the model wrote and its program printed."""
    program = record.get("program")
    parts = {"program": program} if program else {}
    if not program or record["output"] != program["output"] or record["prompt"] != program["prompt"]:
        parts["text"] = {key: record[key] for key in ("prompt", "output", "tokens", "finish")}
    return make_record({"options": [], **record}, parts)

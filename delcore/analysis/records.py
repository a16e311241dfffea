"""Reading records of `delcore.probe.probe` as plain rows; needs no torch."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from delcore.arithmetic import LAWS, READINGS, Reading


@dataclass(frozen=True)
class KnownLaw:
    """The law that a digit is drawn from, where the text is one of the generated readings.

    Args:
        name: key of `delcore.arithmetic.LAWS`.
        probabilities: of the digits 0 … 9.
        entropy_nats: their entropy.
        place: of the digit in its number: 0 for units, −1 for tenths.
    """

    name: str
    probabilities: tuple[float, ...]
    entropy_nats: float
    place: int


def entropy_nats(probabilities: Sequence[float]) -> float:
    """Entropy in nats; a probability of 0 adds nothing."""
    return -sum(p * math.log(p) for p in probabilities if p > 0)


def known_law(text: str) -> KnownLaw | None:
    """The law of the digit that comes after `text`, or None where none is known.

    >>> known_law("gauge G shows 7").name
    'two peaks'
    """
    for reading in READINGS:
        if text.startswith(reading.prompt):
            digits = _digits_so_far(reading, text.removeprefix(reading.prompt))
            if digits is not None:
                law = LAWS[reading.laws[digits]]
                return KnownLaw(reading.laws[digits], law, entropy_nats(law), reading.places[digits])
    return None


def _digits_so_far(reading: Reading, shown: str) -> int | None:
    """How many digits of a reading are shown, if a further one comes next."""
    digits = shown.replace(".", "", 1)
    whole = len(reading.laws) - reading.decimals
    due = digits[:whole] + ("." if reading.decimals and len(digits) >= whole else "") + digits[whole:]
    is_number = digits.isdecimal() and digits.isascii()
    return len(digits) if (not digits or is_number) and shown == due and len(digits) < len(reading.laws) else None


def left_contexts(record: Mapping[str, Any], text: str) -> list[str | None]:
    """What precedes each position of a probe's record, in characters of `text`; None where tokens do not say.

    Args:
        record: as `delcore.probe.probe` returns it.
        text: the record's prompt and its continuation.
    """
    listed = [position["text"] for position in record["positions"][:-1]]
    where = [i for i, character in enumerate(text) if character in "0123456789"]
    where = where[len(where) - len(listed) :]  # a first token that is a digit is not listed
    matches = len(where) == len(listed) and [text[i] for i in where] == listed
    return [*(text[: where[i]] if matches else None for i in range(len(listed))), text]


def tabulate_position(position: Mapping[str, Any], reference: str = "base") -> list[dict[str, Any]]:
    """One row per model: entropy, its difference to the reference model, top digit, expected value, digit mass."""
    models = position["models"]
    base = models[reference]["entropy_nats"] if reference in models else None
    return [_row(name, model, base) for name, model in models.items()]


def _row(name: str, model: Mapping[str, Any], base: float | None) -> dict[str, Any]:
    probabilities = model["probabilities"]
    top = max(range(10), key=lambda k: probabilities[k])
    return {
        "model": name,
        "entropy_nats": model["entropy_nats"],
        "entropy_minus_base": None if base is None else model["entropy_nats"] - base,
        "top_digit": top,
        "top_probability": probabilities[top],
        "expected_digit": model["expected_digit"],
        "digit_mass": model["digit_mass"],
    }


def tabulate_record(record: Mapping[str, Any], reference: str = "base") -> list[dict[str, Any]]:
    """Every number of a record as flat rows, one per position and model, for a CSV file."""
    return [
        {key: position[key] for key in ("index", "text", "place", "weight")}
        | row
        | {f"p{digit}": p for digit, p in enumerate(position["models"][row["model"]]["probabilities"])}
        for position in record["positions"]
        for row in tabulate_position(position, reference)
    ]

"""Measurements that the dashboard and the notebooks show: frozen results and plain rows, never figures.

Reading a saved record needs no torch; what computes a loss imports it when called.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from delcore.arithmetic import LAWS, READINGS, Reading
from delcore.errors import InputError

# ---------------------------------------------------------------- records of `delcore.probe.probe`


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


# ---------------------------------------------------------------- one loss at one prediction


@dataclass(frozen=True)
class LossAt:
    """A loss at one digit position with a given prediction.

    Args:
        name: key of `delcore.LOSSES`.
        value: token term + digit term, in nats (the digit term in the loss's own unit).
        token_term: cross-entropy, or what replaces it.
        digit_term: α·u·ℓ; 0 for a loss without one.
        gradient: derivative of `value` by the logits of the digits 0 … 9, [10].
        other_gradient: by the logit of the one other token.
    """

    name: str
    value: float
    token_term: float
    digit_term: float
    gradient: tuple[float, ...]
    other_gradient: float


def measure_loss_at(
    name: str,
    probabilities: Sequence[float],
    true_digit: int | Sequence[float],
    *,
    alpha: float | None = None,
    u: float = 1.0,
    digit_mass: float = 0.999,
    level: float = 0.0,
    **options: Any,
) -> LossAt:
    """Value and gradient of a loss at one digit position, without a model.

    The vocabulary is ten digits and one other token; the logits are log p̂ + log m and log(1 − m), all raised by
    `level`. EMO gets orthogonal token directions, so its cost is 1 − q of the true digit.

    Args:
        name: key of `delcore.LOSSES`.
        probabilities: predicted p̂ of the digits 0 … 9, which sum to 1.
        true_digit: the label; or ten probabilities, for the expectation over a law of the label.
        alpha: weight of the digit term; None for the loss's default.
        u: place weight of the position, 0 or above.
        digit_mass: share m of the softmax on the digits, above 0 and below 1.
        level: log-sum of all eleven logits; only DEL depends on it.
        **options: as in `delcore.numeric_loss`, but `place`.

    Raises:
        InputError: an unknown loss or option, probabilities that are none, or a value out of range.
    """
    import torch

    from delcore.equilibria import ExpectedLoss, check_law

    predicted = check_law(probabilities)
    if not 0 < digit_mass < 1:
        raise InputError(f"`digit_mass` must lie between 0 and 1, both left out; got {digit_mass!r}.")
    if not math.isfinite(level):
        raise InputError(f"`level` must be a finite number; got {level!r}.")
    expected = ExpectedLoss.of(name, _label_weights(true_digit), alpha=alpha, u=u, **options)
    digits = predicted.clamp(min=1e-12).log() + math.log(digit_mass)
    logits = (torch.cat([digits, digits.new_tensor([math.log1p(-digit_mass)])]) + level).unsqueeze(0)
    token, digit = (term.item() for term in expected.terms(logits))
    gradient = expected.gradient(logits)[0].tolist()
    return LossAt(name, token + digit, token, digit, tuple(gradient[:10]), gradient[10])


def _label_weights(true_digit: int | Sequence[float]) -> Any:
    import torch

    from delcore.equilibria import check_law

    if not isinstance(true_digit, int):
        return check_law(true_digit)
    if not 0 <= true_digit <= 9:
        raise InputError(f"`true_digit` must be from 0 to 9; got {true_digit}.")
    return torch.eye(10, dtype=torch.float64)[true_digit]

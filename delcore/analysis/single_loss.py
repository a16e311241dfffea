"""One loss at one prediction, value and gradient, without a model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from delcore.analysis.results import Axis, Measured, Provenance
from delcore.equilibria import ExpectedLoss, check_law
from delcore.errors import InputError


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
    if not math.isfinite(level):
        raise InputError(f"`level` must be a finite number; got {level!r}.")
    expected = ExpectedLoss.of(name, label_weights(true_digit), alpha=alpha, u=u, **options)
    logits = (logits_of(probabilities, digit_mass) + level).unsqueeze(0)
    token, digit = (term.item() for term in expected.terms(logits))
    gradient = expected.gradient(logits)[0].tolist()
    return LossAt(name, token + digit, token, digit, tuple(gradient[:10]), gradient[10])


def scan_pull(losses: Sequence[str], probabilities: Sequence[float]) -> Measured:
    """How hard each loss pulls the true digit up, as a share of cross-entropy's pull, by how likely it already is.

    The pull is −∂L/∂a_c. The nine other digits share the rest evenly, and the digits have nearly all the mass.

    Args:
        losses: keys of `delcore.LOSSES`, at their default α.
        probabilities: of the true digit, each above 0 and below 1.

    Returns:
        [loss, probability]; 1 is cross-entropy's own pull.

    Raises:
        InputError: an unknown loss, or a probability out of range.
    """
    if not all(0 < p < 1 for p in probabilities):
        raise InputError(f"`probabilities` must lie between 0 and 1, both left out; got {list(probabilities)}.")
    predictions = [(p, *[(1 - p) / 9] * 9) for p in probabilities]
    token = np.array([_pull("mle", prediction) for prediction in predictions])
    pulls = np.array([[_pull(name, prediction) for prediction in predictions] for name in losses]) / token
    axes = (Axis("loss", "", tuple(losses)), Axis("probability of the true digit", "", tuple(probabilities)))
    counts = np.ones(pulls.shape, int)
    return Measured("pull on the true digit (cross-entropy: 1)", "", axes, pulls, counts, Provenance())


def _pull(name: str, prediction: Sequence[float]) -> float:
    return -measure_loss_at(name, prediction, 0, digit_mass=1 - 1e-9).gradient[0]


def logits_of(probabilities: Sequence[float], digit_mass: float) -> Tensor:
    """[11] logits of ten digits and one other token with these probabilities; their log-sum is 0.

    Raises:
        InputError: probabilities that are none, or a digit mass that is not between 0 and 1.
    """
    predicted = check_law(probabilities)
    if not 0 < digit_mass < 1:
        raise InputError(f"`digit_mass` must lie between 0 and 1, both left out; got {digit_mass!r}.")
    digits = predicted.clamp(min=1e-12).log() + math.log(digit_mass)
    return torch.cat([digits, digits.new_tensor([math.log1p(-digit_mass)])])


def label_weights(true_digit: int | Sequence[float]) -> Tensor:
    """[10] probabilities of the label: all on one digit, or as given."""
    if not isinstance(true_digit, int):
        return check_law(true_digit)
    if not 0 <= true_digit <= 9:
        raise InputError(f"`true_digit` must be from 0 to 9; got {true_digit}.")
    return torch.eye(10, dtype=torch.float64)[true_digit]

"""What plain gradient steps on the logits of one digit do under a loss, and what lowering all logits does; no model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from delcore.analysis.single_loss import label_weights, logits_of
from delcore.equilibria import ExpectedLoss
from delcore.errors import InputError
from delcore.losses import entropy_nats

MOST_STEPS = 200


@dataclass(frozen=True)
class LossPath:
    """Gradient descent from one prediction, in float64.

    Args:
        name: key of `delcore.LOSSES`.
        rate: length of a step, in logits per nat and logit.
        probabilities: p̂ after 0, 1, … steps, [steps + 1, 10].
        digit_mass: share of the softmax on the digits, [steps + 1].
        entropy_nats: of p̂, [steps + 1].
        value: of the loss, [steps + 1].
    """

    name: str
    rate: float
    probabilities: NDArray[np.float64]
    digit_mass: NDArray[np.float64]
    entropy_nats: NDArray[np.float64]
    value: NDArray[np.float64]


def follow_loss(
    name: str,
    probabilities: Sequence[float],
    true_digit: int | Sequence[float],
    *,
    steps: int = 30,
    rate: float = 1.0,
    alpha: float | None = None,
    u: float = 1.0,
    digit_mass: float = 0.999,
    **options: Any,
) -> LossPath:
    """Step the ten digit logits and the one other token's against the expected training gradient.

    Args:
        name: key of `delcore.LOSSES`.
        probabilities: p̂ to start from.
        true_digit: the label; or ten probabilities, for the expectation over a law of the label.
        steps: from 1 to `MOST_STEPS`.
        rate: factor on the gradient, above 0.
        alpha: weight of the digit term; None for the loss's default.
        u: place weight of the position.
        digit_mass: share of the softmax on the digits at the start.
        **options: as in `delcore.numeric_loss`, but `place`.

    Raises:
        InputError: as `measure_loss_at`, or `steps` or `rate` out of range.
    """
    if not 1 <= steps <= MOST_STEPS:
        raise InputError(f"`steps` must be from 1 to {MOST_STEPS}; got {steps}.")
    if not 0 < rate < float("inf"):
        raise InputError(f"`rate` must be above 0; got {rate!r}.")
    expected = ExpectedLoss.of(name, label_weights(true_digit), alpha=alpha, u=u, **options)
    points = [logits_of(probabilities, digit_mass)]
    for _ in range(steps):
        points.append(points[-1] - rate * expected.gradient(points[-1].unsqueeze(0))[0])
    logits = torch.stack(points)  # [steps + 1, 11]
    digits = logits[:, :10].log_softmax(-1)
    return LossPath(
        name,
        rate,
        probabilities=digits.exp().numpy(),
        digit_mass=logits.softmax(-1)[:, :10].sum(-1).numpy(),
        entropy_nats=entropy_nats(digits).numpy(),
        value=expected.value(logits).detach().numpy(),
    )


@dataclass(frozen=True)
class LevelScan:
    """A loss's digit term while all logits are lowered together, which changes no probability.

    Args:
        name: key of `delcore.LOSSES`.
        lowered: by how much, in units of logit, [points].
        digit_term: α·u·ℓ there, in the loss's own unit, [points].
    """

    name: str
    lowered: NDArray[np.float64]
    digit_term: NDArray[np.float64]


def scan_level(
    name: str,
    probabilities: Sequence[float],
    true_digit: int | Sequence[float],
    *,
    lowered: Sequence[float],
    alpha: float | None = None,
    u: float = 1.0,
    digit_mass: float = 0.999,
    **options: Any,
) -> LevelScan:
    """Lower all eleven logits together and read the digit term; the other arguments are as in `measure_loss_at`.

    A loss that falls all the way has no equilibrium at finite logits: lowering them is free of charge to
    cross-entropy, which only sees their differences.
    """
    expected = ExpectedLoss.of(name, label_weights(true_digit), alpha=alpha, u=u, **options)
    down = torch.tensor(list(lowered), dtype=torch.float64)
    _, digit = expected.terms(logits_of(probabilities, digit_mass) - down.unsqueeze(-1))
    return LevelScan(name, down.numpy(), digit.detach().numpy())

"""DIST2Loss: a soft target in which near digits share the probability."""

import torch.nn.functional as F
from torch import Tensor

from delcore.losses._checks import check_choice, check_range
from delcore.losses._positions import Positions, Terms

FORMS = ("paper", "released")
SOFTMAXES = ("digits", "vocabulary")
LOWEST_TAU = 1e-30
"""Below it, 0/τ is no number in float32."""

LOWEST_LOG_PROBABILITY = -1e5
"""log p̂ is clipped here, so that a digit of logit −inf costs much instead of making the loss infinite."""


def dist2(
    positions: Positions,
    *,
    tau: float = 1.0,
    softmax: str = "digits",
    form: str = "paper",
    place: str | None = None,
    distance: str = "numeric",
) -> Terms:
    """Cross-entropy, and KL(g ‖ p̂) in nats to the target g = softmax(−(k−c)²/τ).

    Args:
        positions: the batch.
        tau: temperature of the target, above 0, in squared digits.
        softmax: "digits" compares with p̂; "vocabulary" with the full softmax, which adds −log m.
        form: "paper"; "released" weighs by the place index of rule "integer", as DEL's authors do.
        place: place rule of the weights u; by default "none", or "integer" for the released form.
        distance: "numeric", or "permuted:SEED" for the control.

    Source: Chung et al. 2025, DIST2Loss, arXiv:2503.02379, with the squared distance of DEL's authors.
    """
    check_range("tau", tau, 0, float("inf"), low_open=True)
    check_choice("softmax", softmax, SOFTMAXES)
    check_choice("form", form, FORMS)
    rule = place or ("integer" if form == "released" else "none")
    divergence = _kl_divergence(positions, tau, distance)
    if softmax == "vocabulary":
        divergence = divergence - positions.log_mass
    return Terms(positions.cross_entropy, positions.at_digits(positions.targets.place_weight(rule) * divergence))


def _kl_divergence(positions: Positions, tau: float, distance: str) -> Tensor:
    values, true_value = positions.values(distance)
    target = (-((values - true_value.unsqueeze(-1)) ** 2) / max(tau, LOWEST_TAU)).softmax(-1)  # [batch, seq, 10]
    predicted = positions.digit_log_probs.clamp(min=LOWEST_LOG_PROBABILITY)
    return F.kl_div(predicted, target, reduction="none").sum(-1)

"""DEL: the digit entropy loss, without a distance between digits (`del` is a Python keyword)."""

import sys

import torch
import torch.nn.functional as F
from torch import Tensor

from delcore.digits import DECIMAL_BASE, INTEGER_FACTOR
from delcore.losses._checks import check_choice, check_range
from delcore.losses._positions import Positions, Terms

CRITERIA = ("bce", "entropy", "cross_entropy")
BCES = ("sigmoid", "conditional")
DISTANCES = ("none", "l1")
DOT_WEIGHT = 0.5
"""Place weight of a decimal point under `dot=True`; the released code computes it and discards it."""

DOT_DISTANCE = 10.0
"""Distance between the dot and any digit under `dot=True` with `distance="l1"`, our choice."""


def digit_entropy(
    positions: Positions,
    *,
    place: str = "decimal",
    bce: str = "sigmoid",
    distance: str = "none",
    criterion: str = "bce",
    dot: bool = False,
    integer_factor: float = INTEGER_FACTOR,
    decimal_base: float = DECIMAL_BASE,
) -> Terms:
    """Cross-entropy, and u·Σ_k p̂_k·BCE(σ(a_k), 1[k=c]) in nats.

    Args:
        positions: the batch.
        place: place rule of the weights u.
        bce: "sigmoid" as published, on the raw logits, so adding a constant to all logits changes it;
            "conditional" on p̂ itself, which is invariant.
        distance: "none" as published; "l1" multiplies each digit's term by |k−c| (ablation).
        criterion: "bce" as published; "entropy" of p̂, which needs no label; "cross_entropy" −log p̂[c] (control).
        dot: let the dot be an eleventh class, and each decimal point a position of weight 0.5; N still counts
            digits only.
        integer_factor: weight of an integer place i is this times i+1.
        decimal_base: weight of a decimal place i is this to the power i−1.

    Source: arXiv:2605.20369 and PolyU-VCLab/DEL 68c3d4d. Departures: normalised over the whole optimiser step
    (`numeric_loss`), and the place rule reads ".5" and "1.2.3" as people do; see `del_released`.
    """
    check_choice("bce", bce, BCES)
    check_choice("distance", distance, DISTANCES)
    check_choice("criterion", criterion, CRITERIA)
    check_range("integer_factor", integer_factor, 0.0, sys.float_info.max)
    check_range("decimal_base", decimal_base, 0.0, sys.float_info.max, low_open=True)
    weight = positions.targets.place_weight(place, integer_factor=integer_factor, decimal_base=decimal_base)
    logits, is_true = positions.digit_logits, positions.is_true_digit
    active = positions.is_digit
    if dot:
        logits, is_true, active, weight = _with_dot(positions, weight)
    per_class = _per_class(logits, is_true, criterion, bce)  # [batch, seq, 10 or 11]
    if distance == "l1":
        per_class = per_class * _l1(positions, is_true)
    return Terms(positions.cross_entropy, torch.where(active, weight * per_class.sum(-1), 0.0))


def del_released(positions: Positions) -> Terms:
    """DEL exactly as the authors' code computes it: mean over positions × 10 of u·p̂·BCE.

    Its α is their λ = 0.01. It is averaged over the micro-batch at hand and so is summed over micro-batches and
    ranks: the one loss whose weight grows with the number of both.

    Source: PolyU-VCLab/DEL 68c3d4d, train-qwen-deepseek.py, `DEL`.
    """
    weight = positions.targets.place_weight("released")
    per_class = _per_class(positions.digit_logits, positions.is_true_digit, "bce", "sigmoid")
    return Terms(positions.cross_entropy, positions.at_digits(weight * per_class.mean(-1)))


def _per_class(logits: Tensor, is_true: Tensor, criterion: str, bce: str) -> Tensor:
    log_probs = logits.log_softmax(-1)
    if criterion == "cross_entropy":
        return torch.where(is_true, -log_probs, 0.0)
    if criterion == "entropy":
        # A digit of probability 0 adds 0: its logarithm is replaced before it can meet the 0.
        return -log_probs.exp() * log_probs.masked_fill(log_probs.isinf(), 0.0)
    if bce == "sigmoid":
        # BCE(σ(a), y) is softplus(−a) for the true digit and softplus(a) for the others. An impossible digit adds 0,
        # the limit of p̂·BCE; its logit is replaced before 0 could meet infinity.
        possible = logits.masked_fill(log_probs.isinf(), 0.0)
        return log_probs.exp() * F.softplus(torch.where(is_true, -possible, possible))
    own = -log_probs.masked_fill(log_probs.isinf(), 0.0)  # as above: the limit of p̂·(−log p̂) is 0
    return log_probs.exp() * torch.where(is_true, own, -_log_other_mass(log_probs, is_true))


def _log_other_mass(log_probs: Tensor, is_true: Tensor) -> Tensor:
    """log(1 − p̂_k) of each wrong k, summed over the other classes, so that it stays finite as p̂_k → 1.

    The true class is not asked for; it keeps all classes, as the others may all be at −inf.
    """
    itself = torch.eye(log_probs.shape[-1], dtype=torch.bool, device=log_probs.device) & ~is_true.unsqueeze(-1)
    return log_probs.unsqueeze(-2).masked_fill(itself, float("-inf")).logsumexp(-1)  # over [batch, seq, k, others]


def _l1(positions: Positions, is_true: Tensor) -> Tensor:
    values, true_value = positions.values("numeric")
    distance = (values - true_value.unsqueeze(-1)).abs()
    if is_true.shape[-1] == 10:
        return distance
    # The dot is no number: it is farther from every digit than two digits can be.
    is_point = is_true[..., 10:]
    distance = torch.where(is_point, DOT_DISTANCE, distance)
    return torch.cat([distance, torch.where(is_point, 0.0, DOT_DISTANCE).to(distance.dtype)], -1)


def _with_dot(positions: Positions, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    logits, is_point = positions.with_dot()  # [batch, seq, 11]
    is_true_digit = positions.is_true_digit & positions.is_digit.unsqueeze(-1)
    is_true = torch.cat([is_true_digit, is_point.unsqueeze(-1)], -1)
    return logits, is_true, positions.is_digit | is_point, torch.where(is_point, DOT_WEIGHT, weight)

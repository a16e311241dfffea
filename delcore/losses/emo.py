"""EMO: cross-entropy with the expected cost of moving probability onto the label."""

import math

import torch

from delcore.losses._checks import check_choice, check_range
from delcore.losses._positions import EPS, Positions, Terms

FORMS = ("capped", "uncapped", "anchored")


def emo(positions: Positions, *, cap: float = 3.0, form: str = "capped") -> Terms:
    """Half of CE + w·e, where e is the cosine cost and w = CE/e is stopped and capped.

    Args:
        positions: the batch, made with an `embedding`.
        cap: upper limit of w, above 0.
        form: "capped" (mode 1 of EMOLoss); "uncapped" (the authors' training script, equal to CE in value);
            "anchored", e + sg(e/CE)·CE (mode 2 of EMOLoss).

    Source: Ren et al. 2023, arXiv:2310.04691; package EMOLoss 0.0.3. Departures: none.
    """
    check_range("cap", cap, 0, math.inf, low_open=True)
    check_choice("form", form, FORMS)
    cross_entropy, cost = positions.cross_entropy, positions.cost()
    stopped = cross_entropy.detach()
    if form == "anchored":
        factor = cost.detach() / (stopped + EPS)
        token = cost + torch.where(stopped.isinf(), cost.detach(), factor * cross_entropy)  # its value is e
    else:
        weight = stopped / (cost.detach() + EPS)
        factor = weight if form == "uncapped" else weight.clamp(max=cap)
        moved = factor.masked_fill(factor.isinf(), 0.0) * cost  # infinity times a stopped 0 is no gradient
        token = 0.5 * (cross_entropy + torch.where(factor.isinf(), stopped, moved))
    # The cost of an unsupervised position is not 0.
    return Terms(token=torch.where(positions.supervised, token, 0.0))

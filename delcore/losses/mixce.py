"""MixCE: a mixture of forward and (approximate) reverse cross-entropy."""

import torch

from delcore.losses._checks import check_range
from delcore.losses._positions import Positions, Terms


def mixce(positions: Positions, *, eta: float = 0.5) -> Terms:
    """Cross-entropy weighted by the model's own probability of the label, [η + (1−η)·sg(q)]·CE.

    Args:
        positions: the batch.
        eta: share of the forward cross-entropy, from 0 to 1. 1 is `mle`; 0 is the loss that TRL calls `dft`.

    Source: Zhang et al. 2023, arXiv:2305.16958, eq. 6 with q detached, per token. Departure from the DEL
    authors' commented-out lines: those take q of the *batch mean*, not of each token.
    """
    check_range("eta", eta, 0, 1)
    label_probability = (-positions.cross_entropy.detach()).exp()
    weight = eta + (1 - eta) * label_probability
    # With η = 0 an impossible label has weight 0 and infinite cross-entropy: the limit of q·(−log q) is 0.
    return Terms(token=torch.where(weight == 0, 0.0, weight * positions.cross_entropy))

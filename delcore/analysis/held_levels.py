"""Where a loss rests while the common height of the ten digit logits is held; no model is needed.

Cross-entropy hardly sees that height, the *level* (their log-sum), and DEL's sigmoids do. So a model under DEL may come
by many levels on its way down, and the best that the loss can ask for at each of them is another.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from delcore.analysis.results import Axis, Measured, Provenance
from delcore.equilibria import ExpectedLoss, check_law
from delcore.errors import InputError
from delcore.losses import entropy_nats, get_loss

OTHER_BELOW = 40.0
"""The one other token's logit lies so far below the level that the digits have all the mass."""

MOST_STEPS = 500


def scan_held_levels(
    name: str,
    pi: Sequence[float],
    levels: Sequence[float],
    *,
    alpha: float | None = None,
    u: float = 1.0,
    **options: Any,
) -> Measured:
    """The digit entropy less the law's of the best p̂ at each level of the logits.

    Args:
        name: key of `delcore.LOSSES`, of a loss whose gradient is that of its value.
        pi: the law of the true digit.
        levels: log-sums of the ten digit logits, in units of logit.
        alpha: weight of the digit term; None for the default.
        u: place weight of the position.
        **options: as in `delcore.equilibrium`.

    Returns:
        [level], in nats; below 0 is sharper than the law.

    Raises:
        InputError: no levels, one that is not finite, or a loss that stops a gradient and so minimises nothing.
    """
    if not levels or not np.isfinite(levels).all():
        raise InputError(f"`levels` must be finite numbers, at least one; got {list(levels)}.")
    if not get_loss(name).has_value:
        raise InputError(f"`{name}` stops a gradient, so it has no best p̂ at a level. Take another loss.")
    law = check_law(pi)
    expected = ExpectedLoss.of(name, law, alpha=alpha, u=u, **options)
    rests = [entropy_nats(_rest(expected, law, level)) for level in levels]
    gaps = np.array([float(one) for one in rests]) - float(entropy_nats(law.log()))
    axes = (Axis("level (log-sum of the digit logits)", "", tuple(levels)),)
    title = "entropy less the law's, level held"
    return Measured(title, "nats", axes, gaps, np.ones(len(gaps), int), Provenance(), is_difference=True)


def _rest(expected: ExpectedLoss, law: Tensor, level: float) -> Tensor:
    """The ten log-probabilities with the lowest expected loss at a level."""
    free = law.clamp(min=1e-12).log().requires_grad_()
    other = free.new_tensor([level - OTHER_BELOW])
    search = torch.optim.LBFGS(
        [free], max_iter=MOST_STEPS, tolerance_grad=1e-10, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def value() -> Tensor:
        search.zero_grad()
        loss = expected.value(torch.cat([free.log_softmax(0) + level, other]).unsqueeze(0)).sum()
        loss.backward()
        return loss

    search.step(value)
    return free.detach().log_softmax(0)

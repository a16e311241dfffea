"""Where each loss would lead, over families of true distributions, strengths α and place weights u; no model."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from delcore.analysis.outcomes import EquilibriumScan
from delcore.analysis.results import Provenance
from delcore.equilibria import check_law, equilibrium
from delcore.errors import InputError
from delcore.losses import get_loss


def scan_equilibria(
    losses: Sequence[str],
    laws: Mapping[str, Sequence[float]],
    *,
    alphas: Sequence[float | None] = (None,),
    us: Sequence[float] = (1.0,),
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> EquilibriumScan:
    """The equilibrium of each loss for each law, α and u.

    Args:
        losses: keys of `delcore.LOSSES`.
        laws: name to ten probabilities.
        alphas: weights of the digit term; None for the default.
        us: place weights.
        options: loss to its options, as in `delcore.equilibrium`.

    Raises:
        InputError: an empty axis, an unknown loss or option, or a law that is no distribution.
    """
    for name, axis in {"losses": losses, "laws": laws, "alphas": alphas, "us": us}.items():
        if not axis:
            raise InputError(f"`{name}` must not be empty.")
    shape = (len(losses), len(laws), len(alphas), len(us))
    entropy, kl, attained = np.zeros(shape), np.zeros(shape), np.zeros(shape, bool)
    probabilities = np.zeros((*shape, 10))
    targets = [check_law(law) for law in laws.values()]
    for here in np.ndindex(shape):
        loss, law, alpha, u = losses[here[0]], targets[here[1]], alphas[here[2]], us[here[3]]
        weight = alpha if get_loss(loss).alpha is not None else None
        found = equilibrium(loss, law, alpha=weight, u=u, **(options or {}).get(loss, {}))
        entropy[here], kl[here], attained[here] = found.entropy_nats, found.kl_nats, found.attained
        probabilities[here] = found.probabilities
    law_entropy = [equilibrium("mle", law).entropy_nats for law in targets]
    grid = (tuple(losses), tuple(laws), tuple(alphas), tuple(us))
    return EquilibriumScan(*grid, np.array(law_entropy), entropy, kl, attained, probabilities, Provenance())


def temper_law(law: Sequence[float], temperature: float) -> tuple[float, ...]:
    """A family around one law: p^(1/T), normalised. T below 1 sharpens, above 1 flattens.

    Raises:
        InputError: no distribution, or a temperature that is not above 0.

    >>> [round(p, 3) for p in temper_law((0.2, 0.8, *(0.0,) * 8), 0.5)[:2]]
    [0.059, 0.941]
    """
    if not 0 < temperature < float("inf"):
        raise InputError(f"`temperature` must be above 0; got {temperature!r}.")
    logs = check_law(law).log() / temperature
    return tuple(logs.softmax(0).tolist())

"""Where each loss would lead, over families of true distributions, strengths α and place weights u; no model."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from torch import Tensor

from delcore.analysis.outcomes import EquilibriumScan
from delcore.analysis.places import measure_place_weights
from delcore.analysis.records import entropy_nats
from delcore.analysis.results import Provenance
from delcore.arithmetic import LAWS, READINGS, Reading
from delcore.digits import DigitVocab
from delcore.equilibria import Equilibrium, check_law, equilibrium
from delcore.errors import InputError
from delcore.losses import get_loss
from delcore.models import load_model


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
    law_entropy = [entropy_nats(law.tolist()) for law in targets]
    grid = (tuple(losses), tuple(laws), tuple(alphas), tuple(us))
    return EquilibriumScan(*grid, np.array(law_entropy), entropy, kl, attained, probabilities, Provenance())


@cache
def digit_directions() -> Tensor:
    """Output embeddings of the embedded base's ten digits and of one other token, for EMO's cost: [11, width]."""
    model, tokenizer, _ = load_model("embedded")
    ids = [*DigitVocab.from_tokenizer(tokenizer).ids, tokenizer.eos_token_id]
    directions: Tensor = model.get_output_embeddings().weight.detach()[ids].double()
    return directions


def equilibrium_gaps(
    name: str, *, alpha: float | None = None, embedding: Tensor | None = None, **options: Any
) -> dict[str, float] | None:
    """The mean entropy gap that a loss leads to on the readings of a known law, integers and decimals apart.

    Args:
        name: key of `delcore.LOSSES`.
        alpha: weight of the digit term as it acts at a digit: in training, α times the supervised tokens per digit.
        embedding: as in `delcore.equilibrium`.
        **options: of the loss; `place` says how each digit is weighed.

    Returns:
        Nats by group: "readings", "reading integers", "reading decimals"; None where an equilibrium is not attained.
    """
    rule = options.pop("place", get_loss(name).place) or "none"
    gaps: dict[str, list[float]] = {"readings": [], "reading integers": [], "reading decimals": []}
    known: dict[tuple[str, float], Equilibrium] = {}
    for reading in READINGS:
        for law, place, u in zip(reading.laws, reading.places, _weights(reading, rule), strict=True):
            if (law, u) not in known:
                known[law, u] = equilibrium(name, LAWS[law], alpha=alpha, u=u, embedding=embedding, **options)
            if not known[law, u].attained:
                return None
            gap = known[law, u].entropy_nats - entropy_nats(LAWS[law])
            for group in ("readings", "reading integers" if place >= 0 else "reading decimals"):
                gaps[group].append(gap)
    return {group: sum(values) / len(values) for group, values in gaps.items()}


def _weights(reading: Reading, rule: str) -> list[float]:
    """Place weights of a reading's digits, as training weighs its response."""
    text = reading.prefix("1" * len(reading.laws))
    values = measure_place_weights(text, [rule]).values[0]
    return [float(u) for u in values if not np.isnan(u)]

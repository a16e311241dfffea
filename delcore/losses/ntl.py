"""Number Token Loss: the distance between predicted and true digit."""

from torch import Tensor

from delcore.losses._checks import check_choice
from delcore.losses._positions import Positions, Terms

FORMS = ("paper", "released", "reweighed")
REWEIGH_FACTOR = 1.01
"""Package ntloss, `reweigh_fn`: a wrong kind of token costs a little more than the worst digit."""


def ntl_was(positions: Positions, *, form: str = "paper", place: str = "none", distance: str = "numeric") -> Terms:
    """Cross-entropy, and the expected distance Σ_k |k−c|·p̂_k, in digit units, from 0 to 9.

    Args:
        positions: the batch.
        form: "paper"; "released", a tenth of it (DEL's authors average over digits × positions); "reweighed",
            the default of package ntloss, m·ℓ + 1.01·9·(1−m) with the digit mass m.
        place: place rule of the weights u.
        distance: "numeric", or "permuted:SEED" for the control.

    Source: Zausinger et al. 2025, arXiv:2411.02083, eq. 4 (NTL-WAS). Departures: none.
    """
    values, true_value = positions.values(distance)
    distances = (values - true_value.unsqueeze(-1)).abs()  # [batch, seq, 10]
    return _terms(positions, (distances * positions.digit_probs).sum(-1), form, place, largest=9.0)


def ntl_mse(positions: Positions, *, form: str = "paper", place: str = "none", distance: str = "numeric") -> Terms:
    """Cross-entropy, and the squared error of the expected digit, (Σ_k k·p̂_k − c)², from 0 to 81.

    Args: as `ntl_was`; the largest distance of "reweighed" is 81 here.

    Source: Zausinger et al. 2025, arXiv:2411.02083, eq. 2 (NTL-MSE). Departures: none.
    """
    values, true_value = positions.values(distance)
    error = (values * positions.digit_probs).sum(-1) - true_value
    return _terms(positions, error.square(), form, place, largest=81.0)


def _terms(positions: Positions, distance: Tensor, form: str, place: str, largest: float) -> Terms:
    check_choice("form", form, FORMS)
    if form == "released":
        distance = distance / 10
    elif form == "reweighed":
        mass = positions.log_mass.exp()
        distance = mass * distance + REWEIGH_FACTOR * largest * (1 - mass)
    return Terms(positions.cross_entropy, positions.at_digits(positions.targets.place_weight(place) * distance))

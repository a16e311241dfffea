"""Forward and reverse KL between two laws of a digit, and what each makes of a model that is too simple.

Maximum likelihood minimises the forward KL. Where the model can be anything, both directions lead to the law itself;
they part where it cannot.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from delcore.equilibria import check_law
from delcore.errors import InputError

CENTRES = np.linspace(0, 9, 181)
"""Centres that `fit_hump` tries, in digits."""

WIDTHS = np.geomspace(0.25, 25, 241)
"""Widths that it tries, in digits; the widest is nearly flat."""


@dataclass(frozen=True)
class Divergences:
    """How far a prediction lies from a law, in nats; infinite where one allows what the other excludes.

    Args:
        forward: KL(law ‖ prediction), what maximum likelihood minimises; infinite if a possible digit is excluded.
        reverse: KL(prediction ‖ law); infinite if an impossible digit is predicted.
    """

    forward: float
    reverse: float


@dataclass(frozen=True)
class HumpFit:
    """The best hump, p̂_k ∝ exp(−(k − centre)² / 2·width²).

    Args:
        centre: in digits.
        width: in digits.
        probabilities: of the digits 0 … 9.
        divergences: from the law.
    """

    centre: float
    width: float
    probabilities: tuple[float, ...]
    divergences: Divergences


def compare_laws(law: Sequence[float], prediction: Sequence[float]) -> Divergences:
    """Both directions of the KL divergence.

    Raises:
        InputError: something that is no distribution over ten digits.

    >>> compare_laws((0.5, 0.5, *[0.0] * 8), (1.0, *[0.0] * 9))
    Divergences(forward=inf, reverse=0.6931471805599453)
    """
    true, predicted = check_law(law).numpy(), check_law(prediction).numpy()
    return Divergences(float(_kl(true, predicted)), float(_kl(predicted, true)))


def fit_hump(law: Sequence[float], *, forward_share: float = 1.0) -> HumpFit:
    """Fit one hump to a law by forward KL, reverse KL, or a mixture; the best of a grid, so no start matters.

    Args:
        law: true probabilities of the digits 0 … 9.
        forward_share: weight of the forward KL, from 0 to 1; the reverse one has the rest.

    Raises:
        InputError: no distribution, a share out of range, or an impossible digit under the reverse KL, which every
            hump would give something.
    """
    true = check_law(law).numpy()
    if not 0 <= forward_share <= 1:
        raise InputError(f"`forward_share` must be from 0 to 1; got {forward_share!r}.")
    if forward_share < 1 and (true == 0).any():
        raise InputError("`law` must give every digit some probability: no hump has a finite reverse KL to it else.")
    scaled = (np.arange(10) - CENTRES[:, None, None]) / WIDTHS[:, None]  # [centre, width, 10]
    humps = np.exp(-0.5 * (scaled**2 - (scaled**2).min(-1, keepdims=True)))
    humps /= humps.sum(-1, keepdims=True)
    cost = forward_share * _kl(true, humps)
    if forward_share < 1:
        cost = cost + (1 - forward_share) * _kl(humps, true)
    i, j = np.unravel_index(cost.argmin(), cost.shape)
    best = tuple(humps[i, j].tolist())
    return HumpFit(float(CENTRES[i]), float(WIDTHS[j]), best, compare_laws(law, best))


def _kl(of: NDArray[np.float64], to: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import rel_entr

    return np.asarray(rel_entr(of, to).sum(-1))

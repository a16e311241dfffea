"""How good the digit probabilities of a model are when it reads the right answers (teacher forcing)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delcore.errors import InputError

BINS = 10
"""Equal bins of confidence for the calibration error."""


@dataclass(frozen=True)
class DigitScores:
    """Means over digit positions; None where there are no positions."""

    nll_nats: float | None
    """−ln p̂ of the true digit; infinite where a true digit was held impossible."""

    calibration_error: float | None
    """Expected calibration error of the most probable digit, from 0 to 1."""

    mean_rank: float | None
    """Rank of the true digit, from 1 (the most probable) to 10."""

    count: int
    """Digit positions."""


def score_digits(probabilities: ArrayLike, digits: ArrayLike) -> DigitScores:
    """All three measures of some digit positions.

    Args:
        probabilities: p̂ of the digits 0 … 9 at each position, [positions, 10].
        digits: the true digit of each, 0 … 9, [positions].

    Raises:
        InputError: other shapes, probabilities that are none, or digits that are none.
    """
    p, true = _checked(probabilities, digits)
    if len(p) == 0:
        return DigitScores(None, None, None, 0)
    return DigitScores(_nll_nats(p, true), _calibration_error(p, true), float(_ranks(p, true).mean()), len(p))


def digit_ranks(probabilities: ArrayLike, digits: ArrayLike) -> NDArray[np.float64]:
    """Rank of the true digit at each position, [positions]: 1 + digits more probable + half of those as probable.

    Ten equal probabilities give 5.5.

    Args:
        probabilities: p̂ of the digits 0 … 9 at each position, [positions, 10].
        digits: the true digit of each, [positions].

    Raises:
        InputError: as for `score_digits`.
    """
    return _ranks(*_checked(probabilities, digits))


def _nll_nats(p: NDArray[np.float64], true: NDArray[np.int64]) -> float:
    with np.errstate(divide="ignore"):  # ln 0 is −∞, and meant
        return float(-np.log(p[np.arange(len(p)), true]).mean()) + 0.0


def _ranks(p: NDArray[np.float64], true: NDArray[np.int64]) -> NDArray[np.float64]:
    own = p[np.arange(len(p)), true][:, None]  # [positions, 1]
    return 1 + (p > own).sum(1) + ((p == own).sum(1) - 1) / 2


def _calibration_error(p: NDArray[np.float64], true: NDArray[np.int64]) -> float:
    """Σ over bins of share of positions · |mean confidence − accuracy|.

    Confidence is the largest p̂, the prediction the lowest digit that has it; bins are (0, 0.1], … (0.9, 1].
    """
    confidence, hit = p.max(1), p.argmax(1) == true
    bins = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)
    gaps = np.bincount(bins, weights=confidence - hit, minlength=BINS)  # a bin's count cancels
    return float(np.abs(gaps).sum() / len(p))


def _checked(probabilities: ArrayLike, digits: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    p, true = np.asarray(probabilities, np.float64), np.asarray(digits)
    if p.size == 0 and true.size == 0:
        return np.zeros((0, 10)), np.zeros(0, np.int64)
    if p.ndim != 2 or p.shape[1] != 10 or true.shape != p.shape[:1]:
        raise InputError(
            f"`probabilities` and `digits` must be [positions, 10] and [positions]; got {list(p.shape)} and "
            f"{list(true.shape)}."
        )
    if not ((p >= 0).all() and np.allclose(p.sum(1), 1, atol=1e-3)):
        raise InputError("Each row of `probabilities` must be 0 or more and sum to 1. Take the softmax of the digits.")
    if true.dtype.kind not in "iu" or true.min() < 0 or true.max() > 9:
        raise InputError("`digits` must be whole numbers from 0 to 9. Leave out positions that hold no digit.")
    return p, true.astype(np.int64)

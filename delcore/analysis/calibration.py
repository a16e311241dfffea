"""Does a digit that gets 80 % come true in 80 of 100 cases? Reliability, expected calibration error, Brier score."""

import numpy as np
from numpy.typing import NDArray

from delcore.analysis.digit_measures import DRAWS, bootstrap_groups
from delcore.analysis.outcomes import Calibration
from delcore.analysis.predictions import DigitPredictions
from delcore.errors import InputError

CHANCE_DRAWS = 100
"""Sets of digits drawn from p̂ for the ECE that a calibrated model would have."""


def measure_calibration(
    predictions: DigitPredictions, *, bins: int = 10, draws: int = DRAWS, seed: int = 0
) -> Calibration:
    """Compare confidence and accuracy in bins of equal width; the Brier score's interval comes from resampled texts.

    ECE has no interval: a resampled set carries its own noise on top of the first one's, so a bootstrap lies too high.
    The ECE of digits drawn from p̂ itself stands beside it.

    Args:
        predictions: of one model.
        bins: how many; at least 1.
        draws: bootstrap resamples.
        seed: of all draws.

    Raises:
        InputError: no bins.

    Source: Guo et al. 2017, arXiv:1706.04599 (ECE); Brier 1950, in the form for several classes.
    """
    if bins < 1:
        raise InputError(f"`bins` must be at least 1; got {bins}.")
    top = predictions.probabilities.max(-1)
    right = (predictions.probabilities.argmax(-1) == predictions.digit).astype(float)
    edges = np.linspace(0, 1, bins + 1)
    where = np.clip(np.searchsorted(edges, top, side="left") - 1, 0, bins - 1)  # a bin holds its upper border
    confident, correct, counts = (np.bincount(where, column, bins) for column in (top, right, np.ones_like(top)))
    filled = np.where(counts, counts, np.nan)
    brier = ((predictions.probabilities - np.eye(10)[predictions.digit]) ** 2).sum(-1)
    return Calibration(
        edges,
        confident / filled,
        correct / filled,
        counts.astype(np.int64),
        float(np.abs(confident - correct).sum() / counts.sum()),
        _ece_by_chance(top, where, bins, seed),
        bootstrap_groups(predictions, brier, np.ones(len(top), bool), draws=draws, seed=seed),
        predictions.provenance,
    )


def _ece_by_chance(top: NDArray[np.float64], where: NDArray[np.int64], bins: int, seed: int) -> float:
    """Mean ECE where each digit is drawn from its p̂, so that the most probable one is right with its probability."""
    generator = np.random.default_rng(seed)
    confident = np.bincount(where, top, bins)
    found = [
        np.abs(confident - np.bincount(where, generator.random(len(top)) < top, bins)).sum()
        for _ in range(CHANCE_DRAWS)
    ]
    return float(np.mean(found) / len(top))

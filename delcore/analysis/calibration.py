"""Does a digit that gets 80 % come true in 80 of 100 cases? Reliability, expected calibration error, Brier score."""

import numpy as np
from numpy.typing import NDArray

from delcore.analysis.digit_measures import DRAWS, bootstrap_groups
from delcore.analysis.outcomes import Calibration
from delcore.analysis.predictions import DigitPredictions
from delcore.errors import InputError
from delcore.intervals import CONFIDENCE, Interval


def measure_calibration(
    predictions: DigitPredictions, *, bins: int = 10, draws: int = DRAWS, seed: int = 0
) -> Calibration:
    """Compare confidence and accuracy in bins of equal width; intervals come from resampled texts.

    Args:
        predictions: of one model.
        bins: how many; at least 1.
        draws: bootstrap resamples.
        seed: of the draws.

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
    sums = _by_text(predictions, where, bins, np.stack([top, right, np.ones_like(top)]))  # [texts, 3, bins]
    confident, correct, counts = sums.sum(0)
    filled = np.where(counts, counts, np.nan)
    brier = ((predictions.probabilities - np.eye(10)[predictions.digit]) ** 2).sum(-1)
    return Calibration(
        edges,
        confident / filled,
        correct / filled,
        counts.astype(np.int64),
        _bootstrap_ece(sums, draws, seed),
        bootstrap_groups(predictions, brier, np.ones(len(top), bool), draws=draws, seed=seed),
        predictions.provenance,
    )


def _by_text(
    predictions: DigitPredictions, where: NDArray[np.int64], bins: int, columns: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Sums of some columns over the digits of each text and bin."""
    text = np.unique(predictions.sample, return_inverse=True)[1]
    sums = np.zeros((int(text.max()) + 1, len(columns), bins))
    for i, column in enumerate(columns):
        np.add.at(sums[:, i], (text, where), column)
    return sums


def _bootstrap_ece(sums: NDArray[np.float64], draws: int, seed: int) -> Interval:
    generator = np.random.default_rng(seed)
    n = len(sums)
    weights = generator.multinomial(n, np.full(n, 1 / n), size=draws)  # [draws, texts]
    drawn = _ece(np.einsum("dt,tcb->dcb", weights, sums, optimize=True))
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]) if n > 1 else (None, None)
    estimate = float(_ece(sums.sum(0, keepdims=True))[0])
    return Interval(estimate, None if low is None else float(low), None if high is None else float(high), _count(sums))


def _ece(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """|Σ confidence − Σ right| over the bins, divided by all digits; of [draws, 3, bins]."""
    return np.abs(sums[:, 0] - sums[:, 1]).sum(-1) / sums[:, 2].sum(-1)


def _count(sums: NDArray[np.float64]) -> int:
    return int(sums[:, 2].sum())

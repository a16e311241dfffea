"""Where the true digit stands among the ten."""

import numpy as np
from numpy.typing import NDArray

from delcore.analysis.predictions import DigitPredictions


def true_digit_ranks(predictions: DigitPredictions) -> NDArray[np.float64]:
    """Rank of each true digit, [digits], from 1 (the most probable) to 10: 1 + digits above + half of those level.

    Ten equal probabilities give 5.5.
    """
    p = predictions.probabilities
    own = np.take_along_axis(p, predictions.digit[:, None], -1)  # [digits, 1]
    return 1 + (p > own).sum(-1) + ((p == own).sum(-1) - 1) / 2

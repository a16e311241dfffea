"""Digit scores against values worked by hand, scikit-learn, and a slow loop."""

import math

import numpy as np
import pytest
from sklearn.metrics import log_loss

from delcore import InputError
from delcore.benchmarks.digit_scores import DigitScores, digit_ranks, score_digits

UNIFORM = [0.1] * 10
SURE = [0.0, 1.0] + [0.0] * 8


def test_scores_of_even_probabilities_are_those_of_chance():
    found = score_digits([UNIFORM] * 10, range(10))
    assert found.nll_nats == pytest.approx(math.log(10))
    assert found.calibration_error == pytest.approx(0, abs=1e-12)
    assert (found.mean_rank, found.count) == (5.5, 10)


def test_scores_of_a_sure_model_that_is_right_or_wrong():
    assert score_digits([SURE], [1]) == DigitScores(0.0, 0.0, 1.0, 1)
    assert score_digits([SURE], [5]) == DigitScores(math.inf, 1.0, 6.0, 1)


def test_no_positions_give_none():
    assert score_digits(np.zeros((0, 10)), np.zeros(0, int)) == score_digits([], []) == DigitScores(None, None, None, 0)


def test_scores_agree_with_sklearn_and_a_slow_loop():
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.full(10, 0.4), 500)
    digits = np.array([generator.choice(10, p=row) for row in p])
    found = score_digits(p, digits)
    assert found.nll_nats == pytest.approx(log_loss(digits, p, labels=range(10)))
    bins = [[] for _ in range(10)]
    for row, digit in zip(p, digits, strict=True):
        bins[math.ceil(max(row) * 10) - 1].append((max(row), float(np.argmax(row) == digit)))
    gaps = [len(b) / 500 * abs(np.mean([c for c, _ in b]) - np.mean([h for _, h in b])) for b in bins if b]
    assert found.calibration_error == pytest.approx(sum(gaps))
    assert list(digit_ranks(p, digits)) == [
        sorted(row)[::-1].index(row[d]) + 1 for row, d in zip(p, digits, strict=True)
    ]


@pytest.mark.parametrize(
    ("p", "digits", "said"),
    [
        ([UNIFORM], [1, 2], "`probabilities` and `digits`"),
        ([[0.5, 0.5]], [1], "`probabilities` and `digits`"),
        ([[0.2] * 10], [1], "sum to 1"),
        ([[math.nan] * 10], [1], "sum to 1"),
        ([UNIFORM], [10], "from 0 to 9"),
        ([UNIFORM], [1.5], "from 0 to 9"),
    ],
)
def test_what_is_no_probability_or_no_digit_is_refused(p, digits, said):
    with pytest.raises(InputError, match=said):
        score_digits(p, digits)

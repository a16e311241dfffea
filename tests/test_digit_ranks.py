"""Rank of the true digit: by hand, with ties, and against sorting."""

import numpy as np
import pytest

from delcore.analysis import measure_digits_by
from delcore.analysis.ranks import true_digit_ranks
from tests.test_digit_analysis import made_up, one_hot

UNIFORM = [0.1] * 10


def test_ranks_by_hand():
    sure = one_hot([1])[0]
    assert list(true_digit_ranks(made_up([UNIFORM, sure, sure], [7, 1, 5]))) == [5.5, 1, 6]
    found = measure_digits_by(made_up([UNIFORM, sure, sure], [7, 1, 5]), "rank", "all", draws=20)
    assert found.values == pytest.approx([12.5 / 3])


def test_ranks_without_ties_are_places_in_descending_order():
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.full(10, 0.4), 200)
    digits = generator.integers(0, 10, 200)
    slow = [sorted(row, reverse=True).index(row[digit]) + 1 for row, digit in zip(p, digits, strict=True)]
    assert list(true_digit_ranks(made_up(p, digits))) == slow

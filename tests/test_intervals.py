"""Intervals against values worked by hand, scipy's bootstrap, and simulated coverage."""

import math
import statistics

import numpy as np
import pytest
from scipy.stats import bootstrap

from delcore import InputError
from delcore.intervals import Interval, bootstrap_ratio, t_interval


def test_t_interval_of_three_values_equals_students_by_hand():
    found = t_interval([1.0, 2.0, 6.0])
    half = 4.302652729749464 * statistics.stdev([1.0, 2.0, 6.0]) / math.sqrt(3)  # t(2), 97.5 %
    assert found.mean == 3.0
    assert found.low == pytest.approx(3.0 - half)
    assert found.high == pytest.approx(3.0 + half)


def test_t_interval_of_one_value_has_no_ends():
    assert t_interval([2.0]) == Interval(2.0, None, None, 1)
    assert not t_interval([2.0]).excludes_zero


def test_bootstrap_of_a_mean_agrees_with_scipys():
    values = np.random.default_rng(1).gamma(2, size=60)
    ours = bootstrap_ratio((values, np.ones(60)))
    theirs = bootstrap((values,), np.mean, method="percentile", n_resamples=10_000, rng=2).confidence_interval
    assert ours.mean == pytest.approx(values.mean())
    assert ours.low == pytest.approx(theirs.low, abs=0.02)
    assert ours.high == pytest.approx(theirs.high, abs=0.02)


def test_bootstrap_of_a_ratio_weighs_items_by_their_counts():
    assert bootstrap_ratio((np.array([1.0, 9.0]), np.array([1.0, 3.0]))).mean == 2.5


def test_paired_difference_of_systems_that_differ_by_a_constant_is_sure():
    generator = np.random.default_rng(0)
    counts = generator.integers(1, 9, 40).astype(float)
    sums = generator.normal(size=40) * counts
    found = bootstrap_ratio((sums + 0.5 * counts, counts), (sums, counts))
    assert (found.mean, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))
    assert found.excludes_zero


def test_bootstrap_interval_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.default_rng(3)
    hits = 0
    for trial in range(200):
        values = generator.normal(1.0, 2.0, size=50)
        found = bootstrap_ratio((values, np.ones(50)), draws=1000, seed=trial)
        hits += found.low <= 1.0 <= found.high
    assert 0.88 <= hits / 200 <= 0.99


def test_bootstrap_is_the_same_for_the_same_seed():
    values = np.arange(10.0)
    assert bootstrap_ratio((values, np.ones(10)), seed=4) == bootstrap_ratio((values, np.ones(10)), seed=4)


@pytest.mark.parametrize("other", [None, np.ones(3)])
def test_bootstrap_of_nothing_or_of_unlike_arrays_is_refused(other):
    sums = np.ones(0) if other is None else np.ones(4)
    with pytest.raises(InputError, match="at least one item"):
        bootstrap_ratio((sums, sums), None if other is None else (other, other))

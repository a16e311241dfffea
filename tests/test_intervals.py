"""Intervals against values worked by hand, scipy's bootstrap, and simulated coverage."""

import math
import statistics

import numpy as np
import pytest
from scipy.stats import binomtest, bootstrap

from delcore import InputError
from delcore.intervals import (
    Interval,
    bootstrap_ratio,
    mcnemar_p,
    mean_of_changes,
    mean_of_shares,
    t_interval,
    wilson_interval,
)


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


def test_bootstrap_of_one_item_has_no_ends():
    one = np.array([3.0])
    assert bootstrap_ratio((one, one * 2)) == Interval(0.5, None, None, 1)
    found = bootstrap_ratio((one, one), (one * 2, one))
    assert found == Interval(-1.0, None, None, 1) and not found.excludes_zero


def test_ratio_to_nothing_is_refused():
    with pytest.raises(InputError, match="more than 0"):
        bootstrap_ratio((np.ones(3), np.zeros(3)))
    with pytest.raises(InputError, match="more than 0"):
        bootstrap_ratio((np.ones(3), np.ones(3)), (np.ones(3), np.zeros(3)))


# ---------------------------------------------------------------- shares


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_interval_equals_newcombes_table(hits, count, low, high):
    found = wilson_interval(hits, count)  # Newcombe 1998, Table I, method 3
    assert (found.mean, found.count) == (hits / count, count)
    assert (found.low, found.high) == pytest.approx((low, high), abs=6e-5)


@pytest.mark.parametrize("count", [1, 2, 7, 1319])
def test_wilson_interval_agrees_with_scipys_and_stays_within_0_and_1(count):
    for hits in {0, 1, count // 2, count}:
        found = wilson_interval(hits, count)
        theirs = binomtest(hits, count).proportion_ci(method="wilson")
        assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
        assert 0 <= found.low <= found.mean <= found.high <= 1


def test_wilson_interval_at_the_ends_is_exact():
    assert wilson_interval(0, 5).low == 0.0 and wilson_interval(5, 5).high == 1.0


@pytest.mark.parametrize(("hits", "count"), [(0, 0), (3, 2), (-1, 2)])
def test_wilson_interval_of_impossible_counts_is_refused(hits, count):
    with pytest.raises(InputError, match="at least one item|cannot be"):
        wilson_interval(hits, count)


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (1, 6), (6, 1), (5, 5), (0, 9), (103, 71), (2000, 2100)])
def test_mcnemar_equals_the_exact_binomial_test_and_is_symmetric(gained, lost):
    expected = binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert mcnemar_p(gained, lost) == pytest.approx(expected, rel=1e-9)
    assert mcnemar_p(gained, lost) == mcnemar_p(lost, gained)


def test_mcnemar_by_hand():
    assert mcnemar_p(0, 5) == 2 / 32
    assert mcnemar_p(1, 6) == 2 * (1 + 7) / 128


def test_mcnemar_of_a_negative_number_is_refused():
    with pytest.raises(InputError, match="`gained`"):
        mcnemar_p(-1, 2)


def test_mean_of_changes_of_one_task_is_the_paired_bootstrap_over_its_items():
    first = np.array([1] * 30 + [0] * 20 + [1] * 5 + [0] * 12, float)
    second = np.array([1] * 30 + [0] * 20 + [0] * 5 + [1] * 12, float)
    ones = np.ones(67)
    slow = bootstrap_ratio((second, ones), (first, ones), draws=20_000)
    fast = mean_of_changes([(12, 5, 67)], draws=20_000)
    assert fast.mean == pytest.approx(slow.mean) == pytest.approx(7 / 67)
    assert (fast.low, fast.high) == pytest.approx((slow.low, slow.high), abs=0.016)  # one item is 0.015
    assert fast.count == 67


def test_mean_of_changes_turns_its_sign_with_the_order():
    there, back = mean_of_changes([(12, 5, 67), (3, 9, 20)]), mean_of_changes([(5, 12, 67), (9, 3, 20)])
    assert there.mean == -back.mean
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low), abs=0.03)


def test_mean_of_shares_weighs_tasks_alike_and_agrees_with_a_bootstrap_of_items():
    found = mean_of_shares([(50, 100), (1, 10)], draws=20_000)
    generator = np.random.default_rng(1)
    items = [np.array([1.0] * 50 + [0.0] * 50), np.array([1.0] + [0.0] * 9)]
    slow = [np.mean([generator.choice(task, len(task)).mean() for task in items]) for _ in range(4000)]
    assert (found.mean, found.count) == (pytest.approx(0.3), 110)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(slow, [0.025, 0.975])), abs=0.02)


def test_mean_of_shares_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.default_rng(5)
    truth, sizes, hits = (0.2, 0.5, 0.8), (60, 40, 80), 0
    for trial in range(300):
        shares = [(int(generator.binomial(n, p)), n) for p, n in zip(truth, sizes, strict=True)]
        found = mean_of_shares(shares, draws=1000, seed=trial)
        hits += found.low <= 0.5 <= found.high
    assert 0.91 <= hits / 300 <= 0.98


def test_paired_interval_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.default_rng(6)
    hits = 0
    for trial in range(300):
        gained, lost, _ = generator.multinomial(120, [0.2, 0.1, 0.7])
        found = mean_of_changes([(int(gained), int(lost), 120)], draws=1000, seed=trial)
        hits += found.low <= 0.1 <= found.high
    assert 0.91 <= hits / 300 <= 0.98


@pytest.mark.parametrize("shares", [[(0, 5)], [(5, 5)], [(1, 1)], [(0, 1), (4, 4)]])
def test_mean_of_all_right_or_all_wrong_has_no_width_and_no_nan(shares):
    found = mean_of_shares(shares)
    assert found.low == found.mean == found.high


@pytest.mark.parametrize(("changes", "said"), [([], "one task"), ([(0, 0, 0)], "one item"), ([(2, 2, 3)], "cannot be")])
def test_mean_of_impossible_counts_is_refused(changes, said):
    with pytest.raises(InputError, match=said):
        mean_of_changes(changes)

"""Measures against values worked by hand, slow second implementations, and empty or hopeless runs."""

import itertools
import math
import statistics
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delcore import InputError
from delcore.benchmarks.metrics import (
    accuracy,
    compare,
    compare_means,
    cut_share,
    mean_accuracy,
    measure_distances,
    place_accuracy,
    unread_share,
)
from delcore.intervals import wilson_interval
from tests.benchmarks.runs_for_tests import record, records


def shares(found):
    return {place: (round(one.mean * one.count), one.count) for place, one in found.items()}


# ---------------------------------------------------------------- accuracy


def test_accuracy_is_over_all_items_and_unread_is_wrong():
    run = [record(0), record(1, strict="41"), record(2, strict=None, flexible="42"), record(3, strict=None)]
    assert accuracy(run) == wilson_interval(1, 4)
    assert accuracy(run, "flexible") == wilson_interval(2, 4)
    assert unread_share(run) == wilson_interval(2, 4)
    assert unread_share(run, "flexible") == wilson_interval(1, 4)


def test_no_items_give_none_everywhere():
    nothing = measure_distances([])
    assert (
        accuracy([])
        is unread_share([])
        is cut_share([])
        is mean_accuracy([])
        is mean_accuracy([[]])
        is compare([], [])
        is None
    )
    assert place_accuracy([]) == {} and nothing.count == nothing.read == 0
    assert nothing.mean_absolute is nothing.median_absolute is nothing.log_mae is None
    assert nothing.symmetric_relative is nothing.same_magnitude is None


GOLDS = ("42", "7", "0.5", "100")


@pytest.mark.parametrize(
    ("answers", "share", "places", "relative"),
    [
        (GOLDS, 1, {2: (1, 1), 1: (2, 2), 0: (4, 4), -1: (1, 1)}, 0),
        (
            ("41", "-8", "0.6", "10"),
            0,
            {2: (0, 1), 1: (1, 2), 0: (2, 4), -1: (0, 1)},
            (1 / 83 + 1 + 1 / 11 + 9 / 11) / 4,
        ),
        ((None,) * 4, 0, {2: (0, 1), 1: (0, 2), 0: (0, 4), -1: (0, 1)}, 1),
    ],
    ids=["right", "wrong", "unread"],
)
@pytest.mark.parametrize("count", [1, 4])
def test_all_right_all_wrong_and_all_unread_are_free_of_nan(answers, share, places, relative, count):
    run = [record(i, gold, answer) for i, (gold, answer) in enumerate(zip(GOLDS, answers, strict=True))][-count:]
    assert accuracy(run).mean == mean_accuracy([run]).mean == share
    distances = measure_distances(run)
    assert 0 <= distances.symmetric_relative <= 1
    assert (distances.mean_absolute is None) == (answers[-1] is None)
    if count == 4:
        assert shares(place_accuracy(run)) == places
        assert distances.symmetric_relative == pytest.approx(relative)


def test_mean_accuracy_weighs_tasks_alike():
    assert mean_accuracy([records("42", "1"), records("42")]).mean == 0.75


def test_unknown_way_is_refused():
    with pytest.raises(InputError, match="`way`"):
        accuracy(records("1"), "loose")


# ---------------------------------------------------------------- two models


def test_compare_counts_changed_items_whatever_their_order():
    first = records("42", "42", "1", None, "1", "1")
    second = records("42", "1", "42", "42", "42", "1")
    found = compare(first, second[::-1])
    assert (found.gained, found.lost, found.difference.mean) == (3, 1, pytest.approx(2 / 6))
    assert found.p == 2 * (1 + 4) / 16
    back = compare(second, first)
    assert (back.gained, back.lost, back.p, back.difference.mean) == (1, 3, found.p, -found.difference.mean)


def test_compare_of_a_model_with_itself_is_no_difference():
    found = compare(records("42", "1"), records("42", "1"))
    assert (found.p, found.difference.mean, found.difference.low) == (1.0, 0.0, 0.0)


def test_compare_means_weighs_tasks_alike():
    found = compare_means([(records("1", "1"), records("42", "42")), (records(*["42"] * 8), records(*["42"] * 8))])
    assert found.difference.mean == 0.5 and (found.gained, found.lost) == (2, 0)


def changed(gained, lost, count):
    """Records of two models on one task."""
    same = ["1"] * (count - gained - lost)
    return records(*["1"] * gained, *["42"] * lost, *same), records(*["42"] * gained, *["1"] * lost, *same)


def test_compare_means_tests_the_mean_that_it_shows():
    small, large = changed(16, 0, 200), changed(0, 170, 5000)
    found = compare_means([small] * 6 + [large])
    assert found.difference.mean == pytest.approx((6 * 16 / 200 - 170 / 5000) / 7)
    assert found.p < 0.0001  # nine standard deviations of the tosses
    # Many losses in one large task are no sign that the mean falls.
    found = compare_means([changed(10, 10, 200)] * 6 + [large])
    assert found.difference.mean == pytest.approx(-0.034 / 7)
    assert found.p > 0.5


def test_compare_means_agrees_with_every_toss_in_turn():
    changes = [(4, 1, 8), (0, 2, 5), (3, 1, 11)]
    steps = [1 / n for gained, lost, n in changes for _ in range(gained + lost)]
    seen = abs(sum((gained - lost) / n for gained, lost, n in changes))
    tosses = [
        abs(sum(s * x for s, x in zip(signs, steps, strict=True)))
        for signs in itertools.product((-1, 1), repeat=len(steps))
    ]
    p = sum(one >= seen - 1e-9 for one in tosses) / len(tosses)
    pairs = [changed(*one) for one in changes]
    assert compare_means(pairs).p == pytest.approx(p, abs=0.006)
    assert compare_means([pair[::-1] for pair in pairs]).p == compare_means(pairs).p
    assert compare_means(pairs[:1]).p == 2 * (1 + 5) / 2**5


def test_compare_means_without_a_change_is_no_evidence():
    assert compare_means([changed(0, 0, 3), changed(0, 0, 2)]).p == 1


@pytest.mark.parametrize("second", [records("42"), [record(0), record(2)], [record(0), record(0)]])
def test_compare_of_other_items_is_refused(second):
    with pytest.raises(InputError, match="`id`"):
        compare(records("42", "1"), second)


# ---------------------------------------------------------------- digits by place


def test_place_accuracy_by_hand():
    run = [
        record(0, gold="123", strict="123"),
        record(1, gold="123", strict="23"),  # no hundreds
        record(2, gold="23", strict="123"),  # one place too many
        record(3, gold="23", strict=None),
        record(4, gold="2.5", strict="-2.57"),
        record(5, gold="2.5", strict="2"),
        record(6, gold="10, 20", strict="10, 20", kind="numbers"),  # no single number
        record(7, gold="123", strict="120, 3", kind="numbers"),
    ]
    assert shares(place_accuracy(run)) == {2: (1, 3), 1: (3, 5), 0: (5, 7), -1: (1, 2)}


def test_place_accuracy_needs_a_digit_to_be_written_before_the_point_only():
    assert shares(place_accuracy([record(gold="103", strict="3")])) == {2: (0, 1), 1: (0, 1), 0: (1, 1)}
    assert shares(place_accuracy([record(gold="2.05", strict="2")])) == {0: (1, 1), -1: (1, 1), -2: (0, 1)}
    assert shares(place_accuracy([record(gold="0.5", strict="1/2")])) == {0: (1, 1), -1: (1, 1)}
    assert shares(place_accuracy([record(gold="0.34", strict="1/3")])) == {0: (1, 1), -1: (1, 1), -2: (0, 1)}


def test_right_answers_without_an_end_and_letters_have_no_places():
    assert place_accuracy([record(gold="1/3", strict="1/3"), record(gold="C", strict="C", kind="choice")]) == {}


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**5), st.none() | st.integers(0, 10**5)), min_size=1))
def test_place_accuracy_agrees_with_comparing_strings_from_the_right(pairs):
    run = [record(i, gold=str(g), strict=None if x is None else str(x)) for i, (g, x) in enumerate(pairs)]
    slow = {}
    for gold, read in pairs:
        for place, digit in enumerate(reversed(str(gold))):
            right, count = slow.get(place, (0, 0))
            same = read is not None and str(read)[::-1][place : place + 1] == digit
            slow[place] = (right + same, count + 1)
    assert shares(place_accuracy(run)) == slow


# ---------------------------------------------------------------- how far off


def test_distances_by_hand():
    run = [
        record(0, gold="10", strict="10"),
        record(1, gold="10", strict="19"),
        record(2, gold="10", strict="-89"),
        record(3, gold="10", strict=None),
        record(4, gold="0", strict="0"),
        record(5, gold="C", strict="C", kind="choice"),
    ]
    found = measure_distances(run)
    assert (found.count, found.read) == (5, 4)
    assert (found.mean_absolute, found.median_absolute) == (27, 4.5)
    assert found.log_mae == pytest.approx((0 + 1 + 2 + 0) / 4)
    assert found.symmetric_relative == pytest.approx((0 + 9 / 29 + 1 + 1 + 0) / 5)
    assert (found.same_magnitude.mean, found.same_magnitude.count) == (3 / 5, 5)


def test_distances_are_exact_where_floats_are_not():
    run = [record(gold="0.1", strict="1/10"), record(gold="100000000000000000001", strict="100000000000000000000")]
    found = measure_distances(run)
    assert found.mean_absolute == found.median_absolute == Fraction(1, 2)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6)), min_size=1, max_size=30))
def test_distances_agree_with_plain_floats(pairs):
    found = measure_distances([record(i, gold=str(g), strict=str(x)) for i, (g, x) in enumerate(pairs)])
    errors = [abs(x - g) for g, x in pairs]
    assert float(found.mean_absolute) == pytest.approx(statistics.fmean(errors))
    assert float(found.median_absolute) == pytest.approx(statistics.median(errors))
    assert found.log_mae == pytest.approx(statistics.fmean(math.log10(1 + e) for e in errors))
    relative = [abs(x - g) / (abs(x) + abs(g)) if x or g else 0 for g, x in pairs]
    assert found.symmetric_relative == pytest.approx(statistics.fmean(relative))


def test_answers_of_5000_digits_neither_overflow_nor_hang():
    started = time.perf_counter()
    monsters = ["9" * 5000, "-" + "8" * 5000, "1e999999999999999999", "1" * 5000 + "/" + "7" * 4999, "0." + "1" * 4999]
    run = records(*monsters, *monsters[::-1]) + records(*monsters, gold="7" * 5000)
    found = measure_distances(run)
    assert found.mean_absolute.adjusted() == 9999 and math.isfinite(found.log_mae)
    assert 0 <= found.symmetric_relative <= 1
    assert max(place_accuracy(run)) == 4999
    assert time.perf_counter() - started < 5

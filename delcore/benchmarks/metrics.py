"""Measures of a finished run, from its records alone.

A record is one line of a run's records.jsonl. It has two readings of what the model wrote: "strict" (what is stated as
the answer) and "flexible" (else the last that could be one). What could not be read is None; every docstring says what
becomes of it. Nothing here is NaN: where there are no items, a measure is None.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import Any

from delcore.answers.written import decimal_places
from delcore.benchmarks.values import (
    ROUGH,
    digits_by_place,
    exact_value,
    order_of_magnitude,
    rough,
)
from delcore.errors import InputError
from delcore.intervals import Interval, mean_of_changes, mean_of_shares, tossed_mean_p, wilson_interval

Record = Mapping[str, Any]
WAYS = ("strict", "flexible")
"""The two readings of a record."""

SHOWN_PLACES = range(-6, 10)
"""Places in tables and figures, from millionths to thousands of millions."""

# ---------------------------------------------------------------- accuracy


def accuracy(records: Sequence[Record], way: str = "strict") -> Interval | None:
    """Share of items answered right, with Wilson's 95 % interval; unread is wrong. None without items."""
    _check_way(way)
    return wilson_interval(_count_right(records, way), len(records)) if records else None


def unread_share(records: Sequence[Record], way: str = "strict") -> Interval | None:
    """Share of items whose answer could not be read, with Wilson's 95 % interval. None without items."""
    _check_way(way)
    return wilson_interval(sum(record[way] is None for record in records), len(records)) if records else None


def cut_share(records: Sequence[Record]) -> Interval | None:
    """Share of items whose answer was cut at the length limit, with Wilson's 95 % interval. None without items."""
    return wilson_interval(sum(record["finish"] == "length" for record in records), len(records)) if records else None


def count_without_room(records: Sequence[Record]) -> int:
    """Items that were never answered: their prompt filled the context, or held no tokens. They are unread, so wrong."""
    return sum(record["finish"] == "prompt_too_long" for record in records)


def mean_accuracy(tasks: Sequence[Sequence[Record]], way: str = "strict", *, seed: int = 0) -> Interval | None:
    """Unweighted mean of the accuracies of several tasks; bootstrap over the items within each. None if one is empty.

    Args:
        tasks: records of each task.
        way: which reading counts.
        seed: of the resampling.
    """
    _check_way(way)
    shares = [(_count_right(records, way), len(records)) for records in tasks]
    return mean_of_shares(shares, seed=seed) if shares and all(n for _, n in shares) else None


def _count_right(records: Sequence[Record], way: str) -> int:
    return sum(record[f"correct_{way}"] for record in records)


def _check_way(way: str) -> None:
    if way not in WAYS:
        raise InputError(f'`way` must be "strict" or "flexible"; got {way!r}.')


# ---------------------------------------------------------------- two models


@dataclass(frozen=True)
class Comparison:
    """Two models on the same items."""

    difference: Interval
    """Accuracy of the second less that of the first, with the paired bootstrap's 95 % interval."""

    gained: int
    """Items that only the second gets right."""

    lost: int
    """Items that only the first gets right."""

    p: float
    """Two-sided: McNemar's exact test, or over several tasks that of `tossed_mean_p`; 1 where no item changed."""


def compare(first: Sequence[Record], second: Sequence[Record], way: str = "strict") -> Comparison | None:
    """Compare two models item by item. None without items.

    Args:
        first: records of one model, in any order.
        second: of another on the same items.
        way: which reading counts.

    Raises:
        InputError: the items are not the same.
    """
    return compare_means([(first, second)], way)


def compare_means(
    pairs: Sequence[tuple[Sequence[Record], Sequence[Record]]], way: str = "strict", *, seed: int = 0
) -> Comparison | None:
    """Compare the unweighted means over several tasks; tested is the mean, in which every task weighs the same.

    Args:
        pairs: records of the first and the second model, for each task.
        way: which reading counts.
        seed: of the resampling and of the test.

    Raises:
        InputError: the items of a task are not the same.
    """
    _check_way(way)
    changes = [_count_changes(first, second, way) for first, second in pairs]
    if not changes or not all(count for *_, count in changes):
        return None
    gained, lost = (sum(change[i] for change in changes) for i in (0, 1))
    return Comparison(mean_of_changes(changes, seed=seed), gained, lost, tossed_mean_p(changes, seed=seed))


def _count_changes(first: Sequence[Record], second: Sequence[Record], way: str) -> tuple[int, int, int]:
    before, after = ({record["id"]: record for record in records} for records in (first, second))
    if before.keys() != after.keys() or len(before) != len(first) or len(after) != len(second):
        raise InputError("Two models are compared on the same items, and these differ in `id`. Run both on one set.")
    change = [after[i][f"correct_{way}"] - before[i][f"correct_{way}"] for i in before]
    return change.count(1), change.count(-1), len(change)


# ---------------------------------------------------------------- digits by place


def place_accuracy(records: Sequence[Record], way: str = "flexible") -> dict[int, Interval]:
    """Share of right digits at each place of the right answers, with Wilson's interval; from the highest place down.

    Every item whose right answer has a digit at a place counts there; one that was not read, or not as a single
    number, is wrong at all its places. Digits stand by place, not by order: of 123 for 23 the units and tens are
    right, and its hundreds stand where 23 has nothing to compare; of 3 for 123 the tens are wrong, since a number has
    no digits before its first. Behind the point a number has zeros without end. The sign is no digit.

    Right answers without an end (1/3), or that are no single number, have no places and count nowhere.

    Args:
        records: of one run.
        way: which reading counts.

    Returns:
        By place (0 for units, 1 for tens, −1 for tenths …), share and number of items; empty where no item has one.
    """
    _check_way(way)
    right: dict[int, int] = {}
    count: dict[int, int] = {}
    for gold, value in _numbers(records, way):
        if (decimals := decimal_places(gold)) is None:
            continue
        read = {} if value is None else digits_by_place(value, decimals)
        for place, digit in digits_by_place(gold, decimals).items():
            count[place] = count.get(place, 0) + 1
            right[place] = right.get(place, 0) + (read.get(place) == digit)
    wilson = cache(wilson_interval)
    return {place: wilson(right[place], count[place]) for place in sorted(count, reverse=True)}


def _numbers(records: Sequence[Record], way: str) -> Iterator[tuple[Fraction, Fraction | None]]:
    """The right answer and the number read, of items whose right answer is one number."""
    for record in records:
        gold = exact_value(record["gold"], record["kind"])
        if gold is not None:
            yield gold, exact_value(record[way], record["kind"])


# ---------------------------------------------------------------- how far off


@dataclass(frozen=True)
class Distances:
    """How far numbers read are from the right ones; x is what was read, g the right answer.

    Differences are exact fractions, rounded to 34 digits only to be averaged. `count` items have a single number as
    their right answer; `read` of them were read as a single number. The first three measures are over those read,
    since an unread answer has no distance: compare them between models with `read` in view. The last two are over
    all of `count`, where an unread item is as wrong as can be.
    """

    count: int
    """Items whose right answer is a single number."""

    read: int
    """Of those, items whose reading is one as well."""

    mean_absolute: Decimal | None
    """Mean of |x − g| over the items read; a `Decimal`, since a single 5,000-digit answer is beyond a float."""

    median_absolute: Decimal | None
    """Median of |x − g| over the items read; of an even number, the mean of the middle two."""

    log_mae: float | None
    """Mean of log10(1 + |x − g|) over the items read."""

    symmetric_relative: float | None
    """Mean of |x − g| / (|x| + |g|) over all, from 0 to 1; 0 where both are 0, 1 where unread."""

    same_magnitude: Interval | None
    """Share of all with ⌊log10|x|⌋ = ⌊log10|g|⌋ and the same sign; 0 agrees with 0 only, unread with nothing."""


def measure_distances(records: Sequence[Record], way: str = "flexible") -> Distances:
    """Distances of the numbers read from the right ones; see `Distances` for each definition.

    Sizes beyond 10^±10,000 are taken as 10^±10,000 (`delcore.benchmarks.values`).
    """
    _check_way(way)
    pairs = list(_numbers(records, way))
    read = [(gold, value) for gold, value in pairs if value is not None]
    errors = sorted(rough(abs(value - gold)) for gold, value in read)
    with localcontext(ROUGH):
        mean = sum(errors, Decimal(0)) / len(errors) if errors else None
        median = (errors[len(errors) // 2] + errors[(len(errors) - 1) // 2]) / 2 if errors else None
        log_mae = float(sum((1 + error).log10() for error in errors) / len(errors)) if errors else None
        relative = sum((_relative(gold, value) for gold, value in read), Decimal(len(pairs) - len(read)))
        same = sum(_same_magnitude(gold, value) for gold, value in read)
        return Distances(
            count=len(pairs),
            read=len(read),
            mean_absolute=mean,
            median_absolute=median,
            log_mae=log_mae,
            symmetric_relative=float(relative / len(pairs)) if pairs else None,
            same_magnitude=wilson_interval(same, len(pairs)) if pairs else None,
        )


def _relative(gold: Fraction, value: Fraction) -> Decimal:
    return rough(abs(value - gold) / (abs(value) + abs(gold))) if value != gold else Decimal(0)


def _same_magnitude(gold: Fraction, value: Fraction) -> bool:
    if gold == 0 or value == 0:
        return gold == value
    return (gold > 0) == (value > 0) and order_of_magnitude(gold) == order_of_magnitude(value)

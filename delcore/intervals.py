"""Intervals: how sure a mean, a share or a difference is."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delcore.errors import InputError

CONFIDENCE = 0.95
TOSSES = 100_000
"""Draws of a test by tosses: p of 0.05 is then known to within 0.0014."""

Ratio = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval; the ends are None where there is nothing to tell them from.

    Args:
        mean: the estimate.
        low: lower end.
        high: upper end.
        count: observations (seeds, items) behind it.
    """

    mean: float
    low: float | None
    high: float | None
    count: int

    @property
    def excludes_zero(self) -> bool:
        """Whether 0 lies outside, as a difference has to for a ranking."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def format_signed(value: float, digits: int = 3) -> str:
    """A signed number with a true minus; what rounds to 0 has no sign.

    >>> format_signed(-0.1234), format_signed(0.00001)
    ('−0.123', '0.000')
    """
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def t_interval(values: Sequence[float], *, confidence: float = CONFIDENCE) -> Interval:
    """Mean of independent values with Student's interval; no ends for a single one.

    Args:
        values: at least one.
        confidence: above the usual where several comparisons are to hold together.

    >>> t_interval([1.0, 2.0, 3.0]).high.__round__(4)
    4.4841
    """
    from scipy.stats import t

    mean, n = statistics.fmean(values), len(values)
    if n < 2:
        return Interval(mean, None, None, n)
    half = float(t.ppf((1 + confidence) / 2, n - 1)) * statistics.stdev(values) / n**0.5
    return Interval(mean, mean - half, mean + half, n)


def wilson_interval(hits: int, count: int) -> Interval:
    """A share with Wilson's score interval, which stays within 0 and 1 and has a width even at 0 and at 1.

    Args:
        hits: items that are so.
        count: all items.

    Raises:
        InputError: no items, or more hits than items.

    Source: Wilson 1927, without continuity correction.

    >>> found = wilson_interval(81, 263)
    >>> round(found.low, 4), round(found.high, 4)
    (0.2553, 0.3662)
    """
    _check_counts(count, hits)
    z = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    share, shrink = hits / count, 1 + z * z / count
    centre = (share + z * z / (2 * count)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    low, high = (0.0 if hits == 0 else centre - half), (1.0 if hits == count else centre + half)
    return Interval(share, low, high, count)


def mcnemar_p(gained: int, lost: int) -> float:
    """Two-sided exact McNemar test: how likely so uneven a split is if either system wins a changed item by a toss.

    The plain exact test (binomial, not mid-p), which is never too bold; items that both get right or wrong say nothing.

    Args:
        gained: items that only the second system gets right.
        lost: items that only the first gets right.

    Returns:
        p from 0 to 1; 1 where no item changed.

    Raises:
        InputError: a negative number.

    >>> mcnemar_p(1, 6)
    0.125
    """
    if min(gained, lost) < 0:
        raise InputError(f"`gained` and `lost` must be 0 or more; got {gained} and {lost}.")
    n, term, tail = gained + lost, 1, 0
    for k in range(min(gained, lost) + 1):  # whole numbers, so that nothing underflows
        tail, term = tail + term, term * (n - k) // (k + 1)
    return min(1.0, 2 * tail / 2**n)


def tossed_mean_p(changes: Sequence[tuple[int, int, int]], *, seed: int = 0) -> float:
    """Two-sided test of a mean over tasks: how likely so large a one is if either system wins a changed item by a toss.

    McNemar's test for the statistic of `mean_of_changes`: every task weighs the same, whatever its size. The tosses of
    a task add up to a binomial number, so that is what is drawn.

    Args:
        changes: of each task: items gained, items lost, and all items.
        seed: of the draws.

    Returns:
        (1 + draws at least as far from 0 as what was seen) / (1 + draws), of `TOSSES` draws, so at least 1e-5, and 1
        where no item changed. For a single task McNemar's exact p.

    Raises:
        InputError: no task, a task without items, or more changes than items.

    >>> abs(tossed_mean_p([(6, 0, 10), (0, 1, 10)]) - 2 * (1 + 7) / 2**7) < 0.005
    True
    """
    if not changes:
        raise InputError("A mean needs at least one task.")
    for gained, lost, count in changes:
        _check_counts(count, gained, lost)
    if len(changes) == 1:
        return mcnemar_p(*changes[0][:2])
    generator = np.random.default_rng(seed)
    tossed, seen = np.zeros(TOSSES), 0.0
    for gained, lost, count in changes:
        changed = gained + lost
        tossed += (2 * generator.binomial(changed, 0.5, size=TOSSES) - changed) / count
        seen += (gained - lost) / count
    # A draw as large as what was seen may differ from it by rounding.
    return float(1 + (np.abs(tossed) >= abs(seen) - 1e-12).sum()) / (1 + TOSSES)


def mean_of_shares(shares: Sequence[tuple[int, int]], *, draws: int = 10_000, seed: int = 0) -> Interval:
    """Unweighted mean of the shares of several tasks, with the percentile bootstrap over the items within each task.

    Resampling items that are only right or wrong makes the number of right ones binomial, so that is what is drawn.

    Args:
        shares: hits and items of each task.
        draws: resamples.
        seed: of the draws.

    Returns:
        The interval, whose `count` is the items of all tasks; it has no width where every task is all right or all
        wrong.

    Raises:
        InputError: no task, a task without items, or more hits than items.
    """
    return mean_of_changes([(hits, 0, count) for hits, count in shares], draws=draws, seed=seed)


def mean_of_changes(changes: Sequence[tuple[int, int, int]], *, draws: int = 10_000, seed: int = 0) -> Interval:
    """Mean over tasks of the difference of two shares on the same items, with the paired percentile bootstrap.

    An item adds 1 where only the second system is right, −1 where only the first is, else 0. Resampling such items
    makes their numbers multinomial, so that is what is drawn; with one task it is the plain paired bootstrap.

    Args:
        changes: of each task: items gained, items lost, and all items.
        draws: resamples.
        seed: of the draws.

    Raises:
        InputError: no task, a task without items, or more changes than items.
    """
    if not changes:
        raise InputError("A mean needs at least one task.")
    generator = np.random.default_rng(seed)
    drawn = np.zeros(draws)
    for gained, lost, count in changes:
        _check_counts(count, gained, lost)
        chances = np.array([gained, lost, count - gained - lost]) / count
        counts = generator.multinomial(count, chances, size=draws)  # [draws, 3]
        drawn += (counts[:, 0] - counts[:, 1]) / (count * len(changes))
    mean = statistics.fmean((gained - lost) / count for gained, lost, count in changes)
    return Interval(mean, *_middle(drawn), sum(count for *_, count in changes))


def _middle(drawn: NDArray[np.float64]) -> tuple[float, float]:
    """Between which two values 95 % of the draws lie."""
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def _check_counts(count: int, *parts: int) -> None:
    if count < 1:
        raise InputError(f"A share needs at least one item; got {count}.")
    if min(parts) < 0 or sum(parts) > count:
        raise InputError(f"Of {count} items there cannot be {' and '.join(map(str, parts))}.")


def bootstrap_ratio(system: Ratio, other: Ratio | None = None, *, draws: int = 10_000, seed: int = 0) -> Interval:
    """Σ sums / Σ counts over items with its percentile bootstrap interval; or its difference to another such ratio.

    Items are drawn, not what is summed within them: the digits of one text are not independent. For a difference
    both ratios see the same draws, so it is paired.

    Args:
        system: sums of a measure over each item, [items], and what they are divided by (ones for a mean over items).
        other: of a second system on the same items.
        draws: resamples.
        seed: of the draws.

    Returns:
        The interval, whose `count` is that of items; a single item has no ends, for its draws are all alike.

    Raises:
        InputError: no items, arrays of different lengths, or counts that sum to 0.
    """
    pairs = [system] if other is None else [system, other]
    n = len(system[0])
    if n == 0 or any(len(part) != n for pair in pairs for part in pair):
        raise InputError("A bootstrap needs at least one item, and as many of each array.")
    if any(not np.sum(counts) > 0 for _, counts in pairs):
        raise InputError("A ratio needs counts that sum to more than 0.")
    estimate = float(_difference([(np.sum(sums), np.sum(counts)) for sums, counts in pairs]))
    if n < 2:
        return Interval(estimate, None, None, n)
    generator = np.random.default_rng(seed)
    values = np.empty(draws)
    for start in range(0, draws, 1000):  # a thousand at a time keeps the weights small
        weights = generator.multinomial(n, np.full(n, 1 / n), size=min(1000, draws - start))  # [draws, items]
        values[start : start + len(weights)] = _difference(
            [(weights @ sums, weights @ counts) for sums, counts in pairs]
        )
    return Interval(estimate, *_middle(values), n)


def _difference(pairs: Sequence[tuple[Any, Any]]) -> Any:
    ratios = [total / np.maximum(count, 1e-300) for total, count in pairs]
    return ratios[0] - ratios[1] if len(ratios) == 2 else ratios[0]

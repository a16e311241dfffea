"""Intervals: how sure a mean, a share or a difference is."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delcore.errors import InputError

CONFIDENCE = 0.95

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


def t_interval(values: Sequence[float]) -> Interval:
    """Mean of independent values with Student's interval; no ends for a single one.

    >>> t_interval([1.0, 2.0, 3.0]).high.__round__(4)
    4.4841
    """
    from scipy.stats import t

    mean, n = statistics.fmean(values), len(values)
    if n < 2:
        return Interval(mean, None, None, n)
    half = float(t.ppf((1 + CONFIDENCE) / 2, n - 1)) * statistics.stdev(values) / n**0.5
    return Interval(mean, mean - half, mean + half, n)


def bootstrap_ratio(system: Ratio, other: Ratio | None = None, *, draws: int = 10_000, seed: int = 0) -> Interval:
    """Σ sums / Σ counts over items with its percentile bootstrap interval; or its difference to another such ratio.

    Items are drawn, not what is summed within them: the digits of one text are not independent. For a difference
    both ratios see the same draws, so it is paired.

    Args:
        system: sums of a measure over each item, [items], and what they are divided by (ones for a mean over items).
        other: of a second system on the same items.
        draws: resamples.
        seed: of the draws.

    Raises:
        InputError: no items, or arrays of different lengths.
    """
    pairs = [system] if other is None else [system, other]
    n = len(system[0])
    if n == 0 or any(len(part) != n for pair in pairs for part in pair):
        raise InputError("A bootstrap needs at least one item, and as many of each array.")
    generator = np.random.default_rng(seed)
    values = np.empty(draws)
    for start in range(0, draws, 1000):  # a thousand at a time keeps the weights small
        weights = generator.multinomial(n, np.full(n, 1 / n), size=min(1000, draws - start))  # [draws, items]
        values[start : start + len(weights)] = _difference(
            [(weights @ sums, weights @ counts) for sums, counts in pairs]
        )
    low, high = np.quantile(values, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    estimate = _difference([(np.sum(sums), np.sum(counts)) for sums, counts in pairs])
    return Interval(float(estimate), float(low), float(high), n)


def _difference(pairs: Sequence[tuple[Any, Any]]) -> Any:
    ratios = [total / np.maximum(count, 1e-300) for total, count in pairs]
    return ratios[0] - ratios[1] if len(ratios) == 2 else ratios[0]

"""Over-sharp or over-flat: digit entropy against a stated reference, which is a known law or another model."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from delcore.analysis.digit_measures import (
    DRAWS,
    bootstrap_groups,
    check_measure,
    group_digits,
    measured_intervals,
)
from delcore.analysis.predictions import DigitPredictions
from delcore.analysis.results import Measured, Provenance
from delcore.errors import InputError
from delcore.evaluate import ReadingMeasure
from delcore.intervals import Interval, bootstrap_ratio

LAW_GROUPS = ("all", "integer", "decimal")


@dataclass(frozen=True)
class EntropyGap:
    """A model's digit entropy less that of a reference, in nats.

    Args:
        reference: what it is compared with, in words.
        group: which digits: "all", "integer" places or "decimal" ones.
        gap: below 0 is sharper than the reference, above 0 flatter.
        provenance: model and data.
    """

    reference: str
    group: str
    gap: Interval
    provenance: Provenance

    @property
    def verdict(self) -> str:
        """See `judge_gap`."""
        return judge_gap(self.gap)


def judge_gap(gap: Interval) -> str:
    """Say "over-sharp" or "over-flat" where the interval excludes 0, else "not told apart".

    >>> judge_gap(Interval(-0.2, -0.3, -0.1, 12))
    'over-sharp'
    """
    if not gap.excludes_zero:
        return "not told apart"
    return "over-sharp" if gap.mean < 0 else "over-flat"


def measure_law_gap(
    readings: Sequence[ReadingMeasure], provenance: Provenance, group: str = "all", *, draws: int = DRAWS, seed: int = 0
) -> EntropyGap:
    """Mean entropy gap to the known law; the interval resamples instruments, whose digits belong together.

    Args:
        readings: as `delcore.evaluate.measure_readings` returns them.
        provenance: of the model.
        group: "all", "integer" for places at or above 0, "decimal" for those below.
        draws: bootstrap resamples.
        seed: of the draws.

    Raises:
        InputError: an unknown group, or one without a reading.
    """
    if group not in LAW_GROUPS:
        raise InputError(f"`group` must be one of {', '.join(LAW_GROUPS)}; got {group!r}.")
    chosen = [r for r in readings if group == "all" or (r.place < 0) == (group == "decimal")]
    if not chosen:
        raise InputError(f"`readings` hold no digit of the group {group!r}.")
    instrument: NDArray[np.int64] = np.unique([r.prompt for r in chosen], return_inverse=True)[1]
    gaps = [r.entropy_nats - r.law_entropy_nats for r in chosen]
    sums, counts = (np.bincount(instrument, column).astype(np.float64) for column in (gaps, np.ones(len(gaps))))
    found = bootstrap_ratio((sums, counts), draws=draws, seed=seed)
    return EntropyGap("the known law", group, dataclasses.replace(found, count=len(chosen)), provenance)


def measure_gap_by(
    predictions: DigitPredictions,
    reference: DigitPredictions,
    by: str = "all",
    *,
    measure: str = "entropy_nats",
    draws: int = DRAWS,
    seed: int = 0,
) -> Measured:
    """The difference of two models on the same digits, paired, by group.

    Args:
        predictions: of the model that is judged.
        reference: of the other one, such as the MLE model, on the same samples.
        by: as in `measure_digits_by`.
        measure: key of `delcore.analysis.MEASURES`.
        draws: bootstrap resamples.
        seed: of the draws.

    Raises:
        InputError: the two were not measured on the same digits.
    """
    same = len(predictions) == len(reference) and all(
        np.array_equal(getattr(predictions, name), getattr(reference, name)) for name in ("digit", "place", "sample")
    )
    if not same:
        raise InputError("`reference` must be measured on the same samples as `predictions`, with the same digits.")
    found = check_measure(measure)
    ours, theirs = found.of(predictions), found.of(reference)
    groups = group_digits(predictions, by)
    intervals = [
        bootstrap_groups(predictions, ours, member, theirs, draws=draws, seed=seed) for member in groups.values()
    ]
    name = f"{found.title} less that of {reference.provenance.model or 'the reference'}"
    measured = measured_intervals(name, found.unit, by, groups, intervals, predictions)
    return dataclasses.replace(measured, is_difference=True)

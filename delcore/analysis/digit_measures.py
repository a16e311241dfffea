"""Means over digits, by place, true digit or kind of span, with bootstrap intervals; and the 10×10 confusion."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delcore.analysis.predictions import SPAN_KINDS, DigitPredictions
from delcore.analysis.ranks import true_digit_ranks
from delcore.analysis.results import Axis, Measured
from delcore.errors import InputError
from delcore.intervals import Interval, Ratio, bootstrap_ratio

DRAWS = 2000
GROUPS = ("all", "place", "digit", "kind")


@dataclass(frozen=True)
class DigitMeasure:
    """Something that can be said of each digit.

    Args:
        title: in words.
        unit: "" for a share.
        of: from predictions to a value per digit, [digits].
    """

    title: str
    unit: str
    of: Callable[[DigitPredictions], NDArray[np.float64]]


def entropies_nats(predictions: DigitPredictions) -> NDArray[np.float64]:
    """Entropy of each p̂, from 0 to ln 10; a probability of 0 adds nothing."""
    p = predictions.probabilities
    return -(p * np.log(np.where(p > 0, p, 1.0))).sum(-1)


def _true_probabilities(predictions: DigitPredictions) -> NDArray[np.float64]:
    return np.take_along_axis(predictions.probabilities, predictions.digit[:, None], -1)[:, 0]


def _offsets(predictions: DigitPredictions) -> NDArray[np.int64]:
    """|k − c| of each class, [digits, 10]."""
    return np.abs(np.arange(10) - predictions.digit[:, None])


def _distance(predictions: DigitPredictions) -> NDArray[np.float64]:
    return np.abs(predictions.probabilities @ np.arange(10) - predictions.digit)


MEASURES: Mapping[str, DigitMeasure] = MappingProxyType(
    {
        "entropy_nats": DigitMeasure("digit entropy", "nats", entropies_nats),
        "accuracy": DigitMeasure(
            "digit accuracy", "", lambda p: (p.probabilities.argmax(-1) == p.digit).astype(np.float64)
        ),
        "true_probability": DigitMeasure("probability of the true digit", "", _true_probabilities),
        "rank": DigitMeasure("rank of the true digit, from 1 to 10", "", true_digit_ranks),
        "mass": DigitMeasure("digit mass", "", lambda p: p.mass),
        "neighbour_mass": DigitMeasure(
            "probability of the two neighbours", "", lambda p: (p.probabilities * (_offsets(p) == 1)).sum(-1)
        ),
        "distance": DigitMeasure("numeric distance |E[k] − c|", "digits", _distance),
    }
)
"""What `measure_digits_by` can average; all are means over digits."""


def measure_digits_by(
    predictions: DigitPredictions, measure: str, by: str = "place", *, draws: int = DRAWS, seed: int = 0
) -> Measured:
    """The mean of one measure in each group of digits, with intervals from resampled texts.

    Args:
        predictions: of one model.
        measure: key of `MEASURES`.
        by: "place", "digit" (the true one), "kind" of span, or "all" for one group.
        draws: bootstrap resamples.
        seed: of the draws.

    Raises:
        InputError: an unknown measure or group.
    """
    found = check_measure(measure)
    values = found.of(predictions)
    groups = group_digits(predictions, by)
    intervals = [bootstrap_groups(predictions, values, member, draws=draws, seed=seed) for member in groups.values()]
    return measured_intervals(found.title, found.unit, by, groups, intervals, predictions)


def measure_offsets(predictions: DigitPredictions) -> Measured:
    """Mean probability at each distance |k − c| from the true digit; the ten values sum to 1.

    Distance 0 is the true digit, 1 both neighbours together. Far distances exist for few true digits only.
    """
    offsets = _offsets(predictions)
    values = [(predictions.probabilities * (offsets == d)).sum(-1).mean() for d in range(10)]
    counts = [int((offsets == d).any(-1).sum()) for d in range(10)]
    axis = Axis("distance from the true digit", "digits", tuple(range(10)))
    return Measured("mean probability", "", (axis,), np.array(values), np.array(counts), predictions.provenance)


def measure_confusion(predictions: DigitPredictions, *, place: int | None = None, hard: bool = False) -> Measured:
    """What was expected where each digit was right: a row per true digit, which sums to 1.

    Args:
        predictions: of one model.
        place: only digits of this place; None for all.
        hard: share of digits whose most probable digit is k, in place of the mean p̂.

    Raises:
        InputError: no digit of that place.
    """
    rows = np.ones(len(predictions), bool) if place is None else predictions.place == place
    if not rows.any():
        known = ", ".join(map(str, sorted(set(predictions.place.tolist()))))
        raise InputError(f"`place` {place} does not occur in these predictions; there are {known}.")
    p, true = predictions.probabilities[rows], predictions.digit[rows]
    p = np.eye(10)[p.argmax(-1)] if hard else p
    counts = np.bincount(true, minlength=10)
    sums = np.zeros((10, 10))
    np.add.at(sums, true, p)
    with np.errstate(invalid="ignore"):
        values = sums / np.where(counts, counts, np.nan)[:, None]
    digits = tuple(range(10))
    axes = (Axis("true digit", "", digits), Axis("predicted digit", "", digits))
    name = "share of predictions" if hard else "mean probability"
    return Measured(name, "", axes, values, np.repeat(counts[:, None], 10, 1), predictions.provenance)


# ---------------------------------------------------------------- parts


def check_measure(measure: str) -> DigitMeasure:
    """Look a measure up, or say which there are."""
    if measure not in MEASURES:
        raise InputError(f"`measure` must be one of {', '.join(MEASURES)}; got {measure!r}.")
    return MEASURES[measure]


def group_digits(predictions: DigitPredictions, by: str) -> dict[Any, NDArray[np.bool_]]:
    """The groups that occur, and which digits belong to each; places run from the highest down.

    Raises:
        InputError: an unknown grouping.
    """
    if by not in GROUPS:
        raise InputError(f"`by` must be one of {', '.join(GROUPS)}; got {by!r}.")
    if by == "all":
        return {"all": np.ones(len(predictions), bool)}
    column = getattr(predictions, by)
    present = set(column.tolist())
    order = [kind for kind in SPAN_KINDS if kind in present] if by == "kind" else sorted(present, reverse=by == "place")
    return {value: column == value for value in order}


def bootstrap_groups(
    predictions: DigitPredictions,
    values: NDArray[np.float64],
    member: NDArray[np.bool_],
    reference: NDArray[np.float64] | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Interval:
    """Mean of the members' values, or of their paired difference to a reference, over resampled texts.

    A group that comes from one text alone has no interval. `count` is that of digits.
    """
    sample: NDArray[np.int64] = np.unique(predictions.sample[member], return_inverse=True)[1]
    counts: NDArray[np.float64] = np.bincount(sample).astype(np.float64)

    def ratio(column: NDArray[np.float64]) -> Ratio:
        sums: NDArray[np.float64] = np.bincount(sample, column[member]).astype(np.float64)
        return sums, counts

    other = None if reference is None else ratio(reference)
    found = bootstrap_ratio(ratio(values), other, draws=draws, seed=seed)
    return dataclasses.replace(found, count=int(member.sum()))


def measured_intervals(
    name: str,
    unit: str,
    by: str,
    groups: Mapping[Any, Any],
    intervals: list[Interval],
    predictions: DigitPredictions,
    caveats: tuple[str, ...] = (),
) -> Measured:
    """Intervals of some groups as one result."""

    def ends(field: str) -> NDArray[np.float64]:
        return np.array([np.nan if (end := getattr(one, field)) is None else end for one in intervals])

    title = {"digit": "true digit", "kind": "kind of span"}.get(by, by)
    return Measured(
        name,
        unit,
        (Axis(title, "", tuple(groups)),),
        np.array([one.mean for one in intervals]),
        np.array([one.count for one in intervals]),
        predictions.provenance,
        ends("low"),
        ends("high"),
        caveats,
    )

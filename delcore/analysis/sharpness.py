"""Sharper or flatter than a reference, at any temperature; plain Python, so that a page opens without torch."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from delcore.analysis.records import entropy_nats
from delcore.errors import InputError

CLOSE_NATS = 0.02
"""Entropies that differ by no more are told as equal."""


@dataclass(frozen=True)
class Sharpness:
    """Ten digit probabilities against a reference.

    Args:
        entropy_nats: of the probabilities, from 0 to ln 10.
        gap_nats: that entropy less the reference's; below 0 is sharper.
        kl_nats: KL(reference ‖ probabilities), 0 or above, infinite where a possible digit has no probability.
        verdict: "sharper", "flatter", or "alike" where the gap is at most `CLOSE_NATS`.
    """

    entropy_nats: float
    gap_nats: float
    kl_nats: float
    verdict: str


def measure_sharpness(probabilities: Sequence[float], reference: Sequence[float]) -> Sharpness:
    """Compare two distributions over the ten digits.

    Raises:
        InputError: one of them is no distribution.
    """
    p, r = _checked("probabilities", probabilities), _checked("reference", reference)
    entropy = entropy_nats(p)
    gap = entropy - entropy_nats(r)
    kl = sum(b * math.log(b / a) if a > 0 else math.inf for a, b in zip(p, r, strict=True) if b > 0)
    verdict = "alike" if abs(gap) <= CLOSE_NATS else "sharper" if gap < 0 else "flatter"
    return Sharpness(entropy, gap, max(kl, 0.0), verdict)


def temper_law(law: Sequence[float], temperature: float) -> tuple[float, ...]:
    """A family around one law: p^(1/T), normalised. T below 1 sharpens, above 1 flattens.

    The largest logarithm is taken off first, so that neither a small T nor a tiny probability overflows.

    Raises:
        InputError: no distribution, or a temperature that is not above 0.

    >>> [round(p, 3) for p in temper_law((0.2, 0.8, *(0.0,) * 8), 0.5)[:2]]
    [0.059, 0.941]
    """
    if not 0 < temperature < math.inf:
        raise InputError(f"`temperature` must be above 0; got {temperature!r}.")
    logs = [math.log(p) if p > 0 else -math.inf for p in _checked("law", law)]
    top = max(logs)
    weights = [math.exp((log - top) / temperature) for log in logs]
    total = sum(weights)
    return tuple(weight / total for weight in weights)


def sample_digits(probabilities: Sequence[float], count: int, seed: int = 0) -> tuple[int, ...]:
    """Digits drawn independently; the same seed draws the same ones."""
    weights = _checked("probabilities", probabilities)
    return tuple(random.Random(seed).choices(range(10), weights, k=count))  # noqa: S311 - not a secret


def _checked(argument: str, given: Sequence[float]) -> tuple[float, ...]:
    values = tuple(float(p) for p in given)
    if len(values) != 10 or not all(p >= 0 for p in values) or abs(sum(values) - 1) > 1e-6:
        raise InputError(f"`{argument}` must be ten probabilities that sum to 1; got {list(values)}.")
    total = sum(values)
    return tuple(p / total for p in values)

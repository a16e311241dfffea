"""Rules of the claims that take training: 1 to 5, 7 and 8. Each says what holds, and gives the numbers.

1, 2: at either strength the loss's digit entropy on readings of a known law lies to the claimed side of the law's and
   of plain likelihood's under the same seeds, and so on SmolLM2. NTL-MSE is unbiased if its entropy's difference to
   plain likelihood is negligible.
3: DEL's entropy moves less from plain likelihood's than NTL-WAS's and DIST2Loss's, whichever way, by seed.
4: DEL's exact match is above all others' (agrees), or below one of them (differs); all intervals of a strength
   hold together.
   Here, in 7 and in 8 exact match is judged on integers and on decimals apart, and not where every run of the study
   answers every problem: at that ceiling nothing can be told apart.
5: DEL's |E[k] − c| is below plain likelihood's, on integers, on decimals and on SmolLM2. The errors of SmolLM2's final
   answers were measured later; they stand beside the verdict.
7: with the distance term exact match is lower and the readings are farther from their law.
8: the place weights of `decimal` answer more exactly and come nearer the law than those of `none` and `integer`, and
   gain more exact match on decimals than on integers. Where decimals are at the ceiling that gain is not judged: it
   would be that on integers with its sign turned.

What stands beside a verdict is in `trained_context`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from delcore._panels import look_of
from delcore.intervals import Interval, format_signed
from delcore.losses import LOSSES
from delcore.studies.evidence import (
    Evidence,
    Part,
    Runs,
    all_signs,
    change,
    difference,
    interval_text,
    interval_texts,
    negligible,
    runs_of,
    sample,
    sizes_of_change,
    value_of,
)
from delcore.studies.stored import SOLVED

GAP = "gap_nats"
LAWFUL = ["readings"]
STRENGTHS = {"default": "", "matched": "-matched"}
"""Strength to the ending of a variant's name; what others are matched to keeps its own."""


def sharpens(evidence: Evidence) -> list[Part]:
    """1: NTL-WAS over-sharpens, NTL-MSE does not."""
    parts = _biases(evidence, "ntl_was", -1)
    for strength, ending in STRENGTHS.items():
        moved = change(runs_of(evidence, "losses"), f"ntl_mse{ending}", LAWFUL, GAP)
        text = f"NTL-MSE against MLE, {_strength(evidence, f'ntl_mse{ending}', strength)}: {interval_text(moved)}"
        parts.append(Part(text, negligible(moved), sample(moved, "nats")))
    return parts


def flattens(evidence: Evidence) -> list[Part]:
    """2: DIST2Loss over-flattens."""
    return _biases(evidence, "dist2", 1)


def _biases(evidence: Evidence, loss: str, side: int) -> list[Part]:
    runs, title = runs_of(evidence, "losses"), look_of(loss).title
    parts = []
    for strength, ending in STRENGTHS.items():
        gap, moved = _gap(runs, loss + ending), change(runs, loss + ending, LAWFUL, GAP)
        text = f"{title}, {_strength(evidence, loss + ending, strength)}: entropy less the law's {interval_text(gap)}"
        text += f", less MLE's {interval_text(moved)}"
        parts.append(Part(text, all_signs([gap, moved], side), sample(moved, "nats")))
    moved = on_smollm2(evidence, loss, "entropy_nats")
    text = f"{title} on SmolLM2, default: less MLE's {interval_text(moved)}"
    return [*parts, Part(text, all_signs([moved], side), sample(moved, "nats", "answers"))]


def moves_gently(evidence: Evidence) -> list[Part]:
    """3: DEL moves entropy less than the losses with a distance."""
    runs, parts = runs_of(evidence, "losses"), []
    own = sizes_of_change(runs, "del", LAWFUL[0], GAP)
    for strength, ending in STRENGTHS.items():
        for other in ("ntl_was", "dist2"):
            less = difference(own, sizes_of_change(runs, other + ending, LAWFUL[0], GAP))
            text = (
                f"size of DEL's change less {look_of(other).title}'s, {_strength(evidence, other + ending, strength)}"
            )
            parts.append(Part(f"{text}: {interval_text(less)}", all_signs([less], -1), sample(less, "nats")))
    ours = on_smollm2(evidence, "del", "entropy_nats")
    for other in ("ntl_was", "dist2"):
        theirs = on_smollm2(evidence, other, "entropy_nats")
        text = f"SmolLM2, default: DEL {interval_text(ours)}, {look_of(other).title} {interval_text(theirs)}"
        parts.append(Part(text, smaller_size(ours, theirs), sample(ours, "nats", "answers")))
    return parts


def smaller_size(first: Interval, second: Interval) -> bool | None:
    """Whether |first| is below |second| for all values within both intervals; False if above, None if they overlap."""
    (low, high), (other_low, other_high) = _sizes(first), _sizes(second)
    if high < other_low:
        return True
    return False if low > other_high else None


def _sizes(interval: Interval) -> tuple[float, float]:
    low = interval.mean if interval.low is None else interval.low
    high = interval.mean if interval.high is None else interval.high
    return (0.0 if low < 0 < high else min(abs(low), abs(high))), max(abs(low), abs(high))


def answers_best(evidence: Evidence) -> list[Part]:
    """4: no other loss answers as many problems exactly."""
    runs = runs_of(evidence, "losses")
    default = [name for name in runs if name in LOSSES and name != "del"]
    matched = [name for name in runs if name.endswith("-matched")]
    return [*_best(runs, default, "default"), *_best(runs, matched, "matched")]


def _best(runs: Runs, others: Sequence[str], strength: str) -> list[Part]:
    groups, parts = judged_groups(runs), []
    for group in groups:
        own = value_of(runs, "del", [group], "exact_match")
        theirs = [value_of(runs, other, [group], "exact_match") for other in others]
        found = [difference(own, one, comparisons=len(others) * len(groups)) for one in theirs]
        listed = zip(others, interval_texts(found), strict=True)
        text = ", ".join(f"{_title(other)} {one}" for other, one in listed)
        text = f"exact match on {group} of DEL less that of, {strength}: {text}"
        parts.append(Part(text, all_signs(found, 1), sample(found[0]), brief=_spread(found, group, strength)))
    return parts


def _spread(found: Sequence[Interval], group: str, strength: str) -> str:
    """All comparisons of one strength in few words."""
    ends = " to ".join(format_signed(end([one.mean for one in found])) for end in (min, max))
    apart = sum(one.excludes_zero for one in found)
    count = f"{apart} of {len(found)} separated" if apart else "none separated"
    return f"exact match on {group} of DEL less that of {len(found)} others, {strength}: means {ends}, {count}"


def below_the_ceiling(runs: Runs) -> list[str]:
    """Groups of problems that some run does not answer in full."""
    shares = {
        group: [one for name in runs for one in value_of(runs, name, [group], "exact_match").values()]
        for group in SOLVED
    }
    return [group for group in SOLVED if min(shares[group]) < 1]


def judged_groups(runs: Runs) -> list[str]:
    """Groups of problems that exact match is judged on: those below the ceiling, or all where none is."""
    return below_the_ceiling(runs) or list(SOLVED)


def lowers_distance(evidence: Evidence) -> list[Part]:
    """5: DEL's expected digit is nearer to the true one."""
    runs = runs_of(evidence, "losses")
    found = {group: change(runs, "del", [group], "distance") for group in SOLVED}
    found["SmolLM2"] = on_smollm2(evidence, "del", "expected_digit_error")
    texts = interval_texts([*found.values()])
    of_what = {"SmolLM2": "answers"}
    return [
        Part(
            f"abs(E[k] − c) less MLE's, {group}: {text}",
            all_signs([moved], -1),
            sample(moved, "digits", of_what.get(group, "seeds")),
        )
        for (group, moved), text in zip(found.items(), texts, strict=True)
    ]


def hurt_by_distance(evidence: Evidence) -> list[Part]:
    """7: the distance term makes DEL worse."""
    runs = runs_of(evidence, "ablations")
    far = _against(runs, "del-distance-l1", "del", LAWFUL, "kl_nats")
    return [
        *_exact_parts(runs, "del-distance-l1", "del", "with less without", -1),
        Part(f"KL to the readings' law with less without: {interval_text(far)} nats", all_signs([far], 1), sample(far)),
    ]


def helped_by_places(evidence: Evidence) -> list[Part]:
    """8: DEL's own place weights are better than none or those of integers, most so for decimals."""
    runs, parts = runs_of(evidence, "ablations"), []
    for rule in ("none", "integer"):
        other, against = f"del-place-{rule}", f"against rule {rule}"
        nearer = _against(runs, "del", other, LAWFUL, "kl_nats")
        text = f"KL to the readings' law {against}: {interval_text(nearer)} nats"
        parts += [*_exact_parts(runs, "del", other, against, 1), Part(text, all_signs([nearer], -1), sample(nearer))]
        if "decimals" in below_the_ceiling(runs):
            parts.append(_most_on_decimals(runs, other, against))
    return parts


def _most_on_decimals(runs: Runs, other: str, against: str) -> Part:
    more = difference(_gain(runs, other, "decimals"), _gain(runs, other, "integers"))
    text = f"gain on decimals less that on integers {against}: {interval_text(more)}"
    return Part(text, all_signs([more], 1), sample(more))


def _gain(runs: Runs, other: str, group: str) -> dict[int, float]:
    theirs = value_of(runs, other, [group], "exact_match")
    return {seed: value - theirs[seed] for seed, value in value_of(runs, "del", [group], "exact_match").items()}


# ---------------------------------------------------------------- parts


def _gap(runs: Runs, variant: str) -> Interval:
    own = value_of(runs, variant, LAWFUL, GAP)
    return difference(own, dict.fromkeys(own, 0.0))


def _exact_parts(runs: Runs, first: str, second: str, words: str, side: int) -> list[Part]:
    """Exact match of two variants, on each group of problems that has room for a difference."""
    groups = judged_groups(runs)
    found = [_against(runs, first, second, [group], "exact_match") for group in groups]
    rows = zip(groups, found, interval_texts(found), strict=True)
    return [
        Part(f"exact match on {group} {words}: {text}", all_signs([one], side), sample(one))
        for group, one, text in rows
    ]


def _against(runs: Runs, first: str, second: str, groups: Sequence[str], measure: str) -> Interval:
    return difference(value_of(runs, first, groups, measure), value_of(runs, second, groups, measure))


def _strength(evidence: Evidence, variant: str, strength: str) -> str:
    """α and u of a variant: "default (α 0.3, u 1)"."""
    found: Mapping[str, Any] = next(one for one in evidence.studies["losses"]["variants"] if one["name"] == variant)
    alpha = LOSSES[found["loss"]].alpha if found["alpha"] is None else found["alpha"]
    return f"{strength} (α {alpha:.3g}, u 1)"


def on_smollm2(evidence: Evidence, loss: str, measure: str) -> Interval:
    """A measure of a loss's digits less plain likelihood's."""
    return Interval(**evidence.studies["smollm2"]["digits"][loss][measure]["difference_to_mle"])


def _title(variant: str) -> str:
    return look_of(variant.removesuffix("-matched")).title

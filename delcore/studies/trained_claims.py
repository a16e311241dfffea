"""Rules of the claims that take training: 1 to 5, 7 and 8. Each says what holds, and gives the numbers.

1, 2: at either strength the loss's digit entropy on readings of a known law lies to the claimed side of the law's and
   of plain likelihood's under the same seeds, and so on SmolLM2. NTL-MSE is unbiased if its entropy's difference to
   plain likelihood is negligible.
3: DEL's entropy moves less from plain likelihood's than NTL-WAS's and DIST2Loss's, whichever way, by seed.
4: DEL's exact match is above all others' (agrees), or below one of them (differs); all intervals of a strength
   hold together.
5: DEL's |E[k] − c| is below plain likelihood's, on integers, on decimals and on SmolLM2.
7: with the distance term exact match is lower and the readings are farther from their law.
8: the place weights of `decimal` answer more exactly and come nearer the law than those of `none` and `integer`, and
   gain more exact match on decimals than on integers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from delcore._panels import look_of
from delcore.intervals import Interval
from delcore.losses import LOSSES
from delcore.studies.evidence import (
    Evidence,
    Part,
    Runs,
    all_signs,
    budget,
    change,
    difference,
    interval_text,
    negligible,
    runs_of,
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
        strong = _strength(evidence, f"ntl_mse{ending}", strength)
        parts.append(Part(f"NTL-MSE against MLE, {strong}: {interval_text(moved)}", negligible(moved)))
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
        parts.append(Part(f"{text}, less MLE's {interval_text(moved)}", all_signs([gap, moved], side)))
    moved = _smollm2(evidence, loss, "entropy_nats")
    return [*parts, Part(f"{title} on SmolLM2, default: less MLE's {interval_text(moved)}", all_signs([moved], side))]


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
            parts.append(Part(f"{text}: {interval_text(less)}", all_signs([less], -1)))
    ours = _smollm2(evidence, "del", "entropy_nats")
    for other in ("ntl_was", "dist2"):
        theirs = _smollm2(evidence, other, "entropy_nats")
        text = f"SmolLM2, default: DEL {interval_text(ours)}, {look_of(other).title} {interval_text(theirs)}"
        parts.append(Part(text, smaller_size(ours, theirs)))
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
    return [_best(runs, default, "default"), _best(runs, matched, "matched")]


def _best(runs: Runs, others: Sequence[str], strength: str) -> Part:
    own = value_of(runs, "del", SOLVED, "exact_match")
    found = {
        other: difference(own, value_of(runs, other, SOLVED, "exact_match"), comparisons=len(others))
        for other in others
    }
    listed = ", ".join(f"{_title(other)} {interval_text(one)}" for other, one in found.items())
    return Part(f"exact match of DEL less that of, {strength}: {listed}", all_signs(found.values(), 1))


def lowers_distance(evidence: Evidence) -> list[Part]:
    """5: DEL's expected digit is nearer to the true one."""
    runs = runs_of(evidence, "losses")
    found = {group: change(runs, "del", [group], "distance") for group in SOLVED}
    found["SmolLM2"] = _smollm2(evidence, "del", "expected_digit_error")
    return [
        Part(f"abs(E[k] − c) less MLE's, {group}: {interval_text(moved)}", all_signs([moved], -1))
        for group, moved in found.items()
    ]


def hurt_by_distance(evidence: Evidence) -> list[Part]:
    """7: the distance term makes DEL worse."""
    runs = runs_of(evidence, "ablations")
    exact = _against(runs, "del-distance-l1", "del", SOLVED, "exact_match")
    far = _against(runs, "del-distance-l1", "del", LAWFUL, "kl_nats")
    return [
        Part(f"exact match with less without: {interval_text(exact)}", all_signs([exact], -1)),
        Part(f"KL to the readings' law with less without: {interval_text(far)} nats", all_signs([far], 1)),
    ]


def helped_by_places(evidence: Evidence) -> list[Part]:
    """8: DEL's own place weights are better than none or those of integers, most so for decimals."""
    runs, parts = runs_of(evidence, "ablations"), []
    for rule in ("none", "integer"):
        other = f"del-place-{rule}"
        exact = _against(runs, "del", other, SOLVED, "exact_match")
        nearer = _against(runs, "del", other, LAWFUL, "kl_nats")
        gains = [_gain(runs, other, group) for group in reversed(SOLVED)]
        more = difference(*gains)
        against = f"against rule {rule}"
        parts += [
            Part(f"exact match {against}: {interval_text(exact)}", all_signs([exact], 1)),
            Part(f"KL to the readings' law {against}: {interval_text(nearer)} nats", all_signs([nearer], -1)),
            Part(f"gain on decimals less that on integers {against}: {interval_text(more)}", all_signs([more], 1)),
        ]
    return parts


def _gain(runs: Runs, other: str, group: str) -> dict[int, float]:
    theirs = value_of(runs, other, [group], "exact_match")
    return {seed: value - theirs[seed] for seed, value in value_of(runs, "del", [group], "exact_match").items()}


# ---------------------------------------------------------------- what stands beside a verdict


def beside_bias(evidence: Evidence) -> str:
    """MixCE and EMO, which have no α, and the budget."""
    runs = runs_of(evidence, "losses")
    moved = [f"{look_of(name).title} {interval_text(change(runs, name, LAWFUL, GAP))}" for name in ("mixce", "emo")]
    return f"beside, less MLE's: {', '.join(moved)} [nats; {_budgets(evidence)}]"


def beside_gentle(evidence: Evidence) -> str:
    """DEL's own changes by place, then as `beside_bias`."""
    groups = {"before the point (α 0.1, u 2, 4, 6)": "reading integers", "behind it (u 0.96, 0.94)": "reading decimals"}
    own = [
        f"{where} {interval_text(change(runs_of(evidence, 'losses'), 'del', [group], GAP))}"
        for where, group in groups.items()
    ]
    return f"DEL's change {', '.join(own)}; {beside_bias(evidence)}"


def beside_accuracy(evidence: Evidence) -> str:
    """The shares themselves, SmolLM2's answers, and the budget."""
    runs = runs_of(evidence, "losses")
    right = Interval(**evidence.studies["smollm2"]["answers"]["gsm8k"]["del"]["change_to_mle"]["difference"])
    return (
        f"DEL answers exactly: {_exact_shares(runs)}; on GSM8K SmolLM2 under DEL less under MLE {interval_text(right)} "
        f"[at our scale only; {_budgets(evidence)}]"
    )


def _exact_shares(runs: Runs) -> str:
    """How many of each group DEL answers exactly, as a mean over seeds."""
    own = {group: value_of(runs, "del", [group], "exact_match") for group in SOLVED}
    return ", ".join(f"{group} {sum(values.values()) / len(values):.3f}" for group, values in own.items())


def beside_distance(evidence: Evidence) -> str:
    """NTL-WAS, which has the distance in it, and the budget."""
    runs = runs_of(evidence, "losses")
    theirs = ", ".join(f"{group} {interval_text(change(runs, 'ntl_was', [group], 'distance'))}" for group in SOLVED)
    return f"beside, NTL-WAS: {theirs} [digits; at our scale only; α 0.1; {_budgets(evidence)}]"


def beside_ablations(evidence: Evidence) -> str:
    """How much exact match there is to win, how hard each variant pulls, and the budget."""
    study, runs = evidence.studies["ablations"], runs_of(evidence, "ablations")
    names = ("del", "del-distance-l1", "del-place-none", "del-place-integer")
    pulls = {one["name"]: one["pull"] for one in study["variants"]}
    pulled = ", ".join(f"{name} {pulls[name]:.3g}" for name in names)
    own = f"exact match of DEL: {_exact_shares(runs)}"
    return f"{own}; strengths not matched, pull at the base: {pulled} [{budget(study)}]"


# ---------------------------------------------------------------- parts


def _gap(runs: Runs, variant: str) -> Interval:
    own = value_of(runs, variant, LAWFUL, GAP)
    return difference(own, dict.fromkeys(own, 0.0))


def _against(runs: Runs, first: str, second: str, groups: Sequence[str], measure: str) -> Interval:
    return difference(value_of(runs, first, groups, measure), value_of(runs, second, groups, measure))


def _strength(evidence: Evidence, variant: str, strength: str) -> str:
    """α and u of a variant: "default (α 0.3, u 1)"."""
    found: Mapping[str, Any] = next(one for one in evidence.studies["losses"]["variants"] if one["name"] == variant)
    alpha = LOSSES[found["loss"]].alpha if found["alpha"] is None else found["alpha"]
    return f"{strength} (α {alpha:.3g}, u 1)"


def _smollm2(evidence: Evidence, loss: str, measure: str) -> Interval:
    return Interval(**evidence.studies["smollm2"]["digits"][loss][measure]["difference_to_mle"])


def _title(variant: str) -> str:
    return look_of(variant.removesuffix("-matched")).title


def _budgets(evidence: Evidence) -> str:
    smollm2 = evidence.studies["smollm2"]
    settings = smollm2["run"]["settings"]
    return (
        f"{budget(evidence.studies['losses'])}; SmolLM2-135M one seed, {settings['steps']} steps of "
        f"{settings['batch_size']}, interval over {smollm2['items']} answers"
    )

"""Exercises 7 and 8: where losses lead, and what intervals say."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from delcore.analysis import entropy_nats
from delcore.arithmetic import DESIGN_LAW
from delcore.equilibria import equilibrium
from delcore.exercises.checks import Check, check_choices
from delcore.intervals import Interval, format_signed
from delcore.studies.stored import read_study

BIASES = ("over-sharp", "over-flat", "neither")
EQUAL_NATS = 0.001
JUDGED = ("ntl_was", "ntl_mse", "dist2", "mixce", "del")

BIAS_HINTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "ntl_was": {
            "over-flat": "Its expected distance is smallest with all probability on one digit, the median.",
            "neither": "Σ |k − c| p̂ is linear in p̂, so it pulls towards a single digit, the law's median.",
        },
        "ntl_mse": {
            "over-sharp": "Only the mean E[k] enters (E[k] − c)², and the law itself has the right mean.",
            "over-flat": "Only the mean E[k] enters (E[k] − c)², and the law itself has the right mean.",
        },
        "dist2": {
            "over-sharp": "Its target gives the neighbours of the true digit a share, which spreads p̂.",
            "neither": "Even where the label is sure, its target is not: the neighbours get a share.",
        },
        "mixce": {
            "over-flat": "It weighs a label by the model's own q: what is likely already gets more likely.",
            "neither": "It weighs a label by the model's own q, so rare digits are learned too little.",
        },
        "del": {
            "over-sharp": "p̂ · BCE costs most at digits that are likely and wrong, so it takes from the peak.",
            "neither": "Look closer: at u = 1 it is a little flatter than the law, and more so at larger u.",
        },
    }
)

SEPARATIONS = ("higher", "lower", "not separated", "equal")
READ = (("ntl_was", "entropy_nats"), ("ntl_was", "accuracy"), ("del", "accuracy"))
ANSWERED = "del, gsm8k answers"


def check_biases(answers: Any) -> Check:
    """Exercise 7: where five losses lead on the law of sensor B, at default α and u = 1."""
    gaps = {name: equilibrium(name, DESIGN_LAW).entropy_nats - entropy_nats(DESIGN_LAW) for name in JUDGED}
    why = (
        "Entropy at the equilibrium less the law's: "
        + ", ".join(f"{name} {format_signed(gap)}" for name, gap in gaps.items())
        + "."
    )
    return check_choices(
        answers,
        {name: _bias(gap) for name, gap in gaps.items()},
        BIASES,
        lambda name, given: BIAS_HINTS[name][given],
        why,
    )


def _bias(gap: float) -> str:
    if abs(gap) < EQUAL_NATS:
        return "neither"
    return "over-sharp" if gap < 0 else "over-flat"


def stored_readings() -> dict[str, Interval]:
    """Exercise 8: four differences to plain likelihood, measured on SmolLM2-135M."""
    study = read_study("smollm2")
    found = {f"{loss}, {measure}": study["digits"][loss][measure]["difference_to_mle"] for loss, measure in READ}
    found[ANSWERED] = study["answers"]["gsm8k"]["del"]["change_to_mle"]["difference"]
    return {name: Interval(**one) for name, one in found.items()}


def check_readings(answers: Any) -> Check:
    """Exercise 8: which differences are more than noise."""
    readings = stored_readings()
    right = {name: _separation(one) for name, one in readings.items()}
    why = "A difference counts where its whole interval lies on one side of 0; where it holds 0, no order is claimed."
    return check_choices(answers, right, SEPARATIONS, lambda name, given: _reading_hint(readings[name], given), why)


def _separation(interval: Interval) -> str:
    if not interval.excludes_zero:
        return "not separated"
    return "higher" if interval.mean > 0 else "lower"


def _reading_hint(interval: Interval, given: str) -> str:
    ends = f"from {' to '.join(format_signed(end) for end in (interval.low, interval.high) if end is not None)}"
    if given == "equal":
        return f"No interval shows that two losses are equal; this one runs {ends}; the truth may be anywhere there."
    if interval.excludes_zero and given == "not separated":
        return f"The interval runs {ends}: both ends lie on one side of 0, so the sign is not noise."
    if interval.excludes_zero:
        return f"Look at the sign: the interval runs {ends}, and the difference is taken less plain likelihood."
    return f"The mean has a sign, but the interval runs {ends} and holds 0: other answers could turn it round."

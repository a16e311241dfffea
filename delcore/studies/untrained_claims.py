"""Rules of the claims that take no training: 6 from stored similarities, 9 and 10 computed on the spot.

6: in each headline of SmolLM2 (input embedding; last layer in number and in symbol contexts) two readings of the claim
   are asked: is the order not strict (some digit's most similar one is no neighbour), and is similarity unrelated to
   numeric distance? A permutation test below 0.05 speaks against the second; above, it is only told.
9: rule `integer` weighs the first decimal more than the units digit before it, and `decimal` never rises.
10: the gradient that a loss adds to cross-entropy is, or is not, a criterion weighted by some distance, up to rounding.
"""

import functools
import math
from typing import Any

from delcore._panels import look_of
from delcore.analysis import CriterionFits, fit_criteria, measure_place_weights
from delcore.analysis.criteria import CRITERIA, POINTS
from delcore.intervals import format_signed
from delcore.studies.evidence import Evidence, Part

SIGNIFICANT = 0.05
NUMBER = "123.456"
CASES = {"ntl_was": True, "dist2": True, "ntl_mse": False, "mixce": False, "emo": False}
"""Loss to whether the paper has it as a case of criterion × distance."""

PRETRAINED = "SmolLM2"


def similarity_not_strict(evidence: Evidence) -> list[Part]:
    """6: digit similarity does not strictly follow numeric distance."""
    parts = []
    for row in _headlines(evidence, PRETRAINED):
        where = f"{PRETRAINED}, {_place_of(row)}"
        share = f"{where}: most similar digit is a neighbour for {10 * row['neighbour_share']:.0f} of 10"
        related = f"Spearman of cosine with −abs(i − j) {row['spearman']:.2f} (p {row['p_value']:.1g})"
        significant = row["p_value"] < SIGNIFICANT
        told = share if significant else f"{share}; {related}"
        parts.append(Part(told, row["neighbour_share"] < 1, "n = 10 digits"))
        parts += [Part(related, False, "n = 45 pairs")] * significant
    return parts


def beside_similarity(evidence: Evidence) -> str:
    """The embedded base, and how the test was done."""
    own = [f"{_place_of(row)} {row['spearman']:.2f}" for row in _headlines(evidence, "embedded:base")]
    draws = evidence.studies["embeddings"]["permutations"]
    return f"beside, the embedded base: {', '.join(own)} [{draws:,} relabellings; one model of each kind]"


def _headlines(evidence: Evidence, model: str) -> list[dict[str, Any]]:
    rows = evidence.studies["embeddings"]["rows"]
    return [row for row in rows if row["headline"] and row["model"].startswith(model)]


def _place_of(row: dict[str, Any]) -> str:
    return f"{row['kind']} embedding" if row["layer"] is None else f"last layer, {row['context']} contexts"


def places_jump(_: Evidence) -> list[Part]:
    """9: earlier place rules jump at the decimal point; DEL's falls all along a number."""
    found = measure_place_weights(NUMBER)
    jumps = dict(zip(found.rules, found.jumps.tolist(), strict=True))
    falls = dict(zip(found.rules, found.falls.tolist(), strict=True))
    ends = {rule: format_signed(jump, 2) for rule, jump in jumps.items()}
    return [
        Part(
            f"first decimal less units digit of {NUMBER}, rule integer: {ends['integer']}",
            jumps["integer"] > 0,
            "computed",
        ),
        Part(f"rule decimal (DEL): {ends['decimal']}, falls all along", bool(falls["decimal"]), "computed"),
    ]


def beside_places(_: Evidence) -> str:
    """The jumps of the other rules, and DEL's as a ratio."""
    found = measure_place_weights(NUMBER)
    rows = zip(found.rules, found.jumps, found.ratios, strict=True)
    told = [f"{rule} {format_signed(jump, 2)}, {ratio:.2f}" for rule, jump, ratio in rows]
    return f"jump and ratio of every rule: {', '.join(told)} [computed]"


def criterion_times_distance(_: Evidence) -> list[Part]:
    """10: which losses are a criterion weighted by a distance."""
    fits = _fits()
    return [
        Part(
            f"{look_of(loss).title}: {_explained(fits, loss)}",
            (fits.criterion_of(loss) is not None) == is_case,
            f"n = {POINTS} predictions of each digit",
        )
        for loss, is_case in CASES.items()
    ]


@functools.cache
def _fits() -> CriterionFits:
    return fit_criteria(tuple(CASES))


def _explained(fits: CriterionFits, loss: str) -> str:
    criterion = fits.criterion_of(loss)
    if criterion is not None:
        return f"{criterion} explains all of it"
    least = math.floor(100 * fits.residual[fits.losses.index(loss)].min())  # rounded up it would be no lower bound
    return f"every criterion leaves {least}% or more over"


def beside_criteria(_: Evidence) -> str:
    """How it was computed."""
    names = ", ".join(CRITERIA)
    return f"[criteria {names}; least squares on gradients at {POINTS} random predictions of each true digit, float64]"

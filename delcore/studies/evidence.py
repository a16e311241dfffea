"""What the ledger of claims is judged from: stored numbers, paired over seeds, and the rules that join them.

The thresholds were set before the studies `losses`, `ablations` and `alpha` were finished; the numbers of SmolLM2 and
of the embeddings were known. Two rules were changed afterwards, and no verdict with them: exact match was averaged over
integers and decimals, and is now judged on each; the gain on decimals less that on integers is no longer judged where
decimals are at the ceiling.
"""

import csv
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from delcore.errors import InputError
from delcore.fingerprints import fingerprint_file
from delcore.intervals import CONFIDENCE, Interval, format_signed, t_interval

NEGLIGIBLE_NATS = 0.02
"""An entropy is called unchanged where the whole interval of its difference lies within this."""

LOOKS_LIKE_ZERO = 0.0005
"""Below this three decimals are zeros; see `interval_texts`."""

REFERENCE = "mle"
FILES = ("results.json", "runs.csv")

Runs: TypeAlias = Mapping[str, Mapping[int, Mapping[tuple[str, str], float]]]
"""Variant, seed, then group and measure."""


@dataclass(frozen=True)
class Part:
    """One comparison of a claim.

    Args:
        text: the comparison and its numbers.
        holds: what came out as the claim says; None where noise could have done it.
        sample: unit and number of observations; see `sample`.
        brief: the same in fewer words, where the text is a long list.
    """

    text: str
    holds: bool | None
    sample: str
    brief: str = ""


@dataclass(frozen=True)
class Evidence:
    """All stored studies.

    Args:
        studies: name to its results.json.
        runs: name to its runs.csv, for the studies that have one.
        fingerprints: file to its SHA-256.
    """

    studies: Mapping[str, Mapping[str, Any]]
    runs: Mapping[str, Runs]
    fingerprints: Mapping[str, str]


def read_evidence(folder: Path) -> Evidence:
    """Every study in a folder; one that has no results yet is left out.

    Raises:
        InputError: the folder holds no study.
    """
    files = [file for name in FILES for file in sorted(folder.glob(f"*/{name}"))]
    if not files:
        raise InputError(f"There are no studies in {folder}; run those of `python -m delcore.studies --help` first.")
    fingerprints = {f"{file.parent.name}/{file.name}": fingerprint_file(file) for file in files}
    studies = {one.parent.name: json.loads(one.read_text(encoding="utf-8")) for one in files if one.suffix == ".json"}
    return Evidence(studies, {one.parent.name: _read_runs(one) for one in files if one.suffix == ".csv"}, fingerprints)


def _read_runs(file: Path) -> Runs:
    runs: dict[str, dict[int, dict[tuple[str, str], float]]] = {}
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            of_seed = runs.setdefault(row["variant"], {}).setdefault(int(row["seed"]), {})
            of_seed[row["group"], row["measure"]] = float(row["value"])
    return runs


# ---------------------------------------------------------------- numbers, paired over seeds


def runs_of(evidence: Evidence, study: str) -> Runs:
    """Every run of a fine-tuning study.

    Raises:
        InputError: its runs.csv is not there.
    """
    if study not in evidence.runs:
        raise InputError(f"The study {study} has results.json but no runs.csv; run it again.")
    return evidence.runs[study]


def value_of(runs: Runs, variant: str, groups: Sequence[str], measure: str) -> dict[int, float]:
    """Of each seed: the measure, averaged over groups of problems.

    Raises:
        InputError: the study did not train the variant, or did not measure this.
    """
    try:
        return {
            seed: statistics.fmean(values[group, measure] for group in groups) for seed, values in runs[variant].items()
        }
    except KeyError as missing:
        raise InputError(f"runs.csv lacks {variant}, or its {measure} ({missing}); run the study again.") from None


def difference(first: Mapping[int, float], second: Mapping[int, float], *, comparisons: int = 1) -> Interval:
    """First less second, paired by seed; with several comparisons all intervals hold together (Bonferroni)."""
    seeds = sorted(first.keys() & second.keys())
    confidence = 1 - (1 - CONFIDENCE) / comparisons
    return t_interval([first[seed] - second[seed] for seed in seeds], confidence=confidence)


def change(runs: Runs, variant: str, groups: Sequence[str], measure: str) -> Interval:
    """Of a variant against plain likelihood under the same seeds."""
    return difference(value_of(runs, variant, groups, measure), value_of(runs, REFERENCE, groups, measure))


def sizes_of_change(runs: Runs, variant: str, group: str, measure: str) -> dict[int, float]:
    """How far each seed's value moved from plain likelihood's, whichever way.

    The value is a mean over digits: a loss that sharpens some of them and flattens others moves it little.
    """
    reference = value_of(runs, REFERENCE, [group], measure)
    return {seed: abs(value - reference[seed]) for seed, value in value_of(runs, variant, [group], measure).items()}


# ---------------------------------------------------------------- rules


def sign(interval: Interval) -> int:
    """−1 or 1 where 0 lies outside the interval, else 0."""
    return (1 if interval.mean > 0 else -1) if interval.excludes_zero else 0


def all_signs(intervals: Iterable[Interval], wanted: int) -> bool | None:
    """True if every interval lies on the wanted side of 0, False if one lies on the other, else None."""
    signs = [sign(interval) for interval in intervals]
    if all(one == wanted for one in signs):
        return True
    return False if -wanted in signs else None


def negligible(interval: Interval) -> bool | None:
    """True if all of it lies within ±`NEGLIGIBLE_NATS`, False if all of it lies outside, else None."""
    if interval.low is None or interval.high is None:
        return None
    if -NEGLIGIBLE_NATS <= interval.low and interval.high <= NEGLIGIBLE_NATS:
        return True
    return False if interval.low > NEGLIGIBLE_NATS or interval.high < -NEGLIGIBLE_NATS else None


def join(parts: Sequence[Part]) -> str:
    """The verdict of all parts of a claim.

    "agrees" if every part holds. "differs" if one does not and none does: a claim is refuted where it fails, even if
    other comparisons cannot tell. "not separated" where noise could have done all of them, else "mixed".
    """
    answers = {part.holds for part in parts}
    if answers == {True}:
        return "agrees"
    if answers == {None}:
        return "not separated"
    return "mixed" if True in answers else "differs"


def deciding(parts: Sequence[Part]) -> list[Part]:
    """At most two parts that show a verdict: one for and one against a claim, or the first and the last of one kind."""
    agree, differ, tied = ([part for part in parts if part.holds is holds] for holds in (True, False, None))
    if agree and (differ or tied):
        return [agree[0], (differ or tied)[0]]
    alike = agree or differ or tied
    return [alike[0], *alike[1:][-1:]]


# ---------------------------------------------------------------- words


def sample(interval: Interval, unit: str = "", of: str = "seeds") -> str:
    """What an interval stands on: "nats, n = 5 seeds"."""
    return f"{unit}{', ' * bool(unit)}n = {interval.count} {of}"


def interval_text(interval: Interval) -> str:
    """A mean with its interval, and whether 0 is in it."""
    return interval_texts([interval])[0]


def interval_texts(intervals: Sequence[Interval]) -> list[str]:
    """What stands in one list or column, with as many decimals for all: three, or five where three would hide one."""
    digits = 5 if any(_looks_like_zero(interval) for interval in intervals) else 3
    return [_interval_text(interval, digits) for interval in intervals]


def _looks_like_zero(interval: Interval) -> bool:
    """Whether three decimals turn all of it into 0, or an end of what lies apart from 0."""
    sizes = [abs(value) for value in (interval.mean, interval.low, interval.high) if value is not None]
    return 0 < (min if interval.excludes_zero else max)(sizes) < LOOKS_LIKE_ZERO


def _interval_text(interval: Interval, digits: int) -> str:
    ends = [format_signed(end, digits) for end in (interval.low, interval.high) if end is not None]
    mean = format_signed(interval.mean, digits)
    if not ends:
        return f"{mean} (one seed, no interval)"
    return f"{mean} ({' to '.join(ends)}{'' if interval.excludes_zero else ', not separated'})"


def budget(study: Mapping[str, Any]) -> str:
    """Model, seeds and steps of a fine-tuning study."""
    settings = study["settings"]
    seeds = max(row["value"]["count"] for row in study["rows"])
    return f"embedded model, {seeds} seeds, {settings['steps']} steps of {settings['batch_size']} samples"

"""The ledger of the paper's claims, built from data files alone: `claims.json`, and the table in the README.

    python -m delcore.studies claims --out notebooks/studies

No verdict is written by hand. Each claim's rule compares stored or computed numbers part by part (`trained_claims`,
`untrained_claims` state the thresholds); `evidence.join` makes one verdict of the parts. A claim whose studies have not
been run says so.
"""

import argparse
import dataclasses
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delcore.checkpoints import write_json, write_whole
from delcore.errors import InputError
from delcore.studies import trained_claims as trained
from delcore.studies import trained_context as context
from delcore.studies import untrained_claims as untrained
from delcore.studies.evidence import Evidence, Part, deciding, join, read_evidence
from delcore.studies.stored import CLAIMS_FILE, VERDICTS, Claim

logger = logging.getLogger("delcore.studies")

COMMAND = "python -m delcore.studies claims --out notebooks/studies"
README = Path("README.md")
OPENED, CLOSED = "<!-- claims: made by `python -m delcore.studies claims` -->", "<!-- end of claims -->"
BIAS = "05_oversharp_overflat_gentle.ipynb#What-trained-models-do"
GENTLE = "05_oversharp_overflat_gentle.ipynb#Is-DEL-gentle?"
ANSWERS = "04_training_every_loss.ipynb#Who-answers-best?"
NEARNESS = "07_benchmarks_and_your_model.ipynb#Near-misses-count"
TERM = "04_training_every_loss.ipynb#Does-the-distance-term-hurt?"
WEIGHTS = "04_training_every_loss.ipynb#Do-the-place-weights-help?"
JUMP = "03_floating_point_place_weights.ipynb#The-jump-at-the-point"
ORDER = "06_digit_embeddings.ipynb#A-real-model"
CASES = "02_why_likelihood_is_not_enough.ipynb#Criterion-×-distance"

TRAINED_TEST = "embedded model"
ENTROPY_TEST = f"{TRAINED_TEST}, default and matched strength, readings of a known law; SmolLM2-135M on GSM8K"
BENCHMARKS_TEST = "SmolLM2-135M on three of the paper's benchmarks"


@dataclass(frozen=True)
class Rule:
    """How one claim is judged.

    Args:
        claim: in one sentence.
        test: what is done.
        needs: studies that must have been run.
        judge: the comparisons.
        beside: what stands beside them, with the budget.
        link: notebook and anchor.
        figure: key by which the dashboard draws it: study and measure, or an analysis.
    """

    claim: str
    test: str
    needs: tuple[str, ...]
    judge: Callable[[Evidence], list[Part]]
    beside: Callable[[Evidence], str]
    link: str
    figure: str


RULES = (
    Rule(
        "NTL-WAS over-sharpens; NTL-MSE is unbiased",
        ENTROPY_TEST,
        ("losses", "smollm2"),
        trained.sharpens,
        context.beside_bias,
        BIAS,
        "losses:gap_nats",
    ),
    Rule(
        "DIST2Loss over-flattens",
        ENTROPY_TEST,
        ("losses", "smollm2"),
        trained.flattens,
        context.beside_bias,
        BIAS,
        "losses:gap_nats",
    ),
    Rule(
        "DEL moves digit entropy gently",
        ENTROPY_TEST,
        ("losses", "smollm2"),
        trained.moves_gently,
        context.beside_gentle,
        GENTLE,
        "losses:gap_nats",
    ),
    Rule(
        "DEL has the best accuracy",
        f"{TRAINED_TEST}: held-out problems answered exactly; beside them, {BENCHMARKS_TEST}",
        ("losses", "smollm2"),
        trained.answers_best,
        context.beside_accuracy,
        ANSWERS,
        "losses:exact_match",
    ),
    Rule(
        "DEL lowers numeric distance without a distance term",
        f"{TRAINED_TEST}; SmolLM2-135M on GSM8K: the expected digit's distance from the true one",
        ("losses", "smollm2"),
        trained.lowers_distance,
        context.beside_distance,
        NEARNESS,
        "losses:distance",
    ),
    Rule(
        "Learned digit similarity does not strictly follow numeric distance",
        "cosine similarity of the ten digits in SmolLM2-135M, ranks and a permutation test",
        ("embeddings",),
        untrained.similarity_not_strict,
        untrained.beside_similarity,
        ORDER,
        "embeddings:similarity",
    ),
    Rule(
        "Adding the distance term to DEL hurts",
        f"{TRAINED_TEST}, DEL with and without it",
        ("ablations",),
        trained.hurt_by_distance,
        context.beside_ablations,
        TERM,
        "ablations:kl_nats",
    ),
    Rule(
        "Floating-point optimisation helps, decimals most",
        f"{TRAINED_TEST}, DEL with its place weights, with those of integers, and with none",
        ("ablations",),
        trained.helped_by_places,
        context.beside_weights,
        WEIGHTS,
        "ablations:kl_nats",
    ),
    Rule(
        "Earlier place rules jump at the decimal point",
        "the weights that training gives the digits of one number",
        (),
        untrained.places_jump,
        untrained.beside_places,
        JUMP,
        "places",
    ),
    Rule(
        "NTL-WAS and DIST2Loss are cases of criterion × distance; NTL-MSE, MixCE and EMO are not",
        "a distance is fitted to what each loss adds to cross-entropy's gradient",
        (),
        untrained.criterion_times_distance,
        untrained.beside_criteria,
        CASES,
        "criteria",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its part of the command line."""
    parser.add_argument("--out", type=Path, required=True, help="folder of the studies; the ledger goes there")
    parser.add_argument(
        "--readme", type=Path, help=f"file with the table's two markers; by default {README}, if that has them"
    )
    parser.set_defaults(run=run_claims)


def run_claims(arguments: argparse.Namespace) -> None:
    """Write `claims.json`, and the table into the README if there is one."""
    ledger = build_ledger(read_evidence(arguments.out))
    claims = [Claim(**claim) for claim in ledger["claims"]]
    files = _files_for_table(arguments.readme)
    texts = {file: put_table(file.read_text(encoding="utf-8"), claims) for file in files}
    write_json(arguments.out / CLAIMS_FILE, ledger)
    for file, text in texts.items():
        write_whole(file, text)
    for claim in claims:
        logger.info("%d %s: %s", claim.number, claim.claim, claim.verdict)


def _files_for_table(given: Path | None) -> list[Path]:
    """The named file, or this folder's README if it has a place for the table, or none."""
    if given and not given.is_file():
        raise InputError(f"`--readme` must be a file; there is none at {given}.")
    if given or (README.is_file() and OPENED.encode() in README.read_bytes()):
        return [given or README]
    logger.info("No %s with the table's markers lies here, so it goes nowhere; `--readme` names a file.", README)
    return []


def build_ledger(evidence: Evidence, rules: Sequence[Rule] = RULES) -> dict[str, Any]:
    """All claims, and the files they were judged from."""
    claims = [dataclasses.asdict(judge_claim(i + 1, rule, evidence)) for i, rule in enumerate(rules)]
    used = {name for rule in rules for name in rule.needs}
    data = {file: digest for file, digest in evidence.fingerprints.items() if file.split("/")[0] in used}
    return {"command": COMMAND, "data_sha256": data, "claims": claims}


def judge_claim(number: int, rule: Rule, evidence: Evidence) -> Claim:
    """One claim as its data say."""
    missing = [name for name in rule.needs if name not in evidence.studies]
    if missing:
        verdict, result = "not run", f"to be run: {', '.join(missing)}"
        brief = result
    else:
        parts = rule.judge(evidence)
        verdict, result = join(parts), "; ".join([*(part.text for part in parts), rule.beside(evidence)])
        brief = "; ".join(f"{part.brief or part.text} [{part.sample}]" for part in deciding(parts))
    return Claim(number, rule.claim, rule.test, result, verdict, rule.link, rule.figure, brief)


def put_table(readme: str, claims: Sequence[Claim]) -> str:
    """The README with the table between its markers.

    Raises:
        InputError: the markers are not there, once each and in order.
    """
    if readme.count(OPENED) != 1 or readme.count(CLOSED) != 1 or readme.index(OPENED) > readme.index(CLOSED):
        raise InputError(f"`--readme` must hold the lines {OPENED} and {CLOSED}, once each and in this order.")
    before, rest = readme.split(OPENED)
    return f"{before}{OPENED}\n{tally(claims)}\n\n{table(claims)}{CLOSED}{rest.split(CLOSED)[1]}"


def tally(claims: Sequence[Claim]) -> str:
    """How many claims have each verdict, in a sentence."""
    counts = {verdict: sum(claim.verdict == verdict for claim in claims) for verdict in VERDICTS}
    told = ", ".join(f"*{verdict}* {count}" for verdict, count in counts.items() if count)
    return f"Verdicts of the {len(claims)} claims: {told}."


def table(claims: Sequence[Claim]) -> str:
    """The claims as a table in Markdown, with the numbers that show each verdict; the ledger has all of them."""
    lines = ["| | claim | verdict here | shown by |", "|---|---|---|---|"]
    for claim in claims:
        cells = (f"[{claim.number}](notebooks/{claim.link})", claim.claim, f"**{claim.verdict}**", claim.brief)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"

"""The fine-tuning studies on the embedded base: seven losses, DEL's ablations, DEL's α.

    python -m delcore.studies losses --work runs/studies --out notebooks/studies
    python -m delcore.studies ablations --work runs/studies --out notebooks/studies
    python -m delcore.studies alpha --work runs/studies --out notebooks/studies

Runs of the same settings are shared between studies, and each finished run is kept. `--out` gets a folder per study:
`results.json` (means with intervals, strengths, equilibria, settings, command, time) and `runs.csv` (every run).
"""

import argparse
import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from delcore.analysis.results import measuring_versions
from delcore.analysis.scans import digit_directions, equilibrium_gaps, scan_equilibria
from delcore.analysis.strength import match_alphas, measure_strength
from delcore.arithmetic import DESIGN_LAW, LAWS, arithmetic_sample
from delcore.checkpoints import write_json
from delcore.errors import InputError
from delcore.losses import LOSSES
from delcore.models import LoadedModel, load_model
from delcore.runs import settings_of
from delcore.studies.variants import (
    PROBLEMS,
    Budget,
    Variant,
    draw_problems,
    rounded,
    run_variant,
    tabulate_runs,
    variant_config,
    write_runs,
)
from delcore.sweep import parse_losses

logger = logging.getLogger("delcore.studies")

STEPS = 300
BATCH_SIZE = 32
HELDOUT = 200
FIRST_SEED = 2
"""Seeds 0 and 1 drew the samples that the embedded base and family were trained on."""

TARGET = "del"
"""At matched strength the other losses pull on the digit logits of the base as hard as this one at its default α."""

MATCHED = ("ntl_was", "ntl_mse", "dist2", "del")
STRENGTH_SAMPLES = 500
ALPHAS = (0.03, 0.1, 0.3, 1.0)
SCAN_ALPHAS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)

ABLATIONS = (
    Variant("mle", "mle"),
    Variant("del", "del"),
    Variant("del-distance-l1", "del", options={"distance": "l1"}),
    Variant("del-place-none", "del", options={"place": "none"}),
    Variant("del-place-integer", "del", options={"place": "integer"}),
    Variant("del-conditional", "del", options={"bce": "conditional"}),
    Variant("del-entropy", "del", options={"criterion": "entropy"}),
    Variant("del-cross-entropy", "del", options={"criterion": "cross_entropy"}),
    Variant("del-dot", "del", options={"dot": True}),
    Variant("ntl_was", "ntl_was"),
    Variant("ntl_was-permuted", "ntl_was", options={"distance": "permuted:{seed}"}),
    Variant("dist2", "dist2"),
    Variant("dist2-permuted", "dist2", options={"distance": "permuted:{seed}"}),
)
"""DEL's parts taken out or replaced one by one; digit-only cross-entropy; distances that mean nothing."""


@dataclass(frozen=True)
class Study:
    """One study.

    Args:
        name: on the command line.
        title: in words.
        seeds: how many.
        variants: from the base to what is trained.
        extra: from nothing to what is computed besides.
    """

    name: str
    title: str
    seeds: int
    variants: Callable[[LoadedModel], Sequence[Variant]]
    extra: Callable[[], Mapping[str, Any]] = dict


def loss_variants(base: LoadedModel) -> list[Variant]:
    """Seven losses at their defaults, and those with a digit term at matched strength."""
    alphas = match_alphas(measure_strength(base, strength_samples(), MATCHED), TARGET)
    matched = [Variant(f"{name}-matched", name, float(f"{alpha:.4g}")) for name, alpha in alphas.items()]
    default = [Variant(name, name) for name in parse_losses("all")]
    return default + [variant for variant in matched if variant.loss != TARGET]


def alpha_variants(base: LoadedModel) -> list[Variant]:
    """MLE, and DEL at several strengths; its default keeps the name that other studies give it."""
    named = {alpha: Variant(f"del-alpha-{alpha:g}", "del", alpha) for alpha in ALPHAS}
    named[0.1] = Variant("del", "del")
    return [Variant("mle", "mle"), *named.values()]


def scan_alphas() -> dict[str, Any]:
    """Equilibria of the losses with a digit term for the design's law along α, and for DEL along u."""
    scans = {
        "alpha": scan_equilibria(list(MATCHED), {"peaked at 7": DESIGN_LAW}, alphas=SCAN_ALPHAS),
        "laws": scan_equilibria(parse_losses("all"), LAWS),
        "u": scan_equilibria(["del"], {"peaked at 7": DESIGN_LAW}, us=(1.0, 2.0, 4.0, 6.0)),
    }
    return {"scans": {name: scan.gap.rows() for name, scan in scans.items()}}


STUDIES: Mapping[str, Study] = {
    study.name: study
    for study in (
        Study("losses", "seven losses, default and matched strength", 5, loss_variants),
        Study("ablations", "DEL's ablations and random-permutation controls", 3, lambda base: ABLATIONS),
        Study("alpha", "DEL at several strengths, and equilibria", 3, alpha_variants, scan_alphas),
    )
}


def add_arguments(parser: argparse.ArgumentParser, study: Study) -> None:
    """Its part of the command line."""
    parser.add_argument("--work", type=Path, required=True, help="folder of the runs, shared by the studies")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--steps", type=int, default=STEPS, help="optimiser steps of a run")
    parser.add_argument("--seeds", type=int, default=study.seeds, help="runs of each variant")
    parser.add_argument("--batch-size", type=int, default=BATCH_SIZE, help="samples of a step")
    parser.add_argument("--heldout", type=int, default=HELDOUT, help="held-out problems of each kind, at most")
    parser.set_defaults(run=partial(run_study, study))


def run_study(study: Study, arguments: argparse.Namespace) -> None:
    """Train and measure what is missing; the results are written anew after every seed.

    Raises:
        InputError: no seeds, or settings that no run can have.
    """
    if arguments.seeds < 1 or arguments.heldout < 1:
        raise InputError("`--seeds` and `--heldout` must be at least 1.")
    seeds = tuple(range(FIRST_SEED, FIRST_SEED + arguments.seeds))
    budget = Budget(arguments.work, arguments.steps, seeds, arguments.heldout, arguments.batch_size)
    base = load_model("embedded")
    variants = study.variants(base)
    result = describe_study(study, variants, base, budget) | dict(study.extra())
    runs = []
    for seed in seeds:
        runs += [run_variant(variant, seed, budget) for variant in variants]
        write_results(arguments.out / study.name, result, variants, runs)


def describe_study(study: Study, variants: Sequence[Variant], base: LoadedModel, budget: Budget) -> dict[str, Any]:
    """How a study is made again: command, settings, versions, and the strength of every variant at the base."""
    settings = settings_of(variant_config(variants[0], budget.seeds[0], budget))
    shared = {key: settings[key] for key in ("model", "data", "batch_size", "learning_rate", "warmup", "clip", "beta2")}
    pulls = measure_pulls(variants, base, budget.seeds[0])
    command = f"python -m delcore.studies {study.name} --work runs/studies --out notebooks/studies"
    flags = {"steps": (budget.steps, STEPS), "seeds": (len(budget.seeds), study.seeds)}
    flags |= {"batch-size": (budget.batch_size, BATCH_SIZE), "heldout": (budget.heldout, HELDOUT)}
    command += "".join(f" --{name} {value}" for name, (value, default) in flags.items() if value != default)
    return {
        "study": study.name,
        "command": command,
        "versions": measuring_versions(),
        "model_revision": base.card.revision,
        "settings": shared | {"steps": budget.steps, "seeds": list(budget.seeds), "heldout_per_kind": budget.heldout},
        "problems": {group: len(draw_problems(group, budget.heldout)) for group in PROBLEMS},
        "matched_to": TARGET,
        "variants": [dataclasses.asdict(variant) | {"pull": pulls[variant.name]} for variant in variants],
    }


def strength_samples() -> list[Any]:
    """Training samples that strengths are measured on."""
    return [arithmetic_sample(i, FIRST_SEED) for i in range(STRENGTH_SAMPLES)]


def measure_pulls(variants: Sequence[Variant], base: LoadedModel, seed: int) -> dict[str, float]:
    """Mean norm of each variant's gradient on the digit logits beside cross-entropy's, at the base."""
    losses = {variant.name: (variant.loss, variant.options_of(seed)) for variant in variants}
    found = measure_strength(base, strength_samples(), losses)
    return {variant.name: found[variant.name].norm * _times_default(variant) for variant in variants}


def _times_default(variant: Variant) -> float:
    default = LOSSES[variant.loss].alpha
    return variant.alpha / default if variant.alpha is not None and default else 1.0


def write_results(
    out: Path, result: Mapping[str, Any], variants: Sequence[Variant], runs: Sequence[Mapping[str, Any]]
) -> None:
    """`results.json` and `runs.csv`."""
    ratio = sum(run["heldout"]["tokens"] for run in runs) / sum(run["heldout"]["digits"] for run in runs)
    seconds = {part: sum(run["seconds"][part] for run in runs) for part in ("train", "measure")}
    goals = {variant.name: goal_of(variant, ratio, result["settings"]["seeds"]) for variant in variants}
    rows = [dataclasses.asdict(row) for row in tabulate_runs(runs)]
    summary = {"seconds": seconds, "runs": len(runs), "tokens_per_digit": ratio, "equilibrium_gap_nats": goals}
    write_json(out / "results.json", rounded({**result, **summary, "rows": rows}))
    write_runs(out / "runs.csv", runs)


def goal_of(variant: Variant, ratio: float, seeds: Sequence[int]) -> dict[str, float] | None:
    """Mean entropy gap of the equilibria of all readings' digits, α as it acts in training.

    Over the seeds too, where they make another loss of it, as a permuted distance. None where an equilibrium is not
    attained, or where the dot is an eleventh class, for which equilibria of ten digits do not hold.
    """
    if variant.options.get("dot"):
        return None
    embedding = digit_directions() if variant.loss == "emo" else None
    alpha = LOSSES[variant.loss].alpha if variant.alpha is None else variant.alpha
    scaled = None if alpha is None else alpha * ratio
    differ = variant.options_of(seeds[0]) != variant.options
    found = []
    for seed in seeds if differ else seeds[:1]:
        gaps = equilibrium_gaps(variant.loss, alpha=scaled, embedding=embedding, **variant.options_of(seed))
        if gaps is None:
            return None
        found.append(gaps)
    return {group: sum(gaps[group] for gaps in found) / len(found) for group in found[0]}

"""One fine-tuning under one variant of a loss, trained and measured; what is done is read from its file."""

import dataclasses
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from delcore.analysis.calibration import measure_calibration
from delcore.analysis.digit_measures import MEASURES
from delcore.analysis.predictions import predict_digits
from delcore.arithmetic import Sample, heldout_problems
from delcore.checkpoints import write_json, write_whole
from delcore.config import TrainConfig
from delcore.evaluate import ReadingMeasure, measure_exact_match, measure_readings
from delcore.fingerprints import fingerprint_samples
from delcore.intervals import Interval, t_interval
from delcore.models import LoadedModel, load_model
from delcore.recipes import config_from
from delcore.sweep import REFERENCE, finish_run

logger = logging.getLogger("delcore.studies")

PROBLEMS: Mapping[str, tuple[str, ...]] = {
    "integers": ("addition", "subtraction", "product", "word problem"),
    "decimals": ("decimal",),
    "symbols": ("symbols",),
}
"""Groups of held-out problems, and the generator's kinds in each."""

LAW_MEASURES = ("entropy_nats", "gap_nats", "kl_nats", "mass", "level")


@dataclass(frozen=True)
class Variant:
    """A loss as a study trains it.

    Args:
        name: of the variant, and of its run folders.
        loss: key of `delcore.LOSSES`.
        alpha: weight of the digit term; None for the default.
        options: of the loss; "{seed}" in a text becomes the run's seed.
    """

    name: str
    loss: str
    alpha: float | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def options_of(self, seed: int) -> dict[str, Any]:
        """The options of one run."""
        return {
            name: value.format(seed=seed) if isinstance(value, str) else value for name, value in self.options.items()
        }


@dataclass(frozen=True)
class Budget:
    """What every run of a study shares.

    Args:
        work: folder of runs and measurements.
        steps: optimiser steps.
        seeds: of the runs; under one seed all variants see the same samples in the same order.
        heldout: held-out problems of each kind, if there are so many.
        batch_size: samples of a step.
    """

    work: Path
    steps: int
    seeds: tuple[int, ...]
    heldout: int
    batch_size: int = 32


def variant_config(variant: Variant, seed: int, budget: Budget) -> TrainConfig:
    """The embedded base fine-tuned by the embedded recipe, for the study's steps."""
    return config_from(
        "embedded",
        loss=variant.loss,
        alpha=variant.alpha,
        options=variant.options_of(seed),
        seed=seed,
        steps=budget.steps,
        batch_size=budget.batch_size,
        eval_every=budget.steps,
        out=budget.work / "runs" / f"{variant.name}-{seed}",
        resume=True,
    )


def run_variant(variant: Variant, seed: int, budget: Budget) -> dict[str, Any]:
    """Train and measure one run, unless its file is there; the file names what it was made and measured with."""
    config = variant_config(variant, seed, budget)
    file = budget.work / "measured" / f"{variant.name}-{seed}.json"
    key = {"loss": variant.loss, "alpha": variant.alpha, "options": variant.options_of(seed), "seed": seed}
    key |= {"steps": budget.steps, "heldout": budget.heldout, "batch_size": budget.batch_size}
    problems = {group: draw_problems(group, budget.heldout) for group in PROBLEMS}
    key |= {"base": load_model(config.model).card.revision, "problems": sum(map(len, problems.values()))}
    key |= {"problems_sha256": fingerprint_samples(one for samples in problems.values() for one in samples)}
    if file.is_file():
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if found["key"] == key:
            return found
    logger.info("%s, seed %d", variant.name, seed)
    started = time.perf_counter()
    heldout = finish_run(config, logger.info)
    trained = time.perf_counter()
    measured = measure_model(load_model(str(config.out)), problems)
    seconds = {"train": trained - started, "measure": time.perf_counter() - trained}
    found = {"key": key, "variant": variant.name, "seed": seed, **measured, "heldout": heldout, "seconds": seconds}
    write_json(file, rounded(found))
    return found


def measure_model(loaded: LoadedModel, problems: Mapping[str, Sequence[Sample]]) -> dict[str, Any]:
    """Readings of known laws, and held-out problems by group."""
    return {
        "readings": [dataclasses.asdict(reading) for reading in measure_readings(loaded)],
        "problems": {group: measure_problems(loaded, samples) for group, samples in problems.items()},
    }


def draw_problems(group: str, count: int) -> list[Sample]:
    """Held-out problems of one group, `count` of each kind, or all there are; no prompt comes twice."""
    return [sample for kind in PROBLEMS[group] for sample in heldout_problems(kind, count)]


def measure_problems(loaded: LoadedModel, samples: Sequence[Sample]) -> dict[str, float]:
    """Means over the digits of the right responses, calibration, and the share answered exactly."""
    predictions = predict_digits(loaded, samples, data="held-out problems", seed=0)
    calibration = measure_calibration(predictions, draws=1)
    means = {name: float(measure.of(predictions).mean()) for name, measure in MEASURES.items()}
    scores = {"ece": calibration.ece, "ece_by_chance": calibration.ece_by_chance, "brier": calibration.brier.mean}
    return {**means, **scores, "exact_match": measure_exact_match(loaded, samples).share}


# ---------------------------------------------------------------- tables


@dataclass(frozen=True)
class StudyRow:
    """One measure of one variant over the seeds.

    Args:
        variant: its name.
        group: which digits or problems.
        measure: what was measured.
        value: mean over seeds with Student's interval.
        difference: to the reference of the same seed; None for the reference itself.
    """

    variant: str
    group: str
    measure: str
    value: Interval
    difference: Interval | None


def flatten_run(run: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    """Every number of one run by group and measure; readings are averaged, integers and decimals apart."""
    readings = [ReadingMeasure(**reading) for reading in run["readings"]]
    flat: dict[tuple[str, str], float] = {}
    for group, chosen in group_readings(readings).items():
        for measure in LAW_MEASURES:
            flat[group, measure] = float(np.mean([_law_measure(reading, measure) for reading in chosen]))
    for group, measures in run["problems"].items():
        flat |= {(group, measure): value for measure, value in measures.items()}
    return flat


def group_readings(readings: Sequence[ReadingMeasure]) -> dict[str, list[ReadingMeasure]]:
    """All digits of the readings, and those before and behind the point apart."""
    return {
        "readings": list(readings),
        "reading integers": [reading for reading in readings if reading.place >= 0],
        "reading decimals": [reading for reading in readings if reading.place < 0],
    }


def _law_measure(reading: ReadingMeasure, measure: str) -> float:
    if measure == "gap_nats":
        return reading.entropy_nats - reading.law_entropy_nats
    return float(getattr(reading, measure))


def tabulate_runs(runs: Sequence[Mapping[str, Any]]) -> list[StudyRow]:
    """Means over seeds, and paired differences to the reference where it has the same seed."""
    flat = {(run["variant"], run["seed"]): flatten_run(run) for run in runs}
    rows = []
    for variant in dict.fromkeys(run["variant"] for run in runs):
        seeds = [seed for name, seed in flat if name == variant]
        for group, measure in flat[variant, seeds[0]]:
            values = {seed: flat[variant, seed][group, measure] for seed in seeds}
            others = {seed: flat[REFERENCE, seed][group, measure] for seed in seeds if (REFERENCE, seed) in flat}
            pairs = [values[seed] - other for seed, other in others.items()]
            difference = t_interval(pairs) if pairs and variant != REFERENCE else None
            rows.append(StudyRow(variant, group, measure, t_interval(list(values.values())), difference))
    return rows


def rounded(content: Any) -> Any:
    """The same with six significant digits in every number."""
    if isinstance(content, float):
        return float(f"{content:.6g}")
    if isinstance(content, Mapping):
        return {key: rounded(value) for key, value in content.items()}
    return [rounded(value) for value in content] if isinstance(content, list | tuple) else content


def write_runs(file: Path, runs: Sequence[Mapping[str, Any]]) -> None:
    """One line per variant, seed, group and measure."""
    lines = ["variant,seed,group,measure,value"]
    for run in runs:
        for (group, measure), value in flatten_run(run).items():
            lines.append(f"{run['variant']},{run['seed']},{group},{measure},{value:.6g}")
    write_whole(file, "\n".join(lines) + "\n")

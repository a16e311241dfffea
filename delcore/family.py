"""Making the embedded family again: the base, one copy fine-tuned with each loss, and the card.

    python -m delcore.family --work runs/family --out delcore/embedded

A finished part under `--work` is kept, so an interrupted call goes on where it stopped. The numbers of the card are
measured on the files as shipped, in half precision.
"""

import argparse
import dataclasses
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from delcore._card import SMALLEST_WAY_NATS, format_card
from delcore.analysis.scans import digit_directions
from delcore.arithmetic import LAWS, Sample, arithmetic_sample, heldout_additions, heldout_problems
from delcore.config import TrainConfig
from delcore.equilibria import Equilibrium, equilibrium
from delcore.evaluate import ReadingMeasure, measure_digits, measure_exact_match, measure_readings
from delcore.losses import LOSSES
from delcore.models import EMBEDDED_NAMES, LoadedModel, load_embedded, load_model, save_embedded
from delcore.probe import probe
from delcore.train import finetune

BASE = TrainConfig(
    loss="mle",
    out=Path("base"),
    model="scratch",
    steps=8000,
    batch_size=64,
    learning_rate=2e-3,
    weight_decay=0.01,
    supervise="all",
    log_every=20,
)
"""Pre-training: every token of the generated text is learned."""

TUNE = TrainConfig(
    loss="mle", out=Path("tune"), steps=1000, batch_size=64, learning_rate=3e-4, clip=0, seed=1, log_every=10
)
"""Fine-tuning: the same base, samples and order for every loss; only the responses are learned.

The gradient is not clipped: clipping shrinks the steps in which a rare digit turned up, which can sharpen by itself.
"""

OPENING_PROMPT = "sensor B reads "
HELDOUT = 500
"""At most so many problems of each kind but additions, of which all are asked."""

logger = logging.getLogger("delcore.family")


def main(argv: Sequence[str] | None = None) -> int:
    """Train what is missing, then measure and write the card."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="folder of the training runs")
    parser.add_argument("--out", type=Path, required=True, help="folder for weights and card")
    parser.add_argument("--only", nargs="*", choices=EMBEDDED_NAMES, help="train only these, and write no card")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for name in arguments.only or EMBEDDED_NAMES:
        train_member(name, arguments.work, arguments.out)
    if not arguments.only:
        write_card(arguments.out)
    return 0


def train_member(name: str, work: Path, out: Path) -> None:
    """Train one member unless its run is there already, and write its weights."""
    recipe = BASE if name == "base" else dataclasses.replace(TUNE, loss=name, model=str(work / "base"))
    config = dataclasses.replace(recipe, out=work / name)
    if not (config.out / "model.safetensors").is_file():
        logger.info("training %s", name)
        finetune(config, progress=logger.info)
    out.mkdir(parents=True, exist_ok=True)
    save_embedded(load_model(config.out).model, out / f"{name}.safetensors")


# ---------------------------------------------------------------- measuring the shipped files


def write_card(out: Path) -> None:
    """Measure every member and write card.json, CARD.md and opening.json."""
    models = {name: load_embedded(f"embedded:{name}", out) for name in EMBEDDED_NAMES}
    ratio = tokens_per_digit()
    base_readings = measure_readings(models["base"])
    card = {
        "command": "python -m delcore.family --work runs/family --out delcore/embedded",
        "base": _recipe(BASE),
        "tune": _recipe(TUNE),
        "tokens_per_digit": ratio,
        "distinct": {kind: len({one.prompt for one in samples}) for kind, samples in card_problems().items()},
        "models": {name: measure_member(name, loaded, base_readings, ratio) for name, loaded in models.items()},
    }
    (out / "card.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    (out / "CARD.md").write_text(format_card(card), encoding="utf-8")
    opening = probe(OPENING_PROMPT, models)
    (out / "opening.json").write_text(json.dumps(opening) + "\n", encoding="utf-8")


def _recipe(config: TrainConfig) -> dict[str, Any]:
    kept = ("model", "data", "steps", "batch_size", "learning_rate", "warmup", "weight_decay", "clip", "supervise")
    return {key: getattr(config, key) for key in (*kept, "seed")}


def tokens_per_digit(samples: int = 20_000) -> float:
    """Supervised tokens per digit token of the fine-tuning data, M / N.

    The loss divides cross-entropy by M and the digit term by N, so at a digit the digit term weighs α · M / N
    against the cross-entropy; an equilibrium has to be computed with that.
    """
    responses = [arithmetic_sample(i, TUNE.seed).response for i in range(samples)]
    digits = sum(character.isdigit() for text in responses for character in text)
    return (sum(map(len, responses)) + len(responses)) / digits  # one end token a response


def card_problems() -> dict[str, list[Sample]]:
    """Held-out problems of each kind, no prompt twice; of additions all that there are."""
    kinds = ("subtraction", "product", "decimal", "word problem", "symbols")
    return {"addition": heldout_additions(), **{kind: heldout_problems(kind, HELDOUT) for kind in kinds}}


def measure_member(
    name: str, loaded: LoadedModel, base_readings: Sequence[ReadingMeasure], ratio: float
) -> dict[str, Any]:
    """Everything the card says of one model."""
    problems = card_problems()
    readings = measure_readings(loaded)
    digits = measure_digits(loaded, [sample for samples in problems.values() for sample in samples])
    problems["addition, either way"] = heldout_additions(either_way=True)  # some of the additions once more
    exact = {kind: measure_exact_match(loaded, samples) for kind, samples in problems.items()}
    return {
        "exact_match": {kind: {"correct": match.correct, "count": match.count} for kind, match in exact.items()},
        "digits": dataclasses.asdict(digits),
        "readings": [dataclasses.asdict(reading) for reading in readings],
        "equilibrium": None if name == "base" else measure_way(name, base_readings, readings, ratio),
    }


def measure_way(
    name: str, base: Sequence[ReadingMeasure], tuned: Sequence[ReadingMeasure], ratio: float
) -> dict[str, Any]:
    """How much of the way from the base's entropy to the loss's equilibrium a model has covered.

    Both are means over all digits of all readings; the weight u of each digit is DEL's for its place, and 1 for
    the other losses.
    """
    goals = [equilibrium_of(name, reading, ratio) for reading in tuned]
    start, end, law = (
        mean(field, rows)
        for field, rows in (("entropy_nats", base), ("entropy_nats", tuned), ("law_entropy_nats", tuned))
    )
    target = sum(goal.entropy_nats for goal in goals) / len(goals)
    way = target - start
    return {
        "base_entropy_nats": start,
        "entropy_nats": end,
        "equilibrium_entropy_nats": target,
        "law_entropy_nats": law,
        "share_covered": (end - start) / way if abs(way) >= SMALLEST_WAY_NATS else None,
        "base_level": mean("level", base),
        "level": mean("level", tuned),
        "equilibrium_level": sum(_level(goal) for goal in goals) / len(goals) if LOSSES[name].sees_level else None,
        "equilibria_nats": [goal.entropy_nats for goal in goals],
    }


def mean(field: str, readings: Sequence[ReadingMeasure]) -> float:
    """Mean of one field over the digits of all readings."""
    return sum(getattr(reading, field) for reading in readings) / len(readings)


def _level(goal: Equilibrium) -> float:
    return float(torch.tensor(goal.logits).logsumexp(0))


def equilibrium_of(name: str, reading: ReadingMeasure, ratio: float) -> Equilibrium:
    """The loss's equilibrium for one digit of a reading, with α as it acts in training."""
    alpha = LOSSES[name].alpha
    u = reading.weight if LOSSES[name].place == "decimal" else 1.0
    embedding = digit_directions() if name == "emo" else None
    return equilibrium(
        name, LAWS[reading.law], alpha=None if alpha is None else alpha * ratio, u=u, embedding=embedding
    )


if __name__ == "__main__":
    sys.exit(main())

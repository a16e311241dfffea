"""SmolLM2-135M with LoRA on GSM8K under four losses, compared on held-out answers.

python -m delcore.studies smollm2 --model SmolLM2-135M-Instruct.gguf --train gsm8k_train.jsonl
--test gsm8k_test.jsonl --work runs/smollm2 --out notebooks/studies/smollm2
"""

import argparse
import dataclasses
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delcore.answers import read_answer
from delcore.arithmetic import Sample
from delcore.checkpoints import write_synced
from delcore.evaluate import DIGIT_MEASURES, measure_digits_by_sample
from delcore.intervals import Interval, bootstrap_ratio
from delcore.models import LoadedModel, load_model, read_record
from delcore.prepare import is_finished
from delcore.readout import write_greedily
from delcore.recipes import config_from
from delcore.runs import run_record
from delcore.sources import load_samples
from delcore.train import finetune

logger = logging.getLogger("delcore.studies")

SMOLLM2_LOSSES = ("mle", "ntl_was", "dist2", "del")
HELDOUT = 200
NEW_TOKENS = 256
BATCH = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its part of the command line."""
    for name, text in (
        ("model", "its .gguf file, folder or hub id"),
        ("train", "GSM8K's training set"),
        ("test", "its test set"),
    ):
        parser.add_argument(f"--{name}", required=True, help=text)
    parser.add_argument("--work", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--out", type=Path, required=True, help="folder for adapters and results")
    parser.set_defaults(run=run_smollm2)


def run_smollm2(arguments: argparse.Namespace) -> None:
    """Train what is missing, measure what is missing, write the results."""
    work: Path = arguments.work
    configs = {
        loss: config_from(
            "smollm2-lora", loss=loss, model=arguments.model, data=arguments.train, out=work / loss, resume=True
        )
        for loss in SMOLLM2_LOSSES
    }
    for loss, config in configs.items():
        record = read_record(config.out)
        if record is None or not is_finished(record):
            logger.info("training %s", loss)
            finetune(config, progress=logger.info)
        keep_adapter(config.out, arguments.out / loss)
    found = load_samples(arguments.test, template="alpaca")
    samples = [found[i] for i in range(HELDOUT)] if found is not None else []
    sources = {"base": arguments.model, **{loss: str(work / loss) for loss in SMOLLM2_LOSSES}}
    sums, written = {}, {}
    for name, source in sources.items():
        loaded = load_model(source)
        sums[name] = _digit_sums(work / "measured" / f"{name}.json", loaded, samples)
        written[name] = _written(work / "written" / f"{name}.jsonl", loaded, samples)
    result = {
        "command": "python -m delcore.studies smollm2",
        "run": run_record(configs["mle"], {}),
        "items": HELDOUT,
        "digits": compare_digits(sums),
        "answers": compare_answers(written, samples),
    }
    write_synced(
        arguments.out / "results.json", lambda file: file.write((json.dumps(result, indent=1) + "\n").encode())
    )


def keep_adapter(run: Path, out: Path) -> None:
    """A copy of a run's adapter in half precision, with its record."""
    from safetensors.torch import load_file, save_file

    out.mkdir(parents=True, exist_ok=True)
    weights = {key: value.half().contiguous() for key, value in load_file(run / "adapter_model.safetensors").items()}
    save_file(weights, out / "adapter_model.safetensors", metadata={"format": "pt"})
    for name in ("adapter_config.json", "config.json", "metrics.jsonl"):
        (out / name).write_bytes((run / name).read_bytes())


def _digit_sums(file: Path, loaded: LoadedModel, samples: Sequence[Sample]) -> NDArray[np.float64]:
    """`measure_digits_by_sample`, kept in a file."""
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        rows = measure_digits_by_sample(loaded, samples).tolist()
        write_synced(file, lambda stream: stream.write(json.dumps(rows).encode()))
        logger.info("measured %s", file.stem)
    return np.array(json.loads(file.read_text(encoding="utf-8")))


def _written(file: Path, loaded: LoadedModel, samples: Sequence[Sample]) -> list[str]:
    """The greedy answer to each sample, kept line by line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    done = {row["index"]: row["text"] for row in map(json.loads, lines)}
    model, tokenizer, _ = loaded
    prompts = {i: tokenizer(sample.prompt)["input_ids"] for i, sample in enumerate(samples) if i not in done}
    order = sorted(prompts, key=lambda i: len(prompts[i]))
    with file.open("a", encoding="utf-8") as stream:
        for start in range(0, len(order), BATCH):
            part = order[start : start + BATCH]
            texts = write_greedily(model, tokenizer, [prompts[i] for i in part], NEW_TOKENS)
            for i, text in zip(part, texts, strict=True):
                done[i] = text
                stream.write(json.dumps({"index": i, "text": text}) + "\n")
            stream.flush()
            logger.info("%s: %d of %d answers", file.stem, len(done), len(samples))
    return [done[i] for i in range(len(samples))]


def compare_digits(sums: Mapping[str, NDArray[np.float64]]) -> dict[str, Any]:
    """Each measure of each model with its interval over items, and its paired difference to `mle`."""

    def pair(name: str, column: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return sums[name][:, column], sums[name][:, -1]

    return {
        name: {
            measure: _entry(
                bootstrap_ratio(pair(name, column)),
                None if name == "mle" else bootstrap_ratio(pair(name, column), pair("mle", column)),
            )
            for column, measure in enumerate(DIGIT_MEASURES)
        }
        for name in sums
    }


def compare_answers(written: Mapping[str, Sequence[str]], samples: Sequence[Sample]) -> dict[str, Any]:
    """Share read and right, and the absolute error of final numbers; errors are compared where both could be read."""
    gold = np.array([_number(sample.response) for sample in samples])
    errors = {name: np.abs(np.array([_number(text) for text in texts]) - gold) for name, texts in written.items()}
    ones = np.ones(len(gold))
    report: dict[str, Any] = {}
    for name, error in errors.items():
        read = ~np.isnan(error)
        both = read & ~np.isnan(errors["mle"])
        right, reference = (error == 0).astype(float), (errors["mle"] == 0).astype(float)
        other = name != "mle"
        report[name] = {
            "read": _entry(bootstrap_ratio((read.astype(float), ones)), None),
            "right": _entry(
                bootstrap_ratio((right, ones)), bootstrap_ratio((right, ones), (reference, ones)) if other else None
            ),
            "log10_error": _entry(
                bootstrap_ratio((_log_error(error[read]), ones[read])),
                bootstrap_ratio((_log_error(error[both]), ones[both]), (_log_error(errors["mle"][both]), ones[both]))
                if other
                else None,
            ),
            "mean_absolute_error": float(error[read].mean()) if read.any() else None,
            "median_absolute_error": float(np.median(error[read])) if read.any() else None,
        }
    return report


def _log_error(error: NDArray[np.float64]) -> NDArray[np.float64]:
    """log10(1 + |error|), which a single absurd number cannot rule."""
    return np.log10(1 + error)


def _number(text: str) -> float:
    """The final number of an answer; NaN where none can be read."""
    reading = read_answer("number", text)
    found = reading.strict or reading.flexible
    try:
        return float(found) if found is not None else float("nan")
    except (ValueError, OverflowError):
        return float("nan")


def _entry(value: Interval, difference: Interval | None) -> dict[str, Any]:
    return {
        "value": dataclasses.asdict(value),
        "difference_to_mle": None if difference is None else dataclasses.asdict(difference),
    }

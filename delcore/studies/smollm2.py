"""SmolLM2-135M with LoRA on GSM8K under four losses, compared on held-out answers.

python -m delcore.studies smollm2 --model SmolLM2-135M-Instruct.gguf --data-dir BENCHMARKS --work runs/smollm2
--out notebooks/studies/smollm2
"""

import argparse
import dataclasses
import functools
import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delcore.adapters import ADAPTER_RECORD, read_record
from delcore.arithmetic import Sample
from delcore.benchmarks.metrics import accuracy, compare, measure_distances, unread_share
from delcore.benchmarks.runner import evaluate_model
from delcore.benchmarks.saved_runs import EvaluationRun
from delcore.benchmarks.settings import EvaluationConfig
from delcore.checkpoints import write_json
from delcore.config import TrainConfig
from delcore.evaluate import DIGIT_MEASURES, measure_digits_by_sample
from delcore.fingerprints import fingerprint_samples
from delcore.intervals import Interval, bootstrap_ratio, format_signed
from delcore.models import LoadedModel, load_model
from delcore.recipes import config_from
from delcore.run_logs import METRICS
from delcore.sources import load_samples
from delcore.sweep import finished_record
from delcore.train import finetune_to_end

logger = logging.getLogger("delcore.studies")

SMOLLM2_LOSSES = ("mle", "ntl_was", "dist2", "del")
SMOLLM2 = "HuggingFaceTB/SmolLM2-135M-Instruct"
"""Where others find the base of the adapters; ours was dequantised from 4 bits, so its weights differ a little."""

HELDOUT = 200
NEW_TOKENS = 256
TRAIN, TEST = "gsm8k_train.jsonl", "gsm8k_test.jsonl"
BENCHMARKS = ("gsm8k", "svamp", "sat")
LIMITS = "One training seed: intervals are over items only and say nothing of another seed's runs."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its part of the command line."""
    parser.add_argument("--model", required=True, help="its .gguf file, folder or hub id")
    parser.add_argument("--data-dir", required=True, type=Path, help=f"folder with {TRAIN}, {TEST} and the benchmarks")
    parser.add_argument("--work", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--out", type=Path, required=True, help="folder for adapters and results")
    parser.add_argument("--benchmarks", default=",".join(BENCHMARKS), help="what is asked (default: %(default)s)")
    parser.set_defaults(run=run_smollm2)


def run_smollm2(arguments: argparse.Namespace) -> None:
    """Train what is missing, measure what is missing, write the results."""
    work: Path = arguments.work
    load = functools.cache(lambda: load_model(arguments.model))
    for loss in SMOLLM2_LOSSES:
        settings = {"model": arguments.model, "data": str(arguments.data_dir / TRAIN), "out": work / loss}
        train_member(config_from("smollm2-lora", loss=loss, resume=True, **settings), load)
        keep_adapter(work / loss, arguments.out / loss)
    found = load_samples(str(arguments.data_dir / TEST), template="alpaca")
    samples = [found[i] for i in range(min(HELDOUT, len(found)))] if found is not None else []
    sums = {}
    runs: dict[str, list[EvaluationRun]] = {}
    benchmarks = arguments.benchmarks.split(",")
    for name in ("base", *SMOLLM2_LOSSES):
        source = arguments.model if name == "base" else str(work / name)
        sums[name] = digit_sums(work / "measured" / f"{name}.json", source, samples)
        runs[name] = _evaluate(source, work / "evaluated" / name, arguments.data_dir, benchmarks)
    result = {
        "command": command_of(arguments),
        "limits": LIMITS,
        "run": read_record(arguments.out / "mle"),
        "items": len(samples),
        "digits": compare_digits(sums),
        "answers": {
            task: compare_answers({name: found[i].records for name, found in runs.items()})
            for i, task in enumerate(benchmarks)
        },
        "seconds": {name: {run.header["task"]: run.header["seconds"] for run in found} for name, found in runs.items()},
        "fingerprints": {name: found[0].header["model_fingerprint"] for name, found in runs.items()},
    }
    write_json(arguments.out / "results.json", result)


def command_of(arguments: argparse.Namespace) -> str:
    """The command that makes the results again; files and folders by their last names only, a hub id in full."""
    model = Path(arguments.model)
    named = {"model": model.absolute().name if model.exists() or model.is_absolute() else arguments.model}
    named |= {name: getattr(arguments, name.replace("-", "_")).absolute().name for name in ("data-dir", "work", "out")}
    named["benchmarks"] = arguments.benchmarks
    return " ".join(["python -m delcore.studies smollm2", *(f"--{name} {value}" for name, value in named.items())])


def train_member(config: TrainConfig, load: Callable[[], LoadedModel]) -> None:
    """Train or resume a run unless it is done; `load` gives the model to compare a finished run with.

    Raises:
        InputError: the folder holds a run of other settings, weights or data.
        StoppedError: a signal ended the run.
    """
    if finished_record(config, load) is not None:
        return
    logger.info("training %s", config.loss)
    finetune_to_end(config, logger.info)


def _evaluate(source: str, out: Path, data_dir: Path, benchmarks: Sequence[str]) -> list[EvaluationRun]:
    """Greedy answers to the first items of each benchmark; what is there is not asked again."""
    config = EvaluationConfig(
        source, benchmarks, out=out, data_dir=data_dir, limit=HELDOUT, max_new_tokens=NEW_TOKENS, device="cpu"
    )
    return evaluate_model(config, progress=logger.info)


def keep_adapter(run: Path, out: Path) -> None:
    """A copy of a run's adapter in half precision, with its record; files and folders by their last names only."""
    from safetensors.torch import load_file, save_file

    out.mkdir(parents=True, exist_ok=True)
    weights = {key: value.half().contiguous() for key, value in load_file(run / "adapter_model.safetensors").items()}
    save_file(weights, out / "adapter_model.safetensors", metadata={"format": "pt"})
    adapter = json.loads((run / "adapter_config.json").read_text(encoding="utf-8"))
    record = read_record(run)
    assert record, "a finished run has one"
    record["model_path"] = None
    for name in ("model", "data", "out"):
        record["settings"][name] = Path(record["settings"][name]).name
    write_json(out / "adapter_config.json", {**adapter, "base_model_name_or_path": SMOLLM2})
    write_json(out / ADAPTER_RECORD, record)
    (out / METRICS).write_bytes((run / METRICS).read_bytes())


def digit_sums(file: Path, source: str, samples: Sequence[Sample]) -> NDArray[np.float64]:
    """`measure_digits_by_sample`, kept in a file that names the weights and samples it was measured with."""
    loaded = load_model(source)
    key = {"revision": loaded.card.revision, "items": len(samples), "data_sha256": fingerprint_samples(samples)}
    found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
    if not isinstance(found, dict) or found["key"] != key:
        found = {"key": key, "sums": measure_digits_by_sample(loaded, samples).tolist()}
        write_json(file, found)
        logger.info("measured %s", file.stem)
    return np.array(found["sums"])


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


def compare_answers(records: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Of each model: shares read and right, and how far its numbers are off; differences are to `mle`.

    Answers are read flexibly. Distances are compared over the items where both models wrote a number.
    """
    return {
        name: {
            "unread": _plain(unread_share(own, "flexible")),
            "right": _plain(accuracy(own, "flexible")),
            "right_strict": _plain(accuracy(own, "strict")),
            "change_to_mle": None if name == "mle" else _plain(compare(records["mle"], own, "flexible")),
            "distances": _plain(measure_distances(own)),
            "log_error_change_to_mle": None if name == "mle" else _plain(_log_change(own, records["mle"])),
        }
        for name, own in records.items()
    }


def _log_change(own: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> Interval | None:
    """Mean change of log10(1 + |error|), over the items where both have one."""
    pairs = [pair for pair in map(_log_errors, own, others) if None not in pair]
    ones = np.ones(len(pairs))
    own_errors, other_errors = np.array(pairs, dtype=float).reshape(-1, 2).T
    return bootstrap_ratio((own_errors, ones), (other_errors, ones)) if pairs else None


def _log_errors(own: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[float | None, float | None]:
    one, two = (measure_distances([record]).log_mae for record in (own, other))
    return one, two


def _plain(value: Any) -> Any:
    """A result as JSON holds it."""
    if value is None:
        return None
    facts = dataclasses.asdict(value)
    return json.loads(json.dumps(facts, default=_plain_number))


def _plain_number(value: Any) -> float | str:
    """A decimal number with six digits; as text where no float is so large, for JSON has no infinity."""
    number = float(f"{value:.6g}")
    return number if math.isfinite(number) else f"{value:.6g}"


# ---------------------------------------------------------------- for people

DIGIT_COLUMNS = {
    "nll_nats": "NLL, nats",
    "entropy_nats": "entropy, nats",
    "accuracy": "accuracy",
    "expected_digit_error": "abs(E[k] − c)",
    "mass": "digit mass",
}


def format_digits(result: Mapping[str, Any]) -> str:
    """The digits of right answers as a Markdown table; in brackets the paired difference to `mle` and its interval."""
    lines = ["| model | " + " | ".join(DIGIT_COLUMNS.values()) + " |", "|---" * (1 + len(DIGIT_COLUMNS)) + "|"]
    for name, measures in result["digits"].items():
        cells = [_format_cell(measures[key]["value"], measures[key]["difference_to_mle"]) for key in DIGIT_COLUMNS]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def format_answers(result: Mapping[str, Any]) -> str:
    """The greedy answers as a Markdown table: right and unread in percent, log10(1 + abs error) where read."""
    titles = ("benchmark", "model", "right, %", "unread, %", "log10(1 + abs error)", "median abs error")
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for task, models in result["answers"].items():
        for name, facts in models.items():
            change = facts["change_to_mle"]
            right = _format_cell(facts["right"], change and change["difference"], scale=100, digits=1)
            error = facts["distances"]["log_mae"]
            shown = "–" if error is None else f"{error:.2f}"
            change = facts["log_error_change_to_mle"]
            shown += f" ({_format_change(change, digits=2)})" if change else ""
            middle = facts["distances"]["median_absolute"]
            cells = (task, f"`{name}`", right, f"{100 * facts['unread']['mean']:.1f}", shown)
            lines.append("| " + " | ".join([*cells, "–" if middle is None else f"{middle:g}"]) + " |")
    return "\n".join(lines)


def _format_cell(
    value: Mapping[str, float], difference: Mapping[str, float] | None, *, scale: float = 1, digits: int = 3
) -> str:
    shown = f"{scale * value['mean']:.{digits}f}"
    if difference is None:
        return shown
    return f"{shown} ({_format_change(difference, scale=scale, digits=digits)})"


def _format_change(difference: Mapping[str, float], *, scale: float = 1, digits: int) -> str:
    return ", ".join(format_signed(scale * difference[key], digits) for key in ("mean", "low", "high"))


def _entry(value: Interval, difference: Interval | None) -> dict[str, Any]:
    return {
        "value": dataclasses.asdict(value),
        "difference_to_mle": None if difference is None else dataclasses.asdict(difference),
    }

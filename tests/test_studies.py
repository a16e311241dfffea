"""What the studies compute from their measurements; the runs themselves take hours and are not repeated here."""

import argparse
import dataclasses
import json
import signal
from pathlib import Path

import numpy as np
import pytest

from delcore import InputError, TrainConfig, load_model, train
from delcore.adapters import ADAPTER_RECORD, read_record
from delcore.arithmetic import Sample
from delcore.errors import StoppedError
from delcore.evaluate import DIGIT_MEASURES, measure_digits_by_sample
from delcore.studies import smollm2
from delcore.studies.smollm2 import (
    command_of,
    compare_answers,
    compare_digits,
    digit_sums,
    format_answers,
    format_digits,
    keep_adapter,
    train_member,
)
from delcore.train import Run
from tests.models_for_tests import tiny_loaded

ROOT = Path(__file__).parent.parent


def test_stopped_run_stops_the_study(tmp_path, monkeypatch):
    config = TrainConfig(loss="mle", out=tmp_path, steps=2)
    monkeypatch.setattr(train, "finetune", lambda *_, **__: Run(tmp_path, [], config, 1, stopped_by=signal.SIGTERM))
    with pytest.raises(StoppedError) as stopped:
        train_member(config, lambda: load_model("embedded"))
    assert stopped.value.args == (signal.SIGTERM,)


def test_finished_run_is_taken_only_with_the_same_settings(tmp_path, monkeypatch):
    config = TrainConfig(loss="mle", out=tmp_path / "mle", steps=1, batch_size=2, device="cpu", resume=True)
    train_member(config, lambda: load_model("embedded"))
    monkeypatch.setattr(train, "finetune", lambda *_, **__: pytest.fail("a finished run was run again"))
    train_member(config, lambda: load_model("embedded"))
    with pytest.raises(InputError, match="another configuration: `learning_rate`"):
        train_member(dataclasses.replace(config, learning_rate=1e-2), lambda: load_model("embedded"))


def test_digit_sums_are_kept_for_the_same_weights_and_samples_only(tmp_path, monkeypatch):
    file, samples = tmp_path / "measured" / "base.json", [Sample("1 + 1 = ", "2"), Sample("pi is ", "3.1")]
    monkeypatch.setattr(smollm2, "load_model", lambda _: tiny_loaded(seed=0))
    first = digit_sums(file, "base", samples)
    monkeypatch.setattr(smollm2, "measure_digits_by_sample", lambda *_: pytest.fail("measured again"))
    assert (digit_sums(file, "base", samples) == first).all()
    monkeypatch.setattr(smollm2, "measure_digits_by_sample", measure_digits_by_sample)
    assert len(digit_sums(file, "base", samples[:1])) == 1
    monkeypatch.setattr(smollm2, "load_model", lambda _: tiny_loaded(seed=1))
    other = digit_sums(file, "base", samples)
    assert (other == measure_digits_by_sample(tiny_loaded(seed=1), samples).numpy()).all() and (other != first).any()


def test_recorded_command_is_complete_and_names_no_folders_of_the_machine():
    parser = argparse.ArgumentParser()
    smollm2.add_arguments(parser)
    flags = {"model": "/home/me/base.gguf", "data-dir": "/home/me/data", "work": "/tmp/w", "out": "/tmp/o"}
    arguments = parser.parse_args([part for name, value in flags.items() for part in (f"--{name}", value)])
    command = command_of(arguments)
    assert command.startswith("python -m delcore.studies smollm2 ") and "/" not in command
    again = parser.parse_args(command.split()[4:])
    assert (again.model, str(again.data_dir), str(again.work), str(again.out)) == ("base.gguf", "data", "w", "o")
    arguments.model = smollm2.SMOLLM2
    assert f"--model {smollm2.SMOLLM2} " in command_of(arguments)


def test_error_too_large_for_a_float_is_written_as_json():
    record = record_of(0, "1" + "0" * 400, "7")
    distances = compare_answers({"mle": [record]})["mle"]["distances"]
    assert distances["mean_absolute"] == "1.00000e+400"
    json.loads(json.dumps(distances, allow_nan=False))


def test_digit_measures_are_ratios_with_paired_differences():
    sums = np.random.default_rng(0).uniform(1, 2, (30, 6))
    shifted = sums.copy()
    shifted[:, :5] += 0.5 * shifted[:, 5:]
    report = compare_digits({"mle": sums, "del": shifted})
    for column, measure in enumerate(DIGIT_MEASURES):
        assert report["mle"][measure]["value"]["mean"] == pytest.approx(sums[:, column].sum() / sums[:, 5].sum())
        assert report["mle"][measure]["difference_to_mle"] is None
        assert report["del"][measure]["difference_to_mle"]["low"] == pytest.approx(0.5)


def record_of(index: int, gold: str, found: str | None) -> dict:
    right = found == gold
    readings = {"strict": found, "flexible": found, "correct_strict": right, "correct_flexible": right}
    return {"index": index, "id": str(index), "kind": "number", "gold": gold, **readings}


def test_answers_that_cannot_be_read_count_as_wrong_and_have_no_error():
    golds = ("4", "10", "7")
    written = {"mle": ("4", None, "8"), "del": ("4", "10", "9")}
    report = compare_answers(
        {
            name: [record_of(i, *pair) for i, pair in enumerate(zip(golds, found, strict=True))]
            for name, found in written.items()
        }
    )
    assert report["mle"]["unread"]["mean"] == pytest.approx(1 / 3)
    assert report["mle"]["right"]["mean"] == pytest.approx(1 / 3)
    assert report["mle"]["change_to_mle"] is None
    assert report["mle"]["distances"]["mean_absolute"] == 0.5
    assert report["del"]["change_to_mle"]["difference"]["mean"] == pytest.approx(1 / 3)
    change = report["del"]["log_error_change_to_mle"]
    assert change["count"] == 2  # where both could be read
    assert change["mean"] == pytest.approx((np.log10(3) - np.log10(2)) / 2)
    json.dumps(report)


def test_kept_adapter_is_in_half_precision_with_its_record(tmp_path):
    from safetensors.torch import load_file, save_file
    from torch import ones

    run = tmp_path / "run"
    run.mkdir()
    save_file({"lora_A": ones(2, 3)}, run / "adapter_model.safetensors")
    settings = {"model": "/home/me/base.gguf", "data": "/home/me/train.jsonl", "out": str(run)}
    (run / "adapter_config.json").write_text('{"base_model_name_or_path": "/home/me/.cache/base"}')
    (run / ADAPTER_RECORD).write_text(json.dumps({"settings": settings, "model_path": "/home/me/base.gguf"}))
    (run / "metrics.jsonl").write_text("{}")
    keep_adapter(run, tmp_path / "out")
    assert read_record(tmp_path / "out")["settings"] == {"model": "base.gguf", "data": "train.jsonl", "out": "run"}
    assert "/home" not in "".join(file.read_text() for file in (tmp_path / "out").glob("*.json"))
    assert str(load_file(tmp_path / "out" / "adapter_model.safetensors")["lora_A"].dtype) == "torch.float16"
    assert len(list((tmp_path / "out").iterdir())) == 4


def test_readme_shows_the_tables_of_the_stored_results():
    result = json.loads((ROOT / "notebooks" / "studies" / "smollm2" / "results.json").read_text(encoding="utf-8"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for table in (format_digits(result), format_answers(result)):
        assert table in readme

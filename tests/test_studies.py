"""What the studies compute from their measurements; the runs themselves take hours and are not repeated here."""

import json

import numpy as np
import pytest

from delcore.arithmetic import Sample
from delcore.evaluate import DIGIT_MEASURES
from delcore.studies import smollm2
from delcore.studies.smollm2 import compare_answers, compare_digits, keep_adapter
from tests.models_for_tests import tiny_loaded


def test_digit_measures_are_ratios_with_paired_differences():
    sums = np.random.default_rng(0).uniform(1, 2, (30, 6))
    shifted = sums.copy()
    shifted[:, :5] += 0.5 * shifted[:, 5:]
    report = compare_digits({"mle": sums, "del": shifted})
    for column, measure in enumerate(DIGIT_MEASURES):
        assert report["mle"][measure]["value"]["mean"] == pytest.approx(sums[:, column].sum() / sums[:, 5].sum())
        assert report["mle"][measure]["difference_to_mle"] is None
        assert report["del"][measure]["difference_to_mle"]["low"] == pytest.approx(0.5)


def test_answers_that_cannot_be_read_count_as_wrong_and_have_no_error():
    samples = [Sample("q", "so\n#### 4"), Sample("q", "so\n#### 10"), Sample("q", "so\n#### 7")]
    written = {"mle": ["#### 4", "no idea", "#### 8"], "del": ["#### 4", "#### 10", "#### 9"]}
    report = compare_answers(written, samples)
    assert report["mle"]["read"]["value"]["mean"] == pytest.approx(2 / 3)
    assert report["mle"]["right"]["value"]["mean"] == pytest.approx(1 / 3)
    assert report["mle"]["mean_absolute_error"] == 0.5
    assert report["del"]["right"]["difference_to_mle"]["mean"] == pytest.approx(1 / 3)
    assert report["del"]["log10_error"]["difference_to_mle"]["count"] == 2  # where both could be read
    assert report["del"]["log10_error"]["difference_to_mle"]["mean"] == pytest.approx((np.log10(3) - np.log10(2)) / 2)


def test_written_answers_are_kept_line_by_line_and_not_written_twice(tmp_path, monkeypatch):
    loaded, samples = tiny_loaded(), [Sample(f"{n} + 1 = ", str(n + 1)) for n in range(5)]
    monkeypatch.setattr(smollm2, "NEW_TOKENS", 3)
    monkeypatch.setattr(smollm2, "BATCH", 2)
    file = tmp_path / "written.jsonl"
    texts = smollm2._written(file, loaded, samples)
    lines = file.read_text().splitlines()
    assert sorted(json.loads(line)["index"] for line in lines) == list(range(5))
    file.write_text("\n".join(lines[:2]) + "\n")
    assert smollm2._written(file, loaded, samples) == texts
    monkeypatch.setattr(smollm2, "write_greedily", lambda *_: pytest.fail("written again"))
    assert smollm2._written(file, loaded, samples) == texts


def test_kept_adapter_is_in_half_precision_with_its_record(tmp_path):
    from safetensors.torch import load_file, save_file
    from torch import ones

    run = tmp_path / "run"
    run.mkdir()
    save_file({"lora_A": ones(2, 3)}, run / "adapter_model.safetensors")
    for name in ("adapter_config.json", "config.json", "metrics.jsonl"):
        (run / name).write_text("{}")
    keep_adapter(run, tmp_path / "out")
    assert str(load_file(tmp_path / "out" / "adapter_model.safetensors")["lora_A"].dtype) == "torch.float16"
    assert len(list((tmp_path / "out").iterdir())) == 4

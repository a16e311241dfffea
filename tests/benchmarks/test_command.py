"""`delcore evaluate` and `delcore bench generate`: what they print, and what they refuse in one line."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from delcore import bench_generate
from delcore.benchmarks import runner
from delcore.benchmarks.saved_runs import read_run
from delcore.benchmarks.settings import EvaluationConfig
from tests.benchmarks.files_for_tests import write_all
from tests.models_for_tests import save_tiny, tiny_loaded
from tests.test_cli import assert_refused, run_cli


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("model") / "tiny", context=700)


@pytest.fixture
def small(model, tmp_path):
    data = write_all(tmp_path / "data")
    return ("--model", model, "--data-dir", data, "--max-new-tokens", 4, "--device", "cpu", "--out", tmp_path / "out")


def test_embedded_model_answers_additions_out_of_the_box(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run_cli(capsys, "evaluate", "--benchmark", "arithmetic", "--limit", 30, "--device", "cpu")
    assert code == 0
    header, row = out.splitlines()
    assert header.split()[:2] == ["task", "n"]
    name, count, strict, flexible, unread, seconds = row.split()
    assert (name, count, unread) == ("arithmetic", "30", "0.0")
    assert float(flexible) >= float(strict) > 80
    assert float(seconds) > 0
    assert "Held-out additions: 30 items" in err
    (folder,) = (tmp_path / "runs" / "evaluate").iterdir()
    assert folder.name.startswith("embedded-")
    assert read_run(folder / "arithmetic").finished


def test_all_seven_are_a_table_and_as_json_a_list(capsys, small, tmp_path):
    code, out, _ = run_cli(capsys, "evaluate", "--benchmark", "all", *small)
    assert code == 0
    names = ["gsm8k", "math500", "svamp", "simuleq", "aqua", "sat", "mmlu"]
    assert [line.split()[0] for line in out.splitlines()] == ["task", *names]
    code, out, _ = run_cli(capsys, "evaluate", "--benchmark", "all", *small, "--json")
    rows = json.loads(out)
    assert [row["task"] for row in rows] == names
    assert rows[0]["path"] == str(tmp_path / "out" / "gsm8k")
    code, again, _ = run_cli(capsys, "evaluate", "--rescore", tmp_path / "out", "--json")
    assert code == 0
    assert sorted(json.loads(again), key=str) == sorted(rows, key=str)


def test_report_is_written_beside_the_runs_and_its_files_are_named(capsys, small, tmp_path):
    run_cli(capsys, "evaluate", "--benchmark", "svamp,gsm8k", *small)
    code, out, _ = run_cli(capsys, "evaluate", "--report", tmp_path / "out")
    assert code == 0
    files = [Path(line) for line in out.splitlines()]
    assert [file.name for file in files] == ["report.md", "report.html"]
    assert "SVAMP" in files[0].read_text()
    assert_refused(capsys, "evaluate", "--report", tmp_path / "data", words=["evaluation.json"])


def test_programs_are_asked_for_where_they_may_run(capsys, small, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "check_sandbox", lambda: None)
    code, _, _ = run_cli(capsys, "evaluate", "--benchmark", "svamp", *small, "--run-programs")
    assert code == 0
    header = json.loads((tmp_path / "out" / "svamp" / "evaluation.json").read_text())
    assert (header["style"], header["settings"]["run_programs"]) == ("pot", True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--benchmark", "gsm9k"), ["`--benchmark`", "gsm8k"]),
        (("--benchmark", "gsm8k", "--limit", 0), ["`--limit`"]),
        (("--benchmark", "gsm8k", "--style", "pot"), ["--run-programs"]),
        (("--benchmark", "gsm8k", "--dtype", "int4"), ["`--dtype`"]),
        (("--benchmark", "math"), ["--benchmark math500"]),
        (("--benchmark", "gsm8k", "--device", "nope"), ["`--device`"]),
        (("--benchmark", "gsm8k", "--model", "none/here/at-all"), ["`--model`"]),
    ],
)
def test_what_cannot_be_run_is_one_line(capsys, small, tmp_path, arguments, words):
    if "--device" in arguments or "--model" in arguments:
        small = tuple(part for part in small if part not in ("--device", "cpu"))
    assert_refused(capsys, "evaluate", *small, *arguments, words=words)
    assert not (tmp_path / "out").exists()


def test_run_of_other_settings_in_the_folder_is_one_line(capsys, small):
    assert run_cli(capsys, "evaluate", "--benchmark", "sat", *small)[0] == 0
    assert_refused(capsys, "evaluate", "--benchmark", "sat", *small, "--seed", 1, words=["seed was 0 and is 1"])


def test_reading_again_what_is_no_run_is_one_line(capsys, tmp_path):
    assert_refused(capsys, "evaluate", "--rescore", tmp_path, words=["evaluation.json"])
    assert_refused(capsys, "evaluate", "--rescore", tmp_path, "--out", tmp_path / "out", words=["Leave --out away"])


def test_bench_of_answering_prints_both_ratios(capsys):
    arguments = ("bench", "generate", "--limit", 4, "--max-new-tokens", 3, "--rounds", 1, "--device", "cpu")
    code, out, _ = run_cli(capsys, *arguments)
    assert code == 0
    assert "items per second, against one by one" in out
    code, out, _ = run_cli(capsys, *arguments, "--json")
    result = json.loads(out)
    assert result["settings"]["items"] == 4
    assert all(low > 0 for low in result["items_per_second"] + result["tokens_per_second"])
    assert_refused(capsys, *arguments, "--benchmark", "gsm8k,svamp", words=["must name one"])


def test_bench_of_answering_asks_both_sides_the_same_in_the_same_way(monkeypatch):
    loaded, calls = tiny_loaded(context=32), []
    loaded.model.generation_config.repetition_penalty = 1.5
    usual = loaded.model.generate

    def generate(**given):
        calls.append({**given, "penalty": loaded.model.generation_config.repetition_penalty})
        return usual(**given)

    monkeypatch.setattr(loaded.model, "generate", generate)
    monkeypatch.setattr(bench_generate, "load_model", lambda *_, **__: loaded)
    prompts = ["1 + 1 =", "1<|end|>2", "7" * 30, "7" * 40]  # the last is too long, the one before nearly
    items = [SimpleNamespace(prompt=prompt) for prompt in prompts]
    monkeypatch.setattr(bench_generate, "load_task", lambda *_: items)
    config = EvaluationConfig("tiny", ["arithmetic"], batch_size=1, max_new_tokens=3, device="cpu")
    bench_generate.bench_generation(config, rounds=1)
    ours, loop = calls[1:4], calls[4:]
    assert sorted(call["input_ids"].tolist() for call in loop) == sorted(call["input_ids"].tolist() for call in ours)
    assert (
        sorted(call["max_new_tokens"] for call in loop) == sorted(call["max_new_tokens"] for call in ours) == [1, 3, 3]
    )
    assert {call["penalty"] for call in calls} == {None}

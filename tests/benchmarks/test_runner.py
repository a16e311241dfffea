"""A run from beginning to end: records, resuming, programs and their fallback, several processes, reading again."""

import dataclasses
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch

import delcore
from delcore import InputError
from delcore.benchmarks import rescore as rescoring
from delcore.benchmarks import runner, scoring
from delcore.benchmarks.generate import Answer
from delcore.benchmarks.rescore import format_summaries, rescore, summarise
from delcore.benchmarks.runner import evaluate_model
from delcore.benchmarks.saved_runs import HEADER, HEADER_FIELDS, RECORD_FIELDS, RECORDS, load_run, read_run
from delcore.benchmarks.settings import EvaluationConfig, fingerprint_model
from delcore.benchmarks.tasks import load_task
from delcore.errors import StoppedError
from delcore.programs import check_sandbox
from tests.benchmarks.files_for_tests import LOCAL, write_all
from tests.benchmarks.runs_for_tests import write_run
from tests.models_for_tests import save_tiny, tiny_loaded
from tests.processes_for_tests import LAUNCH, end_python, start_python


@pytest.fixture
def data(tmp_path):
    return write_all(tmp_path / "data")


@pytest.fixture
def config(tmp_path):
    return EvaluationConfig("tiny", ["arithmetic"], out=tmp_path / "out", limit=9, batch_size=4, device="cpu")


@pytest.fixture
def written(monkeypatch):
    """Prompts that a model was really asked, and a way to answer in its place."""
    asked = []
    usual = runner.answer_greedily

    def answer(model, tokenizer, prompts, **more):
        for batch in usual(model, tokenizer, prompts, **more):
            asked.extend(prompts[i] for i, _ in batch)
            yield batch

    monkeypatch.setattr(runner, "answer_greedily", answer)
    return asked


def scripted(monkeypatch, write):
    """Answers each prompt with `write(prompt)`."""
    asked = []

    def answer(model, tokenizer, prompts, **_):
        asked.extend(prompts.values())
        yield [(i, Answer(write(prompt), 3, "end")) for i, prompt in prompts.items()]

    monkeypatch.setattr(runner, "answer_greedily", answer)
    return asked


# ---------------------------------------------------------------- one run


def test_run_leaves_a_header_and_a_record_for_every_item(config):
    (run,) = evaluate_model(config, loaded=tiny_loaded())
    assert run.path == config.out / "arithmetic"
    assert sorted(os.listdir(run.path)) == [HEADER, RECORDS]
    assert set(HEADER_FIELDS) <= set(run.header)
    assert (run.header["items"], run.header["model"], run.header["task_version"]) == (9, "tiny", 1)
    assert run.header["seconds"] > 0
    assert [record["index"] for record in run.records] == list(range(9))
    assert [record["id"] for record in run.records] == [item.id for item in load_task("arithmetic", limit=9)]
    assert all(set(RECORD_FIELDS) <= set(record) for record in run.records)
    assert all(record["tokens"] <= 16 for record in run.records)


def test_records_do_not_depend_on_the_batches(config, tmp_path):
    found = [
        evaluate_model(dataclasses.replace(config, out=tmp_path / str(size), batch_size=size), loaded=tiny_loaded())[
            0
        ].records
        for size in (1, 4, 50)
    ]
    assert found[0] == found[1] == found[2]


def test_all_seven_run_and_each_has_its_folder(config, data):
    names = list(LOCAL)
    config = dataclasses.replace(config, benchmarks=names, data_dir=data, max_new_tokens=5)
    lines = []
    runs = evaluate_model(config, loaded=tiny_loaded(context=600), progress=lines.append)
    assert [run.path.name for run in runs] == names
    assert all(run.finished and run.header["settings"]["max_new_tokens"] == 5 for run in runs)
    assert "GSM8K: 2 items" in lines
    assert any(line.startswith("MMLU-Math: 2 of 2 answers, 0 min 00 s left") for line in lines)


def test_prompt_that_is_too_long_is_a_record_and_not_the_end(config, data):
    config = dataclasses.replace(config, benchmarks=["gsm8k"], data_dir=data)
    (run,) = evaluate_model(config, loaded=tiny_loaded(context=64))
    assert [record["finish"] for record in run.records] == ["prompt_too_long"] * 2
    assert [record["flexible"] for record in run.records] == [None, None]
    row = summarise(run)
    assert (row["no_room"], row["unread"]) == (2, 1.0)
    header, line, note = format_summaries([row]).splitlines()
    assert header.split()[-3:] == ["no", "room", "seconds"]
    assert line.split()[-2] == "2"
    assert "did not fit" in note


def test_fingerprint_is_that_of_the_model_wherever_it_lies(tmp_path):
    loaded = tiny_loaded()
    found = fingerprint_model(loaded)
    assert fingerprint_model(delcore.load_model(save_tiny(tmp_path / "copy"))) == found
    for weights in loaded.model.state_dict().values():  # each of them counts, and each part of it
        before = weights.flatten()[1].item()
        weights.flatten()[1] += 1e-3
        assert fingerprint_model(loaded) != found
        weights.flatten()[1] = before
    assert fingerprint_model(loaded) == found


def test_fingerprint_of_the_same_weights_with_another_tokenizer_is_another(tmp_path):
    folder = save_tiny(tmp_path / "swapped")
    found = fingerprint_model(delcore.load_model(folder))
    file = folder / "tokenizer.json"
    text = json.loads(file.read_text())
    vocab = text["model"]["vocab"]
    vocab["1"], vocab["2"] = vocab["2"], vocab["1"]
    file.write_text(json.dumps(text))
    assert fingerprint_model(delcore.load_model(folder)) != found


def test_refused_run_leaves_no_folder_of_another_benchmark(config, data, tmp_path):
    (tmp_path / "out" / "svamp").mkdir(parents=True)
    (tmp_path / "out" / "svamp" / "notes.txt").touch()
    config = dataclasses.replace(config, benchmarks=["gsm8k", "svamp"], data_dir=data, out=tmp_path / "out")
    with pytest.raises(InputError, match="holds other files"):
        evaluate_model(config, loaded=tiny_loaded(context=64))
    assert not (tmp_path / "out" / "gsm8k").exists()


def test_reading_latex_needs_its_package_before_the_first_answer(config, data, written, monkeypatch):
    def missing():
        raise InputError("Comparing LaTeX answers needs `math-verify`.")

    monkeypatch.setattr("delcore.answers.equality._math_verify", missing)
    with pytest.raises(InputError, match="needs `math-verify`"):
        evaluate_model(dataclasses.replace(config, benchmarks=["math500"], data_dir=data), loaded=tiny_loaded())
    assert not config.out.exists()


# ---------------------------------------------------------------- going on


def test_finished_run_is_not_run_again(config, written):
    first = evaluate_model(config, loaded=tiny_loaded())
    assert len(written) == 9
    assert evaluate_model(config, loaded=tiny_loaded()) == first
    assert len(written) == 9


def test_run_that_was_cut_short_goes_on_with_what_is_missing(config, written, monkeypatch):
    (whole,) = evaluate_model(dataclasses.replace(config, out=config.out / "whole"), loaded=tiny_loaded())
    written.clear()
    add, kept = runner.PartsFile.add, []

    def die(self, index, part, facts):
        if len(kept) == 5:
            raise KeyboardInterrupt
        kept.append(facts["prompt"])
        add(self, index, part, facts)

    monkeypatch.setattr(runner.PartsFile, "add", die)
    half = dataclasses.replace(config, out=config.out / "half")
    with pytest.raises(KeyboardInterrupt):
        evaluate_model(half, loaded=tiny_loaded())
    monkeypatch.setattr(runner.PartsFile, "add", add)
    file = half.out / "arithmetic" / "parts-0.jsonl"
    file.write_bytes(file.read_bytes()[:-10])  # as a crash leaves it
    written.clear()
    lines = []
    (run,) = evaluate_model(half, loaded=tiny_loaded(), progress=lines.append)
    assert run.records == whole.records
    assert len(written) == 5
    assert not set(written) & set(kept[:4])
    assert "Held-out additions: 9 items, 4 of them begun before" in lines


def test_signal_ends_it_and_keeps_what_is_finished(config, written, monkeypatch):
    usual = runner.PartsFile.add

    def send(self, index, part, facts):
        usual(self, index, part, facts)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(runner.PartsFile, "add", lambda self, *a: (monkeypatch.undo(), send(self, *a)))
    with pytest.raises(StoppedError) as stopped:
        evaluate_model(config, loaded=tiny_loaded())
    assert stopped.value.args == (signal.SIGTERM,)
    assert len((config.out / "arithmetic" / "parts-0.jsonl").read_text().splitlines()) == 4  # the batch that was done
    assert not (config.out / "arithmetic" / RECORDS).exists()
    parts = [json.loads(line) for line in (config.out / "arithmetic" / "parts-0.jsonl").read_text().splitlines()]
    (run,) = evaluate_model(config, loaded=tiny_loaded())
    assert run.finished
    assert run.header["seconds"] > sum(part["seconds"] for part in parts) > 0  # of both commands


def test_other_model_or_settings_in_the_same_folder_are_refused_before_any_answer(config, written):
    evaluate_model(config, loaded=tiny_loaded())
    before = (config.out / "arithmetic" / RECORDS).read_bytes()
    written.clear()
    for other, loaded in (
        (config, tiny_loaded(seed=1)),
        (dataclasses.replace(config, limit=8), tiny_loaded()),
        (dataclasses.replace(config, max_new_tokens=3), tiny_loaded()),
        (dataclasses.replace(config, seed=3), tiny_loaded()),
        (dataclasses.replace(config, dtype="bfloat16"), tiny_loaded()),
    ):
        with pytest.raises(InputError, match="holds another run"):
            evaluate_model(other, loaded=loaded)
    assert written == []
    assert (config.out / "arithmetic" / RECORDS).read_bytes() == before


def test_copied_folder_that_lost_its_end_gets_it_back(config, written):
    (run,) = evaluate_model(config, loaded=tiny_loaded())
    file = run.path / RECORDS
    file.write_bytes(file.read_bytes()[:-20])
    written.clear()
    (again,) = evaluate_model(config, loaded=tiny_loaded())
    assert again.records == run.records
    assert written == [run.records[8]["prompt"]]
    assert again.header["seconds"] > run.header["seconds"]  # what the others took is not forgotten


def test_run_that_was_killed_before_its_header_stood_is_finished_without_an_answer(config, written):
    (run,) = evaluate_model(config, loaded=tiny_loaded())
    (run.path / HEADER).write_text(json.dumps({**run.header, "seconds": None}))
    part = {"index": 0, "part": "text", "prompt": "", "output": "", "tokens": 1, "finish": "end", "seconds": 70}
    (run.path / "parts-0.jsonl").write_text(json.dumps(part) + "\n")
    written.clear()
    (again,) = evaluate_model(config, loaded=tiny_loaded())
    assert (again.records, written) == (run.records, [])
    assert again.header["seconds"] >= 70
    assert sorted(os.listdir(run.path)) == [HEADER, RECORDS]


def test_run_that_another_finished_meanwhile_is_taken_as_it_is(config, written, monkeypatch):
    """The other one ends after this one has looked and before it has the lock."""
    (whole,) = evaluate_model(dataclasses.replace(config, out=config.out / "whole"), loaded=tiny_loaded())
    late = config.out / "late"
    usual = runner.PartsFile

    def finish_first(path, rank):
        monkeypatch.setattr(runner, "PartsFile", usual)
        for name in (HEADER, RECORDS):
            (path / name).write_bytes((whole.path / name).read_bytes())
        return usual(path, rank)

    monkeypatch.setattr(runner, "PartsFile", finish_first)
    written.clear()
    (run,) = evaluate_model(dataclasses.replace(config, out=late), loaded=tiny_loaded())
    assert (run.header, run.records, written) == (whole.header, whole.records, [])
    assert sorted(os.listdir(run.path)) == [HEADER, RECORDS]


def test_lost_parts_of_another_process_are_told(config, monkeypatch):
    monkeypatch.setattr(runner, "dealt", lambda prompts, team: dict(list(prompts.items())[::2]))
    with pytest.raises(InputError, match="4 items have no answer in .*write to the same disk"):
        evaluate_model(config, loaded=tiny_loaded())


def test_memory_that_runs_out_is_told_with_the_remedy(config, monkeypatch):
    def fail(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        yield

    monkeypatch.setattr(runner, "answer_greedily", fail)
    with pytest.raises(InputError, match="Lower --batch-size"):
        evaluate_model(config, loaded=tiny_loaded())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"limit": 10**30}, "`--limit` must lie in"),
        ({"seed": 10**30}, "`--seed` must lie in"),
        ({"limit": 0}, "`--limit` must lie in"),
        ({"batch_size": 0}, "`--batch-size` must lie in"),
        ({"max_new_tokens": -1}, "`--max-new-tokens` must lie in"),
        ({"dtype": "int8"}, "`--dtype` must be one of float32"),
        ({"style": "pot"}, "--run-programs"),
        ({"benchmarks": ["gsm9k"]}, "`--benchmark` must name"),
    ],
)
def test_settings_out_of_range_are_refused(config, change, words):
    with pytest.raises(InputError, match=words):
        dataclasses.replace(config, **change)


# ---------------------------------------------------------------- programs


@pytest.fixture
def programs(config, data):
    try:
        check_sandbox()
    except InputError as error:
        pytest.skip(f"no sandbox: {error}")
    return dataclasses.replace(config, benchmarks=["gsm8k"], data_dir=data, limit=None, style="pot", run_programs=True)


def test_program_that_fails_is_followed_by_words(programs, monkeypatch):
    def write(prompt):
        if "write a program" not in prompt:
            return "The answer is 2,000."
        return "print(2 + 3)" if "hens" in prompt else "print(1 / 0)"

    asked = scripted(monkeypatch, write)
    (run,) = evaluate_model(programs, loaded=tiny_loaded())
    first, second = run.records
    assert (first["from"], first["outcome"], first["strict"], first["output"]) == ("program", "ok", "5", "print(2 + 3)")
    assert (second["from"], second["outcome"], second["strict"]) == ("text", "error", "2000")
    assert second["program"]["detail"] == "ZeroDivisionError: division by zero"
    assert [record["correct_strict"] for record in run.records] == [True, True]
    assert ["write a program" in prompt for prompt in asked] == [True, True, False]
    assert run.header["style"] == "pot"


def test_every_ending_of_a_program_is_followed_by_the_next_item(programs, monkeypatch):
    """Case B36: programs that read input or leave early; each of N items gets its record."""
    endings = {
        "print(input())": ("text", "asked_input"),
        "print(5)\nexit()": ("program", "ok"),
        "import sys\nprint(5)\nsys.exit(0)": ("program", "ok"),
        "print(5)\nraise KeyboardInterrupt": ("text", "error"),
        "import socket\nprint(socket.create_connection(('127.0.0.1', 9)))": ("text", "refused"),
        "print('x' * 50_000_000)": ("text", "output_cut"),
        "for i in range(20_000): print(i)": ("text", "output_cut"),
        "for i in range(2_000): print(i)": ("program", "ok"),
        "print(5)": ("program", "ok"),
    }
    sources = iter(endings)
    scripted(monkeypatch, lambda prompt: next(sources) if "write a program" in prompt else "no idea")
    config = dataclasses.replace(programs, benchmarks=["arithmetic"], limit=len(endings))
    (run,) = evaluate_model(config, loaded=tiny_loaded())
    assert [(record["from"], record["outcome"]) for record in run.records] == list(endings.values())
    assert run.finished


def test_text_without_a_program_runs_nothing(programs, monkeypatch):
    scripted(monkeypatch, lambda prompt: "The answer is 5.")
    (run,) = evaluate_model(programs, loaded=tiny_loaded())
    assert [(record["from"], record["outcome"]) for record in run.records] == [("text", None)] * 2


def test_words_after_programs_go_on_where_they_were_cut(programs, monkeypatch):
    def write(prompt):
        if "write a program" in prompt:
            return "print(5)" if "hens" in prompt else "x = 5\nprint()"
        raise KeyboardInterrupt

    scripted(monkeypatch, write)
    with pytest.raises(KeyboardInterrupt):
        evaluate_model(programs, loaded=tiny_loaded())
    asked = scripted(monkeypatch, lambda prompt: "I do not know.")
    (run,) = evaluate_model(programs, loaded=tiny_loaded())
    assert len(asked) == 1
    assert "write a program" not in asked[0]
    assert [(record["from"], record["outcome"]) for record in run.records] == [("program", "ok"), ("text", "no_output")]


def test_programs_without_a_sandbox_are_refused_before_anything_is_loaded(programs, monkeypatch):
    def none():
        raise InputError("Programs are only run in a sandbox")

    monkeypatch.setattr(runner, "check_sandbox", none)
    monkeypatch.setattr(runner, "load_model", lambda *_, **__: pytest.fail("loaded"))
    with pytest.raises(InputError, match="only run in a sandbox"):
        evaluate_model(programs)
    assert not programs.out.exists()


# ---------------------------------------------------------------- reading again


def test_reading_again_mends_the_records_and_keeps_the_rest(config):
    (run,) = evaluate_model(config, loaded=tiny_loaded())
    spoilt = [{**record, "strict": "99", "flexible": "99", "correct_strict": True} for record in run.records]
    (run.path / RECORDS).write_text("".join(json.dumps(record) + "\n" for record in spoilt))
    again = rescore(run.path)
    assert again.records == run.records == read_run(run.path).records
    assert {**run.header, "rescored_with": again.header["rescored_with"]} == again.header == read_run(run.path).header
    assert rescore(run.path).records == run.records


def test_run_from_before_readers_had_versions_goes_on_and_gets_one(config, written):
    (run,) = evaluate_model(config, loaded=tiny_loaded())
    assert run.header["reader_version"] == scoring.READER_VERSION
    old = {key: value for key, value in run.header.items() if key != "reader_version"}
    (run.path / HEADER).write_text(json.dumps(old))
    assert evaluate_model(config, loaded=tiny_loaded())[0].header == old  # finished: left as it is
    assert rescore(run.path).header["reader_version"] == scoring.READER_VERSION
    (run.path / HEADER).write_text(json.dumps(old))
    lines = [json.dumps({**record, "flexible": None, "correct_flexible": False}) for record in run.records]
    (run.path / RECORDS).write_text("\n".join(lines[:-1]) + "\n")
    (again,) = evaluate_model(config, loaded=tiny_loaded())
    assert again.header["reader_version"] == scoring.READER_VERSION
    assert again.records == run.records  # what the older reader left is read by today's
    assert len(written) == 10


def test_reading_again_says_that_the_task_has_changed(config, monkeypatch):
    (run,) = evaluate_model(config, loaded=tiny_loaded())
    newer = dataclasses.replace(rescoring.TASKS["arithmetic"], version=2)
    monkeypatch.setattr(rescoring, "TASKS", {"arithmetic": newer})
    lines = []
    rescore(run.path, lines.append)
    assert "asked version 1 of Held-out additions; this delcore has 2" in lines[0]


def test_run_of_an_unknown_task_is_not_read_again(tmp_path):
    folder = write_run(tmp_path / "odd", [], task="gsm9k")
    with pytest.raises(InputError, match=r"odd is of task 'gsm9k', which this delcore does not have"):
        rescore(folder)


def test_trial_with_a_limit_leaves_the_default_folder_to_the_whole_run(config, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    usual = {"limit": None, "out": None, "max_new_tokens": None}
    changes = [{}, {"limit": 5}, {"max_new_tokens": 8}, {"style": "pot", "run_programs": True}, {"dtype": "bfloat16"}]
    configs = [dataclasses.replace(config, **{**usual, **one}) for one in [*changes, {"seed": 3}]]
    folders = [runner.default_folder(one, "some/odd name", "f00d" * 16) for one in configs]
    assert len(set(folders)) == len(folders)
    assert folders[0] == Path("runs/evaluate/some-odd-name-f00df00d")
    assert folders[1].name == "some-odd-name-f00df00d-limit-5"
    same = dataclasses.replace(configs[0], batch_size=3)
    assert runner.default_folder(same, "some/odd name", "f00d" * 16) == folders[0]
    trial, longer = (evaluate_model(dataclasses.replace(configs[0], limit=n), loaded=tiny_loaded())[0] for n in (2, 3))
    assert (len(trial.records), len(longer.records)) == (2, 3)


def test_unfinished_run_is_not_read_again(config, monkeypatch):
    monkeypatch.setattr(runner.PartsFile, "add", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        evaluate_model(config, loaded=tiny_loaded())
    with pytest.raises(InputError, match="holds 0 of 9 items: it was stopped"):
        rescore(config.out / "arithmetic")


def test_summary_counts_every_item(config, monkeypatch):
    answers = iter(["The answer is 53.", "it may be 65", "The answer is 1. No: 70", "none", ""] + ["none"] * 4)
    scripted(monkeypatch, lambda prompt: next(answers))
    (run,) = evaluate_model(config, loaded=tiny_loaded())
    row = summarise(run)
    assert (row["task"], row["items"], row["strict"], row["flexible"]) == ("arithmetic", 9, 1 / 9, 2 / 9)
    assert row["unread"] == 6 / 9
    header, line = format_summaries([row]).splitlines()
    assert header.split() == ["task", "n", "strict", "%", "flexible", "%", "unread", "%", "seconds"]
    assert line.split()[:5] == ["arithmetic", "9", "11.1", "22.2", "66.7"]


def test_summary_of_a_run_without_items_has_no_shares(tmp_path):
    row = summarise(load_run(write_run(tmp_path / "empty", [])))
    assert (row["items"], row["strict"], row["flexible"], row["unread"]) == (0, None, None, None)
    assert format_summaries([row]).splitlines()[1].split() == ["gsm8k", "0", "–", "–", "–", "12.5"]


# ---------------------------------------------------------------- processes of their own


def start(model: Path, out: Path, *more: str, processes: int = 1) -> subprocess.Popen:
    launcher = ["accelerate.commands.launch", "--config_file", str(LAUNCH), "--num_processes", str(processes), "-m"]
    launch = [] if processes == 1 else ["-m", *launcher]
    module = ["-m", "delcore"] if processes == 1 else ["delcore"]
    command = ["evaluate", "--model", str(model), "--benchmark", "arithmetic", "--out", str(out), "--device", "cpu"]
    return start_python(*launch, *module, *command, *more)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_processes_record_what_one_does(tmp_path, model):
    for count in (1, 2):
        process = start(model, tmp_path / str(count), "--limit", "21", processes=count)
        out, err = end_python(process)
        assert process.returncode == 0, err
        assert out.count("arithmetic") == 1
    one, two = (read_run(tmp_path / count / "arithmetic") for count in ("1", "2"))
    assert two.records == one.records
    assert sorted(os.listdir(two.path)) == [HEADER, RECORDS]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_process_that_is_ended_keeps_its_answers_and_the_same_command_goes_on(tmp_path, model, number):
    more = ("--limit", "800", "--batch-size", "2")
    process = start(model, tmp_path / "run", *more)
    parts = tmp_path / "run" / "arithmetic" / "parts-0.jsonl"
    deadline = time.monotonic() + 120
    while not (parts.exists() and parts.stat().st_size > 2000) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    _, err = end_python(process)
    assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number)
    assert "Traceback" not in err
    assert ("the same command goes on" in err) == (number != signal.SIGKILL)
    begun = [line for line in parts.read_bytes().split(b"\n")[:-1]]
    assert 0 < len(begun) < 800
    again = start(model, tmp_path / "run", *more)
    _, err = end_python(again)
    assert again.returncode == 0, err
    assert f"{len(begun)} of them begun before" in err
    assert read_run(tmp_path / "run" / "arithmetic").finished

"""Run folders: what is kept when a run is cut short, and what is refused."""

import json
import os

import pytest

from delcore import InputError
from delcore.benchmarks import records as records_module
from delcore.benchmarks.records import PartsFile, drop_parts, find_runs, open_run, read_parts, spent_seconds, write_run
from delcore.benchmarks.saved_runs import HEADER, RECORDS, EvaluationRun, read_header, read_run
from delcore.benchmarks.scoring import make_record
from tests.benchmarks.test_scoring import ITEM, PROGRAM, TEXT

SETTINGS = {"limit": None, "template": "alpaca", "max_new_tokens": 64, "batch_size": 16, "run_programs": False}
HEAD = {
    **{"format": 1, "task": "gsm8k", "task_version": 1, "style": "cot", "model": "tiny", "model_source": "folder"},
    **{"model_fingerprint": "f00d", "settings": SETTINGS, "seed": 0, "versions": {"delcore": "0.1.0"}},
    **{"data_sha256": "cafe", "items": 2, "seconds": None},
}
LINES = [make_record({**ITEM, "index": i, "id": str(i)}, {"text": TEXT}) for i in range(2)]


def test_run_is_read_as_it_was_written(tmp_path):
    open_run(tmp_path / "run", HEAD)
    assert read_run(tmp_path / "run") == EvaluationRun(tmp_path / "run", HEAD, [])
    assert not read_run(tmp_path / "run").finished
    write_run(tmp_path / "run", {**HEAD, "seconds": 1.5}, LINES)
    run = read_run(tmp_path / "run")
    assert run.finished
    assert (run.header["seconds"], run.records) == (1.5, LINES)
    assert sorted(os.listdir(run.path)) == [HEADER, RECORDS]


# ---------------------------------------------------------------- parts

DONE = {**TEXT, "seconds": 0.5}
BROKEN = {**PROGRAM, "output": "line\nbreak\u2028", "seconds": 1}


def test_parts_of_all_processes_are_read_and_go_when_records_are_written(tmp_path):
    open_run(tmp_path, HEAD)
    for rank in range(2):
        with PartsFile(tmp_path, rank) as file:
            file.add(rank, "text", DONE)
            file.add(rank, "program", BROKEN)
    assert read_parts(tmp_path) == {rank: {"text": DONE, "program": BROKEN} for rank in (0, 1)}
    write_run(tmp_path, HEAD, LINES)
    drop_parts(tmp_path)
    assert read_parts(tmp_path) == {}


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_line_that_was_cut_is_dropped_and_written_over(tmp_path, cut):
    with PartsFile(tmp_path, 0) as file:
        file.add(0, "text", DONE)
        file.add(1, "text", DONE)
    path = tmp_path / "parts-0.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    assert list(read_parts(tmp_path)) == [0]
    with PartsFile(tmp_path, 0) as file:
        file.add(1, "text", DONE)
    assert read_parts(tmp_path) == {0: {"text": DONE}, 1: {"text": DONE}}
    assert path.read_bytes().count(b"\n") == 2


def test_line_is_on_its_way_to_the_disk_at_once(tmp_path):
    with PartsFile(tmp_path, 0) as file:
        file.add(7, "text", DONE)
        assert read_parts(tmp_path) == {7: {"text": DONE}}


def test_damaged_line_in_the_middle_costs_only_its_item(tmp_path):
    with PartsFile(tmp_path, 0) as file:
        for i in range(3):
            file.add(i, "text", DONE)
    path = tmp_path / "parts-0.jsonl"
    first, second, third = path.read_bytes().splitlines(keepends=True)
    for damaged in (second[:10] + b"\xff\n", b"\n", b"[" * 100_000 + b"\n"):
        path.write_bytes(first + damaged + third)
        assert list(read_parts(tmp_path)) == [0, 2]


@pytest.mark.parametrize(
    ("part", "change", "said"),
    [
        *[("text", {name: None}, f"`{name}` must be") for name in ("index", "tokens", "output", "finish", "seconds")],
        *[("program", {name: 3}, f"`{name}` must be str") for name in ("status", "printed", "detail", "prompt")],
        ("text", {"index": True}, "`index` must be int"),
        ("essay", {}, "`part` must be text or program"),
        ("program", {"status": ...}, "lacks `status`"),
        ("text", {"tokens": ...}, "lacks `tokens`"),
    ],
)
def test_part_that_was_changed_by_hand_is_refused_with_file_and_line(tmp_path, part, change, said):
    line = {"index": 1, "part": part, **(BROKEN if part == "program" else DONE), **change}
    line = {name: value for name, value in line.items() if value is not ...}
    whole = {"index": 0, "part": "text", **DONE}
    (tmp_path / "parts-3.jsonl").write_text(json.dumps(whole) + "\n" + json.dumps(line) + "\n")
    for read in (read_parts, spent_seconds):
        with pytest.raises(InputError, match=said) as refused:
            read(tmp_path)
        assert str(refused.value).startswith(f"{tmp_path / 'parts-3.jsonl'}, line 2")
        assert "\n" not in str(refused.value)


def test_processes_work_side_by_side_so_the_longest_tells_the_time(tmp_path):
    assert spent_seconds(tmp_path) == 0
    for rank, seconds in enumerate(([1.0, 2.0], [2.5])):
        with PartsFile(tmp_path, rank) as file:
            for index, one in enumerate(seconds):
                file.add(10 * rank + index, "text", {**TEXT, "seconds": one})
    assert spent_seconds(tmp_path) == 3.0


def test_file_that_another_run_removed_while_it_was_opened_is_no_place_to_write(tmp_path, monkeypatch):
    pytest.importorskip("fcntl", reason="there are no file locks")
    monkeypatch.setattr(records_module, "_lock", lambda _: (tmp_path / "parts-0.jsonl").unlink() or True)
    with pytest.raises(InputError, match="Another process is at work on"):
        PartsFile(tmp_path, 0)


def test_two_runs_do_not_write_into_one_folder(tmp_path):
    pytest.importorskip("fcntl", reason="there are no file locks")
    with PartsFile(tmp_path, 0), pytest.raises(InputError, match="Another process is at work on"):
        PartsFile(tmp_path, 0)
    with PartsFile(tmp_path, 0) as file, PartsFile(tmp_path, 1):
        file.add(0, "text", DONE)


def test_records_are_whole_or_as_they_were(tmp_path, monkeypatch):
    open_run(tmp_path, HEAD)
    write_run(tmp_path, HEAD, LINES)

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        write_run(tmp_path, HEAD, LINES[:1])
    assert read_run(tmp_path).records == LINES
    assert sorted(os.listdir(tmp_path)) == [HEADER, RECORDS]


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"task": "svamp"}, "task was gsm8k and is svamp"),
        ({"task_version": 2}, "task version was 1 and is 2"),
        ({"style": "pot"}, "--style was cot and is pot"),
        ({"model_fingerprint": "beef"}, "its model has other weights or another tokenizer"),
        ({"data_sha256": "0"}, "its questions or right answers were others"),
        ({"seed": 1}, "--seed was 0 and is 1"),
        ({"settings": {**SETTINGS, "max_new_tokens": 65}}, "--max-new-tokens was 64 and is 65"),
        (
            {"settings": {**SETTINGS, "limit": 2}, "items": 9, "data_sha256": "0"},
            "holds another run: --limit was left out and is 2. Name",
        ),
        (
            {"settings": {**SETTINGS, "dtype": "bfloat16"}, "model_fingerprint": "beef", "seed": 1},
            "another run: --dtype was left out and is bfloat16; --seed was 0 and is 1; its model has other weights",
        ),
    ],
)
def test_run_of_other_settings_is_refused_and_left_alone(tmp_path, change, words):
    open_run(tmp_path, HEAD)
    with pytest.raises(InputError) as refused:
        open_run(tmp_path, {**HEAD, **change})
    assert words in str(refused.value)
    assert "Name another folder" in str(refused.value)
    assert read_header(tmp_path) == HEAD


def test_same_run_goes_on_also_with_other_batches_and_versions(tmp_path):
    open_run(tmp_path, HEAD)
    open_run(tmp_path, HEAD)
    open_run(tmp_path, {**HEAD, "settings": {**SETTINGS, "batch_size": 4}, "versions": {"delcore": "0.2.0"}})


def test_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(InputError, match=r"holds other files and no evaluation\.json"):
        open_run(tmp_path, HEAD)


@pytest.mark.parametrize("found", [0, 2, "1", None])
def test_other_format_is_told_with_the_version_that_wrote_it(tmp_path, found):
    (tmp_path / HEADER).write_text(json.dumps({**HEAD, "format": found}))
    with pytest.raises(InputError, match=r"is of format .*reads format 1.*that wrote it \(0\.1\.0\), or run"):
        read_header(tmp_path)


def test_runs_are_found_in_their_folder_and_right_below_it(tmp_path):
    for name in ("b", "a"):
        open_run(tmp_path / "out" / name, HEAD)
    assert find_runs(tmp_path / "out" / "a") == [tmp_path / "out" / "a"]
    assert find_runs(tmp_path / "out") == [tmp_path / "out" / "a", tmp_path / "out" / "b"]
    with pytest.raises(InputError, match=r"holds no evaluation\.json, and neither does a folder in it"):
        find_runs(tmp_path)
    with pytest.raises(
        InputError, match=rf"There is no folder {tmp_path / 'out' / 'c'}. {tmp_path / 'out'} holds a, b"
    ):
        find_runs(tmp_path / "out" / "c")

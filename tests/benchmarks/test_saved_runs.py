"""Run folders that cannot be read are refused in one line; runs that differ are not compared."""

import json

import pytest

from delcore import InputError
from delcore.benchmarks.saved_runs import HEADER_FIELDS, check_comparable, load_run
from tests.benchmarks.runs_for_tests import header, record, records, write_run
from tests.benchmarks.test_scoring import PROGRAM


def test_run_is_loaded_in_the_order_of_its_items(tmp_path):
    lines = records("42", None, "1")
    run = load_run(write_run(tmp_path / "run", lines[::-1]))
    assert list(run.records) == lines
    assert (run.task, run.limit, run.model) == ("gsm8k", None, ("model-a", "a" * 64))


def test_run_without_items_is_a_run(tmp_path):
    assert load_run(write_run(tmp_path / "run", [])).records == []


def test_text_with_unusual_line_ends_stays_one_record(tmp_path):
    folder = write_run(tmp_path / "run", [])
    line = json.dumps(record(output="a\u2028b\x85c\x0cd"), ensure_ascii=False)
    (folder / "evaluation.json").write_text(json.dumps(header(1)))
    (folder / "records.jsonl").write_text(line, encoding="utf-8")
    assert load_run(folder).records[0]["output"] == "a\u2028b\x85c\x0cd"


def test_folder_that_is_none_or_lacks_a_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"holds no evaluation\.json"):
        load_run(tmp_path / "nowhere")
    folder = write_run(tmp_path / "run", records("42"))
    (folder / "records.jsonl").unlink()
    with pytest.raises(InputError, match="holds 0 of 1 items: it was stopped"):
        load_run(folder)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cut or no JSON object"),
        (b'{"format": 1', "cut or no JSON object"),
        (json.dumps(header(1, seconds=float("nan"))).encode(), "cut or no JSON object"),
        (b"[1]", "cut or no JSON object"),
        (b"[" * 100_000, "cut or no JSON object"),
        (b"\xff\xfe", "cannot be read"),
        (b'{"format": 2}', "is of format 2"),
        (b"{}", "is of format None"),
        *[
            (json.dumps({k: v for k, v in header(1).items() if k != name}).encode(), f"lacks `{name}`")
            for name in HEADER_FIELDS
        ],
        (json.dumps(header(1, seed="0")).encode(), "`seed` must be int"),
        (json.dumps(header(1, reader_version="1")).encode(), "`reader_version` must be int"),
        (json.dumps(header(1, settings={"limit": "5"})).encode(), "settings: `limit` must be int"),
        (json.dumps(header(1, settings=[])).encode(), "`settings` must be dict"),
        (json.dumps(header(True)).encode(), "`items` must be int"),
        (json.dumps(header(3)).encode(), "1 of 3 items"),
    ],
)
def test_header_that_is_none_is_refused(tmp_path, content, said):
    folder = write_run(tmp_path / "run", records("42"))
    (folder / "evaluation.json").write_bytes(content)
    with pytest.raises(InputError, match=said) as caught:
        load_run(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (json.dumps(record(1))[:-9], "line 2 is cut"),
        ("", "line 2 is cut"),
        ('{"index": ' + "9" * 5000 + "}", "line 2 is cut"),
        (json.dumps({k: v for k, v in record(1).items() if k != "flexible"}), "line 2 lacks `flexible`"),
        (json.dumps(record(1, tokens="5")), "`tokens` must be int"),
        (json.dumps(record(1, correct_strict=1)), "`correct_strict` must be bool"),
        (json.dumps(record(1, kind="essay")), "`kind` must be one of"),
        (json.dumps(record(1, strict=None, correct_strict=True)), "cannot be right"),
        (json.dumps(record(0)), "same `id`"),
        (json.dumps(record(0, id="other")), "same `index`"),
        (json.dumps(record(1, options="AB")), "line 2: `options` must be list"),
        (json.dumps(record(1, options=["a", 3])), "line 2: `options` must be a list of at most 10 texts"),
        (json.dumps(record(1, options=["a"] * 11)), "at most 10 texts"),
        (json.dumps(record(1, program="print(1)")), "line 2: `program` must be dict"),
        (json.dumps(record(1, program={"output": "print(1)"})), "line 2, program lacks `prompt`"),
        (json.dumps(record(1, program={**PROGRAM, "printed": None})), "line 2, program: `printed` must be str"),
        (json.dumps(record(1, program={**PROGRAM, "status": 0})), "line 2, program: `status` must be str"),
        (json.dumps(record(-1)), r"line 2: `index` must lie in \[0, 2\)"),
        (json.dumps(record(2)), r"line 2: `index` must lie in \[0, 2\)"),
    ],
)
def test_line_that_is_no_record_is_refused_by_its_number(tmp_path, line, said):
    folder = write_run(tmp_path / "run", records("42", "42"))
    (folder / "records.jsonl").write_text(json.dumps(record(0)) + "\n" + line + "\n")
    with pytest.raises(InputError, match=said) as caught:
        load_run(folder)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- what may be compared


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("task", {"task": "svamp"}),
        ("task_version", {"task_version": 2}),
        ("style", {"style": "pot"}),
        ("limit", {"settings": {"limit": 2}}),
        ("max_new_tokens", {"settings": {"limit": None, "max_new_tokens": 64}}),
        ("data_sha256", {"data_sha256": "e" * 64}),
    ],
)
def test_runs_that_differ_are_refused_by_the_field(tmp_path, field, change):
    lines = records("42", "1")
    first = load_run(write_run(tmp_path / "first", lines))
    second = load_run(write_run(tmp_path / "second", lines, **change))
    with pytest.raises(InputError, match=f"`{field}`") as caught:
        check_comparable(first, second)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "lines"),
    [
        ("items", records("42")),
        ("id", [record(0), record(1, id="item-2")]),
        ("gold", [record(0), record(1, gold="43")]),
    ],
)
def test_runs_on_other_items_are_refused_by_the_field(tmp_path, field, lines):
    first = load_run(write_run(tmp_path / "first", records("42", "1")))
    second = load_run(write_run(tmp_path / "second", lines))
    with pytest.raises(InputError, match=f"`{field}`"):
        check_comparable(first, second)


@pytest.mark.parametrize(
    ("versions", "shown"), [((1, 2), r"1 and 2"), ((1, None), "1 and unknown"), ((None, None), "unknown and unknown")]
)
def test_runs_of_other_readers_are_refused_with_the_remedy(tmp_path, versions, shown):
    runs = []
    for number, version in enumerate(versions):
        folder = write_run(tmp_path / str(number), records("42"), reader_version=version)
        if version is None:  # as before headers told it
            old = {key: value for key, value in header(1).items() if key != "reader_version"}
            (folder / "evaluation.json").write_text(json.dumps(old))
        runs.append(load_run(folder))
    with pytest.raises(InputError, match=rf"\(`reader_version` {shown}\)\. Score both with --rescore"):
        check_comparable(*runs)


def test_runs_of_other_models_batches_and_machines_may_be_compared(tmp_path):
    first = load_run(write_run(tmp_path / "first", records("42", "1")))
    changes = {
        "model": "b",
        "seconds": 1,
        "versions": {},
        "settings": {"limit": None, "max_new_tokens": 512, "batch_size": 4},
    }
    check_comparable(first, load_run(write_run(tmp_path / "second", records("1", "42"), **changes)))

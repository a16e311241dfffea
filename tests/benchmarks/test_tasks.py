"""The tasks: what is read off a row, from a file and from the hub; a file that is not as it should be is named."""

import json
import os
from pathlib import Path

import pytest

from delcore import InputError
from delcore.answers import KINDS, equal_answers, read_answer
from delcore.benchmarks import rows as rows_module
from delcore.benchmarks.prompts import program_prompt
from delcore.benchmarks.tasks import SEVEN, TASKS, fingerprint_items, load_task, parse_benchmarks
from delcore.templates import ALPACA
from tests.benchmarks.files_for_tests import GOLDS, HUB, LOCAL, write_all, write_rows

SIZES = {"gsm8k": 1319, "math500": 500, "svamp": 1000, "simuleq": 514, "aqua": 254, "sat": 220, "mmlu": 974}


def benchmark_folder() -> Path:
    if not (folder := os.environ.get("DELCORE_BENCHMARKS")):
        pytest.skip("DELCORE_BENCHMARKS is not set")
    return Path(folder)


@pytest.fixture
def hub(monkeypatch):
    """Answers `open_set` with our own rows; `asked` holds what was asked for."""
    asked = []

    def open_set(name, config, split, **_):
        asked.append((name, config, split))
        task = next(task for task in TASKS.values() if task.hub and task.hub.name == name)
        first = config in (None, task.hub.configs[0])
        return HUB[task.name] if first else []

    monkeypatch.setattr(rows_module, "open_set", open_set)
    return asked


# ---------------------------------------------------------------- reading rows


def test_declarations_are_whole():
    assert set(SEVEN) | {"math500", "arithmetic"} == set(TASKS)
    for name, task in TASKS.items():
        assert task.name == name
        assert task.kind in KINDS
        assert (task.kind == "choice") == bool(task.options)
        assert task.version >= 1


@pytest.mark.parametrize("name", LOCAL)
def test_task_reads_prompts_and_right_answers_off_a_file(tmp_path, name):
    write_rows(tmp_path, name)
    items = load_task(name, tmp_path)
    assert [item.gold for item in items] == GOLDS[name]
    for item in items:
        assert item.prompt == ALPACA.format(instruction=item.question)
        assert item.kind == TASKS[name].kind
        assert len(item.fields.get("options", ())) == len(TASKS[name].options)
    assert items[0].id == ("own-1" if name == "svamp" else f"{name}-0")


@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task.hub])
def test_task_reads_the_same_off_the_hub(tmp_path, hub, name):
    items = load_task(name)
    task = TASKS[name]
    assert hub == [(task.hub.name, config, task.hub.split) for config in task.hub.configs]
    assert [item.gold for item in items] == GOLDS[name]
    if name in LOCAL:
        write_rows(tmp_path, name)
        local = load_task(name, tmp_path)
        assert [item.question for item in items] == [item.question for item in local]
        assert fingerprint_items(items) == fingerprint_items(local)


def test_options_are_written_one_way_whatever_the_row():
    questions = {name: load_row(name) for name in ("aqua", "sat", "mmlu")}
    assert questions == {
        "aqua": "How far?\nAnswer Choices: (A) 1 km (B) 2 km (C) 3 (D) 4 (E) None of these",
        "sat": "What is 2 + 2?\nAnswer Choices: (A) 3 (B) 4 (C) 5 (D) 6",
        "mmlu": "24 = 2p?\nAnswer Choices: (A) p = 4 (B) 8 (C) p = 12 (D) 24",
    }


def load_row(name: str) -> str:
    return TASKS[name].read(LOCAL[name][1][0]).text


def test_story_of_svamp_ends_in_a_full_stop():
    assert load_row("svamp") == "A pack costs 9 dollars. How much are two?"


def test_program_is_asked_for_as_the_authors_ask():
    assert "How many? Let's write a program.\n\n### Response:" in program_prompt("How many?")


def test_heldout_additions_need_no_file():
    items = load_task("arithmetic", limit=3)
    assert [(item.prompt, item.gold) for item in items][0] == ("10 + 43 = ", "53")
    assert len({item.id for item in load_task("arithmetic")}) == len(load_task("arithmetic"))


def test_limit_takes_the_first_items_and_reads_no_further(tmp_path):
    file = write_rows(tmp_path, "gsm8k")
    file.write_text(file.read_text().splitlines()[0] + "\n{broken\n")
    assert [item.gold for item in load_task("gsm8k", tmp_path, 1)] == ["5"]


def test_items_of_other_right_answers_have_another_fingerprint(tmp_path):
    write_rows(tmp_path, "sat")
    before = fingerprint_items(load_task("sat", tmp_path))
    write_rows(tmp_path, "sat", [{**row, "answer": "C"} for row in LOCAL["sat"][1]])
    assert fingerprint_items(load_task("sat", tmp_path)) != before


# ---------------------------------------------------------------- names


def test_all_are_the_seven_and_math500_where_the_folder_has_no_more(tmp_path):
    assert parse_benchmarks("all") == list(SEVEN)
    assert parse_benchmarks("all", tmp_path) == list(SEVEN)
    write_all(tmp_path)
    assert parse_benchmarks("all", tmp_path) == [name if name != "math" else "math500" for name in SEVEN]
    (tmp_path / "math.jsonl").touch()
    assert parse_benchmarks("all", tmp_path) == list(SEVEN)


def test_names_are_taken_once_and_unknown_ones_refused():
    assert parse_benchmarks("sat, gsm8k,sat") == ["sat", "gsm8k"]
    for names in ("", "gsm8k,", "GSM8K", "all,sat"):
        with pytest.raises(InputError, match="`--benchmark` must name all or some of gsm8k, math"):
            parse_benchmarks(names)


# ---------------------------------------------------------------- files that are not as they should be

GSM = LOCAL["gsm8k"][1][0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        (json.dumps(GSM) + "\n\n" + json.dumps(GSM) + "\n", "line 2: empty"),
        (json.dumps(GSM) + "\n" + json.dumps(GSM)[:40] + "\n", "line 2: not valid JSON"),
        (json.dumps(GSM) + "\n" + json.dumps(GSM)[:40], "line 2: not valid JSON"),
        ("[1]\n", "line 1: must be a JSON object; got list"),
        ('{"Question": "How many?", "Answer": 5}\n', 'line 1: needs text in "answer"; its fields are Question, Answer'),
        ('{"question": "How many?", "answer": "5"}\n', 'line 1: the "answer" has no ####'),
        ('{"question": "How many?", "answer": "#### many"}\n', "line 1: the right answer 'many' cannot be read"),
        ('{"question": "How many?", "answer": "####"}\n', "line 1: the right answer '' cannot be read"),
        ('{"question": "  ", "answer": "#### 5"}\n', "line 1: the question is empty"),
        ('{"question": 5, "answer": "#### 5"}\n', 'line 1: needs text in "question"'),
        ('{"question": "\\ud800", "answer": "#### 5"}\n', "line 1: cannot be used"),
        ("\xff", "cannot be read as UTF-8"),
    ],
)
def test_bad_line_is_named_with_file_and_remedy(tmp_path, text, words):
    file = tmp_path / "gsm8k_test.jsonl"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError) as refused:
        load_task("gsm8k", tmp_path)
    message = str(refused.value)
    assert words in message
    assert str(file) in message
    assert "\n" not in message
    assert "etch" in message or "Is it the file of GSM8K?" in message


@pytest.mark.parametrize(
    ("name", "row", "words"),
    [
        ("svamp", {"Answer": True}, 'needs a number in "Answer"'),
        ("svamp", {"Answer": float("nan")}, "the right answer 'nan' cannot be read"),
        ("svamp", {"Answer": float("inf")}, "the right answer 'inf' cannot be read"),
        ("svamp", {"Body": None}, 'needs text in "Body"'),
        ("aqua", {"correct": "F"}, "the right answer 'F' cannot be read as a choice"),
        ("aqua", {"correct": "AB"}, "the right answer 'AB' cannot be read as a choice"),
        ("aqua", {"options": ["A)1"]}, 'needs a list of 5 texts in "options"'),
        ("sat", {"answer": "E"}, "the right answer 'E' cannot be read as a choice"),
        ("sat", {"question": "What is 2 + 2?"}, 'needs "Answer Choices:"'),
        ("mmlu", {"answer": 4}, "from 0 to 3; got 4"),
        ("mmlu", {"answer": True}, "from 0 to 3; got True"),
        ("mmlu", {"choices": ["a", "b", "c"]}, 'needs a list of 4 texts in "choices"'),
        ("math500", {"answer": "It is 5."}, r"the solution has no \boxed answer"),
        ("simuleq", {"answer": "fifteen or so"}, "the right answer 'fifteen or so' cannot be read"),
    ],
)
def test_bad_row_is_named_with_its_place(tmp_path, name, row, words):
    good = LOCAL[name][1]
    file = write_rows(tmp_path, name, [good[0], {**good[1], **row}])
    with pytest.raises(InputError) as refused:
        load_task(name, tmp_path)
    assert str(refused.value).startswith(f"{file}, {'line' if file.suffix == '.jsonl' else 'row'} 2: ")
    assert words in str(refused.value)


@pytest.mark.parametrize("text", ["", "{}", "[]", "5", "[{}", '[{"question": "q"}, 3]'])
def test_json_file_of_another_shape_is_refused(tmp_path, text):
    (tmp_path / "simuleq.json").write_text(text)
    with pytest.raises(InputError, match=r"simuleq\.json"):
        load_task("simuleq", tmp_path)


def test_ids_must_differ(tmp_path):
    write_rows(tmp_path, "svamp", [LOCAL["svamp"][1][0]] * 2)
    with pytest.raises(InputError, match="two rows of the same ID"):
        load_task("svamp", tmp_path)


def test_missing_file_or_folder_is_named_with_what_would_do(tmp_path):
    with pytest.raises(InputError, match=r"no gsm8k_test\.jsonl or gsm8k\.jsonl and no folder gsm8k\..*hf download"):
        load_task("gsm8k", tmp_path)
    with pytest.raises(InputError, match="there is no folder"):
        load_task("gsm8k", tmp_path / "none")
    write_rows(tmp_path, "math500")
    with pytest.raises(InputError, match="ask for --benchmark math500"):
        load_task("math", tmp_path)
    with pytest.raises(InputError, match=r"SimulEq has no set on the hub: name a folder that holds simuleq\.json"):
        load_task("simuleq")


def test_hub_out_of_reach_is_told_with_both_remedies(monkeypatch):
    datasets = pytest.importorskip("datasets", reason='datasets comes with pip install -e ".[eval]"')

    def fail(*_, **__):
        raise ConnectionError("Couldn't reach the hub")

    monkeypatch.setattr(datasets, "load_dataset", fail)
    monkeypatch.setattr("delcore._hub.hub_reachable", lambda: False)
    with pytest.raises(
        InputError,
        match=r"reached\. .*`hf download openai/gsm8k .*FOLDER/gsm8k`; or put gsm8k_test\.jsonl into FOLDER",
    ):
        load_task("gsm8k")


@pytest.mark.parametrize("limit", [0, -1])
def test_limit_below_one_is_refused(limit):
    with pytest.raises(InputError, match="`--limit` must be at least 1"):
        load_task("arithmetic", limit=limit)


# ---------------------------------------------------------------- the real files


@pytest.mark.parametrize("name", SIZES)
def test_real_file_is_read_whole_and_its_right_answers_equal_themselves(name):
    task, items = TASKS[name], load_task(name, benchmark_folder())
    assert len(items) == SIZES[name]
    for item in items if task.kind != "math" else items[::10]:
        stated = rf"\boxed{{{item.gold}}}" if task.kind == "math" else f"The answer is {item.gold}"
        options = {"options": task.options} if task.options else {}
        assert equal_answers(task.kind, read_answer(task.kind, stated, **options).strict, item.gold), item
        assert item.question in item.prompt


def test_downloaded_copy_of_a_hub_set_is_found_in_the_data_folder(tmp_path):
    """What the remedy for an unreachable hub makes is what `--data-dir` takes."""
    datasets = pytest.importorskip("datasets", reason='datasets comes with pip install -e ".[eval]"')
    copy = tmp_path / "gsm8k"
    for config in ("main", "socratic"):
        data = datasets.Dataset.from_list(LOCAL["gsm8k"][1] if config == "main" else LOCAL["gsm8k"][1][:1])
        (copy / config).mkdir(parents=True)
        data.to_parquet(str(copy / config / "test-00000-of-00001.parquet"))
    names = "".join(
        f"- config_name: {name}\n  data_files:\n  - split: test\n    path: {name}/test-*\n"
        for name in ("main", "socratic")
    )
    (copy / "README.md").write_text(f"---\nconfigs:\n{names}---\n")
    items = load_task("gsm8k", tmp_path)
    write_rows(tmp_path / "files", "gsm8k")
    assert items == load_task("gsm8k", tmp_path / "files")
    with pytest.raises(
        InputError, match=r"holds no svamp\.json or SVAMP\.json and no folder SVAMP.*hf download ChilleD/SVAMP"
    ):
        load_task("svamp", tmp_path)

"""Files, folders and hub sets as samples, and the errors of each told apart (case B53)."""

import builtins
import json
import sys
import time

import httpx
import pandas
import pytest

from delcore import _hub
from delcore.arithmetic import Sample
from delcore.errors import InputError
from delcore.models import byte_tokenizer
from delcore.sources import load_samples

ADD = {"question": "1+2?", "answer": "3"}
ADDED = Sample("1+2?\n", "3")
TALK = {"messages": [{"role": "user", "content": "1+2?"}, {"role": "assistant", "content": "3"}]}


@pytest.fixture
def datasets(tmp_path_factory, monkeypatch):
    """The package, with a cache of its own."""
    package = pytest.importorskip("datasets", reason='datasets comes with pip install -e ".[train]"')
    monkeypatch.setattr(package.config, "HF_DATASETS_CACHE", str(tmp_path_factory.mktemp("cache")))
    return package


def written(path, *rows) -> str:
    """A file in the form that its suffix says; text rows stand as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pandas.DataFrame(list(rows)).to_parquet(path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    else:
        lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
        path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def assert_refused(source, *words: str, **options) -> None:
    with pytest.raises(InputError) as caught:
        load_samples(str(source), **options)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("name", ["data.jsonl", "data.json", "data.parquet", "data", "data.txt"])
def test_file_of_each_kind_gives_its_rows_in_order(tmp_path, name):
    rows = [{"question": f"{i}+1?", "answer": str(i + 1), "id": i} for i in range(2500)]
    samples = load_samples(written(tmp_path / name, *rows))
    assert list(samples) == [Sample(f"{i}+1?\n", str(i + 1)) for i in range(2500)]
    assert samples[-1] == samples[2499]
    assert samples[3:5] == [samples[3], samples[4]]
    with pytest.raises(IndexError):
        samples[2500]


@pytest.mark.parametrize("name", ["data.jsonl", "data.json", "data.parquet"])
def test_file_of_messages_gives_their_last_turn(tmp_path, name):
    assert list(load_samples(written(tmp_path / name, TALK, TALK))) == [ADDED, ADDED]


def test_json_file_may_hold_lines(tmp_path):
    path = tmp_path / "data.json"
    path.write_text("\n".join([json.dumps(ADD)] * 2))
    assert list(load_samples(str(path))) == [ADDED, ADDED]


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\n\n  \n"])
def test_jsonl_may_have_blank_lines_a_byte_order_mark_and_any_letters(tmp_path, ends):
    row = {"question": "é 🙂?", "answer": "3\u2028\x85", "other": 1}
    path = tmp_path / "data.jsonl"
    for ascii_only in (True, False):
        text = ends.join([json.dumps(row, ensure_ascii=ascii_only)] * 2) + ends
        path.write_bytes(b"\xef\xbb\xbf" + text.encode())
        assert list(load_samples(str(path))) == [Sample("é 🙂?\n", "3\u2028\x85")] * 2


def test_carriage_return_within_a_jsonl_line_ends_no_line(tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_bytes(b'{"question": "1+2?",\r"answer": "3"}\r\n{"question": "1+2?", "answer": "3"}')
    assert list(load_samples(str(path))) == [ADDED, ADDED]


def test_rows_of_a_file_may_differ_in_kind(tmp_path):
    path = written(tmp_path / "data.jsonl", ADD, {"prompt": "2 + 2 = ", "response": "4"}, TALK)
    assert list(load_samples(path)) == [ADDED, Sample("2 + 2 = ", "4"), ADDED]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"prompt": "a", "response": ', "not valid JSON (Expecting value at column 29). Mend or drop it."),
        ("prompt,response", "not valid JSON"),
        ('{"prompt": "a", "response": "\\ud83d"}', "cannot be used"),
        ('{"prompt": ' + "1" * 5000 + "}", "cannot be used"),
        ("[" * 100_000, "cannot be used"),
        ('{"prompt": "a"}', "needs the text fields"),
        ("null", "needs the text fields"),
        ('{"messages": []}', '"messages" needs a turn of the assistant'),
    ],
)
def test_line_that_cannot_be_used_is_named_with_file_and_number(tmp_path, line, why):
    path = written(tmp_path / "data.jsonl", {"prompt": "a", "response": "b"}, "", line)
    assert_refused(path, f"{path}, line 3: ", why)


@pytest.mark.parametrize("name", ["data.json", "data.parquet"])
def test_row_that_cannot_be_used_is_named_with_file_and_number(tmp_path, name):
    rows = [ADD] * 1500 + [{"question": "1+2?", "answer": None}] + [ADD]
    path = written(tmp_path / name, *rows)
    assert_refused(path, f"{path}, row 1501: needs the text fields", "answer (nothing)")


def test_json_that_is_broken_is_named_with_its_place(tmp_path):
    path = tmp_path / "data.json"
    path.write_text('[\n{"prompt": "a",\n "response" "b"}]')
    assert_refused(path, f"{path}: not valid JSON (Expecting ':' delimiter at line 3, column 13)")
    path.write_text('{\n"prompt": "a", "response": "b"}')
    assert_refused(path, f"{path}, line 1: not valid JSON")
    path.write_text('[{"prompt": "a", "response": "\\udc00"}]')
    assert_refused(path, f"{path}: cannot be used")


def test_table_without_a_known_column_is_refused_with_those_it_has(tmp_path):
    path = written(tmp_path / "data.parquet", {"text": "a", "label": 1})
    assert_refused(path, "row 1: needs the text fields", "text (text), label (number)")


@pytest.mark.parametrize("content", ["", "\n\n", "   \n"])
def test_file_without_samples_is_refused(tmp_path, content):
    assert_refused(written(tmp_path / "data.jsonl", content), "data.jsonl holds no samples")
    assert_refused(written(tmp_path / "data.json"), "data.json holds no samples")


def test_file_that_is_missing_or_of_another_kind_is_refused(tmp_path):
    for name in ("none.jsonl", "none.json", "none.parquet", "none"):
        assert_refused(tmp_path / name, "`--data`", "there is no file or folder", name)
    for name in ("", "gsm8k", "a/b/c", "data/none.jsonl", "n" * 300, "a\0b", "/none/x:main", "./a/b"):
        assert_refused(name, "`--data`", "there is no file or folder")
    (tmp_path / "image.jsonl").write_bytes(b"\xff\xfe\x00\x80")
    assert_refused(tmp_path / "image.jsonl", "image.jsonl cannot be read as UTF-8")
    (tmp_path / "data.parquet").write_text("PAR1")
    assert_refused(tmp_path / "data.parquet", "data.parquet cannot be read as parquet")


def test_arithmetic_is_no_file():
    assert load_samples("arithmetic") is None


def test_template_applies_to_a_file_and_its_refusal_names_the_row(tmp_path):
    assert load_samples(written(tmp_path / "a.jsonl", ADD), template="alpaca")[0].prompt.endswith("\n\n### Response:")
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no system turn') }}{% endif %}"
        "{{ m['content'] }}<|end|>{% endfor %}"
    )
    path = written(tmp_path / "b.jsonl", TALK, TALK)
    options = {"template": "chat", "tokenizer": tokenizer}
    assert list(load_samples(path, **options)) == [Sample("1+2?<|end|>", "3<|end|>", rendered=True)] * 2
    system = {"messages": [{"role": "system", "content": "Be brief."}, *TALK["messages"]]}
    path = written(tmp_path / "c.jsonl", *[TALK] * 5, system)
    assert_refused(path, "c.jsonl, line 6: The chat template refuses it: no system turn", **options)
    assert_refused(path, "`--template`", "llama", template="llama")


# ---------------------------------------------------------------- folders, for real


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".parquet"])
@pytest.mark.parametrize("row", [ADD, TALK])
def test_folder_of_files_gives_their_rows(datasets, tmp_path, suffix, row):
    for i in range(3):
        written(tmp_path / "some" / f"part-{i}{suffix}", row, row)
    samples = load_samples(str(tmp_path / "some"))
    assert list(samples) == [ADDED] * 6
    assert samples[-1] == ADDED
    assert samples[4:] == [ADDED] * 2


def test_folder_of_splits_gives_the_one_asked_for(datasets, tmp_path):
    written(tmp_path / "train.jsonl", *[ADD] * 10)
    written(tmp_path / "test.jsonl", {"question": "2+2?", "answer": "4"})
    assert len(load_samples(str(tmp_path))) == 10
    assert list(load_samples(str(tmp_path), split="test")) == [Sample("2+2?\n", "4")]
    assert len(load_samples(str(tmp_path), split="train[:30%]")) == 3
    assert_refused(tmp_path, "has no split 'dev'; it has train, test. Name one with --split.", split="dev")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("gsm8ktrain.jsonl", "gsm8ktest.jsonl"), "mixes splits that would be read as one: gsm8ktest.jsonl"),
        (("main/train.jsonl", "socratic/train.jsonl"), "several sets that would be read as one: main/train.jsonl"),
        (("main/train/0.jsonl", "socratic/train/0.jsonl"), "several sets that would be read as one"),
        (("a/1.jsonl", "b/2.jsonl"), "several sets that would be read as one: a/1.jsonl, b/2.jsonl. Name the folder"),
    ],
)
def test_folder_that_mixes_splits_or_sets_is_refused(datasets, tmp_path, names, words):
    for name in names:
        written(tmp_path / name, ADD)
    assert_refused(tmp_path, f"`--data` folder {tmp_path}", words)


@pytest.mark.parametrize(
    ("names", "read", "said"),
    [
        (("a.jsonl", "b.jsonl"), 2, "the rows of 2 files are taken together: a.jsonl, b.jsonl."),
        (("train.jsonl", "extra.jsonl"), 1, "left out, as their names tell no split: extra.jsonl."),
        (("train.jsonl", "test.jsonl"), 1, None),
        (("train/0.jsonl", "test/0.jsonl"), 1, None),
        (("train-0.jsonl", "train-1.jsonl"), 2, None),
        (("latest.jsonl",), 1, None),
    ],
)
def test_files_of_a_folder_that_are_merged_or_left_out_are_told(datasets, tmp_path, names, read, said):
    for name in names:
        written(tmp_path / name, ADD)
    lines = []
    assert len(load_samples(str(tmp_path), say=lines.append)) == read
    assert lines == ([f"{tmp_path}: {said}"] if said else [])


def test_folder_that_changes_is_read_anew(datasets, tmp_path):
    written(tmp_path / "train.jsonl", ADD)
    assert len(load_samples(str(tmp_path))) == 1
    written(tmp_path / "train.jsonl", ADD, ADD)
    assert len(load_samples(str(tmp_path))) == 2


def test_folder_of_several_configurations_needs_one_by_name(datasets, tmp_path):
    written(tmp_path / "m.jsonl", ADD)
    written(tmp_path / "s.jsonl", ADD, ADD)
    configs = "".join(f"- config_name: {name}\n  data_files: {name[0]}.jsonl\n" for name in ("main", "socratic"))
    (tmp_path / "README.md").write_text(f"---\nconfigs:\n{configs}---\n")
    assert_refused(tmp_path, f"several configurations: main, socratic. Name one, as in `--data {tmp_path}:main`.")
    assert len(load_samples(f"{tmp_path}:socratic")) == 2
    assert_refused(f"{tmp_path}:other", "has no configuration 'other'; it has main, socratic.")


def test_folder_saved_to_disk_is_read(datasets, tmp_path):
    data = datasets.Dataset.from_list([ADD, ADD])
    data.save_to_disk(str(tmp_path / "one"))
    datasets.DatasetDict({"train": data, "test": data.select([0])}).save_to_disk(str(tmp_path / "two"))
    assert len(load_samples(str(tmp_path / "one"))) == 2
    assert len(load_samples(str(tmp_path / "two"), split="test")) == 1


def test_row_of_a_folder_that_cannot_be_used_is_named(datasets, tmp_path):
    written(tmp_path / "train.jsonl", *[ADD] * 1200, {"question": "1+2?"}, ADD)
    assert_refused(tmp_path, f"{tmp_path} (train), row 1201: needs the text fields")
    assert_refused(tmp_path, f"{tmp_path} (train[:1201]), row 1201", split="train[:1201]")


def test_line_of_a_folder_that_is_no_json_is_named_with_its_file(datasets, tmp_path):
    written(tmp_path / "a.jsonl", ADD, ADD)
    written(tmp_path / "b.jsonl", ADD, '{"question":')
    assert_refused(tmp_path, f"{tmp_path / 'b.jsonl'}, line 2: not valid JSON")
    written(tmp_path / "b.jsonl", "")
    written(tmp_path / "a.jsonl", "")
    assert_refused(tmp_path, "a.jsonl holds no samples. Remove it.")


def test_folder_without_readable_data_is_refused(datasets, tmp_path):
    assert_refused(tmp_path, "`--data` folder", "holds no .jsonl, .json or .parquet files")
    (tmp_path / ".cache").mkdir()
    written(tmp_path / ".cache" / "a.jsonl", ADD)
    assert_refused(tmp_path, "holds no .jsonl, .json or .parquet files")
    assert_refused("/", "`--data` folder / holds no")
    written(tmp_path / "a [1]" / "a.jsonl", ADD)
    assert_refused(tmp_path / "a [1]", "Folder names with [ ] * or ? hide them")


def test_folder_of_two_kinds_is_refused_rather_than_half_read(datasets, tmp_path):
    written(tmp_path / "a.jsonl", ADD)
    written(tmp_path / "b.parquet", ADD)
    assert_refused(tmp_path, "holds files of several kinds. Keep one kind, or name one file.")


def test_folder_with_a_script_is_refused_and_the_script_not_run(datasets, tmp_path):
    ran = tmp_path / "ran"
    written(tmp_path / "old" / "train.jsonl", ADD)
    (tmp_path / "old" / "old.py").write_text(f"open({str(ran)!r}, 'w')")
    assert_refused(tmp_path / "old", "brings a Python script to read it, which is not run")
    assert not ran.exists()


def test_reading_a_folder_leaves_the_package_as_it_was_and_says_nothing(datasets, tmp_path, capfd, caplog):
    def state():
        return (
            datasets.logging.get_verbosity(),
            datasets.are_progress_bars_disabled(),
            datasets.config.HF_HUB_OFFLINE,
        )

    before = state()
    written(tmp_path / "some" / "a.jsonl", ADD)
    load_samples(str(tmp_path / "some"))
    written(tmp_path / "bad" / "a.jsonl", ADD, "{")
    assert_refused(tmp_path / "bad", "not valid JSON")
    assert state() == before
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


# ---------------------------------------------------------------- the hub, patched


@pytest.fixture
def hub(datasets, monkeypatch):
    """Calls of `load_dataset`, answered with `hub.answer`; an exception is raised."""

    class Hub:
        calls, answer = [], None

    def load_dataset(*arguments, **options):
        Hub.calls.append((arguments, options, datasets.config.HF_HUB_OFFLINE))
        if isinstance(Hub.answer, Exception):
            raise Hub.answer
        return Hub.answer

    Hub.calls = []
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(_hub, "hub_reachable", lambda: True)
    return Hub


@pytest.mark.parametrize(
    ("source", "name", "config"),
    [
        ("openai/gsm8k", "openai/gsm8k", None),
        ("openai/gsm8k:main", "openai/gsm8k", "main"),
        ("TIGER-Lab/MathInstruct", "TIGER-Lab/MathInstruct", None),
    ],
)
def test_hub_set_is_asked_for_by_name_configuration_and_split(datasets, hub, source, name, config):
    hub.answer = datasets.Dataset.from_list([{**ADD, "other": [1]}] * 3)
    assert list(load_samples(source, split="test")) == [ADDED] * 3
    assert hub.calls == [((name, config), {"split": "test"}, False)]


def test_row_of_a_hub_set_that_cannot_be_used_is_named(datasets, hub):
    hub.answer = datasets.Dataset.from_list([ADD, {"question": "1+2?", "answer": None}])
    assert_refused("some/set:main", "some/set (train), row 2: needs the text fields")


def not_found(datasets, *, gated: bool):
    """As `datasets` raises it, with what the hub's client had raised."""
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    response = httpx.Response(401, request=httpx.Request("GET", "https://hub.example"))
    cause = (GatedRepoError if gated else RepositoryNotFoundError)("401", response=response)
    text = "is a gated dataset on the Hub." if gated else "doesn't exist on the Hub or cannot be accessed."
    error = datasets.exceptions.DatasetNotFoundError(f"Dataset 'some/set' {text}")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (lambda d: not_found(d, gated=True), ["some/set is gated: ask for access", "hf auth login"]),
        (lambda d: not_found(d, gated=False), ["There is no set 'some/set' on the hub", "Check the spelling"]),
        (
            lambda d: ConnectionError("Couldn't reach 'some/set' on the Hub (LocalEntryNotFoundError)"),
            ["the hub cannot be reached", "`hf download some/set --repo-type dataset --local-dir FOLDER`"],
        ),
        (lambda d: httpx.ReadTimeout("The read operation timed out"), ["the hub cannot be reached"]),
        (
            lambda d: ValueError(
                "Config name is missing.\nPlease pick one among the available configs: ['main', 'socratic']\n"
                "Example of usage:\n\t`load_dataset('some/set', 'main')`"
            ),
            ["some/set comes in several configurations: main, socratic. Name one, as in `--data some/set:main`."],
        ),
        (
            lambda d: ValueError(
                "There are multiple 'some/set' configurations in the cache: main, socratic\n"
                "Please specify which configuration to reload from the cache, e.g.\n\tload_dataset('some/set', 'main')"
            ),
            ["several configurations: main, socratic. Name one"],
        ),
        (
            lambda d: ValueError(
                "Couldn't find cache for some/set for config 'one'\nAvailable configs in the cache: ['main']"
            ),
            ["has no configuration 'one'; it has main."],
        ),
        (
            lambda d: RuntimeError("Dataset scripts are no longer supported, but found set.py"),
            ["brings a Python script to read it, which is not run"],
        ),
        (
            lambda d: d.exceptions.DatasetGenerationError("An error occurred\nwhile"),
            ["some/set cannot be read: Dataset"],
        ),
        (lambda d: OSError(28, "No space left on device"), ["some/set cannot be read: ", "No space left on device"]),
    ],
)
def test_failures_of_the_hub_are_told_apart(datasets, hub, error, words):
    hub.answer = error(datasets)
    assert_refused("some/set:one", *words)


def test_hub_that_cannot_be_reached_is_known_at_once_and_only_the_cache_is_asked(datasets, monkeypatch):
    monkeypatch.setattr(_hub, "hub_reachable", lambda: False)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    start = time.perf_counter()
    assert_refused("no-such-owner/no-such-set", "the hub cannot be reached", "give that folder")
    assert time.perf_counter() - start < 15, "the hub's client would try for half a minute"
    assert datasets.config.HF_HUB_OFFLINE is False


def test_file_that_is_missing_beside_others_is_no_problem_of_the_hub(datasets, tmp_path, monkeypatch):
    monkeypatch.setattr(_hub, "hub_reachable", lambda: False)
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "data" / "train.jsonl", ADD)
    assert_refused("data/trian", "there is no file or folder 'data/trian'", "data holds train.jsonl.")


def test_missing_package_is_named(tmp_path, monkeypatch):
    written(tmp_path / "a.jsonl", ADD)
    original = builtins.__import__

    def without(name, *arguments, **options):
        if name == "datasets":
            raise ImportError(name)
        return original(name, *arguments, **options)

    monkeypatch.delitem(sys.modules, "datasets", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    for source in (str(tmp_path), "some/set"):
        assert_refused(source, "needs a package more: pip install datasets")
    assert list(load_samples(str(tmp_path / "a.jsonl"))) == [ADDED]


# ---------------------------------------------------------------- is the hub worth asking


def test_hub_is_not_reachable_where_the_user_says_so_or_no_name_is_found(monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr("urllib.request.getproxies", dict)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(_hub.socket, "create_connection", lambda *_, **__: pytest.fail("asked the network"))
    assert not _hub.hub_reachable()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("urllib.request.getproxies", lambda: {"https": "proxy.example:3128"})
    assert _hub.hub_reachable()

    def unknown(*_, **__):
        raise OSError("Name or service not known")

    monkeypatch.setattr("urllib.request.getproxies", dict)
    monkeypatch.setattr(_hub.socket, "create_connection", unknown)
    assert not _hub.hub_reachable()


# ---------------------------------------------------------------- size


@pytest.mark.slow
@pytest.mark.parametrize("name", ["big.jsonl", "big/train.parquet", "big"])
def test_a_set_of_mathinstructs_size_loads_in_seconds(datasets, tmp_path, name):
    rows = [{"instruction": f"What is {i} + 1? " * 12, "output": f"It is {i + 1}. " * 30} for i in range(262_039)]
    written(tmp_path / ("big/train.parquet" if name == "big" else name), *rows)
    start = time.perf_counter()
    samples = load_samples(str(tmp_path / name))
    seconds = time.perf_counter() - start
    assert (len(samples), samples[-1].response) == (262_039, "It is 262039. " * 30)
    assert seconds < 60

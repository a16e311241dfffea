"""The command line: what it prints, what it refuses, and how it ends."""

import errno
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from delcore import TrainConfig, cli, load_model, models, prepare, train
from delcore.adapters import read_record
from delcore.losses import LOSSES
from delcore.models import EMBEDDED_NAMES
from tests import tokenizers_for_tests as tokenizers
from tests.models_for_tests import copy_of, save_tiny

COMMANDS = ("probe", "train", "sweep", "evaluate", "bench", "dashboard")


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("cli") / "tiny", context=256)


def run_cli(capsys, *argv) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command in this process."""
    try:
        code = cli.main([str(argument) for argument in argv])
    except SystemExit as leave:
        code = leave.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def assert_refused(capsys, *argv, words=()) -> str:
    """Exit code ≠ 0, nothing on standard output, and exactly one line on standard error."""
    code, out, err = run_cli(capsys, *argv)
    assert code not in (0, None)
    assert out == ""
    assert err.startswith("delcore")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    for word in words:
        assert str(word) in err
    return err


def subprocess_cli(*argv, **options) -> subprocess.CompletedProcess:
    """The same as a process of its own, as a shell would start it."""
    settings = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL, "timeout": 180}
    return subprocess.run([sys.executable, "-m", "delcore", *map(str, argv)], **{**settings, **options})


# ---------------------------------------------------------------- help


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_names_its_options(capsys, command):
    code, out, err = run_cli(capsys, command, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: delcore {command}")


@pytest.mark.parametrize("command", [("probe",), ("train",), ("sweep",), ("bench", "loss")], ids=" ".join)
def test_help_names_the_losses(capsys, command):
    _, out, _ = run_cli(capsys, *command, "--help")
    listed = [*EMBEDDED_NAMES] if command == ("probe",) else [*LOSSES]
    assert ", ".join(listed) in " ".join(out.split())


def test_help_names_each_command(capsys):
    code, out, _ = run_cli(capsys, "--help")
    assert code == 0
    assert all(command in out for command in COMMANDS)


def test_version_is_the_packages(capsys):
    import delcore

    assert run_cli(capsys, "--version")[:2] == (0, f"{delcore.__version__}\n")


def test_train_help_shows_each_default(capsys):
    _, out, _ = run_cli(capsys, "train", "--help")
    assert "(default: 0.0003)" in " ".join(out.split())
    for option in ("--loss", "--out", "--steps", "--seed", "--set", "--allow-low-coverage", "--data", "--model"):
        assert option in out


@pytest.mark.parametrize(
    "argv",
    [[], ["nonsense"], ["probe"], ["train"], ["train", "--loss", "del"], ["probe", "1", "--nonsense"]],
    ids=" ".join,
)
def test_wrong_usage_ends_with_a_message(capsys, argv):
    code, out, err = run_cli(capsys, *argv)
    assert (code, out) == (2, "")
    assert "error:" in err


@pytest.mark.parametrize("option", ["--steps", "--seed", "--learning-rate", "--alpha"])
def test_option_that_is_no_number_is_refused_by_name(capsys, tmp_path, option):
    code, _, err = run_cli(capsys, "train", "--loss", "del", "--out", tmp_path / "run", option, "many")
    assert code == 2
    assert option in err
    assert not (tmp_path / "run").exists()


def test_console_script_answers_without_loading_torch():
    code = "import sys; from delcore.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    run = subprocess.run(
        [sys.executable, "-c", code + "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr


# ---------------------------------------------------------------- probe


def test_probe_json_is_one_line_in_the_documented_form(capsys):
    code, out, err = run_cli(capsys, "probe", "12 + 35 = ", "--loss", "all", "--json")
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    record = json.loads(out)
    assert list(record) == ["prompt", "positions"]
    assert record["prompt"] == "12 + 35 = "
    (position,) = record["positions"]
    assert list(position) == ["index", "text", "place", "weight", "models"]
    assert (position["text"], position["place"], position["weight"]) == ("", None, None)
    assert list(position["models"]) == list(EMBEDDED_NAMES)
    for facts in position["models"].values():
        assert list(facts) == ["probabilities", "digit_mass", "entropy_nats", "expected_digit"]
        assert sum(facts["probabilities"]) == pytest.approx(1)


def test_probe_without_a_loss_asks_the_whole_family(capsys):
    _, plain, _ = run_cli(capsys, "probe", "1", "--json")
    _, named, _ = run_cli(capsys, "probe", "1", "--loss", "all", "--json")
    assert json.loads(plain) == json.loads(named)


@pytest.mark.parametrize("loss", EMBEDDED_NAMES)
def test_probe_of_one_loss_asks_that_model(capsys, loss):
    _, out, _ = run_cli(capsys, "probe", "1 + 1 = ", "--loss", loss, "--json")
    assert list(json.loads(out)["positions"][0]["models"]) == [loss]


def test_probe_all_positions_lists_the_prompts_digits(capsys):
    _, out, _ = run_cli(capsys, "probe", "3.1 + 2", "--loss", "base", "--all-positions", "--json")
    assert [position["text"] for position in json.loads(out)["positions"]] == ["3", "1", "2", ""]


def test_probe_table_is_readable(capsys):
    code, out, err = run_cli(capsys, "probe", "3. and 12 ", "--all-positions")
    assert (code, err) == (0, "")
    assert repr("3. and 12 ") in out
    assert "next token" in out
    assert "place 1, weight 4.0000" in out
    assert max(map(len, out.splitlines())) <= 110
    for name in EMBEDDED_NAMES:
        rows = re.findall(rf"^{name} .*", out, re.M)
        assert len(rows) == 4
        numbers = [float(number) for number in rows[0].split()[1:]]
        assert len(numbers) == 13
        assert sum(numbers[:10]) == pytest.approx(1, abs=0.006)
    columns = {line.index(" 0 ") for line in out.splitlines() if line.startswith("model")}
    assert len(columns) == 1


def test_probe_table_agrees_with_the_json(capsys):
    _, table, _ = run_cli(capsys, "probe", "1 + 1 = ", "--loss", "del")
    _, text, _ = run_cli(capsys, "probe", "1 + 1 = ", "--loss", "del", "--json")
    facts = json.loads(text)["positions"][0]["models"]["del"]
    numbers = next(line for line in table.splitlines() if line.startswith("del ")).split()[1:]
    expected = [*facts["probabilities"], facts["digit_mass"], facts["entropy_nats"], facts["expected_digit"]]
    assert [float(number) for number in numbers] == pytest.approx(expected, abs=0.0006)


def test_probe_of_a_folder_names_it(capsys, tiny_folder):
    code, out, _ = run_cli(capsys, "probe", "1", "--model", tiny_folder, "--json")
    assert code == 0
    assert list(json.loads(out)["positions"][0]["models"]) == ["tiny"]


@pytest.mark.parametrize("prompt", ["👨‍👩‍👧 has 3", 'המחיר הוא 12 ש"ח', "<b>7</b>", "-5 + 3", "a\x01b\x1b[31m"])
def test_probe_takes_any_text_and_prints_it_safely(capsys, prompt):
    code, out, err = run_cli(capsys, "probe", "--loss=base", "--", prompt)
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    code, out, _ = run_cli(capsys, "probe", "--loss=base", "--json", "--", prompt)
    assert json.loads(out)["prompt"] == prompt


@pytest.mark.parametrize("prompt", ["", "   ", "\n"])
def test_blank_prompt_is_refused(capsys, prompt):
    assert_refused(capsys, "probe", prompt, words=["prompt is empty", "12 + 35"])


def test_blank_prompt_is_refused_before_anything_is_loaded(capsys, monkeypatch):
    monkeypatch.setattr(models, "load_model", lambda *_, **__: pytest.fail("a model was loaded"))
    assert_refused(capsys, "probe", " ", "--model", "some/model")


def test_prompt_over_the_context_is_refused_with_the_numbers(capsys, tiny_folder):
    words = ["301 tokens", "limit is 256", "shorten it by 45"]
    assert_refused(capsys, "probe", "7" * 300, "--model", tiny_folder, words=words)


def test_huge_prompt_is_refused_by_the_family(capsys):
    assert_refused(capsys, "probe", "7 " * 50_000, words=["100,001 tokens", "shorten"])


@pytest.mark.parametrize("loss", ["DEL", "del_released", "nonsense", "all,base"])
def test_unknown_loss_is_refused_with_the_names(capsys, loss):
    assert_refused(capsys, "probe", "1", "--loss", loss, words=["`--loss`", loss, *EMBEDDED_NAMES])


def test_loss_with_model_is_refused(capsys, tiny_folder):
    assert_refused(capsys, "probe", "1", "--loss", "del", "--model", tiny_folder, words=["`--loss`", "`--model`"])


@pytest.mark.parametrize("command", [("probe", "1"), ("train", "--loss", "del", "--out", "unmade")])
@pytest.mark.parametrize(
    "name", ["/no/such/folder", "embedded:nonsense", "none.gguf", "org/no-such-model", "no such model", "n" * 300, ""]
)
def test_unknown_model_is_refused_and_named(capsys, tmp_path, monkeypatch, command, name):
    monkeypatch.setattr(models, "hub_reachable", lambda: False)
    monkeypatch.chdir(tmp_path)
    assert_refused(capsys, *command, "--model", name, words=[name.removeprefix("embedded:")[:40]])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", [("probe", "1"), ("train", "--loss", "del", "--out", "unmade")])
def test_folder_that_is_no_model_is_refused(capsys, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    assert_refused(capsys, *command, "--model", tmp_path, words=[tmp_path, "config.json"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"version https://git-lfs.github.com/spec/v1\n", b"junk"])
def test_model_with_a_broken_weight_file_is_refused(capsys, tiny_folder, tmp_path, content):
    broken = copy_of(tiny_folder, tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(content)
    assert_refused(capsys, "probe", "1", "--model", broken, words=[broken / "model.safetensors"])


@pytest.mark.parametrize("command", ["probe", "train"])
def test_model_without_ten_digit_tokens_is_refused(capsys, tmp_path, command):
    folder = save_tiny(tmp_path / "model", tokenizers.lookalike_tokenizer("012345678"))
    out = tmp_path / "run"
    argv = ["probe", "2"] if command == "probe" else ["train", "--loss", "del", "--out", out]
    assert_refused(capsys, *argv, "--model", folder, words=["digit 9", "Pick a model"])
    assert not out.exists()


def test_remote_code_flag_is_known_to_each_command_that_loads_a_model(capsys):
    for command in ("probe", "train"):
        assert "--trust-remote-code" in run_cli(capsys, command, "--help")[1]


def test_prompt_that_is_no_text_is_refused(capsys):
    """A shell may pass bytes that are no UTF-8; Python hands them over as lone surrogates."""
    assert_refused(capsys, "probe", "\udcff 12", "--loss", "base", words=["prompt"])


# ---------------------------------------------------------------- train


def train_argv(tiny_folder, out, *more) -> list:
    settings = ("--steps", 2, "--batch-size", 2, "--max-length", 128)
    return ["train", "--loss", "del", "--model", tiny_folder, "--out", out, *settings, *more]


def test_train_saves_a_run_that_probe_reads(capsys, tiny_folder, tmp_path):
    data = tmp_path / "data.jsonl"
    data.write_text('{"prompt": "1 + 1 = ", "response": "2"}\n')
    out = tmp_path / "run"
    argv = train_argv(tiny_folder, out, "--data", data, "--set", "place=none", "--set", "bce=conditional")
    code, stdout, err = run_cli(capsys, *argv, "--seed", 5, "--alpha", "0.2")
    assert (code, stdout) == (0, "")
    assert f"Saved {out}" in err
    assert "step 2/2" in err
    record = json.loads((out / "config.json").read_text())["delcore"]
    assert record["alpha"] == 0.2
    assert record["settings"]["options"] == {"place": "none", "bce": "conditional"}
    assert record["settings"]["seed"] == 5
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 2
    code, text, _ = run_cli(capsys, "probe", "1 + 1 = ", "--model", out, "--json")
    assert code == 0
    assert list(json.loads(text)["positions"][0]["models"]) == ["run"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("none", "none"),
        ("1.5", 1.5),
        ("3", 3),
        ("True", True),
        ("false", False),
        ("[1]", "[1]"),
        ("", ""),
        ("a=b", "a=b"),
    ],
)
def test_set_reads_numbers_truth_and_text(text, value):
    (found,) = cli.training.parse_options([f"name={text}"]).values()
    assert found == value
    assert type(found) is type(value)


BAD_TRAINING = [
    (["--loss", "nonsense"], ["nonsense", "ntl_was"]),
    (["--set", "nonsense=1"], ["nonsense", "place"]),
    (["--set", "place"], ["NAME=VALUE"]),
    (["--set", "place=sideways"], ["place", "sideways"]),
    (["--set", "integer_factor=x"], ["integer_factor"]),
    (["--loss", "mle", "--alpha", "1"], ["alpha"]),
    (["--alpha", "nan"], ["alpha"]),
    (["--steps", "0"], ["`--steps`"]),
    (["--batch-size", "-1"], ["`--batch-size`"]),
    (["--learning-rate", "0"], ["`--learning-rate`"]),
    (["--device", "toaster"], ["toaster"]),
    (["--data", "/no/such/file.jsonl"], ["/no/such/file.jsonl"]),
    (["--data", "/"], ["`--data`"]),
    (["--out", "/dev/null"], ["`--out`", "/dev/null"]),
    (["--out", "/proc/x/y"], ["`--out`", "/proc/x/y"]),
    (["--out", "n" * 300], ["`--out`"]),
]


@pytest.mark.parametrize(("more", "words"), BAD_TRAINING, ids=lambda value: " ".join(value)[:40])
def test_bad_training_input_is_one_line_and_leaves_nothing(capsys, tiny_folder, tmp_path, more, words):
    out = tmp_path / "run"
    assert_refused(capsys, *train_argv(tiny_folder, out, *more), words=words)
    assert not out.exists()


def test_bad_jsonl_line_is_refused_by_file_and_line(capsys, tiny_folder, tmp_path):
    data, out = tmp_path / "data.jsonl", tmp_path / "run"
    data.write_text('{"prompt": "1", "response": "2"}\n{"prompt": \n')
    assert_refused(capsys, *train_argv(tiny_folder, out, "--data", data), words=[data, "line 2"])
    assert not out.exists()


def test_out_that_exists_is_refused_and_untouched(capsys, tiny_folder, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    assert_refused(capsys, *train_argv(tiny_folder, tmp_path), words=["`--out`", tmp_path, "not empty"])
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_low_coverage_is_refused_and_allowed_with_the_flag(capsys, tmp_path):
    folder, out = save_tiny(tmp_path / "model", tokenizers.grouping_tokenizer()), tmp_path / "run"
    assert_refused(capsys, *train_argv(folder, out), words=["--allow-low-coverage"])
    assert not out.exists()
    code, _, err = run_cli(capsys, *train_argv(folder, out, "--allow-low-coverage"))
    assert code == 0
    assert "digits" in err
    assert "%" in err.split("step")[0]


def test_interrupt_before_the_first_step_ends_with_130(capsys, tiny_folder, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(prepare, "load_model", interrupted)
    code, _, err = run_cli(capsys, *train_argv(tiny_folder, tmp_path / "run"))
    assert (code, err) == (130, "delcore: interrupted.\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_training_saves_and_does_not_end_as_a_success(capsys, tiny_folder, tmp_path, monkeypatch, number):
    real = train.encode_step

    def stopped(job, step):
        os.kill(os.getpid(), number)
        return real(job, step)

    monkeypatch.setattr(train, "encode_step", stopped)
    out = tmp_path / "run"
    code, _, err = run_cli(capsys, *train_argv(tiny_folder, out))
    assert "Stopped after step 1" in err
    assert load_model(out)
    assert code == 128 + number


STRANGE_TRAINING = [
    (["--epochs", "1e308"], "--epochs"),
    (["--lora-rank", "9" * 30], "--lora-rank"),
    (["--learning-rate", "1e39"], "--learning-rate"),
    (["--eval-data", "/no/such/file.jsonl", "--eval-every", "1"], "--eval-data"),
    (["--recipe", ""], "--recipe"),
    (["--lora-rank", "2", "--lora-alpha", "9" * 400], "--lora-alpha"),
    (["--out", ""], "--out"),
    (["--data", " "], "--data"),
    (["--weight-decay", "1e300"], "--weight-decay"),
]


@pytest.mark.parametrize(("more", "word"), STRANGE_TRAINING, ids=[word for _, word in STRANGE_TRAINING])
def test_strange_training_input_is_one_line_that_names_the_option(capsys, tiny_folder, tmp_path, more, word):
    data = tmp_path / "data.jsonl"
    data.write_text('{"prompt": "1", "response": "2"}\n' * 9)
    code, out, err = run_cli(capsys, *train_argv(tiny_folder, tmp_path / "run", "--data", data, *more))
    assert (code, out) == (2, "")
    assert word in err.splitlines()[-1]


# ---------------------------------------------------------------- sweep and bench


def sweep_argv(tiny_folder, out, *more) -> list:
    settings = ("--steps", 3, "--batch-size", 2, "--max-length", 64, "--eval-samples", 4, "--device", "cpu")
    return ["sweep", "--losses", "mle,del", "--seeds", 2, "--model", tiny_folder, "--out", out, *settings, *more]


@pytest.mark.slow
def test_sweep_that_was_stopped_gives_the_table_of_one_that_was_not(capsys, tiny_folder, tmp_path, monkeypatch):
    code, whole, _ = run_cli(capsys, *sweep_argv(tiny_folder, tmp_path / "whole"))
    assert code == 0
    real = train.encode_step
    steps = iter(range(1, 99))

    def stop(job, step):
        if next(steps) == 5:  # the second step of the second run
            os.kill(os.getpid(), signal.SIGINT)
        return real(job, step)

    with monkeypatch.context() as patched:
        patched.setattr(train, "encode_step", stop)
        code, out, err = run_cli(capsys, *sweep_argv(tiny_folder, tmp_path / "cut"))
    assert (code, out) == (130, "")
    assert "Stopped after step 2" in err
    code, out, err = run_cli(capsys, *sweep_argv(tiny_folder, tmp_path / "cut"))
    assert (code, out) == (0, whole)
    assert err.count("Going on after step 2.") == 1
    assert err.count("step 3/3") == 3
    for name in ("table.json", "table.csv", "table.md"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_sweep_that_is_told_to_stop_ends_as_its_run_does(capsys, tiny_folder, tmp_path, monkeypatch):
    real = train.encode_step

    def stop(job, step):
        os.kill(os.getpid(), signal.SIGTERM)
        return real(job, step)

    monkeypatch.setattr(train, "encode_step", stop)
    code, _, err = run_cli(capsys, *sweep_argv(tiny_folder, tmp_path / "sweep"))
    assert code == 128 + signal.SIGTERM
    assert "Stopped after step 1" in err


@pytest.mark.parametrize("change", ["data", "length"])
def test_sweep_does_not_pass_over_runs_of_other_data_or_length(capsys, tiny_folder, tmp_path, change):
    data = tmp_path / "data.jsonl"
    data.write_text("".join(f'{{"prompt": "{n} = ", "response": "{n}"}}\n' for n in range(30)))
    argv = sweep_argv(tiny_folder, tmp_path / "sweep", "--data", data, "--seeds", 1, "--losses", "mle")
    assert run_cli(capsys, *argv)[0] == 0
    if change == "data":
        data.write_text(data.read_text().replace("29", "92"))
    code, _, err = run_cli(capsys, *argv, *(["--max-length", 12] if change == "length" else []))
    assert code == 2
    assert ("data_sha256" if change == "data" else "max_length") in err


@pytest.mark.parametrize(
    ("losses", "option", "words"),
    [
        ("del,mle", "tau=2", ["none of the losses takes it", "place"]),
        ("mle", "place=none", ["none of the losses takes it; they take no options"]),
        ("del,mle", "alpha=2", ["none of the losses takes it", "--alpha"]),
        ("del,mle", "place=nowhere", ["`place`"]),
    ],
)
def test_sweep_refuses_an_option_that_none_of_its_losses_takes_before_any_run(
    capsys, tiny_folder, tmp_path, losses, option, words
):
    argv = sweep_argv(tiny_folder, tmp_path / "sweep", "--losses", losses, "--set", option)
    assert_refused(capsys, *argv, words=words)
    assert not (tmp_path / "sweep").exists()


def test_option_of_a_sweep_goes_to_the_losses_that_take_it(capsys, tiny_folder, tmp_path):
    argv = sweep_argv(tiny_folder, tmp_path / "sweep", "--seeds", 1, "--set", "place=none")
    code, _, err = run_cli(capsys, *argv)
    assert code == 0
    assert "`place` is set for del; the other losses do not take it." in err
    options = {loss: read_record(tmp_path / "sweep" / f"{loss}-0")["settings"]["options"] for loss in ("mle", "del")}
    assert options == {"mle": {}, "del": {"place": "none"}}


@pytest.mark.slow
def test_bench_train_prints_a_table_of_ratios(capsys, tiny_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    argv = ["bench", "train", "--rounds", 1, "--steps", 3, "--model", tiny_folder, "--batch-size", 2]
    code, out, _ = run_cli(capsys, *argv, "--max-length", 64, "--device", "cpu")
    assert code == 0
    assert re.search(r"tokens per second, against Trainer +\d+\.\d\d", out)
    difference = re.search(r"less that of Trainer +([+-][\d.e+-]+) nats", out)
    assert abs(float(difference[1])) < 1e-3
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_bench_train_json_is_json_and_nothing_else(capsys, tiny_folder):
    argv = ["bench", "train", "--rounds", 1, "--steps", 3, "--model", tiny_folder, "--batch-size", 2, "--json"]
    _, out, _ = run_cli(capsys, *argv, "--max-length", 64, "--device", "cpu")
    json.loads(out)


@pytest.mark.slow
def test_bench_train_with_micro_batches_that_do_not_fit_compares_the_same_samples(capsys, tiny_folder):
    sizes = ["--batch-size", 8, "--micro-batch-size", 3, "--max-length", 64, "--device", "cpu"]
    code, out, _ = run_cli(capsys, "bench", "train", "--rounds", 1, "--steps", 3, "--model", tiny_folder, *sizes)
    difference = re.search(r"less that of Trainer +([+-][\d.e+-]+) nats", out)
    assert code == 2 or abs(float(difference[1])) < 1e-3


@pytest.mark.slow
def test_bench_train_measures_memory_in_processes_of_their_own(tiny_folder, monkeypatch):
    from delcore import bench_train

    monkeypatch.setattr(bench_train, "RUNS", {})  # nothing can run here; a fresh process has its own
    config = TrainConfig(loss="mle", out=Path("unused"), model=str(tiny_folder), batch_size=2, steps=3, device="cpu")
    (turn,) = bench_train.measure_memory(config, 1)
    assert set(turn) == {bench_train.OURS, bench_train.OTHER}
    assert all(figures["tokens_per_second"] > 0 for figures in turn.values())


# ---------------------------------------------------------------- as a process


def test_command_in_a_process_of_its_own_prints_json_and_nothing_else(tmp_path):
    run = subprocess_cli("probe", "12 + 35 = ", "--loss", "base", "--json", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads(run.stdout)["prompt"] == "12 + 35 = "


@pytest.mark.slow
def test_bad_input_in_a_process_of_its_own_is_one_line(tmp_path):
    run = subprocess_cli("probe", "1", "--model", tmp_path)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.count("\n") == 1
    assert run.stderr.startswith("delcore: ")


@pytest.mark.parametrize(
    "prompt", ["1", pytest.param("7 " * 300, marks=pytest.mark.slow)], ids=["within-a-buffer", "longer"]
)
def test_reader_that_leaves_early_as_head_does_causes_no_traceback(prompt):
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    process = subprocess.Popen(
        [sys.executable, "-m", "delcore", "probe", prompt, "--loss", "base", "--all-positions"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=buffered,
    )
    process.stdout.close()
    try:
        stderr = process.stderr.read().decode()
        process.wait(timeout=120)
    finally:
        process.kill()
        process.stderr.close()
    assert stderr == ""
    assert process.returncode in (0, 141)


@pytest.mark.parametrize("form", ["--json", "--all-positions"], ids=["json", "table"])
def test_output_in_an_encoding_without_the_prompts_letters_is_no_traceback(monkeypatch, form):
    """As on a Windows console, or under a POSIX locale."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert cli.main(["probe", "é 3 ", "--loss", "base", form]) == 0
    sys.stdout.flush()
    text = raw.getvalue().decode("ascii")
    if form == "--json":
        assert json.loads(text)["prompt"] == "é 3 "


@pytest.mark.parametrize("method", ["write", "flush"])
def test_output_that_cannot_be_written_is_one_line(capsys, monkeypatch, method):
    def no_space(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    stream = io.StringIO()
    setattr(stream, method, no_space)
    monkeypatch.setattr(sys, "stdout", stream)
    code = cli.main(["probe", "1", "--loss", "base"])
    assert code not in (0, None)
    assert re.fullmatch("delcore: .*No space left.*\n", capsys.readouterr().err)


# ---------------------------------------------------------------- dashboard


@pytest.fixture
def taken_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "0.0.0.0"])
def test_port_in_use_is_refused_with_the_remedy(capsys, taken_port, host):
    argv = ["dashboard", "--host", host, "--port", taken_port]
    assert_refused(capsys, *argv, words=[f"{host}:{taken_port}", "in use", "--port"])


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_port_out_of_range_is_refused(capsys, port):
    assert_refused(capsys, "dashboard", "--port", port, words=["`--port`", port])


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "a..b", "x" * 300])
def test_host_that_cannot_be_served_on_is_refused(capsys, host):
    assert_refused(capsys, "dashboard", "--host", host, "--port", free_port(), words=["--host"])


def test_dashboard_files_that_are_missing_are_refused(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(cli.dashboard, "__file__", str(tmp_path / "delcore" / "cli" / "dashboard.py"))
    assert_refused(capsys, "dashboard", "--port", free_port(), words=["missing"])


@pytest.mark.slow
def test_dashboard_starts_a_healthy_server(tmp_path):
    port = free_port()
    with open(tmp_path / "log", "w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "delcore", "dashboard", "--headless", "--port", str(port)],
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=tmp_path,
        )
    try:
        assert wait_for_health(process, port) == "ok"
        page = urllib.request.urlopen(f"http://localhost:{port}/", timeout=20).read().decode()
        assert "<html" in page.lower()
    finally:
        process.terminate()
        process.wait(timeout=60)
    log = (tmp_path / "log").read_text()
    assert "Traceback" not in log, log


def wait_for_health(process: subprocess.Popen, port: int, limit_s: float = 120) -> str:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        assert process.poll() is None, "the server has ended"
        try:
            with urllib.request.urlopen(f"http://localhost:{port}/_stcore/health", timeout=5) as answer:
                return answer.read().decode()
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    raise AssertionError(f"no health answer within {limit_s} s")


@pytest.mark.parametrize("option", ["alpha=0.2", "alpha=x", "vocab=5", "logits=1", "step_tokens=5", "embedding=1"])
def test_train_set_of_what_is_no_option_is_one_line(option, tmp_path, capsys):
    assert cli.main(["train", "--loss", "del", "--out", str(tmp_path / "run"), "--set", option]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert option.split("=")[0] in message
    assert not (tmp_path / "run").exists()
